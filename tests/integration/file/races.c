/*
 * races.c: what happens to a lock's file between two steps of the driver. The driver's own functions are
 * wrapped at link time, so that a test does it just there.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/resource.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include "directory.h"
#include "file_test.h"
#include "gate.h"
#include "holding.h"
#include "lockfile.h"
#include "locking.h"
#include "puppet.h"
#include "record.h"
#include "skips.h"
#include "sweep.h"
#include "tickets.h"

int __real_lk_file_range_lock(int fd, short type, off_t byte);
int __wrap_lk_file_range_lock(int fd, short type, off_t byte);
int __real_lk_file_range_unlock(int fd);
int __wrap_lk_file_range_unlock(int fd);
int64_t __real_lk_file_dispatch(void *self);
int64_t __wrap_lk_file_dispatch(void *self);
int __real_lk_file_parent(const lk_file *self, const lk_file_name *name, bool create);
int __wrap_lk_file_parent(const lk_file *self, const lk_file_name *name, bool create);
int __real_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to);
int __real_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);
int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags);

/* Once, before the next lock of a whole file is tried, or let go of. */
static void (*before_lock)(void);
/* Once, when a file is locked for one alone. */
static void (*_Atomic after_lock)(void);
static void (*_Atomic before_unlock)(void);
/* Before each mark of one who waits. */
static void (*before_mark)(void);

int __wrap_lk_file_range_lock(int fd, short type, off_t byte)
{
    void (*once)(void) = before_lock;
    if (once != NULL && type == F_WRLCK) {
        before_lock = NULL;
        once();
    }
    if (before_mark != NULL && type == F_RDLCK)
        before_mark();
    const int code = __real_lk_file_range_lock(fd, type, byte);
    once = code == 0 && type == F_WRLCK && byte == 0 ? atomic_exchange(&after_lock, NULL) : NULL;
    if (once != NULL)
        once();
    return code;
}

int __wrap_lk_file_range_unlock(int fd)
{
    void (*const once)(void) = atomic_exchange(&before_unlock, NULL);
    if (once != NULL)
        once();
    return __real_lk_file_range_unlock(fd);
}

int __real_lk_file_whole_lock(int fd, short type);
int __wrap_lk_file_whole_lock(int fd, short type);

/* Once, before a sweep locks the file that it has looked at. */
static void (*_Atomic before_sweeping)(void);
/* How often one who shared a file, or wanted to, has let go of it. */
static _Atomic unsigned times_let_go;

int __wrap_lk_file_whole_lock(int fd, short type)
{
    void (*const once)(void) = atomic_exchange(&before_sweeping, NULL);
    if (once != NULL)
        once();
    times_let_go += type == F_UNLCK;
    return __real_lk_file_whole_lock(fd, type);
}

/* Once, before a forced unlock puts its file in the place of the holder's, or says of one who shares it that it is broken. */
static void (*_Atomic before_rename)(void);
/* Once, when it has put it there. */
static void (*_Atomic after_replacing)(void);
/* Once, before a ticket comes to its name. */
static void (*_Atomic before_entering)(void);

int __wrap_renameat(int from_dir, const char *from, int to_dir, const char *to)
{
    const bool replaces = strncmp(from, LK_FILE_NEW_PREFIX, strlen(LK_FILE_NEW_PREFIX)) == 0;
    const bool breaks = replaces || from[0] == LK_FILE_RECORD_HELD;
    const bool enters = from[0] == '.' && strcmp(from + 1, to) == 0;
    void (*once)(void) = NULL;
    if (breaks)
        once = atomic_exchange(&before_rename, NULL);
    else if (enters)
        once = atomic_exchange(&before_entering, NULL);
    if (once != NULL)
        once();
    const int rc = __real_renameat(from_dir, from, to_dir, to);
    const int code = errno;
    once = replaces ? atomic_exchange(&after_replacing, NULL) : NULL;
    if (once != NULL)
        once();
    errno = code;
    return rc;
}

int __real_symlinkat(const char *text, int dir, const char *name);
int __wrap_symlinkat(const char *text, int dir, const char *name);

/* Once, before it is written down who holds beside others. */
static void (*_Atomic before_record)(void);

int __wrap_symlinkat(const char *text, int dir, const char *name)
{
    void (*const once)(void) = atomic_exchange(&before_record, NULL);
    if (once != NULL)
        once();
    return __real_symlinkat(text, dir, name);
}

/* Once, when a file that was made under another name has come to its own. */
static void (*_Atomic after_making)(void);

int __wrap_renameat2(int from_dir, const char *from, int to_dir, const char *to, unsigned flags)
{
    void (*const once)(void) = atomic_exchange(&after_making, NULL);
    const int rc = __real_renameat2(from_dir, from, to_dir, to, flags);
    const int code = errno;
    if (once != NULL)
        once();
    errno = code;
    return rc;
}

/* Once, when the directory of a file is open and the file not yet. */
static void (*_Atomic after_parent)(void);

int __wrap_lk_file_parent(const lk_file *self, const lk_file_name *name, bool create)
{
    void (*const once)(void) = atomic_exchange(&after_parent, NULL);
    const int fd = __real_lk_file_parent(self, name, create);
    if (once != NULL)
        once();
    return fd;
}

/* The instance of the locker that dispatched last. */
static void *_Atomic instance;

/* While a test has it, this process hears of nothing. */
static pthread_mutex_t hearing = PTHREAD_MUTEX_INITIALIZER;
/* How often it would have, since a test began to have it. */
static _Atomic unsigned times_deaf;

int64_t __wrap_lk_file_dispatch(void *self)
{
    times_deaf++;
    pthread_mutex_lock(&hearing);
    pthread_mutex_unlock(&hearing);
    instance = self;
    return __real_lk_file_dispatch(self);
}

static void hear_nothing(void)
{
    pthread_mutex_lock(&hearing);
    times_deaf = 0;
}

static bool is_deaf(void *unused)
{
    (void)unused;
    return times_deaf > 0;
}

static void hear_again(void)
{
    pthread_mutex_unlock(&hearing);
}

/* ------------------------------------------------------------------ the tests ---- */

static lk_place *here;

static void remove_it(void)
{
    (void)unlink(lk_place_file(here, "k.lock"));
}

static void move_it(void)
{
    char away[200];
    (void)snprintf(away, sizeof away, "%s/away", here->locks);
    (void)rename(lk_place_file(here, "k.lock"), away);
}

static void break_it(void)
{
    locker_error err;
    assert_ok(locker_break(here->l, "k", NULL, NULL, &err), err);
}

static void remove_queue(void)
{
    char command[200];
    (void)snprintf(command, sizeof command, "rm -r %s/.queue-*", here->locks);
    assert_int_equal(system(command), 0);
    times_let_go = 0;
}

static void nobody_else_gets_it(lk_place *place)
{
    locker *other = lk_place_open(place);
    locker_handle *none;
    locker_error err;
    assert_status(LOCKER_BUSY, locker_try_lock(other, "k", NULL, &none, &err), err);
    locker_close(other);
}

static void a_file_that_goes_between_open_and_lock_is_not_used(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    (void)lk_place_token(place, "k");
    before_lock = remove_it;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_null(before_lock);
    nobody_else_gets_it(place);
    lk_give(held);
}

/* A sweep of another process would do the same. */
static lk_file *sweeper;

static void sweep_it(void)
{
    static const lk_file_sweep_limits all = {.list = 1000};
    (void)lk_file_sweep_part(sweeper, &all, 0);
}

static bool has_instance(void *unused)
{
    (void)unused;
    return instance != NULL;
}

/* Have sweeps made by the place's own instance, and give a token of its key. */
static uint64_t prepare_sweeps(lk_place *place)
{
    instance = sweeper = NULL;
    const uint64_t token = lk_place_token(place, "k");
    lk_require(has_instance, NULL, "the keeper dispatches");
    sweeper = instance;
    return token;
}

