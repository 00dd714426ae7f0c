/* tls.c: TLS: whom it trusts, what it says when it doesn't, and that what it does in between holds nobody up. The servers are real,
 * but for fronts with bad manners (test_tls.h). */
#include "redis_tests.h"

#include <arpa/inet.h>
#include <netinet/in.h>
#include <openssl/ssl.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "skips.h"

/* A server that speaks TLS, with certificates. */
static int begin(void **state)
{
    if (lk_env_plain(state) != 0)
        return -1;
    lk_env *env = *state;
    lk_short_sends = 0; /* a test that failed may have left it */
    lk_test_certificates(env->server);
    env->tls_port = lk_test_speak_tls(env->server, 0, "server", "no");
    return 0;
}

#define tls_test(f) cmocka_unit_test_setup_teardown(f, begin, lk_env_end)

/* The URI of the server at a host, with its authority, and more. */
static const char *uri_of(const lk_env *env, const char *host, const char *rest)
{
    static char uri[768];
    snprintf(uri, sizeof uri, "rediss://%s:%d?tls_ca=%s/ca.crt%s", host, env->tls_port,
             env->server->directory, rest);
    return uri;
}

static locker *open_tls(const lk_env *env, const char *rest)
{
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "%s", uri_of(env, "127.0.0.1", rest)), err);
    return l;
}

static void taken(const char *uri)
{
    locker_error err;
    locker *l;
    assert_ok(lk_try_uri(&l, &err, "%s", uri), err);
    lk_give(lk_take(l, "taken"));
    lk_close_locker(l);
}

/* Refused at once, with these words. */
static void refused(locker_status wanted, const char *uri, const char *words)
{
    const int64_t began = lk_test_now_ms();
    locker_error err;
    locker *l;
    assert_status(wanted, lk_try_uri(&l, &err, "%s", uri), err);
    if (strstr(err.text, words) == NULL || strchr(err.text, '\n') != NULL)
        test_fails("'%s' has no '%s', or is no line", err.text, words);
    assert_timely(lk_test_now_ms() - began, 4000);
}

/* Use another certificate from the next connection on. */
static void show_certificate(lk_env *env, const lk_certificate *certificate)
{
    lk_test_certify(env->server, certificate);
    (void)lk_test_speak_tls(env->server, env->tls_port, certificate->name, "no");
}

static void cut_all(lk_env *env)
{
    lk_server_do(env->server, "CLIENT KILL TYPE normal");
    lk_server_do(env->server, "CLIENT KILL TYPE pubsub");
}

/* ------------------------------------------------------------------ locks ---- */

static void hand_on(lk_env *env)
{
    locker *l = open_tls(env, ""), *rival = open_tls(env, "&poll=20s");
    locker_handle *held = lk_take(l, "over-tls");
    lk_locking waiter;
    lk_expect_busy(rival, "over-tls");
    lk_locking_start(&waiter, rival, "over-tls", NULL);
    lk_require_subscriber(env->server);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    assert_timely(waiter.ended_ms - waiter.began_ms, 10000); /* by a message, not by a look */
    lk_close_locker(rival);
    lk_close_locker(l);
}

static void locks_are_taken_and_handed_on(void **state)
{
    lk_env *env = *state;
    static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
    for (size_t i = 0; i < 2; i++) {
        lk_server_do(env->server, "CONFIG SET tls-protocols %s", versions[i]);
        hand_on(env);
    }
}

/* The s at the end of valkeys:// is what speaks TLS, too. */
static void valkeys_is_tls(void **state)
{
    lk_env *env = *state;
    char uri[256];
    snprintf(uri, sizeof uri, "valkeys://127.0.0.1:%d?tls_ca=%s/ca.crt", env->tls_port,
             env->server->directory);
    taken(uri);
    snprintf(uri, sizeof uri, "valkeys://127.0.0.1:%d", env->server->port);
    refused(LOCKER_PROTOCOL, uri, "does not speak TLS");
    locker_error err;
    locker *l;
    assert_int_not_equal(lk_try_uri(&l, &err, "valkey://127.0.0.1:%d", env->tls_port), LOCKER_OK);
    assert_non_null(strstr(err.text, "valkeys://")); /* it is cut off, or has answered with an alert */
}

static void old_versions_are_refused(void **state)
{
    lk_env *env = *state;
    lk_server_do(env->server, "CONFIG SET tls-protocols TLSv1.1 tls-ciphers ALL:@SECLEVEL=0");
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "TLS 1.2");
}

/* ------------------------------------------------------------------ whom it trusts ---- */

