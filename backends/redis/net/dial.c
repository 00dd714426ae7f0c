/* dial.c: reaching a host. The sockets are made here and not by hiredis, so that they are close-on-exec
 * from the start and the bound on connecting is ours with every version of it. */
#include <errno.h>
#include <fcntl.h>
#include <netdb.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <string.h>
#include <sys/un.h>
#include <unistd.h>

#include "dial.h"
#include "lk_fd.h"
#include "lk_poll.h"

static const int64_t silence_ns = LK_S; /* who says nothing to the begin of TLS for so long may speak none */
static const int64_t plain_ns = 250 * LK_MS; /* how long that one is asked */

/* Begin to connect a new, non-blocking socket. -1 with *failure, an errno; else *failure is 0, or EINPROGRESS. */
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

/* What has come of it. 0, or an errno. */
static int outcome_of(int fd)
{
    int failure = 0;
    socklen_t size = sizeof failure;
    return getsockopt(fd, SOL_SOCKET, SO_ERROR, &failure, &size) != 0 ? errno : failure;
}

/* Commands are small and wait for their answers; a peer that vanished is noticed within half a minute. */
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

/* A socket that is connected; -1 with *failure, an errno. */
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

/* Nobody listens there, or no way leads there. ENOENT: no Unix socket. EADDRNOTAVAIL: IPv6 is off. */
static bool is_deserted(int error)
{
    return error == ECONNREFUSED || error == ENOENT || error == ENETUNREACH || error == EHOSTUNREACH ||
           error == EADDRNOTAVAIL;
}

/* Connections to the addresses of one host that are under way, and the errno that says most: the last one, or the first of an
 * address where somebody may be. */
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

/* True: it is connected already, as the last of those that run. */
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

/* Which of those that run is connected; their count if none is. *failed: one that was not ran out. */
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

/* One that is connected stays, and all others end before anything was sent on them. */
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

/* Connect to one of the addresses, by RFC 8305: the next one begins when one has failed, or a while after the one before it. -1
 * with *failure, an errno. */
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
              failure = no_descriptor(error) ? error : 0; /* it calls that a name that isn't known */
    why->permanent = why->deserted = false;
    cant_reach(t, peer, failure,
               how == LK_REDIS_LATE               ? "the resolver did not answer in time"
               : failure != 0 || rc == EAI_SYSTEM ? strerror(error)
                                                  : gai_strerror(rc),
               why);
}

/* Whether what listens there is a Redis that speaks no TLS: to the begin of TLS it would say nothing. It is asked on a
 * connection of its own, and told nothing. */
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

/* The handshake, step by step. 0, or an errno; ENOPROTOOPT: it is a Redis that speaks no TLS. */
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

/* False: why says it. What the other end said, or is, is a reason to give up for good; that it said nothing is none. */
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

/* A socket on what was reached, if it was: else `failure` says why not. */
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
    (void)fcntl(fd, F_SETFL,
                fcntl(fd, F_GETFL) & ~O_NONBLOCK); /* each call says by itself whether it blocks */
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
