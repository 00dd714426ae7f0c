/* tls_settings.h: the parameters of TLS, which are the same for each driver that has it, and the settings that are made of them. */
#pragma once

#include <stdbool.h>

#include "lk_error.h"

/* The rows of a driver's table of parameters, in this order. `schemes`: the driver's schemes with TLS, a text in quotes. */
#define LK_TLS_PARAMETER(schemes, name, type, fallback, text)                                                \
    {                                                                                                        \
        name, LOCKER_PARAM_##type, fallback, 0, 0, schemes ": " text                                         \
    }
#define LK_TLS_PARAMETER_ROWS(schemes)                                                                       \
    LK_TLS_PARAMETER(schemes, "tls_verify", TEXT, "name",                                                    \
                     "the server's certificate must be signed by a trusted authority for the "               \
                     "server's name ('name'), or by an authority in tls_ca ('ca'); no check ('none')"),      \
        LK_TLS_PARAMETER(schemes, "tls_ca", PATH, "system",                                                  \
                         "file with the certificates of the trusted "                                        \
                         "authorities; 'system': those of the machine"),                                     \
        LK_TLS_PARAMETER(schemes, "tls_cert", PATH, NULL, "file with the client's certificate"),             \
        LK_TLS_PARAMETER(schemes, "tls_key", PATH, NULL,                                                     \
                         "file with the client's key, not readable for every user"),                         \
        LK_TLS_PARAMETER(schemes, "tls_name", TEXT, NULL,                                                    \
                         "the name or address that the server's "                                            \
                         "certificate must have; default: the host in the URI")
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
