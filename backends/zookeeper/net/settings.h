/* settings.h: what open was told of the servers, and of the session with them; constant afterwards. */
#pragma once

#include "resolve.h"
#include "tls_sasl.h"

typedef struct {
    lk_hosts *hosts;
    const char *names; /* theirs, for people: host:port,host:port */
    char *credentials; /* of digest: user:password, wiped when freed; NULL: none */
    lk_zk_library library;
    char *tls;               /* TLS: its files, as the library takes them; NULL: none */
    lk_zk_sasl_params *sasl; /* a login by SASL; NULL: none */
    int64_t session_ns;      /* the session time-out that is asked for */
    int64_t tick_ns;         /* of the servers; 0: it was not told */
    int64_t connect_timeout_ns;
} lk_zk_settings;

/* On settings that are all zero. Clear them also when it fails. */
locker_status lk_zk_settings_init(lk_zk_settings *s, const locker_driver_config *config, locker_error *err);
void lk_zk_settings_clear(lk_zk_settings *s);

/* Whether what we make is to be ours alone. */
static inline bool lk_zk_logs_in(const lk_zk_settings *s)
{
    return s->credentials != NULL || s->sasl != NULL;
}
