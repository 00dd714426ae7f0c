/* strangers.c: what etcd's servers seldom say, or what is before them, said by a server of the test's own, which knows just enough of
 * HTTP/2: it answers each request with the same header, and perhaps the same message. */
#include <netinet/in.h>
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
    int leaves_at; /* the first connection is to be left when it has answered so many requests; 0: never */
    int listener, port, connections;
    atomic_bool watched; /* a stream goes on */
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
static void answer(const stranger *s, int fd, unsigned stream, const char *header)
{
    char prefixed[64] = {0};
    if (s->message == NULL) {
        lk_http2_header(fd, LK_HTTP2_END_STREAM, stream, header);
        return;
    }
    prefixed[4] = (char)s->length;
    memcpy(prefixed + 5, s->message, s->length);
    lk_http2_header(fd, 0, stream, header);
    lk_http2_frame(fd, LK_HTTP2_DATA, 0, stream, prefixed, 5 + s->length);
    lk_http2_header(fd, LK_HTTP2_END_STREAM, stream, "grpc-status: 0");
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
        if ((frame[4] & LK_HTTP2_END_STREAM) == 0) {
            atomic_store(&s->watched, true);
            continue;
        }
        if (++requests == s->leaves_at && s->connections == 1)
            lk_http2_frame(fd, LK_HTTP2_GOAWAY, 0, 0, last, sizeof last);
        answer(s, fd, (unsigned)frame[7] << 8 | frame[8], s->header);
    }
}

static void *serve(void *argument)
{
    stranger *s = argument;
    for (int fd; (fd = accept4(s->listener, NULL, NULL, SOCK_CLOEXEC)) >= 0;) {
        s->connections++;
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
    assert_unless_late(strstr(err.text, "is that its port for clients?") != NULL);
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

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_proxy_that_answers_instead), cmocka_unit_test(a_message_with_signs),
    cmocka_unit_test(a_port_that_is_silent),        cmocka_unit_test(a_server_that_is_about_to_stop),
    server_test(a_member_that_is_not_there),        server_test(a_member_that_can_not),
};

const lk_group lk_strangers = {"strangers", tests, sizeof tests / sizeof tests[0], NULL, NULL};
