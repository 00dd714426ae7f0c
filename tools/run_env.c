/* run_env.c: the environment that the command gets, and the check that uses it: a locker run inside the
 * command, for a lock that an ancestor holds, would wait for itself.
 * LOCKER_HELD_KEYS has one line for each lock that the ancestors hold, "DRIVER TOKEN KEY"; keys have no
 * control characters, so a newline ends them. The fencing token says whether the lock that the service shows
 * is the ancestor's: URIs can name one service in many ways, tokens of one lock never come twice. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "run_parts.h"

/* Those that we set or take out; each ends with '='. */
static const char *const ours[] = {
    "LOCKER_HELD=",   "LOCKER_KEY=",      "LOCKER_TOKEN=",     "LOCKER_OWNER=", "LOCKER_BACKEND=",
    "LOCKER_TTL_MS=", "LOCKER_PASSWORD=", "LOCKER_HELD_KEYS=", "LOCKER_SLOT=",  "LOCKER_TOKENS="};
enum { OURS = sizeof ours / sizeof ours[0] };

/* Whether the line is of this driver and key; then *token is its token. */
static bool line_matches(const char *line, size_t length, const char *driver, const char *key,
                         uint64_t *token)
{
    const size_t driver_length = strlen(driver), key_length = strlen(key);
    char *end = NULL;
    if (length < driver_length + 1 || strncmp(line, driver, driver_length) != 0 || line[driver_length] != ' ')
        return false;
    errno = 0;
    *token = strtoull(line + driver_length + 1, &end, 10);
    if (errno || *end != ' ')
        return false;
    end++;
    return (size_t)(line + length - end) == key_length && memcmp(end, key, key_length) == 0;
}

/* Of permits, and of a key that is shared, one of several. */
static bool is_among(const locker_info *info, uint64_t token)
{
    for (size_t i = 0; i < info->holders_len; i++)
        if (locker_info_holder(info, i)->token == token)
            return true;
    return info->token == token;
}

static int check_line(const lk_run *r, const char *key, uint64_t token, int32_t *mine)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const locker_status status = locker_show(r->l, key, &info, &err);
    /* Without a token there is nothing to tell the holders apart, and waiting for oneself is worse. */
    const bool same = status == LOCKER_OK && info.held && (token == 0 || is_among(&info, token));
    locker_info_clear(&info);
    if (status == LOCKER_UNSUPPORTED)
        return LK_EXIT_OK;
    if (status != LOCKER_OK)
        return lk_cli_fail(status, &err);
    if (same)
        ++*mine;
    if (!same || (r->options.permits > 0 && *mine < r->options.permits))
        return LK_EXIT_OK;
    return lk_cli_usage("run",
                        "an outer locker run already holds '%s', so this run would wait for itself; "
                        "use another KEY, or run the command directly",
                        key);
}

static int check_key(const lk_run *r, const char *key)
{
    const char *line = secure_getenv("LOCKER_HELD_KEYS"), *driver = locker_get_semantics(r->l)->driver;
    int32_t mine = 0; /* permits of the key that ancestors have; another process will release the others */
    int code = LK_EXIT_OK;
    while (line && *line && !code) {
        const size_t length = strcspn(line, "\n");
        uint64_t token;
        if (line_matches(line, length, driver, key, &token))
            code = check_line(r, key, token, &mine);
        line += length + (line[length] == '\n');
    }
    return code;
}

int lk_run_check_nested(const lk_run *r)
{
    int code = LK_EXIT_OK;
    for (size_t i = 0; i < r->options.key_count && !code; i++)
        code = check_key(r, r->options.keys[i]);
    return code;
}

static bool is_ours(const char *variable)
{
    for (size_t i = 0; i < OURS; i++)
        if (strncmp(variable, ours[i], strlen(ours[i])) == 0)
            return true;
    return false;
}

/* Copy LOCKER_URI without its password. Leave it out (*copy stays NULL) if we cannot tell which part is the password. Return false
 * if memory ran out. */
