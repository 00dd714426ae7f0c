/*
 * proxy.c: the harmful proxy; see proxy.h. The thread polls without a lock; it takes the mutex to look at
 * what the test wants and to note what it saw. Data are moved in whole messages, so that a harm meets one
 * reply.
 */
#include "proxy.h"

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
#include "resp.h"

enum { LINKS_MAX = 64, BUFFER = 1 << 17, MARKS_MAX = 4096, SEEN_MAX = 1 << 22 };

/* Bytes that came in on one side and are to go out on the other. */
struct flow {
    char *data; /* BUFFER bytes */
    size_t len;
};

/* One client's connection and ours to the server. Used by the proxy's thread alone. */
struct link {
    int client, server; /* -1: the slot is free */
    struct flow up, down;
    unsigned char marks[MARKS_MAX]; /* ring: for each request without a reply, the harm due or 0 */
    unsigned first_mark, mark_count;
    size_t harm_bytes; /* of the harm that is due */
    const char *flood_head, *flood_more;
    int64_t due; /* when the reply at the front of `down` may leave, ms; 0: not delayed */
    bool mute;   /* nothing goes to the client any more */
    bool held;   /* requests stay here */
    bool gone;   /* the client has closed it while it was held */
};

struct lk_proxy {
    pthread_mutex_t mutex; /* guards the members down to seen_len */
    enum lk_proxy_harm harm;
    char harm_text[64];
    unsigned harm_in; /* matching requests until the harm; 0: none is set */
    size_t harm_bytes;
    const char *flood_head, *flood_more; /* of LK_PROXY_FLOOD */
    unsigned harmed;
    int64_t delay_ms;
    bool hold_requests, hold_replies, refuse, cut_all, end;
    bool hold_old, let_old; /* to be done once */
    char *seen;             /* all requests, one after another */
    size_t seen_len;

    int listener, poke, port, server_port; /* constant after the start */
    pthread_t thread;
    struct link *links; /* LINKS_MAX; the thread's alone */
};

/* ------------------------------------------------------------------ moving data ---- */

static void close_link(struct link *link)
{
    if (link->client < 0)
        return;
    close(link->client);
    close(link->server);
    free(link->up.data);
    free(link->down.data);
    memset(link, 0, sizeof *link);
    link->client = link->server = -1;
}

static bool send_all(int fd, const char *data, size_t len)
{
    while (len > 0) {
        ssize_t sent = send(fd, data, len, MSG_NOSIGNAL);

        if (sent < 0 && errno != EINTR)
            return false;
        if (sent > 0) {
            data += sent;
            len -= (size_t)sent;
        }
    }
    return true;
}

/* Reads what is there; false at the end of the connection. */
static bool fill(int fd, struct flow *flow)
{
    ssize_t got;

    if (flow->len == BUFFER)
        return true;
    got = recv(fd, flow->data + flow->len, BUFFER - flow->len, MSG_DONTWAIT);
    if (got > 0)
        flow->len += (size_t)got;
    return got > 0 || (got < 0 && (errno == EAGAIN || errno == EINTR));
}

static void consume(struct flow *flow, size_t len)
{
    flow->len -= len;
    memmove(flow->data, flow->data + len, flow->len);
}

static bool contains(const char *data, size_t len, const char *text)
{
    return text[0] == '\0' || memmem(data, len, text, strlen(text)) != NULL;
}