static void the_name_is_checked(void **state)
{
    static const struct {
        const char *names, *name;
        bool good;
    } cases[] = {
        {"DNS:redis.example.com", "redis.example.com", true},
        {"DNS:redis.example.com", "REDIS.example.com.", true},
        {"DNS:redis.example.com", "redis2.example.com", false},
        {"DNS:redis.example.com", "a.redis.example.com", false},
        {"DNS:*.example.com", "redis.example.com", true},
        {"DNS:*.example.com", "a.redis.example.com", false},
        {"DNS:r*.example.com", "redis.example.com", false},
        {"DNS:redis.example.com,IP:10.0.0.1", "10.0.0.1", true},
        {"DNS:10.0.0.1", "10.0.0.1", false},
        {"IP:10.0.0.1", "10.0.0.2", false},
        {"IP:fd00:0:0:0:0:0:0:1", "%5Bfd00::1%5D", true},
        {"IP:fd00:0:0:0:0:0:0:1", "fd00::1", true},
        {"IP:fd00:0:0:0:0:0:0:1", "fd00::2", false},
        {NULL, "checked", true}, /* its subject */
        {"DNS:redis.example.com", "checked", false},
    };
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char rest[128];
        locker_error err;
        locker *l;
        show_certificate(env, &(lk_certificate){.name = "checked", .by = "ca", .names = cases[i].names});
        snprintf(rest, sizeof rest, "&tls_name=%s", cases[i].name);
        const locker_status status = lk_try_uri(&l, &err, "%s", uri_of(env, "127.0.0.1", rest));
        if (status != (cases[i].good ? LOCKER_OK : LOCKER_PROTOCOL))
            test_fails("%s for %s: %s", cases[i].names, cases[i].name, err.text);
        if (l != NULL)
            lk_close_locker(l);
    }
}

static void the_hosts_name_is_checked(void **state)
{
    lk_env *env = *state;
    taken(uri_of(env, "localhost", ""));
    taken(uri_of(env, "127.0.0.1", ""));
    show_certificate(env, &(lk_certificate){.name = "another",
                                            .by = "ca",
                                            .names = "DNS:redis.example.com,DNS:*.example.net,IP:10.0.0.1"});
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""),
            "is not for '127.0.0.1' but for redis.example.com, *.example.net, 10.0.0.1; ");
    refused(LOCKER_PROTOCOL, uri_of(env, "localhost", ""), "'localhost'");
    taken(uri_of(env, "127.0.0.1", "&tls_verify=ca"));
    show_certificate(env,
                     &(lk_certificate){.name = "other-server", .by = "other-ca", .names = "IP:127.0.0.1"});
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", "&tls_verify=ca"), "not trusted");
}

static void an_address_of_ipv6_is_checked(void **state)
{
    lk_env *env = *state;
    show_certificate(env, &(lk_certificate){.name = "v6", .by = "ca", .names = "IP:0:0:0:0:0:0:0:1"});
    lk_server_do(env->server, "CONFIG SET bind %s", "127.0.0.1 -::1");
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "but for ::1");
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", "&tls_name=::2"), "is not for '::2'");
    taken(uri_of(env, "127.0.0.1", "&tls_name=%5B::1%5D"));
    if (access("/proc/net/if_inet6", F_OK) != 0)
        skip_reported("a certificate for an IPv6 address", "this kernel has no IPv6");
    taken(uri_of(env, "[::1]", ""));
}

/* The server is told by which name it is called, and never an address. */
static void the_client_sends_the_server_name(void **state)
{
    static const char *const cases[][3] = {{"localhost", "", "localhost"},
                                           {"127.0.0.1", "", ""},
                                           {"127.0.0.1", "&tls_name=localhost", "localhost"},
                                           {"localhost", "&tls_name=127.0.0.1", ""}};
    lk_env *env = *state;
    env->front = lk_tls_front_begin(env->server, "server", (lk_tls_manners){0});
    env->tls_port = lk_tls_front_port(env->front);
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        char name[256];
        taken(uri_of(env, cases[i][0], cases[i][1]));
        lk_tls_front_name(env->front, name);
        assert_string_equal(name, cases[i][2]);
    }
}

static bool is_linked(void *replica)
{
    char text[8192];
    lk_server_text(replica, text, sizeof text, "INFO replication");
    return strstr(text, "master_link_status:up") != NULL;
}

/* A replica leads on to its master by the address that it knows, which the master's certificate has to be for, unless tls_name
 * says for what it has to be. */
static void a_master_behind_a_replica_is_checked(void **state)
{
    lk_env *env = *state;
    const char *directory = env->server->directory;
    const int port = lk_free_port(), master = env->tls_port;
    show_certificate(env, &(lk_certificate){.name = "master", .by = "ca", .names = "DNS:localhost"});
    env->second = lk_test_redis(NULL);
    lk_server_do(
        env->second,
        "CONFIG SET tls-cert-file %s/server.crt tls-key-file %s/server.key tls-ca-cert-file %s/ca.crt "
        "tls-auth-clients no tls-replication yes masteruser admin masterauth admin tls-port %d",
        directory, directory, directory, port);
    lk_server_do(env->second, "REPLICAOF 127.0.0.1 %d", master);
    lk_require(is_linked, env->second, "the replica should follow");
    env->tls_port = port;
    refused(LOCKER_PROTOCOL, uri_of(env, "localhost", ""), "is not for '127.0.0.1' but for localhost");
    taken(uri_of(env, "localhost", "&tls_name=localhost"));
    env->tls_port = master;
}

