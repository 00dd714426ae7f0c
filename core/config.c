/* config.c: a locker's configuration, from a URI or, with profile.c, from a profile.
 *
 * liburiparser parses the URI. It takes one host, so a comma list is split first: the URI is parsed with the
 * first host alone, and each of the others as a URI of its own.
 *
 * No text of the user's that can hold a password is put into an error. One slip, such as a '/' that is not
 * written as %2F, moves a part of the password to the host, the path or the parameters; so a host with more
 * behind its colon than a port is not quoted, nor a name that is no word; '@' behind the host is refused. */
#include <errno.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>
#include <sys/stat.h>
#include <uriparser/Uri.h>

#include "config.h"
#include "lk_printable.h"
#include "lk_trust.h"
#include "registry.h"

static void drop(const void *ours)
{
    free((void *)(uintptr_t)ours);
}

void lk_wipe(const char *secret)
{
    if (secret != NULL)
        explicit_bzero((char *)(uintptr_t)secret, strlen(secret));
    drop(secret);
}

void lk_config_clear(lk_config *c)
{
    for (size_t i = 0; i < c->pub.host_count; i++)
        drop(c->pub.hosts[i].name);
    for (size_t i = 0; i < c->given_count; i++) {
        free(c->given[i].name);
        lk_wipe(c->given[i].text);
    }
    for (size_t i = 0; i < LK_CONFIG_WARNINGS; i++)
        free(c->warnings[i]);
    lk_wipe(c->pub.password);
    for (size_t i = 0; c->again != NULL && i < c->again_count; i++)
        free(c->again[i]);
    const void *const others[] = {c->given,    c->pub.hosts,     c->pub.values,     c->pub.scheme,
                                  c->pub.user, c->pub.path,      c->pub.name_space, c->pub.owner,
                                  c->again,    c->password_again};
    for (size_t i = 0; i < sizeof others / sizeof *others; i++)
        drop(others[i]);
}

locker_status lk_config_no_memory(locker_error *err)
{
    return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory while reading the configuration");
}

locker_status lk_config_warn(lk_config *c, locker_error *err, const char *format, ...)
{
    size_t i = 0;
    while (i + 1 < LK_CONFIG_WARNINGS && c->warnings[i] != NULL)
        i++;
    va_list args;
    va_start(args, format);
    const int length = c->warnings[i] == NULL ? vasprintf(&c->warnings[i], format, args) : 0;
    va_end(args);
    if (length >= 0)
        return LOCKER_OK;
    c->warnings[i] = NULL;
    return lk_config_no_memory(err);
}

locker_status lk_config_trust(lk_config *c, int fd, const char *what, const char *path, bool secret,
                              locker_error *err)
{
    struct stat st;
    if (fstat(fd, &st) != 0)
        return locker_error_set(err, LOCKER_CONFIG, errno, "cannot stat %s %.200s: %s", what, path,
                                strerror(errno));
    if (S_ISDIR(st.st_mode))
        return lk_misconfigured(err, "%s %.200s is a directory: name a file", what, path);
    const char *const problem = lk_trust_problem(path, &st);
    if (problem != NULL)
        return lk_misconfigured(err, "cannot trust %s %.200s: %s", what, path, problem);
    if (!secret || S_ISCHR(st.st_mode) || (st.st_mode & S_IROTH) == 0)
        return LOCKER_OK;
    return lk_config_warn(
        c, err,
        "%s %s has a password that every user of this machine can read; run chmod o= on the file, and "
        "change the password",
        what, path);
}

char *lk_config_printable(const char *text)
{
    const size_t size = 4 * strlen(text) + 1;
    char *const clean = malloc(size);
    if (clean != NULL)
        (void)lk_printable(clean, size, text);
    return clean;
}

/* The path's first character shows whether it is one of the filesystem or the service; a path with a ':' may be a password at
 * a wrong place. */
