/* tls.c: what is asked of a handshake whatever the service is: the protocol that is spoken by TLS (ALPN). The other end is
 * OpenSSL's, on the same thread. How certificates are judged, and what is sent, integration/redis/tls.c shows with a server. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/ssl.h>
#include <stdio.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"
#include "servers/certificates.h"
#include "servers/scratch.h"
#include "tls.h"

static char directory[LK_SCRATCH_PATH], ca[LK_SCRATCH_PATH + 32];

/* What a server does about the protocols that it is offered. */
typedef enum { KNOWS_NONE, CHOOSES_H2, CHOOSES_ANOTHER, REFUSES } alpn_manners;

typedef struct {
    alpn_manners manners;
    bool was_asked;
    char offered[32]; /* the list as it came, each name with its length before it */
    SSL_CTX *context;
    SSL *ssl;
    lk_tls_settings settings;
    lk_tls *tls;
    int fds[2]; /* the client's, the server's */
} pair;

static int choose(SSL *ssl, const unsigned char **chosen, unsigned char *len, const unsigned char *offered,
                  unsigned size, void *context)
{
    pair *p = context;
    (void)ssl;
    p->was_asked = true;
    memcpy(p->offered, offered, size < sizeof p->offered ? size : sizeof p->offered - 1);
    const char *const answer = p->manners == CHOOSES_H2 ? "h2" : "http/1.1";
    *chosen = (const unsigned char *)answer;
    *len = (unsigned char)strlen(answer);
    return p->manners == REFUSES ? SSL_TLSEXT_ERR_ALERT_FATAL : SSL_TLSEXT_ERR_OK;
}

static void begin_server(pair *p)
{
    char crt[LK_SCRATCH_PATH + 32], key[LK_SCRATCH_PATH + 32];
    (void)snprintf(crt, sizeof crt, "%s/server.crt", directory);
    (void)snprintf(key, sizeof key, "%s/server.key", directory);
    p->context = SSL_CTX_new(TLS_server_method());
    assert_int_equal(SSL_CTX_use_certificate_chain_file(p->context, crt), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(p->context, key, SSL_FILETYPE_PEM), 1);
    if (p->manners != KNOWS_NONE)
        SSL_CTX_set_alpn_select_cb(p->context, choose, p);
    p->ssl = SSL_new(p->context);
    assert_int_equal(SSL_set_fd(p->ssl, p->fds[1]), 1);
    SSL_set_accept_state(p->ssl);
}

static void begin(pair *p, alpn_manners manners, const char *alpn)
{
    const locker_value values[LK_TLS_PARAMETERS] = {{.text = "name"}, {.text = ca}};
    locker_error err;
    *p = (pair){.manners = manners};
    p->settings.on = true;
    p->settings.alpn = alpn;
    p->settings.service = "etcd";
    p->settings.without_tls = "write etcd://";
    assert_int_equal(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0, p->fds), 0);
    assert_true(lk_tls_settings_copy(&p->settings, values));
    assert_int_equal(lk_tls_init(&p->settings, values, &err), LOCKER_OK);
    begin_server(p);
    p->tls = lk_tls_new(&p->settings, p->fds[0], "localhost");
    assert_non_null(p->tls);
}

static void end(pair *p)
{
    lk_tls_free(p->tls, true);
    lk_tls_clear(&p->settings);
    SSL_free(p->ssl);
    SSL_CTX_free(p->context);
    close(p->fds[0]);
    close(p->fds[1]);
}

/* The client's answer; the server goes along as far as it can. */
static int shake_hands(pair *p)
{
    int failure = EAGAIN;
    for (int turn = 0; turn < 20 && failure == EAGAIN; turn++) {
        short waits;
        failure = lk_tls_handshake(p->tls, &waits);
        (void)SSL_do_handshake(p->ssl);
    }
    return failure;
}

static void expect_another(pair *p, bool in_our_words)
{
    locker_error err;
    bool permanent = false;
    assert_int_equal(shake_hands(p), EPROTO);
    assert_true(lk_tls_told(p->tls, "db:2379", &err, &permanent));
    assert_int_equal(err.status, LOCKER_PROTOCOL);
    assert_true(permanent);
    if (in_our_words)
        assert_string_equal(err.text,
                            "the server at db:2379 speaks TLS, but not the protocol h2 (ALPN) of etcd; "
                            "check host and port");
}

