/* sentinel_house.c: see sentinel_house.h. */
#include "sentinel_house.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char lk_master_name[] = "the-master";
const char *const lk_open_to_all[] = {"--protected-mode", "no", "--repl-diskless-sync-delay", "0", NULL};

static bool agree(void *context)
{
    char question[64], answer[512];
    snprintf(question, sizeof question, "SENTINEL CKQUORUM %s", lk_master_name);
    return lk_server_ask(context, question, answer, sizeof answer) && strncmp(answer, "OK 3", 4) == 0;
}

struct view {
    lk_server *sentinel;
    int port, replicas;
};

/* INFO's line of the master: "master0:name=the-master,status=ok,address=127.0.0.1:6379,slaves=1,sentinels=3". */
static bool sees(void *context)
{
    const struct view *v = context;
    char answer[8192], wanted[64];
    snprintf(wanted, sizeof wanted, ":%d,slaves=%d,", v->port, v->replicas);
    return lk_server_ask(v->sentinel, "INFO sentinel", answer, sizeof answer) &&
           strstr(answer, wanted) != NULL;
}

lk_house *lk_house_new(void)
{
    lk_house *h = calloc(1, sizeof *h);
    assert_non_null(h);
    h->master = lk_test_redis(lk_open_to_all);
    h->replica = lk_test_redis(lk_open_to_all);
    lk_follow(h->replica, h->master);
    lk_follow(h->master, NULL); /* with a login for when it is a replica */
    return h;
}

void lk_house_sentinel(lk_house *h, int number, const char *const *options)
{
    lk_server *const sentinel = &h->sentinel[number];
    const lk_server_setup setup = {.options = options};
    lk_test_need(sentinel,
                 lk_server_start(sentinel, &lk_server_sentinel, &setup) && lk_server_await(sentinel));
    h->port[number] = sentinel->port;
}

/* In haste: they look for replicas each 10 s otherwise, and for each other each 2 s. */
void lk_house_watch(lk_house *h, int number, int port)
{
    lk_server *const sentinel = &h->sentinel[number];
    lk_server master = *h->master;
    master.port = port;
    lk_test_need(sentinel, lk_server_watch(sentinel, lk_master_name, &master, 2, LK_DOWN_MS) &&
                               lk_server_pace(sentinel, 200, 200));
}

int lk_house_begin(void **state)
{
    lk_house *h = lk_house_new();
    *state = h;
    for (int i = 0; i < LK_SENTINELS; i++) {
        lk_house_sentinel(h, i, NULL);
        lk_house_watch(h, i, h->master->port);
    }
    return 0;
}

int lk_house_end(void **state)
{
    lk_house *h = *state;
    for (int i = 0; i < LK_SENTINELS; i++)
        if (h->sentinel[i].kind != NULL)
            lk_server_remove(&h->sentinel[i]);
    lk_test_redis_free(h->second);
    lk_test_redis_free(h->replica);
    lk_test_redis_free(h->master);
    free(h);
    return 0;
}

void lk_house_require_known(lk_house *h, int port, int replicas)
{
    for (int i = 0; i < LK_SENTINELS; i++) {
        struct view v = {&h->sentinel[i], port, replicas};
        lk_require(agree, &h->sentinel[i], "the Sentinels should know each other");
        lk_require(sees, &v, "a Sentinel should know the replicas");
    }
}

/* The port behind "address=127.0.0.1:"; 0: there is none. */
static int named_port(lk_server *sentinel)
{
    static const char label[] = "address=127.0.0.1:";
    char answer[8192];
    const char *const at =
        lk_server_ask(sentinel, "INFO sentinel", answer, sizeof answer) ? strstr(answer, label) : NULL;
    return at != NULL ? (int)strtol(at + sizeof label - 1, NULL, 10) : 0;
}

static bool names_another(void *context)
{
    const struct view *v = context;
    const int port = named_port(v->sentinel);
    return port != 0 && port != v->port;
}

int lk_house_require_other(lk_house *h, int port)
{
    struct view v = {&h->sentinel[LK_SENTINELS - 1], port, 0};
    lk_require(names_another, &v, "another should be made master");
    return named_port(v.sentinel);
}

locker_status lk_house_try_open(const lk_house *h, const char *scheme, const char *name, const char *query,
                                locker **l, locker_error *err)
{
    return lk_try_uri(l, err, "%s://127.0.0.1:%d,127.0.0.1:%d,127.0.0.1:%d/%s?%s", scheme, h->port[0],
                      h->port[1], h->port[2], name, query);
}

locker *lk_house_open(const lk_house *h, const char *query)
{
    locker_error err;
    locker *l;
    assert_ok(lk_house_try_open(h, "redis+sentinel", lk_master_name, query, &l, &err), err);
    return l;
}
