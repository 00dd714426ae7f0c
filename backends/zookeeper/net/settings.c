/* settings.c: the driver's parameters, all of the connection, and a checked copy of what a URI or profile says. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "state.h"

enum { DEFAULT_PORT = 2181 };
/* What may be asked for: the client library gives a server two thirds of it to answer a connection. */
static const int64_t session_least_ns = 100 * LK_MS, session_most_ns = INT64_C(24) * 3600 * LK_S;

/* The order of lk_zk_params. */
enum { SESSION_TIMEOUT, TICK, TLS, TLS_CA, TLS_CERT, TLS_KEY, SASL, SASL_SERVICE, SASL_HOST, NAMES };
_Static_assert(NAMES == (int)LK_ZK_PARAM_NAMES, "LK_ZK_PARAM_NAMES is the index of names");

const locker_parameter lk_zk_params[] = {
    {"session_timeout", LOCKER_PARAM_DURATION, NULL, 100, INT64_C(24) * 3600 * 1000,
     "session time-out to request; the server may give another one. Default: the ttl"},
    {"tick", LOCKER_PARAM_DURATION, NULL, 1, INT64_C(3600) * 1000,
     "the servers' tickTime; with it, locks last longer without an answer. Default: "
     "half the session time-out, its maximum under the default minSessionTimeout"},
    {"tls", LOCKER_PARAM_BOOL, "off", 0, 0,
     "on: connect by TLS; needs a client library with OpenSSL, and the three files below"},
    {"tls_ca", LOCKER_PARAM_PATH, NULL, 0, 0,
     "tls: file with the authority of the servers' certificates; the system's authorities are trusted too"},
    {"tls_cert", LOCKER_PARAM_PATH, NULL, 0, 0, "tls: file with the client's certificate"},
    {"tls_key", LOCKER_PARAM_PATH, NULL, 0, 0, "tls: file with the client's key, not encrypted"},
    {"sasl", LOCKER_PARAM_TEXT, NULL, 0, 0,
     "log in by this SASL mechanism, such as digest-md5; needs a client library with Cyrus SASL"},
    {"sasl_service", LOCKER_PARAM_TEXT, "zookeeper", 0, 0, "sasl: the servers' service name"},
    {"sasl_host", LOCKER_PARAM_TEXT, NULL, 0, 0,
     "sasl: the servers' name for the mechanism; default: zk-sasl-md5 for digest-md5, else the address"},
    {"names", LOCKER_PARAM_TEXT, "mutex", 0, 0,
     "names of the nodes of exclusive locks: mutex, as Curator's InterProcessMutex, "
     "or readwrite, as its InterProcessReadWriteLock; shared locks always have the "
     "latter. Locks of liblocker exclude each other in any case"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

static locker_status copy_login(lk_zk_settings *s, const locker_driver_config *config, locker_error *err)
{
    if (config->user == NULL && config->password == NULL)
        return LOCKER_OK;
    if (config->user == NULL || config->password == NULL)
        return lk_misconfigured(err, "digest login needs a user and a password, but the %s is missing; %s",
                                config->user == NULL ? "user" : "password",
                                config->user == NULL ? "write zookeeper://user@host"
                                                     : "set password_file or LOCKER_PASSWORD");
    if (strchr(config->user, ':') != NULL)
        return lk_misconfigured(err, "the user name has a ':', which ZooKeeper's "
                                     "digest login does not support; use another user");
    if (asprintf(&s->credentials, "%s:%s", config->user, config->password) >= 0)
        return LOCKER_OK;
    s->credentials = NULL;
    return lk_out_of_memory(err);
}

/* A parameter of something that is not switched on. */
static locker_status refuse_alone(const locker_driver_config *config, int first, int last, const char *needs,
                                  locker_error *err)
{
    for (int i = first; i <= last; i++)
        if (config->values[i].given)
            return lk_misconfigured(err, "the parameter '%s' needs %s", lk_zk_params[i].name, needs);
    return LOCKER_OK;
}

static locker_status read_tls(lk_zk_settings *s, const locker_driver_config *config, locker_error *err)
{
    const locker_value *v = config->values;
    if (v[TLS].number == 0)
        return refuse_alone(config, TLS_CA, TLS_KEY, "tls=on", err);
    if (s->library.init_ssl == NULL)
        return lk_unsupported(err, "cannot use TLS for ZooKeeper: the client library (libzookeeper_st) "
                                   "was built without OpenSSL; install a build with OpenSSL, or remove "
                                   "tls and use a trusted network or a tunnel (stunnel)");
    return lk_zk_tls_files(&s->tls, &v[TLS_CA], err);
}

static locker_status read_sasl(lk_zk_settings *s, const locker_driver_config *config, locker_error *err)
{
    const locker_value *v = config->values;
    if (v[SASL].text == NULL)
        return refuse_alone(config, SASL_SERVICE, SASL_HOST, "sasl", err);
    if (s->library.init_sasl == NULL)
        return lk_unsupported(err, "cannot use SASL for ZooKeeper: the client library (libzookeeper_st) "
                                   "was built without Cyrus SASL; install a build with Cyrus SASL, or "
                                   "remove sasl and log in with a user and password (digest)");
    if (s->tls != NULL)
        return lk_unsupported(
            err, "ZooKeeper's client library does not support tls and sasl together; remove sasl and "
                 "log in with a user and password (digest), or remove tls and use a tunnel (stunnel)");
    s->sasl = lk_zk_sasl_new(config, v[SASL].text, v[SASL_SERVICE].text, v[SASL_HOST].text, err);
    return s->sasl != NULL ? LOCKER_OK : err != NULL ? err->status : LOCKER_CONFIG;
}

static locker_status refuse_threads(locker_error *err)
{
    return lk_unsupported(err, "the program uses libzookeeper_mt, so this driver would call its "
                               "functions instead of libzookeeper_st's; build liblocker with "
                               "libzookeeper_st.a (libzookeeper-st-dev) and link liblocker.so");
}

locker_status lk_zk_settings_init(lk_zk_settings *s, const locker_driver_config *config, locker_error *err)
{
    const locker_value *session = &config->values[SESSION_TIMEOUT];
    const int64_t wanted_ns = session->given ? session->number : config->ttl_ns;
    s->session_ns = lk_time_earlier(lk_time_later(wanted_ns, session_least_ns), session_most_ns);
    s->tick_ns = config->values[TICK].number;
    s->connect_timeout_ns = config->connect_timeout_ns;
    lk_zk_library_look(&s->library);
    locker_status status = s->library.threads ? refuse_threads(err) : read_tls(s, config, err);
    if (status == LOCKER_OK)
        status = read_sasl(s, config, err);
    s->hosts = lk_hosts_new(config, DEFAULT_PORT);
    if (status == LOCKER_OK && s->hosts == NULL)
        status = lk_out_of_memory(err);
    s->names = s->hosts != NULL ? s->hosts->names : NULL;
    if (status == LOCKER_OK && s->sasl == NULL)
        status = copy_login(s, config, err);
    return status;
}

void lk_zk_settings_clear(lk_zk_settings *s)
{
    lk_hosts_drop(s->hosts);
    if (s->credentials != NULL)
        explicit_bzero(s->credentials, strlen(s->credentials));
    free(s->credentials);
    free(s->tls);
    lk_zk_sasl_free(s->sasl);
}
