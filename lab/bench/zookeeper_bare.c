/* zookeeper_bare.c: what the work costs with ZooKeeper's C client alone: its single-threaded library,
 * driven by the thread that waits, with the recipe of ZooKeeper's documentation: create and list in one
 * flight, a watch on the predecessor, a list again when that goes, delete. Nothing here proves that
 * the lock is still ours, recovers from lost answers, or has deadlines. */
#include <errno.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <poll.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "bench.h"
#include <zookeeper/zookeeper.h>

#define ROOT "/bench"

enum { PATH = 160, NUMBER = 10 };

static const char data[] = "bare client, as long as the name of an owner";

typedef enum { IDLE, ENTERING, QUEUED, HELD, LEAVING } lane_step;

/* One contender. */
typedef struct {
    lk_zoo *zoo;
    lane_step step;
    bool goes_on;           /* it gives the lock back at once, and begins again */
    bool watched;           /* the answer to the get that watches its predecessor is there */
    pthread_cond_t *thread; /* waits for its next step, if it has one */
    size_t count;           /* of the crew, where its cycles are counted */
    char parent[PATH];
    char node[PATH];
} lane;

struct lk_zoo {
    lk_bench *b;
    zhandle_t *zh;
    bool up;
    int fd;
    bool whole;             /* a lane's requests are sent in one piece */
    bool many;              /* many lanes: what a turn's answers lead to is sent in one piece */
    bool trusts;            /* that a predecessor had the lock when it goes, and hasn't given up */
    int awaited;            /* answers to requests that are no lane's */
    int busy;               /* lanes that haven't ended */
    pthread_mutex_t *mutex; /* of lanes with threads: given up while the socket is waited for */
    lane one;
};

static void fail(const lk_zoo *zoo, const char *what, int rc)
{
    lk_bench_crew_fail(zoo->b, "%s: %s", what, zerror(rc));
}

/* ------------------------------------------------------------------ driving ---- */

static void drop_message(const char *message)
{
    (void)message;
}

static void on_session(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    lk_zoo *zoo = context;
    (void)zh;
    (void)path;
    if (type != ZOO_SESSION_EVENT)
        return;
    zoo->up = state == ZOO_CONNECTED_STATE;
    if (state == ZOO_EXPIRED_SESSION_STATE)
        lk_bench_crew_fail(zoo->b, "the bare client's session has expired");
}

/* The library writes a request in two pieces; while corked, what is sent waits, and goes in one. */
static void cork(const lk_zoo *zoo, int on)
{
    (void)setsockopt(zoo->fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
}

/* Sleep until something comes, or for so long, and take it: one packet at least, and more until `enough`. */
static void turn(lk_zoo *zoo, int64_t at_most, bool (*enough)(const lk_zoo *zoo))
{
    struct timeval span = {0, 0};
    int fd = -1, interest = 0, events = 0, rc = zookeeper_interest(zoo->zh, &fd, &interest, &span);
    if (rc != ZOK)
        fail(zoo, "zookeeper_interest", rc);
    struct pollfd wait =
        (struct pollfd){.fd = fd,
                        .events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                                          ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0))};
    int64_t ns = span.tv_sec * LK_BENCH_S + span.tv_usec * LK_BENCH_US;
    if (at_most >= 0 && ns > at_most)
        ns = at_most;
    if (zoo->mutex != NULL)
        pthread_mutex_unlock(zoo->mutex);
    if (poll(&wait, 1, (int)((ns + LK_BENCH_MS - 1) / LK_BENCH_MS)) < 0 && errno != EINTR)
        lk_bench_crew_fail(zoo->b, "poll: %s", strerror(errno));
    if (zoo->mutex != NULL)
        pthread_mutex_lock(zoo->mutex);
    if ((wait.revents & (POLLIN | POLLHUP | POLLERR)) != 0)
        events |= ZOOKEEPER_READ;
    if ((wait.revents & POLLOUT) != 0)
        events |= ZOOKEEPER_WRITE;
    zoo->fd = fd;
    if (zoo->many)
        cork(zoo, 1);
    while (events != 0) {
        rc = zookeeper_process(zoo->zh, events);
        if (rc != ZOK && rc != ZNOTHING)
            fail(zoo, "zookeeper_process", rc);
        if (rc == ZNOTHING || (events & ZOOKEEPER_READ) == 0 || (enough != NULL && enough(zoo)))
            break;
        events = ZOOKEEPER_READ;
    }
    if (zoo->many)
        cork(zoo, 0);
}