char *lk_config_service(const lk_config *c)
{
    char *text = NULL;
    size_t size;
    FILE *const out = open_memstream(&text, &size);
    if (out == NULL)
        return NULL;
    const char *const path = strchr(c->pub.path, ':') == NULL ? c->pub.path : "";
    (void)fprintf(out, "%s:%s", c->pub.scheme, c->pub.host_count == 0 && path[0] == '/' ? "//" : "");
    for (size_t i = 0; i < c->pub.host_count; i++) {
        const locker_host *const h = &c->pub.hosts[i];
        const bool is_ipv6 = strchr(h->name, ':') != NULL;
        (void)fprintf(out, "%s%s%s%s", i == 0 ? "//" : ",", is_ipv6 ? "[" : "", h->name, is_ipv6 ? "]" : "");
        if (h->port != 0)
            (void)fprintf(out, ":%d", h->port);
    }
    (void)fprintf(out, "%s%s%s", path, c->pub.name_space[0] != '\0' ? "?namespace=" : "", c->pub.name_space);
    const bool failed = ferror(out) != 0;
    char *const clean = fclose(out) == 0 && !failed ? lk_config_printable(text) : NULL;
    free(text);
    return clean;
}

#define ASTRAY                                                                                               \
    "in a user or password, write '/' as %%2F, '?' as %%3F, '#' as %%23, '@' as %%40 and ':' as %%3A"

const char *lk_config_word(const char *text)
{
    const size_t length = strspn(text, "abcdefghijklmnopqrstuvwxyz_+-");
    return length > 0 && length <= 40 && text[length] == '\0' ? text : "(not shown)";
}

/* A host may be "user:password" whose '@' went astray. */
static bool host_can_be_quoted(const char *text, size_t length)
{
    const char *end = text + length, *bracket = *text == '[' ? memchr(text, ']', length) : NULL,
               *colon = memchr(bracket != NULL ? bracket : text, ':',
                               (size_t)(end - (bracket != NULL ? bracket : text)));
    if (memchr(text, '@', length) != NULL)
        return false;
    while (colon != NULL && ++colon < end)
        if (*colon < '0' || *colon > '9')
            return false;
    return true;
}

/* Behind the scheme and the hosts. */
static const char *behind_hosts(const char *uri)
{
    const char *rest = uri + strcspn(uri, ":") + 1;
    return strncmp(rest, "//", 2) == 0 ? rest + 2 + strcspn(rest + 2, "/?#") : rest;
}

/* An '@' behind the hosts: what stands before it may be a password with a '/', '?' or '#' in it, and then all
 * the parts are wrong. Where there are no passwords, "name:text@" still looks like one. */
static locker_status check_astray(const lk_config *c, const char *uri, locker_error *err)
{
    const char *rest = behind_hosts(uri), *at = strchr(rest, '@');
    const bool auth = (c->driver->caps & LOCKER_CAP_AUTH) != 0;
    if (at == NULL || (!auth && memchr(rest, ':', (size_t)(at - rest)) == NULL))
        return LOCKER_OK;
    if (!auth)
        return lk_misconfigured(err,
                                "the %s driver takes no user and no password; leave them out, and "
                                "write '@' in the path as %%40",
                                c->driver->name);
    return lk_misconfigured(err,
                            "the URI has an '@' after its hosts; write SCHEME://USER:PASSWORD@HOST; " ASTRAY
                            ", and '@' in a path or parameter as %%40");
}

/* A decoded copy of `what`, a piece of a URI. %00 would cut a C string. */
static locker_status decode(const char **text, const char *first, const char *after, const char *what,
                            locker_error *err)
{
    char *const own = strndup(first, (size_t)(after - first));
    *text = own;
    if (own == NULL)
        return lk_config_no_memory(err);
    const char *end = uriUnescapeInPlaceExA(own, URI_FALSE, URI_BR_DONT_TOUCH);
    return strlen(own) == (size_t)(end - own) ? LOCKER_OK
                                              : lk_misconfigured(err, "%s has a NUL (%%00); remove it", what);
}

static locker_status read_port(const UriTextRangeA *text, int *port, locker_error *err)
{
    const long value = strtol(text->first, NULL, 10); /* of digits alone, or none */
    const ptrdiff_t length = text->afterLast - text->first;
    if (value < 1 || value > 65535)
        return lk_misconfigured(err, "the port '%.*s' is not a number from 1 to 65535",
                                (int)(length < 20 ? length : 20), text->first);
    *port = (int)value;
    return LOCKER_OK;
}

