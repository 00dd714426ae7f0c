/* places.c: what is known of a place in a queue and what is not, when answers are lost: creates that come
 * late, predecessors of which nothing is heard, releases that can't tell who deleted the node. */
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include <locker/driver.h>

#include "lk_list.h"
#include "lk_poll.h"
#include "lk_wakeup.h"
#include "zk_tests.h"
#include "zklog.h"

/* ------------------------------------------------------------------ late creates ---- */

/* A create that the server has not executed yet, though the client has long been elsewhere. */
struct late {
    lk_env *env;
    locker *l;
    char path[LK_ZKC_NAME_MAX];
};

static void late_begin(struct late *late, lk_env *env, const char *rest)
{
    *late = (struct late){.env = env, .l = lk_open_through(env, rest)};
    lk_give(lk_take(late->l, "late"));
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_CREATE2, 1, 0);
}

/* The lock was taken under another name meanwhile, and given back. */
static void late_goes_on(struct late *late)
{
    lk_give(lk_take(late->l, "late"));
    lk_proxy_zookeeper_withheld(late->env->proxy, late->path, sizeof late->path);
    lk_zkc_require_count(late->env->client, "/shop/late", 0);
}

static void late_comes(struct late *late)
{
    assert_int_equal(lk_zkc_create(late->env->client, late->path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL),
                     LK_ZKC_OK);
}

/* Nobody lists the queue: it is looked at with the heartbeats, or rather a quarter of the session apart. */
static void a_late_create_is_looked_for(void **state)
{
    struct late late;
    int64_t came;
    late_begin(&late, *state, "/shop?ttl=4s&command_timeout=20s");
    late_goes_on(&late);
    late_comes(&late);
    came = lk_test_now_ms();
    lk_zkc_require_count(late.env->client, "/shop/late", 0);
    assert_timely(lk_test_now_ms() - came, 4000);
    lk_close_locker(late.l);
}

/* Two of them in one queue, the first of which is found before the other one comes. */
static void two_late_creates_are_looked_for(void **state)
{
    struct late first, second;
    late_begin(&first, *state, "/shop?ttl=4s&command_timeout=20s");
    late_goes_on(&first);
    second = first;
    lk_proxy_harm(second.env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_CREATE2, 1, 0);
    late_goes_on(&second);
    assert_string_not_equal(first.path, second.path);
    late_comes(&second);
    lk_zkc_require_count(second.env->client, "/shop/late", 0);
    late_comes(&first);
    lk_zkc_require_count(second.env->client, "/shop/late", 0);
    lk_close_locker(second.l);
}

/* The queue is listed for another reason, long before it is looked for. */
static void a_late_create_is_swept_by_a_list(void **state)
{
    struct late late;
    locker_handle *held = NULL;
    locker_error err;
    int64_t came;
    late_begin(&late, *state, "/shop?ttl=40s&command_timeout=20s");
    late_goes_on(&late);
    came = lk_test_now_ms();
    late_comes(&late);
    lk_give(lk_take(late.l, "late")); /* by the list that went with its create */
    lk_zkc_require_count(late.env->client, "/shop/late", 0);
    late_comes(&late);
    assert_ok(locker_try_lock(late.l, "late", NULL, &held, &err), err); /* ... that a try begins with */
    assert_int_equal(lk_zkc_count(late.env->client, "/shop/late"), 1);
    assert_timely(lk_test_now_ms() - came, 8000);
    lk_give(held);
    lk_close_locker(late.l);
}

static void a_late_create_is_looked_for_after_a_reconnection(void **state)
{
    struct late late;
    int64_t came;
    late_begin(&late, *state, "/shop?ttl=40s&command_timeout=20s");
    late_goes_on(&late);
    late_comes(&late);
    came = lk_test_now_ms();
    lk_proxy_cut_all(late.env->proxy);
    lk_zkc_require_count(late.env->client, "/shop/late", 0);
    assert_timely(lk_test_now_ms() - came, 8000);
    lk_close_locker(late.l);
}

/* The caller has given up before its create could be looked for, and nobody else uses the key. */
static void a_late_create_of_a_waiter_that_gave_up(void **state)
{
    struct late late;
    locker_lock_options options = lk_wait_options(300);
    lk_passed lists;
    locker_handle *held = NULL;
    locker_error err;
    late_begin(&late, *state, "/shop?ttl=4s&command_timeout=300ms");
    lk_proxy_refuse(late.env->proxy, true);
    assert_true(locker_lock(late.l, "late", &options, &held, &err) != LOCKER_OK);
    lists = lk_proxy_passed(late.env->proxy, LK_ZKP_LIST);
    lk_proxy_refuse(late.env->proxy, false);
    lk_proxy_zookeeper_withheld(late.env->proxy, late.path, sizeof late.path);
    lk_proxy_await_passed(lists, 1); /* which doesn't show it yet */
    late_comes(&late);
    lk_zkc_require_count(late.env->client, "/shop/late", 0);
    lk_close_locker(late.l);
}