static void what_is_wrong_with_a_certificate_is_told(void **state)
{
    enum { DAY = 24 * 3600 };
    static const char here[] = "IP:127.0.0.1";
    static const struct {
        lk_certificate certificate;
        const char *words;
    } cases[] = {
        {{.name = "old", .by = "ca", .names = here, .from_s = -3 * DAY, .to_s = -DAY}, " expired on 2"},
        {{.name = "young", .by = "ca", .names = here, .from_s = DAY, .to_s = 3 * DAY},
         " is not valid before 2"},
        {{.name = "alien", .by = "other-ca", .names = here},
         "not trusted, 'other-ca', and it is not in tls_ca, /"},
        {{.name = "alone", .names = here}, " is self-signed, and it is not in tls_ca, /"},
        {{.name = "clients", .by = "ca", .names = here, .usage = "clientAuth"}, "is not for servers"},
        {{.name = "odd", .by = "ca", .names = "DNS:a.example.com"}, "but for a.example.com; "},
    };
    lk_env *env = *state;
    for (size_t i = 0; i < sizeof cases / sizeof cases[0]; i++) {
        show_certificate(env, &cases[i].certificate);
        refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), cases[i].words);
        char uri[256];
        snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d?tls_verify=none", env->tls_port);
        taken(uri);
    }
}

/* tls_ca may be the certificate itself, an authority below another, and the machine's. */
static void other_anchors_are_trusted(void **state)
{
    lk_env *env = *state;
    const char *directory = env->server->directory, *before = getenv("SSL_CERT_FILE");
    char uri[512], path[128], *kept = before != NULL ? strdup(before) : NULL;
    show_certificate(env, &(lk_certificate){.name = "alone", .names = "IP:127.0.0.1"});
    snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d?tls_ca=%s/alone.crt", env->tls_port, directory);
    taken(uri);
    lk_test_certify(env->server, &(lk_certificate){.name = "below", .by = "ca", .authority = true});
    show_certificate(env, &(lk_certificate){.name = "last", .by = "below", .names = "IP:127.0.0.1"});
    snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d?tls_ca=%s/below.crt", env->tls_port, directory);
    taken(uri);
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "not trusted, 'below'");
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "no");
    snprintf(path, sizeof path, "%s/ca.crt", directory);
    for (int i = 0; i < 2; i++) { /* by default, and when it is said */
        snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d%s", env->tls_port, i == 0 ? "" : "?tls_ca=system");
        assert_int_equal(setenv("SSL_CERT_FILE", path, 1), 0);
        taken(uri);
        assert_int_equal(setenv("SSL_CERT_FILE", "/dev/null", 1), 0);
        refused(LOCKER_PROTOCOL, uri, "not trusted, 'ca', and it is not among the system's");
    }
    /* Whom tls_ca does not name is not trusted, though the machine does. */
    assert_int_equal(setenv("SSL_CERT_FILE", path, 1), 0);
    snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d?tls_ca=%s/other-ca.crt", env->tls_port, directory);
    refused(LOCKER_PROTOCOL, uri, "not trusted, 'ca', and it is not in tls_ca");
    if (kept != NULL)
        setenv("SSL_CERT_FILE", kept, 1);
    else
        unsetenv("SSL_CERT_FILE");
    free(kept);
}

/* ------------------------------------------------------------------ clients' certificates ---- */

static void clients_certificates_are_shown(void **state)
{
    static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
    lk_env *env = *state;
    const char *directory = env->server->directory;
    char rest[256];
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "yes");
    for (size_t i = 0; i < 2; i++) {
        lk_server_do(env->server, "CONFIG SET tls-protocols %s", versions[i]);
        refused(LOCKER_DENIED, uri_of(env, "127.0.0.1", ""), "requires a client's certificate");
        snprintf(rest, sizeof rest, "&tls_cert=%s/other.crt&tls_key=%s/other.key", directory, directory);
        refused(LOCKER_DENIED, uri_of(env, "127.0.0.1", rest), "refuses the client's certificate");
        snprintf(rest, sizeof rest, "&tls_cert=%s/client.crt&tls_key=%s/client.key", directory, directory);
        taken(uri_of(env, "127.0.0.1", rest));
    }
}

/* ------------------------------------------------------------------ what is written wrong ---- */

