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

static void lose(void *service, const char *key)
{
    lk_operator_lose(&lk_backend_file, service, key);
}

static void replace(void *service, const char *key)
{
    lk_operator_replace(&lk_backend_file, service, key);
}

const struct lk_backend lk_backend_file = {
    .name = "file", .start = start, .stop = stop, .uri = uri, .lose = lose, .replace = replace};
