/* service.c: what the mock does without a script: exclusion, order, leases, tokens, losses; and its
 * records. */
#include <stdio.h>
#include <string.h>

#include "holding.h"
#include "locking.h"
#include "mocking.h"

static locker_handle *lock(locker *l, const char *key)
{
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(l, key, NULL, &held, &err), err);
    return held;
}

static void test_two_hosts_exclude_each_other(void **state)
{
    locker_handle *held, *second;
    locker_error err;
    locker *a;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    locker *b = lk_mock_host(mock, "b");
    char owner[LOCKER_OWNER_MAX + 1];
    uint64_t token;
    (void)state;
    held = lock(a, "k");
    assert_status(LOCKER_BUSY, locker_try_lock(b, "k", NULL, &second, &err), err);
    assert_true(locker_mock_held(mock, "k", owner, &token));
    assert_string_equal(owner, "test");
    assert_int_equal(token, locker_handle_token(held));
    assert_ok(locker_unlock(held, &err), err);
    assert_ok(locker_try_lock(b, "k", NULL, &second, &err), err);
    assert_true(locker_handle_token(second) > locker_handle_token(held));
    locker_handle_free(held);
    locker_handle_free(second);
    assert_false(locker_mock_held(mock, "k", owner, &token));
    assert_string_equal(owner, "");
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_two_mocks_know_nothing_of_each_other(void **state)
{
    locker *a, *b;
    locker_mock *one = lk_mock_begin(NULL, &a), *two = lk_mock_begin(NULL, &b);
    locker_handle *held = lock(a, "k"), *other = lock(b, "k");
    (void)state;
    lk_mock_advance_by(one, 5000);
    assert_int_equal(locker_mock_now_ms(one), locker_mock_now_ms(two) + 5000);
    locker_handle_free(held);
    locker_handle_free(other);
    lk_mock_end(one, a);
    lk_mock_end(two, b);
}

/* Four hosts wait, one after the other; answers in which order they are served, as digits. */
static void serve_four(const locker_mock_options *options, char order[5])
{
    locker *hosts[4];
    lk_locking calls[4];
    locker *l;
    locker_mock *mock = lk_mock_begin(options, &l);
    locker_mock_call call;
    size_t n = 0;
    assert_int_equal(locker_mock_take(mock, "k", "stranger", 0, NULL), LOCKER_OK);
    for (size_t i = 0; i < 4; i++) {
        char name[8];

        (void)snprintf(name, sizeof name, "%zu", i);
        hosts[i] = lk_mock_host(mock, name);
        lk_locking_start(&calls[i], hosts[i], "k", NULL);
        lk_mock_await(mock, "k", i + 1);
    }
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    for (size_t waiting = 3;; waiting--) {
        lk_mock_await(mock, "k", waiting);
        lk_mock_advance_by(mock, 0);
        assert_int_equal(locker_mock_lose(mock, "k"), LOCKER_OK);
        if (waiting == 0)
            break;
    }
    for (size_t i = 0; i < 4; i++) {
        assert_int_equal(lk_locking_join(&calls[i]), LOCKER_OK);
        locker_handle_free(calls[i].held);
        assert_int_equal(locker_close(hosts[i]), LOCKER_OK);
    }
    for (size_t i = 0; locker_mock_call_at(mock, i, &call); i++)
        if (call.op == LOCKER_OP_ACQUIRE && call.status == LOCKER_OK)
            order[n++] = call.owner[0];
    order[n] = '\0';
    lk_mock_end(mock, l);
}

static void test_waiters_are_served_in_order(void **state)
{
    char order[5];
    (void)state;
    serve_four(NULL, order);
    assert_string_equal(order, "0123");
}

static void test_a_seed_gives_the_same_order_again(void **state)
{
    char first[5], again[5];
    bool different = false;
    (void)state;
    for (uint64_t seed = 1; seed <= 8; seed++) {
        const locker_mock_options options = {.size = sizeof options, .seed = seed};

        serve_four(&options, first);
        serve_four(&options, again);
        assert_string_equal(first, again);
        different = different || strcmp(first, "0123") != 0;
    }
    assert_true(different);
}

static void test_a_lease_ends_and_the_next_gets_it(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    lk_locking call;
    locker_error err;
    locker *a;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    locker *b = lk_mock_host(mock, "b");
    (void)state;
    o.ttl_ms = 3000;
    assert_ok(locker_lock(a, "k", &o, &held, &err), err);
    lk_locking_start(&call, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    locker_mock_disconnect(mock, a);
    lk_mock_advance_by(mock, 2999);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_SUSPECT);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 1);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    assert_int_equal(locker_handle_state(call.held), LOCKER_STATE_HELD);
    locker_mock_reconnect(mock, a);
    lk_give_lost(held);
    locker_handle_free(call.held);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

/* What a locker could not give back is given back when it is connected again. */
static void test_an_unlock_while_cut_off(void **state)
{
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    held = lock(l, "k");
    locker_mock_disconnect(mock, NULL);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    lk_mock_advance_by(mock, 5000);
    assert_true(locker_mock_held(mock, "k", NULL, NULL));
    locker_mock_reconnect(mock, NULL);
    assert_false(locker_mock_held(mock, "k", NULL, NULL));
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void test_open_while_all_are_cut_off(void **state)
{
    locker_error err;
    locker *a, *b = NULL;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    (void)state;
    locker_mock_disconnect(mock, NULL);
    assert_status(LOCKER_UNAVAILABLE, locker_mock_open(mock, "b", NULL, &b, &err), err);
    locker_mock_reconnect(mock, NULL);
    assert_ok(locker_mock_open(mock, "b", NULL, &b, &err), err);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_strangers(void **state)
{
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    uint64_t first, second;
    (void)state;
    assert_int_equal(locker_mock_take(mock, "k", "one", 100, &first), LOCKER_OK);
    assert_int_equal(locker_mock_take(mock, "k", "two", 0, NULL), LOCKER_BUSY);
    lk_mock_advance_by(mock, 100);
    assert_int_equal(locker_mock_take(mock, "k", "two", 0, &second), LOCKER_OK);
    assert_true(second > first);
    lk_mock_advance_by(mock, 1000000);
    assert_true(locker_mock_held(mock, "k", NULL, NULL));
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_OK);
    assert_int_equal(locker_mock_leave(mock, "k"), LOCKER_INVALID);
    assert_int_equal(locker_mock_lose(mock, "k"), LOCKER_INVALID);
    assert_int_equal(locker_mock_take(mock, "", "two", 0, NULL), LOCKER_INVALID);
    assert_int_equal(locker_mock_take(mock, "k", NULL, 0, NULL), LOCKER_INVALID);
    lk_mock_end(mock, l);
}

static void test_show_and_break(void **state)
{
    locker_info info = LOCKER_INFO_INIT;
    lk_locking call;
    locker_handle *held;
    locker_error err;
    locker *a;
    locker_mock *mock = lk_mock_begin(NULL, &a);
    locker *b = lk_mock_host(mock, "b");
    (void)state;
    held = lock(a, "k");
    lk_locking_start(&call, b, "k", NULL);
    lk_mock_await(mock, "k", 1);
    lk_mock_advance_by(mock, 4000);
    assert_ok(locker_show(b, "k", &info, &err), err);
    assert_true(info.held);
    assert_string_equal(info.owner, "test");
    assert_int_equal(info.remaining_ms, 26000);
    assert_int_equal(info.waiters, 1);
    assert_string_equal(info.queue[0].owner, "b");
    locker_info_clear(&info);
    assert_ok(locker_break(b, "k", NULL, NULL, &err), err);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    locker_handle_free(held);
    assert_status(LOCKER_INVALID, locker_break(b, "k", NULL, NULL, &err), err);
    assert_ok(locker_ping(b, NULL, &err), err);
    lk_close_locker(b);
    lk_mock_end(mock, a);
}

static void test_records(void **state)
{
    locker_mock_call call;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    int64_t began = locker_mock_now_ms(mock);
    (void)state;
    lk_mock_faults(mock, "acquire delay=70ms");
    locker_handle_free(lock(l, "k"));
    assert_int_equal(locker_mock_count(mock, LOCKER_OP_ANY, NULL), 2);
    assert_int_equal(locker_mock_count(mock, LOCKER_OP_ANY, "other"), 0);
    assert_true(locker_mock_call_at(mock, 0, &call));
    assert_int_equal(call.op, LOCKER_OP_ACQUIRE);
    assert_string_equal(call.key, "k");
    assert_string_equal(call.owner, "test");
    assert_int_equal(call.token, 1);
    assert_int_equal(call.at_ms, began);
    assert_int_equal(call.took_ms, 70);
    assert_int_equal(call.status, LOCKER_OK);
    assert_true(call.scripted);
    assert_true(locker_mock_call_at(mock, 1, &call));
    assert_int_equal(call.op, LOCKER_OP_RELEASE);
    assert_false(call.scripted);
    assert_false(locker_mock_call_at(mock, 2, &call));
    assert_string_equal(locker_mock_op_name(LOCKER_OP_WITHDRAW), "withdraw");
    assert_string_equal(locker_mock_op_name((locker_op)99), "invalid operation");
    lk_mock_end(mock, l);
}

static void test_verify_names_what_is_left(void **state)
{
    lk_locking call;
    locker_handle *held;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    char text[1000], little[12];
    (void)state;
    held = lock(l, "mine");
    lk_locking_start(&call, l, "mine", NULL);
    lk_mock_await(mock, NULL, 1);
    lk_mock_faults(mock, "acquire:x times=3 busy; renew always lost");
    assert_int_equal(locker_mock_verify(mock, text, sizeof text), 4);
    assert_string_equal(text, "'mine' is still held by 'test', since 1000000 ms, with token 1\n"
                              "a call of 'test' still waits for 'mine'\n"
                              "a fault was not used up: acquire:x times=3 busy (acted 0 times)\n"
                              "a fault was not used up: renew always lost (acted 0 times)");
    assert_int_equal(locker_mock_verify(mock, little, sizeof little), 4);
    assert_string_equal(little, "'mine' is s");
    assert_int_equal(locker_mock_verify(mock, NULL, 0), 4);
    locker_handle_free(held);
    assert_int_equal(lk_locking_join(&call), LOCKER_OK);
    locker_handle_free(call.held);
    locker_mock_forget(mock);
    lk_mock_end(mock, l);
}

static void test_bad_options(void **state)
{
    locker_mock_options o = LOCKER_MOCK_OPTIONS_INIT;
    locker_mock *mock = NULL;
    locker_error err;
    (void)state;
    assert_status(LOCKER_INVALID, locker_mock_new(NULL, NULL, &err), err);
    o.size--;
    assert_status(LOCKER_INVALID, locker_mock_new(&o, &mock, &err), err);
    o.size++;
    o.leases = (locker_mock_leases)7;
    assert_status(LOCKER_INVALID, locker_mock_new(&o, &mock, &err), err);
    o.leases = LOCKER_MOCK_LEASES_NONE;
    o.patience_ms = -1;
    assert_status(LOCKER_INVALID, locker_mock_new(&o, &mock, &err), err);
    assert_null(mock);
    locker_mock_free(NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_two_hosts_exclude_each_other),
        cmocka_unit_test(test_two_mocks_know_nothing_of_each_other),
        cmocka_unit_test(test_waiters_are_served_in_order),
        cmocka_unit_test(test_a_seed_gives_the_same_order_again),
        cmocka_unit_test(test_a_lease_ends_and_the_next_gets_it),
        cmocka_unit_test(test_an_unlock_while_cut_off),
        cmocka_unit_test(test_open_while_all_are_cut_off),
        cmocka_unit_test(test_strangers),
        cmocka_unit_test(test_show_and_break),
        cmocka_unit_test(test_records),
        cmocka_unit_test(test_verify_names_what_is_left),
        cmocka_unit_test(test_bad_options),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
