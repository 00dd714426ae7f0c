/* stunnel.c: TLS before a ZooKeeper server; see stunnel.h. */
#include "stunnel.h"

#include <stdio.h>
#include <stdlib.h>
#include <unistd.h>

#include "expect.h"
#include "servers/process.h"

typedef struct {
    lk_server server;
    int target; /* the port of the server behind it */
} terminator;

/* $1: the directory. Keys on a curve are made at once. */
static const char make_certificates[] =
    "cd \"$1\" && key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes' && {\n"
    "authority() { openssl req -x509 $key -days 2 -subj /CN=$1 -keyout $1.key -out $1.crt; }\n"
    "certify() { openssl req $key -subj /CN=$2 -keyout $2.key -out $2.csr &&\n"
    "  openssl x509 -req -in $2.csr -CA $1.crt -CAkey $1.key -CAcreateserial -days 2 -out $2.crt; }\n"
    "authority ca && authority other-ca && certify ca server && certify ca client && certify other-ca other\n"
    "} >openssl.log 2>&1";

static bool prepare(lk_server *server)
{
    const char *directory = server->directory;
    const char *const argv[] = {"sh", "-c", make_certificates, "sh", directory, NULL};
    if (lk_process_run(0, argv) != 0)
        return lk_server_fails(server, "can't make certificates in %s; install openssl", directory);
    return lk_server_write(
        server, "stunnel.conf",
        "foreground = yes\nsyslog = no\npid =\ndebug = info\n"
        "socket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
        "[zookeeper]\naccept = 127.0.0.1:%d\nconnect = 127.0.0.1:%d\n"
        "cert = %s/server.crt\nkey = %s/server.key\nCAfile = %s/ca.crt\nverifyChain = yes\n",
        server->port, ((terminator *)server)->target, directory, directory, directory);
}

static void command(const lk_server *server, lk_command *line)
{
    lk_command_add(line, "stunnel");
    lk_command_print(line, "%s/stunnel.conf", server->directory);
}

static bool takes_connections(const lk_server *server)
{
    const int fd = lk_server_connect(server, LK_TEST_PATIENCE_MS);
    if (fd >= 0)
        close(fd);
    return fd >= 0;
}

static const lk_server_kind kind = {.name = "stunnel",
                                    .word = "stunnel",
                                    .package = "stunnel4",
                                    .patience_ms = LK_TEST_PATIENCE_MS,
                                    .prepare = prepare,
                                    .command = command,
                                    .serves = takes_connections};

lk_server *lk_test_stunnel(int target_port)
{
    terminator *made = calloc(1, sizeof *made);
    if (made == NULL)
        test_fails("out of memory (%s)", "stunnel");
    made->target = target_port;
    lk_test_need(&made->server,
                 lk_server_start(&made->server, &kind, NULL) && lk_server_await(&made->server));
    return &made->server;
}

void lk_stunnel_parameters(const lk_server *stunnel, const char *ca, const char *client, char *text,
                           size_t size)
{
    const char *directory = stunnel->directory;
    snprintf(text, size, "tls=on&tls_ca=%s/%s.crt&tls_cert=%s/%s.crt&tls_key=%s/%s.key", directory, ca,
             directory, client, directory, client);
}
