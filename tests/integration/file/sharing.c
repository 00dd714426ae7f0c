/* sharing.c: what holders of one file are to each other beyond what every driver promises: those who were broken and have
 * stopped, an older release beside this one, who dies anywhere on its way in or out, and what is left. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "file_test.h"
#include "holding.h"
#include "locking.h"
#include "puppet.h"
#include "record.h"
#include "sweep.h"

static const char key[] = "k";
static const char file[] = "k.lock";

static locker_lock_options sharing(int64_t wait_ms)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = wait_ms;
    options.mode = LOCKER_SHARED;
    return options;
}

static locker_lock_options permit_of(int32_t permits)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = 0;
    options.permits = permits;
    return options;
}

static locker_handle *take(locker *l, const locker_lock_options *options)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_ok(locker_lock(l, key, options, &held, &err), err);
    return held;
}

static void refuse(locker *l, const locker_lock_options *options, locker_status wanted)
{
    locker_handle *held = NULL;
    locker_error err;
    assert_status(wanted, locker_lock(l, key, options, &held, &err), err);
}

static bool is_another(DIR *d, const char *name)
{
    if (strcmp(name, file) == 0 || strcmp(name, ".") == 0 || strcmp(name, "..") == 0)
        return false;
    return strncmp(name, ".queue-", strlen(".queue-")) != 0 || unlinkat(dirfd(d), name, AT_REMOVEDIR) != 0;
}

/* What is in the lock directory beside the lock file, and a queue in which there is nothing. */
static int count_others(const lk_place *place)
{
    DIR *d = opendir(place->locks);
    int count = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        count += is_another(d, e->d_name);
    closedir(d);
    return count;
}

static void require_holders(const lk_place *place, size_t count)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    assert_ok(locker_show(place->l, key, &info, &err), err);
    assert_int_equal(info.holders_len, count);
    locker_info_clear(&info);
}

void lk_break_the_other(const lk_place *place, uint64_t other)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_error err;
    assert_ok(locker_show(place->l, key, &info, &err), err);
    assert_int_equal(info.holders_len, 2);
    const size_t i = locker_info_holder(&info, 0)->token == other;
    only.token = locker_info_holder(&info, i)->token;
    locker_info_clear(&info);
    assert_ok(locker_break(place->l, key, &only, NULL, &err), err);
}

