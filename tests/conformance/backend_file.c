/* backend_file.c: the file driver's service is a directory; see conformance.h. */
#include "conformance.h"

#include <stdio.h>

static char directory[64];

static void *start(void)
{
    lk_private_directory(directory);
    return directory;
}

static void stop(void *service)
{
    lk_remove_directory(service);
}

static void uri(void *service, char *text, size_t size)
{
    snprintf(text, size, "file://%s/locks?namespace=suite", (const char *)service);
}

const struct lk_backend lk_backend_file = {.name = "file", .start = start, .stop = stop, .uri = uri};
