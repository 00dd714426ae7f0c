/* duration.c: durations as people write them. */
#include <stdlib.h>
#include <string.h>

#include "error.h"

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
