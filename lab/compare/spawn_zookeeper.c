/* spawn_zookeeper.c: ZooKeeper servers, alone or as an ensemble of three; see spawn.h and backend.h. */

#include "servers/zookeeper.h"
#include "spawn.h"

enum { CUT_SYNC_LIMIT = 100 };

static const char *const java[] = {"-Xmx128m", NULL};

const lk_kind lk_kind_zookeeper = {
    .name = "zookeeper",
    .about = "One server with a tick of 200 ms; every write is on its disk before it answers.",
    .choose_when =
        "you develop for an ensemble: alone it keeps the order of arrival, and nothing when it dies",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_BE_CUT,
    .back_ms = 7000,
    .token_is_of_data = true,
    .slack_ms = 2L * LK_ZOOKEEPER_TICK_MS,
    .server = &lk_server_zookeeper,
    .count = 1,
    .setup.options = java,
    .cut_setup.options = java,
    .scheme = "zookeeper",
    .path = "",
    .start = lk_spawn_start,
    .await = lk_spawn_await,
    .heal = lk_spawn_heal,
    .open_cut = lk_spawn_open_cut,
};

/* ------------------------------------------------------------------ an ensemble ---- */

static lk_server *start(const lk_server_setup *setup, const lk_place *places)
{
    lk_server *members = lk_spawn_room(LK_ENSEMBLE);
    if (!lk_ensemble_start(members, &lk_server_zookeeper, setup, places))
        for (int i = 0; i < LK_ENSEMBLE; i++)
            lk_spawn_need(&members[i], members[i].error[0] == '\0');
    return members;
}

static void ensemble_start(lk_backend *backend)
{
    backend->servers = start(&backend->kind->setup, NULL);
}

static bool ensemble_fail_over(lk_backend *backend)
{
    lk_server *leader = lk_ensemble_find(backend->servers, "leader", 0);
    if (!leader)
        return false;
    lk_server_kill(leader);
    return lk_ensemble_find(backend->servers, "leader", 0) != NULL;
}

static bool ensemble_heal(lk_backend *backend)
{
    return lk_spawn_start_again(backend, true);
}

/* The holder's connection to its follower stays; that follower is cut from the leader. They give each other
 * up only after 20 s, so that the follower goes on believing. */
static bool ensemble_open_cut(lk_compare_cut *cut, const lk_network *network)
{
    lk_server *members = cut->servers = start(&cut->kind->cut_setup, network->members);
    lk_server *leader = lk_ensemble_await(members) == NULL ? lk_ensemble_find(members, "leader", 0) : NULL;
    if (!leader)
        return false;
    lk_server *follower = leader == &members[0] ? &members[1] : &members[0];
    cut->holder = cut->rival = &network->hub;
    cut->near = &network->members[follower - members];
    cut->far = &network->members[leader - members];
    cut->what = "the holder's server and the leader";
    snprintf(cut->holder_uri, sizeof cut->holder_uri, "zookeeper://%s:%d/", follower->place.address,
             follower->port);
    snprintf(cut->rival_uri, sizeof cut->rival_uri, "zookeeper://%s:%d/", leader->place.address,
             leader->port);
    return true;
}

const lk_kind lk_kind_zookeeper_ensemble = {
    .name = "zookeeper-ensemble",
    .about = "Three servers on this machine with a tick of 200 ms; a majority has every write on disk before "
             "one answers.",
    .choose_when = "no death or cut of one server may cost or double a lock, who asks first is to be served "
                   "first, and each lock may take milliseconds",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_FAIL_OVER | LK_CAN_BE_CUT,
    .back_ms = 12000,
    .token_is_of_data = true,
    .slack_ms = 2L * LK_ZOOKEEPER_TICK_MS,
    .server = &lk_server_zookeeper,
    .count = LK_ENSEMBLE,
    .setup.options = java,
    .cut_setup = {.options = java, .sync_limit = CUT_SYNC_LIMIT},
    .scheme = "zookeeper",
    .path = "",
    .start = ensemble_start,
    .await = lk_spawn_await,
    .fail_over = ensemble_fail_over,
    .heal = ensemble_heal,
    .open_cut = ensemble_open_cut,
};
