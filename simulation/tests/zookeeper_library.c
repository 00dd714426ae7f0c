/*
 * zookeeper_library.c: ZooKeeper's own client library on the simulated ensemble: what it asks is understood,
 * and what it is answered it understands, also when connections are lost, servers killed, and a session
 * expires.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <zookeeper/zookeeper.h>

#include "orders.h"
#include "simulation/world/files.h"
#include "simulation/world/seams.h"
#include "simulation/zookeeper_service.h"

#define MS INT64_C(1000000)

enum { CLIENTS = 2, TIMEOUT_MS = 1200, PATIENCE_MS = 20000 };

int lk_sim_poll(struct pollfd *fds, nfds_t count, int timeout_ms);

typedef struct {
    zhandle_t *zh;
    int state;     /* as it was told */
    int events;    /* of nodes */
    int last_type; /* of them */
} client;

/* What an asynchronous call has answered. */
typedef struct {
    bool done;
    int rc;
    char text[128];
    int count;
    int64_t owner;
} answer;

static const lk_sim_zookeeper *zookeeper;
static client clients[CLIENTS];
static bool is_over;

static void expect(bool is_so, const char *what)
{
    if (!is_so)
        lk_sim_fail("%s", what);
}

static void on_event(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    client *const c = context;
    (void)zh;
    (void)path;
    if (type == ZOO_SESSION_EVENT) {
        c->state = state;
        return;
    }
    c->events++;
    c->last_type = type;
}

/* Both libraries have a turn. */
static void turn(void)
{
    struct pollfd fds[CLIENTS];
    int wait_ms = 1000;
    for (int i = 0; i < CLIENTS; i++) {
        struct timeval span = {0, 0};
        int fd = -1, interest = 0;
        if (clients[i].zh != NULL && zookeeper_interest(clients[i].zh, &fd, &interest, &span) != ZOK)
            fd = -1; /* it was closed */
        const int span_ms = (int)(span.tv_sec * 1000 + span.tv_usec / 1000) + 1;
        wait_ms = clients[i].zh != NULL && span_ms < wait_ms ? span_ms : wait_ms;
        fds[i] = (struct pollfd){.fd = fd,
                                 .events = (short)(((interest & ZOOKEEPER_READ) != 0 ? POLLIN : 0) |
                                                   ((interest & ZOOKEEPER_WRITE) != 0 ? POLLOUT : 0))};
    }
    (void)lk_sim_poll(fds, CLIENTS, wait_ms);
    for (int i = 0; i < CLIENTS; i++) {
        const int events = ((fds[i].revents & POLLOUT) != 0 ? ZOOKEEPER_WRITE : 0) |
                           ((fds[i].revents & (POLLIN | POLLHUP | POLLERR)) != 0 ? ZOOKEEPER_READ : 0);
        if (clients[i].zh != NULL && fds[i].fd >= 0 && events != 0)
            (void)zookeeper_process(clients[i].zh, events);
    }
}

static void run_for(int64_t for_ms)
{
    for (const int64_t until = lk_sim_now() + for_ms * MS; lk_sim_now() < until;)
        turn();
}

static void await(const answer *a, const char *what)
{
    for (const int64_t until = lk_sim_now() + PATIENCE_MS * MS; !a->done;) {
        expect(lk_sim_now() < until, what);
        turn();
    }
}

static void await_state(const client *c, int state, const char *what)
{
    for (const int64_t until = lk_sim_now() + PATIENCE_MS * MS; c->state != state;) {
        expect(lk_sim_now() < until, what);
        turn();
    }
}

/* ------------------------------------------------------------------ what is answered ---- */

static void on_void(int rc, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    a->rc = rc;
    a->done = true;
}

static void on_string_stat(int rc, const char *text, const struct Stat *stat, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    if (rc == ZOK) {
        (void)snprintf(a->text, sizeof a->text, "%s", text);
        a->owner = stat->ephemeralOwner;
    }
    on_void(rc, context);
}

static void on_string(int rc, const char *text, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    (void)snprintf(a->text, sizeof a->text, "%s", rc == ZOK ? text : "");
    on_void(rc, context);
}

static void on_data(int rc, const char *value, int len, const struct Stat *stat, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    (void)stat;
    (void)snprintf(a->text, sizeof a->text, "%.*s", rc == ZOK && len > 0 ? len : 0,
                   value != NULL ? value : "");
    on_void(rc, context);
}

static void on_strings(int rc, const struct String_vector *names, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    a->count = rc == ZOK ? names->count : -1;
    on_void(rc, context);
}

static void on_stat(int rc, const struct Stat *stat, const void *context)
{
    answer *const a = (answer *)(uintptr_t)context;
    a->count = rc == ZOK ? stat->version : -1;
    on_void(rc, context);
}

/* ------------------------------------------------------------------ what is asked ---- */