/* Notes a request and answers the harm that its reply is to suffer, or 0. */
static unsigned char note_request(struct lk_proxy *proxy, struct link *link, const char *data, size_t len)
{
    unsigned char due = 0;

    pthread_mutex_lock(&proxy->mutex);
    if (proxy->seen_len + len + 1 < SEEN_MAX) {
        memcpy(proxy->seen + proxy->seen_len, data, len);
        proxy->seen_len += len;
        proxy->seen[proxy->seen_len++] = '\0';
    }
    if (proxy->harm_in > 0 && contains(data, len, proxy->harm_text) && --proxy->harm_in == 0) {
        due = (unsigned char)proxy->harm;
        link->harm_bytes = proxy->harm_bytes;
        link->flood_head = proxy->flood_head;
        link->flood_more = proxy->flood_more;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return due;
}

static bool pass_requests(struct lk_proxy *proxy, struct link *link)
{
    size_t len;

    while (link->up.len > 0 && (len = lk_resp_length(link->up.data, link->up.len)) > 0) {
        unsigned slot = (link->first_mark + link->mark_count++) % MARKS_MAX;

        link->marks[slot] = note_request(proxy, link, link->up.data, len);
        if (!send_all(link->server, link->up.data, len))
            return false;
        consume(&link->up, len);
    }
    return true;
}

static void count_harm(struct lk_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->harmed++;
    pthread_mutex_unlock(&proxy->mutex);
}

/* Does the harm to the reply at the front; false when the connection is to be closed. */
static bool do_harm(struct lk_proxy *proxy, struct link *link, enum lk_proxy_harm harm, size_t len)
{
    static const char nonsense[] = "\x01this is no reply\r\n";
    bool open = true;

    count_harm(proxy); /* first: the client may act as soon as it is harmed */
    switch (harm) {
    case LK_PROXY_CUT:
        send_all(link->client, link->down.data, link->harm_bytes < len ? link->harm_bytes : len);
        open = false;
        break;
    case LK_PROXY_GARBAGE:
        open = send_all(link->client, nonsense, sizeof nonsense - 1);
        break;
    case LK_PROXY_SWALLOW:
        link->mute = true;
        break;
    case LK_PROXY_TRICKLE:
        for (size_t i = 0; i < len && open; i++)
            open = send_all(link->client, link->down.data + i, 1);
        break;
    case LK_PROXY_FLOOD:
        open = send_all(link->client, link->flood_head, strlen(link->flood_head));
        while (open && link->flood_more[0] != '\0')
            open = send_all(link->client, link->flood_more, strlen(link->flood_more));
        break;
    }
    return open;
}

static bool pass_replies(struct lk_proxy *proxy, struct link *link, int64_t delay_ms)
{
    size_t len;

    while (link->down.len > 0 && (len = lk_resp_length(link->down.data, link->down.len)) > 0) {
        int64_t now = lk_test_now_ms();
        unsigned char harm = 0;

        if (delay_ms > 0 && link->due == 0)
            link->due = now + delay_ms;
        if (link->due > now)
            return true;
        link->due = 0;
        if (link->mark_count > 0) {
            harm = link->marks[link->first_mark % MARKS_MAX];
            link->first_mark = (link->first_mark + 1) % MARKS_MAX;
            link->mark_count--;
        }
        if (harm != 0) {
            if (!do_harm(proxy, link, (enum lk_proxy_harm)harm, len))
                return false;
        } else if (!link->mute && !send_all(link->client, link->down.data, len)) {
            return false;
        }
        consume(&link->down, len);
    }
    return true;
}

/* ------------------------------------------------------------------ the thread ---- */

static void set_nodelay(int fd)
{
    int on = 1;

    setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void accept_client(struct lk_proxy *proxy, bool refuse)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)proxy->server_port)};
    int client = accept4(proxy->listener, NULL, NULL, SOCK_CLOEXEC);
    struct link *link = NULL;
    int server;

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
    set_nodelay(client);
    set_nodelay(server);
    link->client = client;
    link->server = server;
    link->up.data = malloc(BUFFER);
    link->down.data = malloc(BUFFER);
    if (link->up.data == NULL || link->down.data == NULL)
        close_link(link);
}

/* What the test wants at this moment. */
struct wish {
    bool hold_requests, hold_replies, refuse, cut_all, end, hold_old, let_old;
    int64_t delay_ms;
};

static struct wish read_wish(struct lk_proxy *proxy)
{
    struct wish wish;

