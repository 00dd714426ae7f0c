/*
 * resolve.c: names of hosts. The client library would resolve them with its handle's user waiting, so it is
 * given addresses. They are resolved when a locker is opened, and in a thread of its own again when the
 * connection has been lost for long: the servers may have moved.
 */
#include <errno.h>
#include <netdb.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "../internal.h"

enum { ADDRESS_MAX = 80 };

/* A resolution in a thread. It has two users, the thread and the instance; the last frees it. */
struct lk_zk_lookup {
    pthread_mutex_t lock;       /* guards what follows; inside lk_zk.lock */
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

static void unuse(struct lk_zk_lookup *l)
{
    pthread_mutex_lock(&l->lock);
    const bool last = --l->users == 0;
    pthread_mutex_unlock(&l->lock);
    if (!last)
        return;
    for (size_t i = 0; i < l->count; i++)
        free((char *)(uintptr_t)l->hosts[i].name);
    free(l->hosts);
    free(l->addresses);
    pthread_mutex_destroy(&l->lock);
    free(l);
}

static void *run(void *argument)
{
    struct lk_zk_lookup *l = argument;
    char *addresses = lk_zk_resolve(l->hosts, l->count, NULL);
    pthread_mutex_lock(&l->lock);
    l->addresses = addresses;
    l->ready = true;
    if (l->svc != NULL)
        l->svc->attend(l->svc);
    pthread_mutex_unlock(&l->lock);
    unuse(l);
    return NULL;
}

static struct lk_zk_lookup *lookup_new(const struct lk_zk *z)
{
    struct lk_zk_lookup *l = calloc(1, sizeof(*l));
    if (l == NULL || pthread_mutex_init(&l->lock, NULL) != 0) {
        free(l);
        return NULL;
    }
    l->users = 1;
    l->svc = z->svc;
    l->hosts = calloc(z->set.host_count, sizeof(*l->hosts));
    for (size_t i = 0; l->hosts != NULL && i < z->set.host_count; i++) {
        l->hosts[i].name = strdup(z->set.hosts[i].name);
        l->hosts[i].port = z->set.hosts[i].port;
        if (l->hosts[i].name == NULL)
            break;
        l->count = i + 1;
    }
    if (l->count == z->set.host_count)
        return l;
    unuse(l);
    return NULL;
}

void lk_zk_lookup_start_locked(struct lk_zk *z)
{
    pthread_attr_t attributes;
    pthread_t thread;
    sigset_t all, before;
    if (z->lookup != NULL)
        return;
    z->looked_up_at = lk_zk_now(z);
    struct lk_zk_lookup *l = lookup_new(z);
    if (l == NULL || pthread_attr_init(&attributes) != 0) {
        if (l != NULL)
            unuse(l);
        return;
    }
    (void)pthread_attr_setdetachstate(&attributes, PTHREAD_CREATE_DETACHED);
    (void)sigfillset(&all); /* signals are for the application's threads */
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    l->users = 2;
    if (pthread_create(&thread, &attributes, run, l) != 0)
        l->users = 1;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    (void)pthread_attr_destroy(&attributes);
    z->lookup = l;
    if (l->users == 1)
        lk_zk_lookup_drop(z);
}

char *lk_zk_lookup_take_locked(struct lk_zk *z)
{
    struct lk_zk_lookup *l = z->lookup;
    char *addresses = NULL;
    if (l == NULL)
        return NULL;
    pthread_mutex_lock(&l->lock);
    const bool ready = l->ready;
    addresses = l->addresses;
    l->addresses = NULL;
    pthread_mutex_unlock(&l->lock);
    if (ready)
        lk_zk_lookup_drop(z);
    return addresses;
}

void lk_zk_lookup_drop(struct lk_zk *z)
{
    struct lk_zk_lookup *l = z->lookup;
    if (l == NULL)
        return;
    z->lookup = NULL;
    pthread_mutex_lock(&l->lock);
    l->svc = NULL;
    pthread_mutex_unlock(&l->lock);
    unuse(l);
}
