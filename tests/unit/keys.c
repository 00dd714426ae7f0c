/* keys.c: no two locks have a key in common, in whatever way their names look like each other's. */
#include <stdlib.h>
#include <string.h>

#include "expect.h"
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

static void no_two_locks_share_a_key(void **state)
{
    static char *all[4 * NAMES];
    size_t count = 0;
    (void)state;
    for (size_t i = 0; i < NAMES; i++) {
        lk_redis_keys keys;
        char name[LENGTH_MAX + 1];
        const size_t len = name_of(i, name);

        assert_true(lk_redis_keys_init(&keys, "", name, len));
        all[count++] = strdup(keys.lock);
        all[count++] = strdup(keys.queue);
        all[count++] = strdup(keys.fence);
        all[count++] = strdup(keys.info);
        lk_redis_keys_clear(&keys);
    }
    qsort(all, count, sizeof all[0], by_text);
    for (size_t i = 1; i < count; i++)
        assert_string_not_equal(all[i - 1], all[i]);
    for (size_t i = 0; i < count; i++)
        free(all[i]);
}

static void expect_queue(const char *lock, const char *queue)
{
    lk_redis_keys keys;
    assert_true(lk_redis_keys_init(&keys, "", lock, strlen(lock)));
    assert_string_equal(keys.queue, queue);
    lk_redis_keys_clear(&keys);
}

/* In each, what Redis Cluster hashes is the same for both. */
static void companions_stand_in_the_slot_of_the_lock(void **state)
{
    (void)state;
    expect_queue("b", "{b}:locker:queue");
    expect_queue("a{b}c", "a{b}c:locker:queue");
    expect_queue("{b}", "{b}.:locker:queue");
    expect_queue("{b}.", "{b}..:locker:queue");
    expect_queue("{b}c}", "{b}c}.:locker:queue");
    expect_queue("{b}c", "{b}c:locker:queue");
}

static bool is_reserved(const char *name_space, const char *key)
{
    const size_t len = strlen(key);
    return lk_redis_key_looks_reserved(key, len) && lk_redis_key_is_reserved(name_space, key, len);
}

static void no_lock_is_called_like_a_companion(void **state)
{
    (void)state;
    assert_true(is_reserved("", "{b}:locker:queue"));
    assert_true(is_reserved("n", "b:locker:fence"));
    assert_true(is_reserved("{b}", "locker:info"));
    assert_true(is_reserved("{a}b:locker", "fence"));
    assert_false(is_reserved("locker", "fence"));
    assert_false(is_reserved("{a}blocker", "fence"));
    assert_false(is_reserved("{a}b:locker", "aa:fence"));
    assert_false(is_reserved("{a}b", "fence"));
    assert_false(is_reserved("", "locker:info"));
    assert_false(is_reserved("n", "blocker:info"));
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(no_two_locks_share_a_key),
        cmocka_unit_test(companions_stand_in_the_slot_of_the_lock),
        cmocka_unit_test(no_lock_is_called_like_a_companion),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
