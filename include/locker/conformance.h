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
 *   - The contract of driver.h, as only core sees it. The group contract tests it, and in all groups a checker stands between
 *     core and the driver. The checker checks the status and the time of each operation, and the claims for which the driver
 *     calls services. The checker detects a driver that uses a claim after the claim's end.
 *
 * The kit skips tests of properties that the service does not promise (locker_semantics), and tests that need a hook that is
 * NULL. The summary counts the skipped tests.
 *
 * docs/drivers.md walks through writing a driver and running the kit on it. */
#ifndef LOCKER_CONFORMANCE_H
#define LOCKER_CONFORMANCE_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The driver under test, and hooks that start its service and, where possible, harm it. The kit calls hooks on the main
 * thread, one at a time (exception: hang_ms). Hooks may block. A hook that fails must print the reason on standard error and
 * return NULL or false; the test then fails. Hooks get keys as the tests give them to lock calls, without a namespace: if the
 * URI has a namespace, the hook must add it. Tests also open lockers with other namespaces. */
typedef struct locker_conformance_subject {
    size_t size; /**< sizeof(locker_conformance_subject) */

    /** The driver's table. Must outlive the run. With leases, it must allow lease times of 300 ms to 30 s. */
    const locker_driver *driver;

    /** Start the service, without data, for a group of tests. Write its URI to `uri`, at most `size` bytes with the NUL.
     * Processes that the tests start open the same URI. The tests append parameters to the URI (`&ttl=300ms`). The returned
     * pointer is passed to the other hooks. */
    void *(*start)(char *uri, size_t size);

    /** Stop the service and remove all that it leaves behind. */
    void (*stop)(void *service);

    /** Interval in ms at which the driver polls while a call waits for a held lock (its default `poll`). The tests allow an
     * attempt in each interval. 0: the driver does not poll, because the service wakes its waiters. */
    int64_t poll_ms;

    /* Each of the hooks below may be NULL, if the kit has no way to do this. */

    /** Delete the lock as a foreign client would, not through its holder. NULL: the kit calls locker_break() instead, if
     * semantics.can_break is true. */
    bool (*lose)(void *service, const char *key);

    /** Make another client own the lock, without an unlock by its holder. A later `lose` takes the lock from that client. NULL: the kit
     * breaks the lock and takes it with another locker. Set both `lose` and `replace`, or neither. */
    bool (*replace)(void *service, const char *key);

    /** Stop the service from answering until `thaw`. Connections stay open. Set both `freeze` and `thaw`, or neither. */
    bool (*freeze)(void *service);

    /** Let the service answer again. The kit may call this even if it has not called `freeze`. */
    bool (*thaw)(void *service);

    /** Stop the service and start it again under the same URI. The service may lose its locks by that. */
    bool (*restart)(void *service);

    /** Shortest lease time in ms that renewals can keep alive on a busy machine, at most 30,000; 0: 500. The storms with
     * processes request this lease time, and fail if a call reports an outage. A service of several servers needs a longer
     * time if its driver changes to another server after a part of the lease time. */
    int64_t kept_ttl_ms;

    /** Sum in ms of the service's shortest lease time and of the interval at which it checks for expired leases, at most
     * 30,000. A dead holder's lock may stay held for that long, even if a shorter lease was requested. 0: no such limit. */
    int64_t freed_ttl_ms;

    /** Time in ms without progress after which the kit treats a test as hanging, at least 1,000; 0: one minute. The kit then
     * prints the name of the test on standard error, and which operations of the driver to look at. It calls `stop` on
     * another thread, unless a hook hangs, and ends the process with exit code 1. Time while the processors are busy is
     * counted at a quarter. Time while the process is stopped is not counted, except for up to half a second. So a slow
     * machine does not end a run. A call of a hook and a round of a storm are progress. */
    int64_t hang_ms;
} locker_conformance_subject;

/** Run the tests. main() only calls this function, once, on the main thread. Command lines:
 *
 *     PROGRAM                  Run every group.
 *     PROGRAM GROUP [TEST]     Run a group, or its tests that match the pattern TEST (* and ?).
 *     PROGRAM --rounds N --seed S storms [TEST]
 *                              Run storms of N rounds each (default: for a short time), with the random seed S
 *                              that a failed storm printed (default: from the time).
 *     PROGRAM --percent 100 scale
 *                              Run scale at its full sizes (default: a tenth of them).
 *     PROGRAM --list           List the tests as GROUP/TEST, one a line.
 *     PROGRAM --help           Print the usage.
 *
 * Prints results on standard output and standard error, as cmocka does (CMOCKA_MESSAGE_OUTPUT selects another form). Findings
 * of the checker begin with "contract: CHECK:", where CHECK is the name of the check. The last line counts skipped tests. A
 * skipped test is not a failure, even if all tests of a group are skipped.
 *
 * For tests with several processes, the program runs itself again, as /proc/self/exe with "--child". So main() must call this
 * with its own arguments, before it starts threads or changes the directory.
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
