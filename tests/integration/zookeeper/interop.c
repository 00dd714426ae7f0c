/* interop.c: kazoo's and Curator's locks queue with ours on one path; Curator's locks for readers and writers and its
 * semaphores do, too. Curator's program is compiled here. */
#include <fcntl.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers/process.h"
#include "zk_tests.h"

#define JAVA "/usr/share/java/"
#define JARS                                                                                                 \
    JAVA "curator-recipes.jar:" JAVA "curator-framework.jar:" JAVA "curator-client.jar:" JAVA                \
         "zookeeper.jar:" JAVA "zookeeper-jute.jar:" JAVA "slf4j-nop.jar"

static const char path[] = "/shop/shared"; /* to us: `shared` in the chroot /shop */

/* ------------------------------------------------------------------ the other clients ---- */

/* The directory of the compiled program; made once, removed when the group ends. */
static char classes[64];

static int compile(void **state)
{
    const char *argv[] = {"javac", "-cp", JARS, "-d", classes, LK_CURATOR_SOURCE, NULL};
    (void)state;
    if (access(JAVA "curator-recipes.jar", R_OK) < 0) {
        print_error("Curator is missing: install libcurator-recipes-java\n");
        return -1;
    }
    lk_private_directory(classes);
    if (lk_process_run(0, argv) != 0) {
        print_error("javac can't be run, or finds errors; install default-jdk-headless\n");
        return -1;
    }
    return 0;
}

static int remove_classes(void **state)
{
    (void)state;
    lk_remove_directory(classes);
    return 0;
}

/* How kazoo's lock is made to wait for ours and Curator's: see kazoo_lock.py. */
static const char subclass[] = "subclass", parameter[] = "parameter";

static lk_child *start_kazoo(lk_env *env, const char *by)
{
    char hosts[32];
    const char *argv[] = {LK_PYTHON, "-B", LK_KAZOO_SOURCE, hosts, by, NULL};
    lk_child *child;
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", env->zk->port);
    child = lk_env_keep(env, lk_child_run(argv, "python3 and python3-kazoo"));
    lk_child_expect(child, "open");
    return child;
}

static lk_child *start_curator(lk_env *env)
{
    char hosts[32], class_path[sizeof classes + sizeof JARS + 1];
    const char *argv[] = {"java", "-Xmx64m",  "-XX:+UseSerialGC", "-XX:TieredStopAtLevel=1",
                          "-cp",  class_path, "CuratorLock",      hosts,
                          NULL};
    lk_child *child;
    snprintf(class_path, sizeof class_path, "%s:" JARS, classes);
    snprintf(hosts, sizeof hosts, "127.0.0.1:%d", env->zk->port);
    child = lk_env_keep(env, lk_child_run(argv, "default-jre-headless"));
    lk_child_expect(child, "open");
    return child;
}

/* ------------------------------------------------------------------ one after the other ---- */

static void exclude_each_other(lk_env *env, lk_child *other)
{
    locker *l = lk_open_at(env->zk, "/shop");
    locker_handle *held = lk_take(l, "shared");
    lk_locking waiter;
    lk_child_say(other, "lock %s 1", path);
    lk_child_expect(other, "busy");
    lk_zkc_require_count(env->client, path, 1);
    lk_child_say(other, "wait %s", path);
    lk_zkc_require_count(env->client, path, 2);
    lk_give(held);
    lk_child_expect(other, "ok");
    lk_expect_busy(l, "shared");
    lk_locking_start(&waiter, l, "shared", NULL);
    lk_zkc_require_count(env->client, path, 2);
    lk_require_waiting(l, 1);
    lk_child_say(other, "%s", "release");
    lk_child_expect(other, "ok");
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(l);
}

static void kazoo_and_we_exclude_each_other(void **state)
{
    exclude_each_other(*state, start_kazoo(*state, subclass));
}

static void kazoo_by_a_parameter_and_we_exclude_each_other(void **state)
{
    exclude_each_other(*state, start_kazoo(*state, parameter));
}

/* Curator sees none of its own naming in kazoo's nodes. We do, and wait for both. */
static void curator_does_not_wait_for_kazoo_by_a_parameter(void **state)
{
    lk_env *env = *state;
    lk_child *kazoo = start_kazoo(env, parameter), *curator = start_curator(env);
    locker *l = lk_open_at(env->zk, "/shop");
    lk_child_say(kazoo, "wait %s", path);
    lk_child_expect(kazoo, "ok");
    lk_child_say(curator, "wait %s", path);
    lk_child_expect(curator, "ok");
    lk_expect_busy(l, "shared");
    lk_child_say(curator, "%s", "release");
    lk_child_expect(curator, "ok");
    lk_expect_busy(l, "shared");
    lk_child_say(kazoo, "%s", "release");
    lk_child_expect(kazoo, "ok");
    lk_give(lk_take(l, "shared"));
    lk_close_locker(l);
}

static void curator_and_we_exclude_each_other(void **state)
{
    exclude_each_other(*state, start_curator(*state));
}

