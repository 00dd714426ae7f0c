/* instrument.h: parts of core for test tools, in addition to driver.h. They are hooks for a clock that is moved by hand, and
 * drivers that stand before other drivers. The mock and the fault driver use them. As unstable as driver.h. */
#ifndef LOCKER_INSTRUMENT_H
#define LOCKER_INSTRUMENT_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Callbacks for a clock that is moved by hand. They report which calls sleep, so the clock knows when all threads sleep.
 * Core calls them with its mutex held. Each gets locker_clock.context. Each may be NULL. */
struct locker_clock_hooks {
    /** Called before a call waits for this claim. locker_clock.wait follows at once, with the same mutex held. */
    void (*waits)(void *context, const locker_claim *claim);
    /** Called in place of pthread_cond_signal(), to wake up a call in locker_clock.wait. */
    void (*signal)(void *context, pthread_cond_t *cond);
    /** Called at the end of an application's call (locker_lock(), ...). The clock then no longer waits for this thread. */
    void (*done)(void *context);
};

/** The part of a driver's table that makes the driver a decorator: it stands before another driver. Core looks for decorators
 * among the built-in drivers, and never calls a decorator's own operations. */
struct locker_decorator {
    /** Return a table for both drivers; NULL: not possible. `inner` is the driver of SCHEME in `NAME+SCHEME:`, where NAME is
     * the decorator's first scheme. If a driver has the whole `NAME+SCHEME` as a scheme, core takes that driver instead. The
     * table accepts the parameters of `inner`, and has the schemes of `inner`, each after `NAME+`. The table lives as long as
     * the process. The same `inner` gets the same table. */
    const locker_driver *(*decorate)(const locker_driver *inner);
};

#ifdef __cplusplus
}
#endif
#endif