/* One who came to a file before it was swept away, whatever it wanted with it. */
static void a_file_that_is_swept_between_open_and_lock_is_not_used(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    struct stat s;
    char key[251] = "";
    (void)memset(key, 'x', sizeof key - 1);
    const uint64_t last = prepare_sweeps(place), last_of_long = lk_place_token(place, key);
    before_lock = sweep_it;
    assert_ok(locker_try_lock(place->l, "k", NULL, &held, &err), err);
    assert_null(before_lock);
    assert_true(locker_handle_token(held) > last);
    assert_int_equal(stat(lk_place_file(place, "k.lock"), &s), 0);
    nobody_else_gets_it(place);
    lk_give(held);
    /* Its directory goes as well, before the file is opened. */
    after_parent = sweep_it;
    assert_ok(locker_try_lock(place->l, key, NULL, &held, &err), err);
    assert_true(locker_handle_token(held) > last_of_long);
    lk_give(held);
}

/* Who has byte 0 when the waiter comes, and the sweep that comes when that lets go. */
static int other_holder, other_sweep;

static void let_a_sweep_come_and_go(void)
{
    if (other_holder >= 0) {
        (void)close(other_holder);
        other_holder = -1;
        (void)__real_lk_file_whole_lock(other_sweep, F_WRLCK);
    } else if (other_sweep >= 0) {
        (void)close(other_sweep);
        other_sweep = -1;
    }
}

/* The holder lets go, and a sweep locks the file, before the one that will wait has its mark. */
static void a_call_about_to_wait_waits_for_a_sweep(void **state)
{
    lk_place *place = here = *state;
    lk_locking waiter;
    (void)lk_place_token(place, "k");
    const char *path = lk_place_file(place, "k.lock");
    other_holder = open(path, O_RDWR | O_CLOEXEC);
    other_sweep = open(path, O_RDWR | O_CLOEXEC);
    assert_int_equal(__real_lk_file_range_lock(other_holder, F_WRLCK, 0), 0);
    before_mark = let_a_sweep_come_and_go;
    lk_locking_start(&waiter, place->l, "k", NULL);
    const locker_status status = lk_locking_join(&waiter);
    before_mark = NULL;
    assert_status(LOCKER_OK, status, waiter.err);
    assert_int_equal(other_sweep, -1);
    lk_give(waiter.held);
}

static int somebody; /* has the removed file locked, for the moment in which it does not know */

static void remove_and_lock_it(void)
{
    somebody = open(lk_place_file(here, "k.lock"), O_RDWR | O_CLOEXEC);
    (void)__real_lk_file_range_lock(somebody, F_WRLCK, 0);
    remove_it();
}

static void a_call_that_locks_a_removed_file_holds_nothing(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    (void)lk_place_token(place, "k");
    before_lock = remove_and_lock_it;
    assert_ok(locker_try_lock(place->l, "k", NULL, &held, &err), err);
    (void)close(somebody);
    nobody_else_gets_it(place);
    lk_give(held);
}

static locker_handle *taken;

static void have_another(void)
{
    locker_error err;
    remove_it();
    assert_ok(locker_try_lock(here->l, "k", NULL, &taken, &err), err);
}

static void have_used(void)
{
    (void)lk_place_token(here, "k");
}

/* The file that a sweep has looked at is used once more, or is another by the time that it is locked. */
static void a_sweep_removes_only_files_it_has_checked(void **state)
{
    lk_place *place = here = *state;
    struct stat s;
    const uint64_t last = prepare_sweeps(place);
    before_sweeping = have_used;
    sweep_it();
    assert_null(before_sweeping);
    assert_int_equal(stat(lk_place_file(place, "k.lock"), &s), 0);
    before_sweeping = have_another;
    sweep_it();
    assert_null(before_sweeping);
    assert_int_equal(stat(lk_place_file(place, "k.lock"), &s), 0);
    assert_true(locker_handle_token(taken) > last);
    lk_give(taken);
}

/* A lock that is held, and one who waits for it in the same locker, who is next. The clock stands still: it looks at
 * nothing by itself. */
struct next_in_line {
    locker *l;
    locker_handle *held;
    lk_locking waiter;
};

static void line_up(struct next_in_line *line, locker *l, const char *key)
{
    locker_error err;
    *line = (struct next_in_line){.l = l};
    lk_clock_stop();
    assert_ok(locker_lock(l, key, NULL, &line->held, &err), err);
    lk_locking_start(&line->waiter, l, key, NULL);
    lk_require_waiting(l, 1);
}

/* Judged only when this process hears again: a test that fails has to end. */
static locker_status unlock_and_hear(locker_handle *held, bool deaf, locker_error *err)
{
    const locker_status status = locker_unlock(held, err);
    if (deaf)
        hear_again();
    return status;
}

/* The unlock finds out that the lock is not ours any more; the waiter gets only what is at the name. */
static void lost_to_all(struct next_in_line *line, bool deaf, locker_status waiter)
{
    locker_error err;
    const locker_status unlocked = unlock_and_hear(line->held, deaf, &err);
    lk_clock_go(0);
    assert_status(LOCKER_LOST, unlocked, err);
    assert_status(waiter, lk_locking_join(&line->waiter), line->waiter.err);
    locker_handle_free(line->held);
}

/* The holder was broken and has not heard of it: its unlock finds that out, and hands nothing on. */
static void a_broken_lock_is_not_handed_on(void **state)
{
    lk_place *place = *state;
    locker *other = lk_place_open(place);
    struct next_in_line line;
    locker_error err;
    line_up(&line, place->l, "k");
    hear_nothing();
    assert_ok(locker_break(other, "k", NULL, NULL, &err), err);
    lost_to_all(&line, true, LOCKER_OK);
    nobody_else_gets_it(place);
    locker_handle_free(line.waiter.held);
    locker_close(other);
}

/* A file that was moved keeps its link: it is the watch that tells, here at the last moment. */
static void a_moved_lock_is_not_handed_on(void **state)
{
    lk_place *place = here = *state;
    struct next_in_line line;
    line_up(&line, place->l, "k");
    move_it();
    lost_to_all(&line, false, LOCKER_OK);
    nobody_else_gets_it(place);
    locker_handle_free(line.waiter.held);
}

static void move_it_back(void)
{
    char away[200];
    (void)snprintf(away, sizeof away, "%s/away", here->locks);
    assert_int_equal(rename(away, lk_place_file(here, "k.lock")), 0);
}

/* A key whose file lies in a directory below the lock directory. */
static const char *deep(void)
{
    static char key[251];
    (void)memset(key, 'x', sizeof key - 1);
    return key;
}

static void move_the_deep_one_for_a_while(void)
{
    char file[400], away[400];
    (void)snprintf(file, sizeof file, "%s/%.240s.d/%s.lock", here->locks, deep(), deep() + 240);
    (void)snprintf(away, sizeof away, "%s/%.240s.d/away", here->locks, deep());
    assert_int_equal(rename(file, away), 0);
    assert_int_equal(rename(away, file), 0);
}

static void move_it_for_a_while(void)
{
    move_it();
    move_it_back();
}

static void move_all(void)
{
    static int moves;
    char away[100];
    (void)snprintf(away, sizeof away, "%s/away%d", here->base, moves++);
    assert_int_equal(rename(here->locks, away), 0);
}

static void move_all_for_a_while(void)
{
    char away[100];
    (void)snprintf(away, sizeof away, "%s/away", here->base);
    assert_int_equal(rename(here->locks, away), 0);
    assert_int_equal(rename(away, here->locks), 0);
}

/* Meanwhile others can have had a lock directory of their own at the path. */
static void move_above_for_a_while(void)
{
    char away[100];
    (void)snprintf(away, sizeof away, "%s-away", here->base);
    assert_int_equal(rename(here->base, away), 0);
    assert_int_equal(rename(away, here->base), 0);
}

/* Ways to move a lock's file, and the status that a waiting call then returns. */
static const struct {
    void (*move)(void);
    locker_status waiter;
} moves[] = {{move_it, LOCKER_OK},
             {move_it_for_a_while, LOCKER_OK},
             {move_all, LOCKER_UNAVAILABLE},
             {move_all_for_a_while, LOCKER_UNAVAILABLE},
             {move_above_for_a_while, LOCKER_UNAVAILABLE}};

