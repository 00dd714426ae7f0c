/* table.c: the table of a driver with faults before it, and the life of an instance; see internal.h. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "internal.h"
#include "lk_sized.h"

enum { SCHEMES_AT_MOST = 16, PARAMETERS_AT_MOST = 32, SCRIPT_FILE_MAX = 64 * 1024 };

/* A driver's table with ours before it. Made once for each driver, and never freed. */
typedef struct over {
    struct over *next;
    const locker_driver *inner;
    locker_driver table;
    locker_parameter params[PARAMETERS_AT_MOST + 1];
    const char *schemes[SCHEMES_AT_MOST + 1];
    char scheme_texts[SCHEMES_AT_MOST][48];
    locker_semantics semantics;
    char name[48];
    char example[160];
} over;

static lk_mutex tables_mutex = {PTHREAD_MUTEX_INITIALIZER};
static over *tables LK_GUARDED_BY(tables_mutex); /* what is in it never changes */

/* Ours, behind those of the other driver. */
enum { PARAM_FAULT, PARAM_FILE, PARAM_COUNT };
static const locker_parameter params[] = {
    [PARAM_FAULT] = {"fault", LOCKER_PARAM_TEXT, NULL, 0, 0,
                     "a fault script, such as acquire:orders/42,times=2,unavailable"},
    [PARAM_FILE] = {"fault_file", LOCKER_PARAM_PATH, NULL, 0, 0,
                    "a file with a fault script, one fault on each line"},
    [PARAM_COUNT] = {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

/* ------------------------------------------------------------------ opening ---- */

static locker_status read_text(lk_fault_instance *f, const char *what, const char *text, locker_error *err)
{
    locker_error inner;
    lk_mutex_lock(&f->mutex);
    const locker_status status = lk_script_parse(f->script, text, &inner);
    lk_mutex_unlock(&f->mutex);
    if (status == LOCKER_OK)
        return LOCKER_OK;
    return locker_error_set(err, status == LOCKER_INVALID ? LOCKER_CONFIG : status, 0, "%s: %s", what,
                            inner.text);
}

static locker_status read_file(lk_fault_instance *f, const char *path, locker_error *err)
{
    char *text = malloc(SCRIPT_FILE_MAX + 1);
    FILE *file = fopen(path, "re");
    locker_status status;
    if (text == NULL || file == NULL) {
        status = text == NULL ? locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for fault_file")
                              : locker_error_set(err, LOCKER_CONFIG, errno,
                                                 "cannot open fault_file %.200s: %s", path, strerror(errno));
        if (file != NULL)
            (void)fclose(file);
        free(text);
        return status;
    }
    const size_t length = fread(text, 1, SCRIPT_FILE_MAX + 1, file);
    if (ferror(file) != 0 || length > SCRIPT_FILE_MAX || memchr(text, '\0', length) != NULL) {
        status = locker_error_set(err, LOCKER_CONFIG, 0, "fault_file %.200s is not text of at most %d bytes",
                                  path, SCRIPT_FILE_MAX);
    } else {
        text[length] = '\0';
        for (char *p = text; (p = strchr(p, '\n')) != NULL;)
            *p = ';';
        status = read_text(f, "fault_file", text, err);
    }
    (void)fclose(file);
    free(text);
    return status;
}

/* Nobody else uses it any more. */
LK_UNCHECKED static void destroy(lk_fault_instance *f)
{
    lk_script_free(f->script);
    pthread_cond_destroy(&f->robbing);
    pthread_cond_destroy(&f->changed);
    lk_mutex_destroy(&f->mutex);
    free(f);
}

/* Nobody else sees it yet. */
LK_UNCHECKED static lk_fault_instance *make(const locker_driver *inner, const locker_driver_config *config,
                                            const locker_services *svc)
{
    lk_fault_instance *f = calloc(1, sizeof *f);
    if (f == NULL)
        return NULL;
    f->script = lk_script_new();
    if (f->script == NULL || locker_cond_init(&f->changed) != 0 ||
        locker_cond_init(&f->robbing) != 0) { /* glibc's can't fail */
        lk_script_free(f->script);
        free(f);
        return NULL;
    }
    lk_mutex_init(&f->mutex);
    f->services = lk_fault_services;
    f->services.clock = svc->clock;
    f->core = svc;
    f->inner = inner;
    f->patience_ns =
        config->command_timeout_ns < config->cleanup_ns ? config->command_timeout_ns : config->cleanup_ns;
    return f;
}

/* The table that has this scheme; NULL: none. */
static over *find_locked(const char *scheme) LK_REQUIRES(tables_mutex)
{
    for (over *o = tables; o != NULL; o = o->next)
        for (const char *const *s = o->schemes; *s != NULL; s++)
            if (strcasecmp(*s, scheme) == 0)
                return o;
    return NULL;
}

static const locker_driver *driver_behind(const char *scheme)
{
    lk_mutex_lock(&tables_mutex);
    const over *o = find_locked(scheme);
    lk_mutex_unlock(&tables_mutex);
    return o != NULL ? o->inner : NULL;
}

static locker_status fault_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                locker_error *err)
{
    const locker_driver *inner = driver_behind(config->scheme);
    locker_driver_config theirs = *config;
    const locker_value *ours = config->values;
    lk_fault_instance *f = inner != NULL ? make(inner, config, svc) : NULL;
    locker_status status = LOCKER_OK;
    if (f == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while opening a locker");
    for (const locker_parameter *p = inner->params; p->name != NULL; p++)
        ours++;
    theirs.scheme += strlen(LK_FAULT_PREFIX);
    if (ours[PARAM_FAULT].text != NULL)
        status = read_text(f, "fault", ours[PARAM_FAULT].text, err);
    if (status == LOCKER_OK && ours[PARAM_FILE].text != NULL)
        status = read_file(f, ours[PARAM_FILE].text, err);
    if (status == LOCKER_OK)
        status = inner->open(&theirs, &f->services, &f->self, err);
    if (status == LOCKER_OK)
        *self = f;
    else
        destroy(f);
    return status;
}

static void fault_close(void *self)
{
    lk_fault_instance *f = self;
    lk_fault_thief_end(f);
    f->inner->close(f->self);
    destroy(f);
}

static void fault_abandon(void *self)
{
    const lk_fault_instance *f = self;
    if (f->inner->abandon != NULL)
        f->inner->abandon(f->self);
}

/* ------------------------------------------------------------------ tables ---- */

static locker_status fault_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    const lk_fault_instance *f = self;
    return f->inner->check_key(f->self, key, key_len, err);
}

static int fault_descriptor(void *self)
{
    const lk_fault_instance *f = self;
    return f->inner->descriptor(f->self);
}

/* False: it has more than there is room for. */
static bool fill_texts(over *o, const locker_driver *inner)
{
    size_t n = 0;
    for (; inner->schemes[n] != NULL; n++) {
        if (n == SCHEMES_AT_MOST || strlen(inner->schemes[n]) > 40)
            return false;
        (void)snprintf(o->scheme_texts[n], sizeof o->scheme_texts[n], LK_FAULT_PREFIX "%.40s",
                       inner->schemes[n]);
        o->schemes[n] = o->scheme_texts[n];
    }
    for (n = 0; inner->params[n].name != NULL; n++) {
        if (n + PARAM_COUNT == PARAMETERS_AT_MOST)
            return false;
        o->params[n] = inner->params[n];
    }
    memcpy(o->params + n, params, sizeof params);
    (void)snprintf(o->name, sizeof o->name, LK_FAULT_PREFIX "%.40s", inner->name);
    (void)snprintf(o->example, sizeof o->example, LK_FAULT_PREFIX "%.150s",
                   inner->example != NULL ? inner->example : inner->schemes[0]);
    return true;
}

/* False: it has what we lack, or is a decorator itself. */
static bool take(over *o, const locker_driver *inner)
{
    locker_error err;
    return lk_sized_take(&o->table, sizeof o->table, inner, inner->size, offsetof(locker_driver, decorator),
                         "locker_driver", &err) == LOCKER_OK &&
           LK_SIZED_TAKE(locker_semantics, &o->semantics, inner->semantics, cost, &err) == LOCKER_OK &&
           o->table.decorator == NULL;
}

static over *make_over(const locker_driver *inner)
{
    over *o = calloc(1, sizeof *o);
    if (o == NULL || !take(o, inner) || !fill_texts(o, inner)) {
        free(o);
        return NULL;
    }
    o->inner = inner;
    o->semantics.size = sizeof o->semantics;
    o->semantics.driver = o->name;
    o->table.size = sizeof o->table;
    o->table.semantics = &o->semantics;
    o->table.name = o->name;
    o->table.schemes = o->schemes;
    o->table.params = o->params;
    o->table.example = o->example;
    o->table.claim_size = ((inner->claim_size + 15) & ~(size_t)15) + sizeof(lk_fault_place);
    o->table.open = fault_open;
    o->table.close = fault_close;
    o->table.abandon = fault_abandon;
    o->table.check_key = inner->check_key != NULL ? fault_check_key : NULL;
    o->table.descriptor = inner->descriptor != NULL ? fault_descriptor : NULL;
    lk_fault_fill(&o->table);
    return o;
}

bool lk_fault_is_table(const locker_driver *driver)
{
    return driver != NULL && driver->open == fault_open;
}

const locker_driver *locker_fault_over(const locker_driver *inner)
{
    if (inner == NULL || inner->abi != LOCKER_DRIVER_ABI ||
        !lk_sized_is(inner->size, offsetof(locker_driver, decorator)) || inner->name == NULL ||
        inner->schemes == NULL || inner->params == NULL || inner->semantics == NULL ||
        lk_fault_is_table(inner))
        return NULL;
    lk_mutex_lock(&tables_mutex);
    over *o = tables;
    while (o != NULL && o->inner != inner)
        o = o->next;
    if (o == NULL && (o = make_over(inner)) != NULL) {
        bool taken = false;

        for (const char *const *s = o->schemes; *s != NULL; s++)
            taken = taken || find_locked(*s) != NULL;
        if (taken) { /* two drivers of one scheme: which it is could not be told when it is opened */
            free(o);
            o = NULL;
        } else {
            o->next = tables;
            tables = o;
        }
    }
    lk_mutex_unlock(&tables_mutex);
    return o != NULL ? &o->table : NULL;
}

/* ------------------------------------------------------------------ the driver ---- */

static const char *const schemes[] = {"fault", NULL};

static const char as_behind[] = "As with the real driver, except for the faults of the script.";

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "fault",
    .scope = LOCKER_SCOPE_PROCESS,
    .fairness = LOCKER_FAIR_LOCAL,
    .holder_dies = as_behind,
    .holder_stalls = as_behind,
    .cut_off = as_behind,
    .service_restarts = as_behind,
    .failover = as_behind,
    .token = as_behind,
    .cost = as_behind,
};

/* What the list of drivers shows. It opens nothing by itself. */
const locker_driver lk_fault_driver;
const locker_driver lk_fault_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "fault",
    .schemes = schemes,
    .example = "fault+file:///run/lock/shop?fault=acquire,unavailable",
    .features = "for tests: passes calls to a real driver, and injects the faults of a script",
    .params = params,
    .semantics = &semantics,
    .decorator = &(const struct locker_decorator){locker_fault_over},
};
