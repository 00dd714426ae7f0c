/*
 * fencing.c: a store that refuses the late write of a holder that lost its lock.
 *
 * A program can be stopped between "I hold the lock" and "write", for longer than its lease. No lock service
 * can prevent that. The store can: each grant has a fencing token, greater than all before it, and the store
 * refuses a token that is smaller than the greatest it has seen.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

/* The store: in real life a database row, written with `UPDATE ... WHERE fence <= :token`. */
static struct {
    uint64_t fence;
    const char *text;
} store;

static bool store_write(uint64_t token, const char *text)
{
    const bool accepted = token >= store.fence;
    if (accepted) {
        store.fence = token;
        store.text = text;
    }
    printf("%-22s %s\n", text, accepted ? "accepted" : "refused: its token is stale");
    return accepted;
}

int main(void)
{
    locker_lock_options short_lease = LOCKER_LOCK_OPTIONS_INIT;
    locker *l;
    LOCKER_AUTO locker_handle *slow = NULL, *quick = NULL;
    struct pollfd ended;

    short_lease.ttl_ms = 200;
    short_lease.no_renew = true;
    locker_error err;
    if (locker_open_default(NULL, &l, &err) != LOCKER_OK ||
        locker_lock(l, "examples/report", &short_lease, &slow, &err) != LOCKER_OK)
        goto failed;

    /* The slow one is stopped until its lease has ended; the quick one gets the lock and writes. */
    ended = (struct pollfd){.fd = locker_handle_fd(slow), .events = POLLIN};
    if (ended.fd < 0 || poll(&ended, 1, -1) != 1) {
        perror("waiting for the lease's end");
        return EXIT_FAILURE;
    }
    if (locker_lock(l, "examples/report", NULL, &quick, &err) != LOCKER_OK)
        goto failed;
    bool right = store_write(locker_handle_token(quick), "the quick one's report");
    right = !store_write(locker_handle_token(slow), "the slow one's report") && right;

    printf("the store has: %s\n", store.text);
    locker_close(l); /* handles stay valid until they are freed */
    return right ? EXIT_SUCCESS : EXIT_FAILURE;
failed:
    fprintf(stderr, "%s\n", err.text);
    return EXIT_FAILURE;
}