static void drive_until(lk_zoo *zoo, bool (*enough)(const lk_zoo *zoo))
{
    while (!enough(zoo))
        turn(zoo, -1, enough);
}

static bool is_up(const lk_zoo *zoo)
{
    return zoo->up;
}

static bool is_answered(const lk_zoo *zoo)
{
    return zoo->awaited == 0;
}

static bool is_held(const lk_zoo *zoo)
{
    return zoo->one.step == HELD;
}

static bool is_asleep(const lk_zoo *zoo)
{
    return zoo->one.step == HELD || (zoo->one.step == QUEUED && zoo->one.watched);
}

static bool is_idle(const lk_zoo *zoo)
{
    return zoo->one.step == IDLE;
}

lk_zoo *lk_zoo_open(lk_bench *b, int port, int64_t session_ms)
{
    lk_zoo *zoo = calloc(1, sizeof *zoo);
    if (zoo == NULL)
        lk_bench_crew_fail(b, "out of memory");
    zoo->b = b;
    zoo->one.zoo = zoo;
    char host[32];
    (void)snprintf(host, sizeof host, "127.0.0.1:%d", port);
    zoo->zh =
        zookeeper_init2(host, on_session, (int)session_ms, NULL, zoo, ZOO_NO_LOG_CLIENTENV, drop_message);
    if (zoo->zh == NULL)
        lk_bench_crew_fail(b, "zookeeper_init2: %s", strerror(errno));
    (void)zoo_set_servers_resolution_delay(zoo->zh, -1);
    drive_until(zoo, is_up);
    return zoo;
}

void lk_zoo_close(lk_zoo *zoo)
{
    (void)zookeeper_close(zoo->zh);
    free(zoo);
}

/* ------------------------------------------------------------------ requests that are no lane's ---- */

static void on_made(int rc, const char *path, const void *context)
{
    lk_zoo *zoo = (lk_zoo *)(uintptr_t)context;
    (void)path;
    zoo->awaited--;
    if (rc != ZOK && rc != ZNODEEXISTS)
        fail(zoo, "create", rc);
}

static void on_exists(int rc, const struct Stat *stat, const void *context)
{
    lk_zoo *zoo = (lk_zoo *)(uintptr_t)context;
    (void)stat;
    zoo->awaited--;
    if (rc != ZOK && rc != ZNONODE)
        fail(zoo, "exists", rc);
}

static void make(lk_zoo *zoo, const char *path, int mode)
{
    const int rc = zoo_acreate(zoo->zh, path, "", 0, &ZOO_OPEN_ACL_UNSAFE, mode, on_made, zoo);
    if (rc != ZOK)
        fail(zoo, "create", rc);
    zoo->awaited++;
}

void lk_zoo_make(lk_zoo *zoo, const char *key)
{
    char path[PATH];
    (void)snprintf(path, sizeof path, ROOT "/%s", key);
    make(zoo, ROOT, ZOO_PERSISTENT); /* the server removes containers that are empty for long */
    make(zoo, path, ZOO_PERSISTENT);
    drive_until(zoo, is_answered);
}

void lk_zoo_ping(lk_zoo *zoo)
{
    const int rc = zoo_aexists(zoo->zh, ROOT, 0, on_exists, zoo);
    if (rc != ZOK)
        fail(zoo, "exists", rc);
    zoo->awaited++;
    drive_until(zoo, is_answered);
}

void lk_zoo_hold(lk_zoo *zoo, const char *prefix, int n)
{
    make(zoo, ROOT, ZOO_CONTAINER);
    for (int i = 0; i < n; i++) {
        char path[PATH];
        (void)snprintf(path, sizeof path, ROOT "/%s-%d", prefix, i);
        make(zoo, path, ZOO_CONTAINER);
        (void)snprintf(path, sizeof path, ROOT "/%s-%d/lock-", prefix, i);
        make(zoo, path, ZOO_EPHEMERAL_SEQUENTIAL);
        drive_until(zoo, is_answered);
    }
}

void lk_zoo_idle(lk_zoo *zoo)
{
    while (!lk_bench_crew_stopped(zoo->b))
        turn(zoo, LK_BENCH_S, NULL);
}

/* ------------------------------------------------------------------ a lane ---- */

