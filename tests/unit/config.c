/* config.c: what URIs, profiles, parameters and options mean, and what is said of wrong ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include <locker/driver.h>

#include "expect.h"

/* ------------------------------------------------------------------ a driver that is only opened ---- */

/* What open was given, as text: scheme|user|password|path|namespace|ttl|hosts|poll|number|flag|file */
static char *password_file; /* what the driver was told of it */
static char seen[2048];

static const char *or_dash(const char *text)
{
    return text != NULL ? text : "-";
}

static locker_status note_config(const locker_driver_config *c, const locker_services *svc, void **self,
                                 locker_error *err)
{
    int n = snprintf(seen, sizeof seen, "%s|%s|%s|%s|%s|%lld|", c->scheme, or_dash(c->user),
                     or_dash(c->password), c->path, c->name_space, (long long)(c->ttl_ns / 1000000));
    (void)svc, (void)err;
    free(password_file);
    password_file = c->password_file != NULL ? strdup(c->password_file) : NULL;
    for (size_t i = 0; i < c->host_count; i++)
        n += snprintf(seen + n, sizeof seen - (size_t)n, "%s:%d,", c->hosts[i].name, c->hosts[i].port);
    (void)snprintf(seen + n, sizeof seen - (size_t)n, "|%lld|%lld|%lld|%s", (long long)c->values[0].number,
                   (long long)c->values[1].number, (long long)c->values[2].number,
                   or_dash(c->values[3].text));
    *self = seen;
    return LOCKER_OK;
}

static void close_nothing(void *self)
{
    (void)self;
}

static locker_status no_acquire(void *self, locker_claim *claim, locker_error *err)
{
    (void)self, (void)claim;
    return locker_error_set(err, LOCKER_UNSUPPORTED, 0, "only opened");
}

static void no_withdraw(void *self, locker_claim *claim)
{
    (void)self, (void)claim;
}

static locker_status no_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)self, (void)grant, (void)until;
    return locker_error_set(err, LOCKER_UNKNOWN, 0, "only opened");
}

static locker_status no_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                             locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)until, (void)info;
    return locker_error_set(err, LOCKER_UNSUPPORTED, 0, "only opened");
}

static locker_status no_ping(void *self, int64_t until, locker_error *err)
{
    (void)self, (void)until;
    return locker_error_set(err, LOCKER_UNSUPPORTED, 0, "only opened");
}

static const char *const schemes[] = {"noted", NULL};
static const locker_parameter params[] = {
    {"poll", LOCKER_PARAM_DURATION, "1s", 10, 60000, "a duration"},
    {"number", LOCKER_PARAM_NUMBER, "7", 1, 9, "a number"},
    {"flag", LOCKER_PARAM_BOOL, "yes", 0, 0, "a flag"},
    {"file", LOCKER_PARAM_PATH, NULL, 0, 0, "a path"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};
static const locker_semantics semantics = {
    .size = sizeof(locker_semantics), .driver = "noted", .leases = true};
static const locker_driver driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "noted",
    .schemes = schemes,
    .caps = LOCKER_CAP_AUTH,
    .ttl_min_ms = 10,
    .ttl_max_ms = 3600000,
    .params = params,
    .semantics = &semantics,
    .open = note_config,
    .close = close_nothing,
    .acquire = no_acquire,
    .withdraw = no_withdraw,
    .release = no_release,
    .show = no_show,
    .ping = no_ping,
};

/* ------------------------------------------------------------------ URIs ---- */

static locker_status open_uri(const char *uri, locker_error *err)
{
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker *l = NULL;
    locker_status status;
    o.uri = uri;
    status = locker_open_driver(&driver, &o, &l, err);
    (void)locker_close(l);
    return status;
}