/* A search finds the name, but the node is another session's: it ends with that one, and nobody's lock hangs
 * on it. */
static void a_node_name_of_another_session(void **state)
{
    struct late late;
    lk_locking entering;
    int64_t theirs;
    late_begin(&late, *state, "/shop?ttl=40s&command_timeout=20s");
    lk_proxy_refuse(late.env->proxy, true);
    lk_locking_start(&entering, late.l, "late", NULL);
    lk_proxy_await_harm(late.env->proxy, 1);
    lk_proxy_zookeeper_withheld(late.env->proxy, late.path, sizeof late.path);
    late_comes(&late);
    theirs = lk_session_of(late.env->client, "/shop/late", 0);
    lk_proxy_refuse(late.env->proxy, false);
    assert_status(LOCKER_OK, lk_locking_join(&entering), entering.err);
    assert_int_equal(lk_zkc_count(late.env->client, "/shop/late"), 1);
    assert_int_not_equal(lk_session_of(late.env->client, "/shop/late", 0), theirs);
    lk_give(entering.held);
    lk_close_locker(late.l);
}

/* A node that was in doubt, and is found to be there, is deleted as soon as nobody wants it any more. */
static void a_waiter_that_gave_up_while_its_node_was_found(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=60s&command_timeout=20s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_locking waiter;
    int64_t fired;
    lk_give(lk_take(l, "found"));
    options.cancel = locker_cancel_new();
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&waiter, l, "found", &options);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_GET, 1, 0);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_harm(env->proxy, 2);
    fired = lk_test_now_ms();
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_zkc_require_count(env->client, "/shop/found", 0);
    assert_timely(lk_test_now_ms() - fired,
                  10000); /* and not after a quarter of the session, or another connection */
    lk_close_locker(l);
    locker_cancel_free(options.cancel);
}

/* What is in doubt keeps nobody from closing: the session's end settles it. */
static void closing_waits_for_no_doubt(void **state)
{
    struct late late;
    int64_t began;
    late_begin(&late, *state, "/shop?ttl=40s&command_timeout=20s&cleanup_timeout=20s");
    late_goes_on(&late);
    began = lk_test_now_ms();
    lk_close_locker(late.l);
    assert_timely(lk_test_now_ms() - began, 10000);
}

/* The list that came with its create is not answered, and the node is deleted before the next one. Nobody is
 * before it in that, but it is not there itself. */
static void a_place_that_its_list_does_not_show(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    char path[LK_ZKC_NAME_MAX];
    lk_locking entering;
    lk_give(lk_take(l, "shown"));
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_LIST, 1, 0);
    lk_locking_start(&entering, l, "shown", NULL);
    lk_proxy_await_harm(env->proxy, 1);
    lk_zkc_nth(env->client, "/shop/shown", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_proxy_cut_all(env->proxy);
    assert_status(LOCKER_OK, lk_locking_join(&entering), entering.err);
    assert_int_equal(lk_zkc_count(env->client, "/shop/shown"), 1); /* under another name */
    lk_give(entering.held);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ predecessors ---- */

/* Two places of one locker; of the first one neither create nor search is answered. The node is there all the
 * same, so the second one is behind it. */
static void two_cuts_in_a_row(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=20s&command_timeout=20s");
    locker_lock_options options = lk_wait_options(4000);
    lk_locking a, b;
    lk_give(lk_take(l, "cuts"));
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_CREATE2, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_locking_start(&a, l, "cuts", &options);
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_delay(env->proxy, 0, 100); /* the second enters while the first is searched for */
    lk_locking_start(&b, l, "cuts", &options);
    assert_int_equal(lk_zkc_count(env->client, "/shop/cuts"), 1);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_GET, 1, 0);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_harm(env->proxy, 2);
    lk_proxy_delay(env->proxy, 0, 0);
    lk_locking_join(&a);
    lk_locking_join(&b);
    assert_int_not_equal(a.held == NULL, b.held == NULL); /* one has it, and waits for nobody */
    lk_give(a.held != NULL ? a.held : b.held);
    lk_zkc_require_count(env->client, "/shop/cuts", 0);
    lk_close_locker(l);
}

/* The driver alone, called as core calls it: what takes a claim that is slow to be attempted again. */
struct alone {
    locker *l; /* whose driver it is */
    const locker_driver *driver;
    locker_services services;
    void *self;
    pthread_t keeper;
    int attended; /* readable when the keeper is to come */
    atomic_bool over;
};

/* A claim with the driver's bytes behind it. */
struct slow_claim {
    locker_claim claim; /* the first member: what core is told of is ours */
    _Alignas(16) char data[256];
    lk_gate woken;
};

