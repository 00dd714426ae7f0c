/*
 * tls_sasl.h: TLS and SASL, where the client library has them (client.c, tls.c, sasl.c). Included by
 * internal.h.
 *
 * What the library's TLS leaves to us: its handshake waits for the server without limit inside
 * zookeeper_process, so a thread of its own does that, without the driver's lock, and is ended when the
 * server has had its time; OpenSSL writes with write(), so SIGPIPE has to be kept from the application; and
 * what it has decrypted is not shown by poll, so it is read to the end.
 */
#ifndef LK_ZK_SECURE_H
#define LK_ZK_SECURE_H

#include <pthread.h>
#include <signal.h>
#include <stdbool.h>
#include <stdint.h>

#include <locker/driver.h>
#include <zookeeper/zookeeper.h>

struct lk_zk;
struct lk_zk_settings;

/* ---------------------------------------------------------------- client.c ---- */

struct lk_zk_sasl_params;

/* What the client library that the program runs with has; NULL: it hasn't. */
struct lk_zk_library {
    zhandle_t *(*init_ssl)(const char *host, const char *files, watcher_fn watcher, int timeout_ms,
                           const clientid_t *id, void *context, int flags);
    zhandle_t *(*init_sasl)(const char *host, watcher_fn watcher, int timeout_ms, const clientid_t *id,
                            void *context, int flags, log_callback_fn log, struct lk_zk_sasl_params *params);
    const int *ssl_connecting; /* the state of a handle whose handshake is due; there with init_ssl */
};

void lk_zk_library_look(struct lk_zk_library *library);
/* A handle, as the settings say. NULL: it can't be made. */
zhandle_t *lk_zk_client_new_locked(struct lk_zk *z, watcher_fn watcher);
/* zookeeper_process, and zookeeper_close, without SIGPIPE. */
int lk_zk_client_process_locked(struct lk_zk *z, int events);
void lk_zk_client_close_locked(struct lk_zk *z);

/* ---------------------------------------------------------------- tls.c ---- */

/* Check the three files, and put them together as the library wants them: malloc'ed. */
locker_status lk_zk_tls_files(char **files, const locker_value *ca, const locker_value *cert,
                              const locker_value *key, locker_error *err);

/* Keeps SIGPIPE from the application while the library may write to a TLS connection. Nothing without TLS. */
struct lk_zk_pipe_guard {
    sigset_t before;
    bool was_pending;
};

void lk_zk_pipe_enter(const struct lk_zk *z, struct lk_zk_pipe_guard *guard);
void lk_zk_pipe_leave(const struct lk_zk *z, const struct lk_zk_pipe_guard *guard);

/* Why OpenSSL failed, from its queue of this thread's errors; "" when it doesn't say. */
void lk_zk_tls_reason(char *text, size_t size);

/* ---------------------------------------------------------------- blocking_connect.c ---- */

/* A part of connecting in which the library may block. Guarded by lk_zk.lock; but what is constant while it
 * is active the thread reads without. */
struct lk_zk_shake {
    bool active; /* a thread is in it: it alone uses the client handle, and lk_zk.reading is set for it */
    bool joinable;
    pthread_t thread;
    int events; /* for zookeeper_process */
    int socket; /* the library's; lk_zk.fd is -1 meanwhile */
    int own;    /* a duplicate, whose number nobody else can get when the library closes its own; else -1 */
    int event_state; /* what the library told meanwhile, kept by the thread for when it has lock; 0:
                      * nothing */
    int64_t until;   /* the server has until then; LOCKER_NEVER: it has had its time */
    bool ended;      /* by us */
};

/* Whether the library would block now. */
bool lk_zk_shake_due_locked(const struct lk_zk *z, int events);
/* Have a thread do it, which takes over the driving from the caller until it is done. */
void lk_zk_shake_begin_locked(struct lk_zk *z);
/* End one that has taken too long; returns when to look again, or LOCKER_NEVER. */
int64_t lk_zk_shake_check_locked(struct lk_zk *z, int64_t now);
/* End one that is under way, and its thread. Releases lock meanwhile; nobody else may be using the
 * instance. */
void lk_zk_shake_stop_locked(struct lk_zk *z);

/* ---------------------------------------------------------------- sasl.c ---- */

/* What a login by SASL takes. */
struct lk_zk_sasl;

/* NULL: err says why not. `service` and `host` may be NULL. */
struct lk_zk_sasl *lk_zk_sasl_new(const locker_driver_config *config, const char *mechanism,
                                  const char *service, const char *host, locker_error *err);
void lk_zk_sasl_free(struct lk_zk_sasl *sasl);
struct lk_zk_sasl_params *lk_zk_sasl_params(struct lk_zk_sasl *sasl);

#endif
