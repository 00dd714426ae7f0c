/* instrument.h: parts of core for test tools, in addition to driver.h. One part is a set of hooks for a clock that a
 * test moves by hand. The other part is the decorator: a driver that stands before another driver. The mock and the
 * fault driver use these parts. This interface is as unstable as driver.h. */
#ifndef LOCKER_INSTRUMENT_H
#define LOCKER_INSTRUMENT_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** Callbacks for a clock that a test moves by hand. By these callbacks, core reports sleeping calls to the clock. So
 * the clock knows when all threads sleep. Core holds its mutex while a callback runs. Each callback gets
 * locker_clock.context. Each callback may be NULL. */
struct locker_clock_hooks {
    /** Called just before a lock call sleeps in locker_clock.wait. `claim` is the lock call's claim. Immediately after
     * this callback, core calls locker_clock.wait. Core does not unlock its mutex in between. */
    void (*waits)(void *context, const locker_claim *claim);
    /** Called in place of pthread_cond_signal(), to wake up a call in locker_clock.wait. */
    void (*signal)(void *context, pthread_cond_t *cond);
    /** Called at the end of an application's call, such as locker_lock(). From then on, the clock does not wait for the
     * call's thread. */
    void (*done)(void *context);
};

/** The part of a driver's table that makes the driver a decorator, which stands before another driver. Core searches the
 * built-in drivers for decorators. Core never calls a decorator's own operations. */
struct locker_decorator {
    /** Return the table of a driver that combines the decorator with the driver `inner`. NULL: the decorator cannot
     * make this table. Core calls this function to open a URI `NAME+SCHEME:...`. NAME is the decorator's first scheme,
     * and `inner` is the driver of SCHEME. If a driver has the whole `NAME+SCHEME` as a scheme, core uses that driver
     * instead. The new driver accepts the parameters of `inner`. Its schemes are the schemes of `inner`, each with the
     * prefix `NAME+`. The table lives as long as the process. Each call with the same `inner` returns the same table. */
    const locker_driver *(*decorate)(const locker_driver *inner);
};

#ifdef __cplusplus
}
#endif
#endif
