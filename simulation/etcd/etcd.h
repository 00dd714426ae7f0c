/* etcd.h: a simulated etcd of one member, or of three, as 3.4.23 is: a state machine without threads, sockets, clock or randomness
 * of its own. Who uses it gives it the time, and says how long each step takes; what is decided alike happens alike.
 *
 * Its clients' bytes are HTTP/2, which libnghttp2's server makes of them (wire.h), with the messages that our driver knows. It lacks
 * what that doesn't use: KeepAlive, users, learners, snapshots, changes of membership, alarms. Where memory is short it aborts. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct lk_simetcd lk_simetcd;
typedef struct lk_simetcd_done lk_simetcd_done; /* state.h */

enum { LK_SIMETCD_MEMBERS_MAX = 3 };

/* A member's clock, by which it ticks and expires leases. */
typedef struct {
    int64_t offset_ns; /* not negative */
    int32_t ppm;       /* how much faster it runs */
} lk_simetcd_clock;

/* What takes time. */
typedef enum {
    LK_SIMETCD_HANDLE, /* from a request's arrival until it is looked at: in any order, even of one connection */
    LK_SIMETCD_LINK,  /* a message between two members; their order is kept */
    LK_SIMETCD_DISK,  /* a write to the log, or of the term */
    LK_SIMETCD_APPLY, /* from when it is known that an entry is committed until a member has it */
    LK_SIMETCD_READY, /* from when there is something to write or to send until that begins */
    LK_SIMETCD_THAW   /* of all that waited while a member stood still, until it is done */
} lk_simetcd_delay;

typedef struct {
    int members;
    int32_t tick_ms;        /* 0: 100; between heartbeats */
    int32_t election_ticks; /* 0: 10 */
    bool reads_late;        /* members that stood still may read what was before: as before 3.4.42 */
    lk_simetcd_clock clocks[LK_SIMETCD_MEMBERS_MAX];
    /* ns that it takes, at that member, or on the way to it. NULL: none */
    int64_t (*delay)(void *context, lk_simetcd_delay what, int member);
    uint64_t (*draw)(void *context, uint64_t below); /* NULL: 0 each time */
    /* There is output of a client's connection, or it is closed; this must not call anything here. NULL: nobody is told. */
    void (*on_answer)(void *context);
    /* A key is about to be removed because its lease has expired; likewise. */
    void (*on_ended)(void *context, int64_t create_revision);
    /* A client's request has come, and has that number; likewise. */
    void (*on_asked)(void *context, uint64_t request);
    /* A request was carried out, by the first member that does so, or a member has read; likewise. */
    void (*on_done)(void *context, const lk_simetcd_done *done);
    void *context;
} lk_simetcd_setup;

/* All members run, and have no data. Time is 0. */
lk_simetcd *lk_simetcd_new(const lk_simetcd_setup *setup);
/* Its clients' connections have to be freed before. NULL is allowed. */
void lk_simetcd_free(lk_simetcd *e);

/* Have it be that time: whatever is due until then is done, in order. */
void lk_simetcd_advance(lk_simetcd *e, int64_t now_ns);
int64_t lk_simetcd_now(const lk_simetcd *e);
/* When something is due next. */
int64_t lk_simetcd_due(const lk_simetcd *e);

/* SIGSTOP: it does nothing; what is sent to it waits. */
void lk_simetcd_stop(lk_simetcd *e, int member);
void lk_simetcd_continue(lk_simetcd *e, int member);
/* It ends. written: what is being written to its disk gets there, as when a process is killed; else it is lost. */
void lk_simetcd_kill(lk_simetcd *e, int member, bool written);
/* ... and starts again, with its data or with none. */
void lk_simetcd_start(lk_simetcd *e, int member, bool with_data);
/* What one member sends another waits, or goes on. */
void lk_simetcd_clog(lk_simetcd *e, int from, int to, bool clogged);
/* What is on the way between two is lost. */
void lk_simetcd_break(lk_simetcd *e, int one, int other);
/* A member's disk writes nothing, or does again. */
void lk_simetcd_freeze_disk(lk_simetcd *e, int member, bool frozen);
/* Have what is older than so many revisions forgotten; a member's leader is asked. False: there is none, or nothing. */
bool lk_simetcd_forget(lk_simetcd *e, int64_t revisions);

/* The member that leads, of the latest term; it may not know yet that it doesn't any more. -1: none. */
int lk_simetcd_leader(const lk_simetcd *e);
/* Its term; 0: there is none. */
uint64_t lk_simetcd_term(const lk_simetcd *e);
/* Whether it runs, isn't stopped and knows a leader. */
bool lk_simetcd_serves(const lk_simetcd *e, int member);
/* A key that the leader has, or that there is no leader; false: nothing. Leases end by themselves. */
bool lk_simetcd_left(const lk_simetcd *e, char *text, size_t room);
