/* rules.h: what a proxy's user has set, and what came of it: between its thread and its user, under the
 * mutex. */
#pragma once

#include "lk_mutex.h"
#include "proxy/proxy.h"

/** Directions, as indices. */
enum { LK_UP, LK_DOWN };

/** What is to become of a reply. */
typedef struct {
    lk_harm harm; /* 0: nothing */
    size_t bytes;
    bool goes_on; /* each further request of the kind meets it, too */
    lk_forge *forge;
    const char *head, *more;
} lk_fault;

/** What each request of a kind is answered with. */
typedef struct {
    char kind[64];
    lk_forge *forge; /* NULL: it isn't */
} lk_answer;

enum { LK_ANSWERS = 4 };

typedef struct lk_seen lk_seen;
/** A request that was passed. */
struct lk_seen {
    lk_seen *next;
    lk_message message; /* its bytes stand behind */
};

typedef struct {
    const lk_protocol *protocol; /* constant */
    lk_mutex mutex;
    bool hold[2] LK_GUARDED_BY(mutex);
    int64_t delay_ns[2] LK_GUARDED_BY(mutex);
    bool refuse LK_GUARDED_BY(mutex);
    bool drop_unasked LK_GUARDED_BY(mutex);
    bool end LK_GUARDED_BY(mutex);
    bool cut_all LK_GUARDED_BY(mutex); /* this and the next two: to be done once; nothing passes before */
    bool hold_old LK_GUARDED_BY(mutex);
    bool let_old LK_GUARDED_BY(mutex);
    lk_fault fault LK_GUARDED_BY(mutex);
    char kind[64] LK_GUARDED_BY(mutex);                 /* of the requests that count down to the fault */
    unsigned nth LK_GUARDED_BY(mutex);                  /* ... so many; 0: there is no fault to come */
    lk_answer answers[LK_ANSWERS] LK_GUARDED_BY(mutex); /* free: no forge */
    unsigned harmed LK_GUARDED_BY(mutex);
    unsigned dropped LK_GUARDED_BY(mutex);
    lk_seen *seen LK_GUARDED_BY(mutex);     /* all requests, the last one first */
    lk_seen *withheld LK_GUARDED_BY(mutex); /* the one that was withheld */
} lk_rules;

/** Notes a request; answers the fault that it is to meet. */
lk_fault lk_rules_meet_locked(lk_rules *r, const lk_message *request) LK_REQUIRES(r->mutex);

/** What makes the answer to a request; NULL: it is passed. */
lk_forge *lk_rules_answer_locked(const lk_rules *r, const lk_message *request) LK_REQUIRES(r->mutex);

/** Requests of that kind. */
unsigned lk_rules_count_locked(const lk_rules *r, const char *kind) LK_REQUIRES(r->mutex);

/** Forgets the requests. Nothing else uses it any more. */
void lk_rules_clear(lk_rules *r) LK_UNCHECKED;
