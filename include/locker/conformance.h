/* conformance.h: the driver conformance kit, for authors of drivers. It is a library of its own
 * (locker::conformance, liblocker-conformance), which no application needs.
 *
 * One call runs every test that a driver has to pass. A test program is this, and nothing more:
 *
 *     static void *start(char *uri, size_t size)
 *     {
 *         (void)snprintf(uri, size, "shelf:/tmp/shelf-test?namespace=suite");
 *         return uri;
 *     }
 *
 *     static void stop(void *service)
 *     {
 *         (void)service;
 *     }
 *
 *     int main(int argc, char **argv)
 *     {
 *         const locker_conformance_subject subject = {
 *             .size = sizeof subject, .driver = &shelf_driver, .start = start, .stop = stop};
 *
 *         return locker_conformance_run(&subject, argc, argv);
 *     }
 *
 * What is tested: the interface as an application sees it, by threads and processes, over the driver (groups
 * basics, waiting, cancel, processes, leases, loss, handles, fork, load, storms, scale), and the contract of
 * driver.h as only core sees it (group contract, and a checker that stands between core and the driver in all
 * groups: what each operation answers and when, which services it calls for which claims, and that it leaves
 * a claim alone after letting go of it). What a service doesn't promise (locker_semantics) or can't suffer (a
 * hook below that is NULL) is skipped, and the summary says so.
 *
 * docs/drivers.md walks through writing a driver and running the kit on it. */
#ifndef LOCKER_CONFORMANCE_H
#define LOCKER_CONFORMANCE_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** What the kit tests, and how its service is started and, where that is possible, harmed. Hooks are called
 * on the main thread, one at a time; they may block. A hook that fails says why on standard error and answers
 * NULL or false, which fails the test. Keys are given as the tests lock them; the URI's namespace, if any, is
 * the hook's to know. Lockers on other namespaces are opened too. */
typedef struct locker_conformance_subject {
    size_t size; /**< sizeof(locker_conformance_subject) */

    /** The driver's table; outlives the run. One with leases has to take times of 300 ms to 30 s. */
    const locker_driver *driver;

    /** Start the service, empty, for one group of tests, and write the URI under which it is found, at most
     * `size` bytes with the NUL. Processes that the tests start open the same URI. Parameters are appended to
     * it (`&ttl=300ms`). What it answers is passed to the other hooks. */
    void *(*start)(char *uri, size_t size);

    /** Stop it and remove what it left. */
    void (*stop)(void *service);

    /** How often the driver looks for a free lock by itself while it waits, in ms: its default poll. 0:
     * never, its waiters are woken. One that polls is allowed that many attempts while a lock is held. */
    int64_t poll_ms;

    /* Each of these may be NULL: there is no such thing. */

    /** Delete the lock behind its holder's back. NULL: an operator breaks it, if the driver can do that. */
    bool (*lose)(void *service, const char *key);

    /** Give the lock to somebody else behind its holder's back; `lose` takes it from that one. NULL: as
     * `lose`; a subject has both or none. */
    bool (*replace)(void *service, const char *key);

    /** The service answers nobody until `thaw`; connections stay. Both or none. `thaw` may come without. */
    bool (*freeze)(void *service);
    bool (*thaw)(void *service);

    /** Stop the service and start it again under the same URI. Its locks may be gone. */
    bool (*restart)(void *service);

    /** The shortest lease, in ms, that the service keeps up on a machine that is busy with all else: storms of
     * processes ask for that one, and take a call that is told of an outage for a defect. An ensemble whose
     * driver leaves a server for another after a part of the lease needs longer ones. 0: 500. */
    int64_t kept_ttl_ms;

    /** The shortest lease that the service gives, with the time until it looks for leases that are over, in ms: a dead
     * holder's lock may be held for that long, though a shorter one was asked for. 0: none. */
    int64_t freed_ttl_ms;

    /** After how long without progress a test hangs, in ms, 1,000 at least; 0: one minute. A test that hangs is named on standard
     * error, with the operations of the driver to look at, and ends the run with 1: `stop` is then called on another thread. Time in
     * which the processors are busy counts a quarter, and time in which the process is stopped does not count, so a slow machine
     * ends no run. A call of a hook is a test's progress, and so is a round of a storm. */
    int64_t hang_ms;
} locker_conformance_subject;

/** Run the tests: the whole of main(). The program may be started as
 *
 *     PROGRAM                  every group
 *     PROGRAM GROUP [TEST]     one group, or its tests that match the pattern TEST (* and ?)
 *     PROGRAM --rounds N --seed S storms [TEST]
 *                              storms of N rounds each (else for a short time), with the random numbers
 *                              of the seed S that a storm that failed has told (else of the time)
 *     PROGRAM --percent 100 scale
 *                              scale at its full sizes (else a tenth of them)
 *     PROGRAM --list           the tests, as GROUP/TEST, one a line
 *     PROGRAM --help
 *
 * Results go to standard output and standard error as cmocka prints them (CMOCKA_MESSAGE_OUTPUT chooses
 * another form); what the checker saw begins with "contract: CHECK:". The program runs itself again, by
 * /proc/self/exe with "--child", for tests of several processes; so main() must call this with the arguments
 * that it got, before it starts threads or changes the directory.
 *
 * Returns main()'s exit code: 0, no test failed; 1, some failed, or no test has that name; 64, wrong arguments or
 * subject. A test that is skipped, because the service doesn't promise what it tests, does not fail, nor does a group of such
 * tests; the last line counts them. A test that hangs ends the process with 1 (hang_ms). Call it once, from the main thread. */
LOCKER_API int locker_conformance_run(const locker_conformance_subject *subject, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
