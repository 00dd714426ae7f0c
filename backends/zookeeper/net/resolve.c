/* resolve.c: addresses for the client library. It would resolve names with its handle's user waiting, so it is given what
 * backends/hosts finds, in its words. */
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>

#include "state.h"

unsigned lk_zk_address_count(const char *addresses)
{
    unsigned count = 1;
    for (const char *c = addresses; *c != '\0'; c++)
        count += *c == ',';
    return count;
}

/* Append the first `len` of a text to the comma list; false when memory ran out. */
static bool append(char **list, const char *address, size_t len)
{
    const char *before = *list != NULL ? *list : "", *comma = *list != NULL ? "," : "";
    char *longer;
    if (asprintf(&longer, "%s%s%.*s", before, comma, (int)len, address) < 0)
        return false;
    free(*list);
    *list = longer;
    return true;
}

static bool append_all(char **list, const lk_addresses *found)
{
    for (size_t i = 0; i < found->count; i++) {
        const lk_address *a = &found->list[i];
        char name[64], port[16], address[sizeof(name) + sizeof(port)];
        if (getnameinfo((const struct sockaddr *)&a->address, a->len, name, sizeof(name), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
            continue;
        /* The client library takes what follows the last colon for the port, and knows no brackets. */
        (void)snprintf(address, sizeof(address), "%s:%s", name, port);
        if (!append(list, address, strlen(address)))
            return false;
    }
    return *list != NULL;
}

/* After a failure the client library goes two places on in its list, so in one of even length it would try the same half
 * for ever (with two servers: the dead one). One of them, by chance, is listed twice. */
static bool make_odd(char **list)
{
    const unsigned count = lk_zk_address_count(*list);
    uint8_t random = 0;
    if (count % 2 != 0)
        return true;
    (void)getrandom(&random, sizeof(random), 0);
    const char *at = *list;
    for (unsigned i = random % count; i > 0; i--)
        at = strchr(at, ',') + 1;
    return append(list, at, strcspn(at, ","));
}

/* NULL: no memory, or nothing was found. */
static char *take_list(lk_addresses *found)
{
    char *list = NULL;
    if (found != NULL && !(append_all(&list, found) && make_odd(&list))) {
        free(list);
        list = NULL;
    }
    free(found);
    return list;
}

locker_status lk_zk_resolve(const lk_hosts *h, char **addresses, locker_error *err)
{
    lk_addresses *found;
    const locker_status status = lk_hosts_resolve(h, &found, err);
    *addresses = take_list(found);
    return status != LOCKER_OK || *addresses != NULL ? status : lk_out_of_memory(err);
}

bool lk_zk_lookup_take(lk_hosts *h, char **addresses)
{
    lk_addresses *found;
    const bool ready = lk_hosts_lookup_take(h, &found);
    *addresses = take_list(found);
    return ready;
}
