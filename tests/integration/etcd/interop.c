/* interop.c: etcdctl's locks, which are those of Go's concurrency.Mutex, and ours are one queue. */
#include <inttypes.h>
#include <netinet/in.h>
#include <pthread.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_tests.h"
#include "servers/port.h"

enum { QUIET_MS = 200, THEIR_TTL_S = 60 };

/* ------------------------------------------------------------------ one after the other ---- */

static lk_child *lock_by_etcdctl(lk_env *env, const char *name)
{
    return lk_env_keep(env, lk_etcdctl_lock(env->etcd, name, THEIR_TTL_S));
}

static void unlock_by_etcdctl(lk_env *env, lk_child *child)
{
    lk_etcdctl_unlock(lk_env_release(env, child));
}

/* `name`: what etcdctl calls our lock `shared`. */
static void exclude_each_other(lk_env *env, const char *rest, const char *name)
{
    locker *l = lk_open_at(env->etcd, rest);
    locker_handle *held = lk_take(l, "shared");
    char queue[64];
    lk_locking waiter;
    snprintf(queue, sizeof queue, "%s/", name);
    assert_int_equal(lk_etcdctl_nth(env->etcd, queue, 0).create, locker_handle_token(held));
    lk_child *other = lock_by_etcdctl(env, name);
    lk_etcdctl_require_count(env->etcd, queue, 2);
    assert_false(lk_readable(other->output, QUIET_MS));
    lk_give(held);
    lk_etcdctl_locked(env->etcd, other);
    lk_expect_busy(l, "shared");
    lk_locking_start(&waiter, l, "shared", NULL);
    lk_etcdctl_require_count(env->etcd, queue, 2);
    lk_require_waiting(l, 1);
    unlock_by_etcdctl(env, other);
    lk_give(lk_locking_grant(&waiter));
    lk_etcdctl_require_count(env->etcd, queue, 0);
    lk_close_locker(l);
}

static void etcdctl_and_we_exclude_each_other(void **state)
{
    exclude_each_other(*state, "/shop", "shop/shared");
    exclude_each_other(*state, "/shop?namespace=east", "shop/east/shared");
    exclude_each_other(*state, "", "shared");
}

/* Four contenders of two kinds queue one behind the other, and are served in that order. */
static void one_queue_in_order_of_arrival(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->etcd, "/shop"), *l = lk_open_at(env->etcd, "/shop");
    locker_handle *held = lk_take(holder, "shared");
    lk_child *theirs[2];
    lk_locking ours[2];
    for (size_t i = 0; i < 4; i++) {
        if (i % 2 == 0)
            lk_locking_start(&ours[i / 2], l, "shared", NULL);
        else
            theirs[i / 2] = lock_by_etcdctl(env, "shop/shared");
        lk_etcdctl_require_count(env->etcd, "shop/shared/", i + 2);
    }
    lk_give(held);
    for (size_t i = 0; i < 4; i++) {
        lk_etcdctl_require_count(env->etcd, "shop/shared/", 4 - i);
        if (i % 2 == 0) {
            lk_give(lk_locking_grant(&ours[i / 2]));
        } else {
            lk_etcdctl_locked(env->etcd, theirs[i / 2]);
            unlock_by_etcdctl(env, theirs[i / 2]);
        }
    }
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* One that is killed while it waits leaves its key until its lease has ended. */
static void an_etcdctl_waiter_that_is_killed(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop");
    locker_handle *held = lk_take(l, "shared");
    lk_child *other = lk_env_keep(env, lk_etcdctl_lock(env->etcd, "shop/shared", 2));
    lk_locking waiter;
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 2);
    lk_locking_start(&waiter, l, "shared", NULL);
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 3);
    lk_child_kill(lk_env_release(env, other));
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

/* etcd keeps the name of each deleted key, and its ranges go through those: so they must not grow with each lock. The 20 locks have
 * two names, or a few more where one's end was late; names end in their number. */
