/* no_tls.c: a build without OpenSSL, in which nobody gets as far as a connection with TLS; see tls.h. */
#include <errno.h>

#include "tls.h"

locker_status lk_tls_init(lk_tls_settings *settings, const locker_value values[LK_TLS_PARAMETERS],
                          locker_error *err)
{
    const locker_status status = lk_tls_settings_verify(settings, values, err);
    return status != LOCKER_OK ? status
                               : lk_unsupported(err,
                                                "this build has no TLS: %s OpenSSL; build with OpenSSL "
                                                "(libssl-dev), or do without TLS if you trust the network",
                                                settings->needing);
}

void lk_tls_clear(lk_tls_settings *settings)
{
    lk_tls_settings_clear(settings);
}

lk_tls *lk_tls_new(const lk_tls_settings *settings, int fd, const char *host)
{
    (void)settings;
    (void)fd;
    (void)host;
    return NULL;
}

void lk_tls_free(lk_tls *tls, bool farewell)
{
    (void)tls;
    (void)farewell;
}

int lk_tls_handshake(lk_tls *tls, short *waits)
{
    (void)tls;
    *waits = 0;
    return ENOTSUP;
}

bool lk_tls_heard(const lk_tls *tls)
{
    (void)tls;
    return false;
}

bool lk_tls_told(const lk_tls *tls, const char *peer, locker_error *err, bool *permanent)
{
    (void)tls;
    (void)peer;
    (void)err;
    *permanent = false;
    return false;
}

ssize_t lk_tls_send(lk_tls *tls, const char *data, size_t len, short *waits, bool *unsent)
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
ssize_t lk_tls_receive(lk_tls *tls, char *data, size_t cap, bool *more)
{
    (void)tls;
    (void)data;
    (void)cap;
    *more = false;
    errno = ENOTSUP;
    return -1;
}
