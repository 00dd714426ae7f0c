/* params.c: parameters, as tables: what every driver takes, how texts are read, and a configuration's end. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/auxv.h>
#include <unistd.h>

#include "config.h"
#include "lk_time.h"
#include "text.h"

enum { TTL, NAMESPACE, OWNER, CONNECT, COMMAND, CLEANUP, PASSWORD_FILE, COMMON };
static const locker_parameter common_params[] = {
    [TTL] = {"ttl", LOCKER_PARAM_DURATION, "30s", 1, 0, "lease time, unless a lock call gives its own"},
    [NAMESPACE] = {"namespace", LOCKER_PARAM_TEXT, NULL, 0, 0,
                   "separates this application's keys from those of others; none: keys stay unchanged"},
    [OWNER] = {"owner", LOCKER_PARAM_TEXT, NULL, 0, 0, "the holder's label; none: host:pid:program"},
    [CONNECT] = {"connect_timeout", LOCKER_PARAM_DURATION, "5s", 1, 0, "longest time to make a connection"},
    [COMMAND] = {"command_timeout", LOCKER_PARAM_DURATION, "5s", 1, 0,
                 "longest time for an answer of the service"},
    [CLEANUP] = {"cleanup_timeout", LOCKER_PARAM_DURATION, "2s", 1, 0,
                 "longest time for the clean-up of a call, and of close"},
    [PASSWORD_FILE] = {"password_file", LOCKER_PARAM_SECRET_FILE, NULL, 0, 0,
                       "a file with the password in its first line"},
    [COMMON] = {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

const locker_parameter *locker_common_parameters(void)
{
    return common_params;
}

static const double year_ms = 365.25 * 86400e3;

/* The unit's length in ms; 0: it is none. */
static double unit_ms(const char *unit)
{
    static const struct {
        const char *name;
        double ms;
    } units[] = {{"", 1e3}, {"ms", 1}, {"s", 1e3}, {"m", 60e3}, {"h", 3600e3}, {"d", 86400e3}};
    for (size_t i = 0; i < sizeof units / sizeof *units; i++)
        if (strcmp(unit, units[i].name) == 0)
            return units[i].ms;
    return 0;
}

/* strtod takes signs, spaces, hex and inf too: only digits with one point pass, whatever the locale. */
static const char *read_number(const char *text, double *value)
{
    double scale = 0.1;
    const char *p = text;
    *value = 0;
    for (; *p >= '0' && *p <= '9'; p++)
        *value = *value * 10 + (*p - '0');
    if (*p == '.') {
        for (p++; *p >= '0' && *p <= '9'; p++, scale /= 10)
            *value += (*p - '0') * scale;
    }
    return p == text || (p == text + 1 && *text == '.') ? NULL : p;
}

locker_status locker_parse_duration(const char *text, int64_t *ms, locker_error *err)
{
    if (text == NULL || ms == NULL)
        return lk_invalid(err, "locker_parse_duration needs a text and a pointer for the result");
    double value;
    const char *unit = read_number(text, &value);
    const double length = unit == NULL ? 0 : unit_ms(unit);
    if (length == 0)
        return lk_misconfigured(
            err,
            "'%.60s' is not a duration: give a number and a unit (ms, s, m, h, d), such as 500ms, 1.5s or 2h",
            text);
    if (value * length > 10 * year_ms)
        return lk_misconfigured(err, "the duration '%.60s' is longer than 10 years", text);
    *ms = (int64_t)(value * length + 0.5);
    if (*ms == 0 && value > 0)
        *ms = 1; /* a wait of 0.1 ms is a short wait, not none at all */
    return lk_ok(err);
}

locker_status lk_ttl_check(int64_t ttl_ms, locker_error *err)
{
    if (ttl_ms >= 0 && ttl_ms <= LOCKER_NEVER / 4 / LK_MS)
        return LOCKER_OK;
    return lk_invalid(err, "ttl_ms is %lld: give a lease time in ms, or 0 for the default",
                      (long long)ttl_ms);
}

locker_status lk_ttl_in_range(const locker_driver *d, int64_t ttl_ms, locker_status wrong, locker_error *err)
{
    if (!d->semantics->leases || (ttl_ms >= d->ttl_min_ms && (d->ttl_max_ms == 0 || ttl_ms <= d->ttl_max_ms)))
        return LOCKER_OK;
    return locker_error_set(err, wrong, 0, "a ttl of %lld ms is out of %s's range: %lld ms to %lld ms",
                            (long long)ttl_ms, d->name, (long long)d->ttl_min_ms, (long long)d->ttl_max_ms);
}

static locker_status check_range(const locker_parameter *param, const locker_value *value, locker_error *err)
{
    const char *unit = param->kind == LOCKER_PARAM_DURATION ? " ms" : "";
    if (value->number < param->min)
        return lk_misconfigured(err, "parameter %s=%.60s is too small: at least %lld%s", param->name,
                                value->text, (long long)param->min, unit);
    if (param->max > 0 && value->number > param->max)
        return lk_misconfigured(err, "parameter %s=%.60s is too large: at most %lld%s", param->name,
                                value->text, (long long)param->max, unit);
    return LOCKER_OK;
}