static int open_raw(const lk_place *place)
{
    const int fd = open(lk_place_file(place, file), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    return fd;
}

/* As another program, or an older release, would. */
static bool lock_raw(int fd, short type, off_t byte)
{
    struct flock range = {.l_type = type, .l_whence = SEEK_SET, .l_start = byte, .l_len = 1};
    return fcntl(fd, F_OFD_SETLK, &range) == 0;
}

/* ------------------------------------------------------------------ broken, and stopped ---- */

/* The kernel's lock stays with it; the others go on, and when they have ended it is in nobody's way. */
static void a_stopped_reader_that_was_broken_blocks_no_call(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    lk_child *stopped = lk_puppet_start(place->uri);
    assert_int_equal(lk_puppet_take(stopped, key, &share), LOCKER_OK);
    locker_handle *held = take(place->l, &share);
    lk_child_stop(stopped);
    lk_break_the_other(place, locker_handle_token(held));
    assert_int_equal(locker_handle_state(held), LOCKER_STATE_HELD);
    lk_expect_busy(place->l, key);
    lk_give(take(place->l, &share));
    const uint64_t last = locker_handle_token(held);
    lk_give(held);
    assert_true(lk_place_token(place, key) > last);
    lk_child_signal(stopped, SIGCONT);
    assert_int_equal(lk_puppet_unlock(stopped), LOCKER_LOST);
    assert_int_equal(lk_child_end(stopped), 0);
    lk_give(take(place->l, &share));
    assert_int_equal(count_others(place), 0);
}

/* One who waits for the last reader finds out by itself. */
static void a_writer_that_waits_passes_a_stopped_reader(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    lk_child *stopped = lk_puppet_start(place->uri);
    locker *other = lk_place_open(place);
    lk_locking writer;
    assert_int_equal(lk_puppet_take(stopped, key, &share), LOCKER_OK);
    locker_handle *held = take(place->l, &share);
    lk_locking_start(&writer, other, key, NULL);
    lk_require_waiting(other, 1);
    lk_child_stop(stopped);
    lk_break_the_other(place, locker_handle_token(held));
    const int64_t from = lk_test_now_ms();
    lk_give(held);
    lk_give(lk_locking_grant(&writer));
    assert_timely(writer.ended_ms - from, LK_TEST_SLACK_MS);
    lk_child_kill(stopped);
    lk_close_locker(other);
}

static void the_permit_of_a_broken_holder_is_free_at_once(void **state)
{
    lk_place *place = *state;
    const locker_lock_options two = permit_of(2), three = permit_of(3);
    lk_child *stopped = lk_puppet_start(place->uri);
    assert_int_equal(lk_puppet_take(stopped, key, &two), LOCKER_OK);
    locker_handle *held = take(place->l, &two);
    assert_int_equal(locker_handle_slot(held), 1);
    lk_child_stop(stopped);
    lk_break_the_other(place, locker_handle_token(held));
    locker_handle *next = take(place->l, &two);
    assert_int_equal(locker_handle_slot(next), 0);
    refuse(place->l, &two, LOCKER_BUSY);
    lk_child_signal(stopped, SIGCONT);
    assert_int_equal(lk_puppet_unlock(stopped), LOCKER_LOST);
    refuse(place->l, &two, LOCKER_BUSY);
    refuse(place->l, &three, LOCKER_CONFIG);
    lk_give(held);
    lk_give(next);
    assert_int_equal(lk_child_end(stopped), 0);
    assert_int_equal(count_others(place), 0);
}

/* Only who was broken is left: so the key is free for any use. */
static void a_stopped_permit_that_was_broken_fixes_no_number(void **state)
{
    lk_place *place = *state;
    const locker_lock_options two = permit_of(2), three = permit_of(3);
    lk_child *stopped = lk_puppet_start(place->uri);
    assert_int_equal(lk_puppet_take(stopped, key, &two), LOCKER_OK);
    locker_handle *held = take(place->l, &two);
    lk_child_stop(stopped);
    lk_break_the_other(place, locker_handle_token(held));
    refuse(place->l, &three, LOCKER_CONFIG);
    lk_give(held);
    lk_give(take(place->l, &three));
    lk_child_kill(stopped);
}

static int count_queues(const lk_place *place)
{
    DIR *d = opendir(place->locks);
    int count = 0;
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        count += strncmp(e->d_name, ".queue-", strlen(".queue-")) == 0;
    closedir(d);
    return count;
}

static void break_it(const lk_place *place, locker *l, const locker_lock_options *options)
{
    locker_error err;
    locker_handle *held = take(l, options);
    assert_ok(locker_break(place->l, key, NULL, NULL, &err), err);
    lk_give_lost(held);
}

/* Nobody comes to the file that was broken any more, and where no key is new there is no sweep. */
static void the_queue_of_a_file_that_was_broken_goes(void **state)
{
    enum { BREAKS = 20 };
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    locker *l = lk_place_open(place);
    for (int i = 0; i < BREAKS; i++)
        break_it(place, l, &share);
    for (int i = 0; i < BREAKS; i++) {
        lk_give(take(l, &share));
        break_it(place, l, NULL);
    }
    lk_close_locker(l);
    assert_int_equal(count_queues(place), 0);
}

/* ------------------------------------------------------------------ others on the file ---- */

/* It knows byte 0, the mark of who waits, and the record: of a fixed length, with the last token. */
static void an_older_release_and_this_one_exclude_each_other(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0), two = permit_of(2);
    locker_handle *first = take(place->l, &share);
    locker *other = lk_place_open(place);
    locker_handle *held = take(other, &share);
    lk_file_record record;
    lk_file_reading reading;
    const int fd = open_raw(place);
    assert_false(lock_raw(fd, F_WRLCK, 0));
    assert_int_equal(lk_file_record_read(fd, &record, &reading), 0);
    assert_int_equal(reading, LK_FILE_RECORD_GOOD);
    assert_true(record.token == locker_handle_token(held));
    assert_true(lock_raw(fd, F_RDLCK, 1)); /* it waits */
    locker *third = lk_place_open(place);
    refuse(third, &share, LOCKER_BUSY);
    refuse(third, &two, LOCKER_CONFIG);
    lk_give(first);
    assert_false(lock_raw(fd, F_WRLCK, 0));
    lk_give(held);
    assert_true(lock_raw(fd, F_WRLCK, 0));
    assert_true(lock_raw(fd, F_UNLCK, 1));
    refuse(third, &share, LOCKER_BUSY);
    refuse(third, &two, LOCKER_CONFIG);
    close(fd);
    held = take(third, &two);
    const int again = open_raw(place);
    assert_false(lock_raw(again, F_WRLCK, 0));
    close(again);
    lk_give(held);
    lk_close_locker(third);
    lk_close_locker(other);
}

