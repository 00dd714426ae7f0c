/* certified.c: see certified.h. */
#include "certified.h"

#include <stdlib.h>

#include "expect.h"

void lk_test_certify(const lk_server *server, const lk_certificate *wanted)
{
    char why[256];
    if (!lk_certificate_make(server->directory, wanted, why, sizeof why))
        test_fails("%s", why);
}

void lk_test_certificates(const lk_server *server)
{
    static const lk_certificate all[] = {
        {.name = "ca", .authority = true},
        {.name = "other-ca", .authority = true},
        {.name = "server", .by = "ca", .names = "DNS:localhost,IP:127.0.0.1"},
        {.name = "client", .by = "ca"},
        {.name = "other", .by = "other-ca"},
    };
    for (size_t i = 0; i < sizeof all / sizeof all[0]; i++)
        lk_test_certify(server, &all[i]);
}

/* They are made between its directory and its start. */
lk_server *lk_test_etcd_tls(const char *const *options)
{
    const lk_server_setup setup = {.options = options};
    lk_server *server = calloc(1, sizeof *server);
    if (server == NULL)
        test_fails("out of memory (%s)", "server");
    lk_test_need(server, lk_server_reserve(server, &lk_server_etcd, &setup));
    lk_test_certificates(server);
    server->setup.certificates = server->directory;
    lk_test_launch(server, true);
    return server;
}
