/* main.c: the groups of tests, and what they share. */
#include <dlfcn.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "zk_tests.h"

static const lk_group *const groups[] = {
    &lk_basics, &lk_busy,       &lk_losses, &lk_replies, &lk_crashes, &lk_ensemble, &lk_cut,    &lk_interop,
    &lk_cost,   &lk_grant_time, &lk_places, &lk_tls,     &lk_sasl,    &lk_sharing,  &lk_unsent, NULL};

/* ------------------------------------------------------------------ environments ---- */

int lk_env_empty(void **state)
{
    *state = calloc(1, sizeof(lk_env));
    return *state == NULL ? -1 : 0;
}

/* To start a server takes most of a second of a processor, so one that a test has neither stopped nor started again serves
 * the next test, once its nodes are deleted. */
static lk_server *spare;

static lk_server *spare_or_new(void)
{
    lk_server *server = spare;
    spare = NULL;
    return server != NULL ? server : lk_test_zookeeper(LK_LOGIN_NONE);
}

static void spare_or_free(lk_server *server, bool unharmed)
{
    bool empty = false;
    if (unharmed && spare == NULL) {
        lk_zkc *client = lk_zkc_open(server);
        empty = lk_zkc_clear(client, "/");
        lk_zkc_close(client);
    }
    if (empty)
        spare = server;
    else
        lk_test_free(server);
}

int lk_env_server(void **state)
{
    lk_env *env;
    if (lk_env_empty(state) != 0)
        return -1;
    env = *state;
    env->zk = spare_or_new();
    env->zk_pid = env->zk->pid;
    env->client = lk_zkc_open(env->zk);
    return 0;
}

int lk_env_proxied(void **state)
{
    lk_env *env;
    if (lk_env_server(state) != 0)
        return -1;
    env = *state;
    env->proxy = lk_proxy_begin(&lk_proxy_zookeeper, env->zk->port);
    return 0;
}

bool lk_client_has(const char *function)
{
    void *const library =
        dlopen("libzookeeper_st.so.2", RTLD_LAZY | RTLD_LOCAL); /* the driver's module has it */
    return library != NULL && dlsym(library, function) != NULL;
}

/* An ensemble takes seconds to start, so it serves all tests of a group. */
static lk_server *ensemble;

int lk_group_ensemble(void **state)
{
    (void)state;
    ensemble = lk_test_ensemble(0, 0, NULL);
    return 0;
}

void lk_group_ensemble_at(int sync_limit, const lk_place *places)
{
    ensemble = lk_test_ensemble(0, sync_limit, places);
}

int lk_group_end(void **state)
{
    (void)state;
    lk_test_ensemble_free(ensemble);
    ensemble = NULL;
    return 0;
}

int lk_env_ensemble(void **state)
{
    if (lk_env_empty(state) != 0)
        return -1;
    ((lk_env *)*state)->members = ensemble;
    return 0;
}

int lk_env_end(void **state)
{
    lk_env *env = *state;
    if (env == NULL)
        return 0;
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++)
        lk_child_kill(env->children[i]);
    lk_proxy_free(env->proxy);
    lk_zkc_drop(env->client);
    if (env->members != NULL)
        lk_test_ensemble_heal(env->members);
    spare_or_free(env->zk, env->zk_pid != 0 && env->zk_pid == env->zk->pid && !env->zk->frozen);
    free(env);
    return 0;
}

lk_child *lk_env_keep(lk_env *env, lk_child *child)
{
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++) {
        if (env->children[i] == NULL) {
            env->children[i] = child;
            return child;
        }
    }
    test_fails("a test has at most %d children", LK_ENV_CHILDREN);
}

void lk_env_kill(lk_env *env, lk_child *child)
{
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++)
        if (env->children[i] == child)
            env->children[i] = NULL;
    lk_child_kill(child);
}

lk_child *lk_env_puppet(lk_env *env, const char *format, ...)
{
    char uri[512];
    va_list args;
    va_start(args, format);
    vsnprintf(uri, sizeof uri, format, args);
    va_end(args);
    return lk_env_keep(env, lk_puppet_start(uri));
}

/* ------------------------------------------------------------------ shared by the groups ---- */

locker *lk_open_uri(const char *format, ...)
{
    const locker_options options = lk_test_options();
    char uri[512];
    locker_error err;
    va_list args;
    locker *l;
    va_start(args, format);
    vsnprintf(uri, sizeof uri, format, args);
    va_end(args);
    assert_ok(locker_open(uri, &options, &l, &err), err);
    return l;
}

locker *lk_open_at(const lk_server *zk, const char *rest)
{
    return lk_open_uri("zookeeper://%s:%d%s", zk->place.address, zk->port, rest);
}

locker *lk_open_through(lk_env *env, const char *rest)
{
    return lk_open_uri("zookeeper://127.0.0.1:%d%s", lk_proxy_port(env->proxy), rest);
}

int64_t lk_session_of(lk_zkc *client, const char *parent, size_t nth)
{
    lk_zkc_stat stat = {0};
    char path[LK_ZKC_NAME_MAX];
    lk_zkc_nth(client, parent, nth, path);
    assert_int_equal(lk_zkc_get(client, path, NULL, 0, &stat), LK_ZKC_OK);
    assert_true(stat.session != 0);
    return stat.session;
}

struct written {
    lk_zkc *client;
    const char *parent;
    char words[64];
};

static bool is_written(void *context)
{
    const struct written *written = context;
    char data[128] = "";
    assert_int_equal(lk_zkc_get(written->client, written->parent, data, sizeof data, NULL), LK_ZKC_OK);
    return strncmp(data, written->words, strlen(written->words)) == 0;
}

void lk_require_since(lk_zkc *client, const char *parent, uint64_t token)
{
    struct written written = {client, parent, ""};
    snprintf(written.words, sizeof written.words, "locker: grant %" PRIu64 " since ", token);
    lk_require(is_written, &written, "the time of the grant should be written");
}

int main(int argc, char **argv)
{
    static const lk_role roles[] = {LK_PUPPET_ROLE, {NULL, NULL}};
    const int status = lk_run_group(argc, argv, groups, roles);
    lk_test_free(spare);
    return status;
}
