/* dial.c: the addresses of a host, and a connection to one of them. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "connect.h"
#include "lk_fd.h"
#include "lk_poll.h"
#include "lk_resolve.h"
#include "lk_thread.h"
#include "target.h"

/* The lookups. The instance and each thread use them. The last user frees them. */
struct lk_redis_resolver {
    lk_mutex mutex;
    pthread_cond_t changed; /* a lookup has ended */
    unsigned users LK_GUARDED_BY(mutex);
    struct lookup *first LK_GUARDED_BY(mutex);
};

/* A lookup. It is in the list until the last waiter has taken the result; without waiters, until the
 * thread ends. */
struct lookup {
    lk_redis_resolver *of;
    struct lookup *next LK_GUARDED_BY(mutex);
    pthread_t thread LK_GUARDED_BY(mutex);
    unsigned waiters LK_GUARDED_BY(mutex);
    bool done LK_GUARDED_BY(mutex);
    int rc, error;
    lk_redis_addresses found;
    int port;
    char host[LK_REDIS_PEER_MAX];
};

lk_redis_resolver *lk_redis_resolver_new(void)
{
    lk_redis_resolver *const resolver = calloc(1, sizeof *resolver);
    if (resolver == NULL || locker_cond_init(&resolver->changed) != 0) {
        free(resolver);
        return NULL;
    }
    lk_mutex_init(&resolver->mutex);
    resolver->users = 1;
    return resolver;
}

static void leave(lk_redis_resolver *resolver) LK_RELEASE(resolver->mutex)
{
    const bool last = --resolver->users == 0;
    lk_mutex_unlock(&resolver->mutex);
    if (!last)
        return;
    lk_mutex_destroy(&resolver->mutex);
    pthread_cond_destroy(&resolver->changed);
    free(resolver);
}

void lk_redis_resolver_drop(lk_redis_resolver *resolver)
{
    if (resolver == NULL)
        return;
    lk_mutex_lock(&resolver->mutex);
    leave(resolver);
}

static void take_all(const struct addrinfo *from, lk_redis_addresses *found)
{
    found->count = 0;
    for (const struct addrinfo *a = from; a != NULL && found->count < LK_REDIS_ADDRESSES_MAX;
         a = a->ai_next) {
        lk_redis_address *const to = &found->list[found->count++];
        *to = (lk_redis_address){.len = a->ai_addrlen};
        memcpy(&to->address, a->ai_addr, a->ai_addrlen);
    }
}

/* Look the name up. Blocks for as long as the system's resolver does. */
static int look_up(const char *host, int port, lk_redis_addresses *found)
{
    int rc;
    struct addrinfo *const list = lk_resolve(host, port, &rc);
    if (list == NULL)
        return rc;
    take_all(list, found);
    freeaddrinfo(list);
    return 0;
}

static void unlink_locked(lk_redis_resolver *resolver, const struct lookup *lookup)
    LK_REQUIRES(resolver->mutex)
{
    struct lookup **at = &resolver->first;
    while (*at != lookup)
        at = &(*at)->next;
    *at = lookup->next;
}

static void *run(void *argument)
{
    struct lookup *const lookup = argument;
    lk_redis_resolver *const resolver = lookup->of;
    lookup->rc = look_up(lookup->host, lookup->port, &lookup->found);
    lookup->error = errno;
    lk_mutex_lock(&resolver->mutex);
    lookup->done = true;
    if (lookup->waiters > 0) {
        pthread_cond_broadcast(&resolver->changed);
    } else {
        unlink_locked(resolver, lookup);
        pthread_detach(lookup->thread);
        free(lookup);
    }
    leave(resolver);
    return NULL;
}

/* Return a lookup in progress, or begin one. NULL: no memory, or no thread. */
static struct lookup *lookup_locked(lk_redis_resolver *resolver, const char *host, int port)
    LK_REQUIRES(resolver->mutex)
{
    for (struct lookup *l = resolver->first; l != NULL; l = l->next)
        if (l->port == port && strcmp(l->host, host) == 0)
            return l;
    struct lookup *const lookup = calloc(1, sizeof *lookup);
    if (lookup == NULL)
        return NULL;
    lookup->of = resolver;
    lookup->port = port;
    (void)snprintf(lookup->host, sizeof lookup->host, "%s", host);
    if (lk_thread_start(&lookup->thread, run, lookup) != 0) {
        free(lookup);
        return NULL;
    }
    lookup->next = resolver->first;
    resolver->first = lookup;
    resolver->users++;
    return lookup;
}

