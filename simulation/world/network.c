/* network.c: services, ways, connections, and what stands for sockets. See network.h. */
#include <arpa/inet.h>
#include <errno.h>
#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "files.h"
#include "network.h"
#include "seams.h"

enum { SERVICES_MAX = 16, PROCESSES_MAX = 32, RECEIVE_BYTES = 1 << 20, SHORT_PPM = 20000 };

/* A piece that is on its way. */
typedef struct piece {
    struct piece *next;
    int64_t sent_at;
    uint64_t number;
    int64_t at; /* when it arrives, if the way isn't clogged */
    size_t count;
    char bytes[];
} piece;

/* The client is to be seen reading that byte. */
typedef struct mark {
    struct mark *next;
    uint64_t behind; /* of all bytes that the service has sent */
    uint64_t mark;
} mark;

typedef enum { FRESH, CONNECTING, UP, REFUSED, RESET, ENDED } lk_sim_connection_state;

struct lk_sim_connection {
    lk_sim_connection *next;
    lk_sim_process *process;
    lk_sim_service *service;
    const lk_sim_way *way;
    void *session;                 /* of the service; NULL: none, or it has been told of the end */
    lk_sim_connection_state state; /* as the client sees it */
    bool client_open;
    piece *to, *from;      /* the service; in order */
    bool end_to, end_from; /* behind the last piece */
    char *received;        /* by the client's host, not read yet */
    size_t received_count, received_room;
    bool was_answered;          /* before that its send buffer is empty enough for what it sends */
    int64_t late_to, late_from; /* nothing arrives before */
    int64_t receive_timeout_ns; /* 0: none */
    int64_t sent_at;            /* when the service's latest piece was sent */
    uint64_t sent_number;       /* ... and its number */
    uint64_t said, read;        /* so many bytes by the service, in all; and so many of them by the client */
    mark *marks;                /* in order */
    unsigned coming;            /* events that have a pointer to it */
};

static struct {
    lk_sim_service *services[SERVICES_MAX];
    size_t service_count;
    struct {
        const lk_sim_process *process;
        const lk_sim_service *service;
        lk_sim_way way;
    } ways[SERVICES_MAX * PROCESSES_MAX];
    size_t way_count;
    lk_sim_connection *first;
    uint64_t pieces;
} net;

void lk_sim_network_begin(void)
{
    memset(&net, 0, sizeof net);
}

void lk_sim_network_add(lk_sim_service *service)
{
    if (net.service_count == SERVICES_MAX)
        lk_sim_fail("too many services");
    net.services[net.service_count++] = service;
}

lk_sim_way *lk_sim_way_of(const lk_sim_process *process, const lk_sim_service *service)
{
    size_t i = 0;
    while (i < net.way_count && (net.ways[i].process != process || net.ways[i].service != service))
        i++;
    if (i == net.way_count) {
        if (i == sizeof net.ways / sizeof *net.ways)
            lk_sim_fail("too many ways");
        net.ways[net.way_count++].process = process;
        net.ways[i].service = service;
        net.ways[i].way = (lk_sim_way){.delay_ns = 50000, .jitter_ns = 100000};
    }
    return &net.ways[i].way;
}

/* ------------------------------------------------------------------ pieces on their way ---- */

static void forget(lk_sim_connection *c)
{
    if (c->client_open || c->session != NULL || c->coming > 0)
        return;
    for (lk_sim_connection **at = &net.first; *at != NULL; at = &(*at)->next) {
        if (*at != c)
            continue;
        *at = c->next;
        break;
    }
    for (piece *p; (p = c->to) != NULL || (p = c->from) != NULL;) {
        *(p == c->to ? &c->to : &c->from) = p->next;
        free(p);
    }
    for (mark *m; (m = c->marks) != NULL; free(m))
        c->marks = m->next;
    free(c->received);
    free(c);
}

static void end_session(lk_sim_connection *c)
{
    void *const session = c->session;
    c->session = NULL;
    if (session != NULL && c->service->closed != NULL)
        c->service->closed(session);
}

static void keep(lk_sim_connection *c, const piece *p)
{
    if (c->received_count + p->count > RECEIVE_BYTES)
        lk_sim_fail("a client does not read");
    if (c->received_count + p->count > c->received_room) {
        c->received_room = 2 * (c->received_count + p->count);
        c->received = realloc(c->received, c->received_room);
        if (c->received == NULL)
            abort();
    }
    memcpy(c->received + c->received_count, p->bytes, p->count);
    c->received_count += p->count;
    if (!c->was_answered && c->process->given_up == c->service)
        c->process->given_up_at = 0;
    c->was_answered = true;
    lk_sim_file_changed(c);
}

