/* text.c: names of lock files, and the record inside. */
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

#include "file_test.h"
#include "lk_time.h"
#include "name.h"
#include "record.h"

static void name_of(const char *prefix, const char *key, lk_file_name *name)
{
    lk_file_name_set(name, prefix, key, strlen(key));
}

static void names_are_safe(void **state)
{
    (void)state;
    static const struct {
        const char *key, *text;
    } cases[] = {{"orders", "orders.lock"}, {"orders/42", "orders%2F42.lock"},
                 {"..", "%2E..lock"},       {".", "%2E.lock"},
                 {"a b", "a%20b.lock"},     {"a@b", "a%40b.lock"},
                 {"a%2Fb", "a%252Fb.lock"}, {"\xC3\xA4", "%C3%A4.lock"},
                 {"x.d", "x.d.lock"}};
    lk_file_name name;
    for (size_t i = 0; i < sizeof(cases) / sizeof(cases[0]); i++) {
        name_of("", cases[i].key, &name);
        assert_string_equal(name.text, cases[i].text);
        assert_int_equal(name.last, 0);
    }
}

static void names_differ_with_the_namespace(void **state)
{
    (void)state;
    lk_file_name a, b;
    char *shop = lk_file_prefix_new("shop"), *none = lk_file_prefix_new("");
    char *odd = lk_file_prefix_new("shop@x");
    name_of(shop, "x@y", &a);
    name_of(odd, "y", &b);
    assert_string_not_equal(a.text, b.text);
    name_of(none, "shop@x", &b);
    name_of(shop, "x", &a);
    assert_string_not_equal(a.text, b.text);
    free(shop);
    free(none);
    free(odd);
    char uri[512] = "file:///tmp/nothing-is-made-here?namespace=";
    const size_t len = strlen(uri);
    memset(uri + len, 'x', LK_FILE_NAMESPACE_MAX + 1);
    uri[len + LK_FILE_NAMESPACE_MAX + 1] = '\0';
    locker *l;
    locker_error err;
    assert_status(LOCKER_CONFIG, locker_open(uri, NULL, &l, &err), err);
    assert_non_null(strstr(err.text, "namespace is too long"));
}

static void long_names_are_cut(void **state)
{
    (void)state;
    char key[LOCKER_KEY_MAX + 1], seen[2 * sizeof(key)][LK_FILE_PATH_MAX];
    size_t count = 0;
    lk_file_name name;
    for (size_t len = 1; len <= LOCKER_KEY_MAX; len++) {
        memset(key, '/', len);
        key[len] = '\0';
        name_of("space@", key, &name);
        size_t part = 0;
        for (const char *p = name.text; *p != '\0'; p++) {
            part = *p == '/' ? 0 : part + 1;
            assert_true(part <= NAME_MAX);
        }
        for (size_t i = 0; i < count; i++)
            assert_string_not_equal(seen[i], name.text);
        strcpy(seen[count++], name.text);
    }
    assert_true(name.last > 0);
}

