/* privileged.c: a program that an administrator makes set-user-ID. It opens a service, takes a lock, and says on one line whether it
 * has raised privileges, which service that was, and what named it; or what was wrong.
 *
 *     privileged               what locker_open_default() opens
 *     privileged URI           that service
 *     privileged - FILE        FILE's profile */
#include <locker/locker.h>
#include <stdio.h>
#include <string.h>
#include <sys/auxv.h>

static locker_status open_service(int argc, char **argv, locker **l, locker_error *err)
{
    if (argc > 2)
        return locker_open_profile(argv[2], NULL, NULL, l, err);
    return argc > 1 ? locker_open(argv[1], NULL, l, err) : locker_open_default(NULL, l, err);
}

int main(int argc, char **argv)
{
    locker *l = NULL;
    locker_error err;
    locker_handle *held = NULL;
    locker_status status = open_service(argc, argv, &l, &err);
    if (status == LOCKER_OK)
        status = locker_lock(l, "k", NULL, &held, &err);
    printf("%s|%s|%s\n", getauxval(AT_SECURE) != 0 ? "secure" : "plain", locker_status_name(status),
           status != LOCKER_OK ? err.text : locker_get_service(l));
    printf("%s\n", status != LOCKER_OK ? "" : locker_get_origin(l));
    locker_handle_free(held);
    (void)locker_close(l);
    return 0;
}
