/* driving.c: the driver's own steps, one at a time, with a client library that answers as the test tells. */
#include "connection.h"
#include "expect.h"
#include "session.h"
#include "state.h"

/* ------------------------------------------------------------------ the client library ---- */

static int library_state;

int zoo_state(zhandle_t *zh)
{
    (void)zh;
    return library_state;
}

/* The server that it was connected to isn't in the list any more: it closes its socket, and says nothing. */
int zoo_set_servers(zhandle_t *zh, const char *hosts)
{
    (void)zh;
    (void)hosts;
    library_state = ZOO_NOTCONNECTED_STATE;
    return ZOK;
}

/* ------------------------------------------------------------------ core ---- */

static void attend(const locker_services *svc)
{
    (void)svc;
}

static void log_nothing(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    (void)svc, (void)level, (void)format;
}

static bool want_no_log(const locker_services *svc, locker_log_level level)
{
    (void)svc;
    (void)level;
    return false;
}

static const locker_services services = {.attend = attend, .log_wanted = want_no_log, .log = log_nothing};

/* ------------------------------------------------------------------ the owner ---- */

static void went_down(lk_zk *z)
{
    (void)z;
}

static const lk_zk_owner owner = {.on_down = went_down};

/* ------------------------------------------------------------------ tests ---- */

/* The socket is the library's no longer, and its number may be that of the next one. */
LK_UNCHECKED static void servers_that_have_moved(void **state)
{
    lk_zk_net net = {.owner = &owner,
                     .svc = &services,
                     .clock = locker_system_clock(),
                     .up = true,
                     .fd = 1000,
                     .armed_fd = -1,
                     .corked_fd = -1,
                     .keeper_at = LOCKER_NEVER};
    (void)state;
    net.zh = (zhandle_t *)&net;
    library_state = ZOO_CONNECTED_STATE;
    lk_zk_servers_set_locked(&net, "127.0.0.1:2");
    assert_false(net.up);
    assert_int_equal(net.fd, -1);
}

/* While the caller sleeps, another thread is refused by the last server, and then connects to the next. */
static void refuse_and_connect(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    lk_zk_net *net = context;
    lk_zk_call *call = LK_CONTAINER(lk_list_first(&net->calls), lk_zk_call, link);
    (void)cond;
    (void)mutex;
    (void)until;
    call->deserted = call->done = true;
    net->up = true;
}

static int64_t no_time(void *context)
{
    (void)context;
    return 0;
}

LK_UNCHECKED static void a_connection_after_the_last_refusal(void **state)
{
    static lk_zk_net net;
    static lk_zk_call call = {.prompt = true};
    const locker_clock clock = {.now = no_time, .wait = refuse_and_connect, .context = &net};
    (void)state;
    net = (lk_zk_net){.clock = &clock, .reading = true, .fd = 1000, .corked_fd = -1};
    lk_list_init(&net.calls);
    lk_list_append(&net.calls, &call.link);
    assert_int_equal(lk_zk_await_up_locked(&net, &call, LOCKER_NEVER), LK_ZK_DONE);
}

/* One of two is listed twice: each of the three attempts fits into the time to connect. */
LK_UNCHECKED static void one_that_is_listed_twice_has_no_more_time(void **state)
{
    char addresses[] = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:1";
    const lk_zk_net net = {
        .addresses = addresses, .set = {.connect_timeout_ns = 6 * LK_S}, .timeout_ns = 80 * LK_S};
    (void)state;
    assert_int_equal(lk_zk_patience_locked(&net, 0), 2 * LK_S);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_that_have_moved),
        cmocka_unit_test(a_connection_after_the_last_refusal),
        cmocka_unit_test(one_that_is_listed_twice_has_no_more_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
