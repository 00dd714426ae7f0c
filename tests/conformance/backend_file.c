/* backend_file.c: the file driver's service is a directory. */
#include <stdio.h>

#include <locker/conformance.h>

#include "expect.h"
#include "subject.h"

static char directory[64];

static void *start(char *uri, size_t size)
{
    lk_private_directory(directory);
    snprintf(uri, size, LK_SCHEME("file") "://%s/locks?namespace=suite", directory);
    return directory;
}

static void stop(void *service)
{
    lk_remove_directory(service);
}

int main(int argc, char **argv)
{
    const locker_conformance_subject subject = {.size = sizeof subject,
                                                .driver = lk_driver_of(LK_SCHEME("file")),
                                                .start = start,
                                                .stop = stop,
                                                .poll_ms = 1000};
    return locker_conformance_run(&subject, argc, argv);
}
