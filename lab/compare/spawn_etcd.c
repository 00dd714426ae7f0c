/* spawn_etcd.c: etcd servers, alone or as an ensemble of three; see spawn.h and backend.h. */
#include "servers/etcd.h"
#include "spawn.h"

/* Leases have whole seconds, three's no less than two; and what has ended is looked for twice a second. */
enum { SLACK_MS = 1500, ENSEMBLE_SLACK_MS = 2500 };

/* As etcd 3.5 has it by itself: a follower that was cut off comes back without an election. */
static const char *const without_elections[] = {"--pre-vote=true", NULL};

const lk_kind lk_kind_etcd = {
    .name = "etcd",
    .about = "One server with a heartbeat of 20 ms; every write is on its disk before it answers.",
    .choose_when = "an etcd server is there, or you develop for three servers: alone it keeps the "
                   "order of arrival, but does not serve when it dies",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_BE_CUT,
    .back_ms = 3000,
    .token_is_of_data = true,
    .slack_ms = SLACK_MS,
    .server = &lk_server_etcd,
    .count = 1,
    .scheme = "etcd",
    .path = "",
    .start = lk_spawn_start,
    .await = lk_spawn_await,
    .heal = lk_spawn_heal,
    .open_cut = lk_spawn_open_cut,
};

const lk_kind lk_kind_etcd_ensemble = {
    .name = "etcd-ensemble",
    .about = "Three servers on this machine with a heartbeat of 100 ms, etcd's default; a majority has "
             "every write on disk before an answer.",
    .choose_when = "an etcd cluster is there, the failure of a server must not lose or double a lock, "
                   "and the order of arrival matters",
    .can = LK_CAN_RESTART | LK_CAN_FORGET | LK_CAN_FAIL_OVER | LK_CAN_BE_CUT,
    .back_ms = 12000,
    .token_is_of_data = true,
    .slack_ms = ENSEMBLE_SLACK_MS,
    .server = &lk_server_etcd,
    .count = LK_ENSEMBLE,
    .cut_setup.options = without_elections,
    .scheme = "etcd",
    .path = "",
    .start = lk_spawn_ensemble_start,
    .await = lk_spawn_await,
    .fail_over = lk_spawn_ensemble_fail_over,
    .heal = lk_spawn_ensemble_heal,
    .open_cut = lk_spawn_ensemble_open_cut,
};
