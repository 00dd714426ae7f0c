/* tls.c: see tls.h. One mutex a connection, innermost of all, lets one thread send while another receives; it is held across
 * nothing that waits. */
#include <arpa/inet.h>
#include <errno.h>
#include <openssl/err.h>
#include <openssl/x509v3.h>
#include <poll.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>

#include "lk_buffer.h"
#include "lk_mutex.h"
#include "tls.h"
#include "tls_openssl.h"

enum {
    NAME_MAX_LEN = 255,
    PROTOCOL_MAX_LEN = 255,
    ALERTS_BEGIN = SSL_AD_REASON_OFFSET, /* an alert that has come is an error of this number and its own */
    ALERTS_END = ALERTS_BEGIN + 256,
    ALERT_RECORD = 21, /* what a server that speaks TLS begins with: one of these (RFC 8446, 5.1) */
    HANDSHAKE_RECORD = 22
};

struct lk_tls {
    lk_mutex mutex; /* guards what follows, but what is constant */
    int fd;         /* constant, as the next three */
    const lk_tls_settings *settings;
    BIO_METHOD *method;
    char name[NAME_MAX_LEN + 1]; /* the server's, as it is checked */
    SSL *ssl LK_GUARDED_BY(mutex);
    lk_buffer out LK_GUARDED_BY(mutex); /* records that found no room ... */
    size_t gone LK_GUARDED_BY(mutex);   /* ... of which so much has been sent */
    bool heard LK_GUARDED_BY(mutex);    /* something has come ... */
    char first LK_GUARDED_BY(mutex);    /* ... which began with this */
    bool ended LK_GUARDED_BY(mutex);    /* the other end has closed the connection */
    bool broken LK_GUARDED_BY(mutex);   /* nothing more can be said on it */
    bool is_up LK_GUARDED_BY(mutex);    /* the handshake is done */
    bool asked LK_GUARDED_BY(mutex);    /* the server has asked for a certificate */
    int failure LK_GUARDED_BY(mutex);   /* the errno of what the system refused last; 0: nothing */
    int reason LK_GUARDED_BY(mutex);    /* of OpenSSL, why it is broken; 0: none */
    char wrong[LK_TLS_WORDS] LK_GUARDED_BY(
        mutex); /* what is wrong with the server's certificate; "": nothing */
};

/* What OpenSSL calls while a function below has the mutex: the compiler can't follow that. */

