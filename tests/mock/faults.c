/* faults.c: each fault on each operation, the text of scripts, and what is said of wrong ones. */
#include <string.h>

#include "holding.h"
#include "locking.h"
#include "mocking.h"

static locker_handle *lock(locker *l)
{
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    return held;
}

static void test_acquire_answers(void **state)
{
    static const locker_status answers[] = {LOCKER_UNAVAILABLE, LOCKER_DENIED,      LOCKER_INVALID,
                                            LOCKER_CONFIG,      LOCKER_UNSUPPORTED, LOCKER_PROTOCOL,
                                            LOCKER_NOMEM,       LOCKER_BUSY};
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (size_t i = 0; i < sizeof answers / sizeof *answers; i++) {
        const locker_fault fault = {.op = LOCKER_OP_ACQUIRE, .key = "k", .status = answers[i]};

        assert_ok(locker_mock_on(mock, &fault, &err), err);
        assert_status(answers[i], locker_try_lock(l, "k", NULL, &held, &err), err);
    }
    assert_ok(locker_try_lock(l, "k", NULL, &held, &err), err);
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void test_acquire_without_an_answer(void **state)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    o.wait_ms = 300;
    lk_mock_faults(mock, "acquire lose-reply; acquire lose-request; acquire timeout; acquire delay=1h");
    for (int i = 0; i < 4; i++) { /* each leaves nothing behind */
        assert_status(LOCKER_TIMEOUT, locker_lock(l, "k", &o, &held, &err), err);
        assert_false(locker_mock_held(mock, "k", NULL, NULL));
    }
    assert_int_equal(locker_mock_now_ms(mock), 1001200);
    lk_mock_end(mock, l);
}

static void test_a_granted_lock_is_taken_away(void **state)
{
    locker_handle *held, *renewed;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    lk_mock_faults(mock, "acquire lose-lock");
    held = lock(l);
    assert_false(locker_mock_held(mock, "k", NULL, NULL));
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    lk_mock_faults(mock, "renew lose-lock");
    renewed = lock(l);
    lk_mock_advance_by(mock, 10000);
    assert_int_equal(locker_handle_state(renewed), LOCKER_STATE_HELD);
    lk_mock_advance_by(mock, 10000); /* the next renewal says so */
    assert_int_equal(locker_handle_state(renewed), LOCKER_STATE_LOST);
    locker_handle_free(held);
    locker_handle_free(renewed);
    lk_mock_end(mock, l);
}

static void test_release_answers(void **state)
{
    static const struct {
        const char *fault;
        locker_status answer;
        int64_t takes_ms;
        bool held_after;
    } cases[] = {{"release lost", LOCKER_LOST, 0, false},
                 {"release unknown", LOCKER_UNKNOWN, 0, true},
                 {"release lose-request", LOCKER_UNKNOWN, 5000, false}, /* repeated meanwhile */
                 {"release lose-reply", LOCKER_UNKNOWN, 5000, false},
                 {"release delay=300ms", LOCKER_OK, 300, false},
                 {"release delay=1h", LOCKER_UNKNOWN, 5000, false},
                 {"any:k unavailable", LOCKER_UNKNOWN, 0, true}};
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        locker_handle *held = lock(l);
        int64_t began = locker_mock_now_ms(mock);

        lk_mock_faults(mock, cases[i].fault);
        assert_status(cases[i].answer, locker_unlock(held, &err), err);
        assert_int_equal(locker_mock_now_ms(mock) - began, cases[i].takes_ms);
        assert_int_equal(locker_mock_held(mock, "k", NULL, NULL), cases[i].held_after);
        lk_mock_advance_by(mock, 1000);
        assert_false(locker_mock_held(mock, "k", NULL, NULL)); /* the release was repeated */
        locker_handle_free(held);
    }
    lk_mock_end(mock, l);
}

static void test_faults_of_show_break_and_ping(void **state)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    held = lock(l);
    lk_mock_faults(mock,
                   "show denied; break lose-reply; ping unavailable; show lose-request; ping delay=20ms");
    assert_status(LOCKER_DENIED, locker_show(l, "k", &info, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_break(l, "k", NULL, NULL, &err), err);
    assert_false(locker_mock_held(mock, "k", NULL, NULL)); /* it was broken all the same */
    assert_status(LOCKER_UNAVAILABLE, locker_ping(l, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_show(l, "k", &info, &err), err);
    {
        int64_t us;

        assert_ok(locker_ping(l, &us, &err), err);
        assert_int_equal(us, 20000);
    }
    locker_handle_free(held);
    lk_mock_end(mock, l);
}

static void test_the_connection_breaks(void **state)
{
    locker_handle *held, *other;
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    held = lock(l);
    lk_mock_faults(mock, "renew disconnect");
    lk_mock_advance_by(mock, 10000);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_SUSPECT);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(l, "other", NULL, &other, &err), err);
    locker_mock_reconnect(mock, l);
    lk_mock_advance_by(mock, 0);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_mock_end(mock, l);
}

