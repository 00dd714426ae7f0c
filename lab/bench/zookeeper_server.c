/* zookeeper_server.c: the ZooKeeper server of a run, alone, on a private port and directory. It goes with
 * us. */
#include <stdlib.h>
#include <string.h>

#include "bench.h"
#include "servers/zookeeper.h"

static int64_t questions; /* that we have asked: the server counts them as requests */

/* ------------------------------------------------------------------ asking ---- */

/* What stands behind those words. */
static int64_t number_behind(lk_bench *b, const char *words, int base)
{
    questions++;
    char answer[2048];
    const char *at = lk_server_ask(&b->zoo.own, "srvr", answer, sizeof answer) ? strstr(answer, words) : NULL;
    return at != NULL ? strtoll(at + strlen(words), NULL, base) : 0;
}

int64_t lk_zoo_server_requests(lk_bench *b)
{
    const int64_t received = number_behind(b, "Received: ", 10);
    return received > questions ? received - questions : 0;
}

int64_t lk_zoo_server_transactions(lk_bench *b)
{
    return number_behind(b, "Zxid: 0x", 16); /* it counts them; no other server leads meanwhile */
}

/* ------------------------------------------------------------------ starting ---- */

/* Java compiles what runs often: the first seconds are no measure. */
static void warm_body(lk_bench *b, int member, const void *arg)
{
    lk_zoo *zoo = lk_zoo_open(b, b->zoo.own.port, 10000);
    (void)member;
    (void)arg;
    char key[64];
    for (int i = 0; i < 16; i++)
        lk_zoo_make(zoo, lk_lane_key(key, "warm", i));
    lk_bench_crew_ready(b);
    lk_zoo_lanes(zoo, "warm", false, 16, 0);
    lk_zoo_close(zoo);
}

/* Writes reach the disk when the system likes, so that its speed is not in the figures. */
static bool start(lk_server *server)
{
    static const char *const java[] = {"-Xms192m", "-Xmx192m", "-Dzookeeper.forceSync=no",
                                       "-Dorg.slf4j.simpleLogger.defaultLogLevel=warn", NULL};
    const lk_server_setup setup = {.options = java, .tick_ms = 500};
    if (lk_server_start(server, &lk_server_zookeeper, &setup) && lk_server_await(server))
        return true;
    lk_bench_progress("%s%s", server->error, server->missing ? ", or leave the rows z* out by --only" : "");
    return false;
}

static bool launch(lk_bench *b)
{
    if (b->server_cpu >= 0)
        (void)lk_bench_pin(b->server_cpu); /* its threads are born there */
    const bool good = start(&b->zoo.own);
    (void)lk_bench_pin(-1);
    b->zoo.cpu = b->server_cpu;
    char version[32];
    lk_server_version(&b->zoo.own, version, sizeof version);
    (void)snprintf(b->zoo.version, sizeof b->zoo.version, "%s",
                   version[0] != '\0' ? version + sizeof "ZooKeeper" : "of unknown version");
    return good;
}

bool lk_zoo_server_need(lk_bench *b)
{
    lk_work warm = {
        .members = 1, .duration = lk_scale(b, 8000) * LK_BENCH_MS, .cpu = b->client_cpu, .body = warm_body};
    if (!launch(b) || lk_interrupted || !lk_bench_crew_run(b, &warm))
        return false;
    return lk_server_freeze(&b->zoo.own);
}

bool lk_zoo_server_pin(lk_bench *b, int cpu)
{
    lk_server_thaw(&b->zoo.own);
    if (cpu < 0)
        return false;
    if (b->zoo.cpu != cpu && !lk_bench_pin_process(b->zoo.own.pid, cpu))
        return false;
    b->zoo.cpu = cpu;
    return true;
}

void lk_zoo_server_stop(lk_bench *b)
{
    lk_server_remove(&b->zoo.own); /* it has nothing to save */
}

const char *lk_zoo_server_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms)
{
    (void)snprintf(out, LK_SERVER_TEXT, "zookeeper://127.0.0.1:%d/bench?ttl=%lldms", port, (long long)ttl_ms);
    return out;
}
