/* tls_words.h: what is wrong with a certificate, or what an alert means, in words: and what to do about it. */
#pragma once

#include <openssl/x509_vfy.h>

#include "tls_settings.h"

enum { LK_TLS_WORDS = 360 };

/* What a verification has found wrong, in words that go on from "the certificate of SERVICE at ...". `name`: what was looked for. */
void lk_tls_say_wrong(X509_STORE_CTX *found, const lk_tls_settings *settings, const char *name,
                      char out[LK_TLS_WORDS]);

/* The server speaks TLS, and not settings->alpn by it. */
void lk_tls_say_other_protocol(const lk_tls_settings *settings, const char *peer, locker_error *err);

/* What an alert (RFC 8446, 6.2) of the server, of that kind, means to its client. `asked`: the server had asked for a
 * certificate. False: it may be over in a moment. */
bool lk_tls_say_alert(int alert, bool asked, const lk_tls_settings *settings, const char *peer,
                      locker_error *err);
