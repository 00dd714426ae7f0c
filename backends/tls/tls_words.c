/* tls_words.c: see tls_words.h. */
#include <arpa/inet.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <stdio.h>
#include <string.h>

#include "tls_words.h"

/* A text that is put together. */
typedef struct {
    char *text;
    size_t len, cap;
} words;

/* What a certificate says comes from the other end: only what prints is shown. */
static void add(words *w, const char *text, size_t len)
{
    for (size_t i = 0; i < len && w->len + 1 < w->cap; i++)
        w->text[w->len++] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    w->text[w->len] = '\0';
}

static void add_text(words *w, const char *text)
{
    add(w, text, strlen(text));
}

static void add_time(words *w, const ASN1_TIME *time)
{
    struct tm parts;
    char text[32];
    if (time != NULL && ASN1_TIME_to_tm(time, &parts) == 1 &&
        strftime(text, sizeof text, "%Y-%m-%d %H:%M UTC", &parts) > 0)
        add_text(w, text);
    else
        add_text(w, "an unknown time");
}

/* The common name, or all of the name where there is none. */
static void add_subject(words *w, X509_NAME *subject)
{
    char text[100];
    if (subject != NULL && X509_NAME_get_text_by_NID(subject, NID_commonName, text, sizeof text) > 0)
        add_text(w, text);
    else if (subject != NULL && X509_NAME_oneline(subject, text, sizeof text) != NULL)
        add_text(w, text);
}

static bool add_name(words *w, const GENERAL_NAME *name, const char *before)
{
    char address[INET6_ADDRSTRLEN];
    if (name->type == GEN_DNS) {
        add_text(w, before);
        add(w, (const char *)ASN1_STRING_get0_data(name->d.dNSName),
            (size_t)ASN1_STRING_length(name->d.dNSName));
        return true;
    }
    if (name->type != GEN_IPADD)
        return false;
    const int len = ASN1_STRING_length(name->d.iPAddress);
    if (len != 4 && len != 16)
        return false;
    add_text(w, before);
    if (inet_ntop(len == 4 ? AF_INET : AF_INET6, ASN1_STRING_get0_data(name->d.iPAddress), address,
                  sizeof address) != NULL)
        add_text(w, address);
    return true;
}

/* The names that a certificate is for; where it has none, its subject counts. */
static void add_names(words *w, X509 *certificate)
{
    enum { NAMES_MAX = 5 };
    GENERAL_NAMES *const names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    int shown = 0;
    for (int i = 0; i < count && shown < NAMES_MAX; i++)
        shown += add_name(w, sk_GENERAL_NAME_value(names, i), shown > 0 ? ", " : "") ? 1 : 0;
    if (shown == NAMES_MAX && count > NAMES_MAX)
        add_text(w, ", ...");
    if (shown == 0)
        add_subject(w, X509_get_subject_name(certificate));
    GENERAL_NAMES_free(names);
}

static void say_wrong_name(words *w, X509 *certificate, const char *name)
{
    add_text(w, " is not for '");
    add_text(w, name);
    add_text(w, "' but for ");
    add_names(w, certificate);
    add_text(w, "; connect by a name that it has, or set tls_name to the name that it must have");
}

/* Whose: the certificate's own, or one of those behind it. */
static void say_authority(words *w, X509 *certificate, int error, const lk_tls_settings *s)
{
    const bool is_self_signed = error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
    add_text(w, is_self_signed ? " is self-signed" : " is signed by an authority that is not trusted, '");
    if (!is_self_signed) {
        add_subject(w, error == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN ? X509_get_subject_name(certificate)
                                                                     : X509_get_issuer_name(certificate));
        add_text(w, "'");
    }
    add_text(w, s->ca != NULL ? ", and it is not in tls_ca, "
                              : ", and it is not among the system's authorities (ca-certificates)");
    if (s->ca != NULL)
        add(w, s->ca, strlen(s->ca) < 100 ? strlen(s->ca) : 100);
    add_text(w, is_self_signed
                    ? "; if it is the right certificate, set tls_ca to its file"
                    : "; if it is the right authority, set tls_ca to the file with its certificate");
}

