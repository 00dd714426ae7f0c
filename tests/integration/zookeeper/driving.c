/* driving.c: the driver's own steps, one at a time, with a client library that answers as the test tells. */
#include <poll.h>
#include <string.h>
#include <sys/epoll.h>
#include <unistd.h>

#include "expect.h"
#include "gate.h"
#include "instance.h"
#include "lk_wakeup.h"
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

int is_unrecoverable(zhandle_t *zh)
{
    (void)zh;
    return ZOK;
}

/* A socket on which there is always something. */
static int library_socket;

int zookeeper_interest(zhandle_t *zh, int *fd, int *interest, struct timeval *tv)
{
    (void)zh;
    (void)tv;
    *fd = library_socket;
    *interest = ZOOKEEPER_READ;
    return ZOK;
}

/* A list under way. */
static strings_completion_t listed;
static const void *list_data;
static bool sending_fails;

int zoo_aget_children(zhandle_t *zh, const char *path, int watch, strings_completion_t completion,
                      const void *data)
{
    (void)zh, (void)path, (void)watch;
    listed = completion;
    list_data = data;
    if (sending_fails) /* it closes its socket, and says nothing */
        library_state = ZOO_NOTCONNECTED_STATE;
    return ZOK;
}

/* Its answer: somebody's place. */
int zookeeper_process(zhandle_t *zh, int events)
{
    char name[] = "_c_0123-lock-0000000001", *names[] = {name};
    const struct String_vector queue = {.count = 1, .data = names};
    (void)zh, (void)events;
    if (library_state == ZOO_NOTCONNECTED_STATE) /* it has no socket to read from */
        return ZINVALIDSTATE;
    listed(ZOK, &queue, list_data);
    return ZOK;
}

int zookeeper_close(zhandle_t *zh)
{
    (void)zh;
    return ZOK;
}

static int64_t now_ns;

/* It finds its connection broken, when all the time has passed. */
int zoo_amulti(zhandle_t *zh, int count, const zoo_op_t *ops, zoo_op_result_t *results,
               void_completion_t completion, const void *data)
{
    (void)zh, (void)count, (void)ops, (void)results, (void)completion, (void)data;
    library_state = ZOO_NOTCONNECTED_STATE;
    now_ns = LK_S;
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

static bool session_ended;

static void ended(lk_zk *z)
{
    (void)z;
    session_ended = true;
}

static const lk_zk_owner owner = {.on_down = went_down, .on_ended = ended};

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
    lk_list_init(&net.line);
    library_state = ZOO_CONNECTED_STATE;
    lk_zk_servers_set_locked(&net, "127.0.0.1:2");
    assert_false(net.up);
    assert_int_equal(net.fd, -1);
}

/* While the caller sleeps, another thread is refused by the last server, and then connects to the next. The
 * mutex is held. */
LK_UNCHECKED static void refuse_and_connect(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex,
                                            int64_t until)
{
    lk_zk_net *net = context;
    lk_zk_call *call = LK_CONTAINER(lk_list_first(&net->calls), lk_zk_call, link);
    (void)cond;
    (void)mutex;
    (void)until;
    call->deserted = call->done = true;
    net->up = true;
}

static int64_t read_time(void *context)
{
    (void)context;
    return now_ns;
}

LK_UNCHECKED static void a_connection_after_the_last_refusal(void **state)
{
    static lk_zk_net net;
    static lk_zk_call call = {.prompt = true};
    const locker_clock clock = {.now = read_time, .wait = refuse_and_connect, .context = &net};
    (void)state;
    net = (lk_zk_net){.clock = &clock, .reading = true, .fd = 1000, .corked_fd = -1};
    lk_list_init(&net.calls);
    lk_list_append(&net.calls, &call.link);
    assert_int_equal(lk_zk_await_up_unlocking(&net, &call, LOCKER_NEVER), LK_ZK_DONE);
}

/* One of two is listed twice: each of the three attempts fits into the time to connect. */
LK_UNCHECKED static void a_call_listed_twice_has_no_more_time(void **state)
{
    char addresses[] = "127.0.0.1:1,127.0.0.1:2,127.0.0.1:1";
    const lk_zk_net net = {
        .addresses = addresses, .set = {.connect_timeout_ns = 6 * LK_S}, .timeout_ns = 80 * LK_S};
    (void)state;
    assert_int_equal(lk_zk_patience_locked(&net, 0), 2 * LK_S);
}