static bool arrived(const piece *p, bool clogged)
{
    return p != NULL && !clogged && p->at <= lk_sim_now();
}

/* Deliver what has arrived. */
static void deliver(lk_sim_connection *c)
{
    const lk_sim_way *const way = c->way;
    const bool silent = c->service->silent;
    for (piece *p; arrived(p = c->to, way->clogged_to || silent);) {
        c->to = p->next;
        c->sent_at = p->sent_at;
        c->sent_number = p->number;
        if (c->session != NULL)
            c->service->received(c->session, p->bytes, p->count);
        free(p);
    }
    if (c->to == NULL && c->end_to && !way->clogged_to && !silent)
        end_session(c);
    for (piece *p; arrived(p = c->from, way->clogged_from);) {
        c->from = p->next;
        if (c->client_open && c->state == UP)
            keep(c, p);
        free(p);
    }
    if (c->from == NULL && c->end_from && !way->clogged_from && c->state == UP) {
        c->state = ENDED;
        lk_sim_file_changed(c);
    }
}

static void piece_comes(void *context)
{
    lk_sim_connection *const c = context;
    c->coming--;
    deliver(c);
    forget(c);
}

/* When what is sent now arrives: not before what was sent before. */
static int64_t arrival(const lk_sim_connection *c, const piece *last, int64_t late)
{
    const lk_sim_way *const way = c->way;
    const int64_t soon = lk_sim_now() + way->delay_ns + (int64_t)lk_sim_draw((uint64_t)way->jitter_ns + 1);
    const int64_t at = soon > late ? soon : late;
    return last != NULL && last->at > at ? last->at : at;
}

static void come_at(lk_sim_connection *c, int64_t at)
{
    c->coming++;
    lk_sim_at(at, piece_comes, c);
}

static void put(lk_sim_connection *c, piece **queue, const char *bytes, size_t count)
{
    const bool queue_is_to = queue == &c->to;
    piece *last = NULL;
    while (*queue != NULL) {
        last = *queue;
        queue = &(*queue)->next;
    }
    piece *const p = lk_sim_alloc(sizeof *p + count);
    *p = (piece){.sent_at = lk_sim_now(),
                 .number = ++net.pieces,
                 .at = arrival(c, last, queue_is_to ? c->late_to : c->late_from),
                 .count = count};
    memcpy(p->bytes, bytes, count);
    *queue = p;
    come_at(c, p->at);
    if (queue_is_to && lk_sim_network_sent != NULL)
        lk_sim_network_sent(p->number);
}

void (*lk_sim_network_answers)(lk_sim_process *process);
void (*lk_sim_network_sent)(uint64_t number);
void (*lk_sim_network_read)(uint64_t mark);

void lk_sim_connection_mark(lk_sim_connection *connection, size_t behind, uint64_t number)
{
    mark **at = &connection->marks;
    while (*at != NULL)
        at = &(*at)->next;
    *at = lk_sim_alloc(sizeof **at);
    **at = (mark){.behind = connection->said + behind, .mark = number};
}

static void has_read(lk_sim_connection *c, size_t count)
{
    c->read += count;
    for (mark *m; (m = c->marks) != NULL && m->behind <= c->read; free(m)) {
        c->marks = m->next;
        if (lk_sim_network_read != NULL)
            lk_sim_network_read(m->mark);
    }
}

void lk_sim_connection_send(lk_sim_connection *connection, const char *bytes, size_t count)
{
    if (lk_sim_network_answers != NULL)
        lk_sim_network_answers(connection->process);
    connection->said += count;
    for (size_t n; count > 0; bytes += n, count -= n) { /* in pieces, now and then */
        n = lk_sim_chance(SHORT_PPM) ? 1 + lk_sim_draw(count) : count;
        put(connection, &connection->from, bytes, n);
    }
}

void lk_sim_connection_close(lk_sim_connection *connection)
{
    connection->session = NULL;
    connection->end_from = true;
    come_at(connection, arrival(connection, connection->from, connection->late_from));
}

lk_sim_process *lk_sim_connection_process(const lk_sim_connection *connection)
{
    return connection->process;
}

