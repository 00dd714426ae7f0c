/* conformance.h: the driver conformance kit, for authors of drivers. The kit is a library of its own
 * (locker::conformance, liblocker-conformance) that no application needs.
 *
 * A single call runs every test that a driver must pass. This is a complete test program:
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
 * The kit tests the driver on two levels:
 *   - The interface as an application sees it, with threads and processes. Groups: basics, waiting, cancel, processes, leases,
 *     loss, handles, fork, load, several, shared, permits, storms, shared_storms, scale.
 *   - The contract of driver.h, as only core sees it: the group contract, and a checker between core and the driver in all
 *     groups. The checker checks the status and the time of each operation, and the claims for which the driver calls
 *     services. It detects a driver that uses a claim after the claim's end.
 *
 * Tests of properties that the service does not promise (locker_semantics) are skipped. So are tests that need a hook below
 * that is NULL. The summary counts them.
 *
 * docs/drivers.md walks through writing a driver and running the kit on it. */
#ifndef LOCKER_CONFORMANCE_H
#define LOCKER_CONFORMANCE_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The driver under test, and hooks that start its service and, where possible, harm it. The kit calls hooks on the main thread,
 * one at a time (exception: hang_ms). Hooks may block. A hook that fails prints the reason on standard error and returns NULL
 * or false: the test then fails. Hooks get keys as the tests lock them. The hook itself must know the namespace of its URI,
 * if any. Tests also open lockers with other namespaces. */
typedef struct locker_conformance_subject {
    size_t size; /**< sizeof(locker_conformance_subject) */

    /** The driver's table. Must outlive the run. With leases, it must allow lease times of 300 ms to 30 s. */
    const locker_driver *driver;

    /** Start the service, empty, for a group of tests. Write its URI, at most `size` bytes with the NUL. Processes that the
     * tests start open the same URI. The tests append parameters to it (`&ttl=300ms`). The returned pointer is passed to
     * the other hooks. */
    void *(*start)(char *uri, size_t size);

    /** Stop the service and remove its remains. */
    void (*stop)(void *service);

    /** Interval in ms at which a waiting driver polls for a free lock: its default poll. Such a driver may make an attempt in
     * each interval while a lock is held. 0: never, because its waiters are woken. */
    int64_t poll_ms;

    /* Each of the hooks below may be NULL: not possible. */

    /** Delete the lock as a foreign client would, not through its holder. NULL: an operator breaks the lock, if the driver can do that. */
    bool (*lose)(void *service, const char *key);

    /** Give the lock to another client, not through its holder. `lose` takes it from that client. NULL: as `lose`. Set both
     * hooks or none. */
    bool (*replace)(void *service, const char *key);

    /** Stop the service from answering until `thaw`. Connections stay open. Set both hooks or none. */
    bool (*freeze)(void *service);

    /** Let the service answer again. The kit may call this without a `freeze` before. */
    bool (*thaw)(void *service);

    /** Stop the service and start it again under the same URI. Its locks may be gone. */
    bool (*restart)(void *service);

    /** Shortest lease time in ms that the service can keep up on a busy machine, at most 30,000; 0: 500. Storms of processes
     * request this time, and count a call that reports an outage as a failure. An ensemble needs a longer time if its driver
     * leaves a server for another after a part of the lease. */
    int64_t kept_ttl_ms;

    /** Shortest lease of the service plus the interval at which it looks for expired leases, in ms, at most 30,000. A dead
     * holder's lock may stay held for that long, even if a shorter lease was requested. 0: no such limit. */
    int64_t freed_ttl_ms;

    /** Time in ms without progress after which a test counts as hanging, at least 1,000; 0: one minute. The kit then names the
     * test on standard error, with the driver's operations to look at. It calls `stop` on another thread, unless a hook
     * hangs, and ends the process with exit code 1. Time while the processors are busy counts as a quarter, and time while
     * the process is stopped does not count. So a slow machine ends no run. A call of a hook counts as progress, and so
     * does a round of a storm. */
    int64_t hang_ms;
} locker_conformance_subject;

/** Run the tests, as the whole of main(). Call it once, on the main thread. Command lines:
 *
 *     PROGRAM                  Run every group.
 *     PROGRAM GROUP [TEST]     Run a group, or its tests that match the pattern TEST (* and ?).
 *     PROGRAM --rounds N --seed S storms [TEST]
 *                              Run storms of N rounds each (default: for a short time), with the random seed S
 *                              that a failed storm printed (default: from the time).
 *     PROGRAM --percent 100 scale
 *                              Run scale at its full sizes (default: a tenth).
 *     PROGRAM --list           List the tests as GROUP/TEST, one a line.
 *     PROGRAM --help           Print the usage.
 *
 * Prints results on standard output and standard error, as cmocka does (CMOCKA_MESSAGE_OUTPUT selects another form). Findings
 * of the checker begin with "contract: CHECK:". The last line counts skipped tests. Neither a skipped test nor a group of
 * skipped tests fails.
 *
 * For tests with several processes, the program runs itself again, as /proc/self/exe with "--child". So main() must pass on the
 * arguments that it got, before it starts threads or changes the directory.
 *
 * Returns the exit code for main():
 *   - 0: no test failed.
 *   - 1: a test failed, or no test matches TEST. A test that hangs ends the process with 1, too.
 *   - 64: wrong arguments or a wrong subject. */
LOCKER_API int locker_conformance_run(const locker_conformance_subject *subject, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
