/* writer.c: what the writer writes is what the reader reads, whole lines from many processes at a time, and
 * all but the last one from a process that was killed. */
#include <errno.h>
#include <fcntl.h>
#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <stdarg.h>
#include <stddef.h>
#include <stdint.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cmocka.h>

#include "history.h"
#include "writer.h"

enum { WRITERS = 8, LINES = 500 };

static char directory[] = "/tmp/locker-history-XXXXXX";
static char path[64];

static int make_directory(void **state)
{
    (void)state;
    if (!mkdtemp(directory))
        return -1;
    snprintf(path, sizeof(path), "%s/h.jsonl", directory);
    return 0;
}

static int remove_file(void **state)
{
    (void)state;
    unlink(path);
    return 0;
}

static int remove_directory(void **state)
{
    (void)state;
    return rmdir(directory);
}

static lk_history *read_back(void)
{
    lk_history_error error = {0};
    lk_history *history = lk_history_new();
    assert_non_null(history);
    if (!lk_history_read(history, path, &error) || !lk_history_join(history, &error))
        fail_msg("%s", error.text);
    return history;
}

static void assert_same_text(const char *a, const char *b)
{
    if (a == NULL || b == NULL)
        assert_true(a == b);
    else
        assert_string_equal(a, b);
}

/* Each field stands in one of them. */
static const lk_event lines[] = {
    {.op = LK_OP_LOCK, .t = 10, .process = 7, .thread = 8, .handle = -4, .order = -1, .waiters = -1},
    {.op = LK_OP_LOCK,
     .phase = LK_PHASE_OK,
     .t = 20,
     .process = 7,
     .thread = 8,
     .handle = -4,
     .token = 5,
     .valid_until = 900,
     .ttl = 1000,
     .id = "a\"b\n\u00fc",
     .owner = "me",
     .order = -1,
     .waiters = -1},
    {.op = LK_OP_SERVER,
     .phase = LK_PHASE_INFO,
     .t = 30,
     .process = 9,
     .thread = 9,
     .sent = 25,
     .held = true,
     .token = 5,
     .order = -1,
     .waiters = 0},
    {.op = LK_OP_FAULT,
     .phase = LK_PHASE_BEGIN,
     .t = 40,
     .process = 9,
     .thread = 9,
     .kind = "kill",
     .what = "worker",
     .order = -1,
     .waiters = -1},
};

enum { COUNT = sizeof lines / sizeof lines[0] };

static void assert_same_event(const lk_event *a, const lk_event *b)
{
    assert_true(a->op == b->op && a->phase == b->phase && a->held == b->held && a->t == b->t &&
                a->process == b->process && a->thread == b->thread && a->handle == b->handle &&
                a->token == b->token && a->valid_until == b->valid_until && a->ttl == b->ttl &&
                a->sent == b->sent && a->order == b->order && a->waiters == b->waiters);
    assert_same_text(a->id, b->id);
    assert_same_text(a->owner, b->owner);
    assert_same_text(a->kind, b->kind);
    assert_same_text(a->what, b->what);
}

static void every_field_comes_back(void **state)
{
    (void)state;
    const lk_event common = {.run = 3, .backend = "redis", .scenario = "crash", .worker = "w1", .key = "k"};
    lk_history_writer *writer = lk_history_writer_open(path, &common);
    assert_non_null(writer);
    for (size_t i = 0; i < COUNT; i++)
        assert_true(lk_history_write(writer, &lines[i]));
    lk_history_writer_close(writer);

    lk_history *history = read_back();
    size_t count;
    const lk_event *read = lk_history_events(history, &count);
    assert_int_equal(count, COUNT);
    for (size_t i = 0; i < COUNT; i++) {
        assert_same_event(&lines[i], &read[i]);
        assert_int_equal(read[i].line, i + 1);
        assert_int_equal(read[i].run, 3);
        assert_string_equal(read[i].backend, "redis");
        assert_string_equal(read[i].scenario, "crash");
        assert_string_equal(read[i].worker, "w1");
        assert_same_text(read[i].key, lines[i].op == LK_OP_FAULT ? NULL : "k");
    }
    lk_history_free(history);
}

static void missing_fields_are_filled_in(void **state)
{
    const lk_event ends = {.op = LK_OP_END, .phase = LK_PHASE_INFO, .order = -1, .waiters = -1};
    int64_t before = lk_event_now();
    lk_history_writer *writer = lk_history_writer_open(path, NULL);
    size_t count;
    (void)state;
    assert_non_null(writer);
    assert_true(lk_history_write(writer, &ends));
    lk_history_writer_close(writer);
    lk_history *history = read_back();
    const lk_event *read = lk_history_events(history, &count);
    assert_int_equal(count, 1);
    assert_int_equal(read->process, getpid());
    assert_true(read->t >= before && read->t <= lk_event_now());
    lk_history_free(history);
}

