/* tls_files.c: read the certificate files that the settings name, and explain which one is unusable. */
#include <errno.h>
#include <fcntl.h>
#include <openssl/err.h>
#include <openssl/x509.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lk_fd.h"
#include "lk_trust.h"
#include "tls_openssl.h"

static const char *reason(void)
{
    const char *const text = ERR_reason_error_string(ERR_peek_last_error());
    return text != NULL ? text : "OpenSSL gives no reason";
}

/* OpenSSL says of all files alike that it can't use them. A key that everybody can read is no secret. */
static locker_status look_at(const char *option, const char *path, bool secret, locker_error *err)
{
    struct stat state = {.st_mode = 0};
    const int fd = lk_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const int failure = fd < 0 || fstat(fd, &state) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    if (failure != 0)
        return locker_error_set(err, LOCKER_CONFIG, failure,
                                "cannot read %s, %.200s: %s; check its path and rights", option, path,
                                strerror(failure));
    if (!S_ISREG(state.st_mode))
        return lk_misconfigured(err, "%s, %.200s, is not a file; name a PEM file", option, path);
    if (secret && (state.st_mode & S_IRWXO) != 0)
        return lk_misconfigured(err,
                                "%s, %.200s, is open to every user of this machine; "
                                "run chmod o= on it, and consider a new key",
                                option, path);
    const char *const problem = lk_trust_problem(path, &state);
    return problem == NULL ? LOCKER_OK
                           : lk_misconfigured(err, "cannot trust %s, %.200s: %s", option, path, problem);
}

/* OpenSSL would ask for a password on the terminal. */
/* NOLINTNEXTLINE(readability-non-const-parameter): OpenSSL says its type */
static int has_no_password(char *text, int size, int writes, void *asked)
{
    (void)text;
    (void)size;
    (void)writes;
    *(bool *)asked = true;
    return -1;
}

static locker_status take_authorities(SSL_CTX *files, const lk_tls_settings *s, locker_error *err)
{
    if (s->verify == LK_TLS_NONE)
        return LOCKER_OK;
    if (s->ca == NULL)
        return SSL_CTX_set_default_verify_paths(files) == 1
                   ? LOCKER_OK
                   : lk_misconfigured(err, "tls_ca=system: cannot load the system's authorities: %s",
                                      reason());
    const locker_status status = look_at("tls_ca", s->ca, false, err);
    if (status != LOCKER_OK)
        return status;
    return SSL_CTX_load_verify_locations(files, s->ca, NULL) == 1
               ? LOCKER_OK
               : lk_misconfigured(err, "tls_ca, %.200s, has no PEM certificate: %s", s->ca, reason());
}

static bool is_mismatch(void)
{
    const unsigned long code = ERR_peek_last_error();
    const int why = ERR_GET_REASON(code);
    return ERR_GET_LIB(code) == ERR_LIB_X509 &&
           (why == X509_R_KEY_VALUES_MISMATCH || why == X509_R_KEY_TYPE_MISMATCH);
}

static locker_status take_key(SSL_CTX *files, const lk_tls_settings *s, locker_error *err)
{
    bool asked = false;
    SSL_CTX_set_default_passwd_cb(files, has_no_password);
    SSL_CTX_set_default_passwd_cb_userdata(files, &asked);
    const bool taken = SSL_CTX_use_PrivateKey_file(files, s->key, SSL_FILETYPE_PEM) == 1;
    SSL_CTX_set_default_passwd_cb_userdata(files, NULL);
    if (asked)
        return lk_misconfigured(err,
                                "tls_key, %.200s, is encrypted; decrypt it (openssl "
                                "pkey) into a file that only this user can read",
                                s->key);
    if (!taken && !is_mismatch())
        return lk_misconfigured(err, "tls_key, %.200s, has no usable PEM key: %s", s->key, reason());
    return taken && SSL_CTX_check_private_key(files) == 1
               ? LOCKER_OK
               : lk_misconfigured(err,
                                  "tls_key, %.150s, is not the key of the certificate in tls_cert, %.150s",
                                  s->key, s->cert);
}

static locker_status take_certificate(SSL_CTX *files, const lk_tls_settings *s, locker_error *err)
{
    if (s->cert == NULL)
        return LOCKER_OK;
    locker_status status = look_at("tls_cert", s->cert, false, err);
    if (status == LOCKER_OK)
        status = look_at("tls_key", s->key, true, err);
    if (status != LOCKER_OK)
        return status;
    if (SSL_CTX_use_certificate_chain_file(files, s->cert) != 1)
        return lk_misconfigured(err, "tls_cert, %.200s, has no usable PEM certificate: %s", s->cert,
                                reason());
    return take_key(files, s, err);
}

/* Set what is asked of every connection. A trusted authority need not be a root. The server must not renegotiate: no service does,
 * and a renegotiation would mix with the data that is sent. Reading ahead saves a system call for each answer. */
static locker_status set_rules(SSL_CTX *files, const lk_tls_settings *s, locker_error *err)
{
    if (files == NULL || SSL_CTX_set_min_proto_version(files, TLS1_2_VERSION) != 1)
        return lk_misconfigured(err, "cannot use OpenSSL: %s; check its configuration, openssl.cnf",
                                reason());
    X509_VERIFY_PARAM *const rules = SSL_CTX_get0_param(files);
    (void)X509_VERIFY_PARAM_set_flags(rules, X509_V_FLAG_PARTIAL_CHAIN);
    SSL_CTX_set_verify(files, s->verify == LK_TLS_NONE ? SSL_VERIFY_NONE : SSL_VERIFY_PEER, NULL);
    (void)SSL_CTX_set_options(files, SSL_OP_NO_RENEGOTIATION | SSL_OP_NO_COMPRESSION);
    (void)SSL_CTX_set_mode(files, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER |
                                      SSL_MODE_RELEASE_BUFFERS | SSL_MODE_AUTO_RETRY);
    (void)SSL_CTX_set_session_cache_mode(files, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_read_ahead(files, 1);
    return LOCKER_OK;
}

SSL_CTX *lk_tls_read_files(const lk_tls_settings *s, locker_error *err)
{
    ERR_clear_error();
    SSL_CTX *const files = SSL_CTX_new(TLS_client_method());
    locker_status status = set_rules(files, s, err);
    if (status == LOCKER_OK)
        status = take_authorities(files, s, err);
    if (status == LOCKER_OK)
        status = take_certificate(files, s, err);
    ERR_clear_error();
    if (status == LOCKER_OK)
        return files;
    SSL_CTX_free(files);
    return NULL;
}
