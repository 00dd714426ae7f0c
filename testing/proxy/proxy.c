/* proxy.c: the thread that serves the connections, and what its user tells it; see proxy.h. */
#include "proxy/proxy.h"

#include <arpa/inet.h>
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lk_time.h"
#include "lk_wakeup.h"
#include "proxy/link.h"

enum { LINKS_MAX = 64, POKE = 0, LISTENER = 1, FIRST = 2, COUNT = FIRST + 2 * LINKS_MAX };

struct lk_proxy {
    lk_rules rules;
    lk_link links[LINKS_MAX]; /* free: no sockets. The thread's alone; it opens and closes sockets under the
                                 mutex */
    int listener, poke, port, server_port;
    pthread_t thread;
    bool started;
};

/* ------------------------------------------------------------------ connections ---- */

static bool is_open(const lk_link *link)
{
    return link->ways[LK_UP].from >= 0;
}

static void forget(lk_link *link)
{
    lk_way_clear(&link->ways[LK_UP]);
    lk_way_clear(&link->ways[LK_DOWN]);
    *link = (lk_link){.ways = {link->ways[LK_UP], link->ways[LK_DOWN]}};
}

static void close_link(lk_proxy *p, lk_link *link)
{
    if (!is_open(link))
        return;
    lk_mutex_lock(&p->rules.mutex);
    close(link->ways[LK_UP].from);
    close(link->ways[LK_UP].to);
    forget(link);
    lk_mutex_unlock(&p->rules.mutex);
}