static void the_protocol_is_agreed_on(void **state)
{
    pair p;
    char word[8] = "";
    bool unsent, more;
    short waits;
    (void)state;
    begin(&p, CHOOSES_H2, "h2");
    assert_int_equal(shake_hands(&p), 0);
    assert_string_equal(p.offered, "\002h2");
    assert_int_equal(lk_tls_send(p.tls, "PRI", 3, &waits, &unsent), 3);
    assert_int_equal(SSL_read(p.ssl, word, sizeof word), 3);
    assert_string_equal(word, "PRI");
    assert_int_equal(SSL_write(p.ssl, "SET", 3), 3);
    assert_int_equal(lk_tls_receive(p.tls, word, sizeof word, &more), 3);
    assert_string_equal(word, "SET");
    end(&p);
}

static void a_server_that_knows_no_protocols_is_left(void **state)
{
    pair p;
    (void)state;
    begin(&p, KNOWS_NONE, "h2");
    expect_another(&p, true);
    end(&p);
}

static void a_server_that_refuses_the_protocol_is_left(void **state)
{
    pair p;
    (void)state;
    begin(&p, REFUSES, "h2");
    expect_another(&p, true);
    end(&p);
}

/* Later versions of OpenSSL see by themselves that the answer was none of what was offered. */
static void a_server_that_chooses_another_is_left(void **state)
{
    pair p;
    (void)state;
    begin(&p, CHOOSES_ANOTHER, "h2");
    expect_another(&p, false);
    assert_true(p.was_asked);
    end(&p);
}

static void without_a_name_nothing_is_asked(void **state)
{
    static const alpn_manners any[] = {KNOWS_NONE, CHOOSES_H2, REFUSES};
    pair p;
    (void)state;
    for (size_t i = 0; i < sizeof any / sizeof any[0]; i++) {
        begin(&p, any[i], NULL);
        assert_int_equal(shake_hands(&p), 0);
        assert_false(p.was_asked);
        end(&p);
    }
}

/* Two drivers of one process, each with a service of its own. */
static void texts_call_the_service_by_its_name(void **state)
{
    pair p;
    locker_error err;
    bool permanent = false;
    (void)state;
    begin(&p, CHOOSES_H2, "h2");
    assert_int_equal(write(p.fds[1], "-ERR\r\n", 6), 6);
    short waits;
    assert_int_equal(lk_tls_handshake(p.tls, &waits), EPROTO);
    assert_true(lk_tls_told(p.tls, "db:2379", &err, &permanent));
    assert_string_equal(
        err.text, "the server at db:2379 does not speak TLS; name its TLS port, or write etcd:// if you "
                  "trust the network");
    end(&p);
}

static int set_up(void **state)
{
    char why[256];
    (void)state;
    if (!lk_scratch_make("tls", directory, why, sizeof why) ||
        !lk_certificate_make(directory, &(lk_certificate){.name = "ca", .authority = true}, why,
                             sizeof why) ||
        !lk_certificate_make(directory,
                             &(lk_certificate){.name = "server", .by = "ca", .names = "DNS:localhost"}, why,
                             sizeof why)) {
        print_error("%s\n", why);
        return -1;
    }
    (void)snprintf(ca, sizeof ca, "%s/ca.crt", directory);
    return 0;
}

static int tear_down(void **state)
{
    (void)state;
    lk_scratch_close();
    return 0;
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_protocol_is_agreed_on),
        cmocka_unit_test(a_server_that_knows_no_protocols_is_left),
        cmocka_unit_test(a_server_that_refuses_the_protocol_is_left),
        cmocka_unit_test(a_server_that_chooses_another_is_left),
        cmocka_unit_test(without_a_name_nothing_is_asked),
        cmocka_unit_test(texts_call_the_service_by_its_name),
    };
    return cmocka_run_group_tests(tests, set_up, tear_down);
}