static void names_are_used_again(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop");
    lk_etcdctl_key before = {0};
    for (int i = 0; i < 10; i++) {
        locker_handle *held = lk_take(l, "again"), *other = lk_take(l, "other");
        const lk_etcdctl_key now = lk_etcdctl_nth(env->etcd, "shop/again/", 0);
        const unsigned long long number = strtoull(now.name + strlen(now.name) - 16, NULL, 16);
        assert_unless_late(number >= 1 && number <= 6);
        assert_int_equal(now.create, locker_handle_token(held));
        assert_true(now.create > before.create);
        before = now;
        lk_give(other);
        lk_give(held);
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ readers, permits ---- */

static locker_lock_options reads(void)
{
    locker_lock_options options = lk_wait_options(LK_TEST_PATIENCE_MS);
    options.mode = LOCKER_SHARED;
    return options;
}

/* What etcdctl has is exclusive, and it waits for all that is before it. */
static void etcdctl_waits_for_our_readers_and_they_for_it(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop"), *late = lk_open_at(env->etcd, "/shop");
    const locker_lock_options shared = reads();
    locker_handle *held[2], *none = NULL;
    lk_locking waiter;
    locker_error err;
    assert_ok(locker_lock(l, "shared", &shared, &held[0], &err), err);
    assert_ok(locker_lock(late, "shared", &shared, &held[1], &err), err);
    lk_child *other = lock_by_etcdctl(env, "shop/shared");
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 3);
    lk_give(held[0]);
    assert_false(lk_readable(other->output, QUIET_MS));
    lk_give(held[1]);
    lk_etcdctl_locked(env->etcd, other);
    assert_status(LOCKER_BUSY, locker_try_lock(l, "shared", &shared, &none, &err), err);
    lk_locking_start(&waiter, late, "shared", &shared);
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 2);
    unlock_by_etcdctl(env, other);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(late);
    lk_close_locker(l);
}

/* A reader behind a writer isn't a holder. */
static void show_of_readers_on_both_sides_of_a_writer(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop"), *late = lk_open_at(env->etcd, "/shop");
    const locker_lock_options shared = reads();
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held;
    lk_locking waiter;
    locker_error err;
    assert_ok(locker_lock(l, "shared", &shared, &held, &err), err);
    lk_etcdctl_do(env->etcd, "put shop/shared/somebody x");
    lk_locking_start(&waiter, late, "shared", &shared);
    lk_etcdctl_require_count(env->etcd, "shop/shared/", 3);
    assert_ok(locker_show(l, "shared", &info, &err), err);
    assert_int_equal(info.holders_len, 1);
    assert_int_equal(info.waiters, 2);
    locker_info_clear(&info);
    lk_etcdctl_do(env->etcd, "del shop/shared/somebody");
    lk_give(lk_locking_grant(&waiter));
    lk_give(held);
    lk_close_locker(late);
    lk_close_locker(l);
}

enum { READERS = 1100, AT_ONCE = 100 };

/* By a program that asks for a hundred at once. */
static void make_readers(const lk_server *etcd)
{
    char command[100];
    snprintf(command, sizeof command, "etcdctl --endpoints http://127.0.0.1:%d txn >/dev/null", etcd->port);
    for (int i = 0; i < READERS; i += AT_ONCE) {
        FILE *const txn = popen(command, "we");
        assert_non_null(txn);
        fputs("\n", txn);
        for (int n = i; n < i + AT_ONCE; n++)
            fprintf(txn, "put shop/many/s-%032x reader-%d\n", (unsigned)n, n);
        fputs("\n\n", txn);
        assert_int_equal(pclose(txn), 0);
    }
}

/* A look tells them all, and a break ends them all, or the last one, who is named. */
static void more_than_a_thousand_readers(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop?command_timeout=60s");
    locker_info info = LOCKER_INFO_INIT;
    locker_break_options last = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    make_readers(env->etcd);
    assert_ok(locker_show(l, "many", &info, &err), err);
    assert_int_equal(info.holders_len, READERS);
    assert_int_equal(info.waiters, 0);
    last.token = info.holders[READERS - 1].token;
    last.force = true; /* their keys have no lease */
    locker_info_clear(&info);
    assert_ok(locker_break(l, "many", &last, &info, &err), err);
    assert_int_equal(info.holders_len, AT_ONCE); /* one transaction: they have one token */
    locker_info_clear(&info);
    last.token = 0;
    assert_ok(locker_break(l, "many", &last, &info, &err), err);
    assert_int_equal(info.holders_len, READERS - AT_ONCE);
    locker_info_clear(&info);
    lk_etcdctl_require_count(env->etcd, "shop/many/", 0);
    lk_close_locker(l);
}