static void an_event_that_cannot_be_written_is_reported(void **state)
{
    const lk_event wrong = {.op = LK_OP_TRY, .key = "\xff", .order = -1, .waiters = -1};
    lk_history_writer *writer;
    (void)state;
    assert_null(lk_history_writer_open("/nowhere/h.jsonl", NULL));
    assert_int_equal(errno, ENOENT);
    writer = lk_history_writer_open(path, NULL);
    assert_non_null(writer);
    assert_false(lk_history_write(writer, &wrong));
    assert_int_equal(errno, EILSEQ);
    lk_history_writer_close(writer);
    writer = lk_history_writer_open("/dev/full", NULL);
    assert_non_null(writer);
    assert_false(
        lk_history_write(writer, &(lk_event){.op = LK_OP_TRY, .key = "k", .order = -1, .waiters = -1}));
    assert_int_equal(errno, ENOSPC);
    lk_history_writer_close(writer);
}

/* A child: LINES calls that fail, or calls without end. */
static void write_lines(int64_t process, bool for_ever)
{
    lk_history_writer *writer;
    lk_event event = LK_EVENT_INIT;
    (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
    writer = lk_history_writer_open(path, &(lk_event){.process = process, .key = "k"});
    for (event.handle = 1; writer && (for_ever || event.handle <= LINES); event.handle++) {
        event.phase = LK_PHASE_INVOKE;
        if (!lk_history_write(writer, &event))
            _exit(1);
        event.phase = LK_PHASE_FAIL;
        if (!lk_history_write(writer, &event))
            _exit(1);
    }
    _exit(writer ? 0 : 1);
}

static pid_t start(int64_t process, bool for_ever)
{
    pid_t pid = fork();
    assert_true(pid >= 0);
    if (pid == 0)
        write_lines(process, for_ever);
    return pid;
}

static void many_processes_write_whole_lines(void **state)
{
    pid_t pids[WRITERS];
    int status;
    size_t count;
    (void)state;
    for (int i = 0; i < WRITERS; i++)
        pids[i] = start(i + 1, false);
    for (int i = 0; i < WRITERS; i++) {
        assert_int_equal(waitpid(pids[i], &status, 0), pids[i]);
        assert_int_equal(status, 0);
    }
    lk_history *history = read_back();
    (void)lk_history_events(history, &count);
    assert_int_equal(count, 2 * WRITERS * LINES);
    assert_int_equal(lk_history_processes(history), WRITERS);
    lk_history_free(history);
}

static off_t size_of(const char *name)
{
    int fd = open(name, O_RDONLY | O_CLOEXEC);
    off_t size = fd >= 0 ? lseek(fd, 0, SEEK_END) : 0;
    if (fd >= 0)
        close(fd);
    return size;
}

/* Starts a writer, kills it when the file has so many bytes, and answers how many lines are whole. */
static size_t lines_of_a_killed_writer(off_t bytes)
{
    pid_t pid = start(1, true);
    size_t count;
    while (size_of(path) < bytes) {
        assert_int_equal(waitpid(pid, NULL, WNOHANG), 0); /* it goes on */
        (void)sched_yield();
    }
    assert_int_equal(kill(pid, SIGKILL), 0);
    assert_int_equal(waitpid(pid, NULL, 0), pid);
    lk_history *history = read_back();
    (void)lk_history_events(history, &count);
    /* The kernel may have cut the last write short, where a page of the file ends. */
    assert_true(lk_history_cut_line(history, 0) == 0 || lk_history_cut_line(history, 0) == count + 1);
    lk_history_free(history);
    unlink(path);
    return count;
}

static void a_killed_process_damages_only_its_last_line(void **state)
{
    (void)state;
    for (int round = 0; round < 50; round++)
        assert_true(lines_of_a_killed_writer(2000 + 137 * round) > 10);
}

int main(void)
{
    const struct CMUnitTest tests[] = {
        cmocka_unit_test_teardown(every_field_comes_back, remove_file),
        cmocka_unit_test_teardown(missing_fields_are_filled_in, remove_file),
        cmocka_unit_test_teardown(an_event_that_cannot_be_written_is_reported, remove_file),
        cmocka_unit_test_teardown(many_processes_write_whole_lines, remove_file),
        cmocka_unit_test_teardown(a_killed_process_damages_only_its_last_line, remove_file),
    };
    return cmocka_run_group_tests_name("history writer", tests, make_directory, remove_directory);
}
