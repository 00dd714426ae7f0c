/* config_finish.c: checks the parameters of a configuration against the tables and fills in what was not
 * said. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "config.h"
#include "lk_time.h"
#include "params.h"
#include "text.h"

static size_t table_length(const locker_parameter *params)
{
    size_t n = 0;
    while (params[n].name != NULL)
        n++;
    return n;
}

/* The place of a name in a table, or its length. */
static size_t find(const locker_parameter *params, const char *name)
{
    size_t i = 0;
    while (params[i].name != NULL && strcmp(params[i].name, name) != 0)
        i++;
    return i;
}

static locker_status fill_defaults(const locker_parameter *params, locker_value *values, locker_error *err)
{
    locker_status status = LOCKER_OK;
    for (size_t i = 0; params[i].name != NULL && status == LOCKER_OK; i++)
        status = lk_param_parse(&params[i], params[i].initial, &values[i], err);
    return status;
}

static locker_status fill_given(lk_config *c, locker_value *common, locker_error *err)
{
    const locker_parameter *own = c->driver->params;
    for (size_t i = 0; i < c->param_count; i++) {
        const size_t at = find(lk_common_params, c->names[i]), own_at = find(own, c->names[i]);
        const locker_parameter *param =
            lk_common_params[at].name != NULL ? &lk_common_params[at] : &own[own_at];
        locker_value *value = lk_common_params[at].name != NULL ? &common[at] : &c->values[own_at];

        if (param->name == NULL)
            return locker_error_set(
                err, LOCKER_CONFIG, 0,
                "the %s driver has no parameter '%s': 'locker drivers' lists those that it has",
                c->driver->name, lk_config_word(c->names[i]));
        const locker_status status = lk_param_parse(param, c->texts[i], value, err);
        if (status != LOCKER_OK)
            return status;
        value->given = true;
    }
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ password and label ---- */

static locker_status read_password_file(lk_config *c, const char *path, locker_error *err)
{
    FILE *f = fopen(path, "re");
    locker_status status = LOCKER_OK;
    if (f == NULL) /* without a slash it may be the password itself */
        return locker_error_set(err, LOCKER_CONFIG, errno, "can't open password_file %.200s: %s",
                                strchr(path, '/') != NULL ? path : "(a name without '/' is not shown)",
                                strerror(errno));
    char line[1024];
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    (void)fclose(f);
    if (line[0] == '\0')
        status = locker_error_set(err, LOCKER_CONFIG, 0, "password_file %.200s is empty", path);
    else if ((c->password = strdup(line)) == NULL)
        status = LOCKER_NOMEM;
    explicit_bzero(line, sizeof line);
    return status;
}

/* The caller's, else the URI's, else the file's, else the environment's. */
static locker_status find_password(lk_config *c, const locker_options *options, const char *file,
                                   locker_error *err)
{
    const char *text = options != NULL && options->password != NULL ? options->password : NULL;
    if ((c->driver->caps & LOCKER_CAP_AUTH) == 0) {
        if (c->user != NULL || c->password != NULL || text != NULL || file != NULL)
            return locker_error_set(err, LOCKER_CONFIG, 0,
                                    "the %s driver takes no user and no password: leave them out",
                                    c->driver->name);
        return LOCKER_OK;
    }
    if (c->password != NULL && file != NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "both a password and password_file are given: keep one");
    if (text == NULL && c->password != NULL)
        return LOCKER_OK;
    if (text == NULL && file != NULL)
        return read_password_file(c, file, err);
    if (text == NULL)
        text = getenv("LOCKER_PASSWORD");
    if (text == NULL || *text == '\0')
        return LOCKER_OK;
    if (c->password != NULL)
        explicit_bzero(c->password, strlen(c->password));
    free(c->password);
    c->password = strdup(text);
    return c->password != NULL ? LOCKER_OK : LOCKER_NOMEM;
}

static locker_status find_owner(lk_config *c, const locker_options *options, const char *given,
                                locker_error *err)
{
    char host[65], made[LOCKER_OWNER_MAX + 1];
    const char *text = options != NULL && options->owner != NULL ? options->owner : given;
    if (text == NULL) {
        if (gethostname(host, sizeof host) != 0)
            (void)strcpy(host, "localhost");
        host[sizeof host - 1] = '\0';
        (void)snprintf(made, sizeof made, "%s:%ld:%.40s", host, (long)getpid(),
                       program_invocation_short_name);
        if (lk_text_check_label(made, "the owner", NULL) != LOCKER_OK)
            (void)snprintf(made, sizeof made, "localhost:%ld", (long)getpid()); /* a name that is not UTF-8 */
        text = made;
    }
    const locker_status status = lk_text_check_label(text, "the owner", err);
    if (status != LOCKER_OK)
        return status;
    c->owner = strdup(text);
    return c->owner != NULL ? LOCKER_OK : LOCKER_NOMEM;
}

/* A namespace becomes a part of keys, so the rules of keys hold for it. */
static locker_status find_name_space(lk_config *c, const locker_options *options, const char *given,
                                     locker_error *err)
{
    const char *text = options != NULL && options->name_space != NULL ? options->name_space : given;
    if (text == NULL)
        text = "";
    if (*text != '\0' && lk_text_check_label(text, "the namespace", err) != LOCKER_OK)
        return LOCKER_INVALID;
    c->name_space = strdup(text);
    return c->name_space != NULL ? LOCKER_OK : LOCKER_NOMEM;
}

locker_status lk_config_finish(lk_config *c, const locker_options *options, locker_error *err)
{
    locker_value common[LK_COMMON_COUNT] = {{0}};
    const size_t count = table_length(c->driver->params);
    locker_status status = LOCKER_OK;
    c->values = calloc(count + 1, sizeof *c->values);
    if (c->path == NULL)
        c->path = strdup("");
    if (c->values == NULL || c->path == NULL)
        status = LOCKER_NOMEM;
    if (status == LOCKER_OK)
        status = fill_defaults(lk_common_params, common, err);
    if (status == LOCKER_OK)
        status = fill_defaults(c->driver->params, c->values, err);
    if (status == LOCKER_OK)
        status = fill_given(c, common, err);
    const bool ttl_given =
        options != NULL && options->ttl_ms > 0; /* by the caller, not by the configuration */
    if (status == LOCKER_OK) {
        c->ttl_ns = ttl_given ? options->ttl_ms * LK_MS : common[LK_COMMON_TTL].number;
        c->connect_timeout_ns = common[LK_COMMON_CONNECT].number;
        c->command_timeout_ns = common[LK_COMMON_COMMAND].number;
        c->cleanup_ns = common[LK_COMMON_CLEANUP].number;
    }
    if (status == LOCKER_OK)
        status = find_password(c, options, common[LK_COMMON_PASSWORD_FILE].text, err);
    if (status == LOCKER_OK)
        status = find_name_space(c, options, common[LK_COMMON_NAMESPACE].text, err);
    if (status == LOCKER_OK)
        status = find_owner(c, options, common[LK_COMMON_OWNER].text, err);
    if (status == LOCKER_INVALID && err != NULL)
        err->status = LOCKER_CONFIG; /* a label's rule, broken in a configuration */
    if (status == LOCKER_INVALID)
        status = LOCKER_CONFIG;
    if (status == LOCKER_OK)
        status =
            lk_ttl_in_range(c->driver, c->ttl_ns / LK_MS, ttl_given ? LOCKER_INVALID : LOCKER_CONFIG, err);
    if (status == LOCKER_NOMEM)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while reading the configuration");
    return status;
}