static locker_status read_host(locker_host *host, const UriUriA *u, locker_error *err)
{
    if (u->pathHead != NULL || u->query.first != NULL || u->userInfo.first != NULL ||
        u->hostText.first == u->hostText.afterLast)
        return lk_misconfigured(err, "a host in the list is empty, or has its own user or path; write "
                                     "only HOST or HOST:PORT between the commas");
    locker_status status = LOCKER_OK;
    if (u->portText.first != NULL)
        status = read_port(&u->portText, &host->port, err);
    return status == LOCKER_OK
               ? decode(&host->name, u->hostText.first, u->hostText.afterLast, "the host", err)
               : status;
}

locker_status lk_config_add_host(lk_config *c, const char *text, size_t length, locker_error *err)
{
    const size_t count = c->pub.host_count;
    locker_host *hosts = realloc((void *)(uintptr_t)c->pub.hosts, (count + 1) * sizeof *hosts);
    if (hosts == NULL)
        return lk_config_no_memory(err);
    c->pub.hosts = hosts;
    hosts[c->pub.host_count++] = (locker_host){.port = 0};
    char *uri;
    if (asprintf(&uri, "x://%.*s", (int)length, text) < 0)
        return lk_config_no_memory(err);
    const char *where;
    UriUriA u;
    locker_status status;
    if (uriParseSingleUriA(&u, uri, &where) == URI_SUCCESS) {
        status = read_host(&hosts[count], &u, err);
        uriFreeUriMembersA(&u);
    } else if (host_can_be_quoted(text, length)) {
        status = lk_misconfigured(err, "'%.*s' is not a host; give NAME, NAME:PORT or [ADDRESS]:PORT",
                                  (int)(length < 80 ? length : 80), text);
    } else {
        status = lk_misconfigured(
            err, "host %zu of the list is not a host; give NAME, NAME:PORT or [ADDRESS]:PORT; " ASTRAY,
            count + 1);
    }
    free(uri);
    return status;
}

locker_status lk_config_add(lk_config *c, const char *name, const char *text, int line, locker_error *err)
{
    for (size_t i = 0; i < c->given_count; i++)
        if (strcmp(c->given[i].name, name) == 0)
            return lk_misconfigured(err, "parameter %s is given twice", lk_config_word(name));
    lk_given *given = realloc(c->given, (c->given_count + 1) * sizeof *given);
    if (given == NULL)
        return lk_config_no_memory(err);
    c->given = given;
    given += c->given_count++;
    *given = (lk_given){strdup(name), strdup(text), line};
    return given->name != NULL && given->text != NULL ? LOCKER_OK : lk_config_no_memory(err);
}

static locker_status read_query(lk_config *c, const UriUriA *u, locker_error *err)
{
    UriQueryListA *list = NULL;
    locker_status status = LOCKER_OK;
    if (u->query.first == NULL || u->query.first == u->query.afterLast)
        return LOCKER_OK;
    int count;
    for (const char *at = u->query.first; at + 2 < u->query.afterLast; at++)
        if (memcmp(at, "%00", 3) == 0)
            return lk_misconfigured(err, "a parameter in the URI has a NUL (%%00); remove it");
    if (uriDissectQueryMallocA(&list, &count, u->query.first, u->query.afterLast) != URI_SUCCESS)
        return lk_config_no_memory(err);
    for (const UriQueryListA *item = list; item != NULL && status == LOCKER_OK; item = item->next) {
        if (item->key[0] == '\0' && item->value == NULL)
            continue;
        if (item->value == NULL)
            status = lk_misconfigured(err, "parameter '%s' has no value: write NAME=VALUE",
                                      lk_config_word(item->key));
        else
            status = lk_config_add(c, item->key, item->value, 0, err);
    }
    uriFreeQueryListA(list);
    return status;
}

