/* keys.c: no two locks have a key in common but their slot's counter, in whatever way their names look like each other's; and all
 * keys of a lock are in one slot of Redis Cluster. And values and numbers are read back from texts, and nothing else is. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "expect.h"
#include "lock/claim.h"
#include "lock/keys.h"

enum { LETTERS = 5, LENGTH_MAX = 6, NAMES = 19530 }; /* 5 + 5^2 + ... + 5^6 */

static const char letters[] = "{}.:b";

/* The nth name of up to LENGTH_MAX letters. */
static size_t name_of(size_t n, char name[LENGTH_MAX + 1])
{
    size_t len = 0;
    for (n++; n > 0; n = (n - 1) / LETTERS)
        name[len++] = letters[(n - 1) % LETTERS];
    name[len] = '\0';
    return len;
}

static int by_text(const void *a, const void *b)
{
    return strcmp(*(char *const *)a, *(char *const *)b);
}

static lk_redis_slots slots;

static int set_up(void **state)
{
    (void)state;
    lk_redis_slots_init(&slots);
    return 0;
}

static uint16_t slot_of(const char *name)
{
    const lk_redis_prefix none = {0};
    return lk_redis_slot_of(&slots, &none, name, strlen(name));
}

static void init(lk_redis_keys *keys, const char *name_space, const char *key)
{
    char text[32];
    const int len = snprintf(text, sizeof text, "%s%s", name_space, name_space[0] != '\0' ? ":" : "");
    const lk_redis_prefix prefix = {text, (size_t)len};
    const uint16_t slot = lk_redis_slot_of(&slots, &prefix, key, strlen(key));
    assert_true(lk_redis_keys_init(keys, &prefix, key, strlen(key), lk_redis_slot_tag(&slots, slot)));
}

static void no_two_locks_share_a_key(void **state)
{
    static char *all[4 * NAMES];
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        lk_redis_keys keys;
        char name[LENGTH_MAX + 1];
        (void)name_of(i, name);
        init(&keys, "", name);
        all[count++] = strdup(keys.lock);
        all[count++] = strdup(lk_redis_keys_companion(&keys, LK_REDIS_QUEUE));
        all[count++] = strdup(lk_redis_keys_companion(&keys, LK_REDIS_OLD_FENCE));
        all[count++] = strdup(lk_redis_keys_companion(&keys, LK_REDIS_INFO));
        for (size_t k = count - 4; k < count; k++)
            assert_string_not_equal(all[k], keys.fence);
        lk_redis_keys_clear(&keys);
    }
    qsort(all, count, sizeof all[0], by_text);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(all[i - 1], all[i]);
    for (size_t i = 0; i < count; i++)
        free(all[i]);
}

/* Whether what Redis Cluster hashes is the same for all of them. */
static bool are_in_one_slot(lk_redis_keys *keys)
{
    const uint16_t slot = slot_of(keys->lock);
    return slot_of(lk_redis_keys_companion(keys, LK_REDIS_QUEUE)) == slot &&
           slot_of(lk_redis_keys_companion(keys, LK_REDIS_INFO)) == slot && slot_of(keys->fence) == slot;
}

static void expect_queue(const char *lock, const char *queue)
{
    lk_redis_keys keys;
    init(&keys, "", lock);
    assert_string_equal(lk_redis_keys_companion(&keys, LK_REDIS_QUEUE), queue);
    lk_redis_keys_clear(&keys);
}

