/* tls_sasl.c: TLS and SASL, where the client library has them: Debian's build of it has neither, others have both, and where
 * it is a shared one, the program that runs may find another than the one it was linked with. So what the library has is
 * looked up when a locker is opened, and so is Cyrus' library, which it has do the login. Both are declared by ourselves: the former's header
 * shows it only to those who have OpenSSL's and Cyrus' headers too; the latter has been the same since Cyrus SASL 2.0, and
 * tests/integration/zookeeper/sasl.c compares it with sasl.h. */
#include <ctype.h>
#include <dlfcn.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <sys/stat.h>
#include <unistd.h>

#include "lk_fd.h"
#include "lk_trust.h"
#include "tls_sasl.h"

/* Where these are: NULL if the client library that this was linked with has them not. zoo_create is in libzookeeper_mt alone. */
extern const char ssl_connecting_linked[] __asm__("ZOO_SSL_CONNECTING_STATE") __attribute__((weak));
extern const char init_ssl_linked[] __asm__("zookeeper_init_ssl") __attribute__((weak));
extern const char init_sasl_linked[] __asm__("zookeeper_init_sasl") __attribute__((weak));
extern const char create_linked[] __asm__("zoo_create") __attribute__((weak));

/* Return the address of what the client library calls so; NULL: it has none. libzookeeper_mt may be loaded besides, whose names
 * are the same, and which is of no use to a handle of this one. */
static void *find(const char *name, const char *linked)
{
    zhandle_t *(*const init)(const char *, watcher_fn, int, const clientid_t *, void *, int,
                             log_callback_fn) = zookeeper_init2;
    void *const found = linked != NULL ? (void *)(uintptr_t)linked : dlsym(RTLD_DEFAULT, name);
    Dl_info ours, its;
    return found != NULL && dladdr(*(void *const *)&init, &ours) != 0 && dladdr(found, &its) != 0 &&
                   ours.dli_fbase == its.dli_fbase
               ? found
               : NULL;
}

void lk_zk_library_look(lk_zk_library *library)
{
    *library = (lk_zk_library){.threads = find("zoo_create", create_linked) != NULL,
                               .ssl_connecting = find("ZOO_SSL_CONNECTING_STATE", ssl_connecting_linked)};
    if (library->ssl_connecting != NULL) /* POSIX's way to make a function of it */
        *(void **)&library->init_ssl = find("zookeeper_init_ssl", init_ssl_linked);
    *(void **)&library->init_sasl = find("zookeeper_init_sasl", init_sasl_linked);
}

/* The same rule as for the other drivers' keys (backends/tls/tls_files.c). */
static const char *unfit(const struct stat *status, const char *path, bool secret)
{
    if (!S_ISREG(status->st_mode))
        return "it is not a regular file";
    if (secret && (status->st_mode & S_IRWXO) != 0)
        return "it is open to every user of this machine; run chmod o= on it, and consider a new key";
    return lk_trust_problem(path, status);
}

static locker_status check_file(const char *name, const char *path, bool secret, locker_error *err)
{
    struct stat status = {0};
    if (path == NULL)
        return lk_misconfigured(err,
                                "tls=on needs %s; set tls_ca (the authorities), "
                                "tls_cert and tls_key (the client's certificate and key)",
                                name);
    if (strchr(path, ',') != NULL)
        return lk_misconfigured(err,
                                "the path of %s, '%s', has a ',', which ZooKeeper's "
                                "client library does not support; use a path without ','",
                                name, path);
    const int fd = lk_fd_high(open(path, O_RDONLY | O_CLOEXEC | O_NONBLOCK));
    const int why = fd < 0 || fstat(fd, &status) != 0 ? errno : 0;
    if (fd >= 0)
        close(fd);
    const char *const wrong = why != 0 ? strerror(why) : unfit(&status, path, secret);
    return wrong == NULL
               ? LOCKER_OK
               : locker_error_set(err, LOCKER_CONFIG, why, "cannot use %s, '%.200s': %s", name, path, wrong);
}

locker_status lk_zk_tls_files(char **files, const locker_value three[3], locker_error *err)
{
    static const char *const names[] = {"tls_ca", "tls_cert", "tls_key"};
    for (size_t i = 0; i < 3; i++) {
        const locker_status status = check_file(names[i], three[i].text, i == 2, err);
        if (status != LOCKER_OK)
            return status;
    }
    /* The fourth is the key's password. Without one OpenSSL would ask for it on the terminal. */
    if (asprintf(files, "%s,%s,%s,none", three[0].text, three[1].text, three[2].text) >= 0)
        return LOCKER_OK;
    *files = NULL;
    return lk_out_of_memory(err);
}

void lk_zk_tls_reason(char *text, size_t size)
{
    unsigned long (*peek)(void) = NULL;
    const char *(*reason_of)(unsigned long) = NULL;
    *(void **)&peek = dlsym(RTLD_DEFAULT, "ERR_peek_last_error");
    *(void **)&reason_of = dlsym(RTLD_DEFAULT, "ERR_reason_error_string");
    const unsigned long code = peek != NULL ? peek() : 0;
    const char *reason = code != 0 && reason_of != NULL ? reason_of(code) : NULL;
    (void)snprintf(text, size, "%s", reason != NULL ? reason : "");
}