static locker_claim *of(struct slow_claim *claim)
{
    claim->claim.data = claim->data;
    return &claim->claim;
}

static void note_wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    lk_gate_open(&((struct slow_claim *)(void *)claim)->woken, 1);
}

static void attend(const locker_services *svc)
{
    lk_wakeup_ring(LK_CONTAINER(svc, const struct alone, services)->attended);
}

static void hear_no_suspicion(const locker_services *svc, bool out_of_reach)
{
    (void)svc, (void)out_of_reach;
}

static void hear_no_extension(const locker_services *svc, locker_claim *grant, int64_t until)
{
    (void)svc, (void)grant, (void)until;
}

static void note_loss(const locker_services *svc, locker_claim *grant, const char *why)
{
    (void)why;
    if (grant != NULL) /* else it is all that there are */
        note_wake(svc, grant);
}

static void log_nothing(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    (void)svc, (void)level, (void)format;
}

static bool want_no_log(const locker_services *svc, locker_log_level level)
{
    (void)svc, (void)level;
    return false;
}

/* Core's keeper: it sleeps until the driver has something to read, wants attention, or it is time. */
static void *keep(void *argument)
{
    struct alone *alone = argument;
    const locker_clock *clock = alone->services.clock;
    struct pollfd waits[2] = {{.fd = alone->driver->descriptor(alone->self), .events = POLLIN},
                              {.fd = alone->attended, .events = POLLIN}};
    while (!atomic_load(&alone->over)) {
        lk_wakeup_clear(alone->attended);
        const int64_t next = alone->driver->dispatch(alone->self);
        (void)lk_poll_until(waits, 2, clock->now(clock->context), next);
    }
    return NULL;
}

static void alone_begin_by(struct alone *alone, lk_env *env, const locker_clock *clock)
{
    const int64_t patience = INT64_C(1000000) * LK_TEST_PATIENCE_MS;
    const locker_host host = {lk_proxy_port(env->proxy), "127.0.0.1"};
    locker_value values[32] = {{.given = false}};
    const locker_driver_config config = {.scheme = "zookeeper",
                                         .hosts = &host,
                                         .host_count = 1,
                                         .path = "/shop",
                                         .name_space = "",
                                         .owner = "me",
                                         .values = values,
                                         .connect_timeout_ns = patience,
                                         .command_timeout_ns = patience,
                                         .cleanup_ns = patience,
                                         .ttl_ns = INT64_C(40000000000)};
    locker_error err;
    memset(alone, 0, sizeof *alone);
    alone->l = lk_open_at(env->zk, "/shop");
    alone->driver = locker_driver_of(alone->l, &alone->self);
    for (size_t i = 0; alone->driver->params[i].name != NULL; i++)
        if (alone->driver->params[i].kind == LOCKER_PARAM_TEXT)
            values[i].text = alone->driver->params[i].initial;
    alone->services = (locker_services){.clock = clock,
                                        .wake = note_wake,
                                        .lease_extended = hear_no_extension,
                                        .lease_lost = note_loss,
                                        .suspect = hear_no_suspicion,
                                        .attend = attend,
                                        .log_wanted = want_no_log,
                                        .log = log_nothing};
    alone->attended = lk_wakeup_new();
    assert_int_equal(alone->driver->open(&config, &alone->services, &alone->self, &err), LOCKER_OK);
    assert_int_equal(pthread_create(&alone->keeper, NULL, keep, alone), 0);
}

static void alone_begin(struct alone *alone, lk_env *env)
{
    alone_begin_by(alone, env, locker_system_clock());
}

/* The system's clock, which a test sets forward. */
static _Atomic int64_t ahead_ns;

static int64_t now_ahead(void *context)
{
    const locker_clock *const system = locker_system_clock();
    (void)context;
    return system->now(system->context) + atomic_load(&ahead_ns);
}

static void wait_ahead(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    const locker_clock *const system = locker_system_clock();
    (void)context;
    system->wait(system->context, cond, mutex,
                 until == LOCKER_NEVER ? until : until - atomic_load(&ahead_ns));
}

static const locker_clock clock_ahead = {.size = sizeof clock_ahead, .now = now_ahead, .wait = wait_ahead};

/* Set the clock forward by so much that a touch is due, and wait until that was sent, behind all else that was due. */
static void set_forward(const struct alone *alone, lk_env *env, int64_t ms)
{
    const lk_passed touches = lk_proxy_passed(env->proxy, LK_ZKP_EXISTS);
    atomic_fetch_add(&ahead_ns, ms * 1000000);
    lk_wakeup_ring(alone->attended);
    lk_proxy_await_passed(touches, 1);
}

static void alone_end(struct alone *alone)
{
    atomic_store(&alone->over, true);
    lk_wakeup_ring(alone->attended);
    lk_join(alone->keeper, "the keeper should end");
    alone->driver->close(alone->self);
    close(alone->attended);
    lk_close_locker(alone->l);
}

