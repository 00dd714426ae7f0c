/* config.c: what URIs, profiles, parameters and options mean, and what is said of wrong ones. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "script.h"

static locker_status open_uri(const char *uri, char *seen, locker_error *err)
{
    struct script *s = script_new();
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker *l = NULL;
    locker_status status;

    o.uri = uri;
    status = locker_open_driver(script_driver(s, 0), &o, &l, err);
    (void)strcpy(seen, s->seen_config);
    script_close(s, l);
    return status;
}

static void test_good_uris(void **state)
{
    /* scheme|user|password|path|namespace|ttl|hosts|poll|number|flag|file */
    static const char *const good[][2] = {
        {"script:", "script|-|-|||30000||1000000000|7|1|-"},
        {"SCRIPT:name", "script|-|-|name||30000||1000000000|7|1|-"},
        {"script:///a/b%20c", "script|-|-|/a/b c||30000||1000000000|7|1|-"},
        {"script://h", "script|-|-|||30000|h:0,|1000000000|7|1|-"},
        {"script://h:1/p", "script|-|-|/p||30000|h:1,|1000000000|7|1|-"},
        {"script://u:p%40%3a@h:1,[::1]:2,10.0.0.1/x",
         "script|u|p@:|/x||30000|h:1,::1:2,10.0.0.1:0,|1000000000|7|1|-"},
        {"script://:secret@h", "script|-|secret|||30000|h:0,|1000000000|7|1|-"},
        {"script:///a/", "script|-|-|/a/||30000||1000000000|7|1|-"},
        {"script:////a/./", "script|-|-|//a/./||30000||1000000000|7|1|-"},
        {"script:?ttl=1.5&namespace=shop&poll=20ms&number=9&flag=off&file=/x%26y",
         "script|-|-||shop|1500||20000000|9|0|/x&y"},
    };
    char seen[512];
    locker_error err;

    (void)state;
    for (size_t i = 0; i < sizeof good / sizeof *good; i++) {
        assert_ok(open_uri(good[i][0], seen, &err), err);
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
        {"script", "no scheme", LOCKER_CONFIG},
        {"://h", "no scheme", LOCKER_CONFIG},
        {"script://h:0", "'0'", LOCKER_CONFIG},
        {"script://h:65536", "'65536'", LOCKER_CONFIG},
        {"script://h:x", "'h:x'", LOCKER_CONFIG},
        {"script://a,,b", "empty", LOCKER_CONFIG},
        {"script://h/%zz", "%XX", LOCKER_CONFIG},
        {"script://h/a b", "%XX", LOCKER_CONFIG},
        {"script://h/%00", "%00", LOCKER_CONFIG},
        {"script://h/#f", "'#'", LOCKER_CONFIG},
        {"script:?colour=red", "'colour'", LOCKER_CONFIG},
        {"script:?poll", "'poll'", LOCKER_CONFIG},
        {"script:?poll=", "poll", LOCKER_CONFIG},
        {"script:?poll=1s&poll=2s", "poll", LOCKER_CONFIG},
        {"script:?poll=9ms", "poll=9ms", LOCKER_CONFIG},
        {"script:?poll=61s", "poll=61s", LOCKER_CONFIG},
        {"script:?poll=-1s", "'-1s'", LOCKER_CONFIG},
        {"script:?poll=1y", "'1y'", LOCKER_CONFIG},
        {"script:?number=ten", "number=ten", LOCKER_CONFIG},
        {"script:?number=10", "number=10", LOCKER_CONFIG},
        {"script:?flag=maybe", "flag=maybe", LOCKER_CONFIG},
        {"script:?file=", "file", LOCKER_CONFIG},
        {"script:?ttl=9ms", "ttl", LOCKER_CONFIG},
        {"script:?ttl=2h", "ttl", LOCKER_CONFIG},
        {"script:?namespace=a%0ab", "namespace", LOCKER_CONFIG},
        {"script:?password_file=/nonexistent/x", "/nonexistent/x", LOCKER_CONFIG},
    };
    char seen[512];
    locker_error err;

    (void)state;
    for (size_t i = 0; i < sizeof bad / sizeof *bad; i++) {
        assert_status(bad[i].status, open_uri(bad[i].uri, seen, &err), err);
        if (strstr(err.text, bad[i].names) == NULL)
            test_fails("the error for %s should name \"%s\": %s", bad[i].uri, bad[i].names, err.text);
    }
}

static void test_no_password_in_errors(void **state)
{
    static const char *const uris[] = {"script://u:s3cret@h:x",  "script://u:s3cret@h/%zz",
                                       "script://u:s3cret@h,,/", "script://u:s3cret@h?x=1",
                                       "nothing://u:s3cret@h",   "script://u:s3cret@a b"};
    char seen[512];
    locker_error err;
    locker *l;

    (void)state;
    for (size_t i = 0; i < sizeof uris / sizeof *uris; i++) {
        assert_int_not_equal(open_uri(uris[i], seen, &err), LOCKER_OK);
        assert_null(strstr(err.text, "s3cret"));
    }
    assert_status(LOCKER_UNSUPPORTED, locker_open("nothing://u:s3cret@h", NULL, &l, &err), err);
    assert_null(strstr(err.text, "s3cret"));
    assert_non_null(strstr(err.text, "memory"));
}

/* ------------------------------------------------------------------ profiles ---- */

static locker_status open_text(const char *text, const char *profile, locker_error *err)
{
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
    status = locker_open_profile(file, profile, NULL, &l, err);
    (void)locker_close(l);
    lk_remove_directory(directory);
    return status;
}

static void test_profiles(void **state)
{
    static const char text[] =
        "; a comment\n[default]\nuri = memory:a?ttl=1s\nowner = me\n\n"
        "[parts]\ndriver = memory\npath = b\nttl = 2s\n[broken]\nuri = memory:\nhost = h\n";
    locker_error err;

    (void)state;
    assert_ok(open_text(text, NULL, &err), err);
    assert_ok(open_text(text, "parts", &err), err);
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
        {"[default]\nuri = memory:\nnonsense\n", ":3:"},
        {"[default]\nuri = memory:\nttl = soon\n", "'soon'"},
        {"[default]\nuri = memory:\nport = 1\n", "port"},
        {"[default]\ndriver = memory\nhost = h\nport = 70000\n", "70000"},
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

/* ------------------------------------------------------------------ options ---- */

static void test_options(void **state)
{
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_error err;
    locker *l;
    struct script *s = script_new();
    locker_driver table = *script_driver(s, 0);

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
    script_close(s, NULL);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_good_uris),
        cmocka_unit_test(test_bad_uris),
        cmocka_unit_test(test_no_password_in_errors),
        cmocka_unit_test(test_profiles),
        cmocka_unit_test(test_bad_profiles),
        cmocka_unit_test(test_environment),
        cmocka_unit_test(test_options),
    };

    return cmocka_run_group_tests(tests, NULL, NULL);
}
