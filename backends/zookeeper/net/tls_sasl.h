/* tls_sasl.h: TLS and SASL, where the client library has them. What may block in them: drive.c. */
#pragma once

#include <zookeeper/zookeeper.h>

#include "lk_error.h"

/* What the client library and Cyrus' SASL library take, declared for builds without their headers. */
enum {
    LK_ZK_SASL_LIST_END = 0,
    LK_ZK_SASL_LOG = 2,
    LK_ZK_SASL_USER = 0x4001,
    LK_ZK_SASL_AUTHNAME = 0x4002,
    LK_ZK_SASL_PASS = 0x4004,
    LK_ZK_SASL_GETREALM = 0x4008,
    LK_ZK_SASL_CALLBACKS = 6 /* the most that are given, with the end */
};

/* sasl_callback_t */
typedef struct {
    unsigned long id;
    int (*proc)(void);
    void *context;
} lk_zk_sasl_callback;

/* sasl_secret_t */
typedef struct {
    unsigned long len;
    unsigned char data[1]; /* and more */
} lk_zk_sasl_secret;

/* zoo_sasl_params_t; the strings are copied by zookeeper_init_sasl, the callbacks referred to. */
typedef struct {
    char *service;
    char *host; /* NULL: the server's address */
    char *mechanisms;
    const lk_zk_sasl_callback *callbacks;
} lk_zk_sasl_params;

/* What the client library that the program runs with has; NULL: it hasn't. */
typedef struct {
    zhandle_t *(*init_ssl)(const char *host, const char *files, watcher_fn watcher, int timeout_ms,
                           const clientid_t *id, void *context, int flags);
    zhandle_t *(*init_sasl)(const char *host, watcher_fn watcher, int timeout_ms, const clientid_t *id,
                            void *context, int flags, log_callback_fn log, lk_zk_sasl_params *params);
    bool threads;              /* it is libzookeeper_mt, which the program has loaded first */
    const int *ssl_connecting; /* the state of a handle whose handshake is due; there with init_ssl */
} lk_zk_library;

void lk_zk_library_look(lk_zk_library *library);

/* Check the three files (tls_ca, tls_cert, tls_key), and put them together as the library wants them: malloc'ed. */
locker_status lk_zk_tls_files(char **files, const locker_value three[3], locker_error *err);

/* Why OpenSSL failed, from its queue of this thread's errors; "" when it doesn't say. */
void lk_zk_tls_reason(char *text, size_t size);

/* What a login by SASL takes. NULL: err says why not. `service` and `host` may be NULL. */
lk_zk_sasl_params *lk_zk_sasl_new(const locker_driver_config *config, const char *mechanism,
                                  const char *service, const char *host, locker_error *err);
/* Before a login: the password may have been changed in its file. Blocks while that is read. */
void lk_zk_sasl_read_again(lk_zk_sasl_params *login);
void lk_zk_sasl_free(lk_zk_sasl_params *login);
