/*
 * config.c: the lock service is a matter of configuration, not of code.
 *
 *     config [FILE [PROFILE]]
 *
 * FILE is an INI file (locker.conf beside this one shows each kind); PROFILE a section of it. Without them
 * the environment decides: LOCKER_URI, else LOCKER_CONFIG with LOCKER_PROFILE, else files of this user.
 */
#include <stdio.h>
#include <stdlib.h>

#include <locker/locker.h>

/* What the library has to say goes to the program's own log; without a function it is silent. */
static void log_line(locker_log_level level, const char *text, void *user)
{
    (void)user;
    fprintf(stderr, "locker (%d): %s\n", (int)level, text);
}

int main(int argc, char **argv)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    locker *l;
    LOCKER_AUTO locker_handle *held = NULL;

    options.owner = "example"; /* what `locker show` prints for our locks; default host:pid:program */
    options.log = log_line;
    locker_error err;
    locker_status status;
    if (argc > 1)
        status = locker_open_profile(argv[1], argc > 2 ? argv[2] : NULL, &options, &l, &err);
    else
        status = locker_open_default(&options, &l, &err);
    if (status != LOCKER_OK) {
        fprintf(stderr, "%s: %s\n", locker_status_name(status), err.text);
        return EXIT_FAILURE;
    }

    /* What the service promises can be asked, and decided upon. */
    const locker_semantics *promises = locker_get_semantics(l);
    printf("driver:       %s\n", promises->driver);
    printf("a lock ends:  %s\n", promises->leases ? "with its lease, unless renewed" : "with its process");
    printf("holder dies:  %s\n", promises->holder_dies);

    status = locker_lock(l, "examples/config", NULL, &held, &err);
    if (status == LOCKER_OK)
        printf("locked:       %s, by %s\n", locker_handle_key(held), locker_handle_owner(held));
    else
        fprintf(stderr, "%s: %s\n", locker_status_name(status), err.text);
    locker_close(l); /* releases what is held */
    return status == LOCKER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}