static locker_status parse_number(const locker_parameter *param, locker_value *value, locker_error *err)
{
    errno = 0;
    char *end;
    value->number = strtoll(value->text, &end, 10);
    if (end == value->text || *end != '\0' || errno != 0)
        return lk_misconfigured(err, "parameter %s=%.60s is not a whole number", param->name, value->text);
    return check_range(param, value, err);
}

static locker_status parse_bool(const locker_parameter *param, locker_value *value, locker_error *err)
{
    static const char *const words[] = {"no", "yes", "off", "on", "false", "true", "0", "1"};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        if (strcasecmp(value->text, words[i]) == 0) {
            value->number = (int64_t)(i % 2);
            return LOCKER_OK;
        }
    }
    return lk_misconfigured(err, "parameter %s=%.60s is neither yes nor no", param->name, value->text);
}

static locker_status parse_duration(const locker_parameter *param, locker_value *value, locker_error *err)
{
    locker_error inner;
    locker_status status = locker_parse_duration(value->text, &value->number, &inner);
    if (status != LOCKER_OK)
        return locker_error_set(err, status, 0, "parameter %s: %s", param->name, inner.text);
    status = check_range(param, value, err);
    value->number *= LK_MS;
    return status;
}

/* Who starts a program chooses its working directory, to which a relative path refers. */
static locker_status check_path(const locker_parameter *param, const char *text, locker_error *err)
{
    if (*text == '\0')
        return lk_misconfigured(err, "parameter %s is empty: give a path", param->name);
    const bool is_initial = param->initial != NULL && strcmp(text, param->initial) == 0;
    if (*text == '/' || is_initial || getauxval(AT_SECURE) == 0)
        return LOCKER_OK;
    return lk_misconfigured(
        err,
        "parameter %s is a relative path, and this program runs with raised privileges: give a "
        "path that begins with '/'",
        param->name);
}

static locker_status parse(const locker_parameter *param, const char *text, locker_value *value,
                           locker_error *err)
{
    value->text = text;
    if (text == NULL)
        return LOCKER_OK;
    switch (param->kind) {
    case LOCKER_PARAM_DURATION:
        return parse_duration(param, value, err);
    case LOCKER_PARAM_NUMBER:
        return parse_number(param, value, err);
    case LOCKER_PARAM_BOOL:
        return parse_bool(param, value, err);
    case LOCKER_PARAM_PATH:
        return check_path(param, text, err);
    default:
        return LOCKER_OK;
    }
}

/* The place of a name in a table, or, also of NULL, the table's length. */
static size_t find(const locker_parameter *table, const char *name)
{
    size_t i = 0;
    while (table[i].name != NULL && (name == NULL || strcmp(table[i].name, name) != 0))
        i++;
    return i;
}

static locker_status fill_defaults(const locker_parameter *table, locker_value *values, locker_error *err)
{
    locker_status status = LOCKER_OK;
    for (size_t i = 0; table[i].name != NULL && status == LOCKER_OK; i++)
        status = parse(&table[i], table[i].initial, &values[i], err);
    return status;
}

/* The parameter that was meant; NULL: none that is known. */
static const char *meant(const locker_parameter *table, const char *name)
{
    for (; table->name != NULL; table++)
        if (lk_text_is_slip(name, table->name))
            return table->name;
    return NULL;
}

static locker_status refuse_unknown(const lk_config *c, const char *name, locker_error *err)
{
    const char *instead = meant(c->driver->params, name);
    if (instead == NULL)
        instead = meant(common_params, name);
    return lk_misconfigured(err, "the %s driver has no parameter '%s': %s%s", c->driver->name,
                            lk_config_word(name),
                            instead != NULL ? "did you mean " : "'locker drivers' lists its parameters",
                            instead != NULL ? instead : "");
}

static locker_status take_given(lk_config *c, lk_given *given, locker_value *common, locker_value *own,
                                locker_error *err)
{
    const bool is_own = find(common_params, given->name) == COMMON;
    const locker_parameter *const table = is_own ? c->driver->params : common_params;
    locker_value *const values = is_own ? own : common;
    const size_t at = find(table, given->name);
    locker_status status = LOCKER_OK;
    if (table[at].name == NULL)
        return refuse_unknown(c, given->name, err);
    if (table[at].kind == LOCKER_PARAM_SECRET_FILE)
        status = check_path(&table[at], given->text, err);
    if (status == LOCKER_OK && table[at].kind == LOCKER_PARAM_SECRET_FILE)
        status =
            lk_secret_take(c, table[at].name, &given->text, is_own ? &c->again[at] : &c->password_again, err);
    if (status == LOCKER_OK)
        status = parse(&table[at], given->text, &values[at], err);
    values[at].given = true;
    return status;
}