static bool copy_without_password(const char *variable, char **copy)
{
    const char *hosts = strstr(variable, "://"), *at = strrchr(variable, '@');
    if (strcasestr(variable, "password=") != NULL) /* a parameter that there isn't */
        return true;
    if (at == NULL)
        return (*copy = strdup(variable)) != NULL;
    if (hosts == NULL)
        return true;
    hosts += 3;
    if (at > hosts + strcspn(hosts, "/?#"))
        return true;
    const char *colon = memchr(hosts, ':', (size_t)(at - hosts));
    if (colon == NULL)
        colon = at;
    return asprintf(copy, "%.*s%s", (int)(colon - variable), variable, colon == hosts ? at + 1 : at) >= 0;
}

/* Copy a variable of our environment, unless the command is not to have it: then *copy stays NULL. Return false if memory ran out. */
static bool inherit(const char *variable, char **copy)
{
    if (is_ours(variable))
        return true;
    if (strncmp(variable, "LOCKER_URI=", strlen("LOCKER_URI=")) == 0)
        return copy_without_password(variable, copy);
    return (*copy = strdup(variable)) != NULL;
}

uint64_t lk_run_token(const lk_run *r)
{
    size_t i = 0;
    while (i + 1 < locker_handle_count(r->held) &&
           strcmp(locker_handle_key_at(r->held, i), r->options.key) != 0)
        i++;
    return locker_handle_token_at(r->held, i);
}

/* A line for each key that is held, `before` each; NULL: out of memory. */
static char *lines_of_keys(const lk_run *r, const char *before)
{
    char *lines = NULL;
    size_t size;
    FILE *out = open_memstream(&lines, &size);
    if (!out)
        return NULL;
    for (size_t i = 0; i < locker_handle_count(r->held); i++)
        fprintf(out, "%s%s%llu %s", i > 0 ? "\n" : "", before,
                (unsigned long long)locker_handle_token_at(r->held, i), locker_handle_key_at(r->held, i));
    if (fclose(out) == 0)
        return lines;
    free(lines);
    return NULL;
}

/* What tells which locks are held: LOCKER_HELD_KEYS, of the ancestors too, and LOCKER_TOKENS. */
static bool add_keys(const lk_run *r, char **copy, size_t *n)
{
    const char *outer = secure_getenv("LOCKER_HELD_KEYS");
    char driver[64];
    snprintf(driver, sizeof driver, "%s ", locker_get_semantics(r->l)->driver);
    char *const held = lines_of_keys(r, driver), *const tokens = lines_of_keys(r, "");
    const bool added = held && tokens &&
                       asprintf(&copy[(*n)++], "LOCKER_HELD_KEYS=%s%s%s", outer ? outer : "",
                                outer && *outer ? "\n" : "", held) >= 0 &&
                       asprintf(&copy[(*n)++], "LOCKER_TOKENS=%s", tokens) >= 0;
    free(held);
    free(tokens);
    return added;
}

char **lk_run_environment(const lk_run *r)
{
    const char *key = r->options.key;
    const unsigned long long token = lk_run_token(r);
    size_t count = 0, n = 0;
    bool failed = false;
    while (environ[count])
        count++;
    char **copy = calloc(count + OURS + 1, sizeof *copy);
    if (!copy)
        return NULL;
    for (size_t i = 0; i < count && !failed; i++) {
        failed = !inherit(environ[i], &copy[n]);
        n += failed || copy[n] != NULL;
    }
    failed = failed || asprintf(&copy[n++], "LOCKER_HELD=1") < 0 ||
             asprintf(&copy[n++], "LOCKER_KEY=%s", key) < 0 ||
             asprintf(&copy[n++], "LOCKER_TOKEN=%llu", token) < 0 ||
             asprintf(&copy[n++], "LOCKER_OWNER=%s", locker_handle_owner(r->held)) < 0 ||
             asprintf(&copy[n++], "LOCKER_BACKEND=%s", r->backend) < 0 ||
             asprintf(&copy[n++], "LOCKER_TTL_MS=%lld", (long long)r->ttl_ms) < 0 ||
             (r->options.permits > 0 &&
              asprintf(&copy[n++], "LOCKER_SLOT=%d", (int)locker_handle_slot(r->held)) < 0) ||
             !add_keys(r, copy, &n);
    if (failed) {
        copy[n - 1] = NULL; /* undefined after a failed asprintf() */
        lk_run_environment_free(copy);
        return NULL;
    }
    return copy;
}

void lk_run_environment_free(char **environment)
{
    for (char **entry = environment; entry && *entry; entry++)
        free(*entry);
    free(environment);
}
