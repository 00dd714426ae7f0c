/* tls_settings.h: what is said of TLS: the parameters, which are the same for each driver that has it, and a copy of them. */
#pragma once

#include <stdbool.h>

#include "lk_error.h"

/* A driver's table has these one behind the other. `schemes`: those of its schemes that have TLS, a text in quotes. */
#define LK_TLS_PARAMETER(name, type, fallback, text)                                                         \
    {                                                                                                        \
        name, LOCKER_PARAM_##type, fallback, 0, 0, text                                                      \
    }
#define LK_TLS_PARAMETER_ROWS(schemes)                                                                       \
    LK_TLS_PARAMETER("tls_verify", TEXT, "name",                                                             \
                     schemes                                                                                 \
                     ": the server's certificate must be signed by a trusted authority for the server's "    \
                     "name ('name'), or by an authority in tls_ca ('ca'); no check ('none')"),               \
        LK_TLS_PARAMETER(                                                                                    \
            "tls_ca", PATH, "system",                                                                        \
            schemes                                                                                          \
            ": file with the certificates of the trusted authorities; 'system': those of the machine"),      \
        LK_TLS_PARAMETER("tls_cert", PATH, NULL, schemes ": file with the client's certificate"),            \
        LK_TLS_PARAMETER("tls_key", PATH, NULL,                                                              \
                         schemes ": file with the client's key, not readable for every user"),               \
        LK_TLS_PARAMETER("tls_name", TEXT, NULL,                                                             \
                         schemes ": the name or address that the server's certificate "                      \
                                 "must have; default: the host in the URI")
enum { LK_TLS_PARAMETERS = 5 };

/* What a server's certificate has to be: of an authority that is trusted and for the server's name; of such an authority; or
 * anything, which protects from nobody who can redirect the connection. */
typedef enum { LK_TLS_NAME, LK_TLS_CA, LK_TLS_NONE } lk_tls_verify;

/* Constant from open to close. The driver sets `alpn`, and what its texts call things. */
typedef struct {
    bool on;
    lk_tls_verify verify;
    char *ca;                 /* the file of the authorities that are trusted; NULL: the system's are */
    char *cert, *key;         /* the client's, both or none: NULL */
    char *name;               /* the server's; NULL: the host by which it is reached */
    struct ssl_ctx_st *files; /* what the files said when the locker was opened; NULL without TLS */
    const char *alpn;         /* what has to be agreed on (ALPN, RFC 7301), as "h2"; NULL: nothing */
    const char *service;      /* what texts call the server, as "Redis" */
    const char *without_tls;  /* what has no TLS spoken, as "write redis://" */
    const char *needing;      /* what a build without it can't do: a text that goes on with "OpenSSL" */
} lk_tls_settings;

/* Copy the texts. `values`: the driver's, from the first of these on. False: out of memory; clear it also then. */
bool lk_tls_settings_copy(lk_tls_settings *settings, const locker_value values[LK_TLS_PARAMETERS]);
/* What lk_tls_init() and lk_tls_clear() do whether there is OpenSSL or not: read tls_verify; free the copies. */
locker_status lk_tls_settings_verify(lk_tls_settings *settings, const locker_value values[LK_TLS_PARAMETERS],
                                     locker_error *err);
void lk_tls_settings_clear(lk_tls_settings *settings);
