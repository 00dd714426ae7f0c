/* test_servers.c: servers of a test's own; see test_servers.h. */
#include "test_servers.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"

/* forceSync: kill -9 loses nothing that was written, only a power cut would; and tests don't wait for
 * disks. */
static const char *const java[] = {"-Xms256m",
                                   "-Xmx256m",
                                   "-Xmn16m",
                                   "-XX:TieredStopAtLevel=1",
                                   "-Dzookeeper.forceSync=no",
                                   "-Dorg.slf4j.simpleLogger.showDateTime=true",
                                   NULL};

void lk_test_need(lk_server *server, bool good)
{
    char log[8192];
    if (good)
        return;
    lk_server_log(server, log, sizeof log);
    print_error("the end of the server's log:\n%s\n", log);
    test_fails("%s", server->error);
}

static lk_server *room_for(size_t count)
{
    lk_server *servers = calloc(count, sizeof *servers);
    if (servers == NULL)
        test_fails("out of memory (%s)", "servers");
    return servers;
}

/* ------------------------------------------------------------------ one server ---- */

lk_server *lk_test_zookeeper(lk_server_login login)
{
    const lk_server_setup setup = {.options = java, .login = login};
    lk_server *server = room_for(1);
    lk_test_need(server, lk_server_start(server, &lk_server_zookeeper, &setup) && lk_server_await(server));
    return server;
}

static const char *const fast[] = {LK_TEST_ETCD_FAST, NULL};

lk_server *lk_test_etcd(const char *const *options)
{
    const lk_server_setup setup = {.options = options != NULL ? options : fast};
    lk_server *server = room_for(1);
    lk_test_need(server, lk_server_start(server, &lk_server_etcd, &setup) && lk_server_await(server));
    return server;
}

void lk_test_launch(lk_server *server, bool keep_data)
{
    lk_test_need(server, lk_server_launch(server, keep_data) && lk_server_await(server));
}

void lk_test_listen_everywhere(lk_server *server)
{
    strcpy(server->place.address, "0.0.0.0"); /* which to Java is :: */
    lk_test_need(server, server->kind->prepare(server));
}

void lk_test_freeze(lk_server *server)
{
    lk_test_need(server, lk_server_freeze(server));
}

void lk_test_free(lk_server *server)
{
    if (server != NULL)
        lk_server_remove(server);
    free(server);
}

/* ------------------------------------------------------------------ an ensemble ---- */

static void await_all(lk_server *members)
{
    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_test_need(&members[i], lk_server_await(&members[i]));
}

static lk_server *start_all(const lk_server_kind *kind, const lk_server_setup *setup, const lk_place *places)
{
    lk_server *members = room_for(LK_ENSEMBLE);
    if (!lk_ensemble_start(members, kind, setup, places))
        for (int i = 0; i < LK_ENSEMBLE; i++)
            lk_test_need(&members[i], members[i].error[0] == '\0');
    await_all(members);
    return members;
}

lk_server *lk_test_ensemble(int tick_ms, int sync_limit, const lk_place *places)
{
    const lk_server_setup setup = {.options = java, .tick_ms = tick_ms, .sync_limit = sync_limit};
    return start_all(&lk_server_zookeeper, &setup, places);
}

lk_server *lk_test_etcd_ensemble(const char *const *options, const lk_place *places)
{
    const lk_server_setup setup = {.options = options != NULL ? options : fast};
    return start_all(&lk_server_etcd, &setup, places);
}

void lk_test_ensemble_heal(lk_server *members)
{
    for (int i = 0; i < LK_ENSEMBLE; i++) {
        lk_server_thaw(&members[i]);
        if (members[i].pid == 0) /* it may have no quorum yet */
            lk_test_need(&members[i], lk_server_launch(&members[i], true));
    }
    await_all(members);
}

void lk_test_ensemble_free(lk_server *members)
{
    if (members != NULL)
        lk_ensemble_remove(members);
    free(members);
}

static lk_server *find(lk_server *members, const char *mode, int nth)
{
    lk_server *found = lk_ensemble_find(members, mode, nth);
    if (found == NULL)
        test_fails("no member of the ensemble is a %s", mode);
    return found;
}

lk_server *lk_test_leader(lk_server *members)
{
    return find(members, "leader", 0);
}

lk_server *lk_test_follower(lk_server *members, int nth)
{
    return find(members, "follower", nth);
}

/* The last change that the member has applied; 0: unknown. */
static uint64_t zxid_of(const lk_server *server)
{
    char answer[2048];
    const char *line = NULL;
    uint64_t zxid = 0;
    if (lk_server_ask(server, "srvr", answer, sizeof answer))
        line = strstr(answer, "Zxid: 0x");
    if (line == NULL || sscanf(line, "Zxid: 0x%" SCNx64, &zxid) != 1)
        return 0;
    return zxid;
}

typedef struct {
    const lk_server *members;
    uint64_t zxid;
} step;

static bool are_in_step(void *context)
{
    const step *wanted = context;
    for (int i = 0; i < LK_ENSEMBLE; i++)
        if (zxid_of(&wanted->members[i]) < wanted->zxid)
            return false;
    return true;
}

void lk_test_require_in_step(lk_server *members)
{
    step wanted = {members, zxid_of(lk_test_leader(members))};
    lk_require(are_in_step, &wanted, "all members should apply what the leader has applied");
}
