/* certified.h: certificates in a server's directory, and a server that has them from its start on. */
#pragma once

#include "servers/certificates.h"
#include "test_servers.h"

/** Makes a certificate in the server's directory. */
void lk_test_certify(const lk_server *server, const lk_certificate *wanted);

/** Makes the authority `ca`, and certified by it `server`, for localhost and 127.0.0.1, and `client`; and the
 * authority `other-ca`, which certified `other`. */
void lk_test_certificates(const lk_server *server);

/** Starts an etcd server that speaks TLS with its clients, with such certificates in its directory, and these options (as for
 * lk_test_etcd()); waits until it serves. */
lk_server *lk_test_etcd_tls(const char *const *options);
