/* spawn_zookeeper.c: ZooKeeper servers, alone or as an ensemble of three; see spawn.h and backend.h. */
#include "servers/zookeeper.h"
#include "spawn.h"

enum { CUT_SYNC_LIMIT = 100 };

static const char *const java[] = {"-Xmx128m", NULL};

const lk_kind lk_kind_zookeeper = {
    .name = "zookeeper",
    .about = "One server with a tick of 200 ms; every write is on its disk before it answers.",
    .choose_when =
        "you develop for an ensemble: alone it keeps the order of arrival, but does not serve when it dies",
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

/* A follower that is cut from its leader goes on believing: they give each other up only after 20 s. */
const lk_kind lk_kind_zookeeper_ensemble = {
    .name = "zookeeper-ensemble",
    .about = "Three servers on this machine with a tick of 200 ms; a majority has every write on disk "
             "before an answer.",
    .choose_when = "the failure of a server must not lose or double a lock, the order of arrival "
                   "matters, and a lock may take milliseconds",
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
    .start = lk_spawn_ensemble_start,
    .await = lk_spawn_await,
    .fail_over = lk_spawn_ensemble_fail_over,
    .heal = lk_spawn_ensemble_heal,
    .open_cut = lk_spawn_ensemble_open_cut,
};
