/* watches.c: what the locker watches at the server, and for how long. The server says how many watches there are. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "etcd_tests.h"

enum { TOO_LONG = 1500 }; /* of a key: nobody makes such a one, and it is not watched */

/* No connection is given up for its silence, and no lease is followed by another. */
#define PATIENT "/shop?ttl=300s&command_timeout=60s"

typedef struct {
    const lk_server *etcd;
    int count, wanted;
} watches;

static bool are_as_many(void *context)
{
    enum { SIZE = 1 << 18 };
    watches *w = context;
    char *const said = malloc(SIZE);
    assert_non_null(said);
    const char *const at = lk_server_ask(w->etcd, "/metrics", said, SIZE)
                               ? strstr(said, "\netcd_debugging_mvcc_watcher_total ")
                               : NULL;
    w->count = at != NULL ? (int)strtol(strchr(at, ' '), NULL, 10) : -1;
    free(said);
    return w->count == w->wanted;
}

static void require_watches(const lk_server *etcd, int wanted)
{
    watches w = {etcd, -1, wanted};
    if (!lk_until(are_as_many, &w, LK_TEST_PATIENCE_MS))
        test_fails("there should be %d watches, and there are %d", wanted, w.count);
}

/* Somebody is ahead, and gone before the watch on him begins. Answers the call that waits. */
static void enter_behind(lk_env *env, locker *l, const char *key, lk_locking *waiter)
{
    char queue[64];
    size_t before;
    snprintf(queue, sizeof queue, "shop/%s/", key);
    lk_give(lk_take(l, "warm"));
    lk_etcdctl_do(env->etcd, "put %ssomebody x", queue);
    before = lk_etcdctl_count(env->etcd, queue);
    lk_proxy_hold(env->proxy, false, true);
    lk_locking_start(waiter, l, key, NULL);
    lk_etcdctl_require_count(env->etcd, queue, before + 1);
    lk_proxy_hold(env->proxy, true, false);
    lk_etcdctl_do(env->etcd, "del %ssomebody", queue);
    lk_proxy_hold(env->proxy, false, false);
}

/* Who has a lock watches its own key, and none besides: who was ahead may use his once more. */
static void a_holder_watches_only_its_own_key(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, PATIENT);
    lk_locking waiter;
    const lk_passed ignored = lk_proxy_passed(env->proxy, LK_EP_IGNORE);
    enter_behind(env, l, "held", &waiter);
    locker_handle *held = lk_locking_grant(&waiter);
    lk_proxy_await_passed(ignored, 1);
    require_watches(env->etcd, 1);
    lk_give(held);
    require_watches(env->etcd, 0);
    lk_close_locker(l);
}

/* Who is ahead then has a key that is too long to be watched: it is looked at again and again, and nothing is watched. */
static void a_waiter_whose_predecessor_cannot_be_watched_polls(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, PATIENT);
    lk_locking waiter;
    lk_etcdctl_put_large(env->etcd, "shop/long/", TOO_LONG, 1);
    enter_behind(env, l, "long", &waiter);
    lk_proxy_await_passed(lk_proxy_passed(env->proxy, LK_EP_LOOK), 4);
    require_watches(env->etcd, 0);
    lk_etcdctl_do(env->etcd, "del --prefix shop/long/x");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* Who gives up watches nobody from then on, and not from when it is answered that his key is deleted. */
static void a_waiter_that_gives_up_ends_its_watch(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, PATIENT);
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking waiter;
    options.cancel = locker_cancel_new();
    lk_etcdctl_do(env->etcd, "put shop/given/somebody x");
    lk_locking_start(&waiter, l, "given", &options);
    require_watches(env->etcd, 1);
    const lk_passed ignored = lk_proxy_passed(env->proxy, LK_EP_IGNORE);
    lk_proxy_hold(env->proxy, false, true);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&waiter), waiter.err);
    lk_proxy_await_passed(ignored, 1);
    require_watches(env->etcd, 0);
    lk_proxy_hold(env->proxy, false, false);
    locker_cancel_free(options.cancel);
    lk_close_locker(l);
}

/* The stream of the watch that is kept from the server; only the proxy's thread uses it. */
static char stream[4];

static size_t keep_watch(const lk_message *request, char *out, size_t size)
{
    (void)out;
    (void)size;
    memcpy(stream, request->bytes + 5, sizeof stream);
    return 0;
}

/* Before a reply the watch is said to be there, and to tell of what comes after a revision that is far away. */
static size_t tell_of_watch(const lk_message *reply, char *out, size_t size)
{
    static const char header[] = "\0\0\1\1\4....\x88",
                      data[] = "\0\0\x0D\0\0....\0\0\0\0\x08\x0A\x04\x18\x80\x80\x40\x18\1";
    char *const begun = out, *const second = out + sizeof header - 1;
    if (size < sizeof header + sizeof data + reply->length)
        return 0;
    out = mempcpy(out, header, sizeof header - 1);
    out = mempcpy(out, data, sizeof data - 1);
    out = mempcpy(out, reply->bytes, reply->length);
    memcpy(begun + 5, stream, sizeof stream);
    memcpy(second + 5, stream, sizeof stream);
    return (size_t)(out - begun);
}