static struct sockaddr_in local(int port)
{
    return (struct sockaddr_in){
        .sin_family = AF_INET, .sin_port = htons((uint16_t)port), .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
}

static int connect_to(int port)
{
    const struct sockaddr_in address = local(port);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (fd >= 0 && connect(fd, (const struct sockaddr *)&address, sizeof address) < 0) {
        close(fd);
        return -1;
    }
    return fd;
}

static void open_link(lk_proxy *p, lk_link *link, int client, int server)
{
    const int on = 1;
    setsockopt(client, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    setsockopt(server, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    lk_mutex_lock(&p->rules.mutex);
    link->ways[LK_UP] = (lk_way){.from = client, .to = server};
    link->ways[LK_DOWN] = (lk_way){.from = server, .to = client};
    lk_mutex_unlock(&p->rules.mutex);
}

static void accept_client(lk_proxy *p)
{
    const int client = accept4(p->listener, NULL, NULL, SOCK_CLOEXEC);
    size_t at = 0;
    if (client < 0)
        return;
    lk_mutex_lock(&p->rules.mutex);
    const bool refuse = p->rules.refuse;
    lk_mutex_unlock(&p->rules.mutex);
    while (at < LINKS_MAX && is_open(&p->links[at]))
        at++;
    const int server = refuse || at == LINKS_MAX ? -1 : connect_to(p->server_port);
    if (server < 0)
        close(client);
    else
        open_link(p, &p->links[at], client, server);
}

/* ------------------------------------------------------------------ the thread ---- */

/* Does what is to be done once; false when it is to end. */
static bool obey(lk_proxy *p)
{
    lk_rules *r = &p->rules;
    lk_mutex_lock(&r->mutex);
    const bool cut = r->cut_all, hold = r->hold_old, let = r->let_old, end = r->end;
    r->cut_all = r->hold_old = r->let_old = false;
    lk_mutex_unlock(&r->mutex);
    for (size_t i = 0; i < LINKS_MAX; i++) {
        if (cut)
            close_link(p, &p->links[i]);
        if (hold || let)
            p->links[i].held = hold && is_open(&p->links[i]);
    }
    return !end;
}

/* Passes on what may leave; answers when the next piece may, INT64_MAX: none stands there. */
static int64_t pass_all(lk_proxy *p)
{
    int64_t next = INT64_MAX;
    for (size_t i = 0; i < LINKS_MAX; i++) {
        lk_link *link = &p->links[i];
        const int64_t now = lk_way_now();

        if (is_open(link) && !lk_link_pass(link, &p->rules, now))
            close_link(p, link);
        for (int way = LK_UP; way <= LK_DOWN; way++) { /* what is due and held waits for us to be told */
            const lk_piece *first = link->ways[way].first;

            if (first != NULL && first->due > now && first->due < next)
                next = first->due;
        }
    }
    return next;
}

static void take_all(lk_proxy *p, const struct pollfd fds[COUNT])
{
    lk_rules *r = &p->rules;
    lk_mutex_lock(&r->mutex);
    int64_t due[2];
    for (int way = LK_UP; way <= LK_DOWN; way++)
        due[way] = lk_way_now() + r->delay_ns[way];
    lk_mutex_unlock(&r->mutex);
    for (size_t i = 0; i < LINKS_MAX; i++)
        for (size_t way = LK_UP; way <= LK_DOWN; way++)
            if (is_open(&p->links[i]) && fds[FIRST + 2 * i + way].revents != 0)
                lk_way_take(&p->links[i].ways[way], r->protocol->length, due[way]);
}

/* Waits until something comes, or is due, or is told. */
static void wait_for(lk_proxy *p, struct pollfd fds[COUNT], int64_t next)
{
    const struct timespec span = lk_time_spec(lk_time_left(lk_way_now(), next));
    fds[POKE] = (struct pollfd){.fd = p->poke, .events = POLLIN};
    fds[LISTENER] = (struct pollfd){.fd = p->listener, .events = POLLIN};
    for (size_t i = 0; i < LINKS_MAX; i++)
        for (size_t way = LK_UP; way <= LK_DOWN; way++) {
            const lk_way *w = &p->links[i].ways[way];

            fds[FIRST + 2 * i + way] = (struct pollfd){.fd = w->ended ? -1 : w->from, .events = POLLIN};
        }
    if (ppoll(fds, COUNT, next == INT64_MAX ? NULL : &span, NULL) < 0)
        for (size_t i = 0; i < COUNT; i++)
            fds[i].revents = 0;
    if (fds[POKE].revents != 0)
        lk_wakeup_clear(p->poke);
}

/* Who connects after a call has returned is not met by what it asked for. */
void lk_proxy_serve(lk_proxy *p)
{
    struct pollfd fds[COUNT];
    for (wait_for(p, fds, INT64_MAX); obey(p); wait_for(p, fds, pass_all(p))) {
        take_all(p, fds);
        if (fds[LISTENER].revents != 0)
            accept_client(p);
    }
}

/* ------------------------------------------------------------------ beginning and end ---- */

static size_t all_of_it(const char *bytes, size_t count)
{
    (void)bytes;
    return count;
}

static const lk_protocol unknown = {.length = all_of_it};

static bool listen_on_free_port(lk_proxy *p)
{
    struct sockaddr_in address = local(0);
    socklen_t size = sizeof address;
    p->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    if (p->listener < 0 || bind(p->listener, (struct sockaddr *)&address, sizeof address) < 0 ||
        listen(p->listener, LINKS_MAX) < 0 ||
        getsockname(p->listener, (struct sockaddr *)&address, &size) < 0)
        return false;
    p->port = ntohs(address.sin_port);
    return true;
}

lk_proxy *lk_proxy_open(const lk_protocol *protocol, int port)
{
    lk_proxy *p = calloc(1, sizeof *p);
    if (p == NULL)
        return NULL;
    for (size_t i = 0; i < LINKS_MAX; i++)
        forget(&p->links[i]);
    lk_mutex_init(&p->rules.mutex);
    p->rules.protocol = protocol != NULL ? protocol : &unknown;
    p->server_port = port;
    p->poke = lk_wakeup_new();
    if (p->poke < 0 || !listen_on_free_port(p)) {
        const int error = errno;

        lk_proxy_free(p);
        errno = error;
        return NULL;
    }
    return p;
}

static void *run(void *proxy)
{
    lk_proxy_serve(proxy);
    return NULL;
}

bool lk_proxy_start(lk_proxy *p)
{
    errno = pthread_create(&p->thread, NULL, run, p);
    p->started = errno == 0;
    return p->started;
}

/* Has the thread look at what is set. */
static void unlock_and_poke(lk_proxy *p) LK_RELEASE(p->rules.mutex)
{
    lk_mutex_unlock(&p->rules.mutex);
    lk_wakeup_ring(p->poke);
}

void lk_proxy_free(lk_proxy *p)
{
    if (p == NULL)
        return;
    lk_mutex_lock(&p->rules.mutex);
    p->rules.end = true;
    for (size_t i = 0; i < LINKS_MAX; i++) /* the thread may be sending to one that doesn't read */
        for (int way = LK_UP; way <= LK_DOWN; way++)
            if (is_open(&p->links[i]))
                shutdown(p->links[i].ways[way].to, SHUT_RDWR);
    unlock_and_poke(p);
    if (p->started)
        pthread_join(p->thread, NULL);
    for (size_t i = 0; i < LINKS_MAX; i++)
        close_link(p, &p->links[i]);
    if (p->listener >= 0)
        close(p->listener);
    if (p->poke >= 0)
        close(p->poke);
    lk_rules_clear(&p->rules);
    lk_mutex_destroy(&p->rules.mutex);
    free(p);
}

int lk_proxy_port(const lk_proxy *p)
{
    return p->port;
}

/* ------------------------------------------------------------------ gates ---- */

/* Sets two things at once. */
static void set(lk_proxy *p, bool *one, bool to, bool *other, bool other_to)
{
    lk_mutex_lock(&p->rules.mutex);
    *one = to;
    *other = other_to;
    unlock_and_poke(p);
}

void lk_proxy_hold(lk_proxy *p, bool requests, bool replies)
{
    set(p, &p->rules.hold[LK_UP], requests, &p->rules.hold[LK_DOWN], replies);
}

void lk_proxy_hold_old(lk_proxy *p, bool on)
{
    set(p, &p->rules.hold_old, on, &p->rules.let_old, !on);
}

void lk_proxy_cut_all(lk_proxy *p)
{
    set(p, &p->rules.cut_all, true, &p->rules.cut_all, true);
}

void lk_proxy_refuse(lk_proxy *p, bool on)
{
    set(p, &p->rules.refuse, on, &p->rules.refuse, on);
}

void lk_proxy_drop_unasked(lk_proxy *p, bool on)
{
    set(p, &p->rules.drop_unasked, on, &p->rules.drop_unasked, on);
}

void lk_proxy_delay(lk_proxy *p, int64_t requests_ms, int64_t replies_ms)
{
    lk_mutex_lock(&p->rules.mutex);
    p->rules.delay_ns[LK_UP] = requests_ms * LK_MS;
    p->rules.delay_ns[LK_DOWN] = replies_ms * LK_MS;
    unlock_and_poke(p);
}

/* ------------------------------------------------------------------ harms ---- */

static void set_fault(lk_proxy *p, const lk_fault *fault, const char *kind, unsigned nth)
{
    lk_mutex_lock(&p->rules.mutex);
    p->rules.fault = *fault;
    snprintf(p->rules.kind, sizeof p->rules.kind, "%s", kind);
    p->rules.nth = nth;
    unlock_and_poke(p);
}

void lk_proxy_harm(lk_proxy *p, lk_harm harm, const char *kind, unsigned nth, size_t bytes)
{
    set_fault(p, &(lk_fault){.harm = harm, .bytes = bytes}, kind, nth);
}

void lk_proxy_harm_each(lk_proxy *p, lk_harm harm, const char *kind, size_t bytes)
{
    set_fault(p, &(lk_fault){.harm = harm, .bytes = bytes, .goes_on = true}, kind, 1);
}

void lk_proxy_harm_none(lk_proxy *p)
{
    set_fault(p, &(lk_fault){0}, "", 0);
}

void lk_proxy_forge(lk_proxy *p, const char *kind, lk_forge *forge)
{
    set_fault(p, &(lk_fault){.harm = LK_PROXY_FORGE, .forge = forge}, kind, 1);
}

void lk_proxy_flood(lk_proxy *p, const char *kind, const char *head, const char *more)
{
    set_fault(p, &(lk_fault){.harm = LK_PROXY_FLOOD, .head = head, .more = more}, kind, 1);
}

void lk_proxy_answer(lk_proxy *p, const char *kind, lk_forge *forge)
{
    lk_answer *at = NULL;
    lk_mutex_lock(&p->rules.mutex);
    for (size_t i = 0; i < LK_ANSWERS; i++)
        if (p->rules.answers[i].forge != NULL ? strcmp(p->rules.answers[i].kind, kind) == 0 : at == NULL)
            at = &p->rules.answers[i];
    if (at == NULL)
        abort();
    snprintf(at->kind, sizeof at->kind, "%s", kind);
    at->forge = forge;
    unlock_and_poke(p);
}

/* ------------------------------------------------------------------ what was seen ---- */

static unsigned read_count(lk_proxy *p, const unsigned *count)
{
    lk_mutex_lock(&p->rules.mutex);
    const unsigned now = *count;
    lk_mutex_unlock(&p->rules.mutex);
    return now;
}

unsigned lk_proxy_dropped(lk_proxy *p)
{
    return read_count(p, &p->rules.dropped);
}

unsigned lk_proxy_harmed(lk_proxy *p)
{
    return read_count(p, &p->rules.harmed);
}

size_t lk_proxy_withheld(lk_proxy *p, char *bytes, size_t size)
{
    size_t length = 0;
    lk_mutex_lock(&p->rules.mutex);
    if (p->rules.withheld != NULL) {
        const lk_message *request = &p->rules.withheld->message;

        length = request->length < size ? request->length : size;
        memcpy(bytes, request->bytes, length);
    }
    lk_mutex_unlock(&p->rules.mutex);
    return length;
}

unsigned lk_proxy_requests(lk_proxy *p, const char *kind)
{
    lk_mutex_lock(&p->rules.mutex);
    const unsigned count = lk_rules_count_locked(&p->rules, kind);
    lk_mutex_unlock(&p->rules.mutex);
    return count;
}