/* Every call that wants the key, a look, and a break leave a key below that is no lock's. */
static void expect_left(lk_env *env, locker *l, const char *put)
{
    const locker_break_options force = {.size = sizeof force, .force = true};
    const locker_lock_options shared = {.size = sizeof shared, .mode = LOCKER_SHARED};
    const locker_lock_options permit = {.size = sizeof permit, .permits = 1};
    locker_handle *none = NULL;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    lk_etcdctl_do(env->etcd, "%s", put);
    const lk_etcdctl_key before = lk_etcdctl_nth(env->etcd, "shop/app", 0);
    assert_int_not_equal(locker_try_lock(l, "app", NULL, &none, &err), LOCKER_OK);
    assert_int_not_equal(locker_try_lock(l, "app", &shared, &none, &err), LOCKER_OK);
    assert_int_not_equal(locker_try_lock(l, "app", &permit, &none, &err), LOCKER_OK);
    assert_ok(locker_show(l, "app", &info, &err), err);
    assert_true(info.held);
    locker_info_clear(&info);
    assert_status(LOCKER_CONFIG, locker_break(l, "app", NULL, NULL, &err), err);
    lk_etcdctl_require_count(env->etcd, "shop/app", 1);
    const lk_etcdctl_key after = lk_etcdctl_nth(env->etcd, "shop/app", 0);
    assert_int_equal(after.modified, before.modified); /* no byte of it was written */
    assert_string_equal(after.name, before.name);
    assert_ok(locker_break(l, "app", &force, NULL, &err), err);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/app"), 0);
}

static void foreign_data_is_left_unchanged(void **state)
{
    lk_env *const env = *state;
    locker *const l = lk_open_at(env->etcd, "/shop");
    char said[128], put[128];
    locker_error err;
    assert_true(lk_etcdctl_try(env->etcd, said, sizeof said, "lease grant 600"));
    const unsigned long long lease = strtoull(said + strlen("lease "), NULL, 16);
    assert_true(lease != 0);
    expect_left(env, l, "put shop/app/config data");
    expect_left(env, l, "put shop/app/0123456789abcdef0123456789abcdef data");
    (void)snprintf(put, sizeof put, "put --lease=%llx shop/app/host1:8080 data",
                   lease); /* a registry of services */
    expect_left(env, l, put);
    (void)snprintf(put, sizeof put, "put shop/app/%llx data", lease);
    expect_left(env, l, put);
    (void)snprintf(put, sizeof put, "put --lease=%llx shop/app%%permits/2-slot-0 data", lease);
    expect_left(env, l, put);
    /* As etcdctl and Go's concurrency package have it. */
    lk_etcdctl_do(env->etcd, "put --lease=%llx shop/app/%llx x", lease, lease);
    assert_ok(locker_break(l, "app", NULL, NULL, &err), err);
    assert_int_equal(lk_etcdctl_count(env->etcd, "shop/app"), 0);
    lk_close_locker(l);
}

