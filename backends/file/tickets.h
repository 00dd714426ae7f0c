/* tickets.h: a lock's queue on the disk: its directory, the tickets in it, and what those who hold the lock beside others say
 * of themselves. */
#pragma once

#include <dirent.h>
#include <limits.h>

#include "instance.h"

/* What names of queues in the lock directory begin with, and no lock file's does. */
#define LK_FILE_QUEUE_PREFIX ".queue-"
enum { LK_FILE_QUEUE_NAME = 48 }; /* that, and three numbers */

void lk_file_queue_name(char out[LK_FILE_QUEUE_NAME], const lk_file_id *id);
/* True if the name is one that lk_file_queue_name() makes. */
bool lk_file_queue_is_name(const char *name);
/* A queue's directory. -1: errno says why. */
int lk_file_queue_open_name(const lk_file *self, const char *name);
int lk_file_queue_open(const lk_file *self, const lk_file_id *id, bool create);

enum { LK_FILE_NAME_SIZE = NAME_MAX + 2 };
/* The name of a claim's ticket, behind a dot while it isn't in the queue; what follows its number is what it wants, and the
 * owner, where that fits. */
void lk_file_ticket_name(char out[LK_FILE_NAME_SIZE], const lk_file_claim *c);
/* What a ticket's name says: whose it is (empty, where that didn't fit), and what is wanted. */
void lk_file_ticket_read(const char *name, locker_waiter *out);
/* As memcmp: by the time of arrival. */
int lk_file_ticket_compare(const char *a, const char *b);
/* A FIFO's other end. -1: ENXIO: its owner is dead, or was stopped while making it. */
int lk_file_ticket_open(int queue, const char *name);

/* What a holder says of itself is in a record that has a name of its ticket's number, and another when it was broken. */
enum { LK_FILE_RECORD_NAME = 1 + 16 + 8 + 8, LK_FILE_RECORD_HELD = '=', LK_FILE_RECORD_BROKEN = '!' };
void lk_file_ticket_record(char out[LK_FILE_RECORD_NAME + 1], char kind, const char *ticket);

/* The tickets of a queue, first to last, and the records beside them. */
typedef struct {
    int queue; /* its directory; -1: `code` says why there is none */
    int code;
    int count;
    struct dirent **all;
    int record_count;
    struct dirent **record; /* by kind and number */
    bool half_made;         /* somebody is making a ticket */
} lk_file_tickets;

/* `queue`: its directory, which close closes; or -1, and errno. */
lk_file_tickets lk_file_tickets_list(int queue);
lk_file_tickets lk_file_tickets_of(const lk_file *self, const lk_file_id *id);
void lk_file_tickets_close(lk_file_tickets *t);
/* Where a ticket is, or would be. */
int lk_file_tickets_find(const lk_file_tickets *t, const char *ticket);
/* Whether the ticket's owner holds (or was broken), by its record of that kind. */
bool lk_file_tickets_has(const lk_file_tickets *t, char kind, const char *ticket);
/* Have the i-th's owner look again. False: that holds the lock, or has been told already; or it is nobody's. */
bool lk_file_tickets_poke(const lk_file_tickets *t, int i);
/* Tell those who were broken, as far as they live. 0, or an errno: somebody may not have been told. */
int lk_file_tickets_tell_broken(const lk_file_tickets *t);
/* Tell the first that waits behind the ticket; where `beside`, only if it doesn't want the lock for itself. */
void lk_file_tickets_poke_behind(const lk_file_tickets *t, const char *ticket, bool beside);
/* Remove the i-th, whose owner is dead, and what that said of itself. */
void lk_file_tickets_bury(const lk_file_tickets *t, int i);
