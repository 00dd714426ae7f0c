/* backend_stopped.c: the file driver, as it is when the kit stops a process in the midst of dispatch: how
 * long that takes then is no fault of the driver's. */
#include <stdatomic.h>
#include <stdbool.h>
#include <string.h>
#include <time.h>

#include <locker/conformance.h>

#include "expect.h"
#include "subject.h"

static char directory[64];
static const locker_driver *file;
static atomic_bool inside;

static void rest(void)
{
    nanosleep(&(struct timespec){.tv_nsec = 1000000}, NULL);
}

/* Until the process was stopped for longer than the kit lets an operation take, and goes on. */
static int64_t dispatch(void *self)
{
    int64_t seen = lk_test_now_ms();
    const int64_t until = seen + LK_TEST_PATIENCE_MS;
    bool stopped = inside;
    inside = true;
    for (int64_t now = seen; !stopped && now < until; seen = now) {
        rest();
        now = lk_test_now_ms();
        stopped = now - seen > 1000;
    }
    return file->dispatch(self);
}

/* The test stops the process when it has the lock. */
static locker_status acquire(void *self, locker_claim *claim, locker_error *err)
{
    while (!inside)
        rest();
    return file->acquire(self, claim, err);
}

static void *start(char *uri, size_t size)
{
    lk_private_directory(directory);
    snprintf(uri, size, "file://%s/locks?namespace=suite", directory);
    return directory;
}

static void stop(void *service)
{
    lk_remove_directory(service);
}

int main(int argc, char **argv)
{
    static locker_driver driver;
    file = lk_driver_of("file");
    driver = *file;
    if (argc > 1 && strcmp(argv[1], "--child") == 0) {
        driver.dispatch = dispatch;
        driver.acquire = acquire;
    }
    const locker_conformance_subject subject = {
        .size = sizeof subject, .driver = &driver, .start = start, .stop = stop, .poll_ms = 1000};
    return locker_conformance_run(&subject, argc, argv);
}
