/*
 * sasl.c: a login by SASL. The client library has Cyrus' library do it, which asks for user and password by
 * callbacks. Both are looked up at run time like the client library's own (library.c); what is declared here
 * has been the same since Cyrus SASL 2.0, and tests/integration/zookeeper/sasl.c compares it with sasl.h.
 */
#include <ctype.h>
#include <dlfcn.h>
#include <pthread.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "cyrus.h"
#include "tls_sasl.h"

struct lk_zk_sasl {
    lk_zk_sasl_params params;
    lk_zk_sasl_callback callbacks[LK_ZK_SASL_CALLBACKS];
    lk_zk_sasl_secret *secret; /* wiped when freed; NULL: no password */
    char *user;                /* NULL: none */
    char *mechanism, *service, *host;
};

/* ------------------------------------------------------------------ callbacks ---- */

static int give_user(void *context, int id, const char **result, unsigned *len)
{
    const lk_zk_sasl *sasl = context;
    (void)id;
    *result = sasl->user;
    if (len != NULL)
        *len = (unsigned)strlen(sasl->user);
    return 0;
}

static int give_secret(void *connection, void *context, int id, lk_zk_sasl_secret **result)
{
    const lk_zk_sasl *sasl = context;
    (void)connection;
    (void)id;
    *result = sasl->secret;
    return 0;
}

/* The server's own realm, where it has several: the first. */
static int give_realm(void *context, int id, const char **available, const char **result)
{
    (void)context;
    (void)id;
    *result = available != NULL && available[0] != NULL ? available[0] : "";
    return 0;
}

/* Cyrus would write to the system's log; what matters of it is in our errors. */
static int drop_message(void *context, int level, const char *message)
{
    (void)context;
    (void)level;
    (void)message;
    return 0;
}

typedef int plain_fn(void);
typedef void any_fn(void); /* which every function may be cast to */

static void list_callbacks(lk_zk_sasl *sasl)
{
    lk_zk_sasl_callback *next = sasl->callbacks;
    if (sasl->user != NULL) {
        *next++ = (lk_zk_sasl_callback){LK_ZK_SASL_USER, (plain_fn *)(any_fn *)give_user, sasl};
        *next++ = (lk_zk_sasl_callback){LK_ZK_SASL_AUTHNAME, (plain_fn *)(any_fn *)give_user, sasl};
    }
    if (sasl->secret != NULL)
        *next++ = (lk_zk_sasl_callback){LK_ZK_SASL_PASS, (plain_fn *)(any_fn *)give_secret, sasl};
    *next++ = (lk_zk_sasl_callback){LK_ZK_SASL_GETREALM, (plain_fn *)(any_fn *)give_realm, sasl};
    *next++ = (lk_zk_sasl_callback){LK_ZK_SASL_LOG, (plain_fn *)(any_fn *)drop_message, sasl};
    *next = (lk_zk_sasl_callback){LK_ZK_SASL_LIST_END, NULL, NULL};
}

/* ------------------------------------------------------------------ Cyrus' library ---- */

static void *mutex_new(void)
{
    pthread_mutex_t *mutex = malloc(sizeof *mutex);
    if (mutex != NULL)
        pthread_mutex_init(mutex, NULL);
    return mutex;
}

static int mutex_lock(void *mutex)
{
    return pthread_mutex_lock(mutex) == 0 ? 0 : -1;
}

static int mutex_unlock(void *mutex)
{
    return pthread_mutex_unlock(mutex) == 0 ? 0 : -1;
}

static void mutex_free(void *mutex)
{
    pthread_mutex_destroy(mutex);
    free(mutex);
}

static const char **(*list_mechanisms)(void);

/* Once in the process, and for its life. An application that uses Cyrus' library too may have begun it
 * already: it counts, and keeps the mutexes that it was given first. */