/* A connection on which there is something to read. */
static char one_address[] = "127.0.0.1:1";
static const locker_clock timed_clock = {.now = read_time};
static const locker_services timed = {
    .clock = &timed_clock, .attend = attend, .log_wanted = want_no_log, .log = log_nothing};

LK_UNCHECKED static void connect_to_library(lk_zk_net *net)
{
    *net = (lk_zk_net){.owner = &owner,
                       .svc = &timed,
                       .clock = &timed_clock,
                       .addresses = one_address,
                       .literal = true,
                       .up = true,
                       .epoll_fd = -1,
                       .kick_fd = -1,
                       .armed_fd = -1,
                       .corked_fd = -1,
                       .keeper_at = LOCKER_NEVER};
    lk_mutex_init(&net->mutex);
    lk_list_init(&net->calls);
    lk_list_init(&net->requests);
    lk_list_init(&net->line);
    lk_list_init(&net->spare);
    net->zh = (zhandle_t *)net;
    net->fd = library_socket = lk_wakeup_new();
    lk_wakeup_ring(library_socket);
    library_state = ZOO_CONNECTED_STATE;
    now_ns = 0;
    sending_fails = session_ended = false;
}

LK_UNCHECKED static void disconnect_from_library(lk_zk_net *net)
{
    lk_zk_requests_fail_locked(net);
    lk_zk_requests_free(net);
    lk_mutex_destroy(&net->mutex);
    close(library_socket);
}

/* The connection breaks between a try's first list, which shows somebody, and the one behind a check, without
 * which there is no BUSY. */
LK_UNCHECKED static void a_try_whose_second_list_is_not_sent(void **state)
{
    lk_zk_net net;
    lk_zk z = {.svc = &timed, .net = &net};
    lk_zk_claim bytes = {.node = NULL};
    locker_claim claim = {.key = "k", .key_len = 1, .owner = "me", .data = &bytes, .attempt_until = LK_S};
    locker_error err;
    (void)state;
    connect_to_library(&net);
    net.z = &z;
    assert_int_equal(lk_zk_acquire(&z, &claim, &err), LOCKER_UNAVAILABLE);
    disconnect_from_library(&net);
}

/* The library closes its socket by itself, and opens the next, which gets the same number: the keeper hears of that one. */
LK_UNCHECKED static void a_socket_with_the_number_of_the_last(void **state)
{
    lk_zk_net net;
    (void)state;
    connect_to_library(&net);
    net.epoll_fd = epoll_create1(EPOLL_CLOEXEC);
    net.kick_fd = lk_wakeup_new();
    lk_wakeup_clear(library_socket);
    const int number = library_socket;
    now_ns = LK_S;
    (void)lk_zk_drive_locked(&net);
    assert_int_equal(net.armed_fd, number);
    close(number);
    library_socket = -1;
    now_ns = 2 * LK_S;
    (void)lk_zk_drive_locked(&net);
    library_socket = lk_wakeup_new();
    assert_int_equal(library_socket, number);
    now_ns = 3 * LK_S;
    (void)lk_zk_drive_locked(&net);
    lk_wakeup_ring(library_socket);
    struct pollfd told = {.fd = net.epoll_fd, .events = POLLIN};
    assert_int_equal(poll(&told, 1, 0), 1);
    close(net.kick_fd);
    close(net.epoll_fd);
    disconnect_from_library(&net);
}

static void take_list(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    (void)z, (void)context, (void)reply;
}

LK_UNCHECKED static void list_again(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    (void)z, (void)reply;
    sending_fails = true;
    now_ns = LK_S;
    assert_non_null(lk_zk_list_locked(context, "/k", take_list, NULL));
}

/* An answer has another request sent, and by that the connection is found broken. The session is not. */
LK_UNCHECKED static void a_connection_that_breaks_while_it_is_read(void **state)
{
    lk_zk_net net;
    lk_zk_call call;
    (void)state;
    connect_to_library(&net);
    lk_mutex_lock(&net.mutex);
    lk_zk_call_begin_locked(&net, &call);
    assert_non_null(lk_zk_list_locked(&net, "/k", list_again, &net));
    assert_int_equal(lk_zk_await_unlocking(&net, &call, LK_S), LK_ZK_LATE);
    lk_mutex_unlock(&net.mutex);
    assert_false(session_ended);
    assert_false(net.up);
    assert_int_equal(net.fd, -1);
    lk_list_remove(&call.link);
    disconnect_from_library(&net);
}

