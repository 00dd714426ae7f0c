/* many.c: what many permits of one key cost, counted in the driver's steps, and that their count stays exact. */
#include <dirent.h>
#include <fcntl.h>
#include <limits.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/resource.h>
#include <unistd.h>

#include "file_test.h"
#include "holders.h"
#include "holding.h"
#include "locking.h"
#include "puppet.h"
#include "tickets.h"

off_t __real_lk_file_range_find(int fd, off_t start, off_t length);
off_t __wrap_lk_file_range_find(int fd, off_t start, off_t length);
lk_file_tickets __real_lk_file_tickets_of(const lk_file *self, const lk_file_id *id);
lk_file_tickets __wrap_lk_file_tickets_of(const lk_file *self, const lk_file_id *id);

static atomic_bool refuses; /* the list of broken holders, as if there were no memory */
static atomic_uint refused;
static atomic_uint queries; /* of the kernel, who holds a part of the file */
static atomic_uint listings;

off_t __wrap_lk_file_range_find(int fd, off_t start, off_t length)
{
    queries++;
    return __real_lk_file_range_find(fd, start, length);
}

static _Thread_local void (*before_listing)(void); /* once */

lk_file_tickets __wrap_lk_file_tickets_of(const lk_file *self, const lk_file_id *id)
{
    void (*const before)(void) = before_listing;
    listings++;
    before_listing = NULL;
    if (before != NULL)
        before();
    return __real_lk_file_tickets_of(self, id);
}

bool __real_lk_file_holders_broken(const lk_file_tickets *t, int fd, lk_file_broken *out);
bool __wrap_lk_file_holders_broken(const lk_file_tickets *t, int fd, lk_file_broken *out);

bool __wrap_lk_file_holders_broken(const lk_file_tickets *t, int fd, lk_file_broken *out)
{
    if (!refuses)
        return __real_lk_file_holders_broken(t, fd, out);
    refused++;
    *out = (lk_file_broken){0};
    return false;
}

static const char key[] = "k";

/* ------------------------------------------------------------------ permits ---- */

enum { PERMITS = 200, EACH = 6 /* queries a permit: three about its use, three about slots */ };

static locker_lock_options permit_of(int32_t permits)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = 0;
    options.permits = permits;
    return options;
}

static locker_status try_permit(locker *l, int32_t permits, locker_handle **held)
{
    const locker_lock_options options = permit_of(permits);
    return locker_lock(l, key, &options, held, NULL);
}

/* Take permits of one key until each of held[] is one; they have slots of their own. */
static void fill(locker *l, locker_handle *held[PERMITS])
{
    bool taken[PERMITS] = {false};
    for (int i = 0; i < PERMITS; i++) {
        if (held[i] == NULL)
            assert_int_equal(try_permit(l, PERMITS, &held[i]), LOCKER_OK);
        const int32_t slot = locker_handle_slot(held[i]);
        assert_in_range(slot, 0, PERMITS - 1);
        assert_false(taken[slot]);
        taken[slot] = true;
    }
}

static void give_all(locker_handle *held[PERMITS])
{
    for (int i = 0; i < PERMITS; i++)
        lk_give(held[i]);
}

static void a_permit_of_many_takes_few_queries(void **state)
{
    lk_place *const place = *state;
    locker_handle *held[PERMITS] = {NULL}, *none = NULL;
    lk_clock_stop();
    queries = listings = 0;
    fill(place->l, held);
    assert_in_range(queries, PERMITS, EACH * PERMITS);
    assert_int_equal(listings, 0);
    assert_int_equal(try_permit(place->l, PERMITS, &none), LOCKER_BUSY);
    for (int i = 0; i < PERMITS; i += 3) {
        lk_give(held[i]);
        held[i] = NULL;
    }
    queries = listings = 0;
    fill(place->l, held);
    assert_in_range(queries, 1, EACH * PERMITS);
    assert_int_equal(listings, 0);
    queries = 0;
    assert_int_equal(try_permit(place->l, PERMITS, &none), LOCKER_BUSY);
    assert_in_range(queries, 0, 2 * EACH);
    give_all(held);
}

/* A locker that knows none of those who hold finds each free slot, and none beside them. */
static void a_free_permit_among_those_of_others_is_found(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    locker_handle *held[PERMITS] = {NULL}, *none = NULL;
    fill(other, held);
    queries = listings = 0;
    assert_int_equal(try_permit(place->l, PERMITS, &none), LOCKER_BUSY);
    assert_in_range(queries, PERMITS, PERMITS + PERMITS / 2);
    assert_int_equal(listings, 1);
    for (int step = 1; step < PERMITS; step = 3 * step + 1) {
        for (int i = step - 1; i < PERMITS; i += step) {
            lk_give(held[i]);
            held[i] = NULL;
        }
        locker *const fresh = lk_place_open(place);
        fill(fresh, held);
        assert_int_equal(try_permit(fresh, PERMITS, &none), LOCKER_BUSY);
        assert_int_equal(try_permit(place->l, PERMITS, &none), LOCKER_BUSY);
        for (int i = step - 1; i < PERMITS; i += step) {
            lk_give(held[i]);
            held[i] = NULL;
        }
        lk_close_locker(fresh);
        fill(other, held);
    }
    give_all(held);
    lk_close_locker(other);
}

