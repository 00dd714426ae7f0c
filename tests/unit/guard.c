/* guard.c: bounds on what a server may send, byte by byte and all at once. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "net/socket.h"

/* Both ways answer the same. */
static bool allows(const char *text, size_t len)
{
    lk_redis_guard whole = {0}, slow = {0};
    const bool all = lk_redis_guard_allows(&whole, text, len);
    size_t i = 0;
    while (i < len && lk_redis_guard_allows(&slow, text + i, 1))
        i++;
    assert_int_equal(all, i == len);
    return all;
}

/* `head`, and then `count` times `more`. */
static bool allows_many(const char *head, const char *more, size_t count)
{
    const size_t from = strlen(head), each = strlen(more), len = from + count * each;
    char *text = malloc(len);
    bool allowed;
    assert_non_null(text);
    for (size_t i = 0; i < len; i++)
        text[i] = i < from ? head[i] : more[(i - from) % each];
    allowed = allows(text, len);
    free(text);
    return allowed;
}

static bool announces(char kind, int number)
{
    char head[32];
    snprintf(head, sizeof head, "%c%d\r\n", kind, number);
    return allows(head, strlen(head));
}

static void a_line_has_an_end(void **state)
{
    (void)state;
    assert_true(allows_many("+", "x", LK_REDIS_GUARD_LINE - 100));
    assert_false(allows_many("+", "x", LK_REDIS_GUARD_LINE + 100));
    assert_false(allows_many("$", "0", LK_REDIS_GUARD_LINE + 100));
}

static void a_line_ends_once(void **state)
{
    (void)state;
    assert_true(allows_many("+a\r\n", "", 0));
    assert_false(allows_many("+a\nb\r\n", "", 0));
    assert_false(allows_many("+a\rb\r\n", "", 0));
}

static void a_number_is_one(void **state)
{
    (void)state;
    assert_true(allows_many("$3\r\nabc\r\n$003\r\nabc\r\n$00000003\r\nabc\r\n$-1\r\n*0\r\n*-1\r\n", "", 0));
    assert_true(allows_many("*2\r\n$1\r\na\r\n*1\r\n$0\r\n\r\n+a\r\n", "", 0));
    for (const char *const *odd =
             (const char *const[]){"$3x\r\n", "$3\rx", "$3\n", "$3-\r\n", "$--1\r\n", "$+3\r\n", "$ 3\r\n",
                                   "$9999999\r\n", "$99999999\r\n", NULL};
         *odd != NULL; odd++)
        assert_false(allows_many(*odd, "", 0));
}

static void an_array_is_small(void **state)
{
    (void)state;
    assert_true(announces('*', LK_REDIS_GUARD_ELEMENTS));
    assert_false(announces('*', LK_REDIS_GUARD_ELEMENTS + 1));
    assert_true(allows_many("", "*2\r\n", LK_REDIS_GUARD_DEPTH));
    assert_false(allows_many("", "*2\r\n", LK_REDIS_GUARD_DEPTH + 1));
    assert_true(allows_many("*2\r\n", "*30000\r\n", 1));
    assert_false(allows_many("*2\r\n", "*40000\r\n", 2)); /* both count */
}

static void a_reply_is_short(void **state)
{
    char line[1024] = "+";
    (void)state;
    memset(line + 1, 'x', sizeof line - 4);
    memcpy(line + sizeof line - 3, "\r\n", 3);
    assert_true(announces('$', LK_REDIS_GUARD_REPLY));
    assert_false(announces('$', LK_REDIS_GUARD_REPLY + 1));
    assert_true(allows_many("*4000\r\n", line, LK_REDIS_GUARD_REPLY / sizeof line - 1));
    assert_false(allows_many("*4000\r\n", line, LK_REDIS_GUARD_REPLY / sizeof line + 2));
    assert_true(allows_many("", line, LK_REDIS_GUARD_REPLY / sizeof line + 2)); /* many are not one */
}

static bool goes_on(lk_redis_guard *guard, const char *text)
{
    return lk_redis_guard_allows(guard, text, strlen(text));
}

/* Two strings of its length, and arrays of its elements, are too much for any other. */
static void one_reply_may_pass(void **state)
{
    char head[32], *text = calloc(1, LK_REDIS_GUARD_REPLY + 1);
    lk_redis_guard guard = {.passing = 2};
    (void)state;
    assert_non_null(text);
    memset(text, 'x', LK_REDIS_GUARD_REPLY);
    snprintf(head, sizeof head, "$%d\r\n", LK_REDIS_GUARD_REPLY);
    assert_true(goes_on(&guard, "+OK\r\n*3\r\n*40000\r\n"));
    for (int i = 0; i < 40000; i++)
        assert_true(goes_on(&guard, ":1\r\n"));
    for (int i = 0; i < 2; i++)
        assert_true(goes_on(&guard, head) && goes_on(&guard, text) && goes_on(&guard, "\r\n"));
    assert_true(goes_on(&guard, "*2\r\n*40000\r\n"));
    for (int i = 0; i < 40000; i++)
        assert_true(goes_on(&guard, ":1\r\n"));
    assert_false(goes_on(&guard, "*40000\r\n")); /* the one behind it may not */
    free(text);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_line_has_an_end), cmocka_unit_test(a_line_ends_once),
        cmocka_unit_test(a_number_is_one),   cmocka_unit_test(an_array_is_small),
        cmocka_unit_test(a_reply_is_short),  cmocka_unit_test(one_reply_may_pass),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
