/* certificates.h: authorities and certificates of one's own, for servers that speak TLS: made by OpenSSL at once, with keys on a
 * curve, and as right or as wrong as they are wanted. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

/** What is to be made. */
typedef struct {
    const char *name; /**< NAME.crt and NAME.key are written; the subject has it as its common name */
    const char
        *by; /**< the name of the authority that certifies it, in the same directory; NULL: it itself */
    const char *names; /**< what it is for, as "DNS:localhost,IP:127.0.0.1"; NULL: it doesn't say */
    const char *usage; /**< as "clientAuth"; NULL: any */
    bool authority;    /**< it may certify others */
    long from_s, to_s; /**< in seconds from now; both 0: from an hour ago for a day */
} lk_certificate;

/** Makes it. False: `why` says what failed. */
bool lk_certificate_make(const char *directory, const lk_certificate *wanted, char *why, size_t size);