static void put(const lk_env *env, const char *name, const char *text, mode_t mode)
{
    char path[128];
    snprintf(path, sizeof path, "%s/%s", env->server->directory, name);
    FILE *file = fopen(path, "we");
    assert_non_null(file);
    assert_true(fputs(text, file) >= 0);
    assert_int_equal(fclose(file), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static void run(const lk_env *env, const char *command)
{
    char line[512];
    snprintf(line, sizeof line, "cd %s && { %s; } >log 2>&1", env->server->directory, command);
    if (system(line) != 0)
        test_fails("this failed: %s", line);
}

/* DIR stands for the server's directory. */
static void misconfigured(const lk_env *env, const char *query, const char *words)
{
    char text[512] = "", *to = text;
    for (const char *at = query; *at != '\0';) {
        const bool is_dir = strncmp(at, "DIR", 3) == 0;
        to += snprintf(to, sizeof text - (size_t)(to - text), "%s%.*s", is_dir ? env->server->directory : "",
                       is_dir ? 0 : 1, at);
        at += is_dir ? 3 : 1;
    }
    char uri[640];
    snprintf(uri, sizeof uri, "rediss://127.0.0.1:%d?%s", env->tls_port, text);
    refused(LOCKER_CONFIG, uri, words);
}

static void wrong_options_are_named(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    put(env, "words", "these are words\n", 0600);
    run(env, "cp client.key open.key && chmod 644 open.key");
    run(env, "openssl pkey -in client.key -aes128 -passout pass:sesame -out locked.key");
    misconfigured(env, "tls_verify=yes", "tls_verify is 'yes'; set it to name, ca or none");
    misconfigured(env, "tls_verify=ca", "tls_verify=ca needs tls_ca");
    misconfigured(env, "tls_verify=ca&tls_ca=system", "tls_verify=ca needs tls_ca");
    misconfigured(env, "tls_verify=none&tls_ca=DIR/ca.crt", "tls_ca has no effect with tls_verify=none");
    misconfigured(env, "tls_ca=DIR/nowhere", "cannot read tls_ca, /");
    misconfigured(env, "tls_ca=DIR", "tls_ca, /");
    misconfigured(env, "tls_ca=DIR/words", "tls_ca, /");
    misconfigured(env, "tls_cert=DIR/client.crt", "tls_cert needs tls_key");
    misconfigured(env, "tls_key=DIR/client.key", "tls_key needs tls_cert");
    misconfigured(env, "tls_cert=DIR/nowhere&tls_key=DIR/client.key", "cannot read tls_cert, /");
    misconfigured(env, "tls_cert=DIR/words&tls_key=DIR/client.key", "tls_cert, /");
    misconfigured(env, "tls_cert=DIR/client.crt&tls_key=DIR/nowhere", "cannot read tls_key, /");
    misconfigured(env, "tls_cert=DIR/client.crt&tls_key=DIR/words", "has no usable PEM key");
    misconfigured(env, "tls_cert=DIR/client.crt&tls_key=DIR/open.key", "is open to every user");
    misconfigured(env, "tls_cert=DIR/client.crt&tls_key=DIR/locked.key", "is encrypted");
    misconfigured(env, "tls_cert=DIR/client.crt&tls_key=DIR/other.key",
                  "is not the key of the certificate in tls_cert");
    misconfigured(env, "tls_name=.example.com", "tls_name is not a host name");
    misconfigured(env, "tls_name=*.example.com", "tls_name is not a host name");
    misconfigured(env, "tls_name=", "tls_name is not a host name");
    static const char *const names[] = {"tls_verify", "tls_ca", "tls_cert", "tls_key", "tls_name"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        assert_status(LOCKER_CONFIG, lk_try_uri(&l, &err, "redis://127.0.0.1?%s=name", names[i]), err);
        assert_non_null(strstr(err.text, names[i]));
        assert_non_null(strstr(err.text, "rediss"));
    }
}

/* Root reads everything, so it becomes somebody else for a moment. */
static void an_unreadable_key_is_told(void **state)
{
    lk_env *env = *state;
    const uid_t user = geteuid();
    char directory[64], command[384], uri[512];
    lk_private_directory(directory);
    snprintf(
        command, sizeof command,
        "cp ca.crt client.crt client.key %s && chmod 755 %s && chmod 644 %s/*.crt && chmod 0 %s/client.key",
        directory, directory, directory, directory);
    run(env, command);
    snprintf(uri, sizeof uri,
             "rediss://127.0.0.1:%d?tls_ca=%s/ca.crt&tls_cert=%s/client.crt&tls_key=%s/client.key",
             env->tls_port, directory, directory, directory);
    if (user == 0)
        assert_int_equal(seteuid(65534), 0);
    locker_error err;
    locker *l;
    const locker_status status = lk_try_uri(&l, &err, "%s", uri);
    assert_int_equal(seteuid(user), 0);
    assert_status(LOCKER_CONFIG, status, err);
    assert_non_null(strstr(err.text, "cannot read tls_key, /"));
    assert_non_null(strstr(err.text, "Permission denied"));
    lk_remove_directory(directory);
}

/* ------------------------------------------------------------------ who speaks what ---- */

static void a_port_without_tls_is_told(void **state)
{
    lk_env *env = *state;
    locker_error err;
    locker *l;
    const int port = env->tls_port;
    assert_int_not_equal(lk_try_uri(&l, &err, "redis://127.0.0.1:%d", port), LOCKER_OK); /* it is cut off */
    if (strstr(err.text, "rediss://") == NULL)
        test_fails("'%s' does not name rediss://", err.text);
    env->tls_port = env->server->port;
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "does not speak TLS");
    lk_server_do(env->server, "CONFIG SET requirepass sesame");
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "does not speak TLS");
}

