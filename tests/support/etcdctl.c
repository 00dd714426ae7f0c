/* etcdctl.c: a second client; see etcdctl.h. */
#include "etcdctl.h"

#include <errno.h>
#include <fcntl.h>
#include <inttypes.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "expect.h"
#include "servers/process.h"

enum { WORDS = 32, SAID = 1 << 20 };

/* ------------------------------------------------------------------ running it ---- */

/* The words of a command line, its own first. */
typedef struct {
    const char *words[WORDS];
    size_t count;
    char endpoint[40], text[1024];
} line;

static void add(line *l, const char *word)
{
    if (l->count + 1 == WORDS)
        test_fails("etcdctl gets no more than %d words", WORDS - 1);
    l->words[l->count++] = word;
}

static void begin(line *l, const lk_server *server)
{
    *l = (line){.count = 0};
    snprintf(l->endpoint, sizeof l->endpoint, "http://%s:%d", server->place.address,
             server->setup.certificates != NULL ? server->election_port : server->port);
    add(l, "etcdctl");
    add(l, "--endpoints");
    add(l, l->endpoint);
}

static void add_words(line *l, const char *format, va_list args)
{
    if (vsnprintf(l->text, sizeof l->text, format, args) >= (int)sizeof l->text)
        test_fails("a line for etcdctl is too long: %s", l->text);
    for (char *rest = l->text; rest != NULL;)
        add(l, strsep(&rest, " "));
}

/* Runs it to its end; what it says is freed by the caller. */
static char *run(const lk_server *server, const line *l, bool *good)
{
    char *said = malloc(SAID);
    int from[2], status = 0;
    size_t got = 0;
    if (said == NULL || pipe2(from, O_CLOEXEC) < 0)
        test_fails("can't prepare etcdctl: %s", strerror(errno));
    const pid_t pid = lk_process_start(
        &(lk_start){.argv = l->words, .out = from[1], .err = from[1], .netns = server->place.netns});
    if (pid < 0)
        test_fails("can't run etcdctl: %s; install etcd-client", strerror(errno));
    close(from[1]);
    for (ssize_t more; got + 1 < SAID && (more = read(from[0], said + got, SAID - 1 - got)) > 0;)
        got += (size_t)more;
    said[got] = '\0';
    close(from[0]);
    waitpid(pid, &status, 0);
    *good = WIFEXITED(status) && WEXITSTATUS(status) == 0;
    return said;
}

bool lk_etcdctl_try(const lk_server *server, char *said, size_t size, const char *format, ...)
{
    bool good;
    line l;
    va_list args;
    begin(&l, server);
    va_start(args, format);
    add_words(&l, format, args);
    va_end(args);
    char *text = run(server, &l, &good);
    snprintf(said, size, "%s", text);
    free(text);
    return good;
}

void lk_etcdctl_do(const lk_server *server, const char *format, ...)
{
    bool good;
    line l;
    va_list args;
    begin(&l, server);
    va_start(args, format);
    add_words(&l, format, args);
    va_end(args);
    char *text = run(server, &l, &good);
    if (!good)
        test_fails("etcdctl %s ... says: %.900s", l.words[3], text);
    free(text);
}

/* ------------------------------------------------------------------ keys ---- */

/* Whether the line is of that field; then *value is what it says. */
static bool is_field(const char *at, const char *name, const char **value)
{
    const size_t length = strlen(name);
    if (at[0] != '"' || strncmp(at + 1, name, length) != 0 || strncmp(at + 1 + length, "\" : ", 4) != 0)
        return false;
    *value = at + 1 + length + 4;
    return true;
}

/* The lines of a key begin with its name and end with its lease. */
static size_t read_keys(char *said, lk_etcdctl_key *keys, size_t most)
{
    lk_etcdctl_key key = {.create = 0};
    const char *value;
    size_t count = 0;
    for (char *rest = said, *at; (at = strsep(&rest, "\n")) != NULL;) {
        if (is_field(at, "Key", &value))
            snprintf(key.name, sizeof key.name, "%.*s", (int)strlen(value) - 2, value + 1);
        else if (is_field(at, "CreateRevision", &value))
            key.create = strtoll(value, NULL, 10);
        else if (is_field(at, "ModRevision", &value))
            key.modified = strtoll(value, NULL, 10);
        else if (is_field(at, "Lease", &value)) {
            key.lease = strtoull(value, NULL, 10);
            if (count < most)
                keys[count] = key;
            count++;
        }
    }
    return count;
}

size_t lk_etcdctl_keys(const lk_server *server, const char *prefix, lk_etcdctl_key *keys, size_t most)
{
    static const char *const words[] = {"--prefix", "--sort-by=CREATE", "--order=ASCEND", "-w", "fields"};
    bool good;
    line l;
    begin(&l, server);
    add(&l, "get");
    add(&l, prefix);
    for (size_t i = 0; i < sizeof words / sizeof words[0]; i++)
        add(&l, words[i]);
    char *said = run(server, &l, &good);
    if (!good)
        test_fails("etcdctl get says: %.900s", said);
    const size_t count = read_keys(said, keys, most);
    free(said);
    return count;
}

