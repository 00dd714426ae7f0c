/* conform.c: the conformance kit on the mock. The kit lives in real time, so the mock's clock is made to follow it: before each
 * operation, and by a thread that has the service do what has become due.
 *
 *     MOCK_LIKE=redis|zookeeper|file|luck conformance_mock [GROUP [TEST]] */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <locker/conformance.h>

#include "internal.h"
#include "lk_thread.h"

static locker_mock *mock; /* of the group that runs */
static pthread_t time_thread;
static atomic_bool time_ends;
static locker_driver in_real_time; /* the mock's table, with the clock set before what looks at it */

/* Time does not go back, whoever comes last. */
static void follow_time(void)
{
    lk_mutex_lock(&mock->clock.mutex);
    const int64_t now = lk_time_of(CLOCK_BOOTTIME);
    if (now > lk_mock_now(mock))
        atomic_store(&mock->clock.now, now);
    lk_mutex_unlock(&mock->clock.mutex);
}

static void *make_time_pass(void *unused)
{
    const struct timespec tick = {.tv_nsec = 2 * LK_MS};
    while (!atomic_load(&time_ends)) {
        follow_time();
        while (lk_mock_next_due(mock) <= lk_mock_now(mock))
            lk_mock_run_due(mock);
        (void)nanosleep(&tick, NULL);
    }
    return unused;
}

/* As the mock's own, but that core keeps the system's clock. */
static locker_status open_in_real_time(const locker_driver_config *config, const locker_services *svc,
                                       void **self, locker_error *err)
{
    lk_mock_host *const h = lk_mock_add_host(mock);
    if (h == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory or descriptors for a mock's locker");
    lk_mutex_lock(&mock->mutex);
    h->svc = svc;
    h->owner = lk_mock_intern_locked(mock, config->owner);
    h->session_ns = config->ttl_ns;
    lk_mutex_unlock(&mock->mutex);
    *self = h;
    return LOCKER_OK;
}

static locker_status acquire_in_real_time(void *self, locker_claim *claim, locker_error *err)
{
    follow_time();
    return mock->driver.acquire(self, claim, err);
}

static void renew_in_real_time(void *self, locker_claim *const *grants, size_t count)
{
    follow_time();
    mock->driver.renew(self, grants, count);
}

static locker_mock_options chosen_options(void)
{
    locker_mock_options o = LOCKER_MOCK_OPTIONS_INIT;
    const char *const like = getenv("MOCK_LIKE");
    o.pass = true;
    if (like != NULL && strcmp(like, "zookeeper") == 0)
        o.leases = LOCKER_MOCK_LEASES_SESSION, o.queue = true;
    else if (like != NULL && strcmp(like, "file") == 0)
        o.leases = LOCKER_MOCK_LEASES_NONE, o.queue = true;
    else if (like != NULL && strcmp(like, "luck") == 0)
        o.seed = 7;
    return o;
}

static void make_mock(void)
{
    const locker_mock_options options = chosen_options();
    locker_error err;
    if (locker_mock_new(&options, &mock, &err) == LOCKER_OK)
        return;
    (void)fprintf(stderr, "conformance_mock: %s\n", err.text);
    exit(EXIT_FAILURE);
}

static void *start(char *uri, size_t size)
{
    make_mock();
    /* A mock's clock begins at 1,000 s, which is ahead of that of a host that has just been started. */
    atomic_store(&mock->clock.now, lk_time_of(CLOCK_BOOTTIME));
    atomic_store(&time_ends, false);
    (void)snprintf(uri, size, "mock:");
    return lk_thread_start(&time_thread, make_time_pass, NULL) == 0 ? uri : NULL;
}

static void stop(void *service)
{
    (void)service;
    atomic_store(&time_ends, true);
    pthread_join(time_thread, NULL);
    locker_mock_free(mock);
}

int main(int argc, char **argv)
{
    make_mock();
    static locker_semantics semantics;
    semantics = mock->semantics;
    in_real_time = mock->driver;
    in_real_time.semantics = &semantics;
    in_real_time.open = open_in_real_time;
    in_real_time.acquire = acquire_in_real_time;
    in_real_time.renew = in_real_time.renew != NULL ? renew_in_real_time : NULL;
    locker_mock_free(mock);
    const locker_conformance_subject subject = {
        .size = sizeof subject, .driver = &in_real_time, .start = start, .stop = stop};
    return locker_conformance_run(&subject, argc, argv);
}
