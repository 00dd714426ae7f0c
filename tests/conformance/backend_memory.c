/* backend_memory.c: the memory driver's service is this process. */
#include <stdio.h>

#include <locker/conformance.h>

#include "subject.h"

static void *start(char *uri, size_t size)
{
    snprintf(uri, size, LK_SCHEME("memory") ":conformance?namespace=suite");
    return uri;
}

static void stop(void *service)
{
    (void)service;
}

int main(int argc, char **argv)
{
    const locker_conformance_subject subject = {
        .size = sizeof subject, .driver = lk_driver_of(LK_SCHEME("memory")), .start = start, .stop = stop};
    return locker_conformance_run(&subject, argc, argv);
}