/* 0: there is no room. -1: tls->failure says why. */
LK_UNCHECKED static ssize_t send_bytes(lk_tls *tls, const char *data, size_t len)
{
    ssize_t n;
    do {
        n = send(tls->fd, data, len, MSG_DONTWAIT | MSG_NOSIGNAL);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        return 0;
    if (n < 0)
        tls->failure = errno;
    return n;
}

/* Take all bytes. Keep those for which the socket has no room: if a part of a record remained with OpenSSL, OpenSSL would answer
 * a change of keys that it reads meanwhile, and break off ("bad length", 3.0). */
LK_UNCHECKED static int write_bytes(BIO *bio, const char *data, int len)
{
    lk_tls *tls = BIO_get_data(bio);
    BIO_clear_retry_flags(bio);
    const ssize_t n = tls->out.len == 0 ? send_bytes(tls, data, (size_t)len) : 0;
    if (n < 0 || n == len)
        return (int)n;
    const size_t rest = (size_t)len - (size_t)n;
    char *const room = lk_buffer_room(&tls->out, rest);
    if (room == NULL) {
        tls->failure = ENOMEM;
        return -1;
    }
    memcpy(room, data + n, rest);
    tls->out.len += rest;
    return len;
}

LK_UNCHECKED static int read_bytes(BIO *bio, char *data, int cap)
{
    lk_tls *tls = BIO_get_data(bio);
    ssize_t n;
    BIO_clear_retry_flags(bio);
    do {
        n = recv(tls->fd, data, (size_t)cap, MSG_DONTWAIT);
    } while (n < 0 && errno == EINTR);
    if (n < 0 && errno == EAGAIN)
        BIO_set_retry_read(bio);
    else if (n < 0)
        tls->failure = errno;
    else if (n == 0)
        tls->ended = true;
    else if (!tls->heard)
        tls->first = data[0];
    tls->heard = tls->heard || n > 0;
    return (int)n;
}

LK_UNCHECKED static long control(BIO *bio, int what, long number, void *pointer)
{
    (void)number;
    (void)pointer;
    const lk_tls *tls = BIO_get_data(bio);
    if (what == BIO_CTRL_EOF)
        return tls->ended ? 1 : 0;
    return what == BIO_CTRL_FLUSH ? 1 : 0;
}

LK_UNCHECKED static int on_verified(int good, X509_STORE_CTX *found)
{
    const SSL *const ssl = X509_STORE_CTX_get_ex_data(found, SSL_get_ex_data_X509_STORE_CTX_idx());
    lk_tls *tls = SSL_get_app_data(ssl);
    if (good == 0 && tls->wrong[0] == '\0')
        lk_tls_say_wrong(found, tls->settings, tls->name, tls->wrong);
    return good;
}

LK_UNCHECKED static int on_asked(SSL *ssl, void *self)
{
    lk_tls *tls = self;
    (void)ssl;
    tls->asked = true;
    return 1;
}

/* ------------------------------------------------------------------ beginning and end ---- */

/* The name that the settings say, or the host's. "example.com." is as good as without its last point, and what names the
 * interface of an address ("fe80::1%eth0") is no part of it. False: nobody can have such a name. */
static bool take_name(lk_tls *tls, const char *host)
{
    const char *from = tls->settings->name != NULL ? tls->settings->name : host;
    size_t len = strlen(from);
    if (from[0] == '[' && from[len - 1] == ']') {
        from++;
        len -= 2;
    }
    if (memchr(from, ':', len) != NULL && memchr(from, '%', len) != NULL)
        len = (size_t)((const char *)memchr(from, '%', len) - from);
    if (len > 0 && from[len - 1] == '.')
        len--;
    if (len == 0 || len > NAME_MAX_LEN || from[0] == '.') /* that is any name below it to OpenSSL */
        return false;
    memcpy(tls->name, from, len);
    return true;
}

/* What the certificate has to be for, and what the server is told that it is called: addresses aren't told (RFC 6066). */
static bool ask_for_name(const lk_tls *tls, SSL *ssl)
{
    unsigned char address[sizeof(struct in6_addr)];
    const bool is_address =
        inet_pton(AF_INET, tls->name, address) == 1 || inet_pton(AF_INET6, tls->name, address) == 1;
    const bool is_checked = tls->settings->verify == LK_TLS_NAME;
    if (!is_address && SSL_set_tlsext_host_name(ssl, tls->name) != 1)
        return false;
    SSL_set_hostflags(ssl, X509_CHECK_FLAG_NO_PARTIAL_WILDCARDS);
    if (!is_checked)
        return true;
    return is_address ? X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), tls->name) == 1
                      : SSL_set1_host(ssl, tls->name) == 1;
}

/* It alone is spoken by this TLS. NULL is allowed. */
static bool offer_protocol(const char *name, SSL *ssl)
{
    unsigned char list[1 + PROTOCOL_MAX_LEN];
    if (name == NULL)
        return true;
    const size_t len = strlen(name);
    if (len == 0 || len > PROTOCOL_MAX_LEN)
        return false;
    list[0] = (unsigned char)len;
    memcpy(list + 1, name, len);
    return SSL_set_alpn_protos(ssl, list, (unsigned)len + 1) == 0; /* 0 is good */
}

static bool make_bio(lk_tls *tls, SSL *ssl)
{
    tls->method = BIO_meth_new(BIO_TYPE_SOURCE_SINK, "locker");
    if (tls->method == NULL || BIO_meth_set_write(tls->method, write_bytes) != 1 ||
        BIO_meth_set_read(tls->method, read_bytes) != 1 || BIO_meth_set_ctrl(tls->method, control) != 1)
        return false;
    BIO *const bio = BIO_new(tls->method);
    if (bio == NULL)
        return false;
    BIO_set_data(bio, tls);
    BIO_set_init(bio, 1);
    SSL_set_bio(ssl, bio, bio);
    return true;
}

/* Files that were changed are used as they are now, as certificates don't last; as they were, while they can't be. */
static SSL *make_ssl(const lk_tls_settings *settings)
{
    SSL_CTX *const now = lk_tls_read_files(settings, NULL);
    SSL *const ssl = SSL_new(now != NULL ? now : settings->files);
    SSL_CTX_free(now); /* what it is made of keeps it */
    return ssl;
}

/* Nobody else sees it yet. */
LK_UNCHECKED lk_tls *lk_tls_new(const lk_tls_settings *settings, int fd, const char *host)
{
    lk_tls *tls = calloc(1, sizeof *tls);
    if (tls == NULL)
        return NULL;
    lk_mutex_init(&tls->mutex);
    tls->fd = fd;
    tls->settings = settings;
    tls->ssl = make_ssl(settings);
    if (tls->ssl == NULL || !take_name(tls, host) || !ask_for_name(tls, tls->ssl) ||
        !offer_protocol(settings->alpn, tls->ssl) || !make_bio(tls, tls->ssl)) {
        lk_tls_free(tls, false);
        return NULL;
    }
    (void)SSL_set_app_data(tls->ssl, tls);
    if (settings->verify != LK_TLS_NONE)
        SSL_set_verify(tls->ssl, SSL_get_verify_mode(tls->ssl), on_verified);
    SSL_set_cert_cb(tls->ssl, on_asked, tls);
    SSL_set_connect_state(tls->ssl);
    return tls;
}

