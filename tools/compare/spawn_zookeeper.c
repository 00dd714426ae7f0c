/* spawn_zookeeper.c: ZooKeeper servers, alone or as an ensemble of three; see spawn.h and backend.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "../cli.h"
#include "backend.h"
#include "process.h"
#include "spawn.h"
#include "talk.h"

static const char jar[] = "/usr/share/java/zookeeper.jar";
static const char jars[] = "/usr/share/java/zookeeper.jar:/usr/share/java/slf4j-simple.jar";

enum { START_MS = 60000, LEADER_MS = 20000, PORT = 2181 };

/* ------------------------------------------------------------------ one server ---- */

static void write_file(const char *directory, const char *name, const char *text)
{
    char path[256];
    FILE *file;

    snprintf(path, sizeof(path), "%s/%s", directory, name);
    file = fopen(path, "we");
    if (!file || fputs(text, file) < 0 || fclose(file) != 0)
        lk_die(LK_EXIT_SYSTEM, "can't write %s: %s", path, strerror(errno));
}

static void configure(const lk_zookeeper *zk)
{
    char text[2048];
    int at = snprintf(text, sizeof(text),
                      "tickTime=%d\nminSessionTimeout=%d\nmaxSessionTimeout=120000\ninitLimit=50\n"
                      "syncLimit=%d\ndataDir=%s\nclientPort=%d\nclientPortAddress=%s\n"
                      "admin.enableServer=false\n4lw.commands.whitelist=*\nmaxClientCnxns=0\n",
                      LK_ZOOKEEPER_TICK_MS, 2 * LK_ZOOKEEPER_TICK_MS, zk->sync_limit, zk->directory, zk->port,
                      zk->place.address);

    for (int i = 0; zk->members && i < LK_ENSEMBLE; i++) {
        const lk_zookeeper *member = &zk->members[i];

        at += snprintf(text + at, sizeof(text) - (size_t)at, "server.%d=%s:%d:%d\n", member->id,
                       member->place.address, member->quorum_port, member->election_port);
    }
    write_file(zk->directory, "zoo.cfg", text);
    if (zk->id > 0) {
        snprintf(text, sizeof(text), "%d\n", zk->id);
        write_file(zk->directory, "myid", text);
    }
}

static void run(lk_zookeeper *zk)
{
    char path[256];
    const char *argv[] = {"java",
                          "-Xmx128m",
                          "-XX:+UseSerialGC",
                          "-XX:-UsePerfData",
                          "-cp",
                          jars,
                          "org.apache.zookeeper.server.quorum.QuorumPeerMain",
                          path,
                          NULL};

    snprintf(path, sizeof(path), "%s/zoo.cfg", zk->directory);
    if (access(jar, R_OK) < 0)
        lk_die(LK_EXIT_UNAVAILABLE,
               "there is no %s: install the package zookeeper, or leave zookeeper out of --spawn", jar);
    zk->pid = lk_process_start(&(lk_start){argv, -1, -1, -1, zk->place.netns});
    if (zk->pid < 0)
        lk_die(LK_EXIT_UNAVAILABLE,
               "can't run java: %s; install the package default-jre-headless, or leave "
               "zookeeper out of --spawn",
               strerror(errno));
}

static void prepare(lk_zookeeper *zk, const lk_place *place, int sync_limit)
{
    const bool local = place->netns < 0;

    zk->place = *place;
    zk->sync_limit = sync_limit;
    zk->port = local ? lk_talk_free_port() : PORT;
    zk->quorum_port = local ? lk_talk_free_port() : PORT + 1;
    zk->election_port = local ? lk_talk_free_port() : PORT + 2;
    lk_scratch_make("zookeeper", zk->directory, sizeof(zk->directory));
}

void lk_zookeeper_start(lk_zookeeper *zk, const lk_place *place)
{
    memset(zk, 0, sizeof(*zk));
    prepare(zk, place, 10);
    configure(zk);
    run(zk);
}

void lk_ensemble_start(lk_zookeeper *members, const lk_place *places, int sync_limit)
{
    memset(members, 0, LK_ENSEMBLE * sizeof(*members));
    for (int i = 0; i < LK_ENSEMBLE; i++) {
        prepare(&members[i], &places[i], sync_limit);
        members[i].id = i + 1;
        members[i].members = members;
    }
    for (int i = 0; i < LK_ENSEMBLE; i++) {
        configure(&members[i]);
        run(&members[i]);
    }
}

/* What lk_until() is to wait for. */
typedef struct asked {
    lk_zookeeper *zk;
    int netns;
    lk_zookeeper *found;
} asked;

