/* holders.h: what those who hold a lock beside others say of themselves. */
#pragma once

#include "beside.h"
#include "tickets.h"

typedef struct {
    uint64_t token;
    int64_t since_ms;                 /* ms of the Unix epoch */
    int32_t permits, slot;            /* 0, and 0, of one that shares the lock */
    char owner[LOCKER_OWNER_MAX + 1]; /* empty: none */
    char name[LK_FILE_RECORD_NAME + 1];
} lk_file_holder;

/* Say that the claim holds, with the token and slot that it has. 0, or an errno. */
int lk_file_holder_write(int queue, const lk_file_claim *c);
/* What follows needs no descriptor: who has none left is still told whether it had the lock. */
/* It holds no more. 0: nobody had broken it. ESTALE: somebody had; else an errno: that can't be told. */
int lk_file_holder_end(const lk_file *self, const lk_file_claim *c);
/* Remove its record, whatever it says. */
void lk_file_holder_forget(const lk_file *self, const lk_file_claim *c);
/* Whether it was broken. */
bool lk_file_holder_is_broken(const lk_file *self, const lk_file_claim *c);
/* Break it. False: it has ended. */
bool lk_file_holder_break(int queue, const lk_file_holder *holder);
/* Whether the one of that record lives, and `fd`, the lock file, shows it. */
bool lk_file_holder_lives(int queue, const char *record, int fd);
/* Those who have records of that kind, as far as they live and `fd`, the lock file, shows it: malloc'ed. False: no memory. */
bool lk_file_holders_list(const lk_file_tickets *t, char kind, int fd, lk_file_holder **all, size_t *count);
/* The bytes of those who were broken, and live: the caller frees them. False: no memory. */
bool lk_file_holders_broken(const lk_file_tickets *t, int fd, lk_file_broken *out);
