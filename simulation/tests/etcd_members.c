/* etcd_members.c: what can't be compared with a real etcd step by step: three simulated members that lose their leader, or can't reach
 * each other. Each step takes no time, but ticks do. */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "simulation/etcd/serve.h"

#define MS INT64_C(1000000)

typedef struct {
    lk_simetcd *e;
    int64_t ended; /* the key that an expired lease has taken away lately */
    uint64_t random;
} world;

typedef struct {
    bool done;
    int status;
    int64_t count;
} outcome;

static uint64_t draw(void *context, uint64_t below)
{
    world *const w = context;
    w->random = w->random * UINT64_C(6364136223846793005) + 1442695040888963407;
    return (w->random >> 33) % below;
}

static void on_ended(void *context, int64_t create_revision)
{
    ((world *)context)->ended = create_revision;
}

static int begin(void **state)
{
    world *const w = calloc(1, sizeof *w);
    const lk_simetcd_setup setup = {
        .members = 3, .tick_ms = 20, .draw = draw, .on_ended = on_ended, .context = w};
    w->random = 1;
    w->e = lk_simetcd_new(&setup);
    lk_simetcd_advance(w->e, 2000 * MS);
    *state = w;
    return 0;
}

static int end(void **state)
{
    world *const w = *state;
    lk_simetcd_free(w->e);
    free(w);
    return 0;
}

static void pass(world *w, int64_t ms)
{
    lk_simetcd_advance(w->e, lk_simetcd_now(w->e) + ms * MS);
}

static int another(int member)
{
    return (member + 1) % 3;
}

static void done(void *context, const lk_simetcd_error *error, const ProtobufCMessage *message)
{
    outcome *const o = context;
    o->done = true;
    o->status = error != NULL ? error->status : 0;
    if (message != NULL && message->descriptor == &lk_etcd_pb__ranged__descriptor)
        o->count = ((const LkEtcdPb__Ranged *)(const void *)message)->count;
}

/* A message as it would come: the member frees it. */
static ProtobufCMessage *copy(lk_simetcd_kind kind, const ProtobufCMessage *message)
{
    uint8_t bytes[256];
    return lk_simetcd_unpack(kind, bytes, protobuf_c_message_pack(message, bytes));
}

static void ask(world *w, int member, lk_simetcd_kind kind, const ProtobufCMessage *message, outcome *o)
{
    *o = (outcome){.status = -1};
    (void)lk_simetcd_ask(&w->e->members[member], kind, copy(kind, message), done, o);
}

static ProtobufCBinaryData text(const char *of)
{
    return (ProtobufCBinaryData){strlen(of), (uint8_t *)(uintptr_t)of};
}

static void grant(world *w, int member, int64_t ttl, outcome *o)
{
    LkEtcdPb__LeaseGrant message = LK_ETCD_PB__LEASE_GRANT__INIT;
    message.id = 7;
    message.ttl = ttl;
    ask(w, member, LK_SIMETCD_GRANT, &message.base, o);
    pass(w, 5);
}

static void put(world *w, int member, int64_t lease, outcome *o)
{
    LkEtcdPb__Put message = LK_ETCD_PB__PUT__INIT;
    message.key = text("a");
    message.lease = lease;
    ask(w, member, LK_SIMETCD_PUT, &message.base, o);
    pass(w, 5);
}

static void range(world *w, int member, outcome *o)
{
    LkEtcdPb__Range message = LK_ETCD_PB__RANGE__INIT;
    message.key = text("a");
    ask(w, member, LK_SIMETCD_RANGE, &message.base, o);
    pass(w, 5);
}

/* ------------------------------------------------------------------ tests ---- */

static void follower_serves(void **state)
{
    world *const w = *state;
    outcome o;
    const int leader = lk_simetcd_leader(w->e);
    assert_true(leader >= 0);
    put(w, another(leader), 0, &o);
    assert_true(o.done && o.status == 0);
    range(w, leader, &o);
    assert_true(o.done && o.count == 1);
}

/* A leader without the others answers nothing that needs them, and in time says so; what it had taken is not lost to the others. */
static void cut_off_leader_answers_nothing(void **state)
{
    world *const w = *state;
    outcome write, read;
    const int leader = lk_simetcd_leader(w->e);
    for (int other = 0; other < 3; other++) {
        lk_simetcd_clog(w->e, leader, other, other != leader);
        lk_simetcd_clog(w->e, other, leader, other != leader);
    }
    put(w, leader, 0, &write);
    range(w, leader, &read);
    assert_true(!write.done && !read.done);
    pass(w, 1000);
    assert_int_not_equal(lk_simetcd_leader(w->e), leader);
    range(w, lk_simetcd_leader(w->e), &read);
    assert_true(read.done && read.count == 0);
    pass(w, 2000);
    assert_true(write.done && write.status == 14);
}

/* A new leader gives a lease all of its time again. */
static void new_leader_begins_leases_anew(void **state)
{
    world *const w = *state;
    outcome o;
    const int leader = lk_simetcd_leader(w->e);
    grant(w, leader, 2, &o);
    put(w, leader, 7, &o);
    assert_int_equal(o.status, 0);
    pass(w, 1800);
    lk_simetcd_kill(w->e, leader, true);
    pass(w, 1500);
    range(w, lk_simetcd_leader(w->e), &o);
    assert_int_equal(o.count, 1);
    pass(w, 2000);
    range(w, lk_simetcd_leader(w->e), &o);
    assert_int_equal(o.count, 0);
    assert_int_not_equal(w->ended, 0);
}

/* As 3.4.23 does (etcd#15247): a leader whose disk stood still goes by what it knew, and when the disk writes again, what it has
 * proposed meanwhile goes to the new leader, which had given the lease its time again. */
static void old_leader_revokes_through_the_new_one(void **state)
{
    world *const w = *state;
    outcome o;
    const int leader = lk_simetcd_leader(w->e);
    grant(w, leader, 2, &o);
    put(w, leader, 7, &o);
    lk_simetcd_freeze_disk(w->e, leader, true);
    put(w, leader, 7, &o); /* this is what it can't write */
    pass(
        w,
        2150); /* the old one looked 2 s after the grant, the new one waits for an election longer, and since that */
    assert_int_not_equal(lk_simetcd_leader(w->e), leader);
    range(w, lk_simetcd_leader(w->e), &o);
    assert_int_equal(o.count, 1);
    lk_simetcd_freeze_disk(w->e, leader, false);
    pass(w, 60);
    range(w, lk_simetcd_leader(w->e), &o);
    assert_int_equal(o.count, 0);
}

/* What was acknowledged is there after all have been killed, whatever was being written. */
static void restart_keeps_what_was_answered(void **state)
{
    world *const w = *state;
    outcome o;
    put(w, lk_simetcd_leader(w->e), 0, &o);
    assert_int_equal(o.status, 0);
    for (int i = 0; i < 3; i++)
        lk_simetcd_kill(w->e, i, false);
    for (int i = 0; i < 3; i++)
        lk_simetcd_start(w->e, i, true);
    pass(w, 1500);
    range(w, 0, &o);
    assert_true(o.done && o.count == 1);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_setup_teardown(follower_serves, begin, end),
        cmocka_unit_test_setup_teardown(cut_off_leader_answers_nothing, begin, end),
        cmocka_unit_test_setup_teardown(new_leader_begins_leases_anew, begin, end),
        cmocka_unit_test_setup_teardown(old_leader_revokes_through_the_new_one, begin, end),
        cmocka_unit_test_setup_teardown(restart_keeps_what_was_answered, begin, end),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