void lk_tls_say_wrong(X509_STORE_CTX *found, const lk_tls_settings *s, const char *name,
                      char out[LK_TLS_WORDS])
{
    words w = {.text = out, .cap = LK_TLS_WORDS};
    X509 *const certificate = X509_STORE_CTX_get_current_cert(found);
    const int error = X509_STORE_CTX_get_error(found);
    out[0] = '\0';
    if (X509_STORE_CTX_get_error_depth(found) > 0 && error != X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN)
        add_text(&w, "'s authority");
    switch (certificate != NULL ? error : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        say_wrong_name(&w, certificate, name);
        return;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        add_text(&w, " expired on ");
        add_time(&w, X509_get0_notAfter(certificate));
        add_text(&w, "; give the server a new certificate, or set this machine's clock if it is wrong");
        return;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        add_text(&w, " is not valid before ");
        add_time(&w, X509_get0_notBefore(certificate));
        add_text(&w, "; set this machine's clock if it is wrong");
        return;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        say_authority(&w, certificate, error, s);
        return;
    case X509_V_ERR_INVALID_PURPOSE:
        add_text(&w, " is not for servers (extended key usage); give the server another certificate");
        return;
    default:
        add_text(&w, " cannot be trusted: ");
        add_text(&w, X509_verify_cert_error_string(error));
        add_text(&w, "; give the server another certificate");
    }
}

void lk_tls_say_other_protocol(const lk_tls_settings *s, const char *peer, locker_error *err)
{
    locker_error_set(err, LOCKER_PROTOCOL, 0,
                     "the server at %s speaks TLS, but not the protocol %s (ALPN) of %s; check host and port",
                     peer, s->alpn, s->service);
}

bool lk_tls_say_alert(int alert, bool asked, const lk_tls_settings *s, const char *peer, locker_error *err)
{
    const char *const server = s->service;
    const char *const what = SSL_alert_desc_string_long(alert);
    if (alert == SSL_AD_NO_APPLICATION_PROTOCOL && s->alpn != NULL) {
        lk_tls_say_other_protocol(s, peer, err);
        return true;
    }
    switch (alert) {
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_HANDSHAKE_FAILURE:
        if (asked && s->cert == NULL) {
            lk_denied(err, "%s at %s requires a client's certificate (%s); set tls_cert and tls_key", server,
                      peer, what);
            return true;
        }
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "%s at %s cannot agree on TLS with this client (%s); allow TLS 1.2 or 1.3 and "
                         "common ciphers there, and set tls_key to a key that it accepts",
                         server, peer, what);
        return true;
    case SSL_AD_BAD_CERTIFICATE:
    case SSL_AD_UNSUPPORTED_CERTIFICATE:
    case SSL_AD_CERTIFICATE_REVOKED:
    case SSL_AD_CERTIFICATE_EXPIRED:
    case SSL_AD_CERTIFICATE_UNKNOWN:
    case SSL_AD_UNKNOWN_CA:
    case SSL_AD_ACCESS_DENIED:
    case SSL_AD_DECRYPT_ERROR:
        lk_denied(err,
                  "%s at %s refuses the client's certificate (%s); set tls_cert (now: %.150s) to a valid "
                  "certificate of an authority that the server trusts",
                  server, peer, what, s->cert != NULL ? s->cert : "not set");
        return true;
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "%s at %s cannot agree on TLS with this client (%s); "
                         "allow TLS 1.2 or 1.3 and common ciphers there",
                         server, peer, what);
        return true;
    case SSL_AD_UNRECOGNIZED_NAME:
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "the server at %s does not know the name that was sent "
                         "(%s); set tls_name to a name that it has",
                         peer, what);
        return true;
    default:
        lk_unavailable(err, "%s at %s aborted TLS (%s); read its log", server, peer, what);
        return false;
    }
}