/* A listener of our own, which takes connections and does with them what a test wants. */
typedef struct {
    int fd, port;
    const char *says; /* at once; NULL: nothing */
    bool trickles;    /* a byte of TLS each few ms */
    atomic_bool ending;
    atomic_uint taken;
    pthread_t thread;
} odd_server;

static void *receive_clients(void *argument)
{
    odd_server *s = argument;
    int fds[32];
    size_t count = 0;
    while (!s->ending) {
        struct pollfd waits = {.fd = s->fd, .events = POLLIN};
        if (poll(&waits, 1, 20) > 0 && count < 32 && (fds[count] = accept(s->fd, NULL, NULL)) >= 0) {
            s->taken++;
            if (s->says != NULL)
                (void)send(fds[count], s->says, strlen(s->says), MSG_NOSIGNAL);
            if (s->trickles) /* the head of a record that is long */
                (void)send(fds[count], "\x16\x03\x03\x3f\xff\x02", 6, MSG_NOSIGNAL);
            count++;
        }
        for (size_t i = 0; s->trickles && i < count; i++)
            (void)send(fds[i], "\0", 1, MSG_NOSIGNAL);
    }
    while (count > 0)
        close(fds[--count]);
    return NULL;
}

static void odd_server_begin(odd_server *s, int port)
{
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)port)};
    socklen_t size = sizeof address;
    const int on = 1;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    s->fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    (void)setsockopt(s->fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
    assert_int_equal(bind(s->fd, (struct sockaddr *)&address, sizeof address), 0);
    assert_int_equal(listen(s->fd, 16), 0);
    assert_int_equal(getsockname(s->fd, (struct sockaddr *)&address, &size), 0);
    s->port = ntohs(address.sin_port);
    assert_int_equal(pthread_create(&s->thread, NULL, receive_clients, s), 0);
}

static void odd_server_end(odd_server *s)
{
    s->ending = true;
    lk_join(s->thread, "a odd_server");
    close(s->fd);
}

static void a_server_of_another_protocol_is_reported(void **state)
{
    lk_env *env = *state;
    odd_server http = {.says = "HTTP/1.1 400 Bad Request\r\n\r\n"};
    odd_server_begin(&http, 0);
    env->tls_port = http.port;
    refused(LOCKER_PROTOCOL, uri_of(env, "127.0.0.1", ""), "does not speak TLS; ");
    odd_server_end(&http);
    odd_server alert = {.says = "\x15\x03\x03"}; /* what is usual */
    locker_error err;
    locker *l;
    odd_server_begin(&alert, 0);
    assert_status(LOCKER_PROTOCOL, lk_try_uri(&l, &err, "redis://127.0.0.1:%d", alert.port), err);
    assert_non_null(strstr(err.text, "speaks TLS; write rediss://"));
    odd_server_end(&alert);
}

/* Who says nothing, or a little now and then, is given up in time, and for now. */
static void silence_ends_in_time(void **state)
{
    lk_env *env = *state;
    for (int i = 0; i < 2; i++) {
        odd_server s = {.trickles = i == 1};
        odd_server_begin(&s, 0);
        env->tls_port = s.port;
        const int64_t began = lk_test_now_ms();
        locker_error err;
        locker *l;
        assert_status(LOCKER_UNAVAILABLE,
                      lk_try_uri(&l, &err, "%s", uri_of(env, "127.0.0.1", "&connect_timeout=700ms")), err);
        const int64_t took = lk_test_now_ms() - began;
        assert_non_null(strstr(err.text, "did not complete the TLS handshake"));
        assert_true(took >= 600);
        assert_timely(took, 700 + LK_TEST_SLACK_MS);
        odd_server_end(&s);
    }
}

/* ------------------------------------------------------------------ connections that are made anew ---- */

static bool is_reached(void *context)
{
    return ((odd_server *)context)->taken > 0;
}