/* Faults are worked off in their order; each counts what it was shown. */
static void test_order_and_counting(void **state)
{
    locker_handle *held;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    char got[9] = "";
    (void)state;
    lk_mock_faults(mock, "acquire denied; acquire,times=2,skip=1,busy;acquire:k times=1 unavailable;"
                         "acquire:other always protocol; acquire skip=0 unavailable; acquire skip=2 denied;"
                         "acquire denied");
    for (size_t i = 0; i < 8; i++) {
        locker_status status = locker_try_lock(l, "k", NULL, &held, NULL);

        got[i] = locker_status_name(status)[0];
        locker_handle_free(held);
    }
    assert_string_equal(got, "dubbudod");
    locker_mock_forget(mock);
    lk_mock_end(mock, l);
}

static void test_wrong_texts(void **state)
{
    static const char *const wrong[][2] = {
        {"acquir busy", "'acquir'"},
        {"acquire", "does nothing"},
        {"acquire:", "'acquire:'"},
        {"acquire buzy", "'buzy'"},
        {"acquire busy denied", "'denied'"},
        {"acquire skip=x busy", "'skip=x'"},
        {"acquire skip=-1 busy", "'skip=-1'"},
        {"acquire times=0 busy", "'times=0'"},
        {"acquire times=2 always busy", "'always'"},
        {"acquire delay=soon busy", "'delay=soon'"},
        {"acquire delay=1s delay=2s", "'delay=2s'"},
        {"acquire lost", "acquire can't answer 'lost'"},
        {"release busy", "release can't answer 'busy'"},
        {"renew denied", "renew can't answer 'denied'"},
        {"ping lost", "ping can't answer 'lost'"},
        {"pass lost", "pass can't answer 'lost'"},
        {"any busy", "any can't answer 'busy'"},
        {"release lose-lock", "release can't lose a lock"},
        {"release retry=1s unknown", "retry"},
        {"withdraw unavailable", "'withdraw'"},
        {"acquire busy; ; renew", "renew"},
    };
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++) {
        assert_status(LOCKER_INVALID, locker_mock_script(mock, wrong[i][0], &err), err);
        if (strstr(err.text, wrong[i][1]) == NULL)
            test_fails("the error for \"%s\" should name \"%s\": %s", wrong[i][0], wrong[i][1], err.text);
    }
    assert_ok(locker_mock_script(mock, " ;\n, ", &err), err);
    assert_status(LOCKER_INVALID, locker_mock_script(mock, NULL, &err), err);
    lk_mock_end(mock, l); /* no half of a wrong script was added */
}

static void test_wrong_faults(void **state)
{
    static const locker_fault wrong[] = {
        {.op = (locker_op)20, .status = LOCKER_BUSY},
        {.op = LOCKER_OP_WITHDRAW, .status = LOCKER_UNAVAILABLE},
        {.op = LOCKER_OP_ACQUIRE, .key = "", .status = LOCKER_BUSY},
        {.op = LOCKER_OP_ACQUIRE, .skip = -1, .status = LOCKER_BUSY},
        {.op = LOCKER_OP_ACQUIRE, .times = -2, .status = LOCKER_BUSY},
        {.op = LOCKER_OP_ACQUIRE, .delay_ms = -1, .status = LOCKER_BUSY},
        {.op = LOCKER_OP_ACQUIRE, .status = (locker_status)40},
        {.op = LOCKER_OP_ACQUIRE, .what = LOCKER_FAULT_LOSE_REPLY, .status = LOCKER_BUSY},
        {.op = LOCKER_OP_ACQUIRE, .what = (locker_fault_kind)9},
        {.op = LOCKER_OP_ACQUIRE},
    };
    locker_error err;
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    (void)state;
    for (size_t i = 0; i < sizeof wrong / sizeof *wrong; i++)
        assert_status(LOCKER_INVALID, locker_mock_on(mock, &wrong[i], &err), err);
    assert_status(LOCKER_INVALID, locker_mock_on(mock, NULL, &err), err);
    lk_mock_end(mock, l);
}

/* What verify prints of a fault can be read again. */
static void test_text_is_written_as_it_is_read(void **state)
{
    static const char *const faults[] = {"acquire:k skip=2 times=3 delay=5ms retry=7ms busy",
                                         "any always unavailable", "renew lose-reply", "ping delay=1500ms",
                                         "release:a/b disconnect"};
    locker *l;
    locker_mock *mock = lk_mock_begin(NULL, &l);
    char text[300];
    (void)state;
    for (size_t i = 0; i < sizeof faults / sizeof *faults; i++) {
        lk_mock_faults(mock, faults[i]);
        assert_int_equal(locker_mock_verify(mock, text, sizeof text), 1);
        if (strstr(text, faults[i]) == NULL)
            test_fails("'%s' was written as '%s'", faults[i], text);
        locker_mock_forget(mock);
    }
    lk_mock_end(mock, l);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_acquire_answers),
        cmocka_unit_test(test_acquire_without_an_answer),
        cmocka_unit_test(test_a_granted_lock_is_taken_away),
        cmocka_unit_test(test_release_answers),
        cmocka_unit_test(test_faults_of_show_break_and_ping),
        cmocka_unit_test(test_the_connection_breaks),
        cmocka_unit_test(test_order_and_counting),
        cmocka_unit_test(test_wrong_texts),
        cmocka_unit_test(test_wrong_faults),
        cmocka_unit_test(test_text_is_written_as_it_is_read),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
