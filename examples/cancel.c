/*
 * cancel.c: Ctrl-C ends a wait for a lock, cleanly.
 *
 * A signal handler may fire a locker_cancel. Calls that wait with it return LOCKER_CANCELED, having left
 * nothing at the service, and the program goes on to clean up as it likes.
 */
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

static locker_cancel *interrupted;

static void on_signal(int number)
{
    (void)number;
    locker_cancel_fire(interrupted); /* async-signal-safe */
}

int main(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    interrupted = locker_cancel_new();
    if (interrupted == NULL) {
        perror("locker_cancel_new");
        return EXIT_FAILURE;
    }
    (void)sigaction(SIGINT, &action, NULL);

    locker *l;
    locker_error err;
    locker_handle *first;
    /* So that there is something to wait for, this program holds the lock itself. */
    if (locker_open_default(NULL, &l, &err) != LOCKER_OK ||
        locker_lock(l, "examples/cancel", NULL, &first, &err) != LOCKER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return EXIT_FAILURE;
    }
    printf("waiting for a lock that is held; press Ctrl-C\n");
    (void)fflush(stdout);
    options.cancel = interrupted;
    locker_handle *second;
    const locker_status status = locker_lock(l, "examples/cancel", &options, &second, &err);
    printf("%s: %s\n", locker_status_name(status), err.text);

    locker_handle_free(first);
    locker_close(l);
    (void)signal(SIGINT, SIG_DFL); /* before what the handler uses is freed */
    locker_cancel_free(interrupted);
    return status == LOCKER_CANCELED ? EXIT_SUCCESS : EXIT_FAILURE;
}
