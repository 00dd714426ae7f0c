/* server_time.h: the server's clock. Its time is known from the handshake and asked for again now and then, along with other commands:
 * to ask for it alone would cost each grant a round trip.
 *
 * It is the clock by which leases end, and nobody says when it is set. But two answers prove what it has gained on ours: the server's
 * time between them, less ours from the sending of the first request to the receipt of the second answer. No delay of the network can
 * be the reason for more than that. */
#pragma once

#include "net/call.h"

/* One answer: the server's clock showed `us` at some moment from `sent` to `received`. */
typedef struct {
    unsigned number; /* of the request, from 1 on; 0: there is none */
    int64_t sent, received;
    int64_t us;
} lk_redis_time_sample;

/* What an answer proves beside the one before. */
typedef struct {
    unsigned
        before; /* the number of the request before: a lease that was confirmed before that was sent is concerned */
    int64_t span; /* from when that was sent to the receipt of the later one */
    int64_t
        gain; /* the server's clock has gained so much on ours in that, beyond clock_drift; 0: none is proved */
    int64_t loss; /* ... or is behind, likewise */
    int64_t
        back; /* so much of the gain is what it had lost before, but for leases confirmed since `lost` was sent */
    unsigned lost; /* the number of a request */
    int run;       /* what the answers before proved: lk_redis_server_time.run */
} lk_redis_time_proof;

typedef struct {
    lk_redis_shared *shared;
    int64_t drift;                 /* clock_drift, in percent; constant */
    atomic_int_least64_t ahead_us; /* the server's clock less ours; INT64_MIN: unknown; relaxed */
    atomic_int_least64_t allowed;  /* in percent: what leases allow for now, `drift` or more; relaxed */
    atomic_uint asks;              /* how often it was asked for; relaxed */
    bool asking;                   /* an answer is to come. Guarded by the mutex, as all below */
    int64_t sent;                  /* when it was asked for last; 0: never */
    unsigned era;                  /* of the server that `sample` is of */
    lk_redis_time_sample sample;   /* the one from which on is measured */
    int64_t behind;                /* what it lost, as was proved, and has not gained since */
    unsigned lost;                 /* the number of the request before that */
    int run;                       /* proofs in a row, 2 at most: of a gain, or, less than 0, of a loss */
} lk_redis_server_time;

void lk_redis_server_time_init(lk_redis_server_time *t, lk_redis_shared *shared, int64_t drift);
/* It was `us` at the local time `at`. */
void lk_redis_server_time_set_locked(lk_redis_server_time *t, int64_t us, int64_t at) LK_REDIS_LOCKED;
/* Take an answer, of the server of that era. Answer what it proves. */
lk_redis_time_proof lk_redis_server_time_learn_locked(lk_redis_server_time *t,
                                                      const lk_redis_time_sample *sample,
                                                      unsigned era) LK_REDIS_LOCKED;
/* What the server's clock shows at the local time `at`, in us: a little less rather than more. 0: unknown. */
uint64_t lk_redis_server_us(const lk_redis_server_time *t, int64_t at);
