/* flight.h: an operation on its way to the service and back: whether the script lets it go wrong, how long it
 * takes, and its record. */
#pragma once

#include "internal.h"

/* One operation on its way. */
typedef struct {
    lk_mock_host *host;
    locker_claim *claim; /* NULL: it is about no claim */
    locker_mock_call call;
    int64_t asked;         /* ns */
    int64_t until;         /* the caller waits no longer */
    locker_fault fault;    /* what goes wrong; zero: nothing */
    bool arrives;          /* the service hears of it and does it */
    bool silent;           /* no answer comes */
    bool late;             /* none came in time */
    locker_status refusal; /* when it doesn't arrive, and isn't silent */
} lk_mock_flight;

/** Ask the script what becomes of the operation. key NULL: it has none; claim NULL: it is about none. */
lk_mock_flight lk_mock_take_off_locked(locker_mock *mock, lk_mock_host *host, locker_op op, const char *key,
                                       locker_claim *claim, int64_t until) LK_REQUIRES(mock->mutex);

/** Wait for the answer to travel (sleep.c). `unanswered` is what the operation says when none comes in
 * time. */
locker_status lk_mock_travel(locker_mock *mock, lk_mock_flight *f, locker_status status,
                             locker_status unanswered, bool *interrupted)
    LK_EXCLUDES(mock->mutex, mock->clock.mutex);

/** Record it. Returns status. */
locker_status lk_mock_land_locked(locker_mock *mock, lk_mock_flight *f, locker_status status)
    LK_REQUIRES(mock->mutex);

/** Fill the error, but for OK and BUSY. Returns status. */
locker_status lk_mock_explain(const lk_mock_flight *f, locker_status status, locker_error *err);

/** The host is out of reach from now on. */
void lk_mock_cut_locked(locker_mock *mock, lk_mock_host *host) LK_REQUIRES(mock->mutex);
