/* test_tls.c: see test_tls.h. */
#include "test_tls.h"

#include <arpa/inet.h>
#include <netinet/tcp.h>
#include <openssl/err.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "expect.h"
#include "lk_mutex.h"
#include "locking.h"

int lk_test_speak_tls(lk_server *server, int port, const char *certificate, const char *clients)
{
    const char *directory = server->directory;
    if (port == 0)
        port = lk_free_port();
    lk_server_do(server,
                 "CONFIG SET tls-cert-file %s/%s.crt tls-key-file %s/%s.key tls-ca-cert-file %s/ca.crt "
                 "tls-auth-clients %s tls-port %d",
                 directory, certificate, directory, certificate, directory, clients, port);
    return port;
}

/* ------------------------------------------------------------------ a front ---- */

enum { CLIENTS_MAX = 32, BYTES = 16384, SMALL = 200, TURN_MS = 20 }; /* SMALL: no part of a greeting */

typedef struct {
    lk_tls_front *front;
    int fd, server_fd;
    pthread_t thread;
} client;

struct lk_tls_front {
    SSL_CTX *context;
    lk_tls_manners manners;
    int listener, port, server_port;
    pthread_t thread;
    atomic_bool ending;
    atomic_uint connections, farewells;
    lk_mutex mutex;
    char name[256] LK_GUARDED_BY(mutex);
    client clients[CLIENTS_MAX]; /* of its thread; joined when it has ended */
};

static bool send_all(int fd, const char *bytes, size_t count)
{
    while (count > 0) {
        const ssize_t n = send(fd, bytes, count, MSG_NOSIGNAL);
        if (n <= 0)
            return false;
        bytes += n;
        count -= (size_t)n;
    }
    return true;
}

static bool write_records(const lk_tls_manners *manners, SSL *ssl, const char *bytes, size_t count)
{
    while (count > 0) {
        const size_t part = manners->record > 0 && manners->record < count ? manners->record : count;
        if (SSL_write(ssl, bytes, (int)part) != (int)part)
            return false;
        bytes += part;
        count -= part;
    }
    return true;
}

/* What the server said goes to the client, after what the manners want, and all of it at once. */
static bool answer(const lk_tls_manners *manners, SSL *ssl, const char *bytes, size_t count)
{
    const int fd = SSL_get_fd(ssl), on = 1, off = 0;
    if (manners->changes_keys && SSL_version(ssl) == TLS1_3_VERSION)
        (void)SSL_key_update(ssl, SSL_KEY_UPDATE_REQUESTED);
    if (manners->begins_anew && count < SMALL && SSL_version(ssl) == TLS1_2_VERSION) {
        (void)SSL_renegotiate(ssl);
        (void)SSL_do_handshake(ssl);
    }
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CORK, &on, sizeof on);
    const bool written = write_records(manners, ssl, bytes, count);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_CORK, &off, sizeof off);
    return written;
}

static void pass(client *c, SSL *ssl)
{
    char bytes[BYTES];
    while (!c->front->ending) {
        struct pollfd waits[2] = {{.fd = c->fd, .events = POLLIN}, {.fd = c->server_fd, .events = POLLIN}};
        if (SSL_pending(ssl) == 0 && poll(waits, 2, TURN_MS) <= 0)
            continue;
        if (SSL_pending(ssl) > 0 || waits[0].revents != 0) {
            const int n = SSL_read(ssl, bytes, sizeof bytes);
            const int why = n > 0 ? SSL_ERROR_NONE : SSL_get_error(ssl, n);
            if (why == SSL_ERROR_ZERO_RETURN)
                c->front->farewells++;
            if (n > 0 ? !send_all(c->server_fd, bytes, (size_t)n) : why != SSL_ERROR_WANT_READ)
                return;
        }
        if (waits[1].revents != 0) {
            const ssize_t n = recv(c->server_fd, bytes, sizeof bytes, 0);
            if (n <= 0 || !answer(&c->front->manners, ssl, bytes, (size_t)n))
                return;
        }
    }
}

static int connect_to(int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0), on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    (void)setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
    if (connect(fd, (struct sockaddr *)&address, sizeof address) == 0)
        return fd;
    close(fd);
    return -1;
}