static bool says(const lk_zookeeper *zk, int netns, const char *wanted)
{
    char answer[2048];

    return zk->pid > 0 &&
           lk_talk_zookeeper(netns, zk->place.address, zk->port, "srvr", answer, sizeof(answer)) &&
           strstr(answer, wanted) != NULL;
}

static bool serves_or_ended(void *context)
{
    const asked *a = context;

    if (a->zk->pid > 0 && waitpid(a->zk->pid, NULL, WNOHANG) == a->zk->pid)
        a->zk->pid = 0;
    return a->zk->pid == 0 || says(a->zk, a->netns, "Mode: ");
}

bool lk_zookeeper_await(lk_zookeeper *zk, int netns)
{
    asked a = {zk, netns, NULL};

    return lk_until(serves_or_ended, &a, START_MS) && zk->pid > 0;
}

void lk_zookeeper_kill(lk_zookeeper *zk)
{
    lk_process_kill(zk->pid);
    zk->pid = 0;
}

void lk_zookeeper_launch(lk_zookeeper *zk, bool keep_data)
{
    if (!keep_data) {
        lk_scratch_empty(zk->directory);
        configure(zk);
    }
    run(zk);
}

static bool find_leader(void *context)
{
    asked *a = context;

    for (int i = 0; i < LK_ENSEMBLE && !a->found; i++)
        if (says(&a->zk[i], a->netns, "Mode: leader"))
            a->found = &a->zk[i];
    return a->found != NULL;
}

lk_zookeeper *lk_ensemble_leader(lk_zookeeper *members, int netns)
{
    asked a = {members, netns, NULL};

    return lk_until(find_leader, &a, LEADER_MS) ? a.found : NULL;
}

void lk_zookeeper_version(const lk_zookeeper *zk, int netns, char *out, size_t size)
{
    static const char label[] = "Zookeeper version: ";
    char answer[2048];
    const char *at;

    out[0] = '\0';
    if (lk_talk_zookeeper(netns, zk->place.address, zk->port, "srvr", answer, sizeof(answer)) &&
        (at = strstr(answer, label)) != NULL) {
        at += sizeof(label) - 1;
        snprintf(out, size, "ZooKeeper %.*s", (int)strcspn(at, "-,\n"), at);
    }
}

/* ------------------------------------------------------------------ alone ---- */

static const lk_place here[LK_ENSEMBLE] = {{-1, "127.0.0.1"}, {-1, "127.0.0.1"}, {-1, "127.0.0.1"}};

static void *room_for(size_t count)
{
    void *room = calloc(count, sizeof(lk_zookeeper));

    if (!room)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    return room;
}

static void alone_start(lk_backend *backend)
{
    backend->self = room_for(1);
    lk_zookeeper_start(backend->self, here);
}

static bool alone_await(lk_backend *backend)
{
    lk_zookeeper *zk = backend->self;
    const bool serves = lk_zookeeper_await(zk, -1);

    snprintf(backend->uri, sizeof(backend->uri), "zookeeper://127.0.0.1:%d/", zk->port);
    lk_zookeeper_version(zk, -1, backend->column->version, sizeof(backend->column->version));
    return serves;
}

static void alone_kill(lk_backend *backend)
{
    lk_zookeeper_kill(backend->self);
}

static bool alone_start_again(lk_backend *backend, bool keep_data)
{
    lk_zookeeper_launch(backend->self, keep_data);
    return lk_zookeeper_await(backend->self, -1);
}

static bool alone_heal(lk_backend *backend)
{
    const lk_zookeeper *zk = backend->self;

    return zk->pid > 0 || alone_start_again(backend, false);
}

static void alone_stop(lk_backend *backend)
{
    lk_zookeeper_kill(backend->self);
    free(backend->self);
}

/* The holder is in a place of its own, the server in another, the rival at the hub. */
static bool alone_open_cut(lk_cut *cut, const lk_network *network)
{
    lk_zookeeper *zk = cut->self = room_for(1);

    cut->near = cut->holder = &network->members[1];
    cut->far = &network->members[0];
    cut->rival = &network->hub;
    cut->what = "the holder and the server";
    lk_zookeeper_start(zk, cut->far);
    snprintf(cut->holder_uri, sizeof(cut->holder_uri), "zookeeper://%s:%d/", zk->place.address, zk->port);
    snprintf(cut->rival_uri, sizeof(cut->rival_uri), "%s", cut->holder_uri);
    return lk_zookeeper_await(zk, network->hub.netns);
}

static void alone_close_cut(lk_cut *cut)
{
    lk_zookeeper_kill(cut->self);
    free(cut->self);
}