/* While a handshake hangs, nobody else does: calls that don't wait answer, handles tell their state, and closing ends. */
static void a_handshake_that_hangs_delays_no_call(void **state)
{
    lk_env *env = *state;
    locker *l = open_tls(env, "&connect_timeout=20s&cleanup_timeout=300ms&ttl=2s");
    locker_handle *held = lk_take(l, "held"), *none = NULL;
    lk_locking waiter;
    locker_lock_options brief = lk_wait_options(300);
    odd_server s = {.trickles = true};
    locker_error err;
    lk_server_kill(env->server);
    odd_server_begin(&s, env->tls_port);
    lk_locking_start(&waiter, l, "waited-for", &brief);
    lk_require(is_reached, &s, "it should connect anew");
    const int64_t began = lk_test_now_ms();
    assert_int_equal(lk_locking_join(&waiter), LOCKER_UNAVAILABLE);
    assert_timely(waiter.ended_ms - waiter.began_ms, 300 + LK_TEST_SLACK_MS);
    locker_lock_options briefer = lk_wait_options(50);
    assert_status(LOCKER_UNAVAILABLE, locker_lock(l, "another", &briefer, &none, &err), err);
    lk_require_state(held, LOCKER_STATE_LOST); /* in its time */
    assert_timely(lk_test_now_ms() - began, 2000 + LK_TEST_SLACK_MS);
    lk_give_lost(held);
    const int64_t closing = lk_test_now_ms();
    lk_close_locker(l);
    assert_timely(lk_test_now_ms() - closing, 300 + LK_TEST_SLACK_MS);
    odd_server_end(&s);
}

static void a_lost_connection_loses_no_lock(void **state)
{
    lk_env *env = *state;
    locker *l = open_tls(env, "");
    locker_handle *held = lk_take(l, "kept");
    for (int i = 0; i < 3; i++) {
        cut_all(env);
        lk_give(lk_take(l, "meanwhile"));
    }
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_give(held);
    lk_close_locker(l);
}

/* A certificate that is over by now is a reason to say so at once; a new one is all that it takes. */
static void a_certificate_that_expires_is_told_and_its_successor_is_taken(void **state)
{
    lk_env *env = *state;
    locker *l = open_tls(env, "");
    locker_handle *held;
    locker_error err;
    show_certificate(
        env, &(lk_certificate){
                 .name = "over", .by = "ca", .names = "IP:127.0.0.1", .from_s = -9000, .to_s = -3600});
    cut_all(env);
    const int64_t began = lk_test_now_ms();
    assert_status(LOCKER_PROTOCOL, locker_lock(l, "key", NULL, &held, &err), err);
    assert_non_null(strstr(err.text, "expired on"));
    assert_timely(lk_test_now_ms() - began, 5000);
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "no");
    locker_lock_options bounded = lk_wait_options(LK_TEST_PATIENCE_MS);
    while (locker_lock(l, "key", &bounded, &held, &err) == LOCKER_PROTOCOL &&
           lk_test_now_ms() - began < LK_TEST_PATIENCE_MS)
        lk_pause_ms(20);
    assert_non_null(held);
    lk_give(held);
    lk_close_locker(l);
}

/* Certificates are short-lived: those in the files now are used for the next connection; and if the files are gone, what they
 * held when the locker was opened. */
static void files_are_read_again(void **state)
{
    lk_env *env = *state;
    const char *directory = env->server->directory;
    char uri[512];
    locker_error err;
    locker *l;
    run(env, "mkdir mine && cp -p ca.crt client.crt client.key mine/");
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "yes");
    snprintf(
        uri, sizeof uri,
        "rediss://127.0.0.1:%d?tls_ca=%s/mine/ca.crt&tls_cert=%s/mine/client.crt&tls_key=%s/mine/client.key",
        env->tls_port, directory, directory, directory);
    assert_ok(lk_try_uri(&l, &err, "%s", uri), err);
    lk_give(lk_take(l, "before"));
    run(env, "mkdir old && cp -p ca.crt ca.key server.crt server.key old/");
    lk_test_certificates(env->server); /* other authorities of the same names */
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "no");
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "yes");
    run(env, "cp -p ca.crt client.crt client.key mine/");
    cut_all(env);
    lk_give(lk_take(l, "after"));
    run(env, "rm -r mine && cp -p old/* .");
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "no");
    (void)lk_test_speak_tls(env->server, env->tls_port, "server", "yes");
    cut_all(env);
    lk_give(lk_take(l, "without"));
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ what is said meanwhile ---- */

enum { THREADS = 8, TURNS = 40 };

typedef struct {
    locker *l;
    int number;
    atomic_uint *done;
    bool lost; /* a lease had ended */
    char error[LOCKER_ERROR_TEXT_MAX];
} worker;

