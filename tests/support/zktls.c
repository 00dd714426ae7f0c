/* zktls.c: TLS before a ZooKeeper server; see zktls.h. */
#include "zktls.h"

#include <arpa/inet.h>
#include <errno.h>
#include <fcntl.h>
#include <netinet/in.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include "child.h"
#include "expect.h"
#include "zkserver.h"

/* ------------------------------------------------------------------ certificates ---- */

/* $1: the directory. Keys on a curve are made at once. */
static const char make_certificates[] =
    "cd \"$1\" && key='-newkey ec -pkeyopt ec_paramgen_curve:prime256v1 -nodes' && {\n"
    "authority() { openssl req -x509 $key -days 2 -subj /CN=$1 -keyout $1.key -out $1.crt; }\n"
    "certify() { openssl req $key -subj /CN=$2 -keyout $2.key -out $2.csr &&\n"
    "  openssl x509 -req -in $2.csr -CA $1.crt -CAkey $1.key -CAcreateserial -days 2 -out $2.crt; }\n"
    "authority ca && authority other-ca && certify ca server && certify ca client && certify other-ca other\n"
    "} >openssl.log 2>&1";

static void certify(const struct lk_zktls *tls)
{
    const char *const argv[] = {"sh", "-c", make_certificates, "sh", tls->directory, NULL};
    int status = 0;
    const pid_t pid = lk_child_exec(argv, 0, 1, 2);

    if (pid < 0 || waitpid(pid, &status, 0) != pid || status != 0)
        test_fails("can't make certificates in %s; install openssl", tls->directory);
}

/* ------------------------------------------------------------------ running ---- */

static void write_configuration(const struct lk_zktls *tls)
{
    const char *directory = tls->directory;
    char path[96];
    FILE *file;

    snprintf(path, sizeof path, "%s/stunnel.conf", directory);
    file = fopen(path, "we");
    if (file == NULL)
        test_fails("can't write %s: %s", path, strerror(errno));
    fprintf(file,
            "foreground = yes\nsyslog = no\npid =\ndebug = info\noutput = %s/log\n"
            "socket = l:TCP_NODELAY=1\nsocket = r:TCP_NODELAY=1\n"
            "[zookeeper]\naccept = 127.0.0.1:%d\nconnect = 127.0.0.1:%d\n"
            "cert = %s/server.crt\nkey = %s/server.key\nCAfile = %s/ca.crt\nverifyChain = yes\n",
            directory, tls->port, tls->target, directory, directory, directory);
    fclose(file);
}

static bool takes_connections_or_ended(void *context)
{
    struct lk_zktls *tls = context;
    struct sockaddr_in address = {.sin_family = AF_INET, .sin_port = htons((uint16_t)tls->port)};
    bool takes;
    int fd;

    if (waitpid(tls->pid, NULL, WNOHANG) == tls->pid) {
        tls->pid = 0;
        return true;
    }
    fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    takes = connect(fd, (struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return takes;
}

void lk_zktls_launch(struct lk_zktls *tls)
{
    char configuration[96];
    const char *const argv[] = {"stunnel", configuration, NULL};
    int null = open("/dev/null", O_RDWR | O_CLOEXEC);

    snprintf(configuration, sizeof configuration, "%s/stunnel.conf", tls->directory);
    tls->pid = lk_child_exec(argv, null, null, null);
    close(null);
    if (tls->pid < 0) {
        tls->pid = 0;
        test_fails("can't run stunnel: %s; install stunnel4", strerror(errno));
    }
    if (!lk_wait_until(takes_connections_or_ended, tls, LK_TEST_PATIENCE_MS) || tls->pid == 0)
        test_fails("stunnel does not take connections; see %s/log with LK_TEST_KEEP=1", tls->directory);
}

struct lk_zktls *lk_zktls_start(int target_port)
{
    struct lk_zktls *tls = calloc(1, sizeof *tls);

    if (tls == NULL)
        test_fails("out of memory (%s)", "stunnel");
    tls->target = target_port;
    tls->port = lk_zks_free_port();
    lk_private_directory(tls->directory);
    certify(tls);
    write_configuration(tls);
    lk_zktls_launch(tls);
    return tls;
}

void lk_zktls_kill(struct lk_zktls *tls)
{
    if (tls->pid > 0) {
        kill(tls->pid, SIGKILL);
        waitpid(tls->pid, NULL, 0);
    }
    tls->pid = 0;
}

void lk_zktls_free(struct lk_zktls *tls)
{
    if (tls == NULL)
        return;
    lk_zktls_kill(tls);
    lk_remove_directory(tls->directory);
    free(tls);
}

void lk_zktls_parameters(const struct lk_zktls *tls, const char *ca, const char *client, char *text,
                         size_t size)
{
    snprintf(text, size, "tls=on&tls_ca=%s/%s.crt&tls_cert=%s/%s.crt&tls_key=%s/%s.key", tls->directory, ca,
             tls->directory, client, tls->directory, client);
}
