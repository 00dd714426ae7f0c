/* cyrus.h: what the client library and Cyrus' SASL library take, declared for builds without their headers. */
#pragma once

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
    const char *service;
    const char *host; /* NULL: the server's address */
    const char *mechanisms;
    const lk_zk_sasl_callback *callbacks;
} lk_zk_sasl_params;
