/* profile.c: a profile, which is one section of an INI file, read by inih.
 *
 *     [default]
 *     uri = redis://cache.example/0
 *     ttl = 10s
 *
 *     [local]
 *     driver = file
 *     path = /run/lock/shop */
#include <errno.h>
#include <ini.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "config.h"
#include "lk_trust.h"
#include "registry.h"

/* Parts of the address, which are put together when the section is complete. */
enum { URI, DRIVER, HOST, PORT, USER, PASSWORD, PATH, PARTS };
static const char *const part_names[PARTS] = {"uri", "driver", "host", "port", "user", "password", "path"};

/* What the handler collects. */
typedef struct {
    lk_config *config;
    const char *file, *name;
    FILE *stream;
    int line;          /**< the line being read, from 1 */
    bool cut;          /**< that line was longer than inih's buffer */
    bool has_nul;      /**< that line has a NUL, behind which inih would see nothing */
    bool is_commented; /**< in that line a ';' stands behind a blank */
    bool found;        /**< the section is there */
    char *part[PARTS];
    locker_error *err;
    locker_status status;
} profile;

/* What inih cuts off as a comment, unless it was built otherwise, and what others take for a part of the value. */
static bool has_comment(const char *line)
{
    line += strspn(line, " \t");
    if (*line == ';' || *line == '#')
        return false;
    for (const char *at = line; (at = strchr(at, ';')) != NULL; at++)
        if (at > line && (at[-1] == ' ' || at[-1] == '\t'))
            return true;
    return false;
}

/* Counts lines, which inih doesn't tell its handler, and sees those that inih would cut. */
static char *read_line(char *text, int size, void *user)
{
    profile *p = user;
    char *line = fgets(text, size, p->stream);
    const size_t length = line == NULL ? 0 : strlen(line);
    if (line == NULL)
        return NULL;
    p->line++;
    p->is_commented = has_comment(line);
    const bool is_whole = (length > 0 && line[length - 1] == '\n') || feof(p->stream);
    p->cut = !is_whole && length + 1 == (size_t)size;
    p->has_nul = !is_whole && !p->cut;
    return is_whole ? line : NULL;
}

/* What people write for a part of the address; NULL: nothing that is known. */
static const char *meant_part(const char *name)
{
    static const char *const meant[][2] = {
        {"url", "uri"},        {"address", "host"},    {"server", "host"},    {"servers", "host"},
        {"hosts", "host"},     {"hostname", "host"},   {"username", "user"},  {"login", "user"},
        {"pass", "password"},  {"passwd", "password"}, {"directory", "path"}, {"dir", "path"},
        {"backend", "driver"}, {"type", "driver"},     {"scheme", "driver"}};
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (strcmp(name, meant[i][0]) == 0)
            return meant[i][1];
    return NULL;
}

/* Take one line. */
static locker_status take_line(profile *p, const char *name, const char *value, locker_error *err)
{
    size_t i = 0;
    while (i < PARTS && strcmp(part_names[i], name) != 0)
        i++;
    if (p->is_commented)
        return lk_misconfigured(
            err,
            "%s has a ';' after a blank, which may begin a comment or belong to the value; put a "
            "comment on its own line, and such a password into password_file",
            lk_config_word(name));
    if (i == PARTS && meant_part(name) != NULL)
        return lk_misconfigured(err, "there is no '%s': write %s = ...", name, meant_part(name));
    if (i == PARTS)
        return lk_config_add(p->config, name, value, p->line, err);
    if (p->part[i] != NULL)
        return lk_misconfigured(err, "%s is given twice", name);
    p->part[i] = strdup(value);
    return p->part[i] != NULL ? LOCKER_OK : lk_out_of_memory(err);
}

static int handle(void *user, const char *section, const char *name, const char *value)
{
    profile *p = user;
    locker_error inner = {LOCKER_OK, 0, {0}};
    if (strcmp(section, p->name) != 0 || p->status != LOCKER_OK) /* the first thing that is wrong is told */
        return 1;
    p->found = true;
    p->status = take_line(p, name, value, &inner);
    if (p->status != LOCKER_OK)
        (void)locker_error_set(p->err, p->status, 0, "%s:%d: %s", p->file, p->line, inner.text);
    return p->status == LOCKER_OK;
}

static char *take(profile *p, int part)
{
    char *const text = p->part[part];
    p->part[part] = NULL;
    return text;
}

static locker_status add_hosts(lk_config *c, const char *list, locker_error *err)
{
    locker_status status = LOCKER_OK;
    while (list != NULL && status == LOCKER_OK) {
        list += strspn(list, " \t");
        size_t length = strcspn(list, ",");
        while (length > 0 && strchr(" \t", list[length - 1]) != NULL)
            length--;
        status = lk_config_add_host(c, list, length, err);
        list = strchr(list, ',');
        list = list != NULL ? list + 1 : NULL;
    }
    return status;
}

static locker_status set_port(const lk_config *c, const char *text, locker_error *err)
{
    char *end;
    const long port = strtol(text, &end, 10);
    if (end == text || *end != '\0' || port < 1 || port > 65535)
        return lk_misconfigured(err, "port is not a number from 1 to 65535");
    if (c->pub.host_count == 0)
        return lk_misconfigured(err, "port is given without host");
    locker_host *const hosts = (locker_host *)(uintptr_t)c->pub.hosts;
    for (size_t i = 0; i < c->pub.host_count; i++)
        if (hosts[i].port == 0)
            hosts[i].port = (int)port;
    return LOCKER_OK;
}

