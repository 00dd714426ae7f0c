// use.cc: as use.c, from C++.
#include <locker/instrument.h>
#include <locker/locker.h>

#include <cstdio>
#include <cstring>

int main(int argc, char **argv)
{
    locker *l = nullptr;
    locker_error err;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_lock_options lock = LOCKER_LOCK_OPTIONS_INIT;
    LOCKER_AUTO locker_handle *held = nullptr;
    if (argc != 2 || locker_open(argv[1], &options, &l, &err) != LOCKER_OK)
        return 1;
    lock.wait_ms = 10000;
    locker_status status = locker_lock(l, "package", &lock, &held, &err);
    if (status == LOCKER_OK)
        status = locker_unlock(held, &err);
    locker_close(l);
    std::printf("%s\n", locker_version());
    return status != LOCKER_OK || std::strcmp(locker_version(), LOCKER_VERSION_STRING) != 0;
}
