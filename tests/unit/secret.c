/*
 * secret.c: no password in any text, however the URI or the profile that carries it went wrong: characters of
 * it that are not escaped, slashes, colons and '@' too few or too many, keys misspelt. What is said comes as
 * errors and as log lines. Names of hosts are not looked up, so that nothing here leaves the process.
 */
#include <netdb.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <strings.h>

#include <locker/driver.h>

#include "expect.h"

enum { ROUNDS = 4000 };

/* The two halves of the password; what is put between and around them makes the URI wrong. */
static const char first_half[] = "Xq7Zk2", second_half[] = "Wv9Jm4";

static pthread_mutex_t said_mutex = PTHREAD_MUTEX_INITIALIZER;
static char said[65536]; /* the log lines of one round; guarded by said_mutex */

/* Instead of the C library's. */
int getaddrinfo(const char *restrict name, const char *restrict service,
                const struct addrinfo *restrict hints, struct addrinfo **restrict out)
{
    (void)name, (void)service, (void)hints;
    *out = NULL;
    return EAI_NONAME;
}

static void note_line(locker_log_level level, const char *text, void *user)
{
    (void)level, (void)user;
    pthread_mutex_lock(&said_mutex);
    (void)strncat(said, text, sizeof said - strlen(said) - 1);
    pthread_mutex_unlock(&said_mutex);
}

static void check_text(const char *text, const char *given)
{
    if (strcasestr(text, first_half) != NULL || strcasestr(text, second_half) != NULL)
        test_fails("a part of the password of\n%s\nis in the text\n%s", given, text);
}

/* ------------------------------------------------------------------ ways to be wrong ---- */

static unsigned pick(unsigned *seed, unsigned count)
{
    *seed = *seed * 1103515245u + 12345u;
    return (*seed >> 16) % count;
}

#define ONE_OF(seed, list) list[pick(seed, (unsigned)(sizeof(list) / sizeof *(list)))]

static const char *const specials[] = {"",  "/",  "#", "?", ":", "@",  ",",  " ", "%", "%zz", "%00", "[",
                                       "]", "\\", "&", "=", ";", "//", "\"", "'", "^", "?a=", "://", "?&b"};

/* Half of the characters of a URI are where it goes wrong, the others are right. */
static const char *slip(unsigned *seed, const char *right, const char *const *wrong, unsigned count)
{
    return pick(seed, 2) == 0 ? right : wrong[pick(seed, count)];
}

static void write_secret(unsigned *seed, const char **special, char *out, size_t size)
{
    *special = ONE_OF(seed, specials);
    switch (pick(seed, 3)) {
    case 0:
        (void)snprintf(out, size, "%s%s%s", *special, first_half, second_half);
        break;
    case 1:
        (void)snprintf(out, size, "%s%s%s", first_half, second_half, *special);
        break;
    default:
        (void)snprintf(out, size, "%s%s%s", first_half, *special, second_half);
    }
}

static void write_uri(unsigned *seed, char *out, size_t size)
{
    static const char *const schemes[] = {"redis",      "rediss", "redis+unix", "zookeeper",
                                          "file",       "memory", "zk",         "fault+redis",
                                          "fault+file", "REDIS",  "redis+none", "noted"};
    static const char *const starts[] = {":", ":/", "//", ":///", "", ":// ", "/"},
                             *const users[] = {"", "u", "10.0.0.1"}, *const colons[] = {"", "::", ":%"},
                             *const ats[] = {"", ":", ",", "/", "struct", "?", "#"},
                             *const hosts[] = {"", "[::1]", "[::1", "h,i:2", "h:x", "h:99999", "-"},
                             *const ends[] = {"",          "/",     "/0",      "/a/b",          "//",
                                              "/0?ttl=1y", "?poll", "?frob=1", "?ttl=1s&ttl=1s"};
    const char *scheme = ONE_OF(seed, schemes), *start = slip(seed, "://", starts, 7), *colon, *at = "@",
               *special;
    bool no_path =
        strstr(scheme, "file") == NULL && strstr(scheme, "memory") == NULL && strstr(scheme, "unix") == NULL;
    char secret[64];
    write_secret(seed, &special, secret, sizeof secret);
    /* Without "USER:" or "@" nothing tells a password from a name or a path, so that is one slip of its
     * own. */
    colon = no_path ? slip(seed, ":", colons, 3) : ":";
    if (no_path && strcmp(colon, ":") == 0 && strchr(special, '@') == NULL)
        at = slip(seed, "@", ats, 7);
    if (strcmp(start, "") == 0 || strcmp(start, "/") == 0)
        scheme = "";
    (void)snprintf(out, size, "%s%s%s%s%s%s%s%s", scheme, start, ONE_OF(seed, users), colon, secret, at,
                   slip(seed, "h:1", hosts, 7), ONE_OF(seed, ends));
}

