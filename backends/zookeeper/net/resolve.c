/*
 * resolve.c: names of hosts. The client library would resolve them with its handle's user waiting, so it is
 * given addresses. They are resolved when a locker is opened, and in a thread of its own again when the
 * connection has been lost for long: the servers may have moved.
 */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "lk_mutex.h"
#include "lk_thread.h"
#include "resolve.h"

enum { ADDRESS_MAX = 80 };

/* A resolution in a thread. It has two users, the thread and the instance; the last frees it. */
struct lk_zk_lookup {
    lk_mutex mutex;             /* guards what follows; inside the driver's */
    const locker_services *svc; /* NULL: the instance has gone */
    unsigned users;
    bool ready;
    char *addresses;
    locker_host *hosts; /* a copy */
    size_t count;
};

static struct addrinfo *look_up(const locker_host *host, int flags, int *rc)
{
    const struct addrinfo hints = {
        .ai_family = AF_UNSPEC, .ai_socktype = SOCK_STREAM, .ai_flags = flags | AI_NUMERICSERV};
    struct addrinfo *found = NULL;
    char port[16];
    (void)snprintf(port, sizeof(port), "%d", host->port);
    errno = 0;
    *rc = getaddrinfo(host->name, port, &hints, &found);
    return *rc == 0 ? found : NULL;
}

bool lk_zk_all_literal(const locker_host *hosts, size_t count)
{
    for (size_t i = 0; i < count; i++) {
        int rc;
        struct addrinfo *found = look_up(&hosts[i], AI_NUMERICHOST, &rc);
        if (found == NULL)
            return false;
        freeaddrinfo(found);
    }
    return true;
}

/* Append a text to the comma list; false when memory ran out. */
static bool append(char **list, const char *address)
{
    const size_t len = *list != NULL ? strlen(*list) : 0;
    const size_t more = strlen(address);
    char *grown = realloc(*list, len + more + 2);
    if (grown == NULL)
        return false;
    *list = grown;
    if (len > 0)
        grown[len] = ',';
    memcpy(grown + len + (len > 0), address, more + 1);
    return true;
}

static bool append_all(char **list, const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        char name[64], port[16], address[ADDRESS_MAX + 8];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, name, sizeof(name), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
            continue;
        /* The client library takes what follows the last colon for the port, and knows no brackets. */
        (void)snprintf(address, sizeof(address), "%s:%s", name, port);
        if (!append(list, address))
            return false;
    }
    return true;
}

/* After a failure the client library goes two places on in its list, so in one of even length it would try
 * the same half for ever (with two servers: the dead one). One of them, by chance, is listed twice. */
static bool make_odd(char **list)
{
    char address[ADDRESS_MAX + 8];
    size_t count = 1;
    uint8_t random = 0;
    for (const char *c = *list; *c != '\0'; c++)
        count += *c == ',';
    if (count % 2 != 0)
        return true;
    (void)getrandom(&random, sizeof(random), 0);
    const char *at = *list;
    for (size_t i = random % count; i > 0; i--)
        at = strchr(at, ',') + 1;
    const size_t len = strcspn(at, ",");
    memcpy(address, at, len);
    address[len] = '\0';
    return append(list, address);
}

/* getaddrinfo() calls it a name that isn't known when it gets no descriptor. */
static void tell_unresolved(const locker_host *host, int rc, int error, locker_error *err)
{
    if (error == EMFILE || error == ENFILE)
        (void)locker_error_set(
            err, LOCKER_UNAVAILABLE, error,
            "the host '%s' can't be resolved: %s; raise the limit on open files (ulimit -n)", host->name,
            strerror(error));
    else
        (void)locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                               "the host '%s' can't be resolved: %s; check its name", host->name,
                               rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc));
}

char *lk_zk_resolve(const locker_host *hosts, size_t count, locker_error *err)
{
    char *list = NULL;
    for (size_t i = 0; i < count; i++) {
        int rc;
        struct addrinfo *found = look_up(&hosts[i], 0, &rc);
        if (found == NULL) {
            tell_unresolved(&hosts[i], rc, errno, err);
            continue; /* another one may do */
        }
        const bool appended = append_all(&list, found);
        freeaddrinfo(found);
        if (!appended) {
            (void)locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
            free(list);
            return NULL;
        }
    }
    if (list == NULL || make_odd(&list))
        return list;
    (void)locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    free(list);
    return NULL;
}

/* ------------------------------------------------------------------ in a thread ---- */

static void unuse(lk_zk_lookup *l)
{
    lk_mutex_lock(&l->mutex);
    const bool last = --l->users == 0;
    lk_mutex_unlock(&l->mutex);
    if (!last)
        return;
    for (size_t i = 0; i < l->count; i++)
        free((char *)(uintptr_t)l->hosts[i].name);
    free(l->hosts);
    free(l->addresses);
    lk_mutex_destroy(&l->mutex);
    free(l);
}

static void *run(void *argument)
{
    lk_zk_lookup *l = argument;
    char *addresses = lk_zk_resolve(l->hosts, l->count, NULL);
    lk_mutex_lock(&l->mutex);
    l->addresses = addresses;
    l->ready = true;
    if (l->svc != NULL)
        l->svc->attend(l->svc);
    lk_mutex_unlock(&l->mutex);
    unuse(l);
    return NULL;
}

static lk_zk_lookup *lookup_new(const locker_host *hosts, size_t count, const locker_services *svc)
{
    lk_zk_lookup *l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    lk_mutex_init(&l->mutex);
    l->users = 1;
    l->svc = svc;
    l->hosts = calloc(count, sizeof *l->hosts);
    for (size_t i = 0; l->hosts != NULL && i < count; i++) {
        l->hosts[i].name = strdup(hosts[i].name);
        l->hosts[i].port = hosts[i].port;
        if (l->hosts[i].name == NULL)
            break;
        l->count = i + 1;
    }
    if (l->count == count)
        return l;
    unuse(l);
    return NULL;
}

lk_zk_lookup *lk_zk_lookup_start(const locker_host *hosts, size_t count, const locker_services *svc)
{
    pthread_attr_t attributes;
    pthread_t thread;
    lk_zk_lookup *l = lookup_new(hosts, count, svc);
    if (l == NULL)
        return NULL;
    pthread_attr_init(&attributes);
    pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    l->users = 2;
    if (lk_thread_start(&thread, &attributes, run, l) != 0) {
        l->users = 1;
        lk_zk_lookup_drop(&l);
    }
    pthread_attr_destroy(&attributes);
    return l;
}

char *lk_zk_lookup_take(lk_zk_lookup **lookup)
{
    lk_zk_lookup *l = *lookup;
    if (l == NULL)
        return NULL;
    lk_mutex_lock(&l->mutex);
    const bool ready = l->ready;
    char *addresses = l->addresses;
    l->addresses = NULL;
    lk_mutex_unlock(&l->mutex);
    if (ready)
        lk_zk_lookup_drop(lookup);
    return addresses;
}

void lk_zk_lookup_drop(lk_zk_lookup **lookup)
{
    lk_zk_lookup *l = *lookup;
    if (l == NULL)
        return;
    *lookup = NULL;
    lk_mutex_lock(&l->mutex);
    l->svc = NULL;
    lk_mutex_unlock(&l->mutex);
    unuse(l);
}
