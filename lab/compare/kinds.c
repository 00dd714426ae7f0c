/* kinds.c: the kinds of backends that --spawn starts, in their order, and files, which need no server. */
#include "backend.h"

#include "cli.h"
#include "die.h"

static void file_start(lk_backend *backend)
{
    char directory[LK_SCRATCH_PATH], why[256];
    if (!lk_scratch_make("locks", directory, why, sizeof why))
        lk_die(LK_EXIT_SYSTEM, "%s", why);
    snprintf(backend->uri, sizeof backend->uri, "file://%s", directory);
}

static bool file_is_there(lk_backend *backend)
{
    snprintf(backend->column->version, sizeof backend->column->version, "this host's kernel");
    return true;
}

static const lk_kind kind_file = {
    .name = "file",
    .about = "A directory of this host.",
    .choose_when =
        "all processes run on one host: it needs no server, and a dead process's locks are free at once",
    .start = file_start,
    .await = file_is_there,
    .heal = file_is_there,
};

extern const lk_kind lk_kind_redis, lk_kind_redis_replica, lk_kind_zookeeper, lk_kind_zookeeper_ensemble,
    lk_kind_etcd, lk_kind_etcd_ensemble;

const lk_kind *const lk_kinds[] = {&kind_file,
                                   &lk_kind_redis,
                                   &lk_kind_redis_replica,
                                   &lk_kind_zookeeper,
                                   &lk_kind_zookeeper_ensemble,
                                   &lk_kind_etcd,
                                   &lk_kind_etcd_ensemble,
                                   NULL};
