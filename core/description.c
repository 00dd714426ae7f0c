/* description.c: what is told of a driver, of its table or as text; see description.h. */
#include <inttypes.h>
#include <stdlib.h>
#include <string.h>

#include "description.h"
#include "lk_error.h"

/* The first line of a text. Another number: it belongs to another release. */
#define FIRST_LINE "locker-driver 1"

#define COUNT(array) (sizeof(array) / sizeof *(array))

/* Of what begins at 1. */
static const char *const scopes[] = {
    [LOCKER_SCOPE_PROCESS] = "process", [LOCKER_SCOPE_HOST] = "host", [LOCKER_SCOPE_NETWORK] = "network"};
static const char *const fairnesses[] = {[LOCKER_FAIR_LOCAL] = "local", [LOCKER_FAIR_GLOBAL] = "global"};
static const char *const orders[] = {[LOCKER_ORDER_ARRIVAL] = "arrival", [LOCKER_ORDER_LOCAL] = "local"};
static const char *const kinds[] = {
    [LOCKER_PARAM_DURATION] = "duration", [LOCKER_PARAM_NUMBER] = "number",
    [LOCKER_PARAM_BOOL] = "bool",         [LOCKER_PARAM_TEXT] = "text",
    [LOCKER_PARAM_PATH] = "path",         [LOCKER_PARAM_SECRET_FILE] = "path"};

typedef enum { WORDS, FLAG, LIMIT, SCOPE, FAIRNESS, ORDER, KIND } lk_form;

/* The words of those that are one of some. */
static const struct {
    const char *const *words;
    size_t count;
} words_of[] = {[SCOPE] = {scopes, COUNT(scopes)},
                [FAIRNESS] = {fairnesses, COUNT(fairnesses)},
                [ORDER] = {orders, COUNT(orders)},
                [KIND] = {kinds, COUNT(kinds)}};

/* A line of the text: this key, one space, the value. */
static const struct field {
    const char *key;
    lk_form form;
    size_t offset;
} fields[] = {
    {"name", WORDS, offsetof(lk_description, info.name)},
    {"schemes", WORDS, offsetof(lk_description, info.schemes)},
    {"example", WORDS, offsetof(lk_description, info.example)},
    {"features", WORDS, offsetof(lk_description, info.features)},
    {"scope", SCOPE, offsetof(lk_description, semantics.scope)},
    {"fairness", FAIRNESS, offsetof(lk_description, semantics.fairness)},
    {"leases", FLAG, offsetof(lk_description, semantics.leases)},
    {"tokens_persist", FLAG, offsetof(lk_description, semantics.tokens_persist)},
    {"survives_restart", FLAG, offsetof(lk_description, semantics.survives_restart)},
    {"can_break", FLAG, offsetof(lk_description, semantics.can_break)},
    {"quorum", FLAG, offsetof(lk_description, semantics.quorum)},
    {"holder_dies", WORDS, offsetof(lk_description, semantics.holder_dies)},
    {"holder_stalls", WORDS, offsetof(lk_description, semantics.holder_stalls)},
    {"cut_off", WORDS, offsetof(lk_description, semantics.cut_off)},
    {"service_restarts", WORDS, offsetof(lk_description, semantics.service_restarts)},
    {"failover", WORDS, offsetof(lk_description, semantics.failover)},
    {"token", WORDS, offsetof(lk_description, semantics.token)},
    {"cost", WORDS, offsetof(lk_description, semantics.cost)},
    {"shared", ORDER, offsetof(lk_description, semantics.shared)},
    {"permits_most", LIMIT, offsetof(lk_description, semantics.permits_most)},
};

/* Behind a line "parameter NAME" stand its other lines. */
static const struct field parameter_fields[] = {
    {"kind", KIND, offsetof(locker_parameter, kind)},
    {"default", WORDS, offsetof(locker_parameter, initial)},
    {"min", LIMIT, offsetof(locker_parameter, min)},
    {"max", LIMIT, offsetof(locker_parameter, max)},
    {"help", WORDS, offsetof(locker_parameter, help)},
};

const char *locker_param_kind_name(locker_param_kind kind)
{
    return kinds[kind > 0 && (size_t)kind < COUNT(kinds) ? kind : LOCKER_PARAM_TEXT];
}

void lk_schemes_join(char text[LK_SCHEMES_MAX], const char *const *schemes)
{
    size_t length = 0;
    text[0] = '\0';
    for (; *schemes != NULL && length < LK_SCHEMES_MAX; schemes++)
        length +=
            (size_t)snprintf(text + length, LK_SCHEMES_MAX - length, "%s%s", length > 0 ? " " : "", *schemes);
}

void lk_description_of(lk_description *d, const locker_driver *driver)
{
    *d = (lk_description){.semantics = *driver->semantics};
    lk_schemes_join(d->schemes, driver->schemes);
    d->info = (locker_driver_info){.name = driver->name,
                                   .schemes = d->schemes,
                                   .example = driver->example != NULL ? driver->example : "",
                                   .features = driver->features != NULL ? driver->features : "",
                                   .semantics = &d->semantics,
                                   .parameters = driver->params};
}