static locker_status read_user(lk_config *c, const UriUriA *u, locker_error *err)
{
    static const char what[] = "the user or password in the URI";
    const char *first = u->userInfo.first, *after = u->userInfo.afterLast;
    locker_status status = LOCKER_OK;
    if (first == NULL)
        return LOCKER_OK;
    const char *colon = memchr(first, ':', (size_t)(after - first)), *end = colon != NULL ? colon : after;
    if (colon != NULL)
        status = decode(&c->pub.password, colon + 1, after, what, err);
    return status == LOCKER_OK && first != end ? decode(&c->pub.user, first, end, what, err) : status;
}

/* All but the hosts. */
static locker_status read_bare(lk_config *c, const char *uri, locker_error *err)
{
    const char *where;
    UriUriA u;
    const int rc = uriParseSingleUriA(&u, uri, &where);
    if (rc == URI_ERROR_MALLOC)
        return lk_config_no_memory(err);
    if (rc != URI_SUCCESS)
        return lk_misconfigured(err,
                                "the %s: URI has a character that must be written as %%XX, or a %% "
                                "without two digits; " ASTRAY,
                                c->pub.scheme);
    locker_status status = LOCKER_OK;
    if (u.fragment.first != NULL)
        status = lk_misconfigured(err, "the URI has a '#'; write '#' in a value as %%23");
    if (status == LOCKER_OK)
        status = read_user(c, &u, err);
    /* With its slashes; found here, as liburiparser points the text of an empty last segment elsewhere. */
    const char *const path = behind_hosts(uri);
    if (status == LOCKER_OK)
        status = decode(&c->pub.path, path, path + strcspn(path, "?#"), "the path in the URI", err);
    if (status == LOCKER_OK)
        status = read_query(c, &u, err);
    uriFreeUriMembersA(&u);
    return status;
}

/* Where the list of hosts stands in the URI: *first == *after when there is none. */
static void find_hosts(const char *uri, const char **first, const char **after)
{
    const char *p = strstr(uri, "://");
    *first = *after = uri + strlen(uri);
    if (p == NULL || p > uri + strcspn(uri, "/?#"))
        return;
    *first = p + 3;
    *after = *first + strcspn(*first, "/?#");
    const char *const at = memrchr(*first, '@', (size_t)(*after - *first));
    if (at != NULL)
        *first = at + 1;
}

/* "etcd://http://h:2379": whether it is TLS the scheme says. */
static locker_status check_nested(const lk_config *c, const char *first, const char *after, locker_error *err)
{
    static const char *const nested[] = {"http:", "https:", "tcp:", "tls:", "ssl:"};
    for (size_t i = 0; i < sizeof nested / sizeof *nested; i++)
        if ((size_t)(after - first) == strlen(nested[i]) &&
            strncasecmp(first, nested[i], strlen(nested[i])) == 0)
            return lk_misconfigured(err,
                                    "the URI has %s// after its scheme; write %s://HOST:PORT, and for "
                                    "TLS a scheme such as etcds:// or rediss://",
                                    nested[i], c->pub.scheme);
    return LOCKER_OK;
}

/* Take the hosts, and write the URI without them into *bare ("scheme://user@h/path?query"). */
static locker_status split_hosts(lk_config *c, const char *uri, char **bare, locker_error *err)
{
    const char *first, *after;
    locker_status status = LOCKER_OK;
    find_hosts(uri, &first, &after);
    *bare = malloc(strlen(uri) + 2);
    if (*bare == NULL)
        return lk_config_no_memory(err);
    const bool listed = first < after;
    status = check_nested(c, first, after, err);
    (void)stpcpy(stpcpy(mempcpy(*bare, uri, (size_t)(first - uri)), listed ? "h" : ""), after);
    const char *end;
    for (const char *host = first; listed && status == LOCKER_OK && host <= after; host = end + 1) {
        end = host + strcspn(host, ",/?#");
        status = lk_config_add_host(c, host, (size_t)(end - host), err);
    }
    return status;
}

void lk_config_lower(char *text)
{
    for (; *text != '\0'; text++)
        *text = (char)(*text >= 'A' && *text <= 'Z' ? *text + 32 : *text);
}

