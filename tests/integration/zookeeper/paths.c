/* paths.c: the names of nodes, and their order. */
#include <string.h>

#include "expect.h"
#include "paths.h"

/* As the other clients have it too: one below 0 is no later than INT32_MAX. */
static void the_order_of_numbers(void **state)
{
    static const struct {
        int32_t a, b;
    } in_order[] = {{0, 1},
                    {-1, 0},
                    {INT32_MAX - 1, INT32_MAX},
                    {INT32_MIN, INT32_MAX},
                    {INT32_MIN, INT32_MIN + 1},
                    {-2000000000, 2000000000},
                    {-5, 5}};
    (void)state;
    for (size_t i = 0; i < sizeof in_order / sizeof in_order[0]; i++) {
        assert_true(lk_zk_before(in_order[i].a, "b", in_order[i].b, "a"));
        assert_false(lk_zk_before(in_order[i].b, "a", in_order[i].a, "b"));
    }
    assert_true(lk_zk_before(7, "a", 7, "b")); /* ties go by name */
    assert_false(lk_zk_before(7, "b", 7, "a"));
    assert_false(lk_zk_before(7, "a", 7, "a"));
}

/* The server stays at INT32_MAX, and gives INT32_MIN while changes are outstanding. */
static void numbers_that_are_used_up(void **state)
{
    (void)state;
    assert_false(lk_zk_used_up(0));
    assert_false(lk_zk_used_up(INT32_MAX - 1));
    assert_true(lk_zk_used_up(INT32_MAX));
    assert_true(lk_zk_used_up(INT32_MIN));
    assert_true(lk_zk_used_up(-1));
}

static void names_of_contenders(void **state)
{
    static const struct {
        const char *name;
        lk_zk_kind is;
        int32_t sequence;
    } names[] = {
        {"_c_0123-lock-0000000007", LK_ZK_EXCLUDES, 7},
        {"_c_0123-lock-1234567890", LK_ZK_EXCLUDES, 1234567890},
        {"_c_0123-lock-2147483647", LK_ZK_EXCLUDES, INT32_MAX},
        {"_c_0123-lock--2147483648", LK_ZK_EXCLUDES, INT32_MIN}, /* as the server's %010d writes it */
        {"_c_0123-lock--000000001", LK_ZK_EXCLUDES, -1},
        {"_c_0123-of3-lock-0000000008", LK_ZK_EXCLUDES, 8},
        {"0123__lock__0000000003", LK_ZK_EXCLUDES, 3},
        {"0123__lock__-000000003", LK_ZK_EXCLUDES, -3},
        {"_c_0123-__WRIT__0000000004", LK_ZK_EXCLUDES, 4},
        {"_c_0123-__READ__0000000005", LK_ZK_SHARES, 5},
        {"_c_0123-__READ__-000000005", LK_ZK_SHARES, -5},
        {"0123__rlock__0000000006", LK_ZK_SHARES, 6},
        {"_c_0123-lock-2147483648", LK_ZK_NO_CONTENDER, 0},
        {"_c_0123-lock-000000007", LK_ZK_NO_CONTENDER, 0},
        {"_c_0123-lease-0000000007", LK_ZK_NO_CONTENDER, 0},
        {"_c_0123-of3-lease-0000000007", LK_ZK_NO_CONTENDER, 0},
        {"lock", LK_ZK_NO_CONTENDER, 0},
        {"locks", LK_ZK_NO_CONTENDER, 0},
    };
    (void)state;
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        int32_t sequence = 0;

        assert_int_equal(lk_zk_contender(names[i].name, &sequence), names[i].is);
        if (names[i].is != LK_ZK_NO_CONTENDER)
            assert_int_equal(sequence, names[i].sequence);
    }
}

/* At each place of the number each character; at the first one, what makes no number above INT32_MAX. */
static void a_number_is_of_digits(void **state)
{
    static const char good[] = "_c_0123-lock-0000000007";
    const size_t end = sizeof good - 1, begin = end - 10;
    (void)state;
    for (size_t at = begin; at < end; at++) {
        for (int c = 1; c < 256; c++) {
            const bool fits = at > begin ? c >= '0' && c <= '9' : c == '-' || (c >= '0' && c <= '2');
            char name[sizeof good];
            int32_t sequence;

            memcpy(name, good, sizeof good);
            name[at] = (char)c;
            assert_int_equal(lk_zk_contender(name, &sequence), fits ? LK_ZK_EXCLUDES : LK_ZK_NO_CONTENDER);
        }
    }
}