static locker_status from_parts(profile *p, locker_error *err)
{
    lk_config *c = p->config;
    const char *driver = p->part[DRIVER];
    locker_status status = lk_driver_for(driver, lk_config_word(driver), &c->driver, err);
    if (status != LOCKER_OK)
        return status;
    char *const scheme = strdup(lk_driver_has_scheme(c->driver, driver) ? driver : c->driver->schemes[0]);
    c->pub.user = take(p, USER);
    c->pub.password = take(p, PASSWORD);
    c->pub.path = take(p, PATH);
    c->pub.scheme = scheme;
    if (scheme == NULL)
        return lk_config_no_memory(err);
    lk_config_lower(scheme);
    status = add_hosts(c, p->part[HOST], err);
    return status == LOCKER_OK && p->part[PORT] != NULL ? set_port(c, p->part[PORT], err) : status;
}

static locker_status build(profile *p, locker_error *err)
{
    lk_config *c = p->config;
    char *const *part = p->part;
    if (part[URI] == NULL && part[DRIVER] == NULL)
        return lk_misconfigured(err, "it has neither uri nor driver: write uri = SCHEME://..., such as "
                                     "uri = file:///run/lock/shop");
    if (part[URI] == NULL)
        return from_parts(p, err);
    if (part[DRIVER] != NULL || part[HOST] != NULL || part[PORT] != NULL || part[USER] != NULL ||
        part[PATH] != NULL)
        return lk_misconfigured(err, "uri excludes driver, host, port, user and path; remove uri or "
                                     "all of these");
    const locker_status status = lk_config_uri(c, part[URI], NULL, err);
    if (status != LOCKER_OK || part[PASSWORD] == NULL)
        return status;
    if (c->pub.password != NULL)
        return lk_misconfigured(err, "password is given twice, in uri and by itself");
    c->pub.password = take(p, PASSWORD);
    return LOCKER_OK;
}

static locker_status judge(profile *p, int rc, locker_error *err)
{
    locker_error inner = {LOCKER_OK, 0, {0}};
    if (p->status != LOCKER_OK)
        return p->status;
    if (p->cut)
        return lk_misconfigured(err, "%s:%d: the line is too long for this build's INI reader", p->file,
                                p->line);
    if (p->has_nul)
        return lk_misconfigured(
            err, "%s:%d: the line has a NUL in it: write the file as plain text, in UTF-8", p->file, p->line);
    if (rc == -2)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while reading %s", p->file);
    if (rc != 0)
        return lk_misconfigured(err, "%s:%d: the line is neither [section] nor name = value", p->file, rc);
    if (!p->found)
        return lk_misconfigured(err, "%s has no profile [%.60s], or it is empty", p->file, p->name);
    const locker_status status = build(p, &inner);
    if (status != LOCKER_OK)
        return locker_error_set(err, status, 0, "%s, profile [%.60s]: %s", p->file, p->name, inner.text);
    return status;
}

/* The user's file is found by a variable that says nothing of locks, and which programs such as sudo may pass on to another
 * user. So the file and all above it have to be the user's own, or root's: then nobody else can have put it there. */
static locker_status check_owner(const profile *p, locker_error *err)
{
    struct stat st;
    if (fstat(fileno(p->stream), &st) != 0)
        return locker_error_set(err, LOCKER_CONFIG, errno, "cannot stat %s: %s", p->file, strerror(errno));
    const uid_t stranger = lk_trust_stranger(p->file, st.st_uid);
    if (lk_trust_user(stranger))
        return LOCKER_OK;
    return lk_misconfigured(
        err,
        "the configuration file %.200s%s belongs to user %lu, not to user %lu or root; set HOME to "
        "this user's home directory, or LOCKER_CONFIG to the file",
        p->file, stranger == st.st_uid ? "" : ", or a directory above it,", (unsigned long)stranger,
        (unsigned long)geteuid());
}

locker_status lk_config_profile(lk_config *config, const char *file, const char *name, locker_error *err)
{
    static const char what[] = "the configuration file";
    profile p = {.config = config, .file = file, .name = name, .err = err, .status = LOCKER_OK};
    if (strstr(file, "://") != NULL) /* with a password, maybe */
        return lk_misconfigured(
            err, "the name of the configuration file is a URI; give a URI in LOCKER_URI, or to "
                 "locker_open()");
    config->file = file;
    p.stream = fopen(file, "re"); /* any descriptor: it is only read, and closed at once */
    if (p.stream == NULL)
        return locker_error_set(err, LOCKER_CONFIG, errno, "cannot open %s: %s", file, strerror(errno));
    locker_status status = lk_config_trust(config, fileno(p.stream), what, file, false, err);
    if (status == LOCKER_OK && config->is_users)
        status = check_owner(&p, err);
    if (status == LOCKER_OK)
        status = judge(&p, ini_parse_stream(read_line, &p, handle, &p), err);
    if (status == LOCKER_OK && config->pub.password != NULL)
        status = lk_config_trust(config, fileno(p.stream), what, file, true, err);
    (void)fclose(p.stream);
    for (size_t i = 0; i < PARTS; i++)
        lk_wipe(p.part[i]);
    return status;
}
