/*
 * alone.h: the driver alone, called as core calls it, with a clock that a test puts ahead: so a test has the
 * order of threads that is unlucky. Nothing is read but in a test's own calls.
 */
#pragma once

#include <pthread.h>
#include <stdatomic.h>

#include <locker/driver.h>

#include "expect.h"
#include "test_redis.h"

extern const locker_driver lk_redis_driver;

enum { LK_CLAIM_SIZE_AT_MOST = 512 };

/** A claim with the driver's bytes behind it, and what core was told of it. */
typedef struct {
    locker_claim claim; /* the first member: what core is told of is ours */
    _Alignas(16) char data[LK_CLAIM_SIZE_AT_MOST];
    atomic_int wakes, extended, lost;
    int64_t until[4]; /* what the first extensions said */
    atomic_int shortened;
    int64_t at_most; /* what the last of these said */
} lk_asker;

/** A locker whose core sees to nothing: it gives the driver its configuration, and ends it. */
typedef struct {
    locker *l;
    void *self;
    atomic_int_least64_t ahead; /* of the system's clock */
    atomic_int lost, found;     /* how often the server was out of reach, and there again */
    atomic_int attends;         /* how often dispatch was asked for */
    char told[512];             /* the last warning */
    pthread_t tester;
    atomic_int_least64_t longest; /* of the waits of the driver's own thread that have an end */
    atomic_int_least64_t until;   /* ... and the end of the latest */
    atomic_bool ended;            /* lk_alone_end() has closed the locker */
    atomic_int late;              /* the driver's calls of core's clock and services since then */
} lk_alone_locker;

extern lk_alone_locker lk_alone;

/** Opens it at hosts, each with its port, or at the one on this port; `query` stands behind the others. */
void lk_alone_begin_at(const char *hosts, const char *query);
void lk_alone_begin(int port, const char *query);
void lk_alone_begin_cluster(const char *hosts);
/** Opens it by Sentinels: `hosts` has them with their ports, a slash, and the master's name. */
void lk_alone_begin_sentinels(const char *hosts, const char *query);
void lk_alone_end(void);

/** By the clock that is put ahead. */
int64_t lk_alone_now(void);

/** All that was asked for is answered when this is. */
void lk_alone_ping(void);

/** The keeper has its turns, until core is told. */
void lk_require_told(atomic_int *count, const char *what);
/** One of them, for lk_require(); `context` is the count. */
bool lk_is_told(void *context);

locker_claim *lk_asker_claim(lk_asker *asker);

/** A claim that acquire has not seen. */
void lk_asker_make(lk_asker *asker, const char *key);

/** An attempt that may take so long, or LK_TEST_PATIENCE_MS; the last with a claim made before it. */
locker_status lk_asker_ask_for(lk_asker *asker, int64_t patience);
locker_status lk_asker_ask(lk_asker *asker);
locker_status lk_asker_come(lk_asker *asker, const char *key);

/** Another has the lock: it stands in the queue, and hears. */
void lk_asker_enrol(lk_asker *asker, lk_server *server, const char *key);

/** It hears from the server from here on. A share that is taken before may be renewed at any later moment, when it begins to. */
void lk_alone_hear(lk_server *server);

void lk_asker_give(lk_asker *asker);
locker_status lk_asker_pass(lk_asker *from, lk_asker *to, const char *key);
void lk_asker_renew(lk_asker *asker);

/** The first of the queue, as it stands there. */
void lk_read_member(lk_server *server, const char *key, char member[256], char instance[33], char value[33]);

/** A server that has what others say it has: somebody's lock, and a counter. */
void lk_start_another(lk_server *server, const char *key);