/* Six contenders of three kinds queue one behind the other, and are served in that order. */
static void one_queue_in_order_of_arrival(void **state)
{
    lk_env *env = *state;
    locker *holder = lk_open_at(env->zk, "/shop"), *l = lk_open_at(env->zk, "/shop");
    lk_child *others[] = {start_kazoo(env, subclass), start_curator(env), start_kazoo(env, subclass),
                          start_curator(env)};
    locker_handle *held = lk_take(holder, "shared");
    lk_locking ours[2];
    for (size_t i = 0; i < 6; i++) {
        if (i % 3 == 0)
            lk_locking_start(&ours[i / 3], l, "shared", NULL);
        else
            lk_child_say(others[i / 3 * 2 + i % 3 - 1], "wait %s", path);
        lk_zkc_require_count(env->client, path, i + 2);
    }
    lk_give(held);
    for (size_t i = 0; i < 6; i++) {
        lk_zkc_require_count(env->client, path, 6 - i);
        if (i % 3 == 0) {
            lk_give(lk_locking_grant(&ours[i / 3]));
        } else {
            lk_child *other = others[i / 3 * 2 + i % 3 - 1];

            lk_child_expect(other, "ok");
            lk_child_say(other, "%s", "release");
            lk_child_expect(other, "ok");
        }
    }
    lk_close_locker(l);
    lk_close_locker(holder);
}

/* ------------------------------------------------------------------ readers, writers, permits ---- */

static const locker_lock_options plain = LOCKER_LOCK_OPTIONS_INIT,
                                 reads = {.size = sizeof reads,
                                          .wait_ms = LK_TEST_PATIENCE_MS,
                                          .mode = LOCKER_SHARED},
                                 two = {.size = sizeof two, .wait_ms = LK_TEST_PATIENCE_MS, .permits = 2};

static void say_and_expect(lk_child *other, const char *word, const char *rest, const char *answer)
{
    lk_child_say(other, "%s %s%s", word, path, rest);
    lk_child_expect(other, answer);
}

static void done(lk_child *other, const char *word)
{
    lk_child_say(other, "%s", word);
    lk_child_expect(other, "ok");
}

static bool we_may(locker *l, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    const locker_status status = locker_try_lock(l, "shared", options, &held, &err);
    if (status != LOCKER_OK)
        assert_status(LOCKER_BUSY, status, err);
    locker_handle_free(held);
    return status == LOCKER_OK;
}

/* Whether Curator may enter beside what we hold, and the other way round. */
static void check_one(lk_child *curator, locker *l, const locker_lock_options *ours, const char *theirs,
                      bool they_may, bool we_may_too)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, "shared", ours, &held, &err), err);
    say_and_expect(curator, theirs, " 1", they_may ? "ok" : "busy");
    if (they_may)
        done(curator, "release");
    lk_give(held);
    say_and_expect(curator, theirs, " 20", "ok");
    assert_int_equal(we_may(l, ours), we_may_too);
    done(curator, "release");
}

/* The table of docs/promises.md. */
static void check_names(lk_child *curator, locker *mutex, locker *readwrite)
{
    check_one(curator, mutex, &plain, "lock", false, false);
    check_one(curator, mutex, &plain, "read", true, false);
    check_one(curator, mutex, &plain, "write", true, false);
    check_one(curator, mutex, &reads, "lock", true, false);
    check_one(curator, mutex, &reads, "read", true, true);
    check_one(curator, mutex, &reads, "write", false, false);
    check_one(curator, readwrite, &plain, "lock", true, false);
    check_one(curator, readwrite, &plain, "read", false, false);
    check_one(curator, readwrite, &plain, "write", false, false);
    check_one(curator, readwrite, &reads, "lock", true, false);
    check_one(curator, readwrite, &reads, "read", true, true);
    check_one(curator, readwrite, &reads, "write", false, false);
}

/* Curator's readers and writers and ours are one queue. */
static void check_order_of_readers(lk_env *env, lk_child *curator, locker *l)
{
    locker_handle *held = lk_take(l, "shared");
    lk_locking reader, writer;
    lk_child_say(curator, "read %s 60", path);
    lk_zkc_require_count(env->client, path, 2);
    lk_locking_start(&reader, l, "shared", &reads);
    lk_zkc_require_count(env->client, path, 3);
    lk_locking_start(&writer, l, "shared", NULL);
    lk_zkc_require_count(env->client, path, 4);
    lk_give(held);
    lk_child_expect(curator, "ok");
    lk_give(lk_locking_grant(&reader)); /* beside Curator's */
    lk_require_waiting(l, 1);
    done(curator, "release");
    lk_give(lk_locking_grant(&writer));
}

