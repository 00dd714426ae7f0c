/* zkproxy.c: a proxy that harms ZooKeeper's traffic; see zkproxy.h. */
#include "zkproxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"

enum { LINKS_MAX = 32, BUFFER = 256 * 1024, KINDS = 128, LIST_PLAIN = 8 };

static const int32_t xid_of_event = -1;

struct stream {
    char *data;
    size_t len;
};

/* One connection, touched by the proxy's thread alone. */
struct link {
    int client, server;     /* client < 0: free */
    struct stream up, down; /* whole frames and the beginning of one */
    bool greeted;           /* the first frame, which opens the session, has passed */
    bool answered;          /* ... and its reply */
    bool mute;              /* replies are swallowed */
    bool harmed_next;       /* the first reply, or the one to harm_xid, is to be harmed */
    bool harm_first;
    int32_t harm_xid;
    enum lk_zkp_harm harm;
    size_t harm_bytes;
    int64_t due; /* when the first reply in `down` is passed on, in ms; 0: not decided */
};

/* What the test wants; guarded by the proxy's mutex. */
struct wish {
    bool hold_requests, hold_replies, refuse, cut_all, drop_events, end;
    int64_t delay_ms;
};

struct lk_zkp {
    pthread_t thread;
    int listener, poke, port, server_port;
    struct link links[LINKS_MAX];
    pthread_mutex_t mutex; /* guards what follows */
    struct wish wish;
    enum lk_zkp_harm harm;
    int harm_kind;
    unsigned harm_in; /* that many requests until the one to harm; 0: none */
    size_t harm_bytes;
    unsigned harmed, dropped;
    char withheld[512]; /* a path */
    unsigned requests[KINDS];
};

/* ------------------------------------------------------------------ frames ---- */

static int32_t number_at(const char *data)
{
    uint32_t wire;

    memcpy(&wire, data, sizeof wire);
    return (int32_t)ntohl(wire);
}

/* The length of the first frame with its header; 0: it isn't all there. */
static size_t frame_length(const struct stream *stream)
{
    size_t len;

    if (stream->len < 4)
        return 0;
    len = (size_t)(uint32_t)number_at(stream->data) + 4;
    return len <= stream->len ? len : 0;
}

static void consume(struct stream *stream, size_t len)
{
    stream->len -= len;
    memmove(stream->data, stream->data + len, stream->len);
}

static bool fill(int fd, struct stream *stream)
{
    ssize_t got = recv(fd, stream->data + stream->len, BUFFER - stream->len, 0);

    if (got <= 0)
        return false;
    stream->len += (size_t)got;
    return true;
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);

        if (sent <= 0)
            return false;
        data += sent;
        len -= (size_t)sent;
    }
    return true;
}

static void close_link(struct link *link)
{
    if (link->client < 0)
        return;
    close(link->client);
    close(link->server);
    free(link->up.data);
    free(link->down.data);
    *link = (struct link){.client = -1, .server = -1};
}

/* ------------------------------------------------------------------ passing ---- */

/* Counts a request, and sees whether its reply is the one to harm. */
static void note_request(struct lk_zkp *proxy, struct link *link, const char *frame, size_t len)
{
    int kind = link->greeted && len >= 12 ? number_at(frame + 8) : LK_ZKP_CONNECT;

    if (kind == LIST_PLAIN)
        kind = LK_ZKP_LIST;
    pthread_mutex_lock(&proxy->mutex);
    if (kind >= 0 && kind < KINDS)
        proxy->requests[kind]++;
    if (proxy->harm_in > 0 && kind == proxy->harm_kind && --proxy->harm_in == 0) {
        link->harmed_next = true;
        link->harm_first = kind == LK_ZKP_CONNECT;
        link->harm_xid = number_at(frame + 4);
        link->harm = proxy->harm;
        link->harm_bytes = proxy->harm_bytes;
    }
    pthread_mutex_unlock(&proxy->mutex);
}

/* The request at the front is not for the server: keeps its path. */
static bool withholds(struct lk_zkp *proxy, const struct link *link, size_t len)
{
    if (!link->harmed_next || link->harm != LK_ZKP_WITHHOLD)
        return false;
    size_t length = len >= 16 ? (size_t)(uint32_t)number_at(link->up.data + 12) : 0;
    if (length > len - 16 || length >= sizeof proxy->withheld)
        length = 0;
    pthread_mutex_lock(&proxy->mutex);
    memcpy(proxy->withheld, link->up.data + 16, length);
    proxy->withheld[length] = '\0';
    proxy->harmed++;
    pthread_mutex_unlock(&proxy->mutex);
    return true;
}

static bool pass_requests(struct lk_zkp *proxy, struct link *link)
{
    size_t len;

    while ((len = frame_length(&link->up)) > 0) {
        note_request(proxy, link, link->up.data, len);
        link->greeted = true;
        if (withholds(proxy, link, len))
            return false;
        if (!send_all(link->server, link->up.data, len))
            return false;
        consume(&link->up, len);
    }
    return true;
}

