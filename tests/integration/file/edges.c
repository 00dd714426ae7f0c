/* edges.c: surroundings that a program seldom has: no standard streams, no main thread, no /proc, a limit on the size of files. Each
 * test's body runs in a child, which answers by its exit code. */
#include <errno.h>
#include <fcntl.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <pthread.h>
#include <sched.h>
#include <semaphore.h>
#include <signal.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/syscall.h>
#include <time.h>
#include <unistd.h>

#include "child.h"
#include "file_test.h"
#include "holding.h"
#include "record.h"
#include "skips.h"

enum { FINE = 0, NOT_OPEN = 2, NOT_GRANTED, WARNED, LOW_DESCRIPTOR, WRONG_ANSWER, NOT_ALLOWED = 77 };

static bool streams_are_closed;
static atomic_int warnings; /* what the lockers of this child have warned of */

static void count_warnings(locker_log_level level, const char *text, void *context)
{
    (void)level;
    (void)text;
    (void)context;
    warnings++;
}

static locker *open_counting(const char *uri)
{
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_error err;
    locker *l = NULL;
    o.log = count_warnings;
    o.log_level = LOCKER_LOG_WARN;
    return locker_open(uri, &o, &l, &err) == LOCKER_OK ? l : NULL;
}

static const char *uri_of_waiter;

static void *wait_for_key(void *result)
{
    locker *l = open_counting(uri_of_waiter);
    const locker_lock_options o = lk_wait_options(LK_TEST_PATIENCE_MS);
    locker_handle *held = NULL;
    locker_error err;
    const int status = l == NULL ? -1 : (int)locker_lock(l, "k", &o, &held, &err);
    locker_handle_free(held);
    locker_close(l);
    *(int *)result = status;
    return NULL;
}

static bool somebody_waits(locker *l)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    const bool waits = locker_show(l, "k", &info, &err) == LOCKER_OK && info.waiters > 0;
    locker_info_clear(&info);
    return waits;
}

static bool low_ones_are_free(void *context)
{
    (void)context;
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        if (fcntl(fd, F_GETFD) >= 0)
            return false;
    return true;
}

/* A lock that is held, waited for in another thread until it waits, then let go of; and one that several hold. */
static int work(const char *uri)
{
    locker_lock_options shared = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL, *beside = NULL;
    locker_error err;
    pthread_t waiter;
    int granted = -1;
    locker *l = open_counting(uri);
    if (l == NULL)
        return NOT_OPEN;
    shared.mode = LOCKER_SHARED;
    if (locker_lock(l, "k", NULL, &held, &err) != LOCKER_OK ||
        locker_lock(l, "s", &shared, &beside, &err) != LOCKER_OK)
        return NOT_GRANTED;
    uri_of_waiter = uri;
    if (pthread_create(&waiter, NULL, wait_for_key, &granted) != 0)
        return NOT_GRANTED;
    while (!somebody_waits(l))
        sched_yield();
    /* Between open() and its move above 2 a descriptor of the waiter's is low for a moment. */
    if (streams_are_closed && !lk_until(low_ones_are_free, NULL, LK_TEST_PATIENCE_MS))
        return LOW_DESCRIPTOR;
    if (locker_unlock(held, &err) != LOCKER_OK)
        return NOT_GRANTED;
    locker_handle_free(held);
    locker_handle_free(beside);
    pthread_join(waiter, NULL);
    locker_close(l);
    return granted != LOCKER_OK ? NOT_GRANTED : warnings > 0 ? WARNED : FINE;
}

static int without_streams(const char *uri)
{
    for (int fd = 0; fd <= STDERR_FILENO; fd++)
        close(fd);
    streams_are_closed = true;
    return work(uri);
}

static void *work_alone(void *uri)
{
    char state = 'R';
    while (state != 'Z') { /* until the main thread has ended */
        FILE *status = fopen("/proc/self/stat", "re");
        if (status == NULL || fscanf(status, "%*d %*s %c", &state) != 1)
            _exit(NOT_ALLOWED);
        fclose(status);
    }
    _exit(work(uri));
}

static int without_main_thread(char *uri)
{
    static char copy[200];
    pthread_t other;
    snprintf(copy, sizeof copy, "%s", uri);
    if (pthread_create(&other, NULL, work_alone, copy) != 0)
        return NOT_ALLOWED;
    pthread_exit(NULL);
}

static int without_proc(const char *uri)
{
    if (unshare(CLONE_NEWNS) != 0 && unshare(CLONE_NEWUSER | CLONE_NEWNS) != 0)
        return NOT_ALLOWED;
    if (mount(NULL, "/", NULL, MS_REC | MS_PRIVATE, NULL) != 0 ||
        mount("tmpfs", "/proc", "tmpfs", 0, "mode=0755") != 0)
        return NOT_ALLOWED;
    _exit(work(uri)); /* a sanitizer looks for leaks at the end of main(), for which it needs /proc */
}

/* Files may be as long as this. What limits that already is left, as only root may raise it. */
static bool limit_files(rlim_t most)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) != 0)
        return false;
    limit.rlim_cur = most;
    return setrlimit(RLIMIT_FSIZE, &limit) == 0;
}