static void *work(void *argument)
{
    worker *w = argument;
    const locker_lock_options bounded = lk_wait_options(LK_TEST_PATIENCE_MS);
    for (int i = 0; i < TURNS && w->error[0] == '\0'; i++) {
        char key[32];
        locker_handle *held = NULL;
        locker_error err;
        snprintf(key, sizeof key, "own:%d", i % 2 == 0 ? w->number : THREADS);
        locker_status status = locker_lock(w->l, key, &bounded, &held, &err);
        if (status == LOCKER_OK)
            status = locker_unlock(held, &err);
        if (status == LOCKER_LOST)
            w->lost = true;
        else if (status != LOCKER_OK)
            snprintf(w->error, sizeof w->error, "%s", err.text);
        locker_handle_free(held);
        atomic_fetch_add(w->done, 1);
    }
    return NULL;
}

/* Many threads on one connection, beside locks that are held. */
static void storm(const lk_env *env)
{
    enum { HELD = 20 };
    worker workers[THREADS];
    pthread_t threads[THREADS];
    atomic_uint done = 0;
    locker_handle *held[HELD];
    locker *l = open_tls(env, "&ttl=1s");
    for (int i = 0; i < HELD; i++) {
        char key[32];
        snprintf(key, sizeof key, "held:%d", i);
        held[i] = lk_take(l, key);
    }
    for (int i = 0; i < THREADS; i++) {
        workers[i] = (worker){.l = l, .number = i, .done = &done};
        assert_int_equal(pthread_create(&threads[i], NULL, work, &workers[i]), 0);
    }
    for (int i = 0; i < THREADS; i++)
        lk_join_worker(threads[i], &done, "they lock and unlock");
    for (int i = 0; i < THREADS; i++) {
        assert_string_equal(workers[i].error, "");
        (void)assert_unless_late(!workers[i].lost);
    }
    for (int i = 0; i < HELD; i++)
        lk_give_unless_late(held[i]);
    lk_close_locker(l);
}

static bool has_four(void *front)
{
    return lk_tls_front_connections(front) >= 4;
}

/* Each answer comes in records of so few bytes. What OpenSSL has read ahead is not seen by poll: what is left there would come
 * with the next answer, and a renewal that the keeper alone waits for would be confirmed by the one after it. */
static void small_records_are_read(void **state)
{
    lk_env *env = *state;
    env->front = lk_tls_front_begin(env->server, "server", (lk_tls_manners){.record = 3});
    env->tls_port = lk_tls_front_port(env->front);
    storm(env);
    locker *l = open_tls(env, "&ttl=3s");
    const int64_t began = lk_test_now_ms();
    locker_handle *held = lk_take(l, "renewed");
    int64_t before = INT64_MAX, now;
    while ((now = locker_handle_remaining_ms(held)) <= before &&
           lk_test_now_ms() - began < LK_TEST_PATIENCE_MS) {
        before = now;
        lk_pause_ms(5);
    }
    const int64_t took = lk_test_now_ms() - began;
    assert_timely(took, 1000 + LK_TEST_SLACK_MS); /* a renewal after 1000 ms */
    lk_give(held);
    lk_require(has_four, env->front, "the connection for messages should be there");
    lk_close_locker(l);
    assert_unless_late(lk_tls_front_connections(env->front) == 4); /* none was given up */
}

/* New keys are asked for with each answer, and ours has to be sent before what else is. */
static void changes_of_keys_stall_nobody(void **state)
{
    lk_env *env = *state;
    env->front =
        lk_tls_front_begin(env->server, "server", (lk_tls_manners){.changes_keys = true, .record = 60});
    env->tls_port = lk_tls_front_port(env->front);
    storm(env);
    lk_short_sends = 11;
    storm(env);
    lk_short_sends = 0;
    assert_unless_late(lk_tls_front_connections(env->front) == 4);
}

/* There is no room, again and again, in the midst of records. */
static void records_that_leave_in_pieces_arrive(void **state)
{
    static const char *const versions[] = {"TLSv1.3", "TLSv1.2"};
    lk_env *env = *state;
    for (size_t i = 0; i < 2; i++) {
        lk_server_do(env->server, "CONFIG SET tls-protocols %s", versions[i]);
        lk_short_sends = 7;
        storm(env);
        lk_short_sends = 0;
    }
}

/* A server that begins the handshake anew is told that this client does not, and ends the connection: which is told, and not
 * waited for. */
static void a_handshake_that_is_begun_anew_stalls_nobody(void **state)
{
    lk_env *env = *state;
    env->front = lk_tls_front_begin(env->server, "server",
                                    (lk_tls_manners){.begins_anew = true, .most_version = TLS1_2_VERSION});
    env->tls_port = lk_tls_front_port(env->front);
    locker *l = open_tls(env, "&cleanup_timeout=300ms");
    for (int i = 0; i < 3; i++) {
        locker_lock_options brief = lk_wait_options(300);
        locker_handle *held = NULL;
        locker_error err;
        const int64_t began = lk_test_now_ms();
        const locker_status status = locker_lock(l, "key", &brief, &held, &err);
        if (status != LOCKER_OK && status != LOCKER_UNAVAILABLE && status != LOCKER_TIMEOUT)
            test_fails("the lock is answered by: %s", err.text);
        assert_timely(lk_test_now_ms() - began, 300 + LK_TEST_SLACK_MS);
        locker_handle_free(held);
    }
    lk_close_locker(l);
    assert_true(lk_tls_front_connections(env->front) > 1); /* it was ended, and made anew */
}

