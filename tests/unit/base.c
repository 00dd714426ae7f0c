/* base.c: what every part uses: the list, the table, the buffer, and the arithmetic of times. */
#include <setjmp.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>

#include <cmocka.h>

#include "lk_buffer.h"
#include "lk_list.h"
#include "lk_time.h"
#include "lk_wakeup.h"

static bool no_memory;

static void *scarce_calloc(size_t count, size_t size)
{
    return no_memory ? NULL : calloc(count, size);
}

#define calloc scarce_calloc
#include "lk_table.h"
#undef calloc

typedef struct {
    lk_list link;
    lk_table_link entry;
    int number;
} element;

/* The numbers in the list as decimal digits. */
static int digits(const lk_list *list)
{
    int all = 0;
    LK_EACH(const element, it, link, list)
        all = all * 10 + it->number;
    return all;
}

static void test_list_keeps_its_order(void **state)
{
    element e[4] = {{.number = 1}, {.number = 2}, {.number = 3}, {.number = 4}};
    lk_list list, other;
    (void)state;
    lk_list_init(&list);
    lk_list_init(&other);
    assert_null(lk_list_first(&list));
    assert_false(lk_list_linked(&e[0].link));
    lk_list_append(&list, &e[1].link);
    lk_list_append(&list, &e[2].link);
    lk_list_prepend(&list, &e[0].link);
    assert_int_equal(digits(&list), 123);
    lk_list_remove(&e[1].link);
    assert_false(lk_list_linked(&e[1].link));
    assert_int_equal(digits(&list), 13);
    lk_list_append(&other, &e[3].link);
    lk_list_splice(&other, &list);
    lk_list_splice(&other, &list);
    assert_true(lk_list_empty(&list));
    assert_int_equal(digits(&other), 413);
    LK_EACH_SAFE(element, it, link, &other)
        lk_list_remove(&it->link);
    assert_true(lk_list_empty(&other));
}

static element *find(const lk_table *table, uint32_t hash, int number)
{
    LK_TABLE_EACH_OF(entry, table, hash) {
        element *found = LK_CONTAINER(entry, element, entry);
        if (entry->hash == hash && found->number == number)
            return found;
    }
    return NULL;
}

/* Many with one hash, and so many that the table has to grow. */
static void test_table_finds_what_it_was_given(void **state)
{
    enum { COUNT = 1000 };
    static element e[COUNT + 1];
    lk_table table = {0};
    size_t seen = 0;
    (void)state;
    assert_null(find(&table, 7, 7));
    assert_null(lk_table_after(&table, NULL));
    assert_true(lk_table_reserve(&table));
    for (int i = 0; i < COUNT; i++) {
        e[i].number = i;
        lk_table_add(&table, &e[i].entry, (uint32_t)i / 3 * 64);
    }
    for (int i = 0; i < COUNT; i++)
        assert_ptr_equal(find(&table, (uint32_t)i / 3 * 64, i), &e[i]);
    for (lk_table_link *entry = lk_table_after(&table, NULL); entry != NULL;
         entry = lk_table_after(&table, entry))
        seen++;
    assert_int_equal(seen, COUNT);
    e[COUNT].number = COUNT;
    lk_table_remove(&table, &e[4].entry);
    lk_table_add(&table, &e[COUNT].entry, 64);
    assert_null(find(&table, 64, 4));
    assert_ptr_equal(find(&table, 64, COUNT), &e[COUNT]);
    assert_int_equal(table.count, COUNT);
    for (lk_table_link *entry = lk_table_after(&table, NULL), *next; entry != NULL; entry = next) {
        next = lk_table_after(&table, entry);
        lk_table_remove(&table, entry);
    }
    assert_int_equal(table.count, 0);
    lk_table_destroy(&table);
    assert_null(find(&table, 64, 3));
}

/* A table that got no memory is empty, as before. */
static void test_table_without_memory_is_empty(void **state)
{
    lk_table table = {0};
    element e = {.number = 1};
    (void)state;
    no_memory = true;
    assert_false(lk_table_reserve(&table));
    no_memory = false;
    assert_null(lk_table_after(&table, NULL));
    assert_null(find(&table, 7, 1));
    assert_true(lk_table_reserve(&table));
    lk_table_add(&table, &e.entry, 7);
    assert_ptr_equal(find(&table, 7, 1), &e);
    lk_table_destroy(&table);
}

static void test_buffers_grow_and_shrink(void **state)
{
    static const char text[] = "what was there before";
    lk_buffer b = {0};
    (void)state;
    memcpy(lk_buffer_room(&b, sizeof text), text, sizeof text);
    b.len = sizeof text;
    const char *const room = lk_buffer_room(&b, 3 * LK_BUFFER_FIRST);
    assert_ptr_equal(room, b.data + sizeof text);
    assert_true(b.cap >= sizeof text + 3 * LK_BUFFER_FIRST);
    assert_string_equal(b.data, text);
    lk_buffer_empty(&b);
    assert_int_equal(b.len, 0);
    assert_non_null(b.data);
    assert_non_null(lk_buffer_room(&b, LK_BUFFER_KEEP + 1));
    lk_buffer_empty(&b);
    assert_null(b.data);
    assert_int_equal(b.cap, 0);
}

static void test_times_end_at_never(void **state)
{
    (void)state;
    assert_true(lk_time_after(INT64_MAX, 0) == INT64_MAX);
    assert_true(lk_time_after(INT64_MAX - 1, 2) == INT64_MAX);
    assert_true(lk_time_after(-5, INT64_MAX) == INT64_MAX - 5);
    assert_true(lk_time_left(5, 3) == 0 && lk_time_left(3, 5) == 2);
    assert_true(lk_time_spec(3 * LK_S + 7).tv_sec == 3 && lk_time_spec(3 * LK_S + 7).tv_nsec == 7);
}

static void test_wakeups_are_merged(void **state)
{
    const int fd = lk_wakeup_new();
    uint64_t count;
    (void)state;
    assert_true(fd >= 0);
    lk_wakeup_ring(fd);
    lk_wakeup_ring(fd);
    lk_wakeup_clear(fd);
    assert_true(read(fd, &count, sizeof count) < 0);
    lk_wakeup_clear(fd);
    close(fd);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(test_list_keeps_its_order),
        cmocka_unit_test(test_table_finds_what_it_was_given),
        cmocka_unit_test(test_table_without_memory_is_empty),
        cmocka_unit_test(test_buffers_grow_and_shrink),
        cmocka_unit_test(test_times_end_at_never),
        cmocka_unit_test(test_wakeups_are_merged),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