static void companions_stand_in_the_slot_of_the_lock(void **state)
{
    static const char *const spaces[] = {"", "n", "a}b", "{tag}", "}{"};
    (void)state;
    expect_queue("b", "{b}:locker:queue");
    expect_queue("a{b}c", "a{b}c:locker:queue");
    expect_queue("{b}", "{b}.:locker:queue");
    expect_queue("{b}.", "{b}..:locker:queue");
    expect_queue("{b}c}", "{b}c}.:locker:queue");
    expect_queue("{b}c", "{b}c:locker:queue");
    expect_queue("{", "{{}:locker:queue");
    expect_queue("a}b", "locker:{20658}:a}b:queue");
    for (size_t k = 0; k < sizeof spaces / sizeof *spaces; k++) {
        for (size_t i = 0; i < NAMES; i++) {
            lk_redis_keys keys;
            char name[LENGTH_MAX + 1], info[128], expected[128];
            (void)name_of(i, name);
            init(&keys, spaces[k], name);
            assert_true(are_in_one_slot(&keys) || strcmp(spaces[k], "}{") == 0);
            const lk_redis_name parts = {keys.lock, keys.len, keys.space,
                                         lk_redis_form_of(keys.lock, keys.len),
                                         lk_redis_slot_tag(&slots, slot_of(keys.lock))};
            *lk_redis_companion_argument(&parts, LK_REDIS_INFO, info) = '\0';
            (void)snprintf(expected, sizeof expected, "$%zu\r\n%s\r\n",
                           strlen(lk_redis_keys_companion(&keys, LK_REDIS_INFO)),
                           lk_redis_keys_companion(&keys, LK_REDIS_INFO));
            assert_string_equal(info, expected);
            lk_redis_keys_clear(&keys);
        }
    }
}

/* Known values: the check value of CRC16-XMODEM, and what `CLUSTER KEYSLOT` of Redis answers. */
static void slots_are_those_of_redis(void **state)
{
    (void)state;
    assert_int_equal(slot_of("123456789"), 0x31c3);
    assert_int_equal(slot_of("foo"), 12182);
    assert_int_equal(slot_of("a{foo}b"), 12182);
    assert_int_equal(slot_of("a{}{foo}b"), slot_of("a{}{foo}b"));
    assert_int_not_equal(slot_of("a{}{foo}b"), 12182);
    char plain[] = "n:", opening[] = "{foo:";
    assert_int_equal(lk_redis_slot_of(&slots, &(lk_redis_prefix){plain, 2}, "k", 1), slot_of("n:k"));
    assert_int_equal(lk_redis_slot_of(&slots, &(lk_redis_prefix){opening, 5}, "k}y", 3), slot_of("foo:k"));
}

static void expect_tag(uint16_t slot, const char *tag)
{
    char text[16];
    *lk_redis_tag_put(text, lk_redis_slot_tag(&slots, slot)) = '\0';
    assert_string_equal(text, tag);
}

/* They are part of the names that all clients share, and never change. */
static void tags_are_the_least_numbers_of_their_slots(void **state)
{
    static const struct {
        uint16_t slot;
        const char *tag;
    } pinned[] = {{0, "{3560}"}, {1, "{22179}"}, {12182, "{43681}"}, {16383, "{39296}"}};
    static uint32_t seen[LK_REDIS_SLOTS];
    (void)state;
    for (size_t i = 0; i < sizeof pinned / sizeof *pinned; i++)
        expect_tag(pinned[i].slot, pinned[i].tag);
    for (uint32_t n = 0, found = 0; found < LK_REDIS_SLOTS; n++) {
        char text[16];
        (void)snprintf(text, sizeof text, "{%u}", n);
        const uint16_t slot = slot_of(text);
        if (seen[slot]++ > 0)
            continue;
        found++;
        expect_tag(slot, text);
    }
}

static void a_counter_stands_under_the_namespace(void **state)
{
    lk_redis_keys keys;
    (void)state;
    init(&keys, "", "foo");
    assert_string_equal(keys.fence, "locker:fence:{43681}");
    lk_redis_keys_clear(&keys);
    init(&keys, "shop", "x");
    assert_int_equal(strncmp(keys.fence, "shop:locker:fence:{", 19), 0);
    lk_redis_keys_clear(&keys);
}

static bool is_reserved(const char *key)
{
    const size_t len = strlen(key);
    return lk_redis_key_looks_reserved(key, len) && lk_redis_key_is_reserved(key, len);
}