/* It was moved away and removed there, and made again: the directories above are watched as before. */
static void a_directory_made_again_is_watched_from_above(void **state)
{
    lk_place *place = here = *state;
    locker *l = lk_place_open(place);
    locker_handle *held;
    locker_error err;
    char away[100];
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    (void)snprintf(away, sizeof away, "%s/away", place->base);
    assert_int_equal(rename(place->locks, away), 0);
    lk_give_lost(held);
    lk_remove_directory(away);
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    hear_nothing();
    move_above_for_a_while();
    assert_status(LOCKER_LOST, unlock_and_hear(held, true, &err), err);
    locker_handle_free(held);
    locker_close(l);
}

/* The driver is on its way to a grant, and nobody holds who could be told of the loss. */
static void nothing_is_granted_once_the_directory_was_away(void **state)
{
    lk_place *place = here = *state;
    locker_handle *none;
    locker_error err;
    (void)lk_place_token(place, "k");
    before_lock = move_all_for_a_while;
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(place->l, "k", NULL, &none, &err), err);
    assert_non_null(strstr(err.text, "moved"));
}

int __real_lk_file_directory_compare(const lk_file *self);
int __wrap_lk_file_directory_compare(const lk_file *self);
int __real_stat(const char *path, struct stat *s);
int __wrap_stat(const char *path, struct stat *s);

/* Once each, when the directory was found removed: before that is noted, and before it is seen whether something is held. */
static void (*_Atomic after_comparing)(void);
static void (*_Atomic before_looking_who_holds)(void);

int __wrap_lk_file_directory_compare(const lk_file *self)
{
    const int code = __real_lk_file_directory_compare(self);
    void (*const once)(void) = code == ESTALE ? atomic_exchange(&after_comparing, NULL) : NULL;
    if (once != NULL)
        once();
    return code;
}

int __wrap_stat(const char *path, struct stat *s)
{
    void (*const once)(void) =
        strcmp(path, "/") == 0 ? atomic_exchange(&before_looking_who_holds, NULL) : NULL;
    if (once != NULL)
        once();
    return __real_stat(path, s);
}

static locker_handle *others;

static void another_thread_is_faster(void)
{
    locker_error err;
    assert_ok(locker_try_lock(here->l, "other", NULL, &others, &err), err);
}

/* One of them makes it again, and holds a lock there by the time that the other goes on. */
static void two_threads_meet_a_removed_directory(void **state)
{
    lk_place *place = here = *state;
    for (int i = 0; i < 2; i++) {
        locker_handle *held;
        locker_error err;
        lk_remove_directory(place->locks);
        if (i == 0)
            after_comparing = another_thread_is_faster;
        else
            before_looking_who_holds = another_thread_is_faster;
        assert_ok(locker_try_lock(place->l, "k", NULL, &held, &err), err);
        lk_give(others);
        lk_give(held);
    }
}

/* The forked child lives until the test closes the standard input that it has from its parent. A child closes its copies of lock files
 * when it first runs, so the parent waits for that: the child closes its end of a pipe then. */
static void have_a_child(void)
{
    char nothing;
    int runs[2];
    assert_int_equal(pipe2(runs, O_CLOEXEC), 0);
    if (fork() == 0) {
        close(runs[1]);
        (void)!read(STDIN_FILENO, &nothing, 1);
        _exit(0);
    }
    close(runs[1]);
    (void)!read(runs[0], &nothing, 1); /* until its end */
    close(runs[0]);
}

/* A process that forks while it is about to lock, is granted the lock right behind that, and dies. */
int lk_about_play(int argc, char **argv)
{
    locker *l;
    locker_handle *held;
    locker_error err;
    if (argc != 1 || locker_open(argv[0], NULL, &l, &err) != LOCKER_OK)
        return 1;
    before_lock = have_a_child;
    _exit((int)locker_lock(l, "k", NULL, &held, &err));
}

static void a_call_about_to_lock_leaves_nothing_to_a_child(void **state)
{
    lk_place *place = *state;
    locker_handle *held;
    locker_error err;
    siginfo_t ended;
    lk_child *const child = lk_child_start("about", (const char *[]){place->uri, NULL});
    assert_int_equal(waitid(P_PID, (id_t)child->pid, &ended, WEXITED | WNOWAIT), 0);
    const locker_status status = locker_try_lock(place->l, "k", NULL, &held, &err);
    assert_int_equal(lk_child_end(child), 0);
    assert_status(LOCKER_OK, status, err);
    lk_give(held);
}

/* Nobody has read the event by the time of the unlock: it reads it itself. */
static void an_unlock_notices_a_move(void **state)
{
    lk_place *place = here = *state;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        locker *l = lk_place_open(place);
        locker_handle *held;
        locker_error err;

        assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
        hear_nothing();
        moves[i].move();
        assert_status(LOCKER_LOST, unlock_and_hear(held, true, &err), err);
        locker_handle_free(held);
        locker_close(l);
    }
}

/* One of the directories that a long name is cut into is moved and put back: the outermost, and each in it. */
static void an_unlock_notices_a_move_within_a_long_name(void **state)
{
    lk_place *place = *state;
    char key[LOCKER_KEY_MAX + 1] = "", part[256] = "/", path[1024], away[1032];
    (void)memset(key, '%', LOCKER_KEY_MAX);
    for (int i = 0; i < 80; i++)
        (void)strcat(part, "%25");
    (void)strcat(part, ".d");
    (void)snprintf(path, sizeof path, "%s", place->locks);
    for (int depth = 1; depth <= 3; depth++) {
        locker *l = lk_place_open(place);
        locker_handle *held;
        locker_error err;
        (void)strcat(path, part);
        (void)snprintf(away, sizeof away, "%s-away", path);
        assert_ok(locker_lock(l, key, NULL, &held, &err), err);
        hear_nothing();
        assert_int_equal(rename(path, away), 0);
        assert_int_equal(rename(away, path), 0);
        assert_status(LOCKER_LOST, unlock_and_hear(held, true, &err), err);
        locker_handle_free(held);
        locker_close(l);
    }
}

/* The directory's watch does not see it: the file's own does. */
static void an_unlock_notices_a_move_below_the_directory(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(place->l, deep(), NULL, &held, &err), err);
    hear_nothing();
    move_the_deep_one_for_a_while();
    assert_status(LOCKER_LOST, unlock_and_hear(held, true, &err), err);
    locker_handle_free(held);
}

/* Before the locker knows of it, and has let go of what it holds there. */
static void a_directory_is_not_made_again_while_locks_are_held(void **state)
{
    lk_place *place = *state;
    char command[200];
    locker_handle *held, *none;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    hear_nothing();
    (void)snprintf(command, sizeof command, "rm -r %s", place->locks);
    assert_int_equal(system(command), 0);
    const bool waits = lk_until(is_deaf, NULL, LK_TEST_PATIENCE_MS); /* the keeper lets go of nothing */
    const locker_status status = locker_try_lock(place->l, "other", NULL, &none, &err);
    const bool is_made = access(place->locks, F_OK) == 0;
    hear_again();
    assert_true(waits);
    assert_status(LOCKER_UNAVAILABLE, status, err);
    assert_non_null(strstr(err.text, "unlock the lost locks"));
    assert_false(is_made);
    lk_give_lost(held);
}

struct attempted {
    locker *l;
    uint64_t before;
};

static bool has_failed_once_more(void *context)
{
    const struct attempted *a = context;
    locker_statistics now = lk_stats(a->l);
    return now.attempts > a->before && now.waiting == 1;
}

/* It waits, or has the lock. */
static bool has_tried_once_more(void *context)
{
    const struct attempted *a = context;
    locker_statistics now = lk_stats(a->l);
    return now.attempts > a->before && now.waiting + now.held > 0;
}

static locker_handle *share(locker *l)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    options.mode = LOCKER_SHARED;
    assert_ok(locker_lock(l, "k", &options, &held, &err), err);
    return held;
}

