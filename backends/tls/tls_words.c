/* tls_words.c: say in words what is wrong with a certificate or what an alert means, and what to do about it. */
#include <arpa/inet.h>
#include <openssl/x509v3.h>
#include <stdarg.h>
#include <stdio.h>
#include <string.h>

#include "tls_openssl.h"

/* Append to a text, as far as it has room. What a certificate says comes from the other end: only what prints is shown. */
static void add(char out[LK_TLS_WORDS], const char *text, size_t len)
{
    size_t at = strlen(out);
    for (size_t i = 0; i < len && at + 1 < LK_TLS_WORDS; i++)
        out[at++] = (char)(text[i] >= ' ' && text[i] <= '~' ? text[i] : '?');
    out[at] = '\0';
}

__attribute__((format(printf, 2, 3))) static void say(char out[LK_TLS_WORDS], const char *format, ...)
{
    char text[LK_TLS_WORDS];
    va_list args;
    va_start(args, format);
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    add(out, text, strlen(text));
}

/* What a certificate says of itself as text, in a buffer of the caller. */
enum { TEXT_MAX = 100 };

static const char *time_text(const ASN1_TIME *time, char text[TEXT_MAX])
{
    struct tm parts;
    const bool is_known = time != NULL && ASN1_TIME_to_tm(time, &parts) == 1 &&
                          strftime(text, TEXT_MAX, "%Y-%m-%d %H:%M UTC", &parts) > 0;
    return is_known ? text : "an unknown time";
}

/* The common name, or all of the name if it has no common name. */
static const char *subject_text(X509_NAME *subject, char text[TEXT_MAX])
{
    const bool is_known =
        subject != NULL && (X509_NAME_get_text_by_NID(subject, NID_commonName, text, TEXT_MAX) > 0 ||
                            X509_NAME_oneline(subject, text, TEXT_MAX) != NULL);
    return is_known ? text : "";
}

/* False: it is neither a host name nor an address. */
static bool add_name(char out[LK_TLS_WORDS], const GENERAL_NAME *name, const char *before)
{
    char address[INET6_ADDRSTRLEN];
    if (name->type != GEN_DNS && name->type != GEN_IPADD)
        return false;
    const ASN1_STRING *const value = name->type == GEN_DNS ? name->d.dNSName : name->d.iPAddress;
    const unsigned char *const bytes = ASN1_STRING_get0_data(value);
    const int len = ASN1_STRING_length(value);
    if (name->type == GEN_IPADD && len != 4 && len != 16)
        return false;
    say(out, "%s", before);
    if (name->type == GEN_DNS)
        add(out, (const char *)bytes, (size_t)len);
    else if (inet_ntop(len == 4 ? AF_INET : AF_INET6, bytes, address, sizeof address) != NULL)
        say(out, "%s", address);
    return true;
}

/* The names that a certificate is for; where it has none, its subject counts. */
static void add_names(char out[LK_TLS_WORDS], X509 *certificate)
{
    enum { NAMES_MAX = 5 };
    char text[TEXT_MAX];
    GENERAL_NAMES *const names = X509_get_ext_d2i(certificate, NID_subject_alt_name, NULL, NULL);
    const int count = names != NULL ? sk_GENERAL_NAME_num(names) : 0;
    int shown = 0;
    for (int i = 0; i < count && shown < NAMES_MAX; i++)
        shown += add_name(out, sk_GENERAL_NAME_value(names, i), shown > 0 ? ", " : "") ? 1 : 0;
    if (shown == NAMES_MAX && count > NAMES_MAX)
        say(out, ", ...");
    if (shown == 0)
        say(out, "%s", subject_text(X509_get_subject_name(certificate), text));
    GENERAL_NAMES_free(names);
}

/* The authority: the certificate itself, or an authority that signed it. */
static void say_authority(char out[LK_TLS_WORDS], X509 *certificate, int error, const lk_tls_settings *s)
{
    const bool is_self_signed = error == X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT;
    X509_NAME *const authority = error == X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN
                                     ? X509_get_subject_name(certificate)
                                     : X509_get_issuer_name(certificate);
    char text[TEXT_MAX];
    if (is_self_signed)
        say(out, " is self-signed");
    else
        say(out, " is signed by an authority that is not trusted, '%s'", subject_text(authority, text));
    if (s->ca != NULL)
        say(out, ", and it is not in tls_ca, %.100s", s->ca);
    else
        say(out, ", and it is not among the system's authorities (ca-certificates)");
    say(out, is_self_signed ? "; if it is the right certificate, set tls_ca to its file"
                            : "; if it is the right authority, set tls_ca to the file with its certificate");
}

