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
    for (size_t i = 0; i < c->given_count; i++) {
        const size_t at = find(lk_common_params, c->given[i].name), own_at = find(own, c->given[i].name);
        const locker_parameter *param =
            lk_common_params[at].name != NULL ? &lk_common_params[at] : &own[own_at];
        locker_value *value = lk_common_params[at].name != NULL ? &common[at] : &c->values[own_at];
        if (param->name == NULL)
            return locker_error_set(
                err, LOCKER_CONFIG, 0,
                "the %s driver has no parameter '%s': 'locker drivers' lists those that it has",
                c->driver->name, lk_config_word(c->given[i].name));
        const locker_status status = lk_param_parse(param, c->given[i].text, value, err);
        if (status != LOCKER_OK)
            return status;
        value->given = true;
    }
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ password and label ---- */

static locker_status copy(char **own, const char *text, locker_error *err)
{
    *own = strdup(text);
    return *own != NULL ? LOCKER_OK : lk_config_no_memory(err);
}

static locker_status read_password_file(lk_config *c, const char *path, locker_error *err)
{
    FILE *f = fopen(path, "re");
    if (f == NULL) /* without a slash it may be the password itself */
        return locker_error_set(err, LOCKER_CONFIG, errno, "can't open password_file %.200s: %s",
                                strchr(path, '/') != NULL ? path : "(a name without '/' is not shown)",
                                strerror(errno));
    char line[1024];
    if (fgets(line, sizeof line, f) == NULL)
        line[0] = '\0';
    line[strcspn(line, "\r\n")] = '\0';
    (void)fclose(f);
    const locker_status status =
        line[0] != '\0' ? copy(&c->password, line, err)
                        : locker_error_set(err, LOCKER_CONFIG, 0, "password_file %.200s is empty", path);
    explicit_bzero(line, sizeof line);
    return status;
}

/* The caller's, else the URI's, else the file's, else the environment's. */
static locker_status find_password(lk_config *c, const char *text, const char *file, locker_error *err)
{
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
    lk_wipe(c->password);
    return copy(&c->password, text, err);
}

/* What breaks a label's rule is wrong in the configuration. */
static locker_status take_label(char **own, const char *text, const char *what, locker_error *err)
{
    if (lk_text_check_label(text, what, err) == LOCKER_OK)
        return copy(own, text, err);
    if (err != NULL)
        err->status = LOCKER_CONFIG;
    return LOCKER_CONFIG;
}

static locker_status find_owner(lk_config *c, const char *text, locker_error *err)
{
    char host[65], made[LOCKER_OWNER_MAX + 1];
    if (text != NULL)
        return take_label(&c->owner, text, "the owner", err);
    if (gethostname(host, sizeof host) != 0)
        (void)strcpy(host, "localhost");
    host[sizeof host - 1] = '\0';
    (void)snprintf(made, sizeof made, "%s:%ld:%.40s", host, (long)getpid(), program_invocation_short_name);
    if (lk_text_check_label(made, "the owner", NULL) != LOCKER_OK)
        (void)snprintf(made, sizeof made, "localhost:%ld", (long)getpid()); /* a name that is not UTF-8 */
    return take_label(&c->owner, made, "the owner", err);
}

locker_status lk_config_finish(lk_config *c, const locker_options *options, locker_error *err)
{
    static const locker_options defaults = LOCKER_OPTIONS_INIT;
    const locker_options *const o = options != NULL ? options : &defaults;
    locker_value common[LK_COMMON_COUNT] = {{0}};
    c->values = calloc(table_length(c->driver->params) + 1, sizeof *c->values);
    if (c->path == NULL)
        c->path = strdup("");
    if (c->values == NULL || c->path == NULL)
        return lk_config_no_memory(err);
    locker_status status = fill_defaults(lk_common_params, common, err);
    if (status == LOCKER_OK)
        status = fill_defaults(c->driver->params, c->values, err);
    if (status == LOCKER_OK)
        status = fill_given(c, common, err);
    c->ttl_ns = o->ttl_ms > 0 ? o->ttl_ms * LK_MS : common[LK_COMMON_TTL].number;
    c->connect_timeout_ns = common[LK_COMMON_CONNECT].number;
    c->command_timeout_ns = common[LK_COMMON_COMMAND].number;
    c->cleanup_ns = common[LK_COMMON_CLEANUP].number;
    if (status == LOCKER_OK)
        status = find_password(c, o->password, common[LK_COMMON_PASSWORD_FILE].text, err);
    /* A namespace becomes a part of keys, so the rules of keys hold for it. */
    const char *const name_space = o->name_space != NULL ? o->name_space : common[LK_COMMON_NAMESPACE].text;
    if (status == LOCKER_OK)
        status = name_space == NULL || *name_space == '\0'
                     ? copy(&c->name_space, "", err)
                     : take_label(&c->name_space, name_space, "the namespace", err);
    if (status == LOCKER_OK)
        status = find_owner(c, o->owner != NULL ? o->owner : common[LK_COMMON_OWNER].text, err);
    if (status == LOCKER_OK)
        status = lk_ttl_in_range(c->driver, c->ttl_ns / LK_MS, o->ttl_ms > 0 ? LOCKER_INVALID : LOCKER_CONFIG,
                                 err);
    return status;
}