    pthread_mutex_lock(&proxy->mutex);
    wish.hold_requests = proxy->hold_requests;
    wish.hold_replies = proxy->hold_replies;
    wish.refuse = proxy->refuse;
    wish.cut_all = proxy->cut_all;
    wish.end = proxy->end;
    wish.delay_ms = proxy->delay_ms;
    wish.hold_old = proxy->hold_old;
    wish.let_old = proxy->let_old;
    proxy->cut_all = proxy->hold_old = proxy->let_old = false;
    pthread_mutex_unlock(&proxy->mutex);
    return wish;
}

/* Does what is to be done once for a connection that is open. */
static void change(struct lk_proxy *proxy, struct link *link, const struct wish *wish)
{
    if (wish->hold_old)
        link->held = true;
    if (wish->let_old && link->held) {
        link->held = false;
        pass_requests(proxy, link);
        if (link->gone)
            close_link(link);
    }
    if (wish->cut_all)
        close_link(link);
}

static void serve(struct lk_proxy *proxy, struct link *link, const struct wish *wish, short client_events,
                  short server_events)
{
    bool open = true;

    if (client_events != 0)
        open = fill(link->client, &link->up);
    if (!open && link->held)
        open = link->gone = link->mute = true;
    if (!wish->hold_requests && !link->held)
        open = pass_requests(proxy, link) && open;
    if (server_events != 0)
        open = fill(link->server, &link->down) && open;
    if (!wish->hold_replies)
        open = pass_replies(proxy, link, wish->delay_ms) && open;
    if (!open)
        close_link(link);
}

static void *run(void *argument)
{
    struct lk_proxy *proxy = argument;
    struct pollfd fds[2 + 2 * LINKS_MAX];

    for (;;) {
        struct wish wish = read_wish(proxy);
        int timeout = -1;

        if (wish.end)
            return NULL;
        fds[0] = (struct pollfd){.fd = proxy->poke, .events = POLLIN};
        fds[1] = (struct pollfd){.fd = proxy->listener, .events = POLLIN};
        for (size_t i = 0; i < LINKS_MAX; i++) {
            struct link *link = &proxy->links[i];

            if (link->client >= 0)
                change(proxy, link, &wish);
            if (link->due > 0)
                timeout = 1;
            fds[2 + 2 * i] = (struct pollfd){.fd = link->gone ? -1 : link->client, .events = POLLIN};
            fds[3 + 2 * i] = (struct pollfd){.fd = link->server, .events = POLLIN};
        }
        poll(fds, 2 + 2 * LINKS_MAX, timeout);
        if (fds[0].revents != 0) {
            eventfd_t count;

            eventfd_read(proxy->poke, &count);
            wish = read_wish(proxy);
            for (size_t i = 0; i < LINKS_MAX; i++)
                if (proxy->links[i].client >= 0)
                    change(proxy, &proxy->links[i], &wish);
        }
        for (size_t i = 0; i < LINKS_MAX; i++)
            if (proxy->links[i].client >= 0)
                serve(proxy, &proxy->links[i], &wish, fds[2 + 2 * i].revents, fds[3 + 2 * i].revents);
        if (fds[1].revents != 0)
            accept_client(proxy, wish.refuse);
    }
}

/* ------------------------------------------------------------------ the test's side ---- */

static void listen_on_free_port(struct lk_proxy *proxy)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;

    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    proxy->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (proxy->listener < 0 || bind(proxy->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(proxy->listener, 64) < 0 ||
        getsockname(proxy->listener, (struct sockaddr *)&address, &size) < 0)
        test_fails("the proxy can't listen: %s", strerror(errno));
    proxy->port = ntohs(address.sin_port);
}

struct lk_proxy *lk_proxy_start(int port)
{
    struct lk_proxy *proxy = calloc(1, sizeof *proxy);

    if (proxy == NULL || (proxy->links = calloc(LINKS_MAX, sizeof *proxy->links)) == NULL ||
        (proxy->seen = malloc(SEEN_MAX)) == NULL)
        test_fails("out of memory (%s)", "proxy");
    for (size_t i = 0; i < LINKS_MAX; i++)
        proxy->links[i].client = proxy->links[i].server = -1;
    pthread_mutex_init(&proxy->mutex, NULL);
    proxy->server_port = port;
    proxy->poke = eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK);
    listen_on_free_port(proxy);
    if (pthread_create(&proxy->thread, NULL, run, proxy) != 0)
        test_fails("can't start the thread of the %s", "proxy");
    return proxy;
}

