/* strangers.c: what etcd's servers seldom say, or what is before them, said by a server of the test's own, which knows just enough of
 * HTTP/2: it answers each request with the same header, and perhaps the same message. */
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_tests.h"
#include "http2.h"

enum { PREFACE = 24 };

typedef struct {
    const char *header;  /* lines of "name: value" */
    const char *message; /* NULL: there is none */
    size_t length;
    bool endless;        /* ... of which more is announced than anybody takes */
    const char *lease;   /* what the first request is answered instead, in four bytes; NULL: the same */
    const char *refusal; /* the header that ends a stream which goes on; NULL: it does */
    int leaves_at; /* the first connection is to be left when it has answered so many requests; 0: never */
    int listener, port, connections;
    atomic_bool watched; /* a stream goes on */
    atomic_int asked;    /* so many requests have come */
    pthread_t thread;
} stranger;

/* ------------------------------------------------------------------ its words ---- */

static bool take(int fd, unsigned char *bytes, size_t count)
{
    for (ssize_t n; count > 0; bytes += n, count -= (size_t)n)
        if ((n = recv(fd, bytes, count, 0)) <= 0)
            return false;
    return true;
}

/* In gRPC's words, if it has a message: before that is its length. */
static void answer(const stranger *s, int fd, unsigned stream, int requests)
{
    const bool is_lease = s->lease != NULL && requests == 1;
    const size_t length = is_lease ? 4 : s->length;
    char prefixed[64] = {0};
    if (s->message == NULL) {
        lk_http2_header(fd, LK_HTTP2_END_STREAM, stream, s->header);
        return;
    }
    prefixed[4] = (char)length;
    memcpy(prefixed + 5, is_lease ? s->lease : s->message, length);
    lk_http2_header(fd, 0, stream, s->header);
    if (s->endless)
        prefixed[1] = 0x7F;
    lk_http2_frame(fd, LK_HTTP2_DATA, 0, stream, prefixed, 5 + length);
    if (!s->endless)
        lk_http2_header(fd, LK_HTTP2_END_STREAM, stream, "grpc-status: 0");
}

/* Which version it is of, and which members there are: a request without a message, which is no test's. */
static bool is_of_member(const stranger *s, size_t length)
{
    enum { PREFIX = 5 };
    return s->message != NULL && length == PREFIX;
}

/* A request that goes on, as that of watches does, has no answer. */
static void converse(stranger *s, int fd)
{
    static const unsigned char last[8] = {0x7F, 0xFF, 0xFF, 0xFF}; /* a stream, and no error */
    unsigned char frame[LK_HTTP2_FRAME], payload[1 << 16];
    if (!take(fd, payload, PREFACE))
        return;
    lk_http2_frame(fd, LK_HTTP2_SETTINGS, 0, 0, "", 0);
    for (int requests = 0; take(fd, frame, sizeof frame);) {
        const size_t length = (size_t)frame[1] << 8 | frame[2];
        if (frame[0] != 0 || !take(fd, payload, length))
            return;
        if (frame[3] != LK_HTTP2_DATA)
            continue;
        const unsigned stream = (unsigned)frame[7] << 8 | frame[8];
        if ((frame[4] & LK_HTTP2_END_STREAM) == 0) {
            if (s->refusal != NULL)
                lk_http2_header(fd, LK_HTTP2_END_STREAM, stream, s->refusal);
            atomic_store(&s->watched, true);
            continue;
        }
        if (is_of_member(s, length)) {
            lk_http2_header(fd, LK_HTTP2_END_STREAM, stream,
                            ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12");
            continue;
        }
        atomic_fetch_add(&s->asked, 1);
        if (++requests == s->leaves_at && s->connections == 1)
            lk_http2_frame(fd, LK_HTTP2_GOAWAY, 0, 0, last, sizeof last);
        answer(s, fd, stream, s->connections == 1 ? requests : 0);
    }
}

static void *serve(void *argument)
{
    stranger *s = argument;
    const int on = 1;
    for (int fd; (fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        s->connections++;
        setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on); /* its answers are in pieces */
        converse(s, fd);
        close(fd);
    }
    return NULL;
}

/* ------------------------------------------------------------------ its life ---- */

static void begin(stranger *s)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    s->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    s->connections = 0;
    assert_int_equal(bind(s->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->listener, 4), 0);
    assert_int_equal(getsockname(s->listener, (struct sockaddr *)&address, &size), 0);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, serve, s), 0);
}