/* One attempt, of at most that many ms. */
static locker_status attempt(const struct alone *alone, struct slow_claim *claim, int64_t ms)
{
    locker_claim *c = of(claim);
    locker_error err;
    c->asked_at = alone->services.clock->now(alone->services.clock->context);
    c->attempt_until = c->asked_at + ms * 1000000;
    return alone->driver->acquire(alone->self, c, &err);
}

static locker_status come(const struct alone *alone, struct slow_claim *claim, const char *key, int64_t ms)
{
    memset(claim, 0, sizeof *claim);
    lk_gate_init(&claim->woken);
    *of(claim) = (locker_claim){.key = key,
                                .key_len = strlen(key),
                                .key_hash = locker_key_hash(key, strlen(key)),
                                .owner = "me",
                                .ttl_ns = INT64_C(40000000000),
                                .will_wait = true,
                                .renewed = true};
    return attempt(alone, claim, ms);
}

static void expect_searches(lk_passed since, unsigned count)
{
    lk_proxy_await_passed(since,
                          count); /* a touch of before may have ended the wait for those that are due */
    assert_int_equal(lk_proxy_requests(since.proxy, since.kind) - since.count, count);
}

/* A queue in doubt that nobody waits for is searched more and more seldom, after a reconnection at once only while it is young,
 * and after sixteen session time-outs once more and never again. */
static void a_queue_in_doubt_is_forgotten(void **state)
{
    lk_env *env = *state;
    static struct slow_claim claim;
    static struct alone alone;
    locker_error err;
    atomic_store(&ahead_ns, 0);
    alone_begin_by(&alone, env, &clock_ahead);
    lk_give(lk_take(alone.l, "old")); /* the key's parents are there */
    const lk_passed searches = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_CREATE2, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    assert_int_not_equal(come(&alone, &claim, "old", 500), LOCKER_OK);
    lk_proxy_await_harm(env->proxy, 1);
    alone.driver->withdraw(alone.self, of(&claim));
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_passed(searches, 1);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_passed(searches, 2);
    set_forward(&alone, env, 50000); /* the time-out is 40 s, so it is old enough to be left alone */
    expect_searches(searches, 3);
    const lk_passed connections = lk_proxy_passed(env->proxy, LK_ZKP_CONNECT);
    lk_proxy_cut_all(env->proxy);
    lk_proxy_await_passed(connections, 1);
    assert_int_equal(alone.driver->ping(alone.self, now_ahead(NULL) + INT64_C(20000000000), &err), LOCKER_OK);
    set_forward(&alone, env, 6000);
    expect_searches(searches, 3);
    set_forward(&alone, env, 16 * 40000);
    expect_searches(searches, 4);
    assert_int_equal(alone.driver->ping(alone.self, now_ahead(NULL) + INT64_C(20000000000), &err), LOCKER_OK);
    set_forward(&alone, env, 16 * 40000);
    expect_searches(searches, 4);
    alone_end(&alone);
}

/* A search has not seen the first one's node, which comes late, and is deleted by somebody else before its
 * claim goes on under another name. The second one hears of that from the server, for the first one has
 * nothing to tell. */
