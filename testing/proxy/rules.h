/* rules.h: what a proxy's user has set, and what came of it: between its thread and its user, under the
 * mutex. */
#pragma once

#include <pthread.h>

#include "proxy/proxy.h"

/** Directions, as indices. */
enum { LK_UP, LK_DOWN };

/** What is to become of a reply. */
typedef struct {
    lk_harm harm; /* 0: nothing */
    size_t bytes;
    lk_forge *forge;
    const char *head, *more;
} lk_fault;

/** A request that was passed. */
typedef struct lk_seen {
    struct lk_seen *next;
    lk_message message; /* its bytes stand behind */
} lk_seen;

typedef struct {
    pthread_mutex_t mutex;
    const lk_protocol *protocol;
    bool hold[2];
    int64_t delay_ns[2];
    bool refuse, drop_unasked, end;
    bool cut_all, hold_old, let_old; /* to be done once; nothing passes before */
    lk_fault fault;
    char kind[64]; /* of the requests that count down to the fault */
    unsigned nth;  /* ... so many; 0: there is no fault to come */
    unsigned harmed, dropped;
    lk_seen *seen, *withheld; /* all requests, the last one first; the one that was withheld */
} lk_rules;

/** Notes a request; answers the fault that it is to meet. The caller holds the mutex, as for the others. */
lk_fault lk_rules_meet(lk_rules *r, const lk_message *request);

/** Requests of that kind. */
unsigned lk_rules_count(const lk_rules *r, const char *kind);

/** Forgets the requests. */
void lk_rules_clear(lk_rules *r);