/* The file is the one at the name, and another's, too: who was broken finds that out by itself. */
static void an_unlock_finds_that_its_part_was_broken(void **state)
{
    lk_place *place = *state;
    locker *l = lk_place_open(place);
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    locker_handle *first = share(l), *second = share(place->l);
    only.token = locker_handle_token(first);
    hear_nothing();
    assert_ok(locker_break(place->l, "k", &only, NULL, &err), err);
    assert_status(LOCKER_LOST, unlock_and_hear(first, true, &err), err);
    locker_handle_free(first);
    lk_give(second);
    locker_close(l);
}

static locker *newcomer;

static void try_to_share(void)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *none;
    locker_error err;
    options.mode = LOCKER_SHARED;
    options.wait_ms = 1; /* a try would look for the break first */
    assert_status(LOCKER_TIMEOUT, locker_lock(newcomer, "k", &options, &none, &err), err);
}

/* A break that has looked at those who share it breaks them, and none that came since. */
static void no_reader_enters_while_readers_are_broken(void **state)
{
    lk_place *place = *state;
    locker_error err;
    locker_handle *held = share(place->l);
    newcomer = lk_place_open(place);
    before_rename = try_to_share;
    assert_ok(locker_break(newcomer, "k", NULL, NULL, &err), err);
    assert_null(before_rename);
    lk_give(share(newcomer));
    lk_give_lost(held);
    locker_close(newcomer);
}

static lk_locking trying;

/* It has met the break before that goes on. */
static void start_asking(locker_mode mode, int64_t wait_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.mode = mode;
    options.wait_ms = wait_ms;
    lk_locking_start(&trying, newcomer, "k", &options);
    usleep(10 * 1000);
}

static void start_a_try(void)
{
    start_asking(LOCKER_SHARED, 0);
}

static void start_to_wait(void)
{
    start_asking(LOCKER_EXCLUSIVE, -1);
}

/* A break lasts for a moment, and the lock is free then. */
static void a_try_waits_for_a_break(void **state)
{
    lk_place *place = *state;
    locker_error err;
    locker_handle *held = share(place->l);
    newcomer = lk_place_open(place);
    before_rename = start_a_try;
    assert_ok(locker_break(place->l, "k", NULL, NULL, &err), err);
    assert_null(before_rename);
    const locker_status status = lk_locking_join(&trying);
    assert_unless_late(status == LOCKER_OK);
    if (status == LOCKER_OK)
        lk_give(trying.held);
    lk_give_lost(held);
    lk_close_locker(newcomer);
}

/* Where all who have permits were broken, the first call puts a fresh file in the place of theirs, and another call comes meanwhile. */
static void a_call_that_meets_the_replacement_of_a_broken_file_is_not_refused(void **state)
{
    lk_place *place = *state;
    locker_handle *held, *next;
    locker_error err;
    lk_child *const stopped = lk_puppet_start(place->uri);
    locker_lock_options two = LOCKER_LOCK_OPTIONS_INIT;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    two.permits = 2;
    assert_ok(locker_lock(place->l, "k", &two, &held, &err), err);
    assert_int_equal(lk_puppet_take(stopped, "k", &two), LOCKER_OK);
    lk_child_stop(stopped);
    only.token = locker_handle_token(held);
    lk_break_the_other(place, only.token); /* the file stays, as one holds it still */
    lk_give(held);
    newcomer = lk_place_open(place);
    before_rename = start_to_wait;
    const locker_status status = locker_try_lock(place->l, "k", NULL, &next, &err);
    assert_null(before_rename);
    if (status == LOCKER_OK)
        lk_give(next);
    else
        assert_status(LOCKER_BUSY, status, err); /* the other was faster */
    lk_give(lk_locking_grant(&trying));
    lk_child_signal(stopped, SIGCONT);
    assert_int_equal(lk_puppet_unlock(stopped), LOCKER_LOST);
    assert_int_equal(lk_child_end(stopped), 0);
    lk_close_locker(newcomer);
}

static lk_locking permitted;

static bool has_tried(void *l)
{
    const locker_statistics stats = lk_stats(l);
    return stats.attempts >= 2 || stats.failed > 0;
}

static void want_a_permit(void)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.permits = 2;
    lk_locking_start(&permitted, newcomer, "k", &options);
    assert_true(lk_until(has_tried, newcomer, LK_TEST_PATIENCE_MS));
}

/* While a break replaces the file, no claim can take the new file. A call that arrives then must not be refused as another kind. */
static void a_call_for_a_permit_during_a_break_gets_it(void **state)
{
    lk_place *place = *state;
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held;
    locker_error err;
    options.permits = 2;
    assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
    newcomer = lk_place_open(place);
    after_replacing = want_a_permit;
    assert_ok(locker_break(newcomer, "k", NULL, NULL, &err), err);
    assert_null(atomic_load(&after_replacing));
    lk_give(lk_locking_grant(&permitted));
    lk_give_lost(held);
    locker_close(newcomer);
}

static locker *breaker;
static uint64_t ended;

static void break_the_newest(void)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    assert_ok(locker_show(breaker, "k", &info, &err), err);
    assert_int_equal(info.holders_len, 2);
    ended = only.token = locker_info_holder(&info, 1)->token;
    locker_info_clear(&info);
    assert_ok(locker_break(breaker, "k", &only, NULL, &err), err);
}

/* Others have gone past a reader in line, and the last of them took the empty queue away. */
static void a_reader_whose_queue_was_removed_enters(void **state)
{
    lk_place *place = here = *state;
    locker_lock_options share = LOCKER_LOCK_OPTIONS_INIT;
    locker *other = lk_place_open(place);
    locker_handle *held;
    lk_locking reader;
    locker_error err;
    share.mode = LOCKER_SHARED;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&reader, other, "k", &share);
    lk_require_waiting(other, 1);
    before_record = remove_queue;
    lk_give(held);
    held = lk_locking_grant(&reader);
    assert_null(before_record);
    assert_int_equal(times_let_go, 0);
    assert_ok(locker_break(place->l, "k", NULL, NULL, &err),
              err); /* who is told has its ticket and its record */
    lk_give_lost(held);
    lk_close_locker(other);
}

/* It has said that it holds, and does not yet, so no word of the break can reach it: another may have its slot by now. */
static void a_call_broken_during_its_grant_does_not_hold(void **state)
{
    lk_place *place = *state;
    locker *l = lk_place_open(place);
    locker_handle *held = share(place->l);
    breaker = place->l;
    before_entering = break_the_newest;
    locker_handle *next = share(l);
    assert_null(atomic_load(&before_entering));
    assert_true(locker_handle_token(next) > ended);
    lk_give(next);
    lk_give(held);
    locker_close(l);
}

static struct {
    locker_status broken, shown;
    locker_info info;
} met;

static void break_none(void)
{
    const locker_break_options only = {.size = sizeof only, .token = ended};
    met.broken = locker_break(breaker, "k", &only, NULL, NULL);
    met.info = (locker_info)LOCKER_INFO_INIT;
    met.shown = locker_show(breaker, "k", &met.info, NULL);
}

/* One that is about to let go has its answer, so a break of it says nothing else, and a look does not say that it holds: it may be
 * another by now, who says nothing yet. */
static void a_break_of_a_holder_that_unlocks_takes_nothing(void **state)
{
    lk_place *place = *state;
    locker_handle *held = share(place->l);
    breaker = lk_place_open(place);
    ended = locker_handle_token(held);
    before_sweeping = break_none;
    lk_give(held);
    assert_null(before_sweeping);
    assert_int_equal(met.broken, LOCKER_BUSY);
    assert_int_equal(met.shown, LOCKER_OK);
    assert_true(met.info.held);
    assert_string_equal(met.info.owner, "");
    assert_int_equal(met.info.token, 0);
    locker_info_clear(&met.info);
    locker_close(breaker);
}

