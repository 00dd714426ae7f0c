/* memory.c: the memory driver alone, called as core calls it: what only an unlucky order of threads shows. */
#include <stdio.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include <locker/driver.h>

#include "expect.h"

extern const locker_driver lk_memory_driver;

enum { CLAIM_SIZE_AT_MOST = 256, BUCKETS_AT_FIRST = 64 };

/* A claim with the driver's bytes behind it. */
struct asker {
    locker_claim claim; /* the first member: what core is told of is ours */
    _Alignas(16) char data[CLAIM_SIZE_AT_MOST];
    int wakes;
};

static locker_claim *of(struct asker *asker)
{
    asker->claim.data = asker->data;
    return &asker->claim;
}

static int64_t no_time(void *context)
{
    (void)context;
    return 1;
}

static void wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    ((struct asker *)(void *)claim)->wakes++;
}

static void lost(const locker_services *svc, locker_claim *claim, const char *why)
{
    (void)svc, (void)claim, (void)why;
    fail_msg("core is told of the loss of a grant that it does not know");
}

static const locker_clock stopped = {.now = no_time};
static const locker_services services = {.clock = &stopped, .wake = wake, .lease_lost = lost};

static void *open_named(const char *name)
{
    const locker_driver_config config = {.path = name, .name_space = ""};
    void *self = NULL;
    locker_error err;
    assert_true(lk_memory_driver.claim_size <= CLAIM_SIZE_AT_MOST);
    assert_int_equal(lk_memory_driver.open(&config, &services, &self, &err), LOCKER_OK);
    return self;
}

static void *open_space(void)
{
    return open_named("");
}

static locker_status ask(void *self, struct asker *asker)
{
    locker_error err;
    return lk_memory_driver.acquire(self, of(asker), &err);
}

/* A claim that waits, and its first attempt. */
static locker_status come(void *self, struct asker *asker, const char *key)
{
    *asker = (struct asker){.wakes = 0};
    *of(asker) = (locker_claim){.key = key,
                                .key_len = strlen(key),
                                .key_hash = locker_key_hash(key, strlen(key)),
                                .owner = "",
                                .will_wait = true};
    return ask(self, asker);
}

static void give(void *self, struct asker *asker)
{
    locker_error err;
    assert_int_equal(lk_memory_driver.release(self, of(asker), LOCKER_NEVER, &err), LOCKER_OK);
}

static void break_key(void *self, const char *key)
{
    const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;
    locker_info broken = LOCKER_INFO_INIT;
    locker_error err;
    assert_int_equal(
        lk_memory_driver.break_lock(self, key, strlen(key), &anybody, LOCKER_NEVER, &broken, &err),
        LOCKER_OK);
    locker_info_clear(&broken);
}

/* A lock was handed to who waited and broken before he asked: those behind him were served and went. When he
 * asks, nothing leads from him to them. */
static void a_lock_broken_before_its_waiter_asks_has_no_waiter_behind(void **state)
{
    struct asker first, handed, second, third, later;
    void *self = open_space();
    (void)state;
    assert_int_equal(come(self, &first, "k"), LOCKER_OK);
    assert_int_equal(come(self, &handed, "k"), LOCKER_BUSY);
    assert_int_equal(come(self, &second, "k"), LOCKER_BUSY);
    assert_int_equal(come(self, &third, "k"), LOCKER_BUSY);
    give(self, &first);
    break_key(self, "k");
    give(self, &second);
    give(self, &third);
    assert_int_equal(ask(self, &handed), LOCKER_OK);
    assert_int_equal(third.wakes, 1);
    give(self, &handed);
    assert_int_equal(third.wakes, 1);
    assert_int_equal(come(self, &later, "k"), LOCKER_OK);
    give(self, &later);
    lk_memory_driver.close(self);
}

/* Another key of the same bucket. */
static void find_neighbour(char name[16], const char *key)
{
    const uint32_t bucket = locker_key_hash(key, strlen(key)) % BUCKETS_AT_FIRST;
    unsigned i = 0;
    do
        snprintf(name, 16, "n%u", i++);
    while (locker_key_hash(name, strlen(name)) % BUCKETS_AT_FIRST != bucket);
}

/* The same, with another key's holder behind it in its bucket. */
static void a_lock_broken_before_its_waiter_asks_has_no_neighbour(void **state)
{
    struct asker first, handed, neighbour, later;
    void *self = open_space();
    char other[16];
    (void)state;
    find_neighbour(other, "k");
    assert_int_equal(come(self, &first, "k"), LOCKER_OK);
    assert_int_equal(come(self, &handed, "k"), LOCKER_BUSY);
    assert_int_equal(come(self, &neighbour, other), LOCKER_OK);
    give(self, &first);
    break_key(self, "k");
    give(self, &neighbour);
    assert_int_equal(ask(self, &handed), LOCKER_OK);
    assert_int_equal(come(self, &later, other), LOCKER_OK);
    give(self, &later);
    give(self, &handed);
    lk_memory_driver.close(self);
}

/* Core writes the grant's time into the claim without the driver's locks, so show looks at the driver's
 * own. */
static void show_reads_nothing_that_core_writes(void **state)
{
    struct asker holder;
    void *self = open_space();
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    int64_t first;
    (void)state;
    assert_int_equal(come(self, &holder, "k"), LOCKER_OK);
    assert_int_equal(lk_memory_driver.show(self, "k", 1, LOCKER_NEVER, &info, &err), LOCKER_OK);
    first = info.since_unix_ms;
    of(&holder)->granted_at = INT64_C(-3600000000000);
    assert_int_equal(lk_memory_driver.show(self, "k", 1, LOCKER_NEVER, &info, &err), LOCKER_OK);
    assert_in_range(info.since_unix_ms, first, first + 3000000);
    give(self, &holder);
    lk_memory_driver.close(self);
}

/* What stays of the lock that the parent holds is memory that nobody looks at. */
static int in_the_child(void)
{
    struct asker mine, other;
    void *self = open_named("shop"), *another = open_named("shop");
    if (come(self, &mine, "k") != LOCKER_OK || come(another, &other, "k") != LOCKER_BUSY)
        return 1;
    give(self, &mine);
    if (other.wakes != 1)
        return 2;
    lk_memory_driver.close(another);
    lk_memory_driver.close(self);
    return 0;
}

static void a_forks_child_has_locks_of_its_own(void **state)
{
    struct asker holder;
    void *self = open_named("shop");
    int status = -1;
    pid_t child;
    (void)state;
    assert_int_equal(come(self, &holder, "k"), LOCKER_OK);
    child = fork();
    if (child == 0)
        _exit(in_the_child());
    assert_true(child > 0);
    assert_int_equal(waitpid(child, &status, 0), child);
    assert_int_equal(status, 0);
    give(self, &holder);
    lk_memory_driver.close(self);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test(a_lock_broken_before_its_waiter_asks_has_no_waiter_behind),
        cmocka_unit_test(a_lock_broken_before_its_waiter_asks_has_no_neighbour),
        cmocka_unit_test(show_reads_nothing_that_core_writes),
        cmocka_unit_test(a_forks_child_has_locks_of_its_own),
    };
    return cmocka_run_group_tests_name("memory", tests, NULL, NULL);
}