static void end(stranger *s)
{
    shutdown(s->listener, SHUT_RDWR);
    lk_join(s->thread, "a stranger's server");
    close(s->listener);
}

/* What a try is told there. */
static locker_status try_at(stranger *s, locker_error *err)
{
    locker_handle *none = NULL;
    locker *l;
    begin(s);
    assert_ok(lk_try_uri(&l, err, "etcd://127.0.0.1:%d/shop?command_timeout=2s&cleanup_timeout=1s", s->port),
              *err);
    const locker_status status = locker_try_lock(l, "strange", NULL, &none, err);
    assert_null(none);
    lk_close_locker(l);
    end(s);
    return status;
}

/* ------------------------------------------------------------------ what it says ---- */

static void a_proxy_that_answers_instead(void **state)
{
    static const struct {
        const char *header;
        locker_status wanted;
    } cases[] = {
        {":status: 404", LOCKER_PROTOCOL},    {":status: 403", LOCKER_DENIED},
        {":status: 401", LOCKER_DENIED},      {":status: 503", LOCKER_UNAVAILABLE},
        {":status: 502", LOCKER_UNAVAILABLE}, {":status: 429", LOCKER_UNAVAILABLE},
        {":status: 500", LOCKER_UNAVAILABLE}, {":status: 524", LOCKER_UNAVAILABLE},
        {":status: 408", LOCKER_UNAVAILABLE}, {":status: 501", LOCKER_PROTOCOL},
    };
    static stranger s;
    (void)state;
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        locker_error err;
        s = (stranger){.header = cases[i].header};
        assert_status(cases[i].wanted, try_at(&s, &err), err);
    }
}

/* gRPC has what isn't plain, and the percent sign, as percent signs and numbers. */
static void a_message_with_signs(void **state)
{
    static stranger s = {
        .header =
            ":status: 200\ncontent-type: application/grpc\ngrpc-status: 9\ngrpc-message: one%3A 50%25,%0Atwo"};
    locker_error err;
    (void)state;
    assert_status(LOCKER_PROTOCOL, try_at(&s, &err), err);
    assert_non_null(strstr(err.text, "'one: 50%, two'"));
}

/* What helps where etcd has no room is of no use here. */
static void a_rate_limit_of_a_proxy_is_not_taken_for_full_storage(void **state)
{
    static stranger s = {
        .header = ":status: 200\ncontent-type: application/grpc\ngrpc-status: 8\ngrpc-message: rate limited"};
    locker_error err;
    (void)state;
    assert_status(LOCKER_UNAVAILABLE, try_at(&s, &err), err);
    assert_non_null(strstr(err.text, "rate limited"));
    assert_null(strstr(err.text, "defragment"));
}

/* It is not asked for again, and the connection, with all that others have on it, stays. */
static void an_answer_that_is_too_large(void **state)
{
    static stranger s = {.header = ":status: 200\ncontent-type: application/grpc",
                         .message = "\x0A",
                         .length = 1,
                         .endless = true};
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    locker *l;
    (void)state;
    begin(&s);
    assert_ok(lk_try_uri(&l, &err, "etcd://127.0.0.1:%d/shop?command_timeout=2s&cleanup_timeout=1s", s.port),
              err);
    for (int i = 0; i < 5; i++) {
        assert_status(LOCKER_PROTOCOL, locker_show(l, "large", &info, &err), err);
        assert_non_null(strstr(err.text, "larger than 16 MiB"));
    }
    lk_close_locker(l);
    end(&s);
    assert_int_equal(s.connections, 1);
}