static void answer(const void *request)
{
    const struct String_vector nobody = {.count = 0};
    listed(ZOK, &nobody, request);
}

/* As much is in flight as may be. An answer lets in the calls that have time enough for one like it. */
LK_UNCHECKED static void room_for_a_call_that_has_time(void **state)
{
    enum { IN_FLIGHT = 64 };
    const void *sent[IN_FLIGHT];
    lk_zk_net net;
    lk_zk_call calls[] = {{.until = 110 * LK_MS}, {.until = 260 * LK_MS}, {.until = LK_S}};
    (void)state;
    connect_to_library(&net);
    net.timeout_ns = 32 * LK_S;
    for (int i = 0; i < IN_FLIGHT; i++) {
        assert_true(lk_zk_has_room_locked(&net, 0));
        assert_non_null(lk_zk_list_locked(&net, "/k", take_list, NULL));
        sent[i] = list_data;
    }
    assert_true(lk_zk_has_room_locked(&net, calls[0].until)); /* the oldest is not late yet */
    now_ns = 60 * LK_MS;
    assert_false(lk_zk_has_room_locked(&net, 0));
    assert_false(lk_zk_has_room_locked(&net, calls[1].until));
    assert_true(lk_zk_has_room_locked(&net, calls[2].until)); /* it can wait for all that is in flight */
    for (int i = 0; i < 3; i++)
        lk_list_append(&net.line, &calls[i].line);
    answer(sent[0]);
    assert_false(calls[0].let_in);
    assert_true(calls[1].let_in && calls[1].done);
    assert_true(calls[2].let_in);
    for (int i = 1; i < IN_FLIGHT; i++)
        answer(sent[i]);
    assert_false(calls[0].let_in); /* an answer takes longer than it has */
    net.let_in = 0;                /* the others are gone: nothing could be delayed */
    lk_zk_let_in_locked(&net);
    assert_true(calls[0].let_in);
    now_ns = LK_S;
    assert_non_null(lk_zk_list_locked(&net, "/k", take_list, NULL));
    net.in_flight += IN_FLIGHT;
    now_ns = 3 * LK_S; /* a heartbeat would wait for too long */
    assert_false(lk_zk_has_room_locked(&net, LOCKER_NEVER));
    net.in_flight -= IN_FLIGHT;
    disconnect_from_library(&net);
}

static lk_gate resolved;

static void open_gate(const locker_services *svc)
{
    (void)svc;
    lk_gate_open(&resolved, 1);
}

/* When the library closes its socket because the servers have moved, it fails nothing that awaits an answer,
 * but keeps it for the next connection: so what is under way is answered first. */
LK_UNCHECKED static void servers_that_have_moved_before_an_answer(void **state)
{
    static const locker_services attended = {.attend = open_gate};
    static const locker_host host = {.name = "127.0.0.1", .port = 2};
    const locker_driver_config config = {.hosts = &host, .host_count = 1};
    const struct String_vector nobody = {.count = 0};
    lk_zk_net net;
    (void)state;
    connect_to_library(&net);
    lk_gate_init(&resolved);
    net.addresses = strdup(one_address);
    net.set.hosts = lk_hosts_new(&config, 2181);
    net.looking_up = lk_hosts_lookup_start(net.set.hosts, &attended);
    lk_gate_await(&resolved, 1, "the addresses should be there");
    assert_non_null(lk_zk_list_locked(&net, "/k", take_list, NULL));
    lk_zk_session_begin_locked(&net);
    assert_true(net.up);
    listed(ZOK, &nobody, list_data);
    lk_zk_session_begin_locked(&net);
    assert_false(net.up);
    assert_string_equal(net.addresses, "127.0.0.1:2");
    lk_hosts_drop(net.set.hosts);
    free(net.addresses);
    lk_gate_destroy(&resolved);
    disconnect_from_library(&net);
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(servers_that_have_moved),
        cmocka_unit_test(servers_that_have_moved_before_an_answer),
        cmocka_unit_test(a_connection_after_the_last_refusal),
        cmocka_unit_test(a_call_listed_twice_has_no_more_time),
        cmocka_unit_test(a_try_whose_second_list_is_not_sent),
        cmocka_unit_test(a_socket_with_the_number_of_the_last),
        cmocka_unit_test(a_connection_that_breaks_while_it_is_read),
        cmocka_unit_test(room_for_a_call_that_has_time),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