static void a_broken_permit_of_the_same_process_is_free(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
    locker_handle *held[2] = {NULL}, *next = NULL;
    locker_error err;
    for (int i = 0; i < 2; i++)
        assert_int_equal(try_permit(place->l, 2, &held[i]), LOCKER_OK);
    only.token = locker_handle_token(held[0]);
    assert_ok(locker_break(other, key, &only, NULL, &err), err);
    assert_int_equal(try_permit(place->l, 2, &next), LOCKER_OK);
    assert_int_equal(locker_handle_slot(next), locker_handle_slot(held[0]));
    lk_give_lost(held[0]);
    lk_give(held[1]);
    lk_give(next);
    lk_close_locker(other);
}

static lk_child *stopped;

static void it_lets_go(void)
{
    lk_child_signal(stopped, SIGCONT);
    assert_int_equal(lk_puppet_unlock(stopped), LOCKER_LOST);
}

/* A broken holder lets go between the search for a free slot and the list of broken holders: its slot is free, and the list lacks it. */
static void a_broken_slot_released_before_the_list_is_free(void **state)
{
    lk_place *const place = *state;
    const locker_lock_options two = permit_of(2);
    locker_handle *held = NULL, *next = NULL;
    assert_int_equal(try_permit(place->l, 2, &held), LOCKER_OK);
    stopped = lk_puppet_start(place->uri);
    assert_int_equal(lk_puppet_take(stopped, key, &two), LOCKER_OK);
    lk_child_stop(stopped);
    lk_break_the_other(place, locker_handle_token(held));
    before_listing = it_lets_go;
    assert_int_equal(try_permit(place->l, 2, &next), LOCKER_OK);
    assert_null(before_listing);
    lk_give(held);
    lk_give(next);
    assert_int_equal(lk_child_end(stopped), 0);
}

enum { TOLD_MS = 300 }; /* a third of what lies between two looks of a holder that nobody tells */

