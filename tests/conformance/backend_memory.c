/* backend_memory.c: the memory driver's service is this process; see conformance.h. */
#include "conformance.h"

#include <stdio.h>

static char nothing;

static void *start(void)
{
    return &nothing;
}

static void stop(void *service)
{
    (void)service;
}

static void uri(void *service, char *text, size_t size)
{
    (void)service;
    snprintf(text, size, "memory:conformance?namespace=suite");
}

static void lose(void *service, const char *key)
{
    lk_operator_lose(&lk_backend_memory, service, key);
}

static void replace(void *service, const char *key)
{
    lk_operator_replace(&lk_backend_memory, service, key);
}

const struct lk_backend lk_backend_memory = {
    .name = "memory", .start = start, .stop = stop, .uri = uri, .lose = lose, .replace = replace};