/* So many keys that a sweep is due, under a limit that lets records be written and .tokens only in part. */
static int many_keys(const char *uri)
{
    locker *l = open_counting(uri);
    if (l == NULL || !limit_files(LK_FILE_RECORD_SIZE))
        return NOT_OPEN;
    for (int i = 0; i < 1500; i++) {
        locker_handle *held;
        locker_error err;
        char key[16];
        snprintf(key, sizeof key, "%d", i);
        if (locker_lock(l, key, NULL, &held, &err) != LOCKER_OK || locker_unlock(held, &err) != LOCKER_OK)
            return NOT_GRANTED;
        locker_handle_free(held);
    }
    locker_close(l);
    return FINE;
}

static int no_room_for_a_record(const char *uri)
{
    locker *l = open_counting(uri);
    locker_handle *held;
    locker_error err;
    if (l == NULL || !limit_files(LK_FILE_RECORD_SIZE - 1))
        return NOT_OPEN;
    const bool told = locker_try_lock(l, "k", NULL, &held, &err) == LOCKER_UNAVAILABLE &&
                      strstr(err.text, "ulimit -f") != NULL;
    locker_close(l);
    return told ? FINE : WRONG_ANSWER;
}

/* The kernel does not tell who has what locked, as it may where memory is short. The only permit of "p" is another's. */
static int without_looks(const char *uri)
{
    struct sock_filter filter[] = {BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, SYS_fcntl, 0, 3),
                                   BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, args[1])),
                                   BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, F_OFD_GETLK, 0, 1),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | ENOMEM),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    const struct sock_fprog program = {sizeof filter / sizeof *filter, filter};
    locker_lock_options one = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    locker *l = open_counting(uri);
    if (l == NULL || prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) != 0 ||
        prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) != 0)
        return NOT_ALLOWED;
    one.permits = 1;
    const locker_status status = locker_try_lock(l, "p", &one, &held, &err);
    locker_close(l);
    return status == LOCKER_UNAVAILABLE ? FINE : WRONG_ANSWER;
}

static sem_t asked, answered;

static void *lock_once(void *l)
{
    locker_handle *held = NULL;
    locker_error err;
    sem_wait(&asked);
    (void)!locker_try_lock(l, "k", NULL, &held, &err);
    locker_handle_free(held);
    sem_post(&answered);
    return NULL;
}

/* As one that takes a mutex does while another thread holds that over a call of the library. */
static void wait_for_a_lock(void)
{
    sem_post(&asked);
    sem_wait(&answered);
}

/* The program's handler of forks was there before its first locker. */
static int with_handlers(const char *uri)
{
    pthread_t other;
    alarm(LK_TEST_PATIENCE_MS / 1000);
    if (sem_init(&asked, 0, 0) != 0 || sem_init(&answered, 0, 0) != 0 ||
        pthread_atfork(wait_for_a_lock, NULL, NULL) != 0)
        return NOT_ALLOWED;
    locker *l = open_counting(uri);
    if (l == NULL || pthread_create(&other, NULL, lock_once, l) != 0)
        return NOT_OPEN;
    const pid_t pid = fork();
    if (pid == 0)
        _exit(0);
    pthread_join(other, NULL);
    locker_close(l);
    return pid > 0 ? FINE : NOT_ALLOWED;
}

int lk_edge_play(int argc, char **argv)
{
    if (argc != 2)
        return 1;
    if (strcmp(argv[0], "streams") == 0)
        return without_streams(argv[1]);
    if (strcmp(argv[0], "main") == 0)
        return without_main_thread(argv[1]);
    if (strcmp(argv[0], "proc") == 0)
        return without_proc(argv[1]);
    if (strcmp(argv[0], "handlers") == 0)
        return with_handlers(argv[1]);
    if (strcmp(argv[0], "looks") == 0)
        return without_looks(argv[1]);
    return strcmp(argv[0], "keys") == 0 ? many_keys(argv[1]) : no_room_for_a_record(argv[1]);
}

static void plays(const lk_place *place, const char *edge)
{
    const int code = lk_child_end(lk_child_start("edge", (const char *[]){edge, place->uri, NULL}));
    if (code == NOT_ALLOWED)
        skip_reported(edge, "such surroundings can't be made here");
    assert_int_equal(code, FINE);
}

static void no_descriptor_is_below_three(void **state)
{
    plays(*state, "streams");
}

static void the_main_thread_may_end(void **state)
{
    plays(*state, "main");
}

static void events_need_no_proc(void **state)
{
    plays(*state, "proc");
}

static void a_file_size_limit_does_not_kill_the_process(void **state)
{
    lk_place *place = *state;
    plays(place, "keys");
    plays(place, "record");
}

static void a_lock_whose_state_is_unknown_is_held(void **state)
{
    lk_place *place = *state;
    locker_lock_options one = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    one.permits = 1;
    assert_ok(locker_lock(place->l, "p", &one, &held, &err), err);
    plays(place, "looks");
    lk_give(held);
}

static void a_fork_waits_for_its_handlers_first(void **state)
{
    plays(*state, "handlers");
}

static const struct CMUnitTest tests[] = {
    place_test(no_descriptor_is_below_three),
    place_test(the_main_thread_may_end),
    place_test(events_need_no_proc),
    place_test(a_file_size_limit_does_not_kill_the_process),
    place_test(a_lock_whose_state_is_unknown_is_held),
    place_test(a_fork_waits_for_its_handlers_first),
};

const lk_group lk_edges = {"edges", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
