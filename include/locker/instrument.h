/* instrument.h: what instruments of tests need of core beside driver.h: a clock that is moved by hand, and a driver
 * that stands before another one. The mock and the fault driver are made of it. It promises as little stability as driver.h. */
#ifndef LOCKER_INSTRUMENT_H
#define LOCKER_INSTRUMENT_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What a clock that is moved by hand is told of who sleeps, so that it knows when all rest. Called with core's mutex held;
 * each gets locker_clock.context. Each may be NULL. */
struct locker_clock_hooks {
    /** Core will have a call wait for this claim: locker_clock.wait follows at once, with the same mutex held. */
    void (*waits)(void *context, const locker_claim *claim);
    /** In place of pthread_cond_signal(): core wakes a call that is in locker_clock.wait. */
    void (*signal)(void *context, pthread_cond_t *cond);
    /** A call of the application's thread (locker_lock, ...) is over: what it does from here on is its own affair. */
    void (*done)(void *context);
};

/** What makes a driver a decorator, which stands before another one. Core shows it the driver whose scheme stands behind the
 * plus in `NAME+SCHEME:`, NAME being the decorator's first scheme. It answers a table for both, which lives as long as the
 * process, is the same when it is asked again, and takes the other one's parameters and schemes, each behind `NAME+`;
 * NULL: it can't. A decorator's own operations are never called. A scheme that a driver has as a whole comes first. */
struct locker_decorator {
    const locker_driver *(*decorate)(const locker_driver *inner);
};

#ifdef __cplusplus
}
#endif
#endif