/* OpenSSL writes by write(), which may raise SIGPIPE. */
static void *serve_one(void *argument)
{
    sigset_t pipe;
    sigemptyset(&pipe);
    sigaddset(&pipe, SIGPIPE);
    pthread_sigmask(SIG_BLOCK, &pipe, NULL);
    client *c = argument;
    SSL *ssl = SSL_new(c->front->context);
    c->server_fd = connect_to(c->front->server_port);
    (void)SSL_set_fd(ssl, c->fd);
    SSL_set_mode(ssl, SSL_MODE_AUTO_RETRY);
    if (SSL_accept(ssl) == 1 && c->server_fd >= 0) {
        const char *const name = SSL_get_servername(ssl, TLSEXT_NAMETYPE_host_name);
        lk_mutex_lock(&c->front->mutex);
        (void)snprintf(c->front->name, sizeof c->front->name, "%s", name != NULL ? name : "");
        lk_mutex_unlock(&c->front->mutex);
        c->front->connections++;
        (void)SSL_clear_mode(ssl, SSL_MODE_AUTO_RETRY); /* it may hear what is no data */
        pass(c, ssl);
    }
    SSL_free(ssl);
    shutdown(c->fd, SHUT_RDWR); /* who joins this closes it */
    if (c->server_fd >= 0)
        close(c->server_fd);
    return NULL;
}

static void *serve(void *argument)
{
    lk_tls_front *front = argument;
    size_t count = 0;
    while (!front->ending && count < CLIENTS_MAX) {
        struct pollfd waits = {.fd = front->listener, .events = POLLIN};
        const int on = 1;
        if (poll(&waits, 1, TURN_MS) <= 0)
            continue;
        client *c = &front->clients[count];
        *c = (client){
            .front = front, .fd = accept4(front->listener, NULL, NULL, SOCK_CLOEXEC), .server_fd = -1};
        (void)setsockopt(c->fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
        if (c->fd >= 0 && pthread_create(&c->thread, NULL, serve_one, c) == 0)
            count++;
    }
    while (!front->ending)
        (void)poll(NULL, 0, TURN_MS);
    for (size_t i = 0; i < count; i++) {
        shutdown(front->clients[i].fd, SHUT_RDWR);
        pthread_join(front->clients[i].thread, NULL);
        close(front->clients[i].fd);
    }
    return NULL;
}

lk_tls_front *lk_tls_front_begin(const lk_server *server, const char *certificate, lk_tls_manners manners)
{
    struct sockaddr_in address = {.sin_family = AF_INET};
    socklen_t size = sizeof address;
    char path[2][LK_SCRATCH_PATH + 40];
    lk_tls_front *front = calloc(1, sizeof *front);
    assert_non_null(front);
    lk_mutex_init(&front->mutex);
    snprintf(path[0], sizeof path[0], "%s/%s.crt", server->directory, certificate);
    snprintf(path[1], sizeof path[1], "%s/%s.key", server->directory, certificate);
    front->context = SSL_CTX_new(TLS_server_method());
    front->manners = manners;
    front->server_port = server->port;
    assert_int_equal(SSL_CTX_use_certificate_chain_file(front->context, path[0]), 1);
    assert_int_equal(SSL_CTX_use_PrivateKey_file(front->context, path[1], SSL_FILETYPE_PEM), 1);
    assert_int_equal(SSL_CTX_set_max_proto_version(front->context, manners.most_version), 1);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    front->listener = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    assert_int_equal(bind(front->listener, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(front->listener, CLIENTS_MAX), 0);
    assert_int_equal(getsockname(front->listener, (struct sockaddr *)&address, &size), 0);
    front->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&front->thread, NULL, serve, front), 0);
    return front;
}

void lk_tls_front_free(lk_tls_front *front)
{
    if (front == NULL)
        return;
    front->ending = true;
    lk_join(front->thread, "a front of TLS");
    close(front->listener);
    SSL_CTX_free(front->context);
    lk_mutex_destroy(&front->mutex);
    free(front);
}

int lk_tls_front_port(const lk_tls_front *front)
{
    return front->port;
}

unsigned lk_tls_front_connections(const lk_tls_front *front)
{
    return front->connections;
}

unsigned lk_tls_front_farewells(const lk_tls_front *front)
{
    return front->farewells;
}

void lk_tls_front_name(lk_tls_front *front, char name[256])
{
    lk_mutex_lock(&front->mutex);
    memcpy(name, front->name, sizeof front->name);
    lk_mutex_unlock(&front->mutex);
}