int64_t lk_sim_connection_sent_at(const lk_sim_connection *connection)
{
    return connection->sent_at;
}

uint64_t lk_sim_connection_sent_number(const lk_sim_connection *connection)
{
    return connection->sent_number;
}

void lk_sim_network_goes_on(void)
{
    for (lk_sim_connection *c = net.first; c != NULL; c = c->next)
        if (c->state != FRESH)
            come_at(c, lk_sim_now());
}

bool lk_sim_network_lose(const lk_sim_process *process, unsigned number, bool to_service, int64_t span_ns)
{
    unsigned count = 0;
    for (const lk_sim_connection *c = net.first; c != NULL; c = c->next)
        count += c->process == process && c->state == UP;
    if (count == 0)
        return false;
    number %= count;
    for (lk_sim_connection *c = net.first; c != NULL; c = c->next) {
        if (c->process != process || c->state != UP || number-- > 0)
            continue;
        *(to_service ? &c->late_to : &c->late_from) = lk_sim_now() + span_ns;
        break;
    }
    return true;
}

void lk_sim_connection_delay(lk_sim_connection *connection, int64_t span_ns)
{
    connection->late_from = lk_sim_now() + span_ns;
}

void lk_sim_network_reset(const lk_sim_process *process, const lk_sim_service *service)
{
    for (lk_sim_connection *c = net.first, *next; c != NULL; c = next) {
        next = c->next;
        if ((process != NULL && c->process != process) || (service != NULL && c->service != service) ||
            c->state == FRESH)
            continue;
        if (c->state == UP || c->state == CONNECTING) {
            c->state = RESET;
            lk_sim_file_changed(c);
        }
        end_session(c);
        forget(c);
    }
}

bool lk_sim_network_is_connected(const lk_sim_process *process, const lk_sim_service *service)
{
    for (const lk_sim_connection *c = net.first; c != NULL; c = c->next)
        if (c->process == process && c->service == service && c->client_open && c->state == UP)
            return true;
    return false;
}

/* ------------------------------------------------------------------ connecting ---- */

static void connects(void *context)
{
    lk_sim_connection *const c = context;
    const lk_sim_way *const way = c->way;
    c->coming--;
    if (!c->client_open || c->state != CONNECTING) {
        forget(c);
        return;
    }
    if (way->clogged_to || way->clogged_from || c->service->silent) { /* the next SYN */
        c->coming++;
        lk_sim_at(lk_sim_now() + 200000000, connects, c);
        return;
    }
    c->session = c->service->refuses ? NULL : c->service->accepted(c->service->self, c);
    c->state = c->session == NULL ? REFUSED : UP;
    if (c->state == UP)
        c->process->connected_at = lk_sim_now();
    lk_sim_file_changed(c);
}

static uint32_t socket_ready(void *self)
{
    const lk_sim_connection *const c = self;
    switch (c->state) {
    case FRESH:
        return EPOLLOUT | EPOLLHUP;
    case CONNECTING:
        return 0;
    case UP:
        return EPOLLOUT | (c->received_count > 0 ? (uint32_t)EPOLLIN : 0);
    case ENDED:
        return EPOLLOUT | EPOLLIN | EPOLLRDHUP;
    default:
        return EPOLLOUT | EPOLLIN | EPOLLRDHUP | EPOLLHUP | EPOLLERR;
    }
}

static ssize_t receive_now(lk_sim_connection *c, char *bytes, size_t room)
{
    if (c->received_count > 0) {
        size_t n = c->received_count < room ? c->received_count : room;
        if (lk_sim_chance(SHORT_PPM))
            n = 1 + lk_sim_draw(n);
        memcpy(bytes, c->received, n);
        c->received_count -= n;
        memmove(c->received, c->received + n, c->received_count);
        has_read(c, n);
        return (ssize_t)n;
    }
    if (c->state == ENDED)
        return 0;
    errno = c->state == UP ? EAGAIN : ECONNRESET;
    return -1;
}

static void has_room(void *context)
{
    lk_sim_connection *const c = context;
    c->coming--;
    lk_sim_file_changed(c);
    forget(c);
}

