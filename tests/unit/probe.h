/*
 * probe.h: a driver of one key, whose operations a test stands inside: each calls the test's hook, if there
 * is one, which can hold it up at a gate, call services, and choose the answer. It counts, and notes when two
 * operations are inside with one claim at once. Its clock is moved by hand, and wakes nobody.
 */
#pragma once

#include <stdatomic.h>

#include <locker/driver.h>

#include "expect.h"
#include "gate.h"

enum { PROBE_TTL_MS = 9000 };

typedef struct probe probe;
/* Runs inside the operation, after what the driver does itself; answers what the operation is to answer. */
typedef locker_status probe_hook(probe *p, locker_claim *claim, locker_status status);

/* What the driver keeps in a claim. */
typedef struct {
    atomic_int inside; /* operations but interrupt */
    int attempts;      /* since it came as a new one */
} probe_claim;

struct probe {
    const locker_services *svc;
    locker_driver driver;
    locker_clock clock;
    _Atomic int64_t now;
    bool real_time;        /* the system's clock instead */
    pthread_mutex_t mutex; /* guards holder */
    const locker_claim *holder;
    probe_hook *acquire, *pass, *renew, *withdraw, *release, *interrupt;
    int64_t (*dispatch)(probe *p);
    void (*waited)(probe *p, pthread_mutex_t *mutex); /* a call has slept; core's mutex is held */
    lk_gate entered, leave;                           /* for hooks */
    int fd;                                           /* eventfd: the driver's descriptor; -1: none */
    atomic_int acquires, passes, renews, withdraws, releases, interrupts;
    atomic_int overlaps;         /* two operations met on a claim */
    atomic_int leftovers;        /* a new claim whose bytes were not zero */
    atomic_uint mode;            /* the hooks' own */
    locker_claim *_Atomic claim; /* likewise */
};

/* Fills in a driver with leases of PROBE_TTL_MS, one contender a key, pass and renew; hooks and `driver` may
 * be changed before probe_open(). */
void probe_init(probe *p);
locker *probe_open(probe *p);
/* The same, with options of the test's own. */
locker *probe_open_with(probe *p, locker_driver_options *o);
/* Closes, and checks that no operations met, and that all was let go of. */
void probe_end(probe *p, locker *l);

/* A hook for any operation: opens `entered`, waits for `leave`. */
locker_status probe_stands(probe *p, locker_claim *claim, locker_status status);

void probe_advance(probe *p, int64_t ms);