/* Wait for the result, and take it. The last waiter removes the lookup. Releases the mutex. */
static lk_redis_resolved await_unlock(lk_redis_resolver *resolver, struct lookup *lookup, int64_t until,
                                      lk_redis_addresses *found, int *rc) LK_RELEASE(resolver->mutex)
{
    const locker_clock *const clock = locker_system_clock();
    lookup->waiters++;
    while (!lookup->done && lk_redis_system_now() < until)
        clock->wait(clock->context, &resolver->changed, &resolver->mutex.plain, until);
    const bool done = lookup->done;
    const int error = done ? lookup->error : 0;
    const pthread_t thread = lookup->thread;
    if (done) {
        *rc = lookup->rc;
        *found = lookup->found;
    }
    const bool last = --lookup->waiters == 0 && done;
    if (last)
        unlink_locked(resolver, lookup);
    lk_mutex_unlock(&resolver->mutex);
    if (last) {
        pthread_join(thread, NULL);
        free(lookup);
    }
    errno = error;
    if (!done)
        return LK_REDIS_LATE;
    return *rc == 0 ? LK_REDIS_FOUND : LK_REDIS_FAILED;
}

lk_redis_resolved lk_redis_resolve(lk_redis_resolver *resolver, const char *host, int port, int64_t until,
                                   lk_redis_addresses *found, int *rc)
{
    struct addrinfo *const literal = lk_resolve_literal(host, port);
    if (literal != NULL) {
        take_all(literal, found);
        freeaddrinfo(literal);
        return LK_REDIS_FOUND;
    }
    lk_mutex_lock(&resolver->mutex);
    struct lookup *const lookup = lookup_locked(resolver, host, port);
    if (lookup != NULL)
        return await_unlock(resolver, lookup, until, found, rc);
    lk_mutex_unlock(&resolver->mutex);
    *rc = look_up(host, port, found);
    return *rc == 0 ? LK_REDIS_FOUND : LK_REDIS_FAILED;
}

static const int64_t silence_ns =
    LK_S; /* a server that does not answer the begin of TLS for so long may speak no TLS */
static const int64_t plain_ns = 250 * LK_MS; /* how long it is then asked without TLS */

/* Begin to connect a new, non-blocking socket. Return -1 with an errno in *failure; else *failure is 0 or
 * EINPROGRESS. */
static int begin_address(const lk_redis_address *address, int *failure)
{
    const int fd =
        lk_fd_high(socket(address->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
    *failure = 0;
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address->address, address->len) == 0)
        return fd;
    *failure = errno == EINTR && fd >= 0 ? EINPROGRESS : errno;
    if (fd < 0 || *failure == EINPROGRESS)
        return fd;
    close(fd);
    return -1;
}

/* Return the result of connecting: 0 or an errno. */
static int outcome_of(int fd)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 ? errno : failure;
}

/* Set the socket's options. Commands are small and wait for their answers. A peer that has vanished is
 * noticed within half a minute. */
static void tune(int fd)
{
    static const struct {
        int level, name, value;
    } options[] = {
        {IPPROTO_TCP, TCP_NODELAY, 1},   {SOL_SOCKET, SO_KEEPALIVE, 1}, {IPPROTO_TCP, TCP_KEEPIDLE, 15},
        {IPPROTO_TCP, TCP_KEEPINTVL, 5}, {IPPROTO_TCP, TCP_KEEPCNT, 3},
    };
    for (size_t i = 0; i < sizeof options / sizeof options[0]; i++)
        (void)setsockopt(fd, options[i].level, options[i].name, &options[i].value, sizeof(options[i].value));
}

/* Return a connected socket, or -1 with an errno in *failure. */
static int open_address(const lk_redis_address *address, int64_t until, int *failure)
{
    const int fd = begin_address(address, failure);
    if (*failure == EINPROGRESS)
        *failure = lk_redis_wait_for(fd, POLLOUT, until);
    if (fd >= 0 && *failure == 0)
        *failure = outcome_of(fd);
    if (fd < 0 || *failure == 0)
        return fd;
    close(fd);
    return -1;
}

static int open_unix(const char *path, int64_t until, int *failure)
{
    struct sockaddr_un name = {.sun_family = AF_UNIX};
    lk_redis_address address = {.len = sizeof name};
    if (strlen(path) >= sizeof name.sun_path) {
        *failure = ENAMETOOLONG;
        return -1;
    }
    memcpy(name.sun_path, path, strlen(path) + 1);
    memcpy(&address.address, &name, sizeof name);
    return open_address(&address, until, failure);
}

static bool no_descriptor(int error)
{
    return error == EMFILE || error == ENFILE;
}

/* Return true if nothing listens there, or no route leads there. ENOENT: no Unix socket. EADDRNOTAVAIL:
 * IPv6 is off. */
