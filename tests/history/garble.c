/*
 * garble.c: nothing that a file may hold breaks the reader or the checks: a history cut at every byte, with
 * every byte changed, with lines doubled, dropped and swapped, with numbers at their limits. Each is read
 * and, when it is still a history, judged; what is refused says where. The sanitizers watch.
 */
#include <setjmp.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cmocka.h>

#include "history.h"

/* Every operation and every field; several things are wrong in it, so that the checks have something to
 * say. */
static const char sample[] =
    "{\"t\":100,\"process\":1,\"thread\":1,\"worker\":\"w\",\"run\":1,\"op\":\"lock\",\"phase\":\"invoke\","
    "\"key\":\"k\","
    "\"handle\":1}\n"
    "{\"t\":105,\"process\":1,\"run\":1,\"op\":\"queue\",\"phase\":\"info\",\"key\":\"k\",\"handle\":1,"
    "\"order\":3}\n"
    "{\"t\":110,\"process\":1,\"run\":1,\"op\":\"lock\",\"phase\":\"ok\",\"key\":\"k\",\"handle\":1,"
    "\"token\":7,\"id\":\"a\","
    "\"owner\":\"me\",\"valid_until\":150,\"ttl\":60}\n"
    "{\"t\":120,\"process\":1,\"run\":1,\"op\":\"lease\",\"phase\":\"info\",\"key\":\"k\",\"handle\":1,"
    "\"valid_until\":170}\n"
    "{\"t\":121,\"process\":2,\"run\":1,\"op\":\"try\",\"phase\":\"invoke\",\"key\":\"k\",\"handle\":1}\n"
    "{\"t\":125,\"process\":2,\"run\":1,\"op\":\"try\",\"phase\":\"ok\",\"key\":\"k\",\"handle\":1,\"token\":"
    "7,\"id\":\"b\"}\n"
    "{\"t\":130,\"process\":9,\"run\":1,\"op\":\"server\",\"phase\":\"info\",\"key\":\"k\",\"sent\":128,"
    "\"held\":true,"
    "\"token\":6,\"id\":\"b\",\"owner\":\"you\",\"waiters\":2}\n"
    "{\"t\":140,\"process\":1,\"run\":1,\"op\":\"write\",\"phase\":\"ok\",\"key\":\"k\",\"token\":7,\"sent\":"
    "139,"
    "\"resource\":\"r\"}\n"
    "{\"t\":141,\"process\":1,\"run\":1,\"op\":\"write\",\"phase\":\"fail\",\"key\":\"k\",\"token\":6}\n"
    "{\"t\":142,\"process\":9,\"op\":\"fault\",\"phase\":\"begin\",\"kind\":\"kill\",\"what\":\"redis\"}\n"
    "{\"t\":180,\"process\":1,\"run\":1,\"op\":\"lost\",\"phase\":\"info\",\"key\":\"k\",\"handle\":1,"
    "\"valid_until\":170}\n"
    "{\"t\":181,\"process\":1,\"run\":1,\"op\":\"unlock\",\"phase\":\"invoke\",\"key\":\"k\",\"handle\":1}\n"
    "{\"t\":182,\"process\":1,\"run\":1,\"op\":\"unlock\",\"phase\":\"ok\",\"key\":\"k\",\"handle\":1,"
    "\"outcome\":\"ok\"}\n"
    "{\"t\":190,\"process\":9,\"run\":1,\"op\":\"server\",\"phase\":\"info\",\"key\":\"k\",\"sent\":189,"
    "\"held\":true,"
    "\"id\":\"a\"}\n"
    "{\"t\":200,\"process\":1,\"run\":1,\"op\":\"end\",\"phase\":\"info\",\"sent\":199}\n";

enum { SAMPLE = sizeof(sample) - 1, LINES_MAX = 32 };

/* A file without a disk: thousands are written. */
static int file = -1;
static char path[64];
static size_t read_well, refused;

static int make_file(void **state)
{
    (void)state;
    file = memfd_create("history", MFD_CLOEXEC);
    snprintf(path, sizeof(path), "/proc/self/fd/%d", file);
    return file >= 0 ? 0 : -1;
}

static int close_file(void **state)
{
    (void)state;
    return close(file);
}

static void put(const char *text, size_t length)
{
    assert_int_equal(ftruncate(file, 0), 0);
    assert_int_equal(pwrite(file, text, length, 0), (ssize_t)length);
}