static void test_good_uris(void **state)
{
    static const char *const good[][2] = {
        {"noted:", "noted|-|-|||30000||1000000000|7|1|-"},
        {"NOTED:name", "noted|-|-|name||30000||1000000000|7|1|-"},
        {"noted:///a/b%20c", "noted|-|-|/a/b c||30000||1000000000|7|1|-"},
        {"noted://h", "noted|-|-|||30000|h:0,|1000000000|7|1|-"},
        {"noted://h:1/p", "noted|-|-|/p||30000|h:1,|1000000000|7|1|-"},
        {"noted://u:p%40%3a@h:1,[::1]:2,10.0.0.1/x",
         "noted|u|p@:|/x||30000|h:1,::1:2,10.0.0.1:0,|1000000000|7|1|-"},
        {"noted://:secret@h", "noted|-|secret|||30000|h:0,|1000000000|7|1|-"},
        {"noted:///a/", "noted|-|-|/a/||30000||1000000000|7|1|-"},
        {"noted:////a/./", "noted|-|-|//a/./||30000||1000000000|7|1|-"},
        {"noted:?ttl=1.5&namespace=shop&poll=20ms&number=9&flag=off&file=/x%26y",
         "noted|-|-||shop|1500||20000000|9|0|/x&y"},
    };
    locker_error err;
    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(open_uri(good[i][0], &err), err);
        assert_string_equal(seen, good[i][1]);
    }
}

static void test_bad_uris(void **state)
{
    static const struct {
        const char *uri, *names;
        locker_status status;
    } bad[] = {
        {"", "no scheme", LOCKER_CONFIG},
        {"noted", "no scheme", LOCKER_CONFIG},
        {"://h", "no scheme", LOCKER_CONFIG},
        {"noted://h:0", "'0'", LOCKER_CONFIG},
        {"noted://h:65536", "'65536'", LOCKER_CONFIG},
        {"noted://h:x", "host 1", LOCKER_CONFIG},
        {"noted://h,[::1]:x", "host 2", LOCKER_CONFIG},
        {"noted://h,a^b", "'a^b'", LOCKER_CONFIG},
        {"noted://u:12/ab@h", "%2F", LOCKER_CONFIG},
        {"noted://u:ab/c@h", "%2F", LOCKER_CONFIG},
        {"noted:u:ab@h", "%2F", LOCKER_CONFIG},
        {"noted://u:ab@h?namespace=me@here", "%40", LOCKER_CONFIG},
        {"noted://a,,b", "empty", LOCKER_CONFIG},
        {"noted://h/%zz", "%XX", LOCKER_CONFIG},
        {"noted://h/a b", "%XX", LOCKER_CONFIG},
        {"noted://h/%00", "the path", LOCKER_CONFIG},
        {"noted://h%00", "the host", LOCKER_CONFIG},
        {"noted://u%00@h", "the user", LOCKER_CONFIG},
        {"noted://u:%00@h", "or password", LOCKER_CONFIG},
        {"noted://h/#f", "'#'", LOCKER_CONFIG},
        {"noted:?colour=red", "'colour'", LOCKER_CONFIG},
        {"noted:?poll", "'poll'", LOCKER_CONFIG},
        {"noted:?poll=", "poll", LOCKER_CONFIG},
        {"noted:?poll=1s&poll=2s", "poll", LOCKER_CONFIG},
        {"noted:?poll=9ms", "poll=9ms", LOCKER_CONFIG},
        {"noted:?poll=61s", "poll=61s", LOCKER_CONFIG},
        {"noted:?poll=-1s", "'-1s'", LOCKER_CONFIG},
        {"noted:?poll=1y", "'1y'", LOCKER_CONFIG},
        {"noted:?number=ten", "number=ten", LOCKER_CONFIG},
        {"noted:?number=10", "number=10", LOCKER_CONFIG},
        {"noted:?flag=maybe", "flag=maybe", LOCKER_CONFIG},
        {"noted:?file=", "file", LOCKER_CONFIG},
        {"noted:?ttl=9ms", "ttl", LOCKER_CONFIG},
        {"noted:?ttl=2h", "ttl", LOCKER_CONFIG},
        {"noted:?namespace=a%0ab", "namespace", LOCKER_CONFIG},
        {"noted:?namespace=%00a", "%00", LOCKER_CONFIG},
        {"noted:?password_file=/nonexistent/x", "/nonexistent/x", LOCKER_CONFIG},
    };
    locker_error err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(bad[i].status, open_uri(bad[i].uri, &err), err);
        if (strstr(err.text, bad[i].names) == NULL)
            test_fails("the error for %s should name \"%s\": %s", bad[i].uri, bad[i].names, err.text);
    }
}

