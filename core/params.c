/* params.c: parameters, as tables: what every driver takes, and how a parameter's text is read; durations as people write
 * them, and lease times. */
#include <errno.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include "error.h"
#include "lk_time.h"
#include "params.h"

/* In the order of the LK_COMMON_ names. */
const locker_parameter lk_common_params[] = {
    [LK_COMMON_TTL] = {"ttl", LOCKER_PARAM_DURATION, "30s", 1, 0, "lease time of locks that name none"},
    [LK_COMMON_NAMESPACE] =
        {"namespace", LOCKER_PARAM_TEXT, NULL, 0, 0,
         "keeps this application's keys apart from others'; none: keys are used as they are"},
    [LK_COMMON_OWNER] = {"owner", LOCKER_PARAM_TEXT, NULL, 0, 0,
                         "the holder's label; none: host:pid:program"},
    [LK_COMMON_CONNECT] = {"connect_timeout", LOCKER_PARAM_DURATION, "5s", 1, 0,
                           "bound for making one connection"},
    [LK_COMMON_COMMAND] = {"command_timeout", LOCKER_PARAM_DURATION, "5s", 1, 0,
                           "bound for one answer of the service"},
    [LK_COMMON_CLEANUP] = {"cleanup_timeout", LOCKER_PARAM_DURATION, "2s", 1, 0,
                           "bound for the clean-up of one call, and of close"},
    [LK_COMMON_PASSWORD_FILE] = {"password_file", LOCKER_PARAM_PATH, NULL, 0, 0,
                                 "a file whose first line is the password"},
    [LK_COMMON_COUNT] = {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

/* ------------------------------------------------------------------ times ---- */

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

/* strtod takes more than people write (signs, spaces, hex, inf): only digits with one point pass, whatever
 * the locale. */
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
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "locker_parse_duration needs a text and a place for the result");
    double value;
    const char *unit = read_number(text, &value);
    const double length = unit == NULL ? 0 : unit_ms(unit);
    if (length == 0)
        return locker_error_set(
            err, LOCKER_CONFIG, 0,
            "'%.60s' is not a duration: give a number and a unit (ms, s, m, h, d), such as 500ms, 1.5s or 2h",
            text);
    if (value * length > 10 * year_ms)
        return locker_error_set(err, LOCKER_CONFIG, 0, "the duration '%.60s' is longer than 10 years", text);
    *ms = (int64_t)(value * length + 0.5);
    if (*ms == 0 && value > 0)
        *ms = 1; /* a wait of 0.1 ms is a short wait, not none at all */
    return lk_ok(err);
}

locker_status lk_ttl_check(int64_t ttl_ms, locker_error *err)
{
    if (ttl_ms >= 0 && ttl_ms <= LOCKER_NEVER / 4 / LK_MS)
        return LOCKER_OK;
    return locker_error_set(err, LOCKER_INVALID, 0,
                            "ttl_ms is %lld: give a lease time in ms, or 0 for the default",
                            (long long)ttl_ms);
}

locker_status lk_ttl_in_range(const locker_driver *d, int64_t ttl_ms, locker_status wrong, locker_error *err)
{
    if (!d->semantics->leases || (ttl_ms >= d->ttl_min_ms && (d->ttl_max_ms == 0 || ttl_ms <= d->ttl_max_ms)))
        return LOCKER_OK;
    return locker_error_set(err, wrong, 0, "a ttl of %lld ms is out of %s's range: %lld ms to %lld ms",
                            (long long)ttl_ms, d->name, (long long)d->ttl_min_ms, (long long)d->ttl_max_ms);
}

/* ------------------------------------------------------------------ a text ---- */

static locker_status check_range(const locker_parameter *param, const locker_value *value, locker_error *err)
{
    const char *unit = param->kind == LOCKER_PARAM_DURATION ? " ms" : "";
    if (value->number < param->min)
        return locker_error_set(err, LOCKER_CONFIG, 0, "parameter %s=%.60s is too small: at least %lld%s",
                                param->name, value->text, (long long)param->min, unit);
    if (param->max > 0 && value->number > param->max)
        return locker_error_set(err, LOCKER_CONFIG, 0, "parameter %s=%.60s is too large: at most %lld%s",
                                param->name, value->text, (long long)param->max, unit);
    return LOCKER_OK;
}

static locker_status parse_number(const locker_parameter *param, locker_value *value, locker_error *err)
{
    errno = 0;
    char *end;
    value->number = strtoll(value->text, &end, 10);
    if (end == value->text || *end != '\0' || errno != 0)
        return locker_error_set(err, LOCKER_CONFIG, 0, "parameter %s=%.60s is not a whole number",
                                param->name, value->text);
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
    return locker_error_set(err, LOCKER_CONFIG, 0, "parameter %s=%.60s is neither yes nor no", param->name,
                            value->text);
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

locker_status lk_param_parse(const locker_parameter *param, const char *text, locker_value *value,
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
    default:
        return param->kind != LOCKER_PARAM_PATH || *text != '\0'
                   ? LOCKER_OK
                   : locker_error_set(err, LOCKER_CONFIG, 0, "parameter %s is empty: give a path",
                                      param->name);
    }
}