static answer create(client *c, const char *path, const char *data, int mode)
{
    answer a = {.done = false};
    expect(zoo_acreate2(c->zh, path, data, (int)strlen(data), &ZOO_OPEN_ACL_UNSAFE, mode, on_string_stat,
                        &a) == ZOK,
           "a create is sent");
    await(&a, "a create is answered");
    return a;
}

static int delete (client *c, const char *path)
{
    answer a = {.done = false};
    expect(zoo_adelete(c->zh, path, -1, on_void, &a) == ZOK, "a delete is sent");
    await(&a, "a delete is answered");
    return a.rc;
}

/* Its server may lag behind the other one's. */
static void watch(client *c, const char *path)
{
    answer a;
    do {
        a = (answer){.done = false};
        expect(zoo_awget(c->zh, path, on_event, c, on_data, &a) == ZOK, "a watch is sent");
        await(&a, "a watch is answered");
    } while (a.rc == ZNONODE);
    expect(a.rc == ZOK, "a node is watched");
}

static void what_is_asked_is_answered(void)
{
    client *const c = &clients[0];
    answer a = {.done = false};
    expect(create(c, "/box", "", ZOO_CONTAINER).rc == ZOK, "a container is created");
    expect(create(c, "/shop", "hello", ZOO_PERSISTENT).rc == ZOK, "a node is created");
    answer made = create(c, "/shop/lock-", "me", ZOO_EPHEMERAL_SEQUENTIAL);
    expect(strcmp(made.text, "/shop/lock-0000000000") == 0, "a node has a number");
    expect(made.owner == zoo_client_id(c->zh)->client_id, "a node is the session's");
    expect(create(c, "/shop/lock-0000000000", "", 0).rc == ZNODEEXISTS, "a node is not created twice");
    (void)zoo_aget(c->zh, "/shop", 0, on_data, &a);
    await(&a, "a get is answered");
    expect(strcmp(a.text, "hello") == 0, "what was written is read");
    a = (answer){.done = false};
    (void)zoo_aset(c->zh, "/shop", "bye", 3, 0, on_stat, &a);
    await(&a, "a set is answered");
    expect(a.rc == ZOK && a.count == 1, "a set counts the version");
    a = (answer){.done = false};
    (void)zoo_aset(c->zh, "/shop", "no", 2, 0, on_stat, &a);
    await(&a, "a set is answered");
    expect(a.rc == ZBADVERSION, "a set sees the version");
    a = (answer){.done = false};
    (void)zoo_aget_children(c->zh, "/shop", 0, on_strings, &a);
    await(&a, "a list is answered");
    expect(a.count == 1, "there is one child");
    a = (answer){.done = false};
    (void)zoo_async(c->zh, "/shop", on_string, &a);
    await(&a, "a sync is answered");
    expect(a.rc == ZOK && strcmp(a.text, "/shop") == 0, "a sync tells its path");
    a = (answer){.done = false};
    (void)zoo_aexists(c->zh, "/none", 0, on_stat, &a);
    await(&a, "an exists is answered");
    expect(a.rc == ZNONODE, "what isn't there doesn't exist");
    a = (answer){.done = false};
    expect(zoo_add_auth(c->zh, "digest", "shop:sesame", 11, on_void, &a) == ZOK, "a login is sent");
    await(&a, "a login is answered");
    expect(a.rc == ZOK, "a login is taken");
}

static void a_multi_is_all_or_nothing(void)
{
    client *const c = &clients[0];
    zoo_op_t ops[2];
    zoo_op_result_t results[2] = {{.err = 0}};
    answer a = {.done = false};
    zoo_delete_op_init(&ops[0], "/shop/lock-0000000000", -1);
    zoo_check_op_init(&ops[1], "/none", -1);
    (void)zoo_amulti(c->zh, 2, ops, results, on_void, &a);
    await(&a, "a multi is answered");
    expect(a.rc == ZNONODE && results[1].err == ZNONODE, "a multi tells what failed");
    a = (answer){.done = false};
    zoo_check_op_init(&ops[1], "/shop", 1);
    (void)zoo_amulti(c->zh, 2, ops, results, on_void, &a);
    await(&a, "a multi is answered");
    expect(a.rc == ZOK && results[0].err == ZOK && results[1].err == ZOK, "a multi is done");
}

static void a_deletion_is_told(void)
{
    client *const one = &clients[0], *const other = &clients[1];
    const answer made = create(one, "/shop/lock-", "", ZOO_EPHEMERAL_SEQUENTIAL);
    watch(other, made.text);
    expect(delete (one, made.text) == ZOK, "a node is deleted");
    run_for(1000);
    expect(other->events == 1 && other->last_type == ZOO_DELETED_EVENT, "a deletion is told");
}