/* Nobody else uses it any more. */
LK_UNCHECKED void lk_tls_free(lk_tls *tls, bool farewell)
{
    if (tls == NULL)
        return;
    ERR_clear_error();
    if (farewell && tls->is_up && !tls->broken)
        (void)SSL_shutdown(tls->ssl);
    SSL_free(tls->ssl);
    BIO_meth_free(tls->method);
    free(tls->out.data);
    ERR_clear_error();
    lk_mutex_destroy(&tls->mutex);
    free(tls);
}

static bool is_name(const char *text)
{
    static const char letters[] = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789-_.:[]%";
    return text[0] != '\0' && text[0] != '.' && strlen(text) <= NAME_MAX_LEN &&
           strspn(text, letters) == strlen(text);
}

/* A program that was linked with OpenSSL statically, and exports its symbols, has the linker take that copy for ours. */
static locker_status check_release(locker_error *err)
{
    const unsigned long built = OPENSSL_VERSION_NUMBER, runs = OpenSSL_version_num();
    return built >> 28 == runs >> 28
               ? LOCKER_OK
               : lk_unsupported(
                     err,
                     "the program exports the functions of its own OpenSSL, %#lx, but this library was built "
                     "for %#lx; link the program with the same release, or do not export these functions",
                     runs, built);
}

/* A program may end by exit() while a thread of ours still has a handshake to do: OpenSSL is not to clean up beneath it. */
locker_status lk_tls_open_files(lk_tls_settings *s, locker_error *err)
{
    const locker_status status = check_release(err);
    if (status != LOCKER_OK)
        return status;
    if (s->verify == LK_TLS_CA && s->ca == NULL)
        return lk_misconfigured(
            err, "tls_verify=ca needs tls_ca, the file of your own authority; with the system's "
                 "authorities, the owner of any certificate could pose as the server");
    if (s->verify == LK_TLS_NONE && s->ca != NULL)
        return lk_misconfigured(err, "tls_ca has no effect with tls_verify=none; leave one of them out");
    if ((s->cert != NULL) != (s->key != NULL))
        return lk_misconfigured(
            err, "%s",
            s->cert != NULL ? "tls_cert needs tls_key; set tls_key to the file with the certificate's key"
                            : "tls_key needs tls_cert; set tls_cert to the file with the key's certificate");
    if (s->name != NULL && !is_name(s->name))
        return lk_misconfigured(err, "tls_name is not a host name or an address; set it "
                                     "to the name in the server's certificate");
    (void)OPENSSL_init_ssl(OPENSSL_INIT_NO_ATEXIT, NULL);
    s->files = lk_tls_read_files(s, err);
    return s->files != NULL ? LOCKER_OK : LOCKER_CONFIG;
}

void lk_tls_close_files(SSL_CTX *files)
{
    SSL_CTX_free(files);
}

/* ------------------------------------------------------------------ speaking ---- */

/* Before each call of OpenSSL that may fail: errors of this thread that nobody has looked at would be taken for its own. */
static void begin_locked(lk_tls *tls) LK_REQUIRES(tls->mutex)
{
    tls->failure = 0;
    ERR_clear_error();
}

/* A call has failed. An errno: EAGAIN where something has to be read first, as writing never waits; ECONNRESET at the end. */
static int end_locked(lk_tls *tls) LK_REQUIRES(tls->mutex)
{
    const unsigned long code = ERR_peek_error();
    const int what = SSL_get_error(tls->ssl, 0);
    if (what == SSL_ERROR_WANT_READ)
        return EAGAIN;
    if (what == SSL_ERROR_ZERO_RETURN) { /* the server says that it has nothing more to say */
        tls->ended = true;
        return ECONNRESET;
    }
    tls->broken = true;
    if (!tls->ended && ERR_GET_LIB(code) == ERR_LIB_SSL)
        tls->reason = ERR_GET_REASON(code);
    ERR_clear_error();
    if (tls->failure != 0)
        return tls->failure;
    return tls->ended ? ECONNRESET : EPROTO;
}