static void begin(lane *l, bool fresh);
static void leave(lane *l);

static const char *number_of(const char *name)
{
    const size_t length = strlen(name);
    return length > NUMBER ? name + length - NUMBER : name;
}

static void step(lane *l, lane_step next)
{
    l->step = next;
    if (l->thread != NULL)
        pthread_cond_signal(l->thread);
}

static void have(lane *l)
{
    step(l, HELD);
    if (l->goes_on)
        leave(l);
}

/* Who is first when the predecessor has gone, only a list can tell: it may have given up. */
static void on_listed(int rc, const struct String_vector *names, const void *context);

static void advance(lane *l)
{
    if (l->zoo->trusts) {
        have(l);
        return;
    }
    l->step = ENTERING;
    if (l->zoo->whole)
        cork(l->zoo, 1);
    const int rc = zoo_aget_children(l->zoo->zh, l->parent, 0, on_listed, l);
    if (l->zoo->whole)
        cork(l->zoo, 0);
    if (rc != ZOK)
        fail(l->zoo, "get_children", rc);
}

static void on_predecessor_gone(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    lane *l = context;
    (void)zh;
    (void)state;
    (void)path;
    if (type == ZOO_DELETED_EVENT && l->step == QUEUED)
        advance(l);
}

static void on_got(int rc, const char *value, int length, const struct Stat *stat, const void *context)
{
    lane *l = (lane *)(uintptr_t)context;
    (void)value;
    (void)length;
    (void)stat;
    l->watched = true;
    if (rc == ZNONODE)
        advance(l);
    else if (rc != ZOK && rc != ZCLOSING)
        fail(l->zoo, "get", rc);
}

static void on_listed(int rc, const struct String_vector *names, const void *context)
{
    lane *l = (lane *)(uintptr_t)context;
    const char *mine = number_of(l->node), *predecessor = NULL;
    if (rc == ZCLOSING) /* those before it end, too */
        return;
    if (rc != ZOK)
        fail(l->zoo, "get_children", rc);
    for (int i = 0; i < names->count; i++) {
        const char *number = number_of(names->data[i]);

        if (strcmp(number, mine) < 0 && (predecessor == NULL || strcmp(number, number_of(predecessor)) > 0))
            predecessor = names->data[i];
    }
    if (predecessor == NULL) {
        have(l);
        return;
    }
    l->step = QUEUED;
    l->watched = false;
    char path[2 * PATH];
    (void)snprintf(path, sizeof path, "%s/%s", l->parent, predecessor);
    rc = zoo_awget(l->zoo->zh, path, on_predecessor_gone, l, on_got, l);
    if (rc != ZOK)
        fail(l->zoo, "get", rc);
}

static void on_created(int rc, const char *path, const struct Stat *stat, const void *context)
{
    lane *l = (lane *)(uintptr_t)context;
    (void)stat;
    if (rc != ZOK)
        fail(l->zoo, "create2", rc);
    (void)snprintf(l->node, sizeof l->node, "%s", path);
}

static void begin(lane *l, bool fresh)
{
    zhandle_t *zh = l->zoo->zh;
    l->step = ENTERING;
    if (fresh)
        make(l->zoo, l->parent, ZOO_CONTAINER);
    char path[2 * PATH];
    (void)snprintf(path, sizeof path, "%s/_c_01234567-89ab-cdef-0123-456789abcdef-lock-", l->parent);
    int rc = zoo_acreate2(zh, path, data, sizeof data - 1, &ZOO_OPEN_ACL_UNSAFE, ZOO_EPHEMERAL_SEQUENTIAL,
                          on_created, l);
    if (rc == ZOK)
        rc = zoo_aget_children(zh, l->parent, 0, on_listed, l);
    if (rc != ZOK)
        fail(l->zoo, "create2 and get_children", rc);
}

static void on_deleted(int rc, const void *context)
{
    lane *l = (lane *)(uintptr_t)context;
    lk_zoo *zoo = l->zoo;
    if (rc != ZOK)
        fail(zoo, "delete", rc);
    step(l, IDLE);
    if (!l->goes_on)
        return;
    if (lk_bench_crew_stopped(zoo->b)) {
        zoo->busy--;
        return;
    }
    zoo->b->crew->count[l->count]++;
    begin(l, false);
}

