/* map.c: the map of a cluster as its servers tell it: any of 16,384 slots is read, and costs little memory. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include <hiredis/hiredis.h>

#include "expect.h"
#include "net/cluster.h"
#include "net/socket.h"

enum { REPLICAS = 5, MEMORY_MAX_KIB = 8 * 1024, TEXT = 4096 };

/* A reply as a socket would take it: through the guard, a piece at a time. */
struct stream {
    redisReader *reader;
    lk_redis_guard guard;
    lk_redis_map_reading *reading;
    redisReply *reply;
};

static struct stream begin(void)
{
    struct stream s = {.reader = redisReaderCreate(), .guard = {.passing = 1}};
    assert_non_null(s.reader);
    s.reading = lk_redis_map_begin(s.reader, "here:6379");
    assert_non_null(s.reading);
    return s;
}

static void feed(struct stream *s, const char *text)
{
    void *reply = NULL;
    assert_null(s->reply);
    assert_true(lk_redis_guard_allows(&s->guard, text, strlen(text)));
    assert_int_equal(redisReaderFeed(s->reader, text, strlen(text)), REDIS_OK);
    assert_int_equal(redisReaderGetReply(s->reader, &reply), REDIS_OK);
    s->reply = reply;
}

/* The map, for free(); *type: what the reply was. */
static lk_redis_map *end(struct stream *s, int *type)
{
    lk_redis_map *map = lk_redis_map_end(s->reading);
    assert_non_null(s->reply);
    *type = s->reply->type;
    freeReplyObject(s->reply);
    redisReaderFree(s->reader);
    return map;
}

static lk_redis_map *read_map(const char *text)
{
    struct stream s = begin();
    int type;
    feed(&s, text);
    lk_redis_map *map = end(&s, &type);
    assert_int_equal(type, REDIS_REPLY_ARRAY);
    return map;
}

static const char *master_of(const lk_redis_map *map, unsigned slot)
{
    return map->master[slot] > 0 ? map->peer[map->master[slot] - 1] : "";
}

static size_t put_node(char *text, const char *host, unsigned port)
{
    return (size_t)snprintf(
        text, TEXT, "*4\r\n$%zu\r\n%s\r\n:%u\r\n$40\r\n%040u\r\n*2\r\n$8\r\nhostname\r\n$%zu\r\n%s\r\n",
        strlen(host), host, port, port, strlen(host), host);
}

/* A slot for itself, with its master and all its replicas. */
static void put_slot(char *text, unsigned slot, unsigned master)
{
    size_t at = (size_t)snprintf(text, TEXT, "*%d\r\n:%u\r\n:%u\r\n", 3 + REPLICAS, slot, slot);
    for (unsigned i = 0; i <= REPLICAS; i++)
        at +=
            put_node(text + at, "a-node-of-a-cluster-with-a-long-name.example.org", 7000 + 100 * i + master);
}

/* Some 18 MB come. */
static void each_slot_may_be_a_range_of_its_own(void **state)
{
    char text[TEXT];
    int type;
    (void)state;
    const long before = lk_memory_peak_kib();
    struct stream s = begin();
    snprintf(text, sizeof text, "*%d\r\n", LK_REDIS_SLOTS);
    feed(&s, text);
    for (unsigned slot = 0; slot < LK_REDIS_SLOTS; slot++) {
        put_slot(text, slot, slot % 3);
        feed(&s, text);
    }
    lk_redis_map *map = end(&s, &type);
    assert_true(lk_memory_peak_kib() - before < MEMORY_MAX_KIB);
    assert_non_null(map);
    assert_int_equal(map->slots, LK_REDIS_SLOTS);
    assert_int_equal(map->masters, 3);
    assert_string_equal(master_of(map, 5), "a-node-of-a-cluster-with-a-long-name.example.org:7002");
    free(map);
}

static void a_node_without_a_name_is_the_node_that_was_asked(void **state)
{
    (void)state;
    lk_redis_map *map = read_map("*3\r\n*3\r\n:0\r\n:9\r\n*3\r\n$-1\r\n:7001\r\n$1\r\nx\r\n"
                                 "*3\r\n:10\r\n:19\r\n*2\r\n$1\r\n?\r\n:7002\r\n"
                                 "*3\r\n:20\r\n:20\r\n*2\r\n$2\r\n::\r\n:7003\r\n");
    assert_non_null(map);
    assert_int_equal(map->slots, 21);
    assert_string_equal(master_of(map, 9), "here:7001");
    assert_string_equal(master_of(map, 10), "here:7002");
    assert_string_equal(master_of(map, 20), "[::]:7003");
    assert_string_equal(master_of(map, 21), "");
    free(map);
}

/* Each of them alone, and then nothing is known. */
static void invalid_entries_are_left_out(void **state)
{
    (void)state;
    for (const char *const *odd = (const char *const[]){"*0\r\n", "*1\r\n:1\r\n", "*1\r\n*1\r\n:0\r\n",
                                                        "*1\r\n*3\r\n:9\r\n:0\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                                        "*1\r\n*3\r\n:0\r\n:16384\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                                        "*1\r\n*3\r\n:-1\r\n:0\r\n*2\r\n$1\r\na\r\n:1\r\n",
                                                        "*1\r\n*3\r\n:0\r\n:0\r\n*2\r\n$1\r\na\r\n:0\r\n",
                                                        "*1\r\n*3\r\n:0\r\n:0\r\n*2\r\n$1\r\na\r\n:65536\r\n",
                                                        "*1\r\n*3\r\n:0\r\n:0\r\n*1\r\n$1\r\na\r\n",
                                                        "*1\r\n*3\r\n:0\r\n:0\r\n:7000\r\n", NULL};
         *odd != NULL; odd++)
        assert_null(read_map(*odd));
}

/* Its answer is judged as any. */
static void an_error_stays_one(void **state)
{
    struct stream s = begin();
    int type;
    (void)state;
    feed(&s, "-ERR This instance has cluster support disabled\r\n");
    assert_null(end(&s, &type));
    assert_int_equal(type, REDIS_REPLY_ERROR);
}

static void more_masters_than_there_can_be_are_left_out(void **state)
{
    char text[TEXT];
    int type;
    struct stream s = begin();
    (void)state;
    snprintf(text, sizeof text, "*%d\r\n", LK_REDIS_MASTERS_MAX + 1);
    feed(&s, text);
    for (unsigned i = 0; i <= LK_REDIS_MASTERS_MAX; i++) {
        snprintf(text, sizeof text, "*3\r\n:%u\r\n:%u\r\n*2\r\n$1\r\na\r\n:%u\r\n", i, i, 1 + i);
        feed(&s, text);
    }
    lk_redis_map *map = end(&s, &type);
    assert_int_equal(map->masters, LK_REDIS_MASTERS_MAX);
    assert_int_equal(map->slots, LK_REDIS_MASTERS_MAX);
    assert_string_equal(master_of(map, LK_REDIS_MASTERS_MAX), "");
    free(map);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(each_slot_may_be_a_range_of_its_own),
        cmocka_unit_test(a_node_without_a_name_is_the_node_that_was_asked),
        cmocka_unit_test(invalid_entries_are_left_out),
        cmocka_unit_test(an_error_stays_one),
        cmocka_unit_test(more_masters_than_there_can_be_are_left_out),
    };
    return cmocka_run_group_tests(tests, NULL, NULL);
}