/* Whether the reply at the front is the one to harm. */
static bool is_to_harm(const struct link *link, size_t len)
{
    if (!link->harmed_next || link->harm_first)
        return link->harmed_next && !link->answered;
    return link->answered && len >= 8 && number_at(link->down.data + 4) == link->harm_xid;
}

/* The header of the reply at the front (length, number, zxid), and that error. */
static bool refuse_expired(const struct link *link)
{
    const uint32_t length = htonl(16), expired = htonl((uint32_t)-112);
    char reply[20];

    memcpy(reply, link->down.data, sizeof reply);
    memcpy(reply, &length, sizeof length);
    memcpy(reply + 16, &expired, sizeof expired);
    return send_all(link->client, reply, sizeof reply);
}

/* Does the harm to the reply at the front; false when the connection is to be closed. */
static bool do_harm(struct lk_zkp *proxy, struct link *link, size_t len)
{
    static const char nonsense[] = "\0\0\0\x10this is no reply";

    link->harmed_next = false;
    pthread_mutex_lock(&proxy->mutex);
    proxy->harmed++; /* first: the client may act as soon as it is harmed */
    pthread_mutex_unlock(&proxy->mutex);
    if (link->harm == LK_ZKP_GARBAGE)
        return send_all(link->client, nonsense, sizeof nonsense - 1);
    if (link->harm == LK_ZKP_EXPIRED)
        return refuse_expired(link);
    if (link->harm == LK_ZKP_SWALLOW) {
        link->mute = true;
        return true;
    }
    send_all(link->client, link->down.data, link->harm_bytes < len ? link->harm_bytes : len);
    return false;
}

/* Whether the reply at the front is to be dropped; counts it. */
static bool drops(struct lk_zkp *proxy, const struct link *link, size_t len)
{
    bool yes = link->answered && len >= 8 && number_at(link->down.data + 4) == xid_of_event;

    pthread_mutex_lock(&proxy->mutex);
    yes = yes && proxy->wish.drop_events;
    if (yes)
        proxy->dropped++;
    pthread_mutex_unlock(&proxy->mutex);
    return yes;
}

static bool pass_replies(struct lk_zkp *proxy, struct link *link, int64_t delay_ms)
{
    size_t len;

    while ((len = frame_length(&link->down)) > 0) {
        int64_t now = lk_test_now_ms();

        if (delay_ms > 0 && link->due == 0)
            link->due = now + delay_ms;
        if (link->due > now)
            return true;
        link->due = 0;
        if (is_to_harm(link, len)) {
            if (!do_harm(proxy, link, len))
                return false;
        } else if (!drops(proxy, link, len) && !link->mute && !send_all(link->client, link->down.data, len)) {
            return false;
        }
        link->answered = true;
        consume(&link->down, len);
    }
    return true;
}

/* ------------------------------------------------------------------ the thread ---- */

static void accept_client(struct lk_zkp *proxy, bool refuse)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)proxy->server_port)};
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC), server, on = 1;
    struct link *link = NULL;

    if (client < 0)
        return;
    for (size_t i = 0; i < LINKS_MAX && link == NULL; i++)
        if (proxy->links[i].client < 0)
            link = &proxy->links[i];
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    server = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (refuse || link == NULL || server < 0 ||
        connect(server, (struct sockaddr *)&address, sizeof address) < 0) {
        close(client);
        if (server >= 0)
            close(server);
        return;
    }
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    *link = (struct link){.client = client, .server = server};
    link->up.data = malloc(BUFFER);
    link->down.data = malloc(BUFFER);
    if (link->up.data == NULL || link->down.data == NULL)
        close_link(link);
}

static struct wish read_wish(struct lk_zkp *proxy)
{
    struct wish wish;

    pthread_mutex_lock(&proxy->mutex);
    wish = proxy->wish;
    proxy->wish.cut_all = false;
    pthread_mutex_unlock(&proxy->mutex);
    return wish;
}

static void serve(struct lk_zkp *proxy, struct link *link, const struct wish *wish, short from_client,
                  short from_server)
{
    bool open = true;

    if (from_client != 0)
        open = fill(link->client, &link->up);
    if (!wish->hold_requests)
        open = pass_requests(proxy, link) && open;
    if (from_server != 0)
        open = fill(link->server, &link->down) && open;
    if (!wish->hold_replies)
        open = pass_replies(proxy, link, wish->delay_ms) && open;
    if (!open)
        close_link(link);
}