/* "localhost:6379" would have the scheme localhost. */
static locker_status check_scheme(const char *uri, size_t length, locker_error *err)
{
    if (uri[0] == '/')
        return lk_misconfigured(err,
                                "the URI is a path: write file:// before it for locks in that directory");
    if (length == 0 || uri[length] != ':')
        return lk_misconfigured(err,
                                "the URI has no scheme: write SCHEME:..., such as file:///run/lock/shop");
    const bool is_address = strcspn(uri, ".") < length ||
                            strncasecmp(uri, "localhost:", strlen("localhost:")) == 0 ||
                            strspn(uri, "0123456789") == length || strspn(uri + length + 1, "0123456789") > 0;
    char host[32], scheme[32];
    (void)snprintf(host, sizeof host, "%.*s", (int)length, uri);
    if (is_address && strncmp(uri + length, "://", 3) != 0 && lk_driver_scheme_like(host, true, scheme))
        return lk_misconfigured(err, "the URI has no // after '%s:': write %s://HOST:PORT", scheme, scheme);
    if (is_address && strncmp(uri + length, "://", 3) != 0)
        return lk_misconfigured(
            err, "the URI begins with a host, without a scheme: write SCHEME://HOST:PORT, such as "
                 "redis://localhost:6379");
    return LOCKER_OK;
}

/* What people write for a scheme that there is, where more than one letter differs (lk_text_is_slip() finds the others); NULL:
 * nothing that is known. */
static const char *meant_scheme(const char *scheme)
{
    static const char *const meant[][2] = {{"sentinel", "redis+sentinel"},
                                           {"redis-socket", "redis+unix"},
                                           {"unix", "redis+unix"},
                                           {"redis-tls", "rediss"},
                                           {"redis+tls", "rediss"},
                                           {"redis+ssl", "rediss"},
                                           {"zoo", "zookeeper"},
                                           {"etcd+tls", "etcds"},
                                           {"etcd-tls", "etcds"},
                                           {"http", "etcd"},
                                           {"https", "etcds"},
                                           {"mem", "memory"},
                                           {"inmemory", "memory"}};
    for (size_t i = 0; i < sizeof meant / sizeof *meant; i++)
        if (strcmp(scheme, meant[i][0]) == 0)
            return meant[i][1];
    return NULL;
}

static locker_status read_scheme(lk_config *c, const char *uri, const locker_driver *driver,
                                 locker_error *err)
{
    const size_t length = strspn(uri, "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789+-.");
    const locker_status is_scheme = driver == NULL ? check_scheme(uri, length, err) : LOCKER_OK;
    if (is_scheme != LOCKER_OK)
        return is_scheme;
    if (length == 0 || uri[length] != ':')
        return check_scheme(uri, length, err);
    char *const scheme = strndup(uri, length);
    c->pub.scheme = scheme;
    if (scheme == NULL)
        return lk_config_no_memory(err);
    lk_config_lower(scheme);
    c->driver = driver;
    if (driver == NULL) {
        char shown[64];
        (void)snprintf(shown, sizeof shown,
                       "%.60s:", strchr(uri, '@') == NULL ? lk_config_word(c->pub.scheme) : "(not shown)");
        locker_status status = lk_driver_for(c->pub.scheme, shown, &c->driver, err);
        if (status == LOCKER_UNSUPPORTED && meant_scheme(scheme) != NULL)
            return lk_unsupported(err,
                                  "there is no scheme '%s:'; did you mean %s:? ('locker drivers' lists all)",
                                  scheme, meant_scheme(scheme));
        if (status != LOCKER_OK)
            return status;
    }
    if (lk_driver_has_scheme(c->driver, c->pub.scheme))
        return LOCKER_OK;
    return lk_misconfigured(err, "the %s driver has no scheme '%s:'", c->driver->name,
                            lk_config_word(c->pub.scheme));
}

locker_status lk_config_uri(lk_config *c, const char *uri, const locker_driver *driver, locker_error *err)
{
    char *bare = NULL;
    locker_status status = read_scheme(c, uri, driver, err);
    if (status == LOCKER_OK)
        status = check_astray(c, uri, err);
    if (status == LOCKER_OK)
        status = split_hosts(c, uri, &bare, err);
    if (status == LOCKER_OK)
        status = read_bare(c, bare, err);
    lk_wipe(bare);
    return status;
}