/* What a file has in its first line is the secret, or none is: a part of it would be refused by the service, and nobody would
 * see why. */
static void test_secret_files(void **state)
{
    enum { MOST = 1023 };
    static const struct {
        size_t count;     /* so many letters ... */
        const char *rest; /* ... and this, of so many bytes */
        size_t len;
        const char *words; /* of the error; NULL: it is a secret */
    } cases[] = {
        {5, "", 0, NULL},
        {5, "\nmore\n", 6, NULL},
        {5, "\r\nmore", 6, NULL},
        {MOST, "", 0, NULL},
        {MOST, "\n", 1, NULL},
        {MOST, "\r\n", 2, NULL},
        {MOST + 1, "", 0, "more than 1023 bytes"},
        {MOST + 1, "\n", 1, "more than 1023 bytes"},
        {3 * MOST, "\n", 1, "more than 1023 bytes"},
        {3, "\0x\n", 3, "a NUL"},
        {0, "\nx", 2, "empty"},
        {0, "", 0, "empty"},
    };
    char path[] = "/tmp/secret.XXXXXX", uri[64];
    locker_error err;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0);
    snprintf(uri, sizeof uri, "noted://h?password_file=%s", path);
    for (size_t i = 0; i < sizeof cases / sizeof *cases; i++) {
        char text[4096] = "noted|-|", file[4096];
        memset(file, 's', cases[i].count);
        memcpy(file + cases[i].count, cases[i].rest, cases[i].len);
        const ssize_t size = (ssize_t)(cases[i].count + cases[i].len);
        assert_true(ftruncate(fd, 0) == 0 && pwrite(fd, file, (size_t)size, 0) == size);
        const locker_status status = open_uri(uri, &err);
        assert_status(cases[i].words == NULL ? LOCKER_OK : LOCKER_CONFIG, status, err);
        if (cases[i].words != NULL && strstr(err.text, cases[i].words) == NULL)
            test_fails("case %zu should be told by \"%s\": %s", i, cases[i].words, err.text);
        memset(text + strlen(text), 's', cases[i].count);
        strcat(text, "|");
        if (cases[i].words == NULL)
            assert_memory_equal(seen, text, strlen(text));
    }
    close(fd);
    unlink(path);
}

/* A driver may read a regular file again, by a path that means the same from any directory. */
static void test_secrets_that_change(void **state)
{
    char path[] = "/tmp/secret.XXXXXX", uri[64], relative[64], *text;
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_error err;
    locker *l;
    (void)state;
    const int fd = mkstemp(path);
    assert_true(fd >= 0 && write(fd, "one\n", 4) == 4 && chdir("/tmp") == 0);
    snprintf(uri, sizeof uri, "noted://h?password_file=%s", path);
    assert_ok(open_uri(uri, &err), err);
    assert_string_equal(password_file, path);
    snprintf(relative, sizeof relative, "noted://h?password_file=%s", strrchr(path, '/') + 1);
    assert_ok(open_uri(relative, &err), err);
    assert_string_equal(password_file, path);
    assert_int_equal(pwrite(fd, "two", 3, 0), 3);
    text = locker_secret_read(path, &err);
    assert_non_null(text);
    assert_string_equal(text, "two");
    free(text);
    o.uri = uri;
    options.password = "the program's"; /* which counts */
    o.options = &options;
    assert_ok(locker_open_driver(&driver, &o, &l, &err), err);
    (void)locker_close(l);
    assert_null(password_file);
    assert_int_equal(fchmod(fd, 0666), 0);
    assert_null(locker_secret_read(path, &err));
    assert_non_null(strstr(err.text, "cannot trust"));
    unlink(path);
    close(fd);
    assert_null(locker_secret_read(path, &err));
    assert_status(LOCKER_CONFIG, err.status, err);
    assert_int_equal(mkfifo(path, 0600), 0);
    const pid_t writer = fork();
    if (writer == 0) {
        FILE *const fifo = fopen(path, "we");
        _exit(fifo == NULL || fputs("three\n", fifo) < 0 || fclose(fifo) != 0);
    }
    assert_ok(open_uri(uri, &err), err);
    assert_int_equal(waitpid(writer, NULL, 0), writer);
    assert_null(password_file);
    assert_null(locker_secret_read(path, &err)); /* and does not wait for a writer */
    unlink(path);
}

