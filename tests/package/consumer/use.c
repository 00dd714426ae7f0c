/* use.c: takes a lock in the directory that the URI names. */
#include <locker/locker.h>

#include <stdio.h>
#include <string.h>

static locker_status run(const char *uri, locker_error *err)
{
    locker *l;
    locker_status status = locker_open(uri, NULL, &l, err);
    if (status != LOCKER_OK)
        return status;
    {
        LOCKER_AUTO locker_handle *held = NULL;
        status = locker_lock(l, "package", NULL, &held, err);
        if (status == LOCKER_OK)
            status = locker_unlock(held, err);
    }
    locker_close(l);
    return status;
}

int main(int argc, char **argv)
{
    locker_error err = {LOCKER_INVALID, 0, "name a URI"};
    if (argc != 2 || run(argv[1], &err) != LOCKER_OK) {
        fprintf(stderr, "%s\n", err.text);
        return 1;
    }
    printf("%s\n", locker_version());
    return strcmp(locker_version(), LOCKER_VERSION_STRING) != 0;
}