/* What happened while it was away, too. */
static void a_session_outlives_its_connection(void)
{
    client *const one = &clients[0], *const other = &clients[1];
    const int64_t session = zoo_client_id(other->zh)->client_id;
    const answer made = create(one, "/shop/lock-", "", ZOO_EPHEMERAL_SEQUENTIAL);
    other->events = 0;
    watch(other, made.text);
    for (int i = 0; i < zookeeper->count; i++)
        lk_sim_network_reset(NULL, &zookeeper->servers[i].service);
    other->state = one->state = 0;
    await_state(one, ZOO_CONNECTED_STATE, "it connects again");
    expect(delete (one, made.text) == ZOK, "a node is deleted");
    await_state(other, ZOO_CONNECTED_STATE, "it connects again");
    run_for(1000);
    expect(zoo_client_id(other->zh)->client_id == session, "the session is the same");
    expect(other->events == 1 && other->last_type == ZOO_DELETED_EVENT, "what was watched is told once");
}

static void a_session_outlives_its_server(void)
{
    client *const one = &clients[0];
    const int64_t session = zoo_client_id(one->zh)->client_id;
    for (int i = 0; i < zookeeper->count; i++) {
        lk_sim_zookeeper_servers.kill(i, true);
        run_for(400);
        lk_sim_zookeeper_servers.start(i, true);
        run_for(4000);
    }
    expect(zoo_client_id(one->zh)->client_id == session && one->state == ZOO_CONNECTED_STATE,
           "the session goes on at other servers");
    expect(create(one, "/after", "", ZOO_EPHEMERAL).rc == ZOK, "it can be used");
}

static void a_session_that_is_not_heard_of_expires(void)
{
    client *const one = &clients[0], *const other = &clients[1];
    zhandle_t *const zh = one->zh;
    one->zh = NULL; /* it has no turn */
    run_for(4 * TIMEOUT_MS);
    answer a = {.done = false};
    (void)zoo_aexists(other->zh, "/after", 0, on_stat, &a);
    await(&a, "an exists is answered");
    expect(a.rc == ZNONODE, "its nodes have gone");
    one->zh = zh;
    await_state(one, ZOO_EXPIRED_SESSION_STATE, "it is told that it expired");
}

static void *play(void *context)
{
    (void)context;
    for (int i = 0; i < CLIENTS; i++) {
        clients[i].zh = zookeeper_init2("10.0.0.1:2181,10.0.0.2:2181,10.0.0.3:2181", on_event, TIMEOUT_MS,
                                        NULL, &clients[i], ZOO_NO_LOG_CLIENTENV, NULL);
        expect(clients[i].zh != NULL, "a handle is made");
    }
    for (int i = 0; i < CLIENTS; i++)
        await_state(&clients[i], ZOO_CONNECTED_STATE, "it connects");
    what_is_asked_is_answered();
    a_multi_is_all_or_nothing();
    a_deletion_is_told();
    a_session_outlives_its_connection();
    a_session_outlives_its_server();
    a_session_that_is_not_heard_of_expires();
    const int64_t session = zoo_client_id(clients[1].zh)->client_id;
    for (int i = 0; i < CLIENTS; i++)
        expect(zookeeper_close(clients[i].zh) == ZOK, "it is closed");
    expect(!lk_simzk_has_session(zookeeper->ensemble, session), "a close ends the session at once");
    is_over = true;
    return NULL;
}

static bool is_done(void *context)
{
    (void)context;
    return is_over;
}

static void failed(const char *why)
{
    fprintf(stderr, "not so: %s\n", why);
    exit(1);
}

int main(int argc, char **argv)
{
    static lk_sim_process process = {.host = "client", .pid = 1, .ahead_ns = 5 * MS, .rate_ppm = 1000};
    static lk_sim_process machine = {.host = "zookeeper"};
    uint64_t seeds = 1, first = 1;
    if ((argc > 1 && !read_number(argv[1], 1, &seeds)) || (argc > 2 && !read_number(argv[2], 0, &first))) {
        fprintf(stderr, "usage: %s [SEEDS [FIRST [TRACE]]]\n", argv[0]);
        return 64;
    }
    lk_sim_on_fail = failed;
    zoo_set_debug_level((ZooLogLevel)0);
    for (uint64_t seed = first; seed < first + seeds; seed++) {
        memset(clients, 0, sizeof clients);
        is_over = false;
        lk_sim_begin(seed, argc > 3 ? stdout : NULL);
        lk_sim_network_begin();
        lk_sim_stand_in(&machine);
        zookeeper = lk_sim_zookeeper_begin(3);
        (void)lk_sim_spawn(&process, play, NULL);
        if (lk_sim_run(is_done, NULL, NULL, 600000 * MS) != LK_SIM_DONE)
            failed("it comes to its end");
        lk_sim_files_end();
        lk_sim_network_end();
        lk_sim_zookeeper_end();
        lk_sim_end();
    }
    printf("%llu seeds: all is well\n", (unsigned long long)seeds);
    return 0;
}
