/* settings.c: the driver's parameters, and a checked copy of what a URI or profile says. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

#ifdef LOCKER_REDIS_TLS
#include <hiredis/hiredis_ssl.h>
#endif

/* The order of lk_redis_params. */
enum {
    PARAM_POLL,
    PARAM_FENCING,
    PARAM_DB,
    PARAM_WAIT_REPLICAS,
    PARAM_WAIT_TIMEOUT,
    PARAM_TLS_CA,
    PARAM_TLS_CERT,
    PARAM_TLS_KEY,
    PARAM_TLS_NAME
};

const locker_param lk_redis_params[] = {
    {"poll", LOCKER_PARAM_DURATION, "1s", 10, 60000,
     "how often a waiter looks again for holders that don't tell when they release"},
    {"fencing", LOCKER_PARAM_BOOL, "on", 0, 0,
     "off: no fencing tokens, and locks are taken by a plain SET NX PX"},
    {"db", LOCKER_PARAM_NUMBER, NULL, 0, 1000000, "the database's number, where the path does not say it"},
    {"wait_replicas", LOCKER_PARAM_NUMBER, "0", 0, 1000,
     "a lock counts as taken once so many replicas have it (WAIT); narrows what a failover can lose"},
    {"wait_timeout", LOCKER_PARAM_DURATION, "500ms", 1, 60000, "how long to wait for wait_replicas"},
    {"tls_ca", LOCKER_PARAM_PATH, NULL, 0, 0,
     "rediss, needed: file with the authority of the server's certificate; whom else it certifies is trusted "
     "too"},
    {"tls_cert", LOCKER_PARAM_PATH, NULL, 0, 0, "rediss: file with the client's certificate"},
    {"tls_key", LOCKER_PARAM_PATH, NULL, 0, 0, "rediss: file with the client's key"},
    {"tls_name", LOCKER_PARAM_TEXT, NULL, 0, 0,
     "rediss: the server's name for SNI, where it is not the host's"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

/* NULL stays NULL. */
static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

static bool copy_hosts(struct lk_settings *s, const locker_driver_config *config)
{
    static const locker_host local = {"127.0.0.1", 0};
    const locker_host *from = config->host_count > 0 ? config->hosts : &local;
    const size_t count = config->host_count > 0 ? config->host_count : 1;
    s->hosts = calloc(count, sizeof(*s->hosts));
    if (s->hosts == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        char *name;
        if (!copy(&name, from[i].name))
            return false;
        s->hosts[i].name = name;
        s->hosts[i].port = from[i].port != 0 ? from[i].port : 6379;
        s->host_count = i + 1;
    }
    return true;
}

/* The database: `/N` of the path, or the parameter. */
static locker_status read_database(struct lk_settings *s, const locker_driver_config *config,
                                   locker_error *err)
{
    const char *path = config->path;
    s->database = config->values[PARAM_DB].number;
    if (s->unix_path != NULL || path[0] == '\0' || strcmp(path, "/") == 0)
        return LOCKER_OK;
    int64_t number = 0;
    const char *digit = path + 1;
    for (; *digit >= '0' && *digit <= '9' && number < 1000000; digit++)
        number = number * 10 + (*digit - '0');
    if (*digit != '\0')
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the URI's path is not a database's number; write redis://host:port/0");
    if (config->values[PARAM_DB].given && number != s->database)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the path says database %lld and the parameter db %lld; leave one out",
                                (long long)number, (long long)s->database);
    s->database = number;
    return LOCKER_OK;
}

#ifdef LOCKER_REDIS_TLS
static locker_status start_tls(struct lk_settings *s, locker_error *err)
{
    redisSSLContextError why = REDIS_SSL_CTX_NONE;
    /* hiredis does not compare the certificate's name with the host's. With the system's authorities anybody
     * who has a certificate could pose as the server. */
    if (s->tls_ca == NULL)
        return locker_error_set(
            err, LOCKER_CONFIG, 0,
            "rediss needs tls_ca, the file of the authority that certifies your Redis servers "
            "for TLS; the system's authorities are not enough, as names are not compared");
    redisInitOpenSSL();
    redisSSLContext *context =
        redisCreateSSLContext(s->tls_ca, NULL, s->tls_cert, s->tls_key, s->tls_name, &why);
    if (context == NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "can't set up TLS: %s; check tls_ca, tls_cert and tls_key",
                                redisSSLContextGetError(why));
    s->tls_context = context;
    return LOCKER_OK;
}
#endif

static locker_status read_tls(struct lk_settings *s, const locker_driver_config *config, locker_error *err)
{
    static const char *const names[] = {"tls_ca", "tls_cert", "tls_key", "tls_name"};
    s->tls = strcmp(config->scheme, "rediss") == 0;
    for (int i = 0; i < 4 && !s->tls; i++) {
        if (config->values[PARAM_TLS_CA + i].given)
            return locker_error_set(err, LOCKER_CONFIG, 0, "the parameter '%s' needs the scheme rediss",
                                    names[i]);
    }
    if (!s->tls)
        return LOCKER_OK;
#ifdef LOCKER_REDIS_TLS
    return start_tls(s, err);
#else
    return locker_error_set(
        err, LOCKER_UNSUPPORTED, 0,
        "this build has no TLS: rediss:// needs hiredis 1.0 or later with hiredis_ssl; build "
        "with it, or use redis:// on a network that you trust");
#endif
}

static bool copy_texts(struct lk_settings *s, const locker_driver_config *config)
{
    const locker_value *v = config->values;
    const bool is_unix = strcmp(config->scheme, "redis+unix") == 0;
    return copy(&s->unix_path, is_unix ? config->path : NULL) && copy(&s->user, config->user) &&
           copy(&s->password, config->password) && copy(&s->name_space, config->name_space) &&
           copy(&s->tls_ca, v[PARAM_TLS_CA].text) && copy(&s->tls_cert, v[PARAM_TLS_CERT].text) &&
           copy(&s->tls_key, v[PARAM_TLS_KEY].text) && copy(&s->tls_name, v[PARAM_TLS_NAME].text) &&
           (is_unix || copy_hosts(s, config));
}

locker_status lk_settings_init(struct lk_settings *s, const locker_driver_config *config, locker_error *err)
{
    const locker_value *v = config->values;
    memset(s, 0, sizeof(*s));
    s->fencing = v[PARAM_FENCING].number != 0;
    s->poll_ns = v[PARAM_POLL].number;
    s->wait_replicas = v[PARAM_WAIT_REPLICAS].number;
    s->wait_timeout_ns = v[PARAM_WAIT_TIMEOUT].number;
    s->connect_timeout_ns = config->connect_timeout_ns;
    s->command_timeout_ns = config->command_timeout_ns;
    s->cleanup_ns = config->cleanup_ns;
    locker_status status = LOCKER_OK;
    if (!copy_texts(s, config))
        status = locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    if (status == LOCKER_OK && s->unix_path != NULL && (s->unix_path[0] != '/' || s->unix_path[1] == '\0'))
        status = locker_error_set(err, LOCKER_CONFIG, 0,
                                  "the URI names no socket; write redis+unix:///run/redis/redis.sock");
    if (status == LOCKER_OK && s->user != NULL && s->password == NULL)
        status = locker_error_set(
            err, LOCKER_CONFIG, 0,
            "the URI names a user and no password; write redis://:PASSWORD@host where the server "
            "has no users, or give password_file or LOCKER_PASSWORD");
    if (status == LOCKER_OK)
        status = read_database(s, config, err);
    if (status == LOCKER_OK)
        status = read_tls(s, config, err);
    if (status != LOCKER_OK)
        lk_settings_clear(s);
    return status;
}

void lk_settings_clear(struct lk_settings *s)
{
#ifdef LOCKER_REDIS_TLS
    if (s->tls_context != NULL)
        redisFreeSSLContext(s->tls_context);
#endif
    for (size_t i = 0; i < s->host_count; i++)
        free((char *)(uintptr_t)s->hosts[i].name);
    free(s->hosts);
    if (s->password != NULL)
        explicit_bzero(s->password, strlen(s->password));
    char *const texts[] = {s->unix_path, s->user,     s->password, s->name_space,
                           s->tls_ca,    s->tls_cert, s->tls_key,  s->tls_name};
    for (size_t i = 0; i < sizeof(texts) / sizeof(texts[0]); i++)
        free(texts[i]);
    memset(s, 0, sizeof(*s));
}