typedef struct {
    lk_zk_sasl_params params; /* first member: what others have of it; the texts are copies */
    lk_zk_sasl_callback callbacks[LK_ZK_SASL_CALLBACKS];
    lk_zk_sasl_secret *secret; /* wiped when freed; NULL: no password */
    char *user;                /* NULL: none */
    char *password_file;       /* NULL: there is none that can be read again */
} lk_zk_sasl;

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
    sasl->params.callbacks = sasl->callbacks;
}

static void *mutex_new(void)
{
    pthread_mutex_t *mutex = malloc(sizeof(pthread_mutex_t));
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
    pthread_once(&once, begin_cyrus);
    const char **all = list_mechanisms != NULL ? list_mechanisms() : NULL;
    for (; all != NULL && *all != NULL; all++)
        if (strcasecmp(*all, mechanism) == 0)
            return LOCKER_OK;
    return lk_unsupported(err,
                          "Cyrus SASL has no mechanism '%s' on this machine; install its package "
                          "(libsasl2-modules for digest-md5, libsasl2-modules-gssapi-mit for gssapi)",
                          mechanism);
}

/* Cyrus' library loads plugins from SASL_PATH, unless the real and the effective user or group differ. That leaves out file
 * capabilities, and a program that has made its real user its effective one. */
static locker_status check_privileges(locker_error *err)
{
    if (getauxval(AT_SECURE) == 0 || getuid() != geteuid() || getgid() != getegid())
        return LOCKER_OK;
    return lk_unsupported(err, "cannot use SASL in a program with raised privileges: "
                               "the Cyrus SASL library would load plugins from its "
                               "user's SASL_PATH; log in by tls_cert, or without sasl");
}

static bool copy(char **out, const char *text)
{
    *out = text != NULL ? strdup(text) : NULL;
    return text == NULL || *out != NULL;
}

static void forget_secret(lk_zk_sasl_secret *secret)
{
    if (secret != NULL)
        explicit_bzero(secret->data, secret->len);
    free(secret);
}

static bool copy_secret(lk_zk_sasl *sasl, const char *password)
{
    if (password == NULL)
        return true;
    const size_t len = strlen(password);
    lk_zk_sasl_secret *const secret = calloc(1, sizeof *secret + len);
    if (secret == NULL)
        return false;
    secret->len = len;
    memcpy(secret->data, password, len + 1); /* `data` begins with room for one more */
    forget_secret(sasl->secret);
    sasl->secret = secret;
    return true;
}

void lk_zk_sasl_read_again(lk_zk_sasl_params *login)
{
    lk_zk_sasl *const sasl = (lk_zk_sasl *)login;
    char *const password = sasl->password_file != NULL ? locker_secret_read(sasl->password_file, NULL) : NULL;
    (void)copy_secret(sasl, password); /* without memory the login is made by the one that is known */
    if (password != NULL)
        explicit_bzero(password, strlen(password));
    free(password);
}

static locker_status check_login(const locker_driver_config *config, bool is_digest, locker_error *err)
{
    if (config->user != NULL && config->password == NULL)
        return lk_misconfigured(err, "the user '%s' has no password; set password_file or LOCKER_PASSWORD",
                                config->user);
    if (config->user == NULL && (is_digest || config->password != NULL))
        return lk_misconfigured(err, "a SASL login needs a user and a password, but "
                                     "the user is missing; write zookeeper://user@host");
    return LOCKER_OK;
}

lk_zk_sasl_params *lk_zk_sasl_new(const locker_driver_config *config, const char *mechanism,
                                  const char *service, const char *host, locker_error *err)
{
    /* The name that ZooKeeper's servers have for it; other mechanisms have the host's. */
    static const char digest[] = "DIGEST-MD5", digest_host[] = "zk-sasl-md5";
    const bool is_digest = strcasecmp(mechanism, digest) == 0;
    if (check_login(config, is_digest, err) != LOCKER_OK || check_privileges(err) != LOCKER_OK ||
        check_mechanism(mechanism, err) != LOCKER_OK)
        return NULL;
    lk_zk_sasl *sasl = calloc(1, sizeof *sasl);
    if (host == NULL && is_digest)
        host = digest_host;
    if (sasl == NULL || !copy(&sasl->user, config->user) || !copy_secret(sasl, config->password) ||
        !copy(&sasl->password_file, config->password_file) || !copy(&sasl->params.mechanisms, mechanism) ||
        !copy(&sasl->params.service, service) || !copy(&sasl->params.host, host)) {
        lk_zk_sasl_free((lk_zk_sasl_params *)sasl);
        (void)lk_out_of_memory(err);
        return NULL;
    }
    for (char *c = sasl->params.mechanisms; *c != '\0'; c++)
        *c = (char)toupper((unsigned char)*c); /* the client library compares with DIGEST-MD5 */
    list_callbacks(sasl);
    return &sasl->params;
}

void lk_zk_sasl_free(lk_zk_sasl_params *login)
{
    lk_zk_sasl *const sasl = (lk_zk_sasl *)login;
    if (sasl == NULL)
        return;
    forget_secret(sasl->secret);
    free(sasl->user);
    free(sasl->password_file);
    free(sasl->params.mechanisms);
    free(sasl->params.service);
    free(sasl->params.host);
    free(sasl);
}
