/* bystander.c: the bystander of the tests of scale; see bystander.h. */
#include "bystander.h"

#include <inttypes.h>
#include <poll.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "servers/lateness.h"

enum { LEASE_MS = 3000, CALL_MS = 50, EVERY_MS = 5 };

/* What a bystander saw; its thread's until that has ended. */
typedef struct {
    uint64_t calls, failed;
    int64_t longest_ms;
    int64_t missed_ms; /* how much too long the longest call was that no lateness explains; 0: none was */
    int lost;          /* 1: the lease of its lock was lost */
} seen;

/* The calls of a bystander, on a thread of their own. */
typedef struct {
    locker *l;
    locker_handle *held;
    seen seen;
    bool is_apart; /* in a process of its own, so the machine's lateness can be measured call by call */
    atomic_bool rests, is_resting, ends;
    pthread_t thread;
} beats;

struct lk_bystander {
    lk_child *child; /* NULL: the calls are made in this process */
    beats beats;
};

/* ------------------------------------------------------------------ its calls ---- */

static void note_call(beats *b, int64_t began, bool is_ok)
{
    const int64_t took_ms = lk_test_now_ms() - began, missed_ms = took_ms - CALL_MS + 1;
    b->seen.calls++;
    b->seen.failed += !is_ok;
    if (took_ms > b->seen.longest_ms)
        b->seen.longest_ms = took_ms;
    const bool is_explained = b->is_apart && lk_lateness_is_busy() && lk_lateness_ms() >= missed_ms;
    if (missed_ms > b->seen.missed_ms && !is_explained)
        b->seen.missed_ms = missed_ms;
}

static void make_calls(beats *b)
{
    locker_handle *held = NULL;
    if (b->is_apart)
        lk_lateness_mark();
    int64_t began = lk_test_now_ms();
    note_call(b, began, locker_lock(b->l, "bystander/used", NULL, &held, NULL) == LOCKER_OK);
    if (b->is_apart)
        lk_lateness_mark();
    began = lk_test_now_ms();
    note_call(b, began, locker_unlock(held, NULL) == LOCKER_OK);
    locker_handle_free(held);
    b->seen.lost |= locker_handle_state(b->held) == LOCKER_STATE_LOST;
}

static void *beat(void *argument)
{
    beats *const b = argument;
    while (!atomic_load(&b->ends)) {
        const bool rests = atomic_load(&b->rests);
        if (!rests)
            make_calls(b);
        atomic_store(&b->is_resting, rests);
        poll(NULL, 0, EVERY_MS);
    }
    return NULL;
}

static bool is_resting(void *argument)
{
    return atomic_load(&((beats *)argument)->is_resting);
}

static bool begin(beats *b, locker *l)
{
    b->l = l;
    return locker_lock(l, "bystander/held", NULL, &b->held, NULL) == LOCKER_OK &&
           pthread_create(&b->thread, NULL, beat, b) == 0;
}

static void finish(beats *b)
{
    atomic_store(&b->ends, true);
    (void)pthread_join(b->thread, NULL);
    b->seen.lost |= locker_unlock(b->held, NULL) == LOCKER_LOST;
    locker_handle_free(b->held);
}

/* ------------------------------------------------------------------ its process ---- */

int lk_bystander_serve(locker *l)
{
    beats b = {.is_apart = true};
    char line[LK_LINE_MAX];
    lk_lateness_of_siblings(); /* the service, if this machine runs it */
    lk_side_say(begin(&b, l) ? "holds" : "can't begin");
    while (lk_side_hear(line) && strcmp(line, "end") != 0) {
        atomic_store(&b.rests, strcmp(line, "rest") == 0);
        while (atomic_load(&b.rests) && !atomic_load(&b.is_resting))
            poll(NULL, 0, 1);
        lk_side_say("done");
    }
    finish(&b);
    lk_side_say("%" PRIu64 " %" PRIu64 " %" PRId64 " %" PRId64 " %d", b.seen.calls, b.seen.failed,
                b.seen.longest_ms, b.seen.missed_ms, b.seen.lost);
    return locker_close(l) == LOCKER_OK ? EXIT_SUCCESS : EXIT_FAILURE;
}

static lk_child *start_process(const lk_fixture *fixture)
{
    char uri[512];
    const char *const arguments[] = {uri, NULL};
    snprintf(uri, sizeof uri, "%s", fixture->uri);
    if (fixture->promises.leases)
        snprintf(uri, sizeof uri, "%s%cttl=%dms", fixture->uri, strchr(fixture->uri, '?') != NULL ? '&' : '?',
                 LEASE_MS);
    lk_child *const child = lk_child_start("bystander", arguments);
    lk_child_expect(child, "holds");
    return child;
}

static void say_and_await(lk_bystander *bystander, const char *line)
{
    lk_child_say(bystander->child, "%s", line);
    lk_child_expect(bystander->child, "done");
}

static seen hear_seen(lk_child *child)
{
    char line[LK_LINE_MAX], *at = line;
    lk_child_say(child, "end");
    (void)lk_child_hear(child, line);
    seen heard = {0};
    heard.calls = strtoull(at, &at, 10);
    heard.failed = strtoull(at, &at, 10);
    heard.longest_ms = strtoll(at, &at, 10);
    heard.missed_ms = strtoll(at, &at, 10);
    heard.lost = (int)strtol(at, &at, 10);
    assert_int_equal(lk_child_end(child), EXIT_SUCCESS);
    return heard;
}

/* ------------------------------------------------------------------ the test's side ---- */

/* Without the checker, on whose mutex all calls of the test's own lockers meet. */
static locker *open_beside(const lk_fixture *fixture)
{
    locker *l = NULL;
    locker_error err;
    assert_ok(lk_open_uri(fixture->subject->driver, fixture->uri, fixture->promises.leases ? "ttl=3s" : "",
                          NULL, &l, &err),
              err);
    return l;
}

lk_bystander *lk_bystander_start(lk_fixture *fixture)
{
    lk_bystander *const bystander = calloc(1, sizeof *bystander);
    assert_non_null(bystander);
    if (fixture->promises.scope >= LOCKER_SCOPE_HOST)
        bystander->child = start_process(fixture);
    else
        assert_true(begin(&bystander->beats, open_beside(fixture)));
    return bystander;
}

void lk_bystander_rest(lk_bystander *bystander)
{
    if (bystander->child != NULL) {
        say_and_await(bystander, "rest");
        return;
    }
    atomic_store(&bystander->beats.rests, true);
    lk_require(is_resting, &bystander->beats, "the bystander should rest");
}

void lk_bystander_go_on(lk_bystander *bystander)
{
    if (bystander->child != NULL)
        say_and_await(bystander, "go on");
    atomic_store(&bystander->beats.rests, false);
}

void lk_bystander_end(lk_bystander *bystander, const char *test)
{
    const bool is_apart = bystander->child != NULL;
    if (!is_apart) {
        finish(&bystander->beats);
        lk_close_locker(bystander->beats.l);
    }
    const seen all = is_apart ? hear_seen(bystander->child) : bystander->beats.seen;
    free(bystander);
    print_message("scale: %s: the longest of the bystander's %" PRIu64 " calls took %" PRId64 " ms\n", test,
                  all.calls, all.longest_ms);
    assert_int_equal(all.failed, 0);
    assert_unless_late(!all.lost);
    if (is_apart && all.missed_ms > 0)
        test_fails("a call of the bystander took %" PRId64
                   " ms longer than %d ms, but the machine was not late",
                   all.missed_ms, CALL_MS);
    if (!is_apart)
        assert_timely(all.longest_ms, CALL_MS);
}
