/* no_tls.c: a build without OpenSSL, in which nobody gets as far as a connection with TLS; see tls.h. */
#include <errno.h>

#include "tls.h"

locker_status lk_redis_tls_init(lk_redis_tls_settings *settings, locker_error *err)
{
    (void)settings;
    return lk_unsupported(
        err,
        "this build has no TLS: rediss:// and valkeys:// need OpenSSL; build with it (libssl-dev), or do "
        "without TLS on a network that you trust");
}

void lk_redis_tls_clear(lk_redis_tls_settings *settings)
{
    (void)settings;
}

lk_redis_tls *lk_redis_tls_new(const lk_redis_tls_settings *settings, int fd, const char *host)
{
    (void)settings;
    (void)fd;
    (void)host;
    return NULL;
}

void lk_redis_tls_free(lk_redis_tls *tls, bool farewell)
{
    (void)tls;
    (void)farewell;
}

int lk_redis_tls_handshake(lk_redis_tls *tls, short *waits)
{
    (void)tls;
    *waits = 0;
    return ENOTSUP;
}

bool lk_redis_tls_heard(const lk_redis_tls *tls)
{
    (void)tls;
    return false;
}

bool lk_redis_tls_told(const lk_redis_tls *tls, const lk_redis_service *service, const char *peer,
                       lk_redis_failure *why)
{
    (void)tls;
    (void)service;
    (void)peer;
    (void)why;
    return false;
}

ssize_t lk_redis_tls_send(lk_redis_tls *tls, const char *data, size_t len, short *waits, bool *unsent)
{
    (void)tls;
    (void)data;
    (void)len;
    *waits = 0;
    *unsent = false;
    errno = ENOTSUP;
    return -1;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): tls.h says its type */
ssize_t lk_redis_tls_receive(lk_redis_tls *tls, char *data, size_t cap, bool *more)
{
    (void)tls;
    (void)data;
    (void)cap;
    *more = false;
    errno = ENOTSUP;
    return -1;
}