/* It comes back to its turn, and one that came when nobody seemed to want the lock has it for itself. */
static void a_permit_waiter_waits_for_an_exclusive_lock_as_well(void **state)
{
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 2000}, {.tv_sec = time(NULL) - 2000}};
    lk_place *place = *state;
    locker *other = lk_place_open(place);
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held, *alone = NULL;
    locker_error err;
    options.permits = 1;
    newcomer = lk_place_open(place);
    assert_ok(locker_lock(place->l, "k", &options, &held, &err), err);
    lk_clock_stop(); /* the waiter looks when it is told, and not before */
    lk_locking_start(&permitted, newcomer, "k", &options);
    lk_require_waiting(newcomer, 1);
    hear_nothing();
    struct attempted again = {newcomer, lk_stats(newcomer).attempts};
    const locker_status unlocked = locker_unlock(held, &err);
    const int touched = utimensat(AT_FDCWD, lk_place_file(place, "k.lock"), old, 0);
    const locker_status came = locker_try_lock(other, "k", NULL, &alone, &err);
    hear_again();
    assert_int_equal(unlocked, LOCKER_OK);
    assert_int_equal(touched, 0);
    assert_status(LOCKER_OK, came, err);
    lk_require(has_failed_once_more, &again, "the waiter should try, and go on waiting");
    lk_give(alone);
    lk_give(lk_locking_grant(&permitted));
    lk_clock_go(0);
    locker_handle_free(held);
    lk_close_locker(other);
    lk_close_locker(newcomer);
}

static void nothing_is_handed_on_after_a_move(void **state)
{
    lk_place *place = here = *state;
    for (size_t i = 0; i < sizeof moves / sizeof *moves; i++) {
        locker *l = lk_place_open(place);
        struct next_in_line line;

        line_up(&line, l, "k");
        hear_nothing();
        moves[i].move();
        lost_to_all(&line, true, moves[i].waiter);
        locker_handle_free(line.waiter.held);
        locker_close(l);
    }
}

/* While it was away, another directory with other locks may have been at its path. */
static void all_locks_of_a_directory_moved_for_a_while_are_lost(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    hear_nothing();
    move_all_for_a_while();
    hear_again();
    lk_require_state(held, LOCKER_STATE_LOST);
    locker_handle_free(held);
}

/* While its file was away another was granted the lock. */
static void a_file_that_was_away_is_a_lost_lock(void **state)
{
    lk_place *place = here = *state;
    locker *other = lk_place_open(place);
    locker_handle *held, *next;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    hear_nothing();
    move_it();
    assert_ok(locker_try_lock(other, "k", NULL, &next, &err), err);
    move_it_back();
    assert_status(LOCKER_LOST, unlock_and_hear(held, true, &err), err);
    locker_handle_free(held);
    locker_handle_free(next);
    locker_close(other);
}

/* An event that came before the grant is about another. */
static void a_file_that_went_before_the_grant_is_no_loss(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    (void)lk_place_token(place, "k"); /* from now on the directory is watched */
    hear_nothing();
    remove_it();
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_ok(locker_unlock(held, &err), err);
    hear_again();
    locker_handle_free(held);
}

/* The holder is stopped and lets go of nothing. */
/* Its first grant begins to watch, and the break comes right before that: the look at the file comes behind it. */
static void a_lock_broken_before_its_watch_is_lost(void **state)
{
    lk_place *place = here = *state;
    locker *l = lk_place_open(place);
    locker_handle *held;
    locker_error err;
    lk_before_inotify = break_it;
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    assert_null(lk_before_inotify);
    lk_expect_busy(place->l, "k");
    lk_give(held);
    locker_close(l);
}

static void a_waiter_follows_the_name(void **state)
{
    static void (*const takings[])(void) = {move_it, break_it};
    lk_place *place = here = *state;
    for (size_t i = 0; i < sizeof takings / sizeof *takings; i++) {
        lk_child *holder = lk_puppet_start(place->uri);
        locker *other = lk_place_open(place);
        lk_locking waiter;

        assert_int_equal(lk_puppet_lock(holder, "k", -1, 0, true, NULL), LOCKER_OK);
        lk_child_stop(holder);
        lk_locking_start(&waiter, other, "k", NULL);
        lk_require_waiting(other, 1);
        takings[i]();
        assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
        nobody_else_gets_it(place);
        locker_handle_free(waiter.held);
        lk_child_kill(holder);
        locker_close(other);
    }
}

/* The old file is moved away and let go of, and the waiter hears of neither before it tries again. */
static void a_waiter_takes_no_file_that_was_moved(void **state)
{
    lk_place *place = here = *state;
    lk_child *holder = lk_puppet_start(place->uri);
    lk_locking waiter;
    assert_int_equal(lk_puppet_lock(holder, "k", -1, 0, true, NULL), LOCKER_OK);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    lk_child_stop(holder);
    hear_nothing();
    move_it();
    lk_child_kill(holder);
    hear_again();
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    nobody_else_gets_it(place);
    locker_handle_free(waiter.held);
}

/* ------------------------------------------------------------------ the whole path ---- */

/* A directory of its own for the one that has the lock directory. */
static lk_place place_below(const lk_place *place)
{
    lk_place below = {.l = NULL};
    (void)snprintf(below.base, sizeof below.base, "%.50s/up", place->base);
    (void)snprintf(below.locks, sizeof below.locks, "%s/locks", below.base);
    (void)snprintf(below.uri, sizeof below.uri, "file://%s", below.locks);
    assert_int_equal(mkdir(below.base, 0700), 0);
    below.l = lk_place_open(&below);
    return below;
}

static bool move_parent(const lk_place *below)
{
    char away[100];
    (void)snprintf(away, sizeof away, "%s-away", below->base);
    assert_int_equal(rename(below->base, away), 0);
    return mkdir(below->base, 0700) == 0;
}

static bool mount_over(const lk_place *below)
{
    return mount("tmpfs", below->locks, "tmpfs", MS_NOSUID | MS_NODEV, "size=64k,mode=0700") == 0;
}

static bool link_elsewhere(const lk_place *below)
{
    return move_parent(below) && rmdir(below->base) == 0 && symlink("/", below->base) == 0;
}

/* The first of the directories that a long name is cut into. */
static bool move_part(const lk_place *below)
{
    char part[LOCKER_KEY_MAX + 1] = "", from[400], to[400];
    (void)memset(part, 'x', 240);
    (void)snprintf(from, sizeof from, "%s/%s.d", below->locks, part);
    (void)snprintf(to, sizeof to, "%s/elsewhere", below->locks);
    return rename(from, to) == 0;
}

static void put_back(const lk_place *below)
{
    char away[100];
    (void)umount2(below->locks, MNT_DETACH);
    (void)snprintf(away, sizeof away, "%s-away", below->base);
    (void)unlink(below->base);
    lk_remove_directory(below->base);
    lk_remove_directory(away);
}

/* Ways to change the path, and the status that a waiting call then returns. */
static const struct {
    bool (*make)(const lk_place *below);
    locker_status waiter;
} changes[] = {{move_parent, LOCKER_UNAVAILABLE},
               {mount_over, LOCKER_UNAVAILABLE},
               {link_elsewhere, LOCKER_UNAVAILABLE},
               {move_part, LOCKER_OK}};

/* What no event of the lock directory tells is noticed by a look, and by the unlock that comes before it. */
static void a_holder_notices_a_change_of_the_path(void **state)
{
    for (size_t i = 0; i < 2 * sizeof changes / sizeof *changes; i++) {
        lk_place below = place_below(*state);
        char key[251] = "";
        locker_handle *held;
        locker_error err;
        bool deaf = i % 2 != 0;

        (void)memset(key, 'x', sizeof key - 1);
        assert_ok(locker_lock(below.l, key, NULL, &held, &err), err);
        if (deaf)
            hear_nothing();
        if (!changes[i / 2].make(&below)) {
            if (deaf)
                hear_again();
            print_message("way %zu is not to be had here: %s\n", i / 2, strerror(errno));
        } else {
            if (!deaf)
                lk_require_state(held, LOCKER_STATE_LOST);
            assert_status(LOCKER_LOST, unlock_and_hear(held, deaf, &err), err);
        }
        locker_handle_free(held);
        locker_close(below.l);
        put_back(&below);
    }
}

