/* resolve.c: names of hosts. The client library would resolve them with its handle's user waiting, so it is
 * given addresses. They are resolved when a locker is opened, and in a thread of its own again when the
 * connection has been lost for long: the servers may have moved. */
#include <errno.h>
#include <netdb.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "lk_thread.h"
#include "resolve.h"

enum { DEFAULT_PORT = 2181 };

/* It has two users while a thread resolves: that, and the instance; the last frees it. */
struct lk_zk_hosts {
    size_t count;
    lk_mutex mutex; /* of a resolution in a thread; inside the driver's */
    unsigned users LK_GUARDED_BY(mutex);
    const locker_services *svc LK_GUARDED_BY(mutex); /* NULL: the instance has gone */
    bool ready LK_GUARDED_BY(mutex);
    char *addresses LK_GUARDED_BY(mutex);
    locker_host list[]; /* and behind it all texts */
};

lk_zk_hosts *lk_zk_hosts_new(const locker_driver_config *config, const char **names)
{
    static const locker_host local = {.name = "127.0.0.1"};
    const locker_host *from = config->host_count > 0 ? config->hosts : &local;
    const size_t count = config->host_count > 0 ? config->host_count : 1;
    size_t size = 0;
    for (size_t i = 0; i < count; i++)
        size += 2 * strlen(from[i].name) + sizeof(",:-2147483648");
    lk_zk_hosts *h = calloc(1, sizeof *h + count * sizeof *h->list + size);
    if (h == NULL)
        return NULL;
    lk_mutex_init(&h->mutex);
    h->users = 1;
    h->count = count;
    char *text = (char *)(h->list + count), *const end = text + size;
    for (size_t i = 0; i < count; i++) {
        h->list[i] = (locker_host){.name = text, .port = from[i].port != 0 ? from[i].port : DEFAULT_PORT};
        text = stpcpy(text, from[i].name) + 1;
    }
    *names = text;
    for (size_t i = 0; i < count; i++)
        text += snprintf(text, (size_t)(end - text), "%s%s:%d", i > 0 ? "," : "", h->list[i].name,
                         h->list[i].port);
    return h;
}

static void leave(lk_zk_hosts *h) LK_RELEASE(h->mutex)
{
    char *const addresses = h->addresses;
    const bool last = --h->users == 0;
    lk_mutex_unlock(&h->mutex);
    if (!last)
        return;
    free(addresses);
    lk_mutex_destroy(&h->mutex);
    free(h);
}

void lk_zk_hosts_drop(lk_zk_hosts *h)
{
    if (h == NULL)
        return;
    lk_mutex_lock(&h->mutex);
    h->svc = NULL;
    leave(h);
}

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

bool lk_zk_hosts_literal(const lk_zk_hosts *h)
{
    for (size_t i = 0; i < h->count; i++) {
        int rc;
        struct addrinfo *found = look_up(&h->list[i], AI_NUMERICHOST, &rc);
        if (found == NULL)
            return false;
        freeaddrinfo(found);
    }
    return true;
}

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

static bool append_all(char **list, const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        char name[64], port[16], address[sizeof(name) + sizeof(port)];
        if (getnameinfo(a->ai_addr, a->ai_addrlen, name, sizeof(name), port, sizeof(port),
                        NI_NUMERICHOST | NI_NUMERICSERV) != 0)
            continue;
        /* The client library takes what follows the last colon for the port, and knows no brackets. */
        (void)snprintf(address, sizeof(address), "%s:%s", name, port);
        if (!append(list, address, strlen(address)))
            return false;
    }
    return true;
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

/* getaddrinfo() calls it a name that isn't known when it gets no descriptor. */
static void tell_unresolved(const locker_host *host, int rc, int error, locker_error *err)
{
    const bool full = error == EMFILE || error == ENFILE;
    (void)locker_error_set(err, LOCKER_UNAVAILABLE, full ? error : 0,
                           "the host '%s' can't be resolved: %s; %s", host->name,
                           full || rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc),
                           full ? "raise the limit on open files (ulimit -n)" : "check its name");
}

locker_status lk_zk_resolve(const lk_zk_hosts *h, char **addresses, locker_error *err)
{
    bool appended = true;
    *addresses = NULL;
    for (size_t i = 0; i < h->count && appended; i++) {
        int rc;
        struct addrinfo *found = look_up(&h->list[i], 0, &rc);
        if (found == NULL) {
            tell_unresolved(&h->list[i], rc, errno, err);
            continue; /* another one may do */
        }
        appended = append_all(addresses, found);
        freeaddrinfo(found);
    }
    if (appended && *addresses == NULL)
        return LOCKER_UNAVAILABLE;
    if (appended && make_odd(addresses))
        return LOCKER_OK;
    free(*addresses);
    *addresses = NULL;
    return lk_out_of_memory(err);
}

static void *run(void *argument)
{
    lk_zk_hosts *h = argument;
    char *addresses;
    (void)lk_zk_resolve(h, &addresses, NULL);
    lk_mutex_lock(&h->mutex);
    h->addresses = addresses;
    h->ready = true;
    if (h->svc != NULL)
        h->svc->attend(h->svc);
    leave(h);
    return NULL;
}

bool lk_zk_lookup_start(lk_zk_hosts *h, const locker_services *svc)
{
    pthread_t thread;
    lk_mutex_lock(&h->mutex);
    h->svc = svc;
    const bool started = lk_thread_start(&thread, run, h) == 0;
    if (started) {
        pthread_detach(thread);
        h->users++; /* before it can leave */
    }
    lk_mutex_unlock(&h->mutex);
    return started;
}

bool lk_zk_lookup_take(lk_zk_hosts *h, char **addresses)
{
    lk_mutex_lock(&h->mutex);
    const bool ready = h->ready;
    *addresses = h->addresses;
    h->addresses = NULL;
    h->ready = false;
    lk_mutex_unlock(&h->mutex);
    return ready;
}
