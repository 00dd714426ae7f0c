/*
 * test_tls.h: a redis-server that speaks TLS, and what stands before one that does not: a front of TLS with bad
 * manners. Certificates lie in the server's directory (certified.h).
 */
#pragma once

#include "certified.h"
#include "test_redis.h"

/** Has the server speak TLS on this port (0: another one, which is the answer), with that certificate (NAME.crt,
 * NAME.key), and want one of `ca` from its clients where `clients` is "yes". */
int lk_test_speak_tls(lk_server *server, int port, const char *certificate, const char *clients);

/** How a front of TLS behaves. All zeros: well. */
typedef struct {
    size_t record;     /* bytes in each record of what it sends; 0: as many as there are */
    int most_version;  /* TLS1_2_VERSION; 0: any */
    bool changes_keys; /* asks for new keys with each answer (TLS 1.3) */
    bool begins_anew;  /* begins the handshake anew with each small answer (TLS 1.2) */
} lk_tls_manners;

/** TLS before a server that speaks none, with the certificate of that name in its directory. */
typedef struct lk_tls_front lk_tls_front;
lk_tls_front *lk_tls_front_begin(const lk_server *server, const char *certificate, lk_tls_manners manners);

/** Ends it and its connections. NULL is allowed. */
void lk_tls_front_free(lk_tls_front *front);

int lk_tls_front_port(const lk_tls_front *front);

/** How many connections were made; how many of them ended with a word that they do. */
unsigned lk_tls_front_connections(const lk_tls_front *front);
unsigned lk_tls_front_farewells(const lk_tls_front *front);

/** Copies the name by which the server was called last; "" for none. */
void lk_tls_front_name(lk_tls_front *front, char name[256]);