/* On its way in another was stopped: who comes says so, and who waits comes in as soon as that goes on. */
static void a_call_stopped_during_its_grant_blocks_only_readers(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0), wait = sharing(-1);
    lk_locking reader;
    (void)lk_place_token(place, key);
    const int fd = open_raw(place);
    assert_true(lock_raw(fd, F_WRLCK, 4));
    refuse(place->l, &share, LOCKER_UNAVAILABLE);
    (void)lk_place_token(place, key);
    lk_locking_start(&reader, place->l, key, &wait);
    lk_require_waiting(place->l, 1);
    close(fd);
    lk_give(lk_locking_grant(&reader));
}

/* As what cleans /tmp does: nobody is let in, and nothing is claimed that isn't known. */
static void a_holder_whose_record_was_removed_still_holds(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    locker *other = lk_place_open(place);
    locker_handle *held = take(place->l, &share);
    char command[200];
    locker_error err;
    (void)snprintf(command, sizeof command, "rm -r %s/.queue-*", place->locks);
    assert_int_equal(system(command), 0);
    lk_expect_busy(other, key);
    assert_status(LOCKER_UNKNOWN, locker_unlock(held, &err), err);
    locker_handle_free(held);
    held = take(place->l, &share);
    assert_int_equal(system(command), 0);
    assert_ok(locker_break(other, key, NULL, NULL, &err), err);
    lk_give(take(other, NULL));
    lk_give_lost(held);
    lk_close_locker(other);
}

/* Of those who come and go some clean up behind the dead, and none takes one who lives for one of them. */
static void come_and_go(locker *l)
{
    const locker_lock_options share = sharing(0);
    for (int i = 0; i < 200; i++)
        lk_give(take(l, &share));
}

static void a_holder_whose_ticket_was_removed_still_holds(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    locker *other = lk_place_open(place);
    locker_handle *held = take(place->l, &share);
    char command[200];
    (void)snprintf(command, sizeof command, "rm %s/.queue-*/[0-9a-f]*", place->locks);
    assert_int_equal(system(command), 0);
    come_and_go(other);
    lk_give(held);
    lk_close_locker(other);
}

/* It was stopped when its turn came, and others have gone past it: as it goes on it holds beside them, with all that belongs
 * to that. */