void lk_description_clear(lk_description *d)
{
    free((char *)(uintptr_t)d->info.module);
    free((char *)(uintptr_t)d->info.problem);
    free(d->parameters);
    free(d->text);
}

static bool write_line(FILE *out, const char *key, const char *words)
{
    return words == NULL || words[0] == '\0' ||
           (strchr(words, '\n') == NULL && fprintf(out, "%s %s\n", key, words) > 0);
}

/* Of what stands at `of`. */
static bool write_fields(FILE *out, const struct field *some, size_t count, const void *of)
{
    bool written = true;
    for (size_t i = 0; i < count && written; i++) {
        const void *const value = (const char *)of + some[i].offset;
        switch (some[i].form) {
        case WORDS:
            written = write_line(out, some[i].key, *(const char *const *)value);
            break;
        case FLAG:
            written = write_line(out, some[i].key, *(const bool *)value ? "yes" : "no");
            break;
        case LIMIT:
            written = *(const int64_t *)value == 0 ||
                      fprintf(out, "%s %" PRId64 "\n", some[i].key, *(const int64_t *)value) > 0;
            break;
        default:
            written = write_line(out, some[i].key, words_of[some[i].form].words[*(const int *)value]);
        }
    }
    return written;
}

bool lk_description_write(FILE *out, const lk_description *d)
{
    bool written = fprintf(out, "%s\n", FIRST_LINE) > 0 && write_fields(out, fields, COUNT(fields), d);
    for (const locker_parameter *p = d->info.parameters; p->name != NULL && written; p++)
        written = write_line(out, "parameter", p->name) &&
                  write_fields(out, parameter_fields, COUNT(parameter_fields), p);
    return written;
}

/* The place of the word among some that begin at 1; 0: it is none of them. */
static int place_of(const char *word, lk_form form)
{
    for (size_t i = 1; i < words_of[form].count; i++)
        if (strcmp(word, words_of[form].words[i]) == 0)
            return (int)i;
    return 0;
}

/* Into what stands at `of`. False: no field has this key, or it can't have this value. */
static bool read_field(const struct field *some, size_t count, void *of, const char *key, const char *value)
{
    size_t i = 0;
    char *end;
    while (i < count && strcmp(some[i].key, key) != 0)
        i++;
    if (i == count)
        return false;
    void *const at = (char *)of + some[i].offset;
    switch (some[i].form) {
    case WORDS:
        *(const char **)at = value;
        return true;
    case FLAG:
        *(bool *)at = strcmp(value, "yes") == 0;
        return *(bool *)at || strcmp(value, "no") == 0;
    case LIMIT:
        *(int64_t *)at = strtoll(value, &end, 10);
        return end != value && *end == '\0';
    default:
        *(int *)at = place_of(value, some[i].form);
        return *(int *)at != 0;
    }
}

/* One line that isn't the first. *next is the parameter that comes next. */
static bool read_line(lk_description *d, locker_parameter **next, char *line)
{
    char *value = strchr(line, ' ');
    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(line, "parameter") == 0) {
        *(*next)++ = (locker_parameter){.name = value, .kind = LOCKER_PARAM_TEXT, .help = ""};
        return true;
    }
    if (*next != d->parameters)
        return read_field(parameter_fields, COUNT(parameter_fields), *next - 1, line, value);
    return read_field(fields, COUNT(fields), d, line, value);
}

void lk_description_unknown(lk_description *d, char *name)
{
    static const locker_parameter none;
    *d = (lk_description){.semantics = {.size = sizeof d->semantics}};
    d->text = name;
    for (size_t i = 0; i < COUNT(fields); i++)
        if (fields[i].form == WORDS)
            (void)read_field(fields, COUNT(fields), d, fields[i].key, "");
    d->info.name = d->semantics.driver = name;
    d->info.semantics = &d->semantics;
    d->info.parameters = &none;
}

locker_status lk_description_read(lk_description *d, char *text, locker_error *err)
{
    char *rest = text;
    size_t lines = 1;
    unsigned number = 2;
    for (const char *at = text; (at = strchr(at, '\n')) != NULL; at++)
        lines++;
    lk_description_unknown(d, text);
    d->info.name = "";
    locker_parameter *next = calloc(lines, sizeof *next); /* each line may be one */
    d->info.parameters = d->parameters = next;
    if (next == NULL)
        return lk_out_of_memory(err);
    if (strcmp(strsep(&rest, "\n"), FIRST_LINE) != 0)
        return lk_misconfigured(err, "its first line is not '" FIRST_LINE "'");
    for (char *line; (line = strsep(&rest, "\n")) != NULL; number++)
        if (line[0] != '\0' && !read_line(d, &next, line))
            return lk_misconfigured(err, "its line %u has an unknown field or an invalid value", number);
    if (d->info.name[0] == '\0' || d->info.schemes[0] == '\0' || d->semantics.scope == 0 ||
        d->semantics.fairness == 0)
        return lk_misconfigured(err, "its name, schemes, scope or fairness is missing");
    d->semantics.driver = d->info.name;
    return LOCKER_OK;
}
