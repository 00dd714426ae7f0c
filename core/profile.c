/*
 * profile.c: a profile, which is one section of an INI file, read by inih.
 *
 *     [default]
 *     uri = redis://cache.example/0
 *     ttl = 10s
 *
 *     [local]
 *     driver = file
 *     path = /run/lock/shop
 */
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "config.h"
#include "registry.h"

/* What the handler collects. Parts of the address are put together when the section is complete. */
typedef struct profile {
    lk_config *config;
    const char *file, *name;
    FILE *stream;
    int line;   /**< the line being read, from 1 */
    bool cut;   /**< that line was longer than inih's buffer */
    bool found; /**< the section is there */
    char *uri, *driver, *host, *port, *user, *password, *path;
    locker_error *err;
    locker_status status;
} profile;

/* Counts lines, which inih doesn't tell its handler, and sees those that inih would cut. */
static char *read_line(char *text, int size, void *user)
{
    profile *p = user;
    char *line = fgets(text, size, p->stream);
    const size_t length = line == NULL ? 0 : strlen(line);
    if (line == NULL)
        return NULL;
    p->line++;
    if (length + 1 == (size_t)size && line[length - 1] != '\n' && !feof(p->stream)) {
        p->cut = true;
        return NULL;
    }
    return line;
}

static char **part_of(profile *p, const char *name)
{
    struct {
        const char *name;
        char **text;
    } parts[] = {{"uri", &p->uri},   {"driver", &p->driver},     {"host", &p->host}, {"port", &p->port},
                 {"user", &p->user}, {"password", &p->password}, {"path", &p->path}};
    for (size_t i = 0; i < sizeof parts / sizeof *parts; i++)
        if (strcmp(parts[i].name, name) == 0)
            return parts[i].text;
    return NULL;
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
    profile *p = user;
    locker_error inner = {LOCKER_OK, 0, {0}};
    if (strcmp(section, p->name) != 0)
        return 1;
    p->found = true;
    char **part = part_of(p, name);
    if (part == NULL)
        p->status = lk_config_add(p->config, name, value, &inner);
    else if (*part != NULL)
        p->status = locker_error_set(&inner, LOCKER_CONFIG, 0, "%s is given twice", name);
    else if ((*part = strdup(value)) == NULL)
        p->status = locker_error_set(&inner, LOCKER_NOMEM, 0, "out of memory");
    if (p->status != LOCKER_OK)
        (void)locker_error_set(p->err, p->status, 0, "%s:%d: %s", p->file, p->line, inner.text);
    return p->status == LOCKER_OK;
}

static locker_status from_parts(profile *p, locker_error *err)
{
    lk_config *c = p->config;
    const char *text = p->host;
    locker_status status = lk_driver_for(p->driver, lk_config_word(p->driver), &c->driver, err);
    if (status != LOCKER_OK)
        return status;
    c->scheme = strdup(lk_driver_has_scheme(c->driver, p->driver) ? p->driver : c->driver->schemes[0]);
    c->user = p->user;
    c->password = p->password;
    c->path = p->path;
    p->user = p->password = p->path = NULL;
    if (c->scheme == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    while (text != NULL && status == LOCKER_OK) {
        text += strspn(text, " \t");
        size_t length = strcspn(text, ",");
        while (length > 0 && strchr(" \t", text[length - 1]) != NULL)
            length--;
        status = lk_config_add_host(c, text, length, err);
        text = strchr(text, ',');
        text = text != NULL ? text + 1 : NULL;
    }
    if (status == LOCKER_OK && p->port != NULL) {
        char *end;
        const long port = strtol(p->port, &end, 10);

        if (end == p->port || *end != '\0' || port < 1 || port > 65535)
            return locker_error_set(err, LOCKER_CONFIG, 0, "port is no number from 1 to 65535");
        if (c->host_count == 0)
            return locker_error_set(err, LOCKER_CONFIG, 0, "port is given without host");
        for (size_t i = 0; i < c->host_count; i++)
            if (c->hosts[i].port == 0)
                c->hosts[i].port = (int)port;
    }
    return status;
}

static locker_status build(profile *p, locker_error *err)
{
    if (p->uri != NULL &&
        (p->driver != NULL || p->host != NULL || p->port != NULL || p->user != NULL || p->path != NULL))
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "uri stands beside driver, host, port, user or path: keep one way");
    if (p->uri == NULL && p->driver == NULL)
        return locker_error_set(err, LOCKER_CONFIG, 0, "it has neither uri nor driver");
    if (p->uri == NULL)
        return from_parts(p, err);
    {
        const locker_status status = lk_config_uri(p->config, p->uri, NULL, err);

        if (status == LOCKER_OK && p->password != NULL) {
            if (p->config->password != NULL)
                return locker_error_set(err, LOCKER_CONFIG, 0,
                                        "password is given twice, in uri and by itself");
            p->config->password = p->password;
            p->password = NULL;
        }
        return status;
    }
}

static locker_status judge(profile *p, int rc, locker_error *err)
{
    locker_error inner = {LOCKER_OK, 0, {0}};
    if (p->status != LOCKER_OK)
        return p->status;
    if (p->cut)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "%s:%d: the line is too long for this build's INI reader", p->file, p->line);
    if (rc == -2)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while reading %s", p->file);
    if (rc != 0)
        return locker_error_set(err, LOCKER_CONFIG, 0, "%s:%d: neither [section] nor name = value", p->file,
                                rc);
    if (!p->found)
        return locker_error_set(err, LOCKER_CONFIG, 0, "%s has no profile [%.60s], or it is empty", p->file,
                                p->name);
    const locker_status status = build(p, &inner);
    if (status != LOCKER_OK)
        return locker_error_set(err, status, 0, "%s, profile [%.60s]: %s", p->file, p->name, inner.text);
    return status;
}

locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err)
{
    profile p = {.config = config, .file = file, .name = name, .err = err, .status = LOCKER_OK};
    if (strstr(file, "://") != NULL) /* with a password, maybe */
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "the name of the configuration file is a URI: LOCKER_URI or locker_open() "
                                "takes that");
    p.stream = fopen(file, "re");
    if (p.stream == NULL)
        return locker_error_set(err, LOCKER_CONFIG, errno, "can't open %s: %s", file, strerror(errno));
    const int rc = ini_parse_stream(read_line, &p, handle, &p);
    (void)fclose(p.stream);
    const locker_status status = judge(&p, rc, err);
    if (p.password != NULL)
        explicit_bzero(p.password, strlen(p.password));
    if (p.uri != NULL)
        explicit_bzero(p.uri, strlen(p.uri));
    free(p.uri);
    free(p.driver);
    free(p.host);
    free(p.port);
    free(p.user);
    free(p.password);
    free(p.path);
    return status;
}