static void a_record_comes_back(void **state)
{
    lk_place *place = *state;
    char template[LK_FILE_RECORD_SIZE];
    lk_file_record in = {.token = UINT64_MAX - 1, .since_ms = INT64_MAX}, out;
    lk_file_reading reading;
    memset(in.owner, 'o', LOCKER_OWNER_MAX);
    int fd = open(lk_place_file(place, "r"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    lk_file_record_template(template);
    assert_int_equal(lk_file_record_read(fd, &out, &reading), 0);
    assert_int_equal(reading, LK_FILE_RECORD_EMPTY);
    assert_int_equal(lk_file_record_write(fd, template, &in, true), 0);
    assert_int_equal(lk_file_record_read(fd, &out, &reading), 0);
    assert_int_equal(reading, LK_FILE_RECORD_GOOD);
    assert_true(out.token == in.token && out.since_ms == in.since_ms);
    assert_string_equal(out.owner, in.owner);
    /* Each byte of it lost, and each length cut: never a wrong token. */
    for (off_t i = 0; i < LK_FILE_RECORD_SIZE; i++) {
        char was, zero = '\0';
        assert_int_equal(pread(fd, &was, 1, i), 1);
        assert_int_equal(pwrite(fd, &zero, 1, i), 1);
        assert_int_equal(lk_file_record_read(fd, &out, &reading), 0);
        assert_true(reading == LK_FILE_RECORD_DAMAGED || out.token == in.token);
        assert_int_equal(pwrite(fd, &was, 1, i), 1);
    }
    for (off_t i = LK_FILE_RECORD_SIZE - 1; i >= 0; i--) {
        assert_int_equal(ftruncate(fd, i), 0);
        assert_int_equal(lk_file_record_read(fd, &out, &reading), 0);
        assert_int_equal(reading, i == 0 ? LK_FILE_RECORD_EMPTY : LK_FILE_RECORD_DAMAGED);
        assert_true(out.token == 0);
    }
    close(fd);
}

static void put(const char *path, const char *text, size_t len)
{
    int fd = open(path, O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, text, len), len);
    close(fd);
}

static void a_damaged_record_moves_no_token_back(void **state)
{
    lk_place *place = *state;
    const char *path = lk_place_file(place, "k.lock");
    uint64_t last = lk_place_token(place, "k");
    for (size_t len = 0; len < LK_FILE_RECORD_SIZE; len += 53) {
        char junk[LK_FILE_RECORD_SIZE];
        memset(junk, '\0', sizeof(junk)); /* as a crash of the host leaves it */
        put(path, junk, len);
        uint64_t token = lk_place_token(place, "k");
        assert_true(token > last);
        last = token;
        assert_int_equal(truncate(path, (off_t)len), 0);
        token = lk_place_token(place, "k");
        assert_true(token > last);
        last = token;
    }
}

static void a_token_ahead_of_the_clock_is_counted_on(void **state)
{
    lk_place *place = *state;
    char template[LK_FILE_RECORD_SIZE];
    lk_file_record record = {.token = UINT64_C(9000000000000000000)};
    int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    lk_file_record_template(template);
    assert_int_equal(lk_file_record_write(fd, template, &record, false), 0);
    close(fd);
    assert_true(lk_place_token(place, "k") == record.token + 1);
    assert_true(lk_place_token(place, "k") == record.token + 2);
}

/* The grant comes in the microsecond of the last one, most times. */
static void tokens_of_one_microsecond_differ(void **state)
{
    enum { GRANTS = 10000 };
    lk_place *place = *state;
    char template[LK_FILE_RECORD_SIZE];
    const int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    lk_file_record_template(template);
    for (int i = 0; i < GRANTS; i++) {
        const uint64_t last = (uint64_t)(lk_time_of(CLOCK_REALTIME) / LK_US);
        uint64_t token = last;
        assert_int_equal(lk_file_record_grant(fd, template, &token, "", false), 0);
        assert_true(token > last);
    }
    close(fd);
}

/* None can follow the greatest. */
static void a_token_at_its_end_is_damage(void **state)
{
    lk_place *place = *state;
    char template[LK_FILE_RECORD_SIZE];
    lk_file_record record = {.token = UINT64_MAX};
    int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    lk_file_record_template(template);
    assert_int_equal(lk_file_record_write(fd, template, &record, false), 0);
    close(fd);
    uint64_t token = lk_place_token(place, "k");
    assert_true(token > 1000000 && token < INT64_MAX);
    assert_true(lk_place_token(place, "k") > token);
}

/* One that is too long for a record, one that is short, such as a file with a process id, and one of a record's length. Its owner
 * may have it locked: a break does not put a file in its place. */
static void somebody_elses_file_is_left_alone(void **state)
{
    static const size_t lengths[] = {1000, 6, LK_FILE_RECORD_SIZE};
    lk_place *place = *state;
    char before[1000], after[1001];
    memset(before, 'z', sizeof(before));
    for (size_t i = 0; i < sizeof lengths / sizeof *lengths; i++) {
        put(lk_place_file(place, "Cargo.lock"), before, lengths[i]);
        locker_handle *held;
        locker_error err;
        assert_status(LOCKER_DENIED, locker_lock(place->l, "Cargo", NULL, &held, &err), err);
        assert_non_null(strstr(err.text, "Cargo.lock"));
        int fd = open(lk_place_file(place, "Cargo.lock"), O_RDWR | O_CLOEXEC);
        struct flock all = {.l_type = F_WRLCK, .l_whence = SEEK_SET};
        assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
        all.l_len = 1;
        all.l_type = F_UNLCK;
        all.l_start = 1;
        assert_int_equal(fcntl(fd, F_OFD_SETLK, &all),
                         0); /* byte 0 is locked, and the sweep is no party to that */
        all.l_start = 2;
        all.l_len = 0;
        assert_int_equal(fcntl(fd, F_OFD_SETLK, &all), 0);
        assert_status(LOCKER_DENIED, locker_break(place->l, "Cargo", NULL, NULL, &err), err);
        assert_int_equal(read(fd, after, sizeof(after)), lengths[i]);
        assert_memory_equal(before, after, lengths[i]);
        struct stat open_one, at_name;
        assert_int_equal(fstat(fd, &open_one), 0);
        assert_int_equal(stat(lk_place_file(place, "Cargo.lock"), &at_name), 0);
        assert_true(open_one.st_ino == at_name.st_ino);
        close(fd);
    }
}

static const struct CMUnitTest tests[] = {
    cmocka_unit_test(names_are_safe),
    cmocka_unit_test(names_differ_with_the_namespace),
    cmocka_unit_test(long_names_are_cut),
    place_test(a_record_comes_back),
    place_test(a_damaged_record_moves_no_token_back),
    place_test(a_token_ahead_of_the_clock_is_counted_on),
    place_test(tokens_of_one_microsecond_differ),
    place_test(a_token_at_its_end_is_damage),
    place_test(somebody_elses_file_is_left_alone),
};

const lk_group lk_text = {"text", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