static bool is_deserted(int error)
{
    return error == ECONNREFUSED || error == ENOENT || error == ENETUNREACH || error == EHOSTUNREACH ||
           error == EADDRNOTAVAIL;
}

/* Attempts to connect to a host's addresses, and the most useful errno: the last one, or the first of an
 * address that a server may have. */
struct race {
    struct pollfd fd[LK_REDIS_ADDRESSES_MAX];
    size_t place[LK_REDIS_ADDRESSES_MAX];
    size_t running, begun;
    int failure;
};

static void note(struct race *race, int failure)
{
    if (race->failure == 0 || is_deserted(race->failure))
        race->failure = failure;
}

/* Begin the next attempt, behind those in progress. Return true if it is connected at once. */
static bool begin_next(struct race *race, const lk_redis_addresses *list)
{
    int failure;
    const size_t place = race->begun++;
    const int fd = begin_address(&list->list[place], &failure);
    if (fd < 0) {
        note(race, failure);
        return false;
    }
    race->fd[race->running] = (struct pollfd){.fd = fd, .events = POLLOUT};
    race->place[race->running++] = place;
    return failure == 0;
}

/* Return the index of a connected attempt, or the number of attempts if there is none. *failed: an attempt
 * has failed. */
static size_t first_connected(struct race *race, bool *failed)
{
    *failed = false;
    for (size_t i = 0; i < race->running;) {
        const int failure = race->fd[i].revents != 0 ? outcome_of(race->fd[i].fd) : EINPROGRESS;
        if (failure == 0)
            return i;
        if (failure == EINPROGRESS) {
            i++;
            continue;
        }
        note(race, failure);
        close(race->fd[i].fd);
        race->running--;
        memmove(&race->fd[i], &race->fd[i + 1], (race->running - i) * sizeof *race->fd);
        memmove(&race->place[i], &race->place[i + 1], (race->running - i) * sizeof *race->place);
        *failed = true;
    }
    return race->running;
}

/* Keep the winner, and end all other attempts. Nothing was sent on them. */
static int end_race(struct race *race, size_t winner, size_t *which)
{
    int fd = -1;
    for (size_t i = 0; i < race->running; i++) {
        if (i == winner) {
            fd = race->fd[i].fd;
            *which = race->place[i];
        } else {
            close(race->fd[i].fd);
        }
    }
    return fd;
}

/* Connect to one of the addresses, by RFC 8305: the next attempt begins when one has failed, or a while
 * after the last began. Return -1 with an errno in *failure. */
static int open_first(const lk_redis_addresses *list, size_t *which, int64_t until, int *failure)
{
    static const int64_t apart_ns = 250 * LK_MS;
    struct race race = {0};
    bool connected = false, failed = false;
    size_t winner = 0;
    int64_t next_at = 0;
    *which = list->count;
    while (!connected && (race.running > 0 || race.begun < list->count)) {
        const int64_t now = lk_redis_system_now();
        const bool more = race.begun < list->count;
        if (more && (race.running == 0 || failed || now >= next_at)) {
            connected = begin_next(&race, list);
            winner = race.running - 1;
            failed = false;
            next_at = now + apart_ns;
            continue;
        }
        if (now >= until) {
            note(&race, ETIMEDOUT);
            break;
        }
        const int n =
            lk_poll_until(race.fd, (nfds_t)race.running, now, more ? lk_time_earlier(until, next_at) : until);
        if (n < 0 && errno != EINTR) {
            note(&race, errno);
            break;
        }
        winner = n > 0 ? first_connected(&race, &failed) : race.running;
        connected = winner < race.running;
    }
    *failure = race.failure;
    return end_race(&race, connected ? winner : race.running, which);
}

static void cant_reach(const lk_redis_target *t, const char *peer, int failure, const char *text,
                       lk_redis_failure *why)
{
    locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure, "cannot reach %s at %s: %s; %s",
                     t->service->name, peer, text,
                     no_descriptor(failure) ? "raise the limit on open files (ulimit -n)"
                                            : "check that the server is running there");
}

void lk_redis_dial_unresolved(const lk_redis_target *t, const char *peer, lk_redis_resolved how, int rc,
                              lk_redis_failure *why)
{
    const int error = errno,
              failure = no_descriptor(error) ? error : 0; /* the resolver reports this as an unknown name */
    why->permanent = why->deserted = false;
    cant_reach(t, peer, failure,
               how == LK_REDIS_LATE               ? "the resolver did not answer in time"
               : failure != 0 || rc == EAI_SYSTEM ? strerror(error)
                                                  : gai_strerror(rc),
               why);
}