static void write_profile(unsigned *seed, char *out, size_t size)
{
    static const char *const ways[] = {
        "uri = %s\n",
        "uri %s\n",
        "url = %s\n",
        "uri = redis://:%s@h/0\n",
        "driver = redis\nhost = u:%s@h\n",
        "driver = redis\nhost = h\npasswrod = %s\n",
        "driver = redis\nhost = h\npassword %s\n",
        "driver = redis\nhost = h\nport = %s\n",
        "driver = redis\nhost = h\nuser = %s\n",
        "driver = redis\nhost = h\npassword_file = %s\n",
        "driver = redis\nhost = h\npassword = %s\npassword = x\n",
        "driver = redis\nhost = h\npath = /%s\npassword = x\n",
        "driver = redis://:%s@h\n",
        "driver = zookeeper\nhost = h\npath = u:%s@h/a\n",
        "driver = memory\npassword = %s\n",
        "uri = redis://h\npassword = %s\nttl = soon\n",
        "password = %s\n[",
    };
    unsigned way = pick(seed, sizeof ways / sizeof *ways);
    char text[256];
    const char *special;
    if (way < 3)
        write_uri(seed, text, sizeof text);
    else
        write_secret(seed, &special, text, sizeof text);
    if (strcmp(ways[way], "driver = redis\nhost = h\npassword_file = %s\n") == 0 && strchr(text, '/') != NULL)
        (void)strcpy(text, first_half); /* with a slash it is a path, and is told */
    (void)strcpy(out, "[default]\n");
#pragma GCC diagnostic push
#pragma GCC diagnostic ignored "-Wformat-nonliteral"
    (void)snprintf(out + strlen(out), size - strlen(out), ways[way], text);
#pragma GCC diagnostic pop
}

/* ------------------------------------------------------------------ the tests ---- */

static locker_options short_options(void)
{
    locker_options o = LOCKER_OPTIONS_INIT;
    o.log = note_line;
    o.log_level = LOCKER_LOG_DEBUG;
    said[0] = '\0';
    return o;
}

static void check_opened(locker_status status, locker *l, const locker_error *err, const char *given)
{
    if (status != LOCKER_OK)
        check_text(err->text, given);
    (void)locker_close(l);
    check_text(said, given);
}

static void test_uris(void **state)
{
    char uri[512];
    (void)state;
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned seed = round;
        locker_options o = short_options();
        locker_error err;
        locker *l = NULL;

        write_uri(&seed, uri, sizeof uri);
        check_opened(locker_open(uri, &o, &l, &err), l, &err, uri);
        if (strstr(uri, "://") != NULL) /* in the place of a configuration file's name */
            check_opened(locker_open_profile(uri, NULL, &o, &l, &err), l, &err, uri);
    }
}

static void test_environment(void **state)
{
    char uri[512];
    (void)state;
    for (unsigned round = 0; round < ROUNDS / 8; round++) {
        unsigned seed = round + ROUNDS;
        locker_options o = short_options();
        locker_error err;
        locker *l = NULL;

        write_uri(&seed, uri, sizeof uri);
        assert_int_equal(setenv("LOCKER_URI", uri, 1), 0);
        check_opened(locker_open_default(&o, &l, &err), l, &err, uri);
    }
    assert_int_equal(unsetenv("LOCKER_URI"), 0);
}

static void test_profiles(void **state)
{
    char directory[64], file[96], text[1024];
    (void)state;
    lk_private_directory(directory);
    (void)snprintf(file, sizeof file, "%s/locker.conf", directory);
    for (unsigned round = 0; round < ROUNDS; round++) {
        unsigned seed = round + 2 * ROUNDS;
        locker_options o = short_options();
        locker_error err;
        locker *l = NULL;
        FILE *f = fopen(file, "w");

        assert_non_null(f);
        write_profile(&seed, text, sizeof text);
        assert_true(fputs(text, f) >= 0);
        assert_int_equal(fclose(f), 0);
        check_opened(locker_open_profile(file, NULL, &o, &l, &err), l, &err, text);
    }
    lk_remove_directory(directory);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_uris),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_profiles),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