static ssize_t send_now(lk_sim_connection *c, const char *bytes, size_t count)
{
    if (c->state != UP && c->state != ENDED) {
        errno = c->state == CONNECTING ? EAGAIN : EPIPE;
        return -1;
    }
    const bool is_full = c->was_answered && lk_sim_chance(SHORT_PPM);
    if (is_full && lk_sim_chance(500000)) {
        errno = EAGAIN; /* its buffer is full for a moment */
        c->coming++;
        lk_sim_at(lk_sim_now() + 1000, has_room, c);
        return -1;
    }
    if (is_full && count > 1)
        count = 1 + lk_sim_draw(count - 1);
    put(c, &c->to, bytes, count);
    return (ssize_t)count;
}

static ssize_t socket_read(void *self, void *bytes, size_t room)
{
    return receive_now(self, bytes, room);
}

static ssize_t socket_write(void *self, const void *bytes, size_t count)
{
    return send_now(self, bytes, count);
}

static void socket_close(void *self)
{
    lk_sim_connection *const c = self;
    c->client_open = false;
    c->end_to = true;
    if (c->state != FRESH && !c->was_answered) {
        c->process->given_up_at = lk_sim_now();
        c->process->given_up = c->service;
    }
    if (c->session != NULL)
        come_at(c, arrival(c, c->to, c->late_to));
    forget(c);
}

static const lk_sim_file_ops socket_ops = {socket_ready, socket_read, socket_write, socket_close};

static lk_sim_connection *connection_of(int fd)
{
    const lk_sim_file *const file = lk_sim_file_of(fd);
    if (file == NULL || file->ops != &socket_ops)
        lk_sim_fail("descriptor %d is no simulated socket", fd);
    return file->self;
}

/* ------------------------------------------------------------------ what stands for the system's ---- */

int lk_sim_socket(int domain, int type, int protocol)
{
    (void)domain;
    (void)protocol;
    lk_sim_connection *const c = lk_sim_alloc(sizeof *c);
    c->process = lk_sim_here();
    c->client_open = true;
    c->next = net.first;
    net.first = c;
    lk_sim_pause();
    const int fd = lk_sim_file_new(&socket_ops, c);
    lk_sim_file_of(fd)->blocks = (type & SOCK_NONBLOCK) == 0;
    return fd;
}

/* Addresses are 10.0.0.N, N the service's place from 1. */
static struct sockaddr_in address_of(size_t place)
{
    return (struct sockaddr_in){.sin_family = AF_INET,
                                .sin_port = htons((uint16_t)net.services[place]->port),
                                .sin_addr.s_addr = htonl(0x0a000001 + (uint32_t)place)};
}

static size_t place_of(const lk_sim_service *service)
{
    size_t place = 0;
    while (net.services[place] != service)
        place++;
    return place;
}

void lk_sim_network_address(const lk_sim_service *service, char *text, size_t size)
{
    const struct sockaddr_in in = address_of(place_of(service));
    if (inet_ntop(AF_INET, &in.sin_addr, text, (socklen_t)size) == NULL)
        abort();
}

int lk_sim_connect(int fd, const struct sockaddr *address, socklen_t size)
{
    lk_sim_connection *const c = connection_of(fd);
    const struct sockaddr_in *const in = (const struct sockaddr_in *)(const void *)address;
    (void)size;
    lk_sim_pause();
    const size_t place = (ntohl(in->sin_addr.s_addr) & 0xff) - 1;
    if (address->sa_family != AF_INET || place >= net.service_count) {
        errno = ENETUNREACH;
        return -1;
    }
    c->service = net.services[place];
    c->way = lk_sim_way_of(c->process, c->service);
    c->state = CONNECTING;
    c->coming++;
    lk_sim_at(arrival(c, NULL, 0), connects, c);
    errno = EINPROGRESS;
    return -1;
}

ssize_t lk_sim_send(int fd, const void *bytes, size_t count, int flags)
{
    (void)flags;
    lk_sim_connection *const c = connection_of(fd);
    lk_sim_pause();
    return send_now(c, bytes, count);
}

ssize_t lk_sim_recv(int fd, void *bytes, size_t room, int flags)
{
    lk_sim_connection *const c = connection_of(fd);
    const lk_sim_file *const file = lk_sim_file_of(fd);
    lk_sim_pause();
    if ((flags & MSG_DONTWAIT) == 0 && file->blocks)
        (void)lk_sim_file_await(file, EPOLLIN,
                                lk_sim_true_after(c->receive_timeout_ns > 0 ? c->receive_timeout_ns : -1));
    return receive_now(c, bytes, room);
}