void lk_tls_say_wrong(X509_STORE_CTX *found, const lk_tls_settings *s, const char *name,
                      char out[LK_TLS_WORDS])
{
    char text[TEXT_MAX];
    X509 *const certificate = X509_STORE_CTX_get_current_cert(found);
    const int error = X509_STORE_CTX_get_error(found);
    out[0] = '\0';
    if (X509_STORE_CTX_get_error_depth(found) > 0 && error != X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN)
        say(out, "'s authority");
    switch (certificate != NULL ? error : X509_V_ERR_UNSPECIFIED) {
    case X509_V_ERR_HOSTNAME_MISMATCH:
    case X509_V_ERR_IP_ADDRESS_MISMATCH:
        say(out, " is not for '%s' but for ", name);
        add_names(out, certificate);
        say(out, "; connect by a name that it has, or set tls_name to the name that it must have");
        break;
    case X509_V_ERR_CERT_HAS_EXPIRED:
        say(out,
            " expired on %s; give the server a new certificate, or set this machine's clock if it is wrong",
            time_text(X509_get0_notAfter(certificate), text));
        break;
    case X509_V_ERR_CERT_NOT_YET_VALID:
        say(out, " is not valid before %s; set this machine's clock if it is wrong",
            time_text(X509_get0_notBefore(certificate), text));
        break;
    case X509_V_ERR_DEPTH_ZERO_SELF_SIGNED_CERT:
    case X509_V_ERR_SELF_SIGNED_CERT_IN_CHAIN:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT:
    case X509_V_ERR_UNABLE_TO_GET_ISSUER_CERT_LOCALLY:
    case X509_V_ERR_UNABLE_TO_VERIFY_LEAF_SIGNATURE:
        say_authority(out, certificate, error, s);
        break;
    case X509_V_ERR_INVALID_PURPOSE:
        say(out, " is not for servers (extended key usage); give the server another certificate");
        break;
    default:
        say(out, " cannot be trusted: %s; give the server another certificate",
            X509_verify_cert_error_string(error));
    }
}

bool lk_tls_say_alert(int alert, bool asked, const lk_tls_settings *s, const char *peer, locker_error *err)
{
    const char *const what = SSL_alert_desc_string_long(alert);
    const bool is_about_key = alert == SSL_AD_CERTIFICATE_REQUIRED || alert == SSL_AD_HANDSHAKE_FAILURE;
    if (alert == SSL_AD_NO_APPLICATION_PROTOCOL && s->alpn != NULL) {
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "the server at %s speaks TLS, but not the protocol %s "
                         "(ALPN) of %s; check host and port",
                         peer, s->alpn, s->service);
        return true;
    }
    if (is_about_key && asked && s->cert == NULL) {
        lk_denied(err, "%s at %s requires a client's certificate (%s); set tls_cert and tls_key", s->service,
                  peer, what);
        return true;
    }
    switch (alert) {
    case SSL_AD_CERTIFICATE_REQUIRED:
    case SSL_AD_HANDSHAKE_FAILURE:
    case SSL_AD_PROTOCOL_VERSION:
    case SSL_AD_INSUFFICIENT_SECURITY:
        locker_error_set(
            err, LOCKER_PROTOCOL, 0,
            "%s at %s cannot agree on TLS with this client (%s); allow TLS 1.2 or 1.3 and common "
            "ciphers there%s",
            s->service, peer, what, is_about_key ? ", and set tls_key to a key that it accepts" : "");
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
                  s->service, peer, what, s->cert != NULL ? s->cert : "not set");
        return true;
    case SSL_AD_UNRECOGNIZED_NAME:
        locker_error_set(err, LOCKER_PROTOCOL, 0,
                         "the server at %s does not know the name that was sent "
                         "(%s); set tls_name to a name that it has",
                         peer, what);
        return true;
    default:
        lk_unavailable(err, "%s at %s aborted TLS (%s); read its log", s->service, peer, what);
        return false;
    }
}