static void a_stopped_reader_that_was_overtaken_holds_like_others(void **state)
{
    lk_place *place = *state;
    const locker_lock_options wait = sharing(-1);
    locker *second = lk_place_open(place), *third = lk_place_open(place);
    lk_child *stopped = lk_puppet_start(place->uri);
    lk_locking writer, reader;
    locker_handle *held = take(place->l, NULL);
    lk_locking_start(&writer, second, key, NULL);
    lk_require_waiting(second, 1);
    lk_puppet_await(stopped, key, &wait);
    lk_locking_start(&reader, third, key, &wait);
    lk_require_waiting(third, 1);
    lk_give(held);
    held = lk_locking_grant(&writer);
    lk_child_stop(stopped);
    lk_give(held);
    held = lk_locking_grant(&reader);
    lk_child_signal(stopped, SIGCONT);
    assert_int_equal(lk_puppet_granted(stopped, NULL), LOCKER_OK);
    come_and_go(place->l);
    assert_int_equal(lk_puppet_unlock(stopped), LOCKER_OK);
    lk_give(held);
    assert_int_equal(lk_child_end(stopped), 0);
    assert_int_equal(count_others(place), 0);
    lk_close_locker(third);
    lk_close_locker(second);
}

/* The first reader in line is stopped: who comes behind goes in without it. */
static void a_stopped_waiting_reader_blocks_no_reader(void **state)
{
    lk_place *place = *state;
    const locker_lock_options wait = sharing(-1);
    lk_child *stopped = lk_puppet_start(place->uri);
    locker *other = lk_place_open(place);
    lk_locking reader;
    locker_handle *held = take(place->l, NULL);
    lk_puppet_await(stopped, key, &wait);
    lk_child_stop(stopped);
    lk_locking_start(&reader, other, key, &wait);
    lk_require_waiting(other, 1);
    lk_give(held);
    lk_give(lk_locking_grant(&reader));
    lk_child_kill(stopped);
    lk_close_locker(other);
}

/* The time stands still: no look tells them, but the one before them. */
static void adjacent_readers_notify_each_other_to_enter(void **state)
{
    enum { READERS = 3 };
    lk_place *place = *state;
    const locker_lock_options wait = sharing(-1);
    locker *l[READERS];
    lk_locking reader[READERS];
    locker_handle *held = take(place->l, NULL), *shares[READERS];
    for (int i = 0; i < READERS; i++) {
        l[i] = lk_place_open(place);
        lk_locking_start(&reader[i], l[i], key, &wait);
        lk_require_waiting(l[i], 1);
    }
    lk_clock_stop();
    lk_give(held);
    for (int i = 0; i < READERS; i++)
        shares[i] = lk_locking_grant(&reader[i]);
    lk_clock_go(0);
    for (int i = 0; i < READERS; i++) {
        lk_give(shares[i]);
        lk_close_locker(l[i]);
    }
}

/* Make the ticket of a reader that came one ns after the first in line, and died behind making it. */
static void make_dead_ticket(const lk_place *place)
{
    char command[200], queue[PATH_MAX], ticket[NAME_MAX + 1] = "~";
    (void)snprintf(command, sizeof command, "echo %s/.queue-*", place->locks);
    FILE *const found = popen(command, "re");
    assert_true(found != NULL && fscanf(found, "%4095s", queue) == 1 && pclose(found) == 0);
    DIR *const d = opendir(queue);
    assert_non_null(d);
    for (const struct dirent *e; (e = readdir(d)) != NULL;)
        if (e->d_name[0] != '.' && strcmp(e->d_name, ticket) < 0)
            (void)snprintf(ticket, sizeof ticket, "%s", e->d_name);
    char *rest;
    const unsigned long long time = strtoull(ticket, &rest, 16);
    char dead[sizeof ticket + 16];
    (void)snprintf(dead, sizeof dead, "%016llx%s", time + 1, rest);
    assert_int_equal(mkfifoat(dirfd(d), dead, 0600), 0);
    closedir(d);
}