static void leave(lane *l)
{
    l->step = LEAVING;
    const int rc = zoo_adelete(l->zoo->zh, l->node, -1, on_deleted, l);
    if (rc != ZOK)
        fail(l->zoo, "delete", rc);
}

void lk_zoo_send_whole(lk_zoo *zoo)
{
    zoo->whole = true;
}

void lk_zoo_trust(lk_zoo *zoo)
{
    zoo->trusts = true;
}

static void begin_corked(lane *l, bool fresh)
{
    if (l->zoo->whole)
        cork(l->zoo, 1);
    begin(l, fresh);
    if (l->zoo->whole)
        cork(l->zoo, 0);
}

static void leave_corked(lane *l)
{
    if (l->zoo->whole)
        cork(l->zoo, 1);
    leave(l);
    if (l->zoo->whole)
        cork(l->zoo, 0);
}

void lk_zoo_lock(lk_zoo *zoo, const char *key, bool fresh)
{
    (void)snprintf(zoo->one.parent, sizeof zoo->one.parent, ROOT "/%s", key);
    begin_corked(&zoo->one, fresh);
    drive_until(zoo, is_held);
}

void lk_zoo_enter(lk_zoo *zoo, const char *key)
{
    (void)snprintf(zoo->one.parent, sizeof zoo->one.parent, ROOT "/%s", key);
    begin_corked(&zoo->one, false);
    drive_until(zoo, is_asleep);
}

void lk_zoo_await(lk_zoo *zoo)
{
    drive_until(zoo, is_held);
}

void lk_zoo_unlock(lk_zoo *zoo)
{
    leave_corked(&zoo->one);
    drive_until(zoo, is_idle);
}

/* ------------------------------------------------------------------ many lanes ---- */

void lk_zoo_lanes(lk_zoo *zoo, const char *key, bool shared, int lanes, size_t first)
{
    lane *all = calloc((size_t)lanes, sizeof *all);
    if (all == NULL)
        lk_bench_crew_fail(zoo->b, "out of memory");
    zoo->busy = lanes;
    zoo->many = true;
    for (int i = 0; i < lanes; i++) {
        all[i] = (lane){.zoo = zoo, .goes_on = true, .count = first + (size_t)i};
        char own[64];
        (void)snprintf(all[i].parent, sizeof all[i].parent, ROOT "/%s",
                       shared ? key : lk_lane_key(own, key, i));
        begin(&all[i], false);
    }
    while (zoo->busy > 0)
        turn(zoo, LK_BENCH_S, NULL);
    free(all);
}

/* ------------------------------------------------------------------ many lanes, with a thread each ---- */

static void await(lane *l, lane_step wanted)
{
    while (l->step != wanted)
        pthread_cond_wait(l->thread, l->zoo->mutex);
}

static void lane_thread(lk_bench *b, size_t index, void *all)
{
    lane *l = (lane *)all + index;
    pthread_cond_t changed = PTHREAD_COND_INITIALIZER;
    pthread_mutex_lock(l->zoo->mutex);
    l->thread = &changed;
    while (!lk_bench_crew_stopped(b)) {
        begin_corked(l, false);
        await(l, HELD);
        leave_corked(l);
        await(l, IDLE);
        b->crew->count[l->count] += !lk_bench_crew_stopped(b);
    }
    l->thread = NULL;
    l->zoo->busy--;
    pthread_mutex_unlock(l->zoo->mutex);
}

void lk_zoo_lane_threads(lk_zoo *zoo, const char *key, int lanes, size_t first)
{
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    lane *all = calloc((size_t)lanes, sizeof *all);
    if (all == NULL)
        lk_bench_crew_fail(zoo->b, "out of memory");
    for (int i = 0; i < lanes; i++) {
        all[i] = (lane){.zoo = zoo, .count = first + (size_t)i};
        (void)snprintf(all[i].parent, sizeof all[i].parent, ROOT "/%s", key);
    }
    zoo->busy = lanes;
    zoo->whole = true;
    zoo->mutex = &mutex;
    pthread_mutex_lock(&mutex);
    lk_threads *threads = lk_threads_start(zoo->b, (size_t)lanes, lane_thread, all);
    while (zoo->busy > 0)
        turn(zoo, 10 * LK_BENCH_MS, NULL);
    pthread_mutex_unlock(&mutex);
    zoo->mutex = NULL;
    lk_threads_join(threads);
    free(all);
}