/* What is wrong in a file is told with its line. */
static locker_status fill_given(lk_config *c, locker_value *common, locker_value *own, locker_error *err)
{
    locker_error inner;
    locker_status status = LOCKER_OK;
    size_t i = 0;
    for (; i < c->given_count && status == LOCKER_OK; i++)
        status = take_given(c, &c->given[i], common, own, &inner);
    if (status == LOCKER_OK)
        return status;
    return c->given[i - 1].line > 0 ? locker_error_set(err, status, inner.os_error, "%s:%d: %s", c->file,
                                                       c->given[i - 1].line, inner.text)
                                    : locker_error_set(err, status, inner.os_error, "%s", inner.text);
}

static locker_status copy(const char **own, const char *text, locker_error *err)
{
    *own = strdup(text);
    return *own != NULL ? LOCKER_OK : lk_config_no_memory(err);
}

/* The caller's, else the URI's, else the file's, else the environment's. */
static locker_status find_password(lk_config *c, const char *text, const char *file, locker_error *err)
{
    if ((c->driver->caps & LOCKER_CAP_AUTH) == 0) {
        if (c->pub.user != NULL || c->pub.password != NULL || text != NULL || file != NULL)
            return lk_misconfigured(err, "the %s driver takes no user and no password: leave them out",
                                    c->driver->name);
        return LOCKER_OK;
    }
    if (c->pub.password != NULL && file != NULL)
        return lk_misconfigured(err, "a password and a password_file are given; remove either of them");
    if (text == NULL && c->pub.password != NULL)
        return LOCKER_OK;
    if (text != NULL) { /* it counts, and no file */
        free(c->password_again);
        c->password_again = NULL;
    }
    if (text == NULL)
        text = file != NULL ? file : secure_getenv("LOCKER_PASSWORD");
    if (text == NULL || *text == '\0')
        return LOCKER_OK;
    lk_wipe(c->pub.password);
    return copy(&c->pub.password, text, err);
}

/* What breaks a label's rule is wrong in the configuration. */
static locker_status take_label(const char **own, const char *text, const char *what, locker_error *err)
{
    if (lk_text_check(text, LOCKER_OWNER_MAX, what, NULL, err) == LOCKER_OK)
        return copy(own, text, err);
    if (err != NULL)
        err->status = LOCKER_CONFIG;
    return LOCKER_CONFIG;
}

static locker_status find_owner(lk_config *c, const char *text, locker_error *err)
{
    char host[65], made[LOCKER_OWNER_MAX + 1];
    if (text != NULL)
        return take_label(&c->pub.owner, text, "the owner", err);
    if (gethostname(host, sizeof host) != 0)
        (void)strcpy(host, "localhost");
    host[sizeof host - 1] = '\0';
    (void)snprintf(made, sizeof made, "%s:%ld:%.40s", host, (long)getpid(), program_invocation_short_name);
    if (lk_text_check(made, LOCKER_OWNER_MAX, "the owner", NULL, NULL) != LOCKER_OK)
        (void)snprintf(made, sizeof made, "localhost:%ld", (long)getpid()); /* a name that is not UTF-8 */
    return take_label(&c->pub.owner, made, "the owner", err);
}

locker_status lk_config_finish(lk_config *c, const locker_options *options, locker_error *err)
{
    locker_value common[COMMON] = {{0}};
    locker_value *const own = calloc(find(c->driver->params, NULL) + 1, sizeof *own);
    c->pub.size = sizeof c->pub;
    c->pub.values = own;
    c->again_count = find(c->driver->params, NULL);
    c->again = calloc(c->again_count + 1, sizeof *c->again);
    c->pub.secret_files = (const char *const *)c->again;
    if (c->pub.path == NULL)
        c->pub.path = strdup("");
    if (own == NULL || c->again == NULL || c->pub.path == NULL)
        return lk_config_no_memory(err);
    locker_status status = fill_defaults(common_params, common, err);
    if (status == LOCKER_OK)
        status = fill_defaults(c->driver->params, own, err);
    if (status == LOCKER_OK)
        status = fill_given(c, common, own, err);
    c->pub.ttl_ns = options->ttl_ms > 0 ? options->ttl_ms * LK_MS : common[TTL].number;
    c->pub.connect_timeout_ns = common[CONNECT].number;
    c->pub.command_timeout_ns = common[COMMAND].number;
    c->pub.cleanup_ns = common[CLEANUP].number;
    if (status == LOCKER_OK)
        status = find_password(c, options->password, common[PASSWORD_FILE].text, err);
    c->pub.password_file = c->password_again;
    /* A namespace becomes a part of keys, so the rules of keys hold for it. */
    const char *const name_space = options->name_space != NULL ? options->name_space : common[NAMESPACE].text;
    if (status == LOCKER_OK)
        status = name_space == NULL || *name_space == '\0'
                     ? copy(&c->pub.name_space, "", err)
                     : take_label(&c->pub.name_space, name_space, "the namespace", err);
    if (status == LOCKER_OK)
        status = find_owner(c, options->owner != NULL ? options->owner : common[OWNER].text, err);
    if (status == LOCKER_OK)
        status = lk_ttl_in_range(c->driver, c->pub.ttl_ns / LK_MS,
                                 options->ttl_ms > 0 ? LOCKER_INVALID : LOCKER_CONFIG, err);
    return status;
}