static void a_predecessor_that_its_own_claim_has_not_seen(void **state)
{
    lk_env *env = *state;
    static struct slow_claim first,
        second; /* static, like the rest: a test that fails goes, its keeper stays */
    static struct alone alone;
    char path[LK_ZKC_NAME_MAX];
    locker_status status;
    locker_error err;
    alone_begin(&alone, env);
    lk_give(lk_take(alone.l, "unseen")); /* the key's parents are there */
    lk_proxy_harm(env->proxy, LK_PROXY_WITHHOLD, LK_ZKP_CREATE2, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    status = come(&alone, &first, "unseen", 500);
    assert_true(status == LOCKER_UNAVAILABLE ||
                status == LOCKER_TIMEOUT); /* the latter if it is not told yet */
    lk_proxy_await_harm(env->proxy, 1);
    lk_proxy_zookeeper_withheld(env->proxy, path, sizeof path);
    lk_proxy_refuse(env->proxy, false);
    lk_gate_await(&first.woken, 1, "the search should end");
    assert_int_equal(lk_zkc_create(env->client, path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL), LK_ZKC_OK);
    assert_int_equal(come(&alone, &second, "unseen", LK_TEST_PATIENCE_MS), LOCKER_BUSY);
    lk_zkc_nth(env->client, "/shop/unseen", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_gate_await(&second.woken, 1, "the end of the first one's node should be told");
    assert_int_equal(attempt(&alone, &second, LK_TEST_PATIENCE_MS), LOCKER_OK);
    assert_int_equal(alone.driver->release(alone.self, of(&second), LOCKER_NEVER, &err), LOCKER_OK);
    alone.driver->withdraw(alone.self, of(&first));
    alone_end(&alone);
    lk_gate_destroy(&first.woken);
    lk_gate_destroy(&second.woken);
}

/* It goes between the list that shows it and the read that would set the watch. */
static void a_predecessor_that_goes_before_it_is_watched(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_through(env, "/shop?ttl=40s");
    locker_handle *held = lk_take(holder, "quick");
    lk_locking waiter;
    lk_passed lists = lk_proxy_passed(env->proxy, LK_ZKP_LIST);
    int64_t given;
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(&waiter, l, "quick", NULL);
    lk_proxy_await_passed(lists, 1);
    lk_zkc_require_count(env->client, "/shop/quick", 2);
    lk_proxy_hold(env->proxy, true, false); /* the list arrives, and the read is kept back */
    lk_give(held);
    given = lk_test_now_ms();
    lk_proxy_hold(env->proxy, false, false);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_timely(waiter.ended_ms - given, 5000); /* and not with a heartbeat, after 10 s */
    lk_give(waiter.held);
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* A holder whose node's end is never told finds out by its next heartbeat. Its other lock stays. */
static void a_heartbeat_finds_a_deleted_node(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=16s"), *other = lk_open_at(env->zk, "/shop");
    lk_passed reads = lk_proxy_passed(env->proxy, LK_ZKP_GET);
    locker_handle *held = lk_take(l, "broken"), *kept = lk_take(l, "kept");
    locker_error err;
    lk_proxy_await_passed(reads,
                          2); /* each watches its own node: a read that came later would find it gone */
    lk_proxy_drop_unasked(env->proxy, true);
    assert_ok(locker_break(other, "broken", NULL, NULL, &err), err);
    lk_require_lost_by(held, lk_test_now_ms() + 8000); /* a quarter is 4 s, its deadline 12 s */
    lk_require_renewal(l);
    lk_give_lost(held);
    lk_give(kept);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ releases ---- */

/* A release whose delete is lost on the way, or whose answer is, and that can't connect again for now. */
static void release_into_silence(lk_env *env, lk_unlocking *unlocking, locker_handle *held, lk_harm harm,
                                 unsigned harms)
{
    lk_proxy_harm(env->proxy, harm, LK_ZKP_DELETE, 1, 0);
    lk_proxy_refuse(env->proxy, true);
    lk_unlocking_start(unlocking, held);
    lk_proxy_await_harm(env->proxy, harms);
}

static locker_status release_ends(lk_env *env, lk_unlocking *unlocking)
{
    lk_proxy_refuse(env->proxy, false);
    return lk_unlocking_join(unlocking);
}

static void break_lock(locker *l, const char *key)
{
    locker_error err;
    assert_ok(locker_break(l, key, NULL, NULL, &err), err);
}

/* It was broken before our delete, which deleted nothing: another may have held it since. The time of that
 * one's grant, which is kept at the same place as the mark, leaves it there. */
static void a_release_that_was_broken_is_lost(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s"),
           *other = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "mark");
    lk_unlocking unlocking;
    lk_locking rival;
    lk_locking_start(&rival, other, "mark", NULL);
    lk_require_waiting(other, 1);
    release_into_silence(env, &unlocking, held, LK_PROXY_WITHHOLD, 1);
    break_lock(other, "mark");
    assert_status(LOCKER_OK, lk_locking_join(&rival), rival.err);
    lk_require_since(env->client, "/shop/mark", locker_handle_token(rival.held));
    assert_status(LOCKER_LOST, release_ends(env, &unlocking), unlocking.err);
    assert_int_equal(locker_handle_state(rival.held), LOCKER_STATE_HELD);
    lk_give(rival.held);
    locker_handle_free(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* Our delete did it, but a later lock was broken, and the mark says nothing of ours any more. */
static void a_release_before_a_break_is_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s"),
           *other = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "mark"), *rivals;
    lk_unlocking unlocking;
    release_into_silence(env, &unlocking, held, LK_PROXY_CUT, 1);
    rivals = lk_take(other, "mark");
    break_lock(other, "mark");
    assert_status(LOCKER_UNKNOWN, release_ends(env, &unlocking), unlocking.err);
    lk_give_lost(rivals);
    locker_handle_free(held);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* An earlier lock was broken: that says nothing against ours. Nor does the time of our grant, which is kept
 * at the same place. */
static void a_release_after_an_earlier_break_is_ok(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *first = lk_take(l, "mark");
    lk_locking waiter;
    lk_locking_start(&waiter, l, "mark", NULL);
    lk_zkc_require_count(env->client, "/shop/mark", 2);
    break_lock(l, "mark");
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    lk_give_lost(first);
    assert_false(lk_readable(locker_handle_fd(waiter.held), 600)); /* its time is written meanwhile */
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_DELETE, 1, 0);
    lk_give(waiter.held);
    lk_proxy_await_harm(env->proxy, 1);
    lk_close_locker(l);
}

/* Somebody keeps something of his own where the mark would be: nothing can be told. */
static void a_release_without_room_for_a_mark_is_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *held = lk_take(l, "mark");
    locker_error err;
    assert_int_equal(lk_zkc_set(env->client, "/shop/mark", "locker: mine"), LK_ZKC_OK);
    lk_proxy_harm(env->proxy, LK_PROXY_CUT, LK_ZKP_DELETE, 1, 0);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    break_lock((held = lk_take(l, "mark"), l), "mark"); /* which works nevertheless */
    lk_give_lost(held);
    lk_close_locker(l);
}

/* The key's node was deleted and made anew: a mark would be gone with it. */
static void a_release_whose_key_was_made_anew_is_unknown(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *held = lk_take(l, "anew");
    lk_unlocking unlocking;
    release_into_silence(env, &unlocking, held, LK_PROXY_CUT, 1);
    assert_int_equal(lk_zkc_delete(env->client, "/shop/anew"), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/anew", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_status(LOCKER_UNKNOWN, release_ends(env, &unlocking), unlocking.err);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* The session ends while the delete is silent, and the answer comes in another one. */
static void a_release_that_outlives_its_session(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *held = lk_take(l, "ends");
    const int64_t session = lk_session_of(env->client, "/shop/ends", 0);
    lk_unlocking unlocking;
    release_into_silence(env, &unlocking, held, LK_PROXY_WITHHOLD, 1);
    lk_zkc_end_session(env->zk, session);
    lk_zkc_require_count(env->client, "/shop/ends", 0);
    assert_status(LOCKER_UNKNOWN, release_ends(env, &unlocking), unlocking.err);
    locker_handle_free(held);
    lk_give(lk_take(l, "ends"));
    lk_close_locker(l);
}

/* Our delete did it, but by the time that this is known the lease would have ended: a release that says OK is
 * one of a lock that was held until then. */
static void a_release_whose_proof_comes_after_the_lease(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    lk_unlocking unlocking;
    locker_handle *held = NULL;
    locker_error err;
    int64_t taken;
    options.ttl_ms = 2500;
    options.no_renew = true;
    assert_ok(locker_lock(l, "ends", &options, &held, &err), err);
    taken = lk_test_now_ms();
    release_into_silence(env, &unlocking, held, LK_PROXY_CUT, 1);
    while (lk_test_now_ms() < taken + options.ttl_ms)
        usleep(20000);
    assert_status(LOCKER_UNKNOWN, release_ends(env, &unlocking), unlocking.err);
    locker_handle_free(held);
    lk_close_locker(l);
}

/* Our delete did it, but the mark can be read in another session only: that the lock ended with its own is
 * excluded no more. */
static void a_release_whose_mark_is_read_in_another_session(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_through(env, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *held = lk_take(l, "mark"), *other = lk_take(l, "other");
    const int64_t session = lk_session_of(env->client, "/shop/mark", 0);
    lk_unlocking unlocking;
    release_into_silence(env, &unlocking, held, LK_PROXY_CUT, 1);
    lk_proxy_harm(env->proxy, LK_PROXY_SWALLOW, LK_ZKP_GET, 1, 0);
    lk_proxy_refuse(env->proxy, false);
    lk_proxy_await_harm(env->proxy, 2);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_zkc_end_session(env->zk, session);
    lk_zkc_require_count(env->client, "/shop/other", 0);
    assert_status(LOCKER_UNKNOWN, release_ends(env, &unlocking), unlocking.err);
    locker_handle_free(held);
    lk_give_lost(other);
    lk_close_locker(l);
}

/* --------------------------------------------------------------- places that have gone, and have not ---- */

/* It was told that its node is gone, and then the node is there: as one on a server that differs from the
 * one that told. Nobody else would remove it while the session lasts. */
static void a_node_that_was_gone_is_there_after_all(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->zk, "/shop?ttl=40s&command_timeout=20s");
    locker_handle *held = lk_take(l, "again");
    char path[LK_ZKC_NAME_MAX];
    lk_zkc_nth(env->client, "/shop/again", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    path[strlen(path) - 10] = '\0';
    assert_int_equal(lk_zkc_create(env->client, path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL), LK_ZKC_OK);
    lk_give(lk_take(l, "again"));
    lk_zkc_require_count(env->client, "/shop/again", 0);
    lk_close_locker(l);
}

/* The same before core has withdrawn the claim: no list comes after that, so the one that shows the node has to do. */
static void a_node_that_is_there_after_all_while_it_has_a_claim(void **state)
{
    lk_env *env = *state;
    static struct slow_claim first, second; /* static: as above */
    static struct alone alone;
    char path[LK_ZKC_NAME_MAX];
    locker_error err;
    alone_begin(&alone, env);
    assert_int_equal(come(&alone, &first, "again", LK_TEST_PATIENCE_MS), LOCKER_OK);
    lk_zkc_nth(env->client, "/shop/again", 0, path);
    assert_int_equal(lk_zkc_delete(env->client, path), LK_ZKC_OK);
    lk_gate_await(&first.woken, 1, "the loss should be told");
    path[strlen(path) - 10] = '\0';
    assert_int_equal(lk_zkc_create(env->client, path, "", LK_ZKC_EPHEMERAL_SEQUENTIAL, NULL), LK_ZKC_OK);
    assert_int_equal(come(&alone, &second, "again", LK_TEST_PATIENCE_MS), LOCKER_OK);
    alone.driver->withdraw(alone.self, of(&first)); /* which ends nothing that is another's now */
    assert_int_equal(alone.driver->release(alone.self, of(&second), LOCKER_NEVER, &err), LOCKER_OK);
    lk_zkc_require_count(env->client, "/shop/again", 0);
    alone_end(&alone);
    lk_gate_destroy(&first.woken);
    lk_gate_destroy(&second.woken);
}

/* ------------------------------------------------------------------ numbers that are used up ---- */

/* A server whose key `last` has one number left that orders, and `none` and `aside` none. The former two have
 * a child that is nobody's place. */
static void use_up(lk_env *env)
{
    assert_int_equal(lk_zkc_create(env->client, "/shop", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/last", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/last/child", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/none", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/none/child", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/aside", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/aside/child", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, "/shop/aside/child"), LK_ZKC_OK);
    lk_server_kill(env->zk);
    lk_zklog_count_from(env->zk, "/shop/last", INT32_MAX - 1);
    lk_zklog_count_from(env->zk, "/shop/none", INT32_MAX);
    lk_zklog_count_from(env->zk, "/shop/aside", INT32_MAX);
    lk_test_launch(env->zk, true);
    lk_zkc_drop(env->client);
    env->client = lk_zkc_open(env->zk);
}

/* The number at the end of the nth child's name, as the server wrote it. */
static void require_number(lk_env *env, const char *parent, const char *number)
{
    char path[LK_ZKC_NAME_MAX];
    lk_zkc_nth(env->client, parent, 0, path);
    assert_string_equal(path + strlen(path) - strlen(number), number);
}

static bool has_asked_again(void *context)
{
    return lk_stats(context).attempts >= 2;
}

/* The holder has the last number; who comes then gets the one that everybody gets from then on, and waits
 * until the key's node can be made anew. */
static void wait_for_new_numbers(lk_env *env, locker *l, locker *other)
{
    locker_handle *held;
    lk_locking waiting;
    assert_int_equal(lk_zkc_delete(env->client, "/shop/last/child"), LK_ZKC_OK);
    held = lk_take(l, "last");
    require_number(env, "/shop/last", "-2147483646");
    lk_locking_start(&waiting, other, "last", NULL);
    lk_require(has_asked_again, other, "it should not wait at its place");
    lk_give(held);
    assert_status(LOCKER_OK, lk_locking_join(&waiting), waiting.err);
    require_number(env, "/shop/last", "-0000000000");
    lk_expect_busy(l, "last");
    lk_give(waiting.held);
}

/* What can't be made anew is told, and nobody gets the lock meanwhile. */
static void wait_in_vain(lk_env *env, locker *l)
{
    locker_lock_options options = lk_wait_options(1000);
    locker_handle *held = NULL;
    lk_locking waiting;
    const uint64_t before = lk_stats(l).attempts;
    locker_error err;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "none", NULL, &held, &err), err);
    assert_non_null(strstr(err.text, "used up its sequence numbers"));
    assert_status(LOCKER_TIMEOUT, locker_lock(l, "none", &options, &held, &err), err);
    assert_true(lk_stats(l).attempts > before);
    lk_locking_start(&waiting, l, "none", NULL);
    assert_int_equal(lk_zkc_delete(env->client, "/shop/none/child"), LK_ZKC_OK);
    assert_status(LOCKER_OK, lk_locking_join(&waiting), waiting.err);
    require_number(env, "/shop/none", "-0000000000");
    lk_give(waiting.held);
}

/* How many transactions the server has begun. */
static int64_t transactions(lk_env *env)
{
    lk_zkc_stat made;
    assert_int_equal(lk_zkc_create(env->client, "/probe", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_get(env->client, "/probe", NULL, 0, &made), LK_ZKC_OK);
    assert_int_equal(lk_zkc_delete(env->client, "/probe"), LK_ZKC_OK);
    return made.czxid;
}

struct attempted {
    locker *l;
    uint64_t times;
};

static bool has_attempted(void *context)
{
    const struct attempted *a = context;
    return lk_stats(a->l).attempts >= a->times;
}

/* While another has such a place, who knows of the numbers takes none: those of many would keep the key's
 * node for ever. */
static void wait_aside(lk_env *env, locker *l)
{
    enum { ATTEMPTS = 5 };
    struct attempted attempted = {l, lk_stats(l).attempts + 2};
    char place[LK_ZKC_NAME_MAX];
    lk_locking waiting;
    assert_int_equal(
        lk_zkc_create(env->client, "/shop/aside/other__lock__", "", LK_ZKC_EPHEMERAL_SEQUENTIAL, place),
        LK_ZKC_OK);
    lk_locking_start(&waiting, l, "aside", NULL);
    lk_require(has_attempted, &attempted, "it should try again");
    const int64_t before = transactions(env);
    attempted.times += ATTEMPTS;
    lk_require(has_attempted, &attempted, "it should go on trying");
    assert_true(transactions(env) - before < ATTEMPTS);
    assert_int_equal(lk_zkc_delete(env->client, place), LK_ZKC_OK);
    assert_status(LOCKER_OK, lk_locking_join(&waiting), waiting.err);
    require_number(env, "/shop/aside", "-0000000000");
    lk_give(waiting.held);
}

static void numbers_that_are_used_up(void **state)
{
    lk_env *env = *state;
    locker *l, *other;
    use_up(env);
    l = lk_open_at(env->zk, "/shop?ttl=40s&command_timeout=20s");
    other = lk_open_at(env->zk, "/shop?ttl=40s&command_timeout=20s");
    wait_for_new_numbers(env, l, other);
    wait_in_vain(env, l);
    wait_aside(env, l);
    lk_close_locker(other);
    lk_close_locker(l);
}

/* The namespace is of another user, whom everybody else may not delete in. */
static void numbers_that_another_user_has_to_make_anew(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_uri("zookeeper://me:sesame-4711@127.0.0.1:%d/shop", env->zk->port);
    locker_handle *held = NULL;
    locker_error err;
    lk_give(lk_take(l, "another"));
    lk_close_locker(l);
    assert_int_equal(lk_zkc_create(env->client, "/shop/theirs", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    assert_int_equal(lk_zkc_create(env->client, "/shop/theirs/child", "", LK_ZKC_PLAIN, NULL), LK_ZKC_OK);
    lk_server_kill(env->zk);
    lk_zklog_count_from(env->zk, "/shop/theirs", INT32_MAX);
    lk_test_launch(env->zk, true);
    lk_zkc_drop(env->client);
    env->client = lk_zkc_open(env->zk);
    l = lk_open_uri("zookeeper://them:other-0815@127.0.0.1:%d/shop?command_timeout=20s", env->zk->port);
    assert_status(LOCKER_DENIED, locker_try_lock(l, "theirs", NULL, &held, &err), err);
    assert_non_null(strstr(err.text, "/shop/theirs"));
    assert_status(LOCKER_DENIED, locker_lock(l, "theirs", NULL, &held, &err), err);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_late_create_is_looked_for),
    proxied_test(two_late_creates_are_looked_for),
    proxied_test(a_late_create_is_swept_by_a_list),
    proxied_test(a_late_create_is_looked_for_after_a_reconnection),
    proxied_test(a_late_create_of_a_waiter_that_gave_up),
    proxied_test(a_node_name_of_another_session),
    proxied_test(a_waiter_that_gave_up_while_its_node_was_found),
    proxied_test(closing_waits_for_no_doubt),
    proxied_test(a_place_that_its_list_does_not_show),
    proxied_test(two_cuts_in_a_row),
    proxied_test(a_queue_in_doubt_is_forgotten),
    proxied_test(a_predecessor_that_its_own_claim_has_not_seen),
    proxied_test(a_predecessor_that_goes_before_it_is_watched),
    proxied_test(a_heartbeat_finds_a_deleted_node),
    proxied_test(a_release_that_was_broken_is_lost),
    proxied_test(a_release_before_a_break_is_unknown),
    proxied_test(a_release_after_an_earlier_break_is_ok),
    proxied_test(a_release_without_room_for_a_mark_is_unknown),
    proxied_test(a_release_whose_key_was_made_anew_is_unknown),
    proxied_test(a_release_that_outlives_its_session),
    proxied_test(a_release_whose_proof_comes_after_the_lease),
    proxied_test(a_release_whose_mark_is_read_in_another_session),
    server_test(a_node_that_was_gone_is_there_after_all),
    proxied_test(a_node_that_is_there_after_all_while_it_has_a_claim),
    server_test(numbers_that_are_used_up),
    server_test(numbers_that_another_user_has_to_make_anew),
};

const lk_group lk_places = {"places", tests, sizeof tests / sizeof tests[0], NULL, NULL};