/* It takes connections, and says nothing: that may be another port. */
static void a_port_that_is_silent(void **state)
{
    const int listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    socklen_t size = sizeof address;
    locker_error err;
    locker *l = NULL;
    (void)state;
    assert_int_equal(bind(listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(listener, 4), 0);
    assert_int_equal(getsockname(listener, (struct sockaddr *)&address, &size), 0);
    assert_status(
        LOCKER_UNAVAILABLE,
        lk_try_uri(&l, &err, "etcd://127.0.0.1:%d/shop?connect_timeout=300ms", ntohs(address.sin_port)), err);
    assert_unless_late(strstr(err.text, "that this is its client port") != NULL);
    close(listener);
}

static bool is_watched(void *context)
{
    return atomic_load((atomic_bool *)context);
}

/* Who says that it will serve no more requests is left, though it doesn't close the connection, on which there is a watch. Its answers
 * have a revision, and what is a lease's number or that a transaction was carried out, as one wants it. */
static void a_server_that_is_about_to_stop(void **state)
{
    static stranger s = {.header = ":status: 200\ncontent-type: application/grpc",
                         .message = "\x0A\x02\x18\x05\x10\x01",
                         .length = 6,
                         .leaves_at = 3};
    locker_handle *first, *second, *third;
    locker_error err;
    locker *l;
    (void)state;
    begin(&s);
    assert_ok(lk_try_uri(&l, &err, "etcd://127.0.0.1:%d/shop?ttl=60s&command_timeout=2s", s.port), err);
    assert_ok(locker_try_lock(l, "first", NULL, &first, &err), err);
    lk_require(is_watched, &s.watched, "what is held should be watched");
    assert_ok(locker_try_lock(l, "second", NULL, &second, &err), err);
    assert_ok(locker_try_lock(l, "third", NULL, &third, &err), err);
    assert_int_equal(locker_handle_state(first), LOCKER_STATE_HELD);
    lk_give(third);
    lk_give(second);
    lk_give(first);
    lk_close_locker(l);
    end(&s);
    assert_true(s.connections > 1);
}

/* ------------------------------------------------------------------ more than is taken ---- */

/* An answer of more than 16 MiB isn't taken, and that is told; locks go on, also the one that is so large: it needs no values. */
static void more_below_a_lock_than_is_taken(void **state)
{
    lk_env *env = *state;
    enum { MIB = 1 << 20, COUNT = 17 };
    locker *l = lk_open_at(env->etcd, "/shop?ttl=60s&command_timeout=60s"); /* 17 MiB may take long */
    locker_handle *held = lk_take(l, "held"), *none = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_locking waiter;
    for (int i = 0; i < COUNT; i++) {
        char name[32];
        snprintf(name, sizeof name, "shop/much/%02d", i);
        lk_etcdctl_put_large(env->etcd, name, 0, MIB);
    }
    assert_status(LOCKER_PROTOCOL, locker_show(l, "much", &info, &err), err);
    assert_non_null(strstr(err.text, "larger than 16 MiB"));
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD); /* by the same connection */
    assert_status(LOCKER_BUSY, locker_try_lock(l, "much", NULL, &none, &err), err);
    lk_locking_start(&waiter, l, "much", NULL);
    lk_require_waiting(l, 1);
    lk_etcdctl_do(env->etcd, "del --prefix shop/much/0");
    lk_etcdctl_do(env->etcd, "del --prefix shop/much/1");
    lk_give(lk_locking_grant(&waiter));
    assert_ok(locker_show(l, "much", &info, &err), err);
    locker_info_clear(&info);
    lk_give(held);
    lk_close_locker(l);
}

/* Who waits is told nothing, and looks again, but not without pause. The answers show his place, and one before it. */
static void a_proxy_that_refuses_watches(void **state)
{
    static const char places[] = "\x0A\x02\x18\x05\x10\x01"
                                 "\x1A\x0D\x0A\x0B\x12\x09\x0A\x01k\x10\x05\x18\x05\x30\x01"
                                 "\x1A\x09\x0A\x07\x12\x05\x0A\x01o\x10\x03";
    static stranger s = {
        .header = ":status: 200\ncontent-type: application/grpc",
        .message = places,
        .length = sizeof places - 1,
        .lease = "\x10\x01\x18\x3C",
        .refusal = ":status: 200\ncontent-type: application/grpc\ngrpc-status: 12\ngrpc-message: no watches"};
    const locker_lock_options brief = lk_wait_options(1000);
    locker_handle *none = NULL;
    locker_error err;
    locker *l;
    (void)state;
    begin(&s);
    assert_ok(lk_try_uri(&l, &err, "etcd://127.0.0.1:%d/shop?ttl=60s&command_timeout=2s&cleanup_timeout=1s",
                         s.port),
              err);
    assert_int_not_equal(locker_lock(l, "waits", &brief, &none, &err), LOCKER_OK);
    assert_true(err.status == LOCKER_TIMEOUT || err.status == LOCKER_UNAVAILABLE);
    const int asked = atomic_load(&s.asked);
    lk_close_locker(l);
    end(&s);
    assert_true(atomic_load(&s.watched));
    assert_in_range(asked, 3, 100);
}