/* Return true if a Redis without TLS listens there, which does not answer the begin of TLS. It is asked on
 * another connection, without a login. */
static bool speaks_plainly(const lk_redis_address *address, int64_t until)
{
    static const char question[] = "PING\r\n";
    char answer[1];
    int failure;
    const int fd = open_address(address, until, &failure);
    if (fd < 0)
        return false;
    const bool answered = send(fd, question, sizeof question - 1, MSG_DONTWAIT | MSG_NOSIGNAL) > 0 &&
                          lk_redis_wait_for(fd, POLLIN, until) == 0 &&
                          recv(fd, answer, sizeof answer, MSG_DONTWAIT) == 1;
    close(fd);
    return answered && (answer[0] == '+' || answer[0] == '-');
}

/* Do the handshake step by step. Return 0 or an errno; ENOPROTOOPT: it is a Redis without TLS. */
static int finish_handshake(lk_redis_socket *socket, const lk_redis_address *address, int64_t until)
{
    const int64_t began = lk_redis_system_now();
    const int64_t silent_at = began + lk_time_earlier(silence_ns, lk_time_left(began, until) / 2);
    bool doubted = false;
    for (;;) {
        short waits;
        int failure = lk_tls_handshake(socket->tls, &waits);
        if (failure != EAGAIN)
            return failure;
        const bool doubting = !doubted && !lk_tls_heard(socket->tls);
        failure = lk_redis_wait_for(socket->fd, waits, doubting ? silent_at : until);
        if (failure == ETIMEDOUT && doubting) {
            doubted = true;
            if (speaks_plainly(address, lk_time_earlier(until, lk_redis_system_now() + plain_ns)))
                return ENOPROTOOPT;
        } else if (failure != 0) {
            return failure;
        }
    }
}

/* Begin TLS. False: `why` says why. If the other end has sent something, the failure is permanent; silence
 * is not. */
static bool begin_tls(const lk_redis_target *t, lk_redis_socket *socket, const char *host,
                      const lk_redis_address *address, int64_t until, lk_redis_failure *why)
{
    socket->tls = lk_tls_new(&t->tls, socket->fd, host);
    if (socket->tls == NULL) {
        lk_out_of_memory(&why->error);
        return false;
    }
    const int failure = finish_handshake(socket, address, until);
    if (failure == 0)
        return true;
    why->permanent = failure == ENOPROTOOPT;
    if (why->permanent)
        locker_error_set(&why->error, LOCKER_PROTOCOL, 0,
                         "%s at %s does not speak TLS at this port; name its TLS port, "
                         "or %s if you trust the network",
                         t->service->name, socket->peer, t->service->without_tls);
    else if (!lk_tls_told(socket->tls, socket->peer, &why->error, &why->permanent))
        locker_error_set(&why->error, LOCKER_UNAVAILABLE, failure,
                         "the server at %s did not complete the TLS handshake: %s; "
                         "check that this is its TLS port",
                         socket->peer,
                         failure == ECONNRESET ? "it closed the connection" : strerror(failure));
    return false;
}

/* Make a socket of the connected descriptor, or say in `why` what `failure` means. */
static lk_redis_socket *reached(const lk_redis_target *t, int fd, int failure, const char *peer,
                                lk_redis_failure *why)
{
    why->permanent = false;
    if (fd >= 0 || !is_deserted(failure))
        why->deserted = false;
    if (fd < 0) {
        cant_reach(t, peer, failure, strerror(failure), why);
        return NULL;
    }
    (void)fcntl(fd, F_SETFL, fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* each call decides by itself if it blocks */
    lk_redis_socket *socket = lk_redis_socket_new(fd, peer);
    if (socket == NULL)
        lk_out_of_memory(&why->error);
    return socket;
}

lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const lk_redis_addresses *list,
                               size_t *which, const char *peer, int64_t *until, lk_redis_failure *why)
{
    int failure;
    const int fd = open_first(list, which, *until, &failure);
    lk_redis_socket *const socket = reached(t, fd, failure, peer, why);
    const int64_t now = lk_redis_system_now();
    *until = now + lk_time_left(now, *until) / (int64_t)list->count;
    if (socket == NULL)
        return NULL;
    tune(fd);
    socket->address = list->list[*which];
    if (t->tls.on && !begin_tls(t, socket, host, &socket->address, *until, why)) {
        lk_redis_socket_free(socket, true);
        return NULL;
    }
    return socket;
}

lk_redis_socket *lk_redis_dial_unix(const lk_redis_target *t, int64_t until, lk_redis_failure *why)
{
    int failure = 0;
    const int fd = open_unix(t->unix_path, until, &failure);
    return reached(t, fd, failure, t->unix_path, why);
}
