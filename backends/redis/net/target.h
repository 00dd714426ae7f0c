/* target.h: where to connect to, and why a connection could not be had. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include <locker/driver.h>

/* Constant from open to close. */
typedef struct {
    locker_host *hosts; /* at least one, unless unix_path */
    size_t host_count;
    char *unix_path; /* NULL: TCP */
    char *user;      /* NULL: none */
    char *password;  /* NULL: none; wiped when freed */
    int64_t database;
    bool tls;
    char *tls_ca, *tls_cert, *tls_key, *tls_name; /* NULL: none */
    void *tls_context;                            /* redisSSLContext *, NULL without TLS */
    int64_t connect_timeout_ns, command_timeout_ns;
} lk_redis_target;

typedef struct {
    locker_error error;
    bool permanent; /* a person has to change something */
    bool transient; /* the server is there and starting: again in a moment */
    bool deserted;  /* nothing listens at any host that was tried */
} lk_redis_failure;