/* ------------------------------------------------------------------ signals and forks ---- */

static atomic_uint pipes;

static void count_pipe(int number)
{
    (void)number;
    pipes++;
}

static void a_broken_connection_raises_no_sigpipe(void **state)
{
    lk_env *env = *state;
    const struct sigaction counts = {.sa_handler = count_pipe};
    struct sigaction before;
    assert_int_equal(sigaction(SIGPIPE, &counts, &before), 0);
    locker *l = open_tls(env, "&cleanup_timeout=200ms&command_timeout=200ms&ttl=60s");
    locker_handle *held = lk_take(l, "held");
    lk_server_kill(env->server);
    locker_error err;
    locker_handle *none = NULL;
    locker_lock_options brief = lk_wait_options(100);
    for (int i = 0; i < 5; i++)
        assert_int_not_equal(locker_lock(l, "key", &brief, &none, &err), LOCKER_OK);
    locker_handle_free(held);
    (void)locker_close(l);
    assert_int_equal(sigaction(SIGPIPE, &before, NULL), 0);
    assert_int_equal(pipes, 0);
    assert_int_equal(lk_loud_sends, 0); /* a cut rarely meets a send */
}

static bool has_two_connections(void *front)
{
    return lk_tls_front_connections(front) == 2;
}

static bool has_farewells(void *front)
{
    return lk_tls_front_farewells(front) > 0;
}

/* A fork's child says nothing to the server, whatever it does with its copy. */
static void a_forks_child_ends_no_connection(void **state)
{
    lk_env *env = *state;
    env->front = lk_tls_front_begin(env->server, "server", (lk_tls_manners){0});
    env->tls_port = lk_tls_front_port(env->front);
    locker *l = open_tls(env, "");
    locker_handle *held = lk_take(l, "held");
    locker_error err;
    lk_require(has_two_connections, env->front, "a holder should subscribe");
    fflush(NULL);
    const pid_t pid = fork();
    if (pid == 0) {
        (void)locker_close(l);
        _exit(0);
    }
    int status = -1;
    assert_int_equal(waitpid(pid, &status, 0), pid);
    assert_int_equal(status, 0);
    for (int i = 0; i < 5; i++)
        lk_give(lk_take(l, "another"));
    assert_int_equal(lk_tls_front_farewells(env->front), 0);
    assert_int_equal(lk_tls_front_connections(env->front), 2);
    lk_give(held);
    lk_close_locker(l);
    /* A farewell is thrown away with a connection on which something is unread, which is not so of one that only asked. */
    l = open_tls(env, "");
    assert_ok(locker_ping(l, NULL, &err), err);
    lk_close_locker(l);
    lk_require(has_farewells, env->front, "who closes should say so");
}

static const struct CMUnitTest tests[] = {
    tls_test(locks_are_taken_and_handed_on),
    tls_test(valkeys_is_tls),
    tls_test(old_versions_are_refused),
    tls_test(the_name_is_checked),
    tls_test(the_hosts_name_is_checked),
    tls_test(an_address_of_ipv6_is_checked),
    tls_test(the_client_sends_the_server_name),
    tls_test(a_master_behind_a_replica_is_checked),
    tls_test(what_is_wrong_with_a_certificate_is_told),
    tls_test(other_anchors_are_trusted),
    tls_test(clients_certificates_are_shown),
    tls_test(wrong_options_are_named),
    tls_test(an_unreadable_key_is_told),
    tls_test(a_port_without_tls_is_told),
    tls_test(a_server_of_another_protocol_is_reported),
    tls_test(silence_ends_in_time),
    tls_test(a_handshake_that_hangs_delays_no_call),
    tls_test(a_lost_connection_loses_no_lock),
    tls_test(a_certificate_that_expires_is_told_and_its_successor_is_taken),
    tls_test(files_are_read_again),
    tls_test(small_records_are_read),
    tls_test(changes_of_keys_stall_nobody),
    tls_test(records_that_leave_in_pieces_arrive),
    tls_test(a_handshake_that_is_begun_anew_stalls_nobody),
    tls_test(a_broken_connection_raises_no_sigpipe),
    tls_test(a_forks_child_ends_no_connection),
};

const lk_group lk_tls = {"tls", tests, sizeof tests / sizeof tests[0], NULL, NULL};