/* In base64; answers how many characters it has. */
static size_t encode(const char *text, size_t length, char *out)
{
    static const char digits[] = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    size_t at = 0;
    for (size_t i = 0; i < length; i += 3) {
        const unsigned three = (unsigned)(unsigned char)text[i] << 16 |
                               (i + 1 < length ? (unsigned)(unsigned char)text[i + 1] << 8 : 0) |
                               (i + 2 < length ? (unsigned char)text[i + 2] : 0);

        for (size_t n = 0; n < 4; n++)
            out[at++] = i + n <= length ? digits[three >> (18 - 6 * n) & 63] : '=';
    }
    return at;
}

/* Of the server itself: tests wait for counts, and each run of etcdctl costs 50 ms of a processor. */
size_t lk_etcdctl_count(const lk_server *server, const char *prefix)
{
    static const char label[] = "\"count\":\"";
    const size_t length = strlen(prefix);
    char end[LK_ETCDCTL_NAME], words[4 * LK_ETCDCTL_NAME], said[1024];
    if (length == 0)
        return lk_etcdctl_keys(server, prefix, NULL, 0);
    snprintf(end, sizeof end, "%s", prefix);
    end[length - 1]++;
    char *at = stpcpy(words, "/v3/kv/range {\"count_only\":true,\"key\":\"");
    at += encode(prefix, length, at);
    at = stpcpy(at, "\",\"range_end\":\"");
    at += encode(end, length, at);
    (void)stpcpy(at, "\"}");
    if (!lk_server_ask(server, words, said, sizeof said))
        return lk_etcdctl_keys(server, prefix, NULL, 0); /* which says why */
    const char *const count = strstr(said, label);
    return count != NULL ? strtoul(count + sizeof label - 1, NULL, 10) : 0;
}

typedef struct {
    const lk_server *server;
    const char *prefix;
    size_t wanted;
} counting;

static bool has_count(void *context)
{
    const counting *c = context;
    return lk_etcdctl_count(c->server, c->prefix) == c->wanted;
}

void lk_etcdctl_require_count(const lk_server *server, const char *prefix, size_t count)
{
    counting c = {server, prefix, count};
    char what[LK_ETCDCTL_NAME + 64];
    snprintf(what, sizeof what, "there should be %zu keys below %s", count, prefix);
    lk_require(has_count, &c, what);
}

lk_etcdctl_key lk_etcdctl_nth(const lk_server *server, const char *prefix, size_t nth)
{
    enum { MOST = 64 };
    lk_etcdctl_key *keys = calloc(MOST, sizeof *keys), key;
    if (keys == NULL)
        test_fails("out of memory (%s)", "keys");
    const size_t count = lk_etcdctl_keys(server, prefix, keys, MOST);
    if (nth >= MOST || count <= nth)
        test_fails("there are %zu keys below %s, so not number %zu", count, prefix, nth);
    key = keys[nth];
    free(keys);
    return key;
}

typedef struct {
    const lk_server *server;
    const char *words;
} question;

static bool is_taken(void *context)
{
    const question *q = context;
    char said[512];
    return lk_server_ask(q->server, q->words, said, sizeof said);
}

void lk_etcdctl_put_large(const lk_server *server, const char *begin, size_t more, size_t value)
{
    const size_t first = strlen(begin), most = first + more > value ? first + more : value;
    char *const text = malloc(most), *const words = malloc(2 * (first + more + value) + 100);
    question q = {server, words};
    if (text == NULL || words == NULL)
        test_fails("out of memory (%s)", "a large value");
    memset(text, 'x', most);
    memcpy(text, begin, first);
    char *at = stpcpy(words, "/v3/kv/put {\"key\":\"");
    at += encode(text, first + more, at);
    at = stpcpy(at, "\",\"value\":\"");
    memset(text, 'x', most);
    at += encode(text, value, at);
    (void)stpcpy(at, "\"}");
    lk_require(is_taken, &q, "etcd should put a large value");
    free(words);
    free(text);
}

void lk_etcdctl_revoke(const lk_server *server, uint64_t lease)
{
    lk_etcdctl_do(server, "lease revoke %" PRIx64, lease);
}

/* ------------------------------------------------------------------ its locks ---- */

lk_child *lk_etcdctl_lock(const lk_server *server, const char *name, int ttl_s)
{
    char ttl[24];
    line l;
    begin(&l, server);
    snprintf(ttl, sizeof ttl, "--ttl=%d", ttl_s);
    add(&l, "lock");
    add(&l, ttl);
    add(&l, name);
    return lk_child_run(l.words, "etcd-client");
}

int64_t lk_etcdctl_locked(const lk_server *server, lk_child *child)
{
    char said[LK_LINE_MAX];
    lk_child_hear(child, said);
    return lk_etcdctl_nth(server, said, 0).create;
}

void lk_etcdctl_unlock(lk_child *child)
{
    lk_child_signal(child, SIGTERM);
    const int code = lk_child_end(child);
    if (code != 0)
        test_fails("etcdctl lock ended with %d", code);
}
