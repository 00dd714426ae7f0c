/* hosts.c: copy the configured hosts, and resolve their names at once or in a thread. */
#include "hosts.h"

#include <stdlib.h>
#include <string.h>

#include "lk_resolve.h"
#include "lk_thread.h"

/* ---------------------------------------------------------------- its life ---- */
static size_t print_text(const lk_host *host, char *text, size_t room)
{
    const bool is_ipv6 = strchr(host->name, ':') != NULL;
    return (size_t)snprintf(text, room, "%s%s%s:%d", is_ipv6 ? "[" : "", host->name, is_ipv6 ? "]" : "",
                            host->port);
}

lk_hosts *lk_hosts_new(const locker_driver_config *config, int default_port)
{
    static const locker_host local = {.name = "127.0.0.1"};
    const locker_host *const from = config->host_count > 0 ? config->hosts : &local;
    const size_t count = config->host_count > 0 ? config->host_count : 1;
    size_t size = 0;
    for (size_t i = 0; i < count; i++) /* a name, its text, and that in the list of all */
        size += strlen(from[i].name) + 1 + 2 * (strlen(from[i].name) + sizeof "[]:-2147483648");
    lk_hosts *const h = calloc(1, sizeof *h + count * sizeof *h->list + size);
    if (h == NULL)
        return NULL;
    lk_mutex_init(&h->mutex);
    h->users = 1;
    h->count = count;
    char *at = (char *)(h->list + count), *const end = at + size;
    for (size_t i = 0; i < count; i++) {
        lk_host *const host = &h->list[i];
        *host = (lk_host){.name = at, .port = from[i].port != 0 ? from[i].port : default_port};
        host->text = at = stpcpy(at, from[i].name) + 1;
        at += print_text(host, at, (size_t)(end - at)) + 1;
    }
    h->names = at;
    for (size_t i = 0; i < count; i++)
        at += snprintf(at, (size_t)(end - at), "%s%s", i > 0 ? "," : "", h->list[i].text);
    return h;
}

static void leave(lk_hosts *h) LK_RELEASE(h->mutex)
{
    lk_addresses *const found = h->found;
    const bool last = --h->users == 0;
    lk_mutex_unlock(&h->mutex);
    if (!last)
        return;
    free(found);
    lk_mutex_destroy(&h->mutex);
    free(h);
}

void lk_hosts_drop(lk_hosts *h)
{
    if (h == NULL)
        return;
    lk_mutex_lock(&h->mutex);
    h->svc = NULL;
    leave(h);
}

/* ---------------------------------------------------------------- resolving ---- */
bool lk_hosts_literal(const lk_hosts *h)
{
    for (size_t i = 0; i < h->count; i++) {
        struct addrinfo *const found = lk_resolve_literal(h->list[i].name, h->list[i].port);
        if (found == NULL)
            return false;
        freeaddrinfo(found);
    }
    return true;
}

/* getaddrinfo() calls it a name that isn't known when it gets no descriptor. */
static void tell_unresolved(const lk_host *host, int rc, int error, locker_error *err)
{
    const bool full = error == EMFILE || error == ENFILE;
    (void)locker_error_set(err, LOCKER_UNAVAILABLE, full ? error : 0, "cannot resolve the host '%s': %s; %s",
                           host->name, full || rc == EAI_SYSTEM ? strerror(error) : gai_strerror(rc),
                           full ? "raise the limit on open files (ulimit -n)" : "check the host's name");
}

/* False: no memory. */
static bool append_all(lk_addresses **all, size_t host, const struct addrinfo *found)
{
    for (const struct addrinfo *a = found; a != NULL; a = a->ai_next) {
        const size_t count = *all != NULL ? (*all)->count : 0;
        lk_addresses *const longer = realloc(*all, sizeof *longer + (count + 1) * sizeof *longer->list);
        if (longer == NULL)
            return false;
        longer->list[count] = (lk_address){.host = host, .len = a->ai_addrlen};
        memcpy(&longer->list[count].address, a->ai_addr, a->ai_addrlen);
        longer->count = count + 1;
        *all = longer;
    }
    return true;
}

locker_status lk_hosts_resolve(const lk_hosts *h, lk_addresses **found, locker_error *err)
{
    bool appended = true;
    *found = NULL;
    for (size_t i = 0; i < h->count && appended; i++) {
        int rc;
        struct addrinfo *const list = lk_resolve(h->list[i].name, h->list[i].port, &rc);
        if (list == NULL) {
            tell_unresolved(&h->list[i], rc, errno, err);
            continue; /* another one may do */
        }
        appended = append_all(found, i, list);
        freeaddrinfo(list);
    }
    if (appended)
        return *found != NULL ? LOCKER_OK : LOCKER_UNAVAILABLE;
    free(*found);
    *found = NULL;
    return lk_out_of_memory(err);
}

/* ---------------------------------------------------------------- in a thread ---- */
static void *run(void *argument)
{
    lk_hosts *const h = argument;
    lk_addresses *found;
    (void)lk_hosts_resolve(h, &found, NULL);
    lk_mutex_lock(&h->mutex);
    h->found = found;
    h->ready = true;
    if (h->svc != NULL)
        h->svc->attend(h->svc);
    leave(h);
    return NULL;
}

bool lk_hosts_lookup_start(lk_hosts *h, const locker_services *svc)
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

bool lk_hosts_lookup_take(lk_hosts *h, lk_addresses **found)
{
    lk_mutex_lock(&h->mutex);
    const bool ready = h->ready;
    *found = h->found;
    h->found = NULL;
    h->ready = false;
    lk_mutex_unlock(&h->mutex);
    return ready;
}
