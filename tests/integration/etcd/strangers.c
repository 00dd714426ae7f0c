/* strangers.c: what etcd's servers seldom say, or what is before them, said by a server of the test's own, which knows just enough of
 * HTTP/2: it answers each request with the same header, and nothing else. */
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_tests.h"
#include "http2.h"

enum {
    FRAME = 9,
    PREFACE = 24,
    DATA = 0,
    HEADERS = 1,
    SETTINGS = 4,
    GOAWAY = 7,
    END_STREAM = 1,
    END_HEADERS = 4
};

typedef struct {
    const char *header; /* lines of "name: value" */
    bool leaves;        /* the first connection is to be left when it has answered one request */
    int listener, port, connections;
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

static void converse(const stranger *s, int fd)
{
    static const unsigned char last[8] = {0x7F, 0xFF, 0xFF, 0xFF}; /* a stream, and no error */
    unsigned char frame[LK_HTTP2_FRAME], payload[1 << 16];
    if (!take(fd, payload, PREFACE))
        return;
    lk_http2_frame(fd, LK_HTTP2_SETTINGS, 0, 0, "", 0);
    while (take(fd, frame, sizeof frame)) {
        const size_t length = (size_t)frame[1] << 8 | frame[2];
        if (frame[0] != 0 || !take(fd, payload, length))
            return;
        if (frame[3] != LK_HTTP2_DATA || (frame[4] & LK_HTTP2_END_STREAM) == 0)
            continue;
        if (s->leaves && s->connections == 1)
            lk_http2_frame(fd, LK_HTTP2_GOAWAY, 0, 0, last, sizeof last);
        lk_http2_header(fd, LK_HTTP2_END_STREAM, (unsigned)frame[7] << 8 | frame[8],
                        s->leaves && s->connections == 1 ? ":status: 503" : s->header);
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

/* Who says that it will serve no more requests is left, though it doesn't close the connection. */
static void a_server_that_is_about_to_stop(void **state)
{
    static stranger s = {
        .leaves = true,
        .header =
            ":status: 200\ncontent-type: application/grpc\ngrpc-status: 9\ngrpc-message: the second one"};
    locker_error err;
    (void)state;
    assert_status(LOCKER_PROTOCOL, try_at(&s, &err), err);
    assert_non_null(strstr(err.text, "the second one"));
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(a_proxy_that_answers_instead),
    cmocka_unit_test(a_message_with_signs),
    cmocka_unit_test(a_server_that_is_about_to_stop),
};

const lk_group lk_strangers = {"strangers", tests, sizeof tests / sizeof tests[0], NULL, NULL};