static void judge(lk_history *history)
{
    const lk_check_options options = LK_CHECK_OPTIONS_INIT;
    lk_report *report = lk_history_check(history, &options);
    assert_non_null(report);
    for (size_t i = 0; i < report->finding_count; i++) {
        assert_non_null(report->findings[i].first);
        assert_true(report->findings[i].key < report->key_count);
        assert_true(report->findings[i].to >= report->findings[i].from);
    }
    assert_true(report->total.overlap_ns >= 0 && report->total.longest_wait_ns >= 0);
    lk_report_free(report);
}

/* Read it and judge it; or it is refused with a line that names the file. */
static void digest(const char *text, size_t length)
{
    lk_history_error error = {0};
    lk_history *history = lk_history_new();
    put(text, length);
    assert_non_null(history);
    if (lk_history_read(history, path, &error) && lk_history_join(history, &error)) {
        judge(history);
        read_well++;
    } else {
        assert_int_equal(error.failure, LK_HISTORY_BAD_DATA);
        assert_memory_equal(error.text, path, strlen(path));
        assert_null(strchr(error.text, '\n'));
        refused++;
    }
    lk_history_free(history);
}

static void the_sample_is_a_history(void **state)
{
    (void)state;
    read_well = 0;
    digest(sample, SAMPLE);
    assert_int_equal(read_well, 1);
}

static void cut_at_every_byte(void **state)
{
    (void)state;
    read_well = 0;
    for (size_t length = 0; length <= SAMPLE; length++)
        digest(sample, length);
    assert_int_equal(read_well, SAMPLE + 1); /* each is what a killed process leaves */
}

static void every_byte_changed(void **state)
{
    static const char others[] = {'\0', '\n', '"', '9', '-', ' ', '{', '\xff'};
    char text[SAMPLE];
    (void)state;
    refused = 0;
    for (size_t i = 0; i < SAMPLE; i++) {
        for (size_t k = 0; k < sizeof(others); k++) {
            memcpy(text, sample, SAMPLE);
            text[i] = others[k];
            digest(text, SAMPLE);
        }
    }
    assert_true(refused > SAMPLE);
}

static size_t split(const char *lines[], size_t lengths[])
{
    size_t count = 0;
    for (const char *at = sample; *at; count++) {
        lines[count] = at;
        lengths[count] = (size_t)(strchr(at, '\n') + 1 - at);
        at += lengths[count];
    }
    return count;
}

/* Each line in the place of each other, and twice; the times tell the order, so a reader sees the lines'
 * own. */
static void lines_dropped_doubled_and_exchanged(void **state)
{
    const char *lines[LINES_MAX];
    size_t lengths[LINES_MAX], count = split(lines, lengths);
    char text[2 * SAMPLE];
    (void)state;
    for (size_t i = 0; i < count; i++) {
        for (size_t k = 0; k <= count; k++) { /* count: no line */
            size_t length = 0;
            for (size_t n = 0; n < count; n++) {
                size_t which = n == i ? k : n;
                if (which == count)
                    continue;
                memcpy(text + length, lines[which], lengths[which]);
                length += lengths[which];
            }
            digest(text, length);
        }
    }
}

/* Each number becomes the greatest and the least that JSON readers take. */
static void numbers_at_their_limits(void **state)
{
    static const char *const limits[] = {
        "9223372036854775807", "-9223372036854775808", "0", "-1", "9223372036854775808", "1e400"};
    char text[2 * SAMPLE];
    (void)state;
    for (const char *at = sample; (at = strchr(at, ':')) != NULL; at++) {
        size_t before = (size_t)(at + 1 - sample), digits = strspn(at + 1, "0123456789");
        for (size_t k = 0; digits && k < sizeof(limits) / sizeof(limits[0]); k++) {
            int length = snprintf(text, sizeof(text), "%.*s%s%s", (int)before, sample, limits[k],
                                  sample + before + digits);
            digest(text, (size_t)length);
        }
    }
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_sample_is_a_history), cmocka_unit_test(cut_at_every_byte),
        cmocka_unit_test(every_byte_changed),      cmocka_unit_test(lines_dropped_doubled_and_exchanged),
        cmocka_unit_test(numbers_at_their_limits),
    };
    return cmocka_run_group_tests_name("history garble", tests, make_file, close_file);
}
