/* tls_openssl.h: the parts of TLS by OpenSSL beside tls.c: the certificate files, and the texts for people. */
#pragma once

#include <openssl/ssl.h>

#include "tls_settings.h"

enum { LK_TLS_WORDS = 360 };

/* Read the files that the settings name, and set what is asked of every connection. NULL: err says what is wrong with which
 * option (CONFIG). The caller frees the result by SSL_CTX_free(). */
SSL_CTX *lk_tls_read_files(const lk_tls_settings *settings, locker_error *err);

/* Say what OpenSSL has found wrong with a certificate, in words that go on from "the certificate of SERVICE at ...". `name`: the
 * name that the certificate has to be for. */
void lk_tls_say_wrong(X509_STORE_CTX *found, const lk_tls_settings *settings, const char *name,
                      char out[LK_TLS_WORDS]);

/* Say what an alert of the server (RFC 8446, 6.2) means to its client. `asked`: the server had asked for a certificate. False:
 * the same attempt may succeed in a moment. */
bool lk_tls_say_alert(int alert, bool asked, const lk_tls_settings *settings, const char *peer,
                      locker_error *err);