/* A look is answered from before the watch that it comes after: what was deleted between is looked for once more. */
static void a_query_that_is_older_than_its_watch(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, PATIENT);
    lk_locking waiter;
    lk_give(lk_take(l, "warm"));
    lk_etcdctl_do(env->etcd, "put shop/old/somebody x");
    const lk_passed watched = lk_proxy_passed(env->proxy, LK_EP_WATCH);
    lk_proxy_answer(env->proxy, LK_EP_WATCH, keep_watch);
    lk_locking_start(&waiter, l, "old", NULL);
    lk_proxy_await_passed(watched, 1);
    const lk_passed looked = lk_proxy_passed(env->proxy, LK_EP_LOOK);
    lk_proxy_forge(env->proxy, LK_EP_ENTER, tell_of_watch);
    lk_give(lk_take(l, "other"));     /* what comes before its answer has the waiter look */
    lk_proxy_await_passed(looked, 2); /* and again */
    lk_etcdctl_do(env->etcd, "del shop/old/somebody");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* The watch never arrives at the server, so nothing is told of the one ahead: the next renewal finds that it is gone. */
static void a_predecessor_that_goes_without_a_watch_event(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=3s");
    lk_locking waiter;
    lk_give(lk_take(l, "warm"));
    lk_etcdctl_do(env->etcd, "put shop/untold/somebody x");
    lk_proxy_answer(env->proxy, LK_EP_WATCH, keep_watch);
    lk_locking_start(&waiter, l, "untold", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/untold/", 2);
    lk_require_waiting(l, 1);
    lk_etcdctl_do(env->etcd, "del shop/untold/somebody");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* It was ahead of another waiter of its locker, and somebody else of it. */
static void a_predecessor_that_gives_up_is_replaced_by_the_one_before_it(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, PATIENT);
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    lk_locking between, waiter;
    options.cancel = locker_cancel_new();
    lk_etcdctl_do(env->etcd, "put shop/line/somebody x");
    lk_locking_start(&between, l, "line", &options);
    lk_etcdctl_require_count(env->etcd, "shop/line/", 2);
    lk_locking_start(&waiter, l, "line", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/line/", 3);
    require_watches(env->etcd, 2);
    const lk_passed watched = lk_proxy_passed(env->proxy, LK_EP_WATCH);
    locker_cancel_fire(options.cancel);
    assert_status(LOCKER_CANCELED, lk_locking_join(&between), between.err);
    lk_proxy_await_passed(watched, 1); /* of the one that is ahead now */
    assert_int_equal(lk_stats(l).acquired, 0);
    lk_etcdctl_do(env->etcd, "del shop/line/somebody");
    lk_give(lk_locking_grant(&waiter));
    locker_cancel_free(options.cancel);
    lk_close_locker(l);
}

/* Readers enter side by side. The last one that came before a writer has gone, and another one is still there. */
static void the_last_reader_leaves_others(void **state)
{
    lk_env *env = *state;
    locker *other = lk_open_at(env->etcd, PATIENT), *l = lk_open_proxied(env, PATIENT);
    locker_lock_options share = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *first, *last;
    locker_error err;
    lk_locking writer;
    share.mode = LOCKER_SHARED;
    assert_ok(locker_lock(other, "read", &share, &first, &err), err);
    assert_ok(locker_lock(l, "read", &share, &last, &err), err);
    lk_locking_start(&writer, l, "read", NULL);
    require_watches(env->etcd, 3); /* each reader's on its own key, and the writer's */
    const lk_passed watched = lk_proxy_passed(env->proxy, LK_EP_WATCH);
    lk_give(last);
    lk_proxy_await_passed(watched, 1); /* of the one that is ahead now */
    assert_int_equal(lk_stats(l).acquired, 1);
    lk_give(first);
    lk_give(lk_locking_grant(&writer));
    lk_close_locker(l);
    lk_close_locker(other);
}

/* Servers that have lost their data give revisions again, and names come again: what is known of an earlier place of that name and
 * revision says nothing about a place whose answer was lost. */
static void a_place_known_from_lost_data_proves_nothing(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_proxied(env, "/shop?ttl=60s");
    locker_lock_options brief = lk_wait_options(45);
    lk_locking given_up, waiter;
    locker_handle *const other = lk_take(l, "other"); /* so the names are those of below */
    for (int i = 0; i < 20; i++)
        lk_give(lk_take(l, "k"));
    lk_give(other);
    lk_proxy_refuse(env->proxy, true);
    lk_proxy_cut_all(env->proxy);
    lk_server_kill(env->etcd);
    lk_test_launch(env->etcd, false);
    locker *rival = lk_open_at(env->etcd, "/shop?ttl=60s");
    locker_handle *held = lk_take(rival, "k");
    lk_proxy_refuse(env->proxy, false);
    lk_give(lk_take(l, "warm"));
    const uint64_t acquired = lk_stats(l).acquired;
    lk_proxy_forge(env->proxy, LK_EP_ENTER, lk_proxy_etcd_unavailable);
    lk_locking_start(&given_up, l, "k", &brief);
    while (lk_proxy_harmed(env->proxy) == 0)
        usleep(500);
    lk_locking_start(&waiter, l, "k", NULL);
    (void)lk_locking_join(&given_up);
    lk_etcdctl_require_count(env->etcd, "shop/k/", 2);
    assert_ok(locker_ping(l, NULL, NULL), (locker_error){0});
    assert_int_equal(lk_stats(l).acquired, acquired);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(rival);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    proxied_test(a_place_known_from_lost_data_proves_nothing),
    proxied_test(the_last_reader_leaves_others),
    proxied_test(a_predecessor_that_goes_without_a_watch_event),
    proxied_test(a_predecessor_that_gives_up_is_replaced_by_the_one_before_it),
    proxied_test(a_holder_watches_only_its_own_key),
    proxied_test(a_waiter_whose_predecessor_cannot_be_watched_polls),
    proxied_test(a_waiter_that_gives_up_ends_its_watch),
    proxied_test(a_query_that_is_older_than_its_watch),
};

const lk_group lk_watches = {"watches", tests, sizeof tests / sizeof tests[0], NULL, NULL};