static void no_lock_is_called_like_a_companion(void **state)
{
    (void)state;
    assert_true(is_reserved("{b}:locker:queue"));
    assert_true(is_reserved("b:locker:fence"));
    assert_true(is_reserved("b:locker:info"));
    assert_true(is_reserved("locker:fence:{12}"));
    assert_true(is_reserved("locker:anything"));
    assert_true(is_reserved("n:locker:fence:{12}"));
    assert_true(is_reserved("n:locker:{12}:a}b:queue"));
    assert_true(is_reserved("{b}:locker:shared:")); /* what scripts delete that write nothing */
    assert_true(is_reserved("{b}.:locker:shared:"));
    assert_true(is_reserved("n:a{b}c:locker:shared:"));
    assert_true(is_reserved("n:locker:{12}:a}b:shared:"));
    assert_false(is_reserved("fence"));
    assert_false(is_reserved("locker"));
    assert_false(is_reserved("lockers:info"));
    assert_false(is_reserved("a:locker:b"));
    assert_false(is_reserved("blocker:info"));
    assert_true(lk_redis_namespace_is_reserved("locker"));
    assert_true(lk_redis_namespace_is_reserved("locker:x"));
    assert_true(lk_redis_namespace_is_reserved("n:locker"));
    assert_true(lk_redis_namespace_is_reserved("n:locker:x"));
    assert_false(lk_redis_namespace_is_reserved(""));
    assert_false(lk_redis_namespace_is_reserved("lockers"));
    assert_false(lk_redis_namespace_is_reserved("blocker"));
}

static void values_are_read_back(void **state)
{
    char text[LK_REDIS_VALUE_LEN + 2] = "";
    lk_redis_values values;
    uint64_t number;
    (void)state;
    lk_redis_values_init(&values, (const uint64_t[]){UINT64_C(0x0123456789abcdef), UINT64_MAX});
    lk_redis_value_text(&values, 0, text);
    assert_false(lk_redis_value_number(&values, text, &number));
    lk_redis_value_text(&values, 4711, text);
    assert_true(lk_redis_value_number(&values, text, &number));
    assert_int_equal(number, 4711);
    text[LK_REDIS_VALUE_LEN] = 'f';
    assert_false(lk_redis_value_number(&values, text, &number));
    text[LK_REDIS_VALUE_LEN] = '\0';
    text[LK_REDIS_VALUE_LEN - 1] = 'g';
    assert_false(lk_redis_value_number(&values, text, &number));
    lk_redis_value_text(&values, 4711, text);
    text[0] = '1';
    assert_false(lk_redis_value_number(&values, text, &number));
}

static void numbers_are_read_back(void **state)
{
    const char *text = "12345678901234567 0/ 123456789012345678 ";
    int64_t number;
    (void)state;
    assert_true(lk_redis_read_number(&text, ' ', &number));
    assert_int_equal(number, INT64_C(12345678901234567));
    assert_false(lk_redis_read_number(&text, ' ', &number));
    assert_true(lk_redis_read_number(&text, '/', &number));
    assert_int_equal(number, 0);
    assert_false(lk_redis_read_number(&text, ' ', &number)); /* no digit */
    text++;
    assert_false(lk_redis_read_number(&text, ' ', &number)); /* one more than Lua's doubles hold */
    assert_string_equal(text, "123456789012345678 ");
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_locks_share_a_key),
        cmocka_unit_test(companions_stand_in_the_slot_of_the_lock),
        cmocka_unit_test(slots_are_those_of_redis),
        cmocka_unit_test(tags_are_the_least_numbers_of_their_slots),
        cmocka_unit_test(a_counter_stands_under_the_namespace),
        cmocka_unit_test(no_lock_is_called_like_a_companion),
        cmocka_unit_test(values_are_read_back),
        cmocka_unit_test(numbers_are_read_back),
    };
    return cmocka_run_group_tests(tests, set_up, NULL);
}