/* Two permits, for Curator and us together; and a key that Curator uses as a semaphore is no lock. */
static void check_permits(lk_child *curator, locker *l)
{
    locker_handle *held[2] = {NULL}, *none = NULL;
    lk_locking waiter;
    locker_error err;
    say_and_expect(curator, "semaphore", " 2 20", "ok");
    assert_status(LOCKER_CONFIG, locker_lock(l, "shared", &plain, &none, &err), err);
    assert_ok(locker_lock(l, "shared", &two, &held[0], &err), err);
    assert_false(we_may(l, &two));
    lk_locking_start(&waiter, l, "shared", &two);
    lk_require_waiting(l, 1);
    done(curator, "leave");
    held[1] = lk_locking_grant(&waiter);
    assert_int_equal(locker_handle_slot(held[0]) + locker_handle_slot(held[1]), 1);
    say_and_expect(curator, "semaphore", " 2 1", "busy");
    lk_child_say(curator, "semaphore %s 2 60", path);
    lk_give(held[0]);
    lk_child_expect(curator, "ok");
    assert_false(we_may(l, &two));
    done(curator, "leave");
    lk_give(held[1]);
}

static void curators_readers_and_permits_and_ours(void **state)
{
    lk_env *env = *state;
    lk_child *curator = start_curator(env);
    locker *mutex = lk_open_at(env->zk, "/shop"), *readwrite = lk_open_at(env->zk, "/shop?names=readwrite");
    check_names(curator, mutex, readwrite);
    check_order_of_readers(env, curator, readwrite);
    check_permits(curator, mutex);
    lk_close_locker(readwrite);
    lk_close_locker(mutex);
}

/* ------------------------------------------------------------------ thousands of grants ---- */

enum { THREADS = 2, OUR_GRANTS = 500, THEIR_GRANTS = 500 };

struct worker {
    locker *l;
    const char *file;
    pthread_t thread;
    locker_status status; /* of the first call that failed */
    locker_error err;
};

/* Notes each grant in the file by its token, which is the number of the node's creation. */
static void *work(void *argument)
{
    struct worker *worker = argument;
    for (int i = 0; i < OUR_GRANTS && worker->status == LOCKER_OK; i++) {
        locker_handle *held = NULL;
        FILE *file;

        worker->status = locker_lock(worker->l, "shared", NULL, &held, &worker->err);
        if (worker->status == LOCKER_OK && (file = fopen(worker->file, "ae")) != NULL) {
            fprintf(file, "%" PRIu64 " ours\n", locker_handle_token(held));
            fclose(file);
            worker->status = locker_unlock(held, &worker->err);
        }
        locker_handle_free(held);
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

struct progress {
    const char *file;
    off_t size;
    size_t lines, wanted;
};

/* Or all is done. */
static bool has_grown(void *context)
{
    struct progress *p = context;
    const off_t before = p->size;
    FILE *file = fopen(p->file, "re");
    if (file == NULL)
        return false;
    p->lines = 0;
    for (int c; (c = fgetc(file)) != EOF;)
        p->lines += c == '\n';
    p->size = ftello(file);
    fclose(file);
    return p->size > before || p->lines == p->wanted;
}

static void grants_in_order(lk_env *env, lk_child **others, size_t count)
{
    struct worker workers[THREADS] = {{0}};
    char directory[64], file[96];
    lk_private_directory(directory);
    snprintf(file, sizeof file, "%s/grants", directory);
    for (size_t i = 0; i < THREADS; i++) {
        workers[i].l = lk_open_at(env->zk, "/shop");
        workers[i].file = file;
        assert_int_equal(pthread_create(&workers[i].thread, NULL, work, &workers[i]), 0);
    }
    for (size_t i = 0; i < count; i++)
        lk_child_say(others[i], "grants %s %s %d", path, file, THEIR_GRANTS);
    struct progress progress = {.file = file, .wanted = THREADS * OUR_GRANTS + count * THEIR_GRANTS};
    while (progress.lines < progress.wanted)
        lk_require(has_grown, &progress, "somebody should be granted the lock");
    for (size_t i = 0; i < THREADS; i++) {
        lk_join(workers[i].thread, "a worker");
        assert_status(LOCKER_OK, workers[i].status, workers[i].err);
        lk_close_locker(workers[i].l);
    }
    for (size_t i = 0; i < count; i++)
        lk_child_expect(others[i], "ok");
    check_order(file, progress.wanted);
    lk_remove_directory(directory);
}

static void thousands_of_grants_in_order(void **state)
{
    lk_env *env = *state;
    lk_child *others[] = {start_kazoo(env, subclass), start_curator(env), start_curator(env)};
    grants_in_order(env, others, sizeof others / sizeof others[0]);
}

/* kazoo's nodes have another name, and one queue with ours all the same. */
static void grants_with_kazoo_by_a_parameter_in_order(void **state)
{
    lk_env *env = *state;
    lk_child *other = start_kazoo(env, parameter);
    grants_in_order(env, &other, 1);
}

static const struct CMUnitTest tests[] = {
    server_test(kazoo_and_we_exclude_each_other),
    server_test(curator_and_we_exclude_each_other),
    server_test(kazoo_by_a_parameter_and_we_exclude_each_other),
    server_test(curator_does_not_wait_for_kazoo_by_a_parameter),
    server_test(one_queue_in_order_of_arrival),
    server_test(curators_readers_and_permits_and_ours),
    server_test(thousands_of_grants_in_order),
    server_test(grants_with_kazoo_by_a_parameter_in_order),
};

const lk_group lk_interop = {"interop", tests, sizeof tests / sizeof tests[0], compile, remove_classes};