/* Whichever its name is: it comes before or behind those of readers. */
static void a_foreign_key_excludes_readers(void **state)
{
    lk_env *env = *state;
    locker *l = lk_open_at(env->etcd, "/shop");
    const locker_lock_options shared = reads();
    const char *const names[] = {"0", "r", "t", "~"};
    locker_handle *none = NULL;
    locker_error err;
    for (size_t i = 0; i < sizeof names / sizeof *names; i++) {
        lk_locking waiter;
        lk_etcdctl_do(env->etcd, "put shop/shared/%s x", names[i]);
        assert_status(LOCKER_BUSY, locker_try_lock(l, "shared", &shared, &none, &err), err);
        lk_locking_start(&waiter, l, "shared", &shared);
        lk_etcdctl_require_count(env->etcd, "shop/shared/", 2);
        lk_require_waiting(l, 1);
        assert_int_equal(lk_stats(l).acquired, i);
        lk_etcdctl_do(env->etcd, "del shop/shared/%s", names[i]);
        lk_give(lk_locking_grant(&waiter));
    }
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ hundreds of grants ---- */

enum { THREADS = 2, OUR_GRANTS = 200, THEIRS = 2, THEIR_GRANTS = 30 };

typedef struct {
    locker *l;
    const char *file, *counter;
    atomic_uint *grants; /* of all */
    pthread_t thread;
    locker_status status; /* of the first call that failed */
    locker_error err;
} worker;

static void add_one(const char *name)
{
    unsigned number = 0;
    FILE *file = fopen(name, "r+e");
    if (file == NULL)
        return;
    if (fscanf(file, "%u", &number) == 1) {
        rewind(file);
        fprintf(file, "%u\n", number + 1);
    }
    fclose(file);
}

static void add_line(const char *name, uint64_t token)
{
    FILE *file = fopen(name, "ae");
    if (file == NULL)
        return;
    fprintf(file, "%" PRIu64 " ours\n", token);
    fclose(file);
}

static void *work(void *argument)
{
    worker *w = argument;
    for (int i = 0; i < OUR_GRANTS && w->status == LOCKER_OK; i++) {
        locker_handle *held = NULL;

        w->status = locker_lock(w->l, "shared", NULL, &held, &w->err);
        if (w->status == LOCKER_OK) {
            add_line(w->file, locker_handle_token(held));
            add_one(w->counter);
            w->status = locker_unlock(held, &w->err);
        }
        locker_handle_free(held);
        atomic_fetch_add(w->grants, 1);
    }
    return NULL;
}

/* Each line's number is greater than the one before: that is FIFO, since the numbers are of the arrivals. */
static void check_order(const char *name, size_t wanted)
{
    FILE *file = fopen(name, "re");
    uint64_t last = 0, number;
    size_t count = 0;
    char kind[16];
    assert_non_null(file);
    for (; fscanf(file, "%" SCNu64 " %15s", &number, kind) == 2; count++) {
        if (number <= last)
            test_fails("grant %zu, one of %s, came after one that had queued behind it", count, kind);
        last = number;
    }
    fclose(file);
    assert_int_equal(count, wanted);
}

static void check_counter(const char *name, unsigned wanted)
{
    FILE *file = fopen(name, "re");
    unsigned number = 0;
    assert_non_null(file);
    assert_int_equal(fscanf(file, "%u", &number), 1);
    fclose(file);
    assert_int_equal(number, wanted);
}

static lk_child *start_theirs(lk_env *env, const char *file, const char *counter)
{
    char endpoint[40], times[12];
    const char *const argv[] = {LK_ETCDCTL_SOURCE, endpoint, "shop/shared", file, counter, times, NULL};
    snprintf(endpoint, sizeof endpoint, "127.0.0.1:%d", env->etcd->port);
    snprintf(times, sizeof times, "%d", THEIR_GRANTS);
    return lk_env_keep(env, lk_child_run(argv, "etcd-client"));
}

static void grants_in_order(lk_env *env, const char *file, const char *counter)
{
    worker workers[THREADS] = {{0}};
    atomic_uint grants = 0;
    lk_child *theirs[THEIRS];
    for (size_t i = 0; i < THREADS; i++) {
        workers[i] = (worker){
            .l = lk_open_at(env->etcd, "/shop"), .file = file, .counter = counter, .grants = &grants};
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < THEIRS; i++)
        theirs[i] = start_theirs(env, file, counter);
    for (size_t i = 0; i < THREADS; i++) {
        lk_join_worker(workers[i].thread, &grants, "they lock and unlock");
        assert_status(LOCKER_OK, workers[i].status, workers[i].err);
        lk_close_locker(workers[i].l);
    }
    for (size_t i = 0; i < THEIRS; i++)
        lk_child_expect(theirs[i], "ok");
}

static void hundreds_of_grants_in_order(void **state)
{
    char directory[64], file[96], counter[96];
    lk_private_directory(directory);
    snprintf(file, sizeof file, "%s/grants", directory);
    snprintf(counter, sizeof counter, "%s/counter", directory);
    FILE *begun = fopen(counter, "we");
    assert_non_null(begun);
    fputs("0\n", begun);
    fclose(begun);
    grants_in_order(*state, file, counter);
    check_order(file, THREADS * OUR_GRANTS + THEIRS * THEIR_GRANTS);
    check_counter(counter, THREADS * OUR_GRANTS + THEIRS * THEIR_GRANTS);
    lk_remove_directory(directory);
}

/* ------------------------------------------------------------------ etcd's own proxy ---- */

static bool listens(void *context)
{
    const struct sockaddr_in address = {.sin_family = AF_INET,
                                        .sin_port = htons((uint16_t) * (const int *)context),
                                        .sin_addr.s_addr = htonl(INADDR_LOOPBACK)};
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const bool connected = connect(fd, (const struct sockaddr *)&address, sizeof address) == 0;
    close(fd);
    return connected;
}

/* The proxy numbers watches by itself, as servers of version 3.3 do. Each event belongs to the watch of its own lock. */
static void watches_that_etcds_proxy_numbers(void **state)
{
    lk_env *env = *state;
    const char *const named = getenv("LOCKER_TEST_ETCD");
    char from[60], at[40];
    const char *const argv[] = {
        named != NULL && named[0] != '\0' ? named : "etcd", "grpc-proxy", "start", from, at, NULL};
    lk_server proxy = *env->etcd;
    locker_handle *held[4];
    lk_locking waiter;
    proxy.port = lk_free_port();
    snprintf(from, sizeof from, "--endpoints=127.0.0.1:%d", env->etcd->port);
    snprintf(at, sizeof at, "--listen-addr=127.0.0.1:%d", proxy.port);
    (void)lk_env_keep(env, lk_child_run(argv, "etcd-server"));
    lk_require(listens, &proxy.port, "etcd's proxy should listen");
    locker *l = lk_open_at(&proxy, "/shop?ttl=200s"); /* its renewal is too late for this test */
    for (int i = 0; i < 4; i++) {
        char key[16];
        snprintf(key, sizeof key, "watched-%d", i);
        held[i] = lk_take(l, key);
        lk_await_time(lk_test_now_ms() + 150); /* then it is watched */
    }
    lk_etcdctl_do(env->etcd, "del %s", lk_etcdctl_nth(env->etcd, "shop/watched-2/", 0).name);
    lk_require_state(held[2], LOCKER_STATE_LOST);
    lk_locking_start(&waiter, l, "watched-1", NULL);
    lk_require_waiting(l, 1);
    lk_await_time(lk_test_now_ms() + 150);
    lk_give(held[1]);
    lk_give(lk_locking_grant(&waiter));
    for (int i = 0; i < 4; i += 3) {
        assert_int_equal(locker_handle_state(held[i]), LOCKER_STATE_HELD);
        lk_give(held[i]);
    }
    lk_give_lost(held[2]);
    lk_close_locker(l);
}

static const struct CMUnitTest tests[] = {
    server_test(etcdctl_and_we_exclude_each_other),
    server_test(one_queue_in_order_of_arrival),
    server_test(an_etcdctl_waiter_that_is_killed),
    server_test(names_are_used_again),
    server_test(etcdctl_waits_for_our_readers_and_they_for_it),
    server_test(show_of_readers_on_both_sides_of_a_writer),
    server_test(more_than_a_thousand_readers),
    server_test(foreign_data_is_left_unchanged),
    server_test(a_foreign_key_excludes_readers),
    server_test(hundreds_of_grants_in_order),
    server_test(watches_that_etcds_proxy_numbers),
};

const lk_group lk_interop = {"interop", tests, sizeof tests / sizeof tests[0], NULL, NULL};