/* A reader came to its place between two that wait already, and died there before it told the one behind. */
static void a_reader_that_died_between_two_waiters_blocks_no_notice(void **state)
{
    enum { READERS = 2 };
    lk_place *place = *state;
    const locker_lock_options wait = sharing(-1);
    locker *l[READERS];
    lk_locking reader[READERS];
    locker_handle *held = take(place->l, NULL), *shares[READERS];
    lk_clock_stop(); /* no look tells the second, but the one before it */
    for (int i = 0; i < READERS; i++) {
        l[i] = lk_place_open(place);
        lk_locking_start(&reader[i], l[i], key, &wait);
        lk_require_waiting(l[i], 1);
    }
    make_dead_ticket(place);
    lk_give(held);
    for (int i = 0; i < READERS; i++)
        shares[i] = lk_locking_grant(&reader[i]);
    lk_clock_go(0);
    for (int i = 0; i < READERS; i++) {
        lk_give(shares[i]);
        lk_close_locker(l[i]);
    }
}

static void a_reader_that_has_waited_keeps_no_reader_out(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0), wait = sharing(-1);
    locker *other = lk_place_open(place), *third = lk_place_open(place);
    lk_locking reader;
    locker_handle *held = take(place->l, NULL);
    lk_locking_start(&reader, other, key, &wait);
    lk_require_waiting(other, 1);
    lk_give(held);
    held = lk_locking_grant(&reader);
    lk_give(take(third, &share));
    lk_give(held);
    lk_close_locker(third);
    lk_close_locker(other);
}

/* ------------------------------------------------------------------ kill -9 ---- */

struct death {
    int n, at; /* it dies at its n-th system call */
    bool over; /* it came to its end before: it listens again */
};

static bool lives(void *context, long number, uint64_t first)
{
    struct death *d = context;
    d->over = d->at > 3 && number == SYS_read && first == STDIN_FILENO;
    return d->at++ < d->n && !d->over;
}

/* The lock is free at once, and what was left goes with the next who shares it. */
static void require_free(lk_place *place, const locker_lock_options *as)
{
    const locker_lock_options now = {.size = sizeof now};
    lk_give(take(place->l, &now));
    lk_give(take(place->l, as));
    assert_int_equal(count_others(place), 0);
}

static bool die_locking(lk_place *place, const char *line, int n)
{
    struct death d = {.n = n};
    lk_child *puppet = lk_puppet_start(place->uri);
    lk_child_step(puppet, line, lives, &d);
    lk_child_kill(puppet);
    return !d.over;
}

static bool die_unlocking(lk_place *place, const locker_lock_options *as, int n)
{
    struct death d = {.n = n};
    lk_child *puppet = lk_puppet_start(place->uri);
    assert_int_equal(lk_puppet_take(puppet, key, as), LOCKER_OK);
    lk_child_step(puppet, "unlock", lives, &d);
    lk_child_kill(puppet);
    return !d.over;
}

static void a_process_that_dies_while_locking_leaves_nothing(void **state)
{
    const locker_lock_options share = sharing(0), two = permit_of(2);
    int n = 0;
    for (; die_locking(*state, "lock k 0 0 1 1 0", n); n++)
        require_free(*state, &share);
    assert_true(n > 20);
    for (n = 20; die_locking(*state, "lock k 0 0 1 0 2", n); n++)
        require_free(*state, &two);
    assert_true(n > 25);
}

static void a_process_that_dies_while_unlocking_leaves_nothing(void **state)
{
    const locker_lock_options share = sharing(0);
    int n = 0;
    for (; die_unlocking(*state, &share, n); n++)
        require_free(*state, &share);
    assert_true(n > 10);
}