static void nothing_is_handed_on_after_a_change_of_the_path(void **state)
{
    for (size_t i = 0; i < sizeof changes / sizeof *changes; i++) {
        lk_place below = place_below(*state);
        char key[251] = "";
        struct next_in_line line;

        (void)memset(key, 'x', sizeof key - 1);
        line_up(&line, below.l, key);
        hear_nothing();
        if (changes[i].make(&below)) {
            lost_to_all(&line, true, changes[i].waiter);
        } else {
            hear_again();
            assert_ok(locker_unlock(line.held, &line.waiter.err), line.waiter.err);
            assert_status(LOCKER_OK, lk_locking_join(&line.waiter), line.waiter.err);
            locker_handle_free(line.held);
        }
        locker_handle_free(line.waiter.held);
        locker_close(below.l);
        put_back(&below);
    }
}

/* Nothing was watched yet. */
static void nothing_is_granted_in_a_moved_directory(void **state)
{
    static bool (*const ways[])(const lk_place *) = {move_parent, mount_over, link_elsewhere};
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lk_place below = place_below(*state);
        locker_info info = LOCKER_INFO_INIT;
        locker_handle *none;
        locker_error err;

        if (ways[i](&below)) {
            assert_status(LOCKER_UNAVAILABLE, locker_lock(below.l, "k", NULL, &none, &err), err);
            assert_non_null(strstr(err.text, "moved"));
            assert_status(LOCKER_UNAVAILABLE, locker_try_lock(below.l, "k", NULL, &none, &err), err);
            assert_status(LOCKER_UNAVAILABLE, locker_ping(below.l, NULL, &err), err);
            assert_status(LOCKER_UNAVAILABLE, locker_show(below.l, "k", &info, &err), err);
            assert_status(LOCKER_UNAVAILABLE, locker_break(below.l, "k", NULL, NULL, &err), err);
        }
        locker_close(below.l);
        put_back(&below);
    }
}

/* It never held anything, so nothing told it; then the holder lets go of what is its no more. */
static void a_waiter_gets_nothing_in_a_moved_directory(void **state)
{
    lk_place *place = here = *state;
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker *other = lk_place_open(place);
    lk_locking waiter;
    locker_handle *held, *none;
    locker_error err;
    options.wait_ms = 1500;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, other, "k", &options);
    lk_require_waiting(other, 1);
    move_all();
    assert_status(LOCKER_LOST, locker_unlock(held, &err), err);
    assert_unless_late(lk_locking_join(&waiter) ==
                       LOCKER_UNAVAILABLE); /* it was moved before the wait was over */
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(other, "k", NULL, &none, &err), err);
    locker_handle_free(held);
    locker_close(other);
}

/* A link above it is made anew, as `ln -sfn` of some does: while it is missing nobody can have made a
 * directory there, so that nothing is lost yet. */
static void a_link_that_comes_back_loses_nothing(void **state)
{
    lk_place below = place_below(*state);
    char away[100];
    locker_handle *held, *none;
    locker_error err;
    (void)snprintf(away, sizeof away, "%s-away", below.base);
    assert_int_equal(rename(below.base, away), 0);
    assert_int_equal(symlink(away, below.base), 0);
    assert_ok(locker_lock(below.l, "k", NULL, &held, &err), err);
    assert_int_equal(unlink(below.base), 0);
    assert_status(LOCKER_UNAVAILABLE, locker_ping(below.l, NULL, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(below.l, "other", NULL, &none, &err), err);
    assert_int_equal(symlink(away, below.base), 0);
    assert_ok(locker_ping(below.l, NULL, &err), err);
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    assert_ok(locker_unlock(held, &err), err);
    locker_handle_free(held);
    locker_close(below.l);
    put_back(&below);
}

/* wanderer HOW DIRECTORY URI: locks, loses sight of the path, and goes on as before. Answers 0 for
 * success. */
int lk_wanderer_play(int argc, char **argv)
{
    locker *l;
    locker_error err;
    locker_handle *held;
    char file[200];
    if (argc < 3 || locker_open(argv[2], NULL, &l, &err) != LOCKER_OK ||
        locker_lock(l, "k", NULL, &held, &err) != LOCKER_OK)
        return 1;
    if (strcmp(argv[0], "root") == 0) {
        if (chroot(argv[1]) != 0 || chdir("/") != 0)
            return 2;
    } else {
        (void)snprintf(file, sizeof file, "%s/locks/k.lock", argv[1]);
        if (chown(file, 65534, 65534) != 0 || (*strrchr(file, '/') = '\0', chown(file, 65534, 65534)) != 0 ||
            seteuid(65534) != 0)
            return 3;
    }
    if (locker_ping(l, NULL, &err) != LOCKER_OK)
        return 4;
    if (locker_handle_state(held) != LOCKER_STATE_HELD || locker_unlock(held, &err) != LOCKER_OK)
        return 5;
    locker_handle_free(held);
    locker_close(l);
    _exit(0); /* what a sanitizer does at exit needs /proc */
}

static void a_holder_that_can_no_longer_see_the_path_keeps_its_lock(void **state)
{
    static const char *const ways[] = {"root", "rights"};
    lk_place *place = *state;
    if (geteuid() != 0)
        skip_reported("a path that can no longer be seen", "only root can change its root directory");
    for (size_t i = 0; i < sizeof ways / sizeof *ways; i++) {
        lk_child *child =
            lk_child_start("wanderer", (const char *[]){ways[i], place->base, place->uri, NULL});

        assert_int_equal(lk_child_end(child), 0);
    }
}

/* The lock's file is another by now, and there is no descriptor to open that with. */
static void a_wait_continues_without_descriptors(void **state)
{
    lk_place *place = here = *state;
    locker *other = lk_place_open(place);
    struct rlimit enough, none;
    lk_locking waiter;
    struct attempted failed;
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, other, "k", NULL);
    lk_require_waiting(other, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &enough), 0);
    none = enough;
    none.rlim_cur = 0;
    failed = (struct attempted){other, lk_stats(other).attempts};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    remove_it();
    bool failed_once = lk_until(has_failed_once_more, &failed, LK_TEST_PATIENCE_MS);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &enough), 0);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(failed_once);
    locker_handle_free(held);
    locker_handle_free(waiter.held);
    locker_close(other);
}

/* One who waits in the holder's own process has asked the driver for nothing before its turn comes. */
static void a_wait_behind_its_own_process_continues_without_descriptors(void **state)
{
    lk_place *place = here = *state;
    struct rlimit enough, none;
    lk_locking waiter;
    struct attempted failed;
    locker_handle *held, *early;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &enough), 0);
    none = enough;
    none.rlim_cur = 0;
    failed = (struct attempted){place->l, lk_stats(place->l).attempts};
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    remove_it(); /* so that it can't be handed on */
    const locker_status unlocked = locker_unlock(held, &err);
    const bool failed_once = lk_until(has_failed_once_more, &failed, LK_TEST_PATIENCE_MS);
    locker_error first;
    const locker_status asked = locker_lock(place->l, "another", NULL, &early, &first);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &enough), 0);
    assert_status(LOCKER_LOST, unlocked, err);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    assert_true(failed_once);
    assert_status(LOCKER_UNAVAILABLE, asked, first); /* who only begins to wait is told at once */
    locker_handle_free(held);
    locker_handle_free(waiter.held);
}

/* The proof of an unlock is in names, which are to be had without one. */
static void an_unlock_of_a_reader_needs_no_descriptor(void **state)
{
    lk_place *place = *state;
    locker *l = lk_place_open(place);
    struct rlimit enough, none;
    locker_error err, why;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_handle *first = share(l), *second = share(place->l);
    only.token = locker_handle_token(second);
    hear_nothing();
    assert_ok(locker_break(l, "k", &only, NULL, &err), err);
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &enough), 0);
    none = enough;
    none.rlim_cur = 0;
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &none), 0);
    const locker_status lost = unlock_and_hear(second, true, &why);
    const locker_status unlocked = locker_unlock(first, &err);
    assert_int_equal(setrlimit(RLIMIT_NOFILE, &enough), 0);
    assert_status(LOCKER_OK, unlocked, err);
    assert_status(LOCKER_LOST, lost, why);
    locker_handle_free(first);
    locker_handle_free(second);
    locker_close(l);
}

/* ------------------------------------------------------------------ forks ---- */