static void test_no_password_in_errors(void **state)
{
    static const char *const uris[] = {"noted://u:s3cret@h:x",  "noted://u:s3cret@h/%zz",
                                       "noted://u:s3cret@h,,/", "noted://u:s3cret@h?x=1",
                                       "nothing://u:s3cret@h",  "noted://u:s3cret@a b"};
    locker_error err;
    locker *l;
    (void)state;
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        assert_int_not_equal(open_uri(uris[i], &err), LOCKER_OK);
        assert_null(strstr(err.text, "s3cret"));
    }
    assert_status(LOCKER_UNSUPPORTED, locker_open("nothing://u:s3cret@h", NULL, &l, &err), err);
    assert_null(strstr(err.text, "s3cret"));
    assert_non_null(strstr(err.text, "memory"));
}

/* ------------------------------------------------------------------ profiles ---- */

static char opened[512]; /* the line of the log that names the service */

static void note_opened(locker_log_level level, const char *text, void *user)
{
    (void)user;
    if (level == LOCKER_LOG_INFO)
        (void)snprintf(opened, sizeof opened, "%s", text);
}

static locker_status open_text(const char *text, const char *profile, locker_error *err)
{
    const locker_options options = {.size = sizeof options, .log_level = LOCKER_LOG_INFO, .log = note_opened};
    char directory[64], file[96];
    locker *l = NULL;
    locker_status status;
    FILE *f;
    lk_private_directory(directory);
    (void)snprintf(file, sizeof file, "%s/locker.conf", directory);
    f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs(text, f) >= 0);
    assert_int_equal(fclose(f), 0);
    status = locker_open_profile(file, profile, &options, &l, err);
    (void)locker_close(l);
    lk_remove_directory(directory);
    return status;
}

static void test_profiles(void **state)
{
    static const char text[] =
        "; a comment\n[default]\nuri = memory:a?ttl=1s\nowner = me\n\n"
        "[parts]\ndriver = Memory\npath = b\nttl = 2s\n[broken]\nuri = memory:\nhost = h\n";
    locker_error err;
    (void)state;
    assert_ok(open_text(text, NULL, &err), err);
    assert_ok(open_text(text, "parts", &err), err);
    assert_non_null(strstr(opened, "are kept by memory:b ("));
    assert_ok(setenv("LOCKER_PROFILE", "parts", 1) == 0 ? open_text(text, NULL, &err) : LOCKER_INVALID, err);
    assert_int_equal(unsetenv("LOCKER_PROFILE"), 0);
    assert_status(LOCKER_CONFIG, open_text(text, "broken", &err), err);
    assert_non_null(strstr(err.text, "[broken]"));
    assert_status(LOCKER_CONFIG, open_text(text, "nobody", &err), err);
    assert_non_null(strstr(err.text, "[nobody]"));
}

