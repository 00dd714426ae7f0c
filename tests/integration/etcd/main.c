/* main.c: the groups of tests, and what they share. */
#include <netinet/in.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_tests.h"
#include "http2.h"

static const lk_group *const groups[] = {&lk_cost,    &lk_crowd, &lk_interop, &lk_leases, &lk_lined_up,
                                         &lk_losses,  &lk_moves, &lk_replies, &lk_slow,   &lk_strangers,
                                         &lk_streams, &lk_users, &lk_watches,
#ifdef LK_TEST_TLS
                                         &lk_tls,
#endif
                                         NULL};

/* ------------------------------------------------------------------ environments ---- */

int lk_env_with(void **state, const char *const *options)
{
    lk_env *env = calloc(1, sizeof *env);
    *state = env;
    if (env == NULL)
        return -1;
    env->etcd = lk_test_etcd(options);
    return 0;
}

int lk_env_server(void **state)
{
    return lk_env_with(state, NULL);
}

int lk_env_proxied(void **state)
{
    const int failed = lk_env_server(state);
    lk_env *env = *state;
    if (failed == 0)
        env->proxy = lk_proxy_begin(&lk_proxy_etcd, env->etcd->port);
    return failed;
}

int lk_env_end(void **state)
{
    lk_env *env = *state;
    if (env == NULL)
        return 0;
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++)
        lk_child_kill(env->children[i]);
    lk_proxy_free(env->proxy);
    lk_test_free(env->etcd);
    free(env);
    return 0;
}

lk_child *lk_env_keep(lk_env *env, lk_child *child)
{
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++) {
        if (env->children[i] == NULL) {
            env->children[i] = child;
            return child;
        }
    }
    test_fails("a test has at most %d children", LK_ENV_CHILDREN);
}

lk_child *lk_env_release(lk_env *env, lk_child *child)
{
    for (size_t i = 0; i < LK_ENV_CHILDREN; i++)
        if (env->children[i] == child)
            env->children[i] = NULL;
    return child;
}

/* ------------------------------------------------------------------ shared by the groups ---- */

static locker *open_with(const locker_options *options, const char *address, int port, const char *rest)
{
    char uri[512];
    locker_error err;
    locker *l;
    snprintf(uri, sizeof uri, "etcd://%s:%d%s", address, port, rest);
    assert_ok(locker_open(uri, options, &l, &err), err);
    return l;
}

static locker *open_port(const char *address, int port, const char *rest)
{
    const locker_options options = lk_test_options();
    return open_with(&options, address, port, rest);
}

locker *lk_open_at(const lk_server *etcd, const char *rest)
{
    return open_port(etcd->place.address, etcd->port, rest);
}

locker *lk_open_logged(int port, const char *rest, locker_log_fn log)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    options.log = log;
    options.log_level = LOCKER_LOG_INFO;
    return open_with(&options, "127.0.0.1", port, rest);
}

locker *lk_open_proxied(const lk_env *env, const char *rest)
{
    return open_port("127.0.0.1", lk_proxy_port(env->proxy), rest);
}

/* Once for each attempt, which is over before it would ask again; it may be before it has asked. */
void lk_have_it_move(const lk_env *env, locker *l)
{
    const locker_lock_options brief = lk_wait_options(30);
    const lk_passed before = lk_proxy_passed(env->proxy, LK_EP_ENTER);
    lk_proxy_answer(env->proxy, LK_EP_ENTER, lk_proxy_etcd_unavailable);
    while (lk_proxy_requests(env->proxy, LK_EP_ENTER) == before.count) {
        locker_handle *none = NULL;
        locker_error err;
        assert_int_not_equal(locker_lock(l, "unmade", &brief, &none, &err), LOCKER_OK);
    }
    lk_proxy_answer(env->proxy, LK_EP_ENTER, NULL);
}

static bool has_come(void *context)
{
    return lk_test_now_ms() >= *(const int64_t *)context;
}

void lk_await_time(int64_t at_ms)
{
    lk_require(has_come, &at_ms, "time should pass");
}

void lk_do_withheld(const lk_env *env)
{
    char request[1000], answer[1000];
    const size_t length = lk_proxy_withheld(env->proxy, request, sizeof request);
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t)env->etcd->port),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_in_range(length, LK_HTTP2_FRAME + 1, sizeof request - 1);
    assert_int_equal(connect(fd, (const struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(send(fd, "PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n", 24, MSG_NOSIGNAL), 24);
    lk_http2_frame(fd, LK_HTTP2_SETTINGS, 0, 0, "", 0);
    lk_http2_header(fd, 0, 1,
                    ":method: POST\n:scheme: http\n:path: /etcdserverpb.KV/Txn\n:authority: etcd\n"
                    "te: trailers\ncontent-type: application/grpc");
    lk_http2_frame(fd, LK_HTTP2_DATA, LK_HTTP2_END_STREAM, 1, request + LK_HTTP2_FRAME,
                   length - LK_HTTP2_FRAME);
    for (bool answered = false; !answered;) { /* "grpc-status" is there in Huffman's code, and said last */
        const ssize_t got = recv(fd, answer, sizeof answer, 0);
        assert_true(got > 0);
        for (ssize_t at = 0; at + LK_HTTP2_FRAME <= got; at++)
            answered = answered || memcmp(answer + at, "\x01\x05\x00\x00\x00\x01", 6) == 0;
    }
    close(fd);
}

int main(int argc, char **argv)
{
    static const lk_role roles[] = {{NULL, NULL}};
    return lk_run_group(argc, argv, groups, roles);
}
