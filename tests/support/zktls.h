/*
 * zktls.h: TLS before a ZooKeeper server, which Debian's has none of its own: stunnel, on a private port,
 * with certificates made for the test. It trusts clients of the authority `ca` only.
 */
#ifndef LK_TEST_ZKTLS_H
#define LK_TEST_ZKTLS_H

#include <stddef.h>
#include <sys/types.h>

/** In the directory there are, as NAME.crt and NAME.key: `ca`, and certified by it `server` and `client`; and
 * `other-ca`, which certified `other`. */
struct lk_zktls {
    pid_t pid;          /* 0 while it isn't running */
    int port;           /* the same over restarts */
    int target;         /* the server's */
    char directory[64]; /* holds the certificates, the configuration and the log */
};

/** Makes the certificates, starts it, and waits until it takes connections. Fails the test when it can't.
 * Call it from the test's main thread: it dies with the thread that started it. */
struct lk_zktls *lk_zktls_start(int target_port);

/** kill -9, and wait; and started again on the same port. */
void lk_zktls_kill(struct lk_zktls *tls);
void lk_zktls_launch(struct lk_zktls *tls);

/** Stops it, removes its directory, frees it. NULL is allowed. */
void lk_zktls_free(struct lk_zktls *tls);

/** Writes the parameters of a URI: "tls=on&tls_ca=...", with the client certificate of that name. */
void lk_zktls_parameters(const struct lk_zktls *tls, const char *ca, const char *client, char *text,
                         size_t size);

#endif
