/* delay.c: a proxy in a process of its own, which passes on what comes some time later, in each direction:
 * the way to a server becomes longer, and nothing else changes. For the rows that count round trips. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "bench.h"

enum { SOCKETS = 32, PIECE = 16384 };

/* What came, and when it is due. */
typedef struct piece {
    struct piece *next;
    int64_t due;
    size_t length; /* 0: the end */
    char bytes[];
} piece;

/* One direction of a connection. */
typedef struct {
    int from, to; /* -1: unused */
    bool ended;   /* nothing more comes */
    piece *first, **last;
} way;

static way ways[SOCKETS]; /* the two of a connection stand together */

static void set_up(way *w, int from, int to)
{
    int on = 1;

    *w = (way){.from = from, .to = to};
    w->last = &w->first;
    (void)setsockopt(from, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
}

static void take_connection(int listener, int to)
{
    int client = accept4(listener, NULL, NULL, SOCK_CLOEXEC), server = lk_bench_connect(to);

    for (size_t i = 0; client >= 0 && server >= 0 && i < SOCKETS; i += 2) {
        if (ways[i].from >= 0 || ways[i + 1].from >= 0)
            continue;
        set_up(&ways[i], client, server);
        set_up(&ways[i + 1], server, client);
        return;
    }
    if (client >= 0)
        (void)close(client);
    if (server >= 0)
        (void)close(server);
}

static void take_bytes(way *w, int64_t delay)
{
    char bytes[PIECE];
    ssize_t got = recv(w->from, bytes, sizeof bytes, 0);
    piece *p = malloc(sizeof *p + (got > 0 ? (size_t)got : 0));

    if (p == NULL)
        _exit(1);
    w->ended = got <= 0;
    *p = (piece){.due = lk_bench_now() + delay, .length = got > 0 ? (size_t)got : 0};
    if (got > 0)
        memcpy(p->bytes, bytes, (size_t)got);
    *w->last = p;
    w->last = &p->next;
}

/* Close both sockets of the connection, and drop what is under way. */
static void close_both(size_t i)
{
    size_t pair = i & ~(size_t)1;

    (void)close(ways[pair].from);
    (void)close(ways[pair].to);
    for (size_t k = pair; k < pair + 2; k++) {
        while (ways[k].first != NULL) {
            piece *p = ways[k].first;

            ways[k].first = p->next;
            free(p);
        }
        ways[k].from = -1;
    }
}

/* Pass on what is due; returns when the next piece is. */
static int64_t deliver(void)
{
    int64_t next = INT64_MAX;

    for (size_t i = 0; i < SOCKETS; i++) {
        way *w = &ways[i];

        while (w->from >= 0 && w->first != NULL && w->first->due <= lk_bench_now()) {
            piece *p = w->first;

            if (p->length == 0 || send(w->to, p->bytes, p->length, MSG_NOSIGNAL) != (ssize_t)p->length) {
                close_both(i);
                break;
            }
            w->first = p->next;
            if (w->first == NULL)
                w->last = &w->first;
            free(p);
        }
        if (w->from >= 0 && w->first != NULL && w->first->due < next)
            next = w->first->due;
    }
    return next;
}

static _Noreturn void serve(int listener, int to, int64_t delay)
{
    for (size_t i = 0; i < SOCKETS; i++)
        ways[i].from = -1;
    for (;;) {
        struct pollfd waits[SOCKETS + 1] = {{.fd = listener, .events = POLLIN}};
        int64_t next = deliver(), left = next == INT64_MAX ? LK_S : next - lk_bench_now();
        struct timespec span = {0, 0};

        if (left > 0)
            span = (struct timespec){.tv_sec = left / LK_S, .tv_nsec = left % LK_S};
        for (size_t i = 0; i < SOCKETS; i++)
            waits[i + 1] = (struct pollfd){.fd = ways[i].ended ? -1 : ways[i].from, .events = POLLIN};
        if (ppoll(waits, SOCKETS + 1, &span, NULL) <= 0)
            continue;
        for (size_t i = 0; i < SOCKETS; i++)
            if (ways[i].from >= 0 && waits[i + 1].revents != 0)
                take_bytes(&ways[i], delay);
        if (waits[0].revents != 0)
            take_connection(listener, to);
    }
}

pid_t lk_delay_start(lk_bench *b, int to, int64_t ns, int *port)
{
    int listener = lk_bench_listen(port);
    pid_t boss = getpid(), pid = listener >= 0 ? fork() : -1;

    if (pid == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        (void)setpgid(0, 0); /* Ctrl-C is for the boss, who stops us */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_TIMERSLACK, 1UL);
        if (b->server_cpu >= 0)
            (void)lk_bench_pin(b->server_cpu);
        if (getppid() == boss)
            serve(listener, to, ns);
        _exit(1);
    }
    if (pid < 0)
        lk_progress("can't start the proxy: %s", strerror(errno));
    if (listener >= 0)
        (void)close(listener);
    return pid > 0 ? pid : 0;
}

void lk_delay_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