/* Has the thread look at what the test wants. */
static void unlock_and_poke(struct lk_proxy *proxy)
{
    pthread_mutex_unlock(&proxy->mutex);
    eventfd_write(proxy->poke, 1);
}

void lk_proxy_free(struct lk_proxy *proxy)
{
    if (proxy == NULL)
        return;
    pthread_mutex_lock(&proxy->mutex);
    proxy->end = true;
    unlock_and_poke(proxy);
    pthread_join(proxy->thread, NULL);
    for (size_t i = 0; i < LINKS_MAX; i++)
        close_link(&proxy->links[i]);
    close(proxy->listener);
    close(proxy->poke);
    pthread_mutex_destroy(&proxy->mutex);
    free(proxy->links);
    free(proxy->seen);
    free(proxy);
}

int lk_proxy_port(const struct lk_proxy *proxy)
{
    return proxy->port;
}

void lk_proxy_harm(struct lk_proxy *proxy, enum lk_proxy_harm harm, const char *text, unsigned nth,
                   size_t bytes)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->harm = harm;
    snprintf(proxy->harm_text, sizeof proxy->harm_text, "%s", text);
    proxy->harm_in = nth;
    proxy->harm_bytes = bytes;
    unlock_and_poke(proxy);
}

void lk_proxy_flood(struct lk_proxy *proxy, const char *text, const char *head, const char *more)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->flood_head = head;
    proxy->flood_more = more;
    pthread_mutex_unlock(&proxy->mutex);
    lk_proxy_harm(proxy, LK_PROXY_FLOOD, text, 1, 0);
}

unsigned lk_proxy_harmed(struct lk_proxy *proxy)
{
    unsigned count;

    pthread_mutex_lock(&proxy->mutex);
    count = proxy->harmed;
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}

struct harmed {
    struct lk_proxy *proxy;
    unsigned count;
};

static bool is_harmed(void *context)
{
    struct harmed *wanted = context;

    return lk_proxy_harmed(wanted->proxy) >= wanted->count;
}

void lk_proxy_await_harm(struct lk_proxy *proxy, unsigned count)
{
    struct harmed wanted = {proxy, count};

    lk_require(is_harmed, &wanted, "the proxy should meet the request whose reply it harms");
}

void lk_proxy_delay(struct lk_proxy *proxy, int64_t ms)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->delay_ms = ms;
    unlock_and_poke(proxy);
}

void lk_proxy_hold(struct lk_proxy *proxy, int requests, int replies)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->hold_requests = requests != 0;
    proxy->hold_replies = replies != 0;
    unlock_and_poke(proxy);
}

void lk_proxy_hold_old(struct lk_proxy *proxy, int on)
{
    pthread_mutex_lock(&proxy->mutex);
    if (on)
        proxy->hold_old = true;
    else
        proxy->let_old = true;
    unlock_and_poke(proxy);
}

void lk_proxy_cut_all(struct lk_proxy *proxy)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->cut_all = true;
    unlock_and_poke(proxy);
}

void lk_proxy_refuse(struct lk_proxy *proxy, int on)
{
    pthread_mutex_lock(&proxy->mutex);
    proxy->refuse = on != 0;
    unlock_and_poke(proxy);
}

unsigned lk_proxy_requests(struct lk_proxy *proxy, const char *text)
{
    unsigned count = 0;
    size_t at = 0;

    pthread_mutex_lock(&proxy->mutex);
    while (at < proxy->seen_len) {
        size_t len = strlen(proxy->seen + at);

        count += contains(proxy->seen + at, len, text) ? 1 : 0;
        at += len + 1;
    }
    pthread_mutex_unlock(&proxy->mutex);
    return count;
}