static int lock_files_open(void)
{
    int count = 0;
    DIR *all = opendir("/proc/self/fd");
    assert_non_null(all);
    for (const struct dirent *entry; (entry = readdir(all)) != NULL;) {
        char name[300], target[300] = "";

        (void)snprintf(name, sizeof name, "/proc/self/fd/%s", entry->d_name);
        if (readlink(name, target, sizeof target - 1) > 0 && strstr(target, "/k.lock") != NULL)
            count++;
    }
    (void)closedir(all);
    return count;
}

/* Judged by the test, behind the call in whose middle this is. */
static int left_open;

static void fork_and_close(void)
{
    pid_t child = fork();
    if (child == 0) {
        locker_close(here->l);
        _exit(lock_files_open());
    }
    (void)waitpid(child, &left_open, 0);
}

/* Another thread forks while this one is about to lock its file, or to let go of it. */
static void a_child_closes_what_is_being_locked(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    left_open = -1;
    before_lock = fork_and_close;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_int_equal(left_open, 0);
    left_open = -1;
    before_unlock = fork_and_close;
    assert_ok(locker_unlock(held, &err), err);
    assert_int_equal(left_open, 0);
    locker_handle_free(held);
}

/* The number of the descriptor of the lock file; -1: none. */
static int lock_files_number(void)
{
    struct stat file, s;
    if (stat(lk_place_file(here, "k.lock"), &file) != 0)
        return -1;
    for (int fd = 3; fd < 1024; fd++)
        if (fstat(fd, &s) == 0 && s.st_ino == file.st_ino && s.st_dev == file.st_dev)
            return fd;
    return -1;
}

/* A program's child that closes all descriptors, and opens files of its own, before it closes the locker. */
static void a_child_leaves_open_what_it_has_opened_since(void **state)
{
    lk_place *place = here = *state;
    locker_handle *held;
    locker_error err;
    char path[100];
    int status = -1;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    const int number = lock_files_number();
    assert_true(number >= 0);
    (void)snprintf(path, sizeof path, "%s/own", place->base);
    const int own = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    const pid_t child = fork();
    if (child == 0) {
        const bool replaced = dup2(own, number) == number;
        locker_close(place->l);
        _exit(replaced && fcntl(number, F_GETFD) >= 0 ? 0 : 1);
    }
    (void)waitpid(child, &status, 0);
    assert_int_equal(status, 0);
    close(own);
    lk_give(held);
}

/* ------------------------------------------------------------------ a shared file, in the making ---- */

static struct {
    locker *l;
    locker_status status;
} comer;

static void come(void)
{
    locker_handle *held;
    locker_error err;
    comer.status = locker_try_lock(comer.l, "k", NULL, &held, &err);
    if (comer.status == LOCKER_OK)
        lk_give(held);
}

/* Its coming to its name is told to one after the other: who had a grant before he is told would take it for a break. */
static void a_file_under_construction_notifies_no_holder(void **state)
{
    const lk_place *place = *state;
    char uri[200];
    locker_handle *held;
    locker_error err;
    locker *l;
    snprintf(uri, sizeof uri, "file://%s/group?shared=yes", place->base);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    assert_ok(locker_open(uri, NULL, &comer.l, &err), err);
    comer.status = LOCKER_OK;
    after_making = come;
    assert_ok(locker_try_lock(l, "k", NULL, &held, &err), err);
    assert_int_equal(comer.status, LOCKER_BUSY);
    assert_ok(locker_unlock(held, &err), err);
    locker_handle_free(held);
    lk_close_locker(comer.l);
    lk_close_locker(l);
}

/* ------------------------------------------------------------------ a break, and a waiter ---- */

static locker_handle *named;

/* The one that was named lets go, and another comes. */
static void change_hands(void)
{
    locker *other = lk_place_open(here);
    locker_handle *none;
    locker_error err;
    assert_ok(locker_unlock(named, &err), err);
    assert_status(LOCKER_UNAVAILABLE, locker_try_lock(other, "k", NULL, &none, &err), err);
    locker_close(other);
}

static void no_call_gets_the_lock_between_the_check_and_the_break(void **state)
{
    lk_place *place = here = *state;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker *other = lk_place_open(place);
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &named, &err), err);
    only.token = locker_handle_token(named);
    before_rename = change_hands;
    assert_ok(locker_break(other, "k", &only, NULL, &err), err); /* it holds the lock no more */
    assert_null(before_rename);
    locker_handle_free(named);
    assert_true(lk_place_token(place, "k") > only.token);
    locker_close(other);
}

static uint64_t written; /* into the file that is about to be replaced */

/* A call that would wait writes its token before it sees that the lock is being broken. A try looks for that first. */
static void change_hands_and_read(void)
{
    lk_file_record record;
    locker *other = lk_place_open(here);
    locker_lock_options brief = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *none;
    locker_error err;
    brief.wait_ms = 1;
    assert_ok(locker_unlock(named, &err), err);
    assert_status(LOCKER_TIMEOUT, locker_lock(other, "k", &brief, &none, &err), err);
    locker_close(other);
    const int fd = open(lk_place_file(here, "k.lock"), O_RDONLY | O_CLOEXEC);
    assert_int_equal(lk_file_record_read_steady(fd, &record), 0);
    written = record.token;
    close(fd);
}

/* The clock was set back: the next token is the one behind that which the break finds. */
static void a_token_written_during_a_break_is_not_granted_again(void **state)
{
    lk_place *place = here = *state;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker *other = lk_place_open(place);
    char template[LK_FILE_RECORD_SIZE];
    locker_error err;
    const lk_file_record late = {.token = 2 * lk_place_token(place, "k")};
    const int fd = open(lk_place_file(place, "k.lock"), O_WRONLY | O_CLOEXEC);
    lk_file_record_template(template);
    assert_int_equal(lk_file_record_write(fd, template, &late, false), 0);
    close(fd);
    assert_ok(locker_lock(place->l, "k", NULL, &named, &err), err);
    only.token = locker_handle_token(named);
    assert_true(only.token == late.token + 1);
    before_rename = change_hands_and_read;
    assert_ok(locker_break(other, "k", &only, NULL, &err), err);
    locker_handle_free(named);
    assert_true(written > only.token);
    assert_true(lk_place_token(place, "k") > written);
    locker_close(other);
}

/* Whose file is below another directory of that name by now. */
static char deep_key[251];

static void hold_below_another(void)
{
    locker_error err;
    assert_true(move_part(here));
    assert_ok(locker_lock(newcomer, deep_key, NULL, &named, &err), err);
}

static void a_break_replaces_only_the_file_it_has_checked(void **state)
{
    lk_place *place = here = *state;
    locker_info broken = LOCKER_INFO_INIT;
    locker *other = lk_place_open(place);
    locker_handle *moved;
    locker_error err;
    (void)memset(deep_key, 'x', sizeof deep_key - 1);
    newcomer = lk_place_open(place);
    assert_ok(locker_lock(place->l, deep_key, NULL, &moved, &err), err);
    after_parent = hold_below_another;
    assert_ok(locker_break(other, deep_key, NULL, &broken, &err), err);
    assert_null(atomic_load(&after_parent));
    assert_int_equal(broken.token, locker_handle_token(named));
    assert_status(LOCKER_LOST, locker_unlock(named, &err), err);
    locker_handle_free(named);
    locker_handle_free(moved);
    locker_close(newcomer);
    locker_close(other);
}

static bool tried_often(void *l)
{
    return lk_stats(l).attempts >= 8;
}

/* One who was stopped while it breaks a lock keeps the others from it: they try further and further apart. */
static void a_stopped_break_costs_waiters_little(void **state)
{
    lk_place *place = *state;
    lk_locking waiter;
    (void)lk_place_token(place, "k");
    int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(__real_lk_file_range_lock(fd, F_WRLCK, 2), 0);
    int64_t from = lk_test_now_ms();
    lk_locking_start(&waiter, place->l, "k", NULL);
    assert_true(lk_until(tried_often, place->l, LK_TEST_PATIENCE_MS));
    assert_true(lk_test_now_ms() - from >= 300); /* at one distance of 10 ms: a quarter of it */
    assert_int_equal(__real_lk_file_range_lock(fd, F_UNLCK, 2), 0);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    locker_handle_free(waiter.held);
    assert_int_equal(close(fd), 0);
}

