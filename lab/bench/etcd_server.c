/* etcd_server.c: the etcd server of a run, alone, on a private port and directory. It goes with us. */
#include <stdlib.h>
#include <string.h>
#include <sys/vfs.h>

#include "bench.h"
#include "servers/etcd.h"

/* ------------------------------------------------------------------ asking ---- */

/* The sum of a metric's values. */
static double metric(lk_bench *b, const char *name)
{
    enum { SIZE = 512 * 1024 };
    const size_t len = strlen(name);
    double sum = 0;
    char *const text = malloc(SIZE);
    if (text == NULL || !lk_server_ask(&b->etcd.own, "/metrics", text, SIZE)) {
        free(text);
        return 0;
    }
    for (const char *at = text; at != NULL; at = strchr(at, '\n')) {
        at += *at == '\n';
        if (strncmp(at, name, len) != 0 || (at[len] != ' ' && at[len] != '{'))
            continue;
        const size_t length = strcspn(at, "\n");
        const char *const last = memrchr(at, ' ', length);
        sum += last != NULL ? strtod(last, NULL) : 0;
    }
    free(text);
    return sum;
}

/* Messages: one for a request, and one for each watch, and its end. */
int64_t lk_bench_etcd_server_requests(lk_bench *b)
{
    return (int64_t)metric(b, "grpc_server_msg_received_total");
}

int64_t lk_bench_etcd_server_transactions(lk_bench *b)
{
    return (int64_t)metric(b, "etcd_server_proposals_applied_total");
}

/* ------------------------------------------------------------------ starting ---- */

static bool is_in_memory(const char *path)
{
    enum { TMPFS = 0x01021994 };
    struct statfs about;
    return statfs(path, &about) == 0 && about.f_type == TMPFS;
}

bool lk_bench_etcd_server_need(lk_bench *b)
{
    lk_server *const server = &b->etcd.own;
    if (b->server_cpu >= 0)
        (void)lk_bench_pin(b->server_cpu); /* its threads are born there */
    const bool good =
        lk_server_start(server, &lk_server_etcd, &(lk_server_setup){.tick_ms = LK_ETCD_ENSEMBLE_TICK_MS}) &&
        lk_server_await(server);
    (void)lk_bench_pin(-1);
    b->etcd.cpu = b->server_cpu;
    if (!good) {
        lk_bench_progress("%s%s", server->error,
                          server->missing ? ", or leave the rows e? out by --only" : "");
        return false;
    }
    lk_server_version(server, b->etcd.version, sizeof b->etcd.version);
    if (!is_in_memory(server->directory))
        lk_bench_progress(
            "etcd's log is on a disk, whose speed is in the figures; TMPDIR=/dev/shm puts it into memory");
    return lk_server_freeze(server);
}

bool lk_bench_etcd_server_pin(lk_bench *b, int cpu)
{
    lk_server_thaw(&b->etcd.own);
    if (cpu < 0 || (b->etcd.cpu != cpu && !lk_bench_pin_process(b->etcd.own.pid, cpu)))
        return false;
    b->etcd.cpu = cpu;
    return true;
}

void lk_bench_etcd_server_stop(lk_bench *b)
{
    lk_server_remove(&b->etcd.own);
}

const char *lk_bench_etcd_server_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms)
{
    (void)snprintf(out, LK_SERVER_TEXT, "etcd://127.0.0.1:%d/bench?ttl=%lldms", port, (long long)ttl_ms);
    return out;
}
