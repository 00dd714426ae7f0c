/* conformance.h: the driver conformance kit, for authors of drivers. The kit is a separate library (locker::conformance,
 * liblocker-conformance). Applications do not need this library.
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
 *   - The kit tests the interface that an application sees (locker.h), with threads and processes. The groups are
 *     basics, waiting, cancel, processes, leases, loss, handles, fork, load, several, shared, permits, storms,
 *     shared_storms, scale.
 *   - The kit tests the contract of driver.h, which only core sees. The group `contract` tests this contract. In all
 *     groups, a checker also stands between core and the driver. The checker checks the status and the time of each
 *     operation. The checker also checks the claims that the driver passes to services of core, and detects a driver
 *     that uses a claim after the claim's end.
 *
 * The kit skips a test if the service does not promise the tested property (locker_semantics), or if a hook that the
 * test needs is NULL. The summary counts the skipped tests.
 *
 * docs/drivers.md walks through writing a driver and running the kit on it. */
#ifndef LOCKER_CONFORMANCE_H
#define LOCKER_CONFORMANCE_H

#include <locker/driver.h>

#ifdef __cplusplus
extern "C" {
#endif

/** The driver under test, and hooks. Hooks start and stop the driver's service, and cause faults of the service. The
 * kit calls hooks on the main thread, one at a time (exception: see hang_ms). Hooks may block. A hook that fails must
 * print the reason on standard error, and must return NULL or false. The test then fails. A hook gets the same key as a
 * lock call, without a namespace. If the URI from `start` has a namespace, the hook must add this namespace to the key.
 * Some tests use other namespaces, and call no hook with a key. */
typedef struct locker_conformance_subject {
    size_t size; /**< sizeof(locker_conformance_subject) */

    /** The driver's table. The table must outlive the run. If the driver has leases, the driver must allow lease times
     * from 300 ms to 30 s. */
    const locker_driver *driver;

    /** Start the service without data, for a group of tests. Write the service's URI to `uri`, at most `size` bytes
     * with the NUL. The tests start processes, and these processes also open this URI. The tests append parameters such
     * as `ttl=300ms` to the URI, after `?` or `&`. The returned pointer is passed to the other hooks. */
    void *(*start)(char *uri, size_t size);

    /** Stop the service, and remove all that the service leaves behind. */
    void (*stop)(void *service);

    /** Time in ms between two polls while a call waits for a held lock. This is the default of the driver's parameter
     * `poll`. The tests allow one attempt in each interval. 0: the driver does not poll, because the service wakes up
     * the waiters. */
    int64_t poll_ms;

    /* Each of the hooks below may be NULL if the service cannot do what the hook asks for. */

    /** Delete the lock as a foreign client does, without a request to the lock's holder. NULL: the kit calls
     * locker_break() instead, if semantics.can_break is true. */
    bool (*lose)(void *service, const char *key);

    /** Make another client own the lock, without an unlock by the lock's holder. A later `lose` takes the lock from that
     * client. NULL: the kit breaks the lock and then takes the lock with another locker. Set both `lose` and `replace`, or
     * neither. */
    bool (*replace)(void *service, const char *key);

    /** Make the service silent until `thaw` is called. Connections stay open. Set both `freeze` and `thaw`, or neither. */
    bool (*freeze)(void *service);

    /** Let the service answer again. The kit may call this hook even if the kit has not called `freeze`. */
    bool (*thaw)(void *service);

    /** Stop the service and start it again under the same URI. The restart may end the service's locks. */
    bool (*restart)(void *service);

    /** Shortest lease time in ms with which renewals keep a lock even on a busy machine. At most 30,000; 0 means 500.
     * Storms that use several processes request this lease time, and fail if a call reports an outage. Some drivers
     * change to another server only after a part of the lease time. Such a driver needs a longer time here. */
    int64_t kept_ttl_ms;

    /** Longest time in ms for which a dead holder's lock may stay held if the holder requested a shorter lease.
     * At most 30,000. The time is the sum of the service's shortest lease time and the interval at which the service
     * checks for expired leases. 0: the service frees the lock at the end of the requested lease. */
    int64_t freed_ttl_ms;

    /** Time in ms without progress after which the kit treats a test as hanging. At least 1,000; 0 means one minute. On
     * standard error, the kit then prints the test's name, and the names of the driver's operations that may have
     * caused the hang. If a hook hangs, the kit does not call `stop`. Otherwise the kit calls `stop` on another thread.
     * In both cases, the run ends with exit code 1. Each call of a hook and each round of a storm is progress. While
     * the processors are busy, the kit counts only a quarter of the time. While the process is stopped, the kit counts
     * at most half a second. So a slow machine does not end a run. */
    int64_t hang_ms;
} locker_conformance_subject;

/** Run the tests. Call this function once, on the main thread. main() needs no other call. The command lines are:
 *
 *     PROGRAM                  Run every group.
 *     PROGRAM GROUP [TEST]     Run a group. With TEST, run only the tests that match this pattern (* and ?).
 *     PROGRAM --rounds N --seed S storms [TEST]
 *                              Run N rounds of each storm (default: as many rounds as fit in a short time). S is
 *                              the random seed that a failed storm printed (default: a seed from the time).
 *     PROGRAM --percent 100 scale
 *                              Run the group scale at its full sizes (default: a tenth of each full
 *                              size, but a hundredth of the full number of permits).
 *     PROGRAM --list           List the tests as GROUP/TEST, a test on each line.
 *     PROGRAM --help           Print the usage.
 *
 * Prints results on standard output and standard error, as cmocka does (CMOCKA_MESSAGE_OUTPUT selects another form).
 * Each finding of the checker begins with "contract: CHECK:", where CHECK is the name of the check. The last line
 * counts skipped tests. A skipped test is not a failure, even if all tests of a group are skipped.
 *
 * Some tests need several processes. For such a test, the program starts itself again, as /proc/self/exe with "--child".
 * So main() must pass its own arguments to this function, and must call this function before main() starts threads or
 * changes the directory.
 *
 * Returns the exit code for main():
 *   - 0: no test failed.
 *   - 1: a test failed, or no test matches TEST. A test that hangs ends the process with 1, too.
 *   - 64: an argument or the subject is wrong. */
LOCKER_API int locker_conformance_run(const locker_conformance_subject *subject, int argc, char **argv);

#ifdef __cplusplus
}
#endif
#endif