/* The kernel tells of a dying holder's close a moment before it drops the lock, and on a busy host that
 * moment may be long. Here the lock goes without any event, long after those that the waiter looked into. */
static void a_waiter_never_misses_a_free_lock_for_ever(void **state)
{
    lk_place *place = *state;
    lk_locking waiter;
    (void)lk_place_token(place, "k");
    int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(__real_lk_file_range_lock(fd, F_WRLCK, 0), 0);
    lk_locking_start(&waiter, place->l, "k", NULL);
    assert_true(lk_until(tried_often, place->l, LK_TEST_PATIENCE_MS));
    assert_int_equal(__real_lk_file_range_lock(fd, F_UNLCK, 0), 0);
    assert_status(LOCKER_OK, lk_locking_join(&waiter), waiter.err);
    locker_handle_free(waiter.held);
    assert_int_equal(close(fd), 0);
}

/* ------------------------------------------------------------------ one that is slow to come ---- */

/* A child that has its number in the line, and comes to its place there when those behind it have theirs, and the first of
 * those has just locked the file. */
struct slow {
    lk_place *place;
    locker *l[2];
    lk_locking waiter[2];
    locker_handle *held;
    enum { HAS_NO_TICKET, MAKES_IT, HAS_COME } step;
};

static lk_gate first_has_it, slow_has_come;

static void let_the_slow_one_come(void)
{
    lk_gate_open(&first_has_it, 1);
    (void)lk_gate_pass(&slow_has_come);
}

static void line_up_behind(struct slow *s)
{
    static const char *const owners[] = {"first", "second"};
    for (int i = 0; i < 2; i++) {
        locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
        options.owner = owners[i];
        lk_locking_start(&s->waiter[i], s->l[i], "k", &options);
        lk_require_waiting(s->l[i], 1);
    }
    after_lock = let_the_slow_one_come;
    lk_give(s->held);
    lk_gate_await(&first_has_it, 1, "the first should lock the file");
    hear_nothing();
}

/* True if the slow waiter has notified the first waiter that it is ahead: show leaves out waiters that were notified. */
static bool has_told(const lk_place *place)
{
    locker_info info = LOCKER_INFO_INIT;
    bool told = locker_show(place->l, "k", &info, NULL) == LOCKER_OK && info.queue_len == 2;
    for (size_t i = 0; i < info.queue_len; i++)
        told = told && strcmp(locker_info_waiter(&info, i)->owner, "first") != 0;
    locker_info_clear(&info);
    return told;
}

/* The slow one stands still meanwhile. */
static void hand_over(struct slow *s)
{
    lk_gate_open(&slow_has_come, 1);
    locker_handle *const first = lk_locking_grant(&s->waiter[0]);
    hear_again();
    struct attempted look = {s->l[1], lk_stats(s->l[1]).attempts};
    lk_give(first);
    lk_require(has_tried_once_more, &look, "the second should look");
}

static bool comes_slowly(void *context, long number, uint64_t first)
{
    struct slow *const s = context;
    const bool sleeps = number == SYS_poll || number == SYS_ppoll || number == SYS_futex;
    if (s->step == HAS_NO_TICKET && number == SYS_mknodat) {
        line_up_behind(s);
        s->step = MAKES_IT;
    } else if (s->step == MAKES_IT && sleeps && has_told(s->place)) {
        hand_over(s);
        s->step = HAS_COME;
    }
    assert_int_equal(s->step == HAS_COME ? lk_stats(s->l[1]).held : 0, 0);
    return s->step != HAS_COME || number != SYS_read || first != STDIN_FILENO; /* it has the lock */
}

/* The first, which has the lock by then, passes on what was told to it. */
static void a_new_holder_passes_a_notice_on_to_a_later_waiter(void **state)
{
    struct slow s = {.place = *state};
    locker_error err;
    lk_child *child = lk_puppet_start(s.place->uri);
    lk_gate_init(&first_has_it);
    lk_gate_init(&slow_has_come);
    for (int i = 0; i < 2; i++)
        s.l[i] = lk_place_open(s.place);
    assert_ok(locker_lock(s.place->l, "k", NULL, &s.held, &err), err);
    lk_clock_stop(); /* nobody overtakes the child, which stands still */
    lk_child_step(child, "lock k -1 0 1 0 0", comes_slowly, &s);
    lk_child_kill(child);
    lk_clock_go(0);
    lk_give(lk_locking_grant(&s.waiter[1]));
    for (int i = 0; i < 2; i++)
        lk_close_locker(s.l[i]);
    lk_gate_destroy(&first_has_it);
    lk_gate_destroy(&slow_has_come);
}

static const struct CMUnitTest tests[] = {
    place_test(a_file_that_goes_between_open_and_lock_is_not_used),
    place_test(a_file_that_is_swept_between_open_and_lock_is_not_used),
    place_test(a_sweep_removes_only_files_it_has_checked),
    place_test(a_call_that_locks_a_removed_file_holds_nothing),
    place_test(a_directory_made_again_is_watched_from_above),
    place_test(nothing_is_granted_once_the_directory_was_away),
    place_test(two_threads_meet_a_removed_directory),
    place_test(a_call_about_to_lock_leaves_nothing_to_a_child),
    place_test(a_call_about_to_wait_waits_for_a_sweep),
    place_test(a_broken_lock_is_not_handed_on),
    place_test(a_moved_lock_is_not_handed_on),
    place_test(an_unlock_notices_a_move),
    place_test(an_unlock_notices_a_move_within_a_long_name),
    place_test(an_unlock_notices_a_move_below_the_directory),
    place_test(an_unlock_finds_that_its_part_was_broken),
    place_test(no_reader_enters_while_readers_are_broken),
    place_test(a_try_waits_for_a_break),
    place_test(a_call_that_meets_the_replacement_of_a_broken_file_is_not_refused),
    place_test(a_reader_whose_queue_was_removed_enters),
    place_test(a_call_for_a_permit_during_a_break_gets_it),
    place_test(a_permit_waiter_waits_for_an_exclusive_lock_as_well),
    place_test(a_call_broken_during_its_grant_does_not_hold),
    place_test(a_break_of_a_holder_that_unlocks_takes_nothing),
    place_test(nothing_is_handed_on_after_a_move),
    place_test(a_file_that_was_away_is_a_lost_lock),
    place_test(all_locks_of_a_directory_moved_for_a_while_are_lost),
    place_test(a_directory_is_not_made_again_while_locks_are_held),
    place_test(a_file_that_went_before_the_grant_is_no_loss),
    place_test(a_lock_broken_before_its_watch_is_lost),
    place_test(a_waiter_follows_the_name),
    place_test(a_waiter_takes_no_file_that_was_moved),
    place_test(a_holder_notices_a_change_of_the_path),
    place_test(nothing_is_handed_on_after_a_change_of_the_path),
    place_test(nothing_is_granted_in_a_moved_directory),
    place_test(a_waiter_gets_nothing_in_a_moved_directory),
    place_test(a_link_that_comes_back_loses_nothing),
    place_test(a_holder_that_can_no_longer_see_the_path_keeps_its_lock),
    place_test(a_wait_continues_without_descriptors),
    place_test(a_wait_behind_its_own_process_continues_without_descriptors),
    place_test(an_unlock_of_a_reader_needs_no_descriptor),
    place_test(a_file_under_construction_notifies_no_holder),
    place_test(a_child_closes_what_is_being_locked),
    place_test(a_child_leaves_open_what_it_has_opened_since),
    place_test(no_call_gets_the_lock_between_the_check_and_the_break),
    place_test(a_token_written_during_a_break_is_not_granted_again),
    place_test(a_break_replaces_only_the_file_it_has_checked),
    place_test(a_stopped_break_costs_waiters_little),
    place_test(a_waiter_never_misses_a_free_lock_for_ever),
    place_test(a_new_holder_passes_a_notice_on_to_a_later_waiter),
};

const lk_group lk_races = {"races", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