static void *run(void *argument)
{
    struct lk_zkp *proxy = argument;
    struct pollfd fds[2 + 2 * LINKS_MAX];

    for (;;) {
        int timeout = -1;
        struct wish wish;
        eventfd_t count;

        fds[0] = (struct pollfd){.fd = proxy->poke, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (size_t i = 0; i < LINKS_MAX; i++) {
            if (proxy->links[i].due > 0)
                timeout = 1;
            fds[2 + 2 * i] = (struct pollfd){.fd = proxy->links[i].client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = proxy->links[i].server, .events = POLLIN};
        }
        poll(fds, 2 + 2 * LINKS_MAX, timeout);
        if (fds[0].revents != 0)
            eventfd_read(proxy->poke, &count);
        wish = read_wish(proxy);
        if (wish.end)
            return NULL;
        for (size_t i = 0; i < LINKS_MAX; i++) {
            if (wish.cut_all)
                close_link(&proxy->links[i]);
            if (proxy->links[i].client >= 0)
                serve(proxy, &proxy->links[i], &wish, fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
        }
        if (fds[1].revents != 0)
            accept_client(proxy, wish.refuse);
    }
}

/* ------------------------------------------------------------------ the test's side ---- */

struct lk_zkp *lk_zkp_start(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    struct lk_zkp *proxy = calloc(1, sizeof *proxy);
    socklen_t size = sizeof address;

    if (proxy == NULL)
        test_fails("out of memory (%s)", "proxy");
    for (size_t i = 0; i < LINKS_MAX; i++)
        proxy->links[i].client = proxy->links[i].server = -1;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->server_port = port;
    proxy->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener < 0 || bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 64) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) < 0)
        test_fails("the proxy can't listen: %s", strerror(errno));
    proxy->port = ntohs(address.sin_port);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        test_fails("can't start the thread of the %s", "proxy");
    return proxy;
}

/* Has the thread look at what the test wants. */
static void unlock_and_poke(struct lk_zkp *proxy)
{
    pthread_mutex_unlock(&proxy->mutex);
    eventfd_write(proxy->poke, 1);
}

void lk_zkp_free(struct lk_zkp *proxy)
{
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.end = true;
    unlock_and_poke(proxy);
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < LINKS_MAX; i++)
        close_link(&proxy->links[i]);
    close(proxy->listener);
    close(proxy->poke);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy);
}

int lk_zkp_port(const struct lk_zkp *proxy)
{
    return proxy->port;
}

void lk_zkp_harm(struct lk_zkp *proxy, enum lk_zkp_harm harm, int kind, unsigned nth, size_t bytes)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->harm = harm;
    proxy->harm_kind = kind;
    proxy->harm_in = nth;
    proxy->harm_bytes = bytes;
    unlock_and_poke(proxy);
}

void lk_zkp_withheld(struct lk_zkp *proxy, char *path, size_t size)
{
    pthread_mutex_lock(&proxy->mutex);
    snprintf(path, size, "%s", proxy->withheld);
    pthread_mutex_unlock(&proxy->mutex);
}

struct lk_zkp_passed lk_zkp_passed(struct lk_zkp *proxy, int kind)
{
    return (struct lk_zkp_passed){proxy, kind, lk_zkp_requests(proxy, kind)};
}

static bool has_passed(void *context)
{
    const struct lk_zkp_passed *wanted = context;

    return lk_zkp_requests(wanted->proxy, wanted->kind) >= wanted->count;
}

void lk_zkp_await_passed(struct lk_zkp_passed since, unsigned more)
{
    since.count += more;
    lk_require(has_passed, &since, "the proxy should see that many requests");
}

struct harmed {
    struct lk_zkp *proxy;
    unsigned count;
};

static bool is_harmed(void *context)
{
    struct harmed *wanted = context;
    bool yes;

    pthread_mutex_lock(&wanted->proxy->mutex);
    yes = wanted->proxy->harmed >= wanted->count;
    pthread_mutex_unlock(&wanted->proxy->mutex);
    return yes;
}

void lk_zkp_await_harm(struct lk_zkp *proxy, unsigned count)
{
    struct harmed wanted = {proxy, count};

    lk_require(is_harmed, &wanted, "the proxy should meet the request whose reply it harms");
}

void lk_zkp_delay(struct lk_zkp *proxy, int64_t ms)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.delay_ms = ms;
    unlock_and_poke(proxy);
}

void lk_zkp_hold(struct lk_zkp *proxy, bool requests, bool replies)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.hold_requests = requests;
    proxy->wish.hold_replies = replies;
    unlock_and_poke(proxy);
}

void lk_zkp_cut_all(struct lk_zkp *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.cut_all = true;
    unlock_and_poke(proxy);
}

void lk_zkp_refuse(struct lk_zkp *proxy, bool on)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.refuse = on;
    unlock_and_poke(proxy);
}

void lk_zkp_drop_events(struct lk_zkp *proxy, bool on)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->wish.drop_events = on;
    unlock_and_poke(proxy);
}

unsigned lk_zkp_dropped_events(struct lk_zkp *proxy)
{
    unsigned count;

    pthread_mutex_lock(&proxy->mutex);
    count = proxy->dropped;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

unsigned lk_zkp_requests(struct lk_zkp *proxy, int kind)
{
    unsigned count;

    pthread_mutex_lock(&proxy->mutex);
    count = proxy->requests[kind];
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
