/* settings.c: reading the parameters of an instance. */
#include <stdlib.h>
#include <string.h>

#include "keys.h"
#include "settings.h"

/* The order of lk_redis_params. */
enum {
    POLL,
    FENCING,
    DB,
    WAIT_REPLICAS,
    WAIT_TIMEOUT,
    RECOVERY,
    CLOCK_DRIFT,
    SENTINEL_USER,
    SENTINEL_PASSWORD,
    SENTINEL_TLS,
    TLS /* its five */
};

const locker_parameter lk_redis_params[] = {
    {"poll", LOCKER_PARAM_DURATION, "1s", 10, 60000,
     "how often waiters query a held lock again, because "
     "other clients do not notify on release"},
    {"fencing", LOCKER_PARAM_BOOL, "on", 0, 0,
     "off: no fencing tokens, and locks are taken by a plain SET NX PX"},
    {"db", LOCKER_PARAM_NUMBER, NULL, 0, 1000000, "the database's number, if the path does not have it"},
    {"wait_replicas", LOCKER_PARAM_NUMBER, "0", 0, 1000,
     "a grant or renewal counts only if so many replicas have it "
     "(WAIT), so that a failover loses fewer locks"},
    {"wait_timeout", LOCKER_PARAM_DURATION, "500ms", 1, 60000, "how long to wait for wait_replicas"},
    {"recovery", LOCKER_PARAM_DURATION, "0s", 0, INT64_C(7) * 24 * 3600 * 1000,
     "live holders keep their locks when the server loses its data: it then grants no lock for this "
     "time. The same for all clients of a namespace, and no ttl may be longer. 0s: off"},
    {"clock_drift", LOCKER_PARAM_NUMBER, "1", 1, 30,
     "percent by which the server's clock may run faster than this "
     "host's: a lease counts as over earlier by this percentage"},
    {"sentinel_user", LOCKER_PARAM_TEXT, NULL, 0, 0,
     "+sentinel: the user at the Sentinels, if they have users"},
    {"sentinel_password_file", LOCKER_PARAM_SECRET_FILE, NULL, 0, 0,
     "+sentinel: the file with the password for the Sentinels, in its first line"},
    {"sentinel_tls", LOCKER_PARAM_BOOL, NULL, 0, 0,
     "+sentinel: use TLS with the Sentinels, by the tls_... "
     "parameters; default: as with the servers"},
    LK_TLS_PARAMETER_ROWS("rediss, valkeys"),
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

/* NULL stays NULL. */
static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

static bool copy_hosts(lk_redis_target *t, const locker_driver_config *config, int port)
{
    static const locker_host local = {.name = "127.0.0.1"};
    const locker_host *from = config->host_count > 0 ? config->hosts : &local;
    const size_t count = config->host_count > 0 ? config->host_count : 1;
    t->hosts = calloc(count, sizeof *t->hosts);
    if (t->hosts == NULL)
        return false;
    for (size_t i = 0; i < count; i++) {
        char *name;
        if (!copy(&name, from[i].name))
            return false;
        t->hosts[i].name = name;
        t->hosts[i].port = from[i].port != 0 ? from[i].port : port;
        t->host_count = i + 1;
    }
    return true;
}

static bool is_valkey(const locker_driver_config *config)
{
    return strncmp(config->scheme, "valkey", 6) == 0;
}

/* The master's name, which the path begins with, and of `path` what is behind it. */
static locker_status read_master_name(lk_redis_target *t, const char **path, locker_error *err)
{
    const char *const name = *path[0] == '/' ? *path + 1 : *path;
    const size_t len = strcspn(name, "/");
    if (len == 0)
        return lk_misconfigured(err,
                                "the URI names no master; write %s+sentinel://HOST,HOST/MASTER/0, "
                                "with the master's name at the Sentinels",
                                t->service->scheme);
    t->sentinels->master_name = strndup(name, len);
    *path = name + len;
    return t->sentinels->master_name != NULL ? LOCKER_OK : lk_out_of_memory(err);
}

/* The database: `/N` of the path, or the parameter. */
static locker_status read_path(lk_redis_target *t, const locker_driver_config *config, locker_error *err)
{
    const char *path = config->path;
    t->database = config->values[DB].number;
    const locker_status named = t->sentinels != NULL ? read_master_name(t, &path, err) : LOCKER_OK;
    if (named != LOCKER_OK || t->unix_path != NULL || path[0] == '\0' || strcmp(path, "/") == 0)
        return named;
    int64_t number = 0;
    const char *digit = path + 1;
    for (; *digit >= '0' && *digit <= '9' && number < 1000000; digit++)
        number = number * 10 + (*digit - '0');
    if (*digit != '\0')
        return lk_misconfigured(err, "the URI's path is not a database's number; write %s://host:port/0",
                                t->service->scheme);
    if (config->values[DB].given && number != t->database)
        return lk_misconfigured(err, "the path says database %lld and the parameter db %lld; leave one out",
                                (long long)number, (long long)t->database);
    t->database = number;
    if (t->cluster && number != 0)
        return lk_misconfigured(err,
                                "the URI or db says database %lld, but a cluster has "
                                "only database 0; leave the database out",
                                (long long)number);
    return LOCKER_OK;
}

static locker_status read_tls(lk_redis_target *t, const locker_driver_config *config, locker_error *err)
{
    const locker_value *v = config->values;
    t->tls.on = strncmp(config->scheme, "rediss", 6) == 0 || strncmp(config->scheme, "valkeys", 7) == 0;
    if (t->sentinels != NULL)
        t->sentinels->tls.on = v[SENTINEL_TLS].given ? v[SENTINEL_TLS].number != 0 : t->tls.on;
    const bool nowhere = !t->tls.on && (t->sentinels == NULL || !t->sentinels->tls.on);
    for (int i = TLS; i < TLS + LK_TLS_PARAMETERS && nowhere; i++)
        if (v[i].given)
            return lk_misconfigured(err, "the parameter '%s' needs the scheme %ss", lk_redis_params[i].name,
                                    t->service->scheme);
    const locker_status status = t->tls.on ? lk_tls_init(&t->tls, &v[TLS], err) : LOCKER_OK;
    return status != LOCKER_OK || t->sentinels == NULL || !t->sentinels->tls.on
               ? status
               : lk_tls_init(&t->sentinels->tls, &v[TLS], err);
}

static bool copy_tls(lk_redis_target *t, const locker_value *v)
{
    t->tls.service = t->service->name;
    t->tls.without_tls = t->service->without_tls;
    t->tls.needing = "rediss:// and valkeys:// need";
    return lk_tls_settings_copy(&t->tls, &v[TLS]);
}

static bool copy_prefix(lk_redis_prefix *prefix, const char *name_space)
{
    const size_t len = strlen(name_space), colon = len > 0;
    prefix->text = malloc(len + colon + 1);
    if (prefix->text == NULL)
        return false;
    memcpy(prefix->text, name_space, len);
    memcpy(prefix->text + len, ":", colon);
    prefix->len = len + colon;
    prefix->text[prefix->len] = '\0';
    return true;
}

static bool copy_sentinels(lk_redis_target *t, const locker_driver_config *config)
{
    static const char secret[] = "sentinel_password_file", on[] = "set sentinel_tls=on",
                      off[] = "set sentinel_tls=off";
    static const lk_redis_service services[] = {{"Sentinel", secret, "redis", on, off},
                                                {"Sentinel", secret, "valkey", on, off}};
    const locker_value *v = config->values;
    lk_redis_target *const s = t->sentinels = calloc(1, sizeof *s);
    if (s == NULL)
        return false;
    s->service = &services[is_valkey(config)];
    s->resolver = lk_redis_resolver_new();
    if (s->resolver == NULL || !copy_tls(s, v))
        return false;
    free(s->tls.name); /* the servers' */
    s->tls.name = NULL;
    return copy(&s->user, v[SENTINEL_USER].text) && copy(&s->password, v[SENTINEL_PASSWORD].text) &&
           copy(&s->password_file, config->secret_files[SENTINEL_PASSWORD]) && copy_hosts(s, config, 26379);
}

static bool copy_texts(lk_redis_settings *s, const locker_driver_config *config)
{
    const bool is_unix = strstr(config->scheme, "+unix") != NULL;
    const bool by_sentinels = strstr(config->scheme, "+sentinel") != NULL;
    lk_redis_target *t = &s->target;
    t->resolver = lk_redis_resolver_new();
    return t->resolver != NULL && copy(&t->unix_path, is_unix ? config->path : NULL) &&
           copy(&t->user, config->user) && copy(&t->password, config->password) &&
           copy(&t->password_file, config->password_file) && copy_prefix(&s->prefix, config->name_space) &&
           copy_tls(t, config->values) &&
           (is_unix || (by_sentinels ? copy_sentinels(t, config) : copy_hosts(t, config, 6379)));
}

locker_status lk_redis_settings_init(lk_redis_settings *s, const locker_driver_config *config,
                                     locker_error *err)
{
    static const char secret[] = "password_file or LOCKER_PASSWORD";
    static const lk_redis_service services[] = {
        {"Redis", secret, "redis", "write rediss://", "write redis://"},
        {"Valkey", secret, "valkey", "write valkeys://", "write valkey://"}};
    const locker_value *v = config->values;
    lk_redis_target *t = &s->target;
    t->service = &services[is_valkey(config)];
    t->cluster = strstr(config->scheme, "+cluster") != NULL;
    s->fencing = v[FENCING].number != 0;
    s->poll_ns = v[POLL].number;
    s->wait_replicas = v[WAIT_REPLICAS].number;
    s->wait_timeout_ns = v[WAIT_TIMEOUT].number;
    t->connect_timeout_ns = config->connect_timeout_ns;
    t->command_timeout_ns = config->command_timeout_ns;
    s->cleanup_ns = config->cleanup_ns;
    s->recovery_ns = v[RECOVERY].number;
    s->clock_drift = v[CLOCK_DRIFT].number;
    if (!copy_texts(s, config))
        return lk_out_of_memory(err);
    if (t->unix_path != NULL &&
        config->host_count > 0) /* which may be a password at a wrong place: not quoted */
        return lk_misconfigured(err,
                                "the URI names a host, but a socket has no host; write "
                                "three slashes, %s+unix:///run/%s/%s.sock",
                                t->service->scheme, t->service->scheme, t->service->scheme);
    if (t->unix_path != NULL && (t->unix_path[0] != '/' || t->unix_path[1] == '\0'))
        return lk_misconfigured(err, "the URI names no socket; write %s+unix:///run/%s/%s.sock",
                                t->service->scheme, t->service->scheme, t->service->scheme);
    if (t->user != NULL && t->password == NULL)
        return lk_misconfigured(err,
                                "the URI names a user but no password; write %s://:PASSWORD@host if the "
                                "server has no users, or set password_file or LOCKER_PASSWORD",
                                t->service->scheme);
    if (s->recovery_ns > 0 && t->cluster)
        return lk_misconfigured(
            err, "recovery works with a single server or Sentinels, not with a cluster; leave recovery out");
    if (s->recovery_ns > 0 && !s->fencing)
        return lk_misconfigured(err, "recovery needs fencing tokens; leave out fencing=off, or recovery");
    if (s->recovery_ns > 0 && config->ttl_ns > s->recovery_ns)
        return lk_misconfigured(err,
                                "ttl is %lld ms, longer than recovery, %lld ms; make ttl shorter, "
                                "or recovery longer for all clients of the namespace",
                                (long long)(config->ttl_ns / LK_MS), (long long)(s->recovery_ns / LK_MS));
    if (lk_redis_namespace_is_reserved(config->name_space))
        return lk_misconfigured(
            err,
            "the namespace '%.100s' is 'locker', begins with 'locker:', ends in ':locker', or has "
            "':locker:' in it, which is reserved for the Redis driver; choose another namespace",
            config->name_space);
    if (t->cluster && lk_redis_namespace_tears_slots(config->name_space))
        return lk_misconfigured(
            err,
            "the namespace '%.100s' has a '{' without a hash tag, so the keys of a lock would be in "
            "different slots of the cluster; leave the brace out, or write a tag such as {shop}",
            config->name_space);
    if (t->sentinels != NULL && t->sentinels->user != NULL && t->sentinels->password == NULL)
        return lk_misconfigured(err, "sentinel_user is set, but sentinel_password_file is not; set it, too");
    for (int i = SENTINEL_USER; i <= SENTINEL_TLS && t->sentinels == NULL; i++)
        if (v[i].given)
            return lk_misconfigured(err, "the parameter '%s' needs the scheme %s+sentinel",
                                    lk_redis_params[i].name, t->service->scheme);
    const locker_status status = read_path(t, config, err);
    return status == LOCKER_OK ? read_tls(t, config, err) : status;
}

static void clear_target(lk_redis_target *t)
{
    lk_redis_resolver_drop(t->resolver);
    lk_tls_clear(&t->tls);
    for (size_t i = 0; i < t->host_count; i++)
        free((char *)(uintptr_t)t->hosts[i].name);
    free(t->hosts);
    if (t->password != NULL)
        explicit_bzero(t->password, strlen(t->password));
    char *const texts[] = {t->unix_path, t->user, t->password, t->password_file, t->master_name};
    for (size_t i = 0; i < sizeof texts / sizeof texts[0]; i++)
        free(texts[i]);
}

void lk_redis_settings_clear(lk_redis_settings *s)
{
    lk_redis_target *const t = &s->target;
    if (t->sentinels != NULL)
        clear_target(t->sentinels);
    free(t->sentinels);
    clear_target(t);
    free(s->prefix.text);
}
