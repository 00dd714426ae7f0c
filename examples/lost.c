/*
 * lost.c: hear that a lock was lost, in a poll loop and by a callback.
 *
 * A lock can be lost while it is held: the service is out of reach for longer than the lease, an operator
 * breaks it, the service lost its data. Here the lease is short and not renewed, so that it ends by itself.
 */
#include <inttypes.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

/* Runs on the locker's own thread, so it has to be short: it says so, or sets a flag that workers look at. */
static void on_lost(locker_handle *lost, void *user)
{
    (void)user;
    printf("callback: '%s' is lost\n", locker_handle_key(lost));
}

/* A program's event loop: it has its own work to do, and one descriptor more to watch. */
static locker_state work_until_lost(locker_handle *held)
{
    struct pollfd fds[] = {{.fd = locker_handle_fd(held), .events = POLLIN}};
    if (fds[0].fd < 0)
        perror("locker_handle_fd");
    while (fds[0].fd >= 0 && poll(fds, 1, 100) == 0) /* a real loop has its sockets in `fds` too */
        printf("working, state %s, surely ours for %" PRId64 " ms more\n",
               locker_state_name(locker_handle_state(held)), locker_handle_remaining_ms(held));
    return locker_handle_state(held);
}

int main(void)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.ttl_ms = 500;
    options.no_renew = true; /* leave it out, and the lock is renewed for as long as it is held */
    options.on_lost = on_lost;
    locker *l;
    locker_error err;
    locker_handle *held;
    if (locker_open_default(NULL, &l, &err) != LOCKER_OK ||
        locker_lock(l, "examples/lost", &options, &held, &err) != LOCKER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    const locker_state state = work_until_lost(held);
    printf("loop: state %s; stop touching what the lock guards\n", locker_state_name(state));

    /* Unlocking says it too. Whoever has the lock by now keeps it. */
    if (locker_unlock(held, &err) == LOCKER_LOST)
        printf("unlock: %s\n", err.text);
    locker_handle_free(held);
    locker_close(l);
    return state == LOCKER_STATE_LOST ? EXIT_SUCCESS : EXIT_FAILURE;
}