static void begin_cyrus(void)
{
    static const lk_zk_sasl_callback quiet[] = {{LK_ZK_SASL_LOG, (plain_fn *)(any_fn *)drop_message, NULL},
                                                {LK_ZK_SASL_LIST_END, NULL, NULL}};
    void (*set_mutex)(void *(*)(void), int (*)(void *), int (*)(void *), void (*)(void *)) = NULL;
    int (*init)(const lk_zk_sasl_callback *) = NULL;
    *(void **)&set_mutex = dlsym(RTLD_DEFAULT, "sasl_set_mutex");
    *(void **)&init = dlsym(RTLD_DEFAULT, "sasl_client_init");
    if (set_mutex == NULL || init == NULL)
        return;
    set_mutex(mutex_new, mutex_lock, mutex_unlock, mutex_free);
    if (init(quiet) == 0)
        *(void **)&list_mechanisms = dlsym(RTLD_DEFAULT, "sasl_global_listmech");
}

static locker_status check_mechanism(const char *mechanism, locker_error *err)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    (void)pthread_once(&once, begin_cyrus);
    const char **all = list_mechanisms != NULL ? list_mechanisms() : NULL;
    for (; all != NULL && *all != NULL; all++)
        if (strcasecmp(*all, mechanism) == 0)
            return LOCKER_OK;
    return locker_error_set(err, LOCKER_UNSUPPORTED, 0,
                            "Cyrus SASL has no mechanism '%s' on this machine; digest-md5 is in "
                            "libsasl2-modules, gssapi in libsasl2-modules-gssapi-mit",
                            mechanism);
}

/* ------------------------------------------------------------------ making and freeing ---- */

static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

static bool copy_secret(lk_zk_sasl *sasl, const char *password)
{
    if (password == NULL)
        return true;
    const size_t len = strlen(password);
    sasl->secret = calloc(1, sizeof *sasl->secret + len);
    if (sasl->secret == NULL)
        return false;
    sasl->secret->len = len;
    memcpy(sasl->secret->data, password, len);
    return true;
}

static locker_status check_login(const locker_driver_config *config, bool is_digest, locker_error *err)
{
    if (config->user != NULL && config->password == NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the user '%s' has no password; give password_file or LOCKER_PASSWORD",
                                config->user);
    if (config->user == NULL && (is_digest || config->password != NULL))
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "a login by SASL takes a user and a password, and the user is missing: write "
                                "zookeeper://user@host");
    return LOCKER_OK;
}

lk_zk_sasl *lk_zk_sasl_new(const locker_driver_config *config, const char *mechanism, const char *service,
                           const char *host, locker_error *err)
{
    /* The name that ZooKeeper's servers have for it; other mechanisms have the host's. */
    static const char digest[] = "DIGEST-MD5", digest_host[] = "zk-sasl-md5";
    const bool is_digest = strcasecmp(mechanism, digest) == 0;
    if (check_login(config, is_digest, err) != LOCKER_OK || check_mechanism(mechanism, err) != LOCKER_OK)
        return NULL;
    lk_zk_sasl *sasl = calloc(1, sizeof *sasl);
    if (host == NULL && is_digest)
        host = digest_host;
    if (sasl == NULL || !copy(&sasl->user, config->user) || !copy_secret(sasl, config->password) ||
        !copy(&sasl->mechanism, mechanism) || !copy(&sasl->service, service) || !copy(&sasl->host, host)) {
        lk_zk_sasl_free(sasl);
        (void)locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
        return NULL;
    }
    for (char *c = sasl->mechanism; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c); /* the client library compares with DIGEST-MD5 */
    list_callbacks(sasl);
    sasl->params = (lk_zk_sasl_params){.service = sasl->service,
                                       .host = sasl->host,
                                       .mechanisms = sasl->mechanism,
                                       .callbacks = sasl->callbacks};
    return sasl;
}

void lk_zk_sasl_free(lk_zk_sasl *sasl)
{
    if (sasl == NULL)
        return;
    if (sasl->secret != NULL)
        explicit_bzero(sasl->secret->data, sasl->secret->len);
    free(sasl->secret);
    free(sasl->user);
    free(sasl->mechanism);
    free(sasl->service);
    free(sasl->host);
    free(sasl);
}

lk_zk_sasl_params *lk_zk_sasl_params_of(lk_zk_sasl *sasl)
{
    return &sasl->params;
}