/* ------------------------------------------------------------------ one of two members ---- */

enum { TIMES = 8 }; /* each time the first member is drawn */

static void take_beside(const lk_env *env, int port)
{
    for (int i = 0; i < TIMES; i++) {
        const locker_lock_options patient = lk_wait_options(5000);
        locker_handle *held;
        locker_error err;
        locker *l;
        assert_ok(lk_try_uri(&l, &err, "etcd://127.0.0.1:%d,127.0.0.1:%d/shop?ttl=100s&command_timeout=40s",
                             port, env->etcd->port),
                  err);
        assert_ok(locker_lock(l, "two", &patient, &held, &err), err);
        lk_give(held);
        lk_close_locker(l);
    }
}

static void a_member_that_is_not_there(void **state)
{
    take_beside(*state, lk_free_port());
}

/* It answers, and each time that it doesn't know. */
static void a_member_that_can_not(void **state)
{
    static stranger s = {
        .header = ":status: 200\ncontent-type: application/grpc\ngrpc-status: 14\ngrpc-message: no leader"};
    begin(&s);
    take_beside(*state, s.port);
    end(&s);
}

/* A learner, or a member that has just started: etcd 3.6 and later say so by the status that those before it had for what is
 * final. */
static void a_member_that_can_not_yet(void **state)
{
    static const char *const headers[] = {
        ":status: 200\ncontent-type: application/grpc\ngrpc-status: 9\n"
        "grpc-message: etcdserver: rpc not supported for learner",
        ":status: 200\ncontent-type: application/grpc\ngrpc-status: 9\n"
        "grpc-message: etcdserver: not capable",
    };
    static stranger s;
    for (size_t i = 0; i < sizeof headers / sizeof *headers; i++) {
        s = (stranger){.header = headers[i]};
        begin(&s);
        take_beside(*state, s.port);
        end(&s);
    }
}

/* ... which is no word on whether there are users. */
static void a_login_that_can_not_be_yet(void **state)
{
    static stranger s = {.header = ":status: 200\ncontent-type: application/grpc\ngrpc-status: 9\n"
                                   "grpc-message: etcdserver: rpc not supported for learner"};
    locker_error err;
    locker *l = NULL;
    (void)state;
    begin(&s);
    assert_status(LOCKER_UNAVAILABLE,
                  lk_try_uri(&l, &err, "etcd://clerk:sesame@127.0.0.1:%d/shop?connect_timeout=300ms", s.port),
                  err);
    assert_non_null(strstr(err.text, "not supported for learner"));
    end(&s);
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_proxy_that_answers_instead),
    cmocka_unit_test(a_message_with_signs),
    cmocka_unit_test(a_rate_limit_of_a_proxy_is_not_taken_for_full_storage),
    cmocka_unit_test(an_answer_that_is_too_large),
    cmocka_unit_test(a_port_that_is_silent),
    cmocka_unit_test(a_server_that_is_about_to_stop),
    cmocka_unit_test(a_proxy_that_refuses_watches),
    server_test(more_below_a_lock_than_is_taken),
    server_test(a_member_that_is_not_there),
    server_test(a_member_that_can_not),
    server_test(a_member_that_can_not_yet),
    cmocka_unit_test(a_login_that_can_not_be_yet),
};

const lk_group lk_strangers = {"strangers", tests, sizeof tests / sizeof tests[0], NULL, NULL};