static void test_bad_profiles(void **state)
{
    static const char *const bad[][2] = {
        {"[default]\n", "[default]"},
        {"[default]\nttl = 1s\n", "neither uri nor driver"},
        {"[default]\ndriver = none\n", "'none'"},
        {"[default]\nuri = memory:\nuri = memory:\n", ":3:"},
        {"[default]\nuri = memory:\nttl = 1s\nttl = 1s\n", ":4:"},
        {"[default]\nuri = memory:\nttl = 1s\nttl = 1s\nowner = me\n", ":4: parameter ttl is given twice"},
        {"[default]\nuri = memory:\nnonsense\n", ":3:"},
        {"[default]\nuri = memory:\nttl = soon\n", "'soon'"},
        {"[default]\nuri = memory:\nttl = 10 seconds\n", ":3: parameter ttl: '10 seconds'"},
        {"[default]\nuri = memory:\ntll = 10s\n",
         ":3: the memory driver has no parameter 'tll': did you mean ttl"},
        {"[default]\nurl = memory:\n", ":2: there is no 'url': write uri = ..."},
        {"[default]\ndriver = file\n", "path = /path/to/directory in a profile"},
        {"[default]\nuri = memory:\npassword = x ;y\n", ":3: password has a ';' after a blank"},
        {"[default]\nuri = memory: ; a comment\n", ":2: uri has a ';' after a blank"},
        {"[default]\nuri = memory:\nport = 1\n", "port"},
        {"[default]\ndriver = memory\nhost = h\nport = 70000\n", "port is not a number"},
    };
    char longest[600];
    locker_error err;
    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        locker_status status = open_text(bad[i][0], NULL, &err);

        assert_int_not_equal(status, LOCKER_OK);
        if (strstr(err.text, bad[i][1]) == NULL)
            test_fails("the error for %s should name \"%s\": %s", bad[i][0], bad[i][1], err.text);
    }
    memset(longest, 'x', sizeof longest);
    memcpy(longest, "[default]\nuri = memory:", 23);
    longest[sizeof longest - 1] = '\0';
    assert_status(LOCKER_CONFIG, open_text(longest, NULL, &err), err);
    assert_non_null(strstr(err.text, ":2:"));
    {
        locker *l;

        assert_status(LOCKER_CONFIG, locker_open_profile("/nonexistent/f", NULL, NULL, &l, &err), err);
        assert_non_null(strstr(err.text, "/nonexistent/f"));
    }
}

/* What people write, and what they are told to write. */
static void test_advice(void **state)
{
    static const char *const table[][2] = {
        {"localhost:abc", "SCHEME://HOST:PORT"},
        {"localhost:6379", "SCHEME://HOST:PORT"},
        {"cache.example:6379", "SCHEME://HOST:PORT"},
        {"/run/lock/shop", "write file:// before it"},
        {"redis", "no scheme"},
        {"redis-sentinel://h/m", "did you mean redis+sentinel:?"},
        {"memry://x", "did you mean memory:?"},
        {"memory:127.0.0.1:6379", "write memory://HOST:PORT"},
        {"memory://http://h:1", "write memory://HOST:PORT"},
        {"memory:?naemspace=x", "did you mean namespace"},
    };
    locker *l;
    locker_error err;
    (void)state;
    for (size_t i = 0; i < sizeof table / sizeof *table; i++) {
        assert_int_not_equal(LOCKER_OK, locker_open(table[i][0], NULL, &l, &err));
        if (strstr(err.text, table[i][1]) == NULL)
            test_fails("the error for %s should say \"%s\": %s", table[i][0], table[i][1], err.text);
    }
    assert_status(LOCKER_CONFIG, locker_open_profile("/tmp", NULL, NULL, &l, &err), err);
    assert_non_null(strstr(err.text, "/tmp is a directory: name a file"));
}

static void test_environment(void **state)
{
    locker_error err;
    locker *l;
    (void)state;
    assert_int_equal(setenv("LOCKER_URI", "memory:env", 1), 0);
    assert_ok(locker_open_default(NULL, &l, &err), err);
    assert_string_equal(locker_get_semantics(l)->driver, "memory");
    (void)locker_close(l);
    assert_int_equal(unsetenv("LOCKER_URI"), 0);
    assert_int_equal(setenv("LOCKER_CONFIG", "/nonexistent/c", 1), 0);
    assert_status(LOCKER_CONFIG, locker_open_default(NULL, &l, &err), err);
    assert_int_equal(unsetenv("LOCKER_CONFIG"), 0);
}