const lk_kind lk_kind_zookeeper = {
    .name = "zookeeper",
    .setup = "One server with a tick of 200 ms; every write is on its disk before it answers.",
    .choose_when =
        "you develop for an ensemble: alone it keeps the order of arrival, and nothing when it dies",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_BE_CUT,
    .back_ms = 7000,
    .token_is_of_data = true,
    .slack_ms = 2L * LK_ZOOKEEPER_TICK_MS,
    .start = alone_start,
    .await = alone_await,
    .kill = alone_kill,
    .start_again = alone_start_again,
    .heal = alone_heal,
    .open_cut = alone_open_cut,
    .close_cut = alone_close_cut,
    .stop = alone_stop,
};

/* ------------------------------------------------------------------ an ensemble ---- */

static void ensemble_start(lk_backend *backend)
{
    backend->self = room_for(LK_ENSEMBLE);
    lk_ensemble_start(backend->self, here, 10);
}

static bool all_serve(lk_zookeeper *members)
{
    bool good = true;

    for (int i = 0; i < LK_ENSEMBLE; i++)
        good = lk_zookeeper_await(&members[i], -1) && good;
    return good;
}

static bool ensemble_await(lk_backend *backend)
{
    lk_zookeeper *members = backend->self;
    const bool good = all_serve(members);

    snprintf(backend->uri, sizeof(backend->uri), "zookeeper://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/",
             members[0].port, members[1].port, members[2].port);
    lk_zookeeper_version(members, -1, backend->column->version, sizeof(backend->column->version));
    return good;
}

static void ensemble_kill(lk_backend *backend)
{
    lk_zookeeper *members = backend->self;

    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_zookeeper_kill(&members[i]);
}

static bool ensemble_start_again(lk_backend *backend, bool keep_data)
{
    lk_zookeeper *members = backend->self;

    for (int i = 0; i < LK_ENSEMBLE; i++)
        if (members[i].pid == 0)
            lk_zookeeper_launch(&members[i], keep_data);
    return all_serve(members);
}

static bool ensemble_fail_over(lk_backend *backend)
{
    lk_zookeeper *leader = lk_ensemble_leader(backend->self, -1);

    if (!leader)
        return false;
    lk_zookeeper_kill(leader);
    return lk_ensemble_leader(backend->self, -1) != NULL;
}

static bool ensemble_heal(lk_backend *backend)
{
    return ensemble_start_again(backend, true);
}

static void ensemble_stop(lk_backend *backend)
{
    ensemble_kill(backend);
    free(backend->self);
}

/* The holder's connection to its follower stays; that follower is cut from the leader. They give each other
 * up only after 20 s, so that the follower goes on believing. */
static bool ensemble_open_cut(lk_cut *cut, const lk_network *network)
{
    lk_zookeeper *members = cut->self = room_for(LK_ENSEMBLE), *leader, *follower;
    bool good = true;

    lk_ensemble_start(members, network->members, 100);
    for (int i = 0; i < LK_ENSEMBLE; i++)
        good = lk_zookeeper_await(&members[i], network->hub.netns) && good;
    leader = good ? lk_ensemble_leader(members, network->hub.netns) : NULL;
    if (!leader)
        return false;
    follower = leader == &members[0] ? &members[1] : &members[0];
    cut->holder = cut->rival = &network->hub;
    cut->near = &network->members[follower - members];
    cut->far = &network->members[leader - members];
    cut->what = "the holder's server and the leader";
    snprintf(cut->holder_uri, sizeof(cut->holder_uri), "zookeeper://%s:%d/", follower->place.address,
             follower->port);
    snprintf(cut->rival_uri, sizeof(cut->rival_uri), "zookeeper://%s:%d/", leader->place.address,
             leader->port);
    return true;
}

static void ensemble_close_cut(lk_cut *cut)
{
    lk_zookeeper *members = cut->self;

    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_zookeeper_kill(&members[i]);
    free(members);
}

const lk_kind lk_kind_zookeeper_ensemble = {
    .name = "zookeeper-ensemble",
    .setup = "Three servers on this machine with a tick of 200 ms; a majority has every write on disk before "
             "one answers.",
    .choose_when = "no death or cut of one server may cost or double a lock, who asks first is to be served "
                   "first, and each lock may take milliseconds",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_FAIL_OVER | LK_CAN_BE_CUT,
    .back_ms = 12000,
    .token_is_of_data = true,
    .slack_ms = 2L * LK_ZOOKEEPER_TICK_MS,
    .start = ensemble_start,
    .await = ensemble_await,
    .kill = ensemble_kill,
    .start_again = ensemble_start_again,
    .fail_over = ensemble_fail_over,
    .heal = ensemble_heal,
    .open_cut = ensemble_open_cut,
    .close_cut = ensemble_close_cut,
    .stop = ensemble_stop,
};