/* Send the records that were kept, as far as the socket has room. 0, or an errno. */
static int flush_locked(lk_tls *tls) LK_REQUIRES(tls->mutex)
{
    ssize_t n = 1;
    while (n > 0 && tls->gone < tls->out.len) {
        n = send_bytes(tls, tls->out.data + tls->gone, tls->out.len - tls->gone);
        tls->gone += n > 0 ? (size_t)n : 0;
    }
    if (tls->gone == tls->out.len) {
        lk_buffer_empty(&tls->out);
        tls->gone = 0;
    }
    tls->broken = tls->broken || n < 0;
    return n < 0 ? tls->failure : 0;
}

/* Check that the handshake agreed on settings->alpn. A server without ALPN ignores the offer: that is treated as if the server
 * had sent the alert of a server that refuses the offer. 0, or an errno. */
static int agree_locked(lk_tls *tls) LK_REQUIRES(tls->mutex)
{
    const char *const wanted = tls->settings->alpn;
    const unsigned char *got;
    unsigned len;
    SSL_get0_alpn_selected(tls->ssl, &got, &len);
    if (wanted != NULL && (len != strlen(wanted) || memcmp(got, wanted, len) != 0)) {
        tls->broken = true;
        tls->reason = ALERTS_BEGIN + SSL_AD_NO_APPLICATION_PROTOCOL;
        return EPROTO;
    }
    return 0;
}

int lk_tls_handshake(lk_tls *tls, short *waits)
{
    lk_mutex_lock(&tls->mutex);
    begin_locked(tls);
    int failure = flush_locked(tls);
    if (failure == 0) {
        tls->is_up = SSL_do_handshake(tls->ssl) == 1;
        failure = tls->is_up ? agree_locked(tls) : end_locked(tls);
    }
    *waits = (short)(tls->out.len > 0 ? POLLIN | POLLOUT : POLLIN);
    lk_mutex_unlock(&tls->mutex);
    return failure;
}

ssize_t lk_tls_send(lk_tls *tls, const char *data, size_t len, short *waits, bool *unsent)
{
    size_t sent = 0;
    lk_mutex_lock(&tls->mutex);
    begin_locked(tls);
    int failure = flush_locked(tls);
    if (failure == 0 && tls->out.len > 0)
        failure = EAGAIN;
    else if (failure == 0 && len > 0 && SSL_write_ex(tls->ssl, data, len, &sent) != 1)
        failure = end_locked(tls);
    *unsent = tls->out.len > 0;
    *waits = *unsent ? POLLOUT : POLLIN;
    lk_mutex_unlock(&tls->mutex);
    if (failure == 0)
        return (ssize_t)sent;
    errno = failure;
    return -1;
}

ssize_t lk_tls_receive(lk_tls *tls, char *data, size_t cap, bool *more)
{
    size_t got = 0;
    lk_mutex_lock(&tls->mutex);
    begin_locked(tls);
    const int failure = SSL_read_ex(tls->ssl, data, cap, &got) == 1 ? 0 : end_locked(tls);
    *more = failure == 0 && SSL_has_pending(tls->ssl) == 1;
    const bool ended = tls->ended;
    lk_mutex_unlock(&tls->mutex);
    if (failure == 0)
        return (ssize_t)got;
    errno = failure;
    return ended && failure != EAGAIN ? 0 : -1;
}

/* ------------------------------------------------------------------ what went wrong ---- */

/* The thread that connects asks; nobody else uses it yet. */
LK_UNCHECKED bool lk_tls_heard(const lk_tls *tls)
{
    return tls->heard;
}

LK_UNCHECKED bool lk_tls_told(const lk_tls *tls, const char *peer, locker_error *err, bool *permanent)
{
    const int reason = tls->reason;
    *permanent = true;
    if (tls->wrong[0] != '\0') {
        locker_error_set(err, LOCKER_PROTOCOL, 0, "the certificate of %s at %s%s", tls->settings->service,
                         peer, tls->wrong);
    } else if (tls->heard && tls->first != ALERT_RECORD && tls->first != HANDSHAKE_RECORD) {
        locker_error_set(
            err, LOCKER_PROTOCOL, 0,
            "the server at %s does not speak TLS; name its TLS port, or %s if you trust the network", peer,
            tls->settings->without_tls);
    } else if (reason > ALERTS_BEGIN && reason < ALERTS_END) {
        *permanent = lk_tls_say_alert(reason - ALERTS_BEGIN, tls->asked, tls->settings, peer, err);
    } else if (reason != 0 && !tls->is_up) {
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "cannot agree on TLS with %s at %s: %s; allow TLS 1.2 "
                         "or 1.3 and common ciphers and keys there",
                         tls->settings->service, peer,
                         ERR_reason_error_string(ERR_PACK(ERR_LIB_SSL, 0, reason)));
    } else {
        *permanent = false;
        return false;
    }
    return true;
}