/* A name that is read back is the one that was written; another locker's is not ours. */
static void names_of_our_own(void **state)
{
    static const int32_t sequences[] = {0, 1, 999999999, INT32_MAX, INT32_MIN, -1, -999999999};
    static const char *const tails[] = {"lock-", "__READ__", "__WRIT__", "of10000-lock-"};
    static lk_zk z, other;
    lk_zk_stem_begin(&z, UINT64_C(0x0123456789abcdef));
    lk_zk_stem_begin(&other, UINT64_C(0x0123456789abcdee));

    (void)state;
    for (size_t i = 0; i < 4 * sizeof sequences / sizeof sequences[0]; i++) {
        const char *const tail = tails[i % 4];
        const int32_t number = sequences[i / 4];
        const uint64_t wanted = UINT64_C(0xfedcba9876543210) + i;
        char name[LK_ZK_NAME_MAX], path[LK_ZK_NAME_MAX + 16] = "/shop/_c_/";
        uint64_t id = 0;
        char read[LK_ZK_TAIL_MAX];
        int32_t sequence = 0;

        lk_zk_name(&z, wanted, tail, number, name);
        strcat(path, name);
        assert_true(lk_zk_is_own(&z, name, &id, &sequence));
        assert_true(id == wanted && sequence == number);
        assert_true(lk_zk_is_own(&z, path, &id, &sequence));
        assert_false(lk_zk_is_own(&other, name, &id, &sequence));
        assert_true(lk_zk_tail(name, read));
        assert_string_equal(read, tail);
        for (size_t at = 0; at < LK_ZK_STEM_LEN; at++) {
            const char is = name[at];
            name[at] = 'x';
            assert_false(lk_zk_is_own(&z, name, &id, &sequence));
            name[at] = '\0';
            assert_false(lk_zk_is_own(&z, name, &id, &sequence));
            name[at] = is;
        }
    }
}

/* What a permit's name says is read back; what isn't one of ours says nothing. */
static void names_of_permits(void **state)
{
    static const char *const others[] = {
        "_c_01234567-89ab-cdef-0123-456789abcdef-lease-0000000003",
        "_c_01234567-89ab-cdef-0123-456789abcdef-lock-0000000003",
        "_c_01234567-89ab-cdef-0123-456789abcdef-of3-lease-3", /* the slots end with 2 */
        "_c_01234567-89ab-cdef-0123-456789abcdef-of0-lease-0",
        "_c_01234567-89ab-cdef-0123-456789abcdef-of3-lease-",
        "_c_01234567-89ab-cdef-0123-456789abcdef-of3-lease-1x",
        "_c_01234567-89ab-cdef-0123-456789abcdef-of3-",
        "_c_01234567-89ab-cdef-0123-456789abcdef-of",
        "of3-lease-1",
        ""};
    static lk_zk z;
    char name[LK_ZK_NAME_MAX];
    int32_t permits, slot;
    (void)state;
    lk_zk_stem_begin(&z, 7);
    lk_zk_permit_name(&z, 1, 10000, 9999, name);
    assert_true(lk_zk_read_permit(name, &permits, &slot));
    assert_int_equal(permits, 10000);
    assert_int_equal(slot, 9999);
    lk_zk_name(&z, 1, "of3-lock-", 12, name);
    assert_true(lk_zk_read_permit(name, &permits, &slot));
    assert_int_equal(permits, 3);
    assert_int_equal(slot, -1);
    for (size_t i = 0; i < sizeof others / sizeof others[0]; i++)
        assert_false(lk_zk_read_permit(others[i], &permits, &slot));
}

int main(void)
{
    static const struct CMUnitTest tests[] = {
        cmocka_unit_test(the_order_of_numbers), cmocka_unit_test(numbers_that_are_used_up),
        cmocka_unit_test(names_of_contenders),  cmocka_unit_test(a_number_is_of_digits),
        cmocka_unit_test(names_of_our_own),     cmocka_unit_test(names_of_permits),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