int lk_sim_shutdown(int fd, int how)
{
    lk_sim_connection *const c = connection_of(fd);
    (void)how;
    lk_sim_pause();
    c->end_to = true;
    if (c->state == UP)
        c->state = ENDED;
    if (c->state == CONNECTING)
        c->state = RESET;
    if (c->session != NULL)
        come_at(c, arrival(c, c->to, c->late_to));
    lk_sim_file_changed(c);
    return 0;
}

int lk_sim_setsockopt(int fd, int level, int name, const void *value, socklen_t size)
{
    lk_sim_connection *const c = connection_of(fd);
    (void)size;
    lk_sim_pause();
    if (level == SOL_SOCKET && name == SO_RCVTIMEO) {
        const struct timeval *const span = value;
        c->receive_timeout_ns = (int64_t)span->tv_sec * 1000000000 + span->tv_usec * 1000;
    }
    return 0;
}

int lk_sim_getsockopt(int fd, int level, int name, void *value, socklen_t *size)
{
    const lk_sim_connection *const c = connection_of(fd);
    if (level != SOL_SOCKET || name != SO_ERROR)
        lk_sim_fail("socket option %d is not simulated", name);
    lk_sim_pause();
    *size = sizeof(int);
    *(int *)value = c->state == REFUSED ? ECONNREFUSED : c->state == RESET ? ECONNRESET : 0;
    return 0;
}

int lk_sim_getpeername(int fd, struct sockaddr *address, socklen_t *size)
{
    const lk_sim_connection *const c = connection_of(fd);
    if (c->service == NULL) {
        errno = ENOTCONN;
        return -1;
    }
    const struct sockaddr_in in = address_of(place_of(c->service));
    lk_sim_pause();
    memcpy(address, &in, *size < sizeof in ? *size : sizeof in);
    *size = sizeof in;
    return 0;
}

static bool is_called(const lk_sim_service *service, const char *name)
{
    return strcmp(service->host, name) == 0 || (service->alias != NULL && strcmp(service->alias, name) == 0);
}

/* The place of the service with that name, or with that address as a text; SERVICES_MAX: there is none. */
static size_t find(const char *host, int port, bool numeric)
{
    struct in_addr address;
    const bool is_address = inet_pton(AF_INET, host, &address) == 1;
    for (size_t i = 0; i < net.service_count; i++) {
        const bool is_it = is_address ? address.s_addr == address_of(i).sin_addr.s_addr
                                      : !numeric && is_called(net.services[i], host);
        if (is_it && net.services[i]->port == port)
            return i;
    }
    return SERVICES_MAX;
}

int lk_sim_getaddrinfo(const char *host, const char *port, const struct addrinfo *hints,
                       struct addrinfo **found)
{
    lk_sim_pause();
    const bool numeric = hints != NULL && (hints->ai_flags & AI_NUMERICHOST) != 0;
    const size_t place = find(host, (int)strtol(port, NULL, 10), numeric);
    if (place == SERVICES_MAX)
        return EAI_NONAME;
    struct {
        struct addrinfo info;
        struct sockaddr_in address;
    } *const both = calloc(1, sizeof *both);
    if (both == NULL)
        return EAI_MEMORY;
    both->address = address_of(place);
    both->info = (struct addrinfo){.ai_family = AF_INET,
                                   .ai_socktype = SOCK_STREAM,
                                   .ai_addr = (struct sockaddr *)(void *)&both->address,
                                   .ai_addrlen = sizeof both->address};
    *found = &both->info;
    return 0;
}

void lk_sim_freeaddrinfo(struct addrinfo *found)
{
    free(found);
}

void lk_sim_network_end(void)
{
    while (net.first != NULL) {
        lk_sim_connection *const c = net.first;
        c->client_open = false;
        c->session = NULL;
        c->coming = 0;
        forget(c);
    }
}

/* ------------------------------------------------------------------ the trace ---- */

void lk_sim_readable(char *text, size_t room, const unsigned char *bytes, size_t count)
{
    size_t n = 0;
    for (size_t i = 0; i < count && n + 1 < room; i++) {
        const bool plain = bytes[i] >= ' ' && bytes[i] <= '~';
        if (plain || (n > 0 && text[n - 1] != '.'))
            text[n++] = plain ? (char)bytes[i] : '.';
    }
    text[n] = '\0';
}