/* What a breaker leaves that dies before it has told anybody: the one holder's record has the name of a broken one's. */
static void break_and_die(const lk_place *place)
{
    char held[NAME_MAX + 1] = "", broken[NAME_MAX + 1];
    DIR *const locks = opendir(lk_place_file(place, "."));
    const struct dirent *entry;
    int queue = -1;
    while (queue < 0 && (entry = readdir(locks)) != NULL)
        if (strncmp(entry->d_name, LK_FILE_QUEUE_PREFIX, strlen(LK_FILE_QUEUE_PREFIX)) == 0)
            queue = openat(dirfd(locks), entry->d_name, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    (void)closedir(locks);
    DIR *const records = fdopendir(queue);
    while (held[0] == '\0' && (entry = readdir(records)) != NULL)
        if (entry->d_name[0] == LK_FILE_RECORD_HELD)
            (void)snprintf(held, sizeof held, "%s", entry->d_name);
    (void)snprintf(broken, sizeof broken, "%s", held);
    broken[0] = LK_FILE_RECORD_BROKEN;
    assert_int_equal(renameat(queue, held, queue, broken), 0);
    (void)closedir(records);
}

/* Several times, as a look of its own tells the holder in some of them. */
static void the_next_holder_notifies_the_broken_holder(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    for (int i = 0; i < 6; i++) {
        locker_handle *held = NULL, *next = NULL;
        assert_int_equal(try_permit(place->l, 1, &held), LOCKER_OK);
        break_and_die(place);
        assert_int_equal(try_permit(other, 1, &next), LOCKER_OK);
        assert_unless_late(lk_readable(locker_handle_fd(held), TOLD_MS));
        lk_give_lost(held);
        lk_give(next);
    }
    lk_close_locker(other);
}

void __real_lk_file_sweep_own(lk_file *self, const lk_file_claim *c);
void __wrap_lk_file_sweep_own(lk_file *self, const lk_file_claim *c);

static locker *_Atomic comer;                 /* NULL: nobody comes */
static char at[PATH_MAX], away[PATH_MAX + 8]; /* the file, and where a sweep does not find it */
static locker_status came;

/* As if a sweep were far behind: a release would remove its file, and finds that it may not. Somebody comes before it has let go. */
void __wrap_lk_file_sweep_own(lk_file *self, const lk_file_claim *c)
{
    locker *const other = atomic_exchange(&comer, NULL);
    locker_handle *held = NULL;
    if (other == NULL) {
        __real_lk_file_sweep_own(self, c);
        return;
    }
    LK_WRITE(self->sweep_behind, 1U << 20);
    assert_int_equal(rename(at, away), 0);
    __real_lk_file_sweep_own(self, c);
    assert_int_equal(rename(away, at), 0);
    came = try_permit(other, 2, &held);
    if (held != NULL)
        lk_give(held);
}

/* Nothing that a release does for a moment looks like a lock to one who wants as many permits. */
static void a_call_during_a_release_gets_a_free_permit(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    locker_handle *held = NULL;
    assert_int_equal(try_permit(place->l, 2, &held), LOCKER_OK);
    comer = other;
    (void)snprintf(at, sizeof at, "%s", lk_place_file(place, "k.lock"));
    (void)snprintf(away, sizeof away, "%s.away", at);
    lk_give(held);
    assert_null(atomic_load(&comer));
    assert_int_equal(came, LOCKER_OK);
    lk_close_locker(other);
}

static bool has_refused(void *context)
{
    (void)context;
    return refused > 0;
}

/* It looks whether a permit is free, and can't list who was broken. */
static void a_waiter_that_cannot_list_broken_holders_keeps_its_place(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    locker_lock_options one = permit_of(1);
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = NULL;
    locker_error err;
    lk_locking waiter;
    one.wait_ms = -1;
    assert_int_equal(try_permit(place->l, 1, &held), LOCKER_OK);
    lk_locking_start(&waiter, other, key, &one);
    lk_require_waiting(other, 1);
    refused = 0;
    refuses = true;
    lk_require(has_refused, NULL, "it should look again");
    refuses = false;
    lk_locking_await_rest(&waiter);
    assert_ok(locker_show(place->l, key, &info, &err), err);
    assert_int_equal(info.waiters, 1);
    locker_info_clear(&info);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(other);
}

/* A call for an exclusive lock meets those who share it, and can't list who was broken: it stands in line all the same. */
static void a_call_that_cannot_list_broken_holders_enqueues(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    locker_lock_options shares = LOCKER_LOCK_OPTIONS_INIT;
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held = NULL;
    locker_error err;
    lk_locking waiter;
    shares.mode = LOCKER_SHARED;
    assert_ok(locker_lock(place->l, key, &shares, &held, &err), err);
    refused = 0;
    refuses = true;
    lk_locking_start(&waiter, other, key, NULL);
    lk_require(has_refused, NULL, "it should look who shares the lock");
    lk_locking_await_rest(&waiter);
    refuses = false;
    assert_ok(locker_show(place->l, key, &info, &err), err);
    assert_int_equal(info.waiters, 1);
    locker_info_clear(&info);
    lk_give(held);
    lk_give(lk_locking_grant(&waiter));
    lk_close_locker(other);
}

/* A break that cannot look who holds the lock doesn't say that somebody else does. */
static void a_break_without_descriptors_is_unavailable(void **state)
{
    lk_place *const place = *state;
    locker *const other = lk_place_open(place);
    struct rlimit enough;
    locker_status status = LOCKER_UNAVAILABLE;
    assert_int_equal(getrlimit(RLIMIT_NOFILE, &enough), 0);
    for (unsigned left = 0; status != LOCKER_OK; left++) {
        locker_break_options only = LOCKER_BREAK_OPTIONS_INIT;
        locker_handle *held[2] = {NULL};
        for (int i = 0; i < 2; i++)
            assert_int_equal(try_permit(place->l, 2, &held[i]), LOCKER_OK);
        only.token = locker_handle_token(held[0]);
        const int next = open("/dev/null", O_RDONLY | O_CLOEXEC);
        (void)close(next);
        const struct rlimit few = {(rlim_t)next + left, enough.rlim_max};
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &few), 0);
        status = locker_break(other, key, &only, NULL, NULL);
        assert_int_equal(setrlimit(RLIMIT_NOFILE, &enough), 0);
        if (status == LOCKER_OK) {
            lk_give_lost(held[0]);
        } else {
            assert_int_equal(status, LOCKER_UNAVAILABLE);
            lk_give(held[0]);
        }
        lk_give(held[1]);
    }
    lk_close_locker(other);
}

static const struct CMUnitTest tests[] = {
    place_test(a_permit_of_many_takes_few_queries),
    place_test(a_free_permit_among_those_of_others_is_found),
    place_test(a_broken_permit_of_the_same_process_is_free),
    place_test(a_broken_slot_released_before_the_list_is_free),
    place_test(the_next_holder_notifies_the_broken_holder),
    place_test(a_waiter_that_cannot_list_broken_holders_keeps_its_place),
    place_test(a_call_that_cannot_list_broken_holders_enqueues),
    place_test(a_break_without_descriptors_is_unavailable),
    place_test(a_call_during_a_release_gets_a_free_permit),
};

const lk_group lk_many = {"many", tests, sizeof tests / sizeof tests[0], NULL, NULL};