/* Nobody comes again: a sweep finds what they left. */
static void a_sweep_removes_files_of_dead_readers(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    const lk_file_sweep_limits limits = {.most = 0, .keep = 0, .list = 100};
    lk_child *dead = lk_puppet_start(place->uri), *living = lk_puppet_start(place->uri);
    void *self;
    assert_int_equal(lk_puppet_take(dead, key, &share), LOCKER_OK);
    assert_int_equal(lk_puppet_take(living, key, &share), LOCKER_OK);
    (void)locker_driver_of(place->l, &self);
    lk_child_kill(dead);
    (void)lk_file_sweep_part(self, &limits, 0);
    assert_int_equal(access(lk_place_file(place, file), F_OK), 0);
    lk_expect_busy(place->l, key);
    require_holders(place, 1);
    lk_child_kill(living);
    (void)lk_file_sweep_part(self, &limits, 0);
    (void)lk_file_sweep_part(self, &limits, 0);
    assert_int_equal(access(lk_place_file(place, file), F_OK), -1);
    assert_int_equal(count_others(place), 1); /* the tokens of files that were removed */
}

static int count_in_queues(const lk_place *place)
{
    char command[200];
    (void)snprintf(command, sizeof command, "exit $(ls %s/.queue-* | wc -l)", place->locks);
    return WEXITSTATUS(system(command));
}

/* A program that cleans /tmp can delete a ticket. Then a sweep can't see whether the record's owner lives, so the record stays until
 * the lock file goes: a sweep removes that only when it is free. */
static void a_sweep_takes_a_record_without_a_ticket_with_its_file(void **state)
{
    lk_place *place = *state;
    const locker_lock_options share = sharing(0);
    const lk_file_sweep_limits all = {.most = 0, .keep = 0, .list = 100};
    lk_child *dead = lk_puppet_start(place->uri);
    locker_handle *held = take(place->l, &share);
    void *self;
    char command[200];
    (void)locker_driver_of(place->l, &self);
    assert_int_equal(lk_puppet_take(dead, key, &share), LOCKER_OK);
    (void)snprintf(command, sizeof command, "rm %s/.queue-*/[0-9a-f]*", place->locks);
    assert_int_equal(system(command), 0);
    assert_int_equal(count_in_queues(place), 2);
    (void)lk_file_sweep_part(self, &all, 0);
    assert_int_equal(count_in_queues(place), 2);
    lk_give(held);
    lk_child_kill(dead);
    assert_int_equal(count_in_queues(place), 1);
    (void)lk_file_sweep_part(self, &all, 0);
    assert_int_equal(access(lk_place_file(place, file), F_OK), -1);
    (void)snprintf(command, sizeof command, "ls -d %s/.queue-* >/dev/null 2>&1", place->locks);
    assert_int_not_equal(system(command), 0); /* its queue has gone, too */
}

static const struct CMUnitTest tests[] = {
    place_test(a_stopped_reader_that_was_broken_blocks_no_call),
    place_test(a_writer_that_waits_passes_a_stopped_reader),
    place_test(the_permit_of_a_broken_holder_is_free_at_once),
    place_test(a_stopped_permit_that_was_broken_fixes_no_number),
    place_test(the_queue_of_a_file_that_was_broken_goes),
    place_test(an_older_release_and_this_one_exclude_each_other),
    place_test(a_call_stopped_during_its_grant_blocks_only_readers),
    place_test(a_holder_whose_record_was_removed_still_holds),
    place_test(a_holder_whose_ticket_was_removed_still_holds),
    place_test(a_stopped_reader_that_was_overtaken_holds_like_others),
    place_test(a_stopped_waiting_reader_blocks_no_reader),
    place_test(adjacent_readers_notify_each_other_to_enter),
    place_test(a_reader_that_died_between_two_waiters_blocks_no_notice),
    place_test(a_reader_that_has_waited_keeps_no_reader_out),
    place_test(a_process_that_dies_while_locking_leaves_nothing),
    place_test(a_process_that_dies_while_unlocking_leaves_nothing),
    place_test(a_sweep_removes_files_of_dead_readers),
    place_test(a_sweep_takes_a_record_without_a_ticket_with_its_file),
};

const lk_group lk_sharing = {"sharing", tests, sizeof tests / sizeof tests[0], NULL, NULL};
