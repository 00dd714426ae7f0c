/* description.c: what is told of a driver, of its table or as text; see description.h. */
#include <stdlib.h>
#include <string.h>

#include "description.h"

/* The first line of a text. Another number: it belongs to another release. */
#define FIRST_LINE "locker-driver 1"

typedef enum lk_form { WORDS, FLAG, SCOPE, FAIRNESS } lk_form;

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
};

/* Behind a line "parameter NAME" stand its other lines. */
static const struct parameter_field {
    const char *key;
    size_t offset;
} parameter_fields[] = {
    {"kind", offsetof(locker_parameter, kind)},
    {"default", offsetof(locker_parameter, initial)},
    {"help", offsetof(locker_parameter, help)},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static const char *const scopes[] = {
    [LOCKER_SCOPE_PROCESS] = "process", [LOCKER_SCOPE_HOST] = "host", [LOCKER_SCOPE_NETWORK] = "network"};
static const char *const fairnesses[] = {[LOCKER_FAIR_LOCAL] = "local", [LOCKER_FAIR_GLOBAL] = "global"};

/* ------------------------------------------------------------------ of a table ---- */

const char *lk_param_kind_name(locker_param_kind kind)
{
    switch (kind) {
    case LOCKER_PARAM_DURATION:
        return "duration";
    case LOCKER_PARAM_NUMBER:
        return "number";
    case LOCKER_PARAM_BOOL:
        return "bool";
    case LOCKER_PARAM_PATH:
        return "path";
    default:
        return "text";
    }
}

void lk_describe_params(const locker_param *params, locker_parameter *out)
{
    for (; params->name != NULL; params++)
        *out++ = (locker_parameter){params->name, lk_param_kind_name(params->kind),
                                    params->initial != NULL ? params->initial : "", params->help};
    *out = (locker_parameter){NULL, NULL, NULL, NULL};
}

static char *join(const char *const *words)
{
    size_t length = 1;
    for (const char *const *word = words; *word != NULL; word++)
        length += strlen(*word) + 1;
    char *const joined = malloc(length);
    if (joined == NULL)
        return NULL;
    char *end = joined;
    for (const char *const *word = words; *word != NULL; word++) {
        if (end != joined)
            *end++ = ' ';
        end = stpcpy(end, *word);
    }
    *end = '\0';
    return joined;
}

bool lk_description_of(lk_description *d, const locker_driver *driver)
{
    size_t parameters = 1;
    for (const locker_param *p = driver->params; p->name != NULL; p++)
        parameters++;
    *d = (lk_description){.semantics = *driver->semantics,
                          .parameters = calloc(parameters, sizeof *d->parameters),
                          .text = join(driver->schemes)};
    if (d->parameters == NULL || d->text == NULL) {
        lk_description_clear(d);
        return false;
    }
    lk_describe_params(driver->params, d->parameters);
    d->info = (locker_driver_info){.name = driver->name,
                                   .schemes = d->text,
                                   .example = driver->example != NULL ? driver->example : "",
                                   .features = driver->features != NULL ? driver->features : "",
                                   .semantics = &d->semantics,
                                   .parameters = d->parameters};
    return true;
}

void lk_description_clear(lk_description *d)
{
    free(d->parameters);
    free(d->text);
    *d = (lk_description){.text = NULL};
}

/* ------------------------------------------------------------------ to a text ---- */

static bool write_line(FILE *out, const char *key, const char *words)
{
    return words == NULL || words[0] == '\0' ||
           (strchr(words, '\n') == NULL && fprintf(out, "%s %s\n", key, words) > 0);
}

static bool write_field(FILE *out, const struct field *field, const lk_description *d)
{
    const void *const value = (const char *)d + field->offset;
    switch (field->form) {
    case FLAG:
        return write_line(out, field->key, *(const bool *)value ? "yes" : "no");
    case SCOPE:
        return write_line(out, field->key, scopes[*(const locker_scope *)value]);
    case FAIRNESS:
        return write_line(out, field->key, fairnesses[*(const locker_fairness *)value]);
    default:
        return write_line(out, field->key, *(const char *const *)value);
    }
}

bool lk_description_write(FILE *out, const lk_description *d)
{
    bool written = fprintf(out, "%s\n", FIRST_LINE) > 0;
    for (size_t i = 0; i < COUNT(fields); i++)
        written = written && write_field(out, &fields[i], d);
    for (const locker_parameter *p = d->info.parameters; p->name != NULL; p++) {
        written = written && write_line(out, "parameter", p->name);
        for (size_t i = 0; i < COUNT(parameter_fields); i++) {
            const void *const value = (const char *)p + parameter_fields[i].offset;
            written = written && write_line(out, parameter_fields[i].key, *(const char *const *)value);
        }
    }
    return written;
}

/* ------------------------------------------------------------------ from a text ---- */

/* The place of the word among names that begin at 1; 0: it is none of them. */
static int place_of(const char *word, const char *const *names, size_t count)
{
    for (size_t i = 1; i < count; i++)
        if (strcmp(word, names[i]) == 0)
            return (int)i;
    return 0;
}

static bool read_field(lk_description *d, const struct field *field, const char *value)
{
    void *const at = (char *)d + field->offset;
    switch (field->form) {
    case FLAG:
        *(bool *)at = strcmp(value, "yes") == 0;
        return *(bool *)at || strcmp(value, "no") == 0;
    case SCOPE:
        *(locker_scope *)at = (locker_scope)place_of(value, scopes, COUNT(scopes));
        return d->semantics.scope != 0;
    case FAIRNESS:
        *(locker_fairness *)at = (locker_fairness)place_of(value, fairnesses, COUNT(fairnesses));
        return d->semantics.fairness != 0;
    default:
        *(const char **)at = value;
        return true;
    }
}

static bool read_parameter_field(locker_parameter *parameter, const char *key, const char *value)
{
    for (size_t i = 0; i < COUNT(parameter_fields); i++) {
        if (strcmp(key, parameter_fields[i].key) == 0) {
            *(const char **)(void *)((char *)parameter + parameter_fields[i].offset) = value;
            return true;
        }
    }
    return false;
}

/* One line that isn't the first. *next is the parameter that comes next. */
static bool read_line(lk_description *d, locker_parameter **next, char *line)
{
    char *value = strchr(line, ' ');
    if (value == NULL)
        return false;
    *value++ = '\0';
    if (strcmp(line, "parameter") == 0) {
        *(*next)++ = (locker_parameter){value, "", "", ""};
        return true;
    }
    if (*next != d->parameters)
        return read_parameter_field(*next - 1, line, value);
    for (size_t i = 0; i < COUNT(fields); i++)
        if (strcmp(line, fields[i].key) == 0)
            return read_field(d, &fields[i], value);
    return false;
}

/* Everything that is a text is empty until a line names it. */
static locker_status begin(lk_description *d)
{
    size_t lines = 1;
    for (const char *p = d->text; (p = strchr(p, '\n')) != NULL; p++)
        lines++;
    d->parameters = calloc(lines, sizeof *d->parameters);
    if (d->parameters == NULL)
        return LOCKER_NOMEM;
    d->info.semantics = &d->semantics;
    d->semantics.size = sizeof d->semantics;
    d->info.parameters = d->parameters;
    for (size_t i = 0; i < COUNT(fields); i++)
        if (fields[i].form == WORDS)
            (void)read_field(d, &fields[i], "");
    return LOCKER_OK;
}

locker_status lk_description_read(lk_description *d, char *text, locker_error *err)
{
    char *rest = text;
    unsigned number = 1;
    *d = (lk_description){.text = text};
    if (begin(d) != LOCKER_OK)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    locker_parameter *next = d->parameters;
    const char *const first = strsep(&rest, "\n");
    if (strcmp(first, FIRST_LINE) != 0)
        return locker_error_set(err, LOCKER_CONFIG, 0, "its first line is not '" FIRST_LINE "'");
    for (char *line; (line = strsep(&rest, "\n")) != NULL;) {
        number++;
        if (line[0] != '\0' && !read_line(d, &next, line))
            return locker_error_set(err, LOCKER_CONFIG, 0, "its line %u says nothing that is known", number);
    }
    if (d->info.name[0] == '\0' || d->info.schemes[0] == '\0' || d->semantics.scope == 0 ||
        d->semantics.fairness == 0)
        return locker_error_set(err, LOCKER_CONFIG, 0, "it lacks the name, schemes, scope or fairness");
    d->semantics.driver = d->info.name;
    return LOCKER_OK;
}
