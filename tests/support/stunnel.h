/*
 * stunnel.h: TLS before a ZooKeeper server, which Debian's has none of its own: stunnel, on a private port,
 * with certificates made for the test. It trusts clients of the authority `ca` only. In its directory there
 * are, as NAME.crt and NAME.key: `ca`, and certified by it `server` and `client`; and `other-ca`, which
 * certified `other`.
 */
#pragma once

#include "test_servers.h"

/** Makes the certificates, starts it, and waits until it takes connections. lk_test_free() ends it. */
lk_server *lk_test_stunnel(int target_port);

/** Writes the parameters of a URI: "tls=on&tls_ca=...", with the client certificate of that name. */
void lk_stunnel_parameters(const lk_server *stunnel, const char *ca, const char *client, char *text,
                           size_t size);
