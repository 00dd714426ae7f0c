/* no_tls.c: a build without OpenSSL, in which nobody gets as far as a connection with TLS; see tls.h. */
#include <errno.h>

#include "tls.h"

#pragma GCC diagnostic ignored "-Wunused-parameter"
/* NOLINTBEGIN(misc-unused-parameters): tls.h says them */

locker_status lk_tls_open_files(lk_tls_settings *settings, locker_error *err)
{
    return lk_unsupported(err,
                          "this build has no TLS: %s OpenSSL; build with OpenSSL "
                          "(libssl-dev), or do without TLS if you trust the network",
                          settings->needing);
}

void lk_tls_close_files(struct ssl_ctx_st *files)
{
}

lk_tls *lk_tls_new(const lk_tls_settings *settings, int fd, const char *host)
{
    return NULL;
}

void lk_tls_free(lk_tls *tls, bool farewell)
{
}

int lk_tls_handshake(lk_tls *tls, short *waits)
{
    *waits = 0;
    return ENOTSUP;
}

bool lk_tls_heard(const lk_tls *tls)
{
    return false;
}

bool lk_tls_told(const lk_tls *tls, const char *peer, locker_error *err, bool *permanent)
{
    *permanent = false;
    return false;
}

ssize_t lk_tls_send(lk_tls *tls, const char *data, size_t len, short *waits, bool *unsent)
{
    *waits = 0;
    *unsent = false;
    errno = ENOTSUP;
    return -1;
}

/* NOLINTNEXTLINE(readability-non-const-parameter): tls.h says its type */
ssize_t lk_tls_receive(lk_tls *tls, char *data, size_t cap, bool *more)
{
    *more = false;
    errno = ENOTSUP;
    return -1;
}
/* NOLINTEND(misc-unused-parameters) */