static void set_variable(const char *name, const char *value)
{
    assert_int_equal(value != NULL ? setenv(name, value, 1) : unsetenv(name), 0);
}

/* Expect the file of the user to be found, or not, by these two variables. NULL: unset. */
static void expect_usual_file(const char *xdg, const char *home, bool found)
{
    locker *l = NULL;
    locker_error err;
    set_variable("XDG_CONFIG_HOME", xdg);
    set_variable("HOME", home);
    const locker_status status = locker_open_profile(NULL, "of-this-test", NULL, &l, &err);
    assert_status(found ? LOCKER_OK : LOCKER_CONFIG, status, err);
    (void)locker_close(l);
}

/* A relative path would name another file in each directory that a process happens to stand in. */
static void test_usual_files(void **state)
{
    char directory[64], config[80], locker_[88], file[104], cwd[4096];
    const char *const home = getenv("HOME"), *const xdg = getenv("XDG_CONFIG_HOME");
    (void)state;
    assert_non_null(getcwd(cwd, sizeof cwd));
    lk_private_directory(directory);
    (void)snprintf(config, sizeof config, "%s/.config", directory);
    (void)snprintf(locker_, sizeof locker_, "%s/locker", config);
    (void)snprintf(file, sizeof file, "%s/locker.conf", locker_);
    assert_int_equal(mkdir(config, 0700), 0);
    assert_int_equal(mkdir(locker_, 0700), 0);
    FILE *const f = fopen(file, "w");
    assert_non_null(f);
    assert_true(fputs("[of-this-test]\nuri = memory:\n", f) >= 0);
    assert_int_equal(fclose(f), 0);
    char *const kept[] = {home != NULL ? strdup(home) : NULL, xdg != NULL ? strdup(xdg) : NULL};
    assert_int_equal(chdir(directory), 0);
    expect_usual_file(NULL, directory, true);
    expect_usual_file(config, "/", true);
    expect_usual_file(NULL, NULL, false);
    expect_usual_file(NULL, ".", false);
    expect_usual_file(".config", directory, false);
    assert_int_equal(chdir(cwd), 0);
    set_variable("HOME", kept[0]);
    set_variable("XDG_CONFIG_HOME", kept[1]);
    free(kept[0]);
    free(kept[1]);
    lk_remove_directory(directory);
}

/* ------------------------------------------------------------------ options ---- */

static void test_options(void **state)
{
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_error err;
    locker *l;
    locker_driver table = driver;
    (void)state;
    assert_status(LOCKER_INVALID, locker_open(NULL, NULL, &l, &err), err);
    assert_status(LOCKER_INVALID, locker_open("memory:", NULL, NULL, &err), err);
    o.size--;
    assert_status(LOCKER_INVALID, locker_open("memory:", &o, &l, &err), err);
    o = (locker_options)LOCKER_OPTIONS_INIT;
    o.ttl_ms = -1;
    assert_status(LOCKER_INVALID, locker_open("memory:", &o, &l, &err), err);
    o = (locker_options)LOCKER_OPTIONS_INIT;
    o.owner = "a\nb";
    assert_status(LOCKER_CONFIG, locker_open("memory:", &o, &l, &err), err);
    d.size++;
    assert_status(LOCKER_INVALID, locker_open_driver(&table, &d, &l, &err), err);
    assert_status(LOCKER_INVALID, locker_open_driver(NULL, NULL, &l, &err), err);
    table.abi++;
    assert_status(LOCKER_INVALID, locker_open_driver(&table, NULL, &l, &err), err);
    table.abi--;
    table.acquire = NULL;
    assert_status(LOCKER_INVALID, locker_open_driver(&table, NULL, &l, &err), err);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_uris),
        cmocka_unit_test(test_bad_uris),
        cmocka_unit_test(test_secret_files),
        cmocka_unit_test(test_secrets_that_change),
        cmocka_unit_test(test_no_password_in_errors),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_bad_profiles),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_options),
        cmocka_unit_test(test_advice),
        cmocka_unit_test(test_usual_files),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
