/*
 * removal.c: lock files that nobody uses go, and tokens still grow. Most tests have an instance of the driver's own
 * beside the lockers, without core and its threads, and sweep with it when they want to.
 */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <sys/un.h>
#include <time.h>
#include <unistd.h>

#include "file_test.h"
#include "holding.h"
#include "lockfile.h"
#include "locking.h"
#include "sweep.h"
#include "tokens.h"
#include "watch.h"

extern const locker_driver lk_file_driver;

int __real_fdatasync(int fd);
int __wrap_fdatasync(int fd);

/* What stands for the disk: whether it fails, and which file is to be there when something is flushed to it. */
static bool flush_fails;
static const char *there_at_flush;
static int flushes;

int __wrap_fdatasync(int fd)
{
    struct stat s;
    if (there_at_flush == NULL)
        return __real_fdatasync(fd);
    flushes += stat(there_at_flush, &s) == 0;
    errno = EIO;
    return flush_fails ? -1 : __real_fdatasync(fd);
}

static const lk_file_sweep_limits all = {.most = 0, .keep = 0, .list = 100000};

/* ------------------------------------------------------------------ an instance without core ---- */

static int lost;

static void do_nothing(const locker_services *svc)
{
    (void)svc;
}

static void wake(const locker_services *svc, locker_claim *claim)
{
    (void)svc;
    (void)claim;
}

static void lease_lost(const locker_services *svc, locker_claim *grant, const char *why)
{
    (void)svc;
    (void)grant;
    (void)why;
    lost++;
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    (void)svc;
    (void)level;
    (void)format;
}

static lk_file *bare_open(const char *locks)
{
    static locker_services services = {.size = sizeof services,
                                       .wake = wake,
                                       .lease_lost = lease_lost,
                                       .attend = do_nothing,
                                       .log = log_line};
    static const locker_value values[2];
    const locker_driver_config config = {.size = sizeof config,
                                         .scheme = "file",
                                         .path = locks,
                                         .name_space = "",
                                         .owner = "",
                                         .values = values};
    void *self = NULL;
    locker_error err;
    services.clock = lk_clock();
    if (lk_file_driver.open(&config, &services, &self, &err) != LOCKER_OK)
        test_fails("%s", err.text);
    return self;
}

static void bare_close(lk_file *self)
{
    lk_file_driver.close(self);
}

/* A grant of it. */
typedef struct {
    locker_claim claim;
    lk_file_claim data;
    char key[LOCKER_KEY_MAX + 1];
} bare_grant;

static void bare_lock(lk_file *self, const char *key, bare_grant *g)
{
    *g = (bare_grant){.claim = {.key_len = strlen(key), .owner = ""}};
    strcpy(g->key, key);
    g->claim.key = g->key;
    g->claim.data = &g->data;
    assert_int_equal(lk_file_driver.acquire(self, &g->claim, NULL), LOCKER_OK);
}

static locker_status bare_unlock(lk_file *self, bare_grant *g)
{
    return lk_file_driver.release(self, &g->claim, LOCKER_NEVER, NULL);
}

static void sweep(lk_file *self)
{
    assert_int_equal(lk_file_sweep_part(self, &all, 0), 0);
}

/* ------------------------------------------------------------------ what is there ---- */

static size_t count_in(const char *path, bool (*counts)(const char *name))
{
    size_t count = 0;
    DIR *directory = opendir(path);
    assert_non_null(directory);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        count += counts(entry->d_name);
    closedir(directory);
    return count;
}

static bool is_lock_file(const char *name)
{
    return strstr(name, ".lock") != NULL;
}

static bool is_shown(const char *name)
{
    return name[0] != '.';
}

static size_t lock_files(const lk_place *place)
{
    return count_in(place->locks, is_lock_file);
}

static bool is_there(const lk_place *place, const char *name)
{
    struct stat s;
    return lstat(lk_place_file(place, name), &s) == 0;
}

static void put_file(const lk_place *place, const char *name, const void *bytes, size_t len)
{
    const int fd = open(lk_place_file(place, name), O_WRONLY | O_CREAT | O_TRUNC | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(write(fd, bytes, len), len);
    close(fd);
}

/* A key whose clock was ahead: nothing but what is remembered lets its tokens grow. */
static uint64_t put_ahead(const lk_place *place, const char *name, uint64_t token)
{
    char template[LK_FILE_RECORD_SIZE];
    const lk_file_record record = {.token = token};
    lk_file_record_template(template);
    const int fd = open(lk_place_file(place, name), O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    assert_true(fd >= 0);
    assert_int_equal(lk_file_record_write(fd, template, &record, false), 0);
    close(fd);
    return token;
}

enum { AHEAD_BITS = 62 };
static const uint64_t ahead = UINT64_C(1) << AHEAD_BITS;

static const char *long_key(int number)
{
    static char key[LOCKER_KEY_MAX + 1];
    memset(key, 'x', LOCKER_KEY_MAX);
    const int len = snprintf(key, sizeof key, "%d", number);
    key[len] = 'x';
    return key;
}

/* Making files where many were just removed is slow on ext4 without a journal. */
static int in_memory(void **state)
{
    (void)state;
    if (access("/dev/shm", W_OK) == 0)
        setenv("TMPDIR", "/dev/shm", 1);
    return 0;
}

/* ------------------------------------------------------------------ how many stay ---- */

enum { AT_MOST = 1024 };

static void many_keys_leave_few_files(void **state)
{
    enum { KEYS = 5000 };
    lk_place *place = *state;
    char key[32];
    uint64_t first = lk_place_token(place, "0");
    for (int i = 1; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        (void)lk_place_token(place, key);
    }
    assert_true(lk_place_token(place, "0") > first);
    lk_close_locker(place->l);
    const size_t left = lock_files(place);
    print_message("%zu files are left of %d keys\n", left, KEYS);
    place->l = lk_place_open(place);
    assert_true(left > 0 && left <= AT_MOST);
}

enum { SHOOTERS = 4, SHOTS = 750 };

/* Lockers that live for one key each. */
static int shoot(const char *uri, const char *name)
{
    for (int i = 0; i < SHOTS; i++) {
        locker *l;
        locker_handle *held;
        locker_error err;
        char key[32];
        snprintf(key, sizeof key, "%s-%d", name, i);
        if (locker_open(uri, NULL, &l, &err) != LOCKER_OK ||
            locker_lock(l, key, NULL, &held, &err) != LOCKER_OK || locker_unlock(held, &err) != LOCKER_OK)
            return 3;
        locker_handle_free(held);
        locker_close(l);
    }
    return 0;
}

static void one_key_of_each_process_leaves_few_files(void **state)
{
    lk_place *place = *state;
    lk_child *child[SHOOTERS];
    for (int i = 0; i < SHOOTERS; i++) {
        char name[32];
        snprintf(name, sizeof name, "%d", i);
        child[i] = lk_child_start("stormer", (const char *[]){"shots", place->uri, name, NULL});
    }
    for (int i = 0; i < SHOOTERS; i++)
        assert_int_equal(lk_child_end(child[i]), 0);
    const size_t left = lock_files(place);
    print_message("%zu files are left of %d keys\n", left, SHOOTERS * SHOTS);
    assert_true(left > 0 && left <= AT_MOST);
}

/* Many that are held are no reason to leave the others. */
static void held_locks_hide_no_others(void **state)
{
    enum { HELD = 700, KEYS = 2500 };
    lk_place *place = *state;
    static locker_handle *held[HELD];
    char key[32];
    locker_error err;
    for (int i = 0; i < HELD; i++) {
        snprintf(key, sizeof key, "held-%d", i);
        assert_ok(locker_lock(place->l, key, NULL, &held[i], &err), err);
    }
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        (void)lk_place_token(place, key);
    }
    const size_t before = lock_files(place);
    print_message("%zu files are there, %d are held\n", before, HELD);
    assert_true(before <= HELD + KEYS / 2);
    for (int i = 0; i < HELD; i++)
        lk_give(held[i]); /* OK: the file is the one at the name */
    lk_close_locker(place->l);
    const size_t left = lock_files(place);
    place->l = lk_place_open(place);
    assert_true(left <= AT_MOST);
}

static void few_files_are_left_alone(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    const lk_file_sweep_limits limits = {.most = 4, .keep = 2, .list = 100};
    char key[2] = "a";
    for (; key[0] < 'e'; key[0]++)
        (void)lk_place_token(place, key);
    (void)lk_file_sweep_part(self, &limits, 0);
    assert_int_equal(lock_files(place), 4);
    (void)lk_place_token(place, "e");
    static const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    for (key[0] = 'a'; key[0] < 'd'; key[0]++) {
        char name[16];
        snprintf(name, sizeof name, "%s.lock", key);
        assert_int_equal(utimensat(AT_FDCWD, lk_place_file(place, name), old, 0), 0);
    }
    assert_int_equal(lk_file_sweep_part(self, &limits, 0), 0);
    assert_int_equal(lock_files(place), 2);
    assert_true(is_there(place, "d.lock") && is_there(place, "e.lock"));
    bare_close(self);
}

/* A long name is cut anywhere, also before a '.', and before what looks like a file in the making. */
static void names_cut_before_a_point_are_swept(void **state)
{
    enum { PART = 240 };
    static const char *const ends[] = {".a", ".new-1-a-b", ".queue-1-2-3"};
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    for (size_t i = 0; i < sizeof ends / sizeof *ends; i++) {
        char key[PART + 20], part[PART + 3];
        memset(key, 'a', PART);
        strcpy(key + PART, ends[i]);
        snprintf(part, sizeof part, "%.*s.d", PART, key);
        (void)lk_place_token(place, key);
        assert_true(is_there(place, part));
        (void)lk_file_sweep_part(self, &all, 0);
        if (is_there(place, part))
            test_fails("the lock file of a key that goes on with '%s' stays", ends[i]);
    }
    bare_close(self);
}

/* A directory that is too long for one list is worked off in parts, to its end. */
static void long_directories_are_swept_in_parts(void **state)
{
    enum { KEYS = 300 };
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    const lk_file_sweep_limits limits = {.most = 20, .keep = 10, .list = 50};
    char key[32];
    for (int i = 0; i < KEYS; i++) {
        snprintf(key, sizeof key, "%d", i);
        (void)lk_place_token(place, key);
    }
    long at = 0;
    int parts = 0;
    do {
        at = lk_file_sweep_part(self, &limits, at);
    } while (at != 0 && ++parts < KEYS);
    assert_int_equal(at, 0);
    assert_true(lock_files(place) <= limits.most);
    bare_close(self);
}

static void long_names_go_with_their_directories(void **state)
{
    enum { KEYS = 50 };
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    uint64_t first = 0;
    char name[300];
    for (int i = 0; i < KEYS; i++) {
        const uint64_t token = lk_place_token(place, long_key(i));
        first = first == 0 ? token : first;
    }
    memset(name, 'y', 240);
    strcpy(name + 240, ".d");
    assert_int_equal(mkdir(lk_place_file(place, name), 0700), 0); /* its maker was killed */
    assert_int_equal(count_in(place->locks, is_shown), KEYS + 1);
    bare_grant held;
    bare_lock(self, long_key(1), &held);
    sweep(self);
    assert_int_equal(count_in(place->locks, is_shown), 1);
    assert_int_equal(bare_unlock(self, &held), LOCKER_OK);
    sweep(self);
    assert_int_equal(count_in(place->locks, is_shown), 0);
    assert_true(lk_place_token(place, long_key(0)) > first);
    bare_close(self);
}

/* ------------------------------------------------------------------ tokens ---- */

static void tokens_grow_over_removals(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    uint64_t last = lk_place_token(place, "k");
    for (int i = 0; i < 3; i++) {
        sweep(self);
        assert_false(is_there(place, "k.lock"));
        const uint64_t token = lk_place_token(place, "k");
        assert_true(token > last);
        last = token;
    }
    /* the clock was set back by many years */
    last = put_ahead(place, "k.lock", ahead);
    for (int i = 0; i < 3; i++) {
        sweep(self);
        assert_false(is_there(place, "k.lock"));
        const uint64_t token = lk_place_token(place, "k");
        assert_true(token == last + 1);
        last = token;
    }
    /* ... and what is in the file is lost */
    assert_int_equal(truncate(lk_place_file(place, "k.lock"), 7), 0);
    assert_true(lk_place_token(place, "k") >= last);
    bare_close(self);
}

/* With sync=yes: after a crash of the host a file that is gone has its token in the table. */
static void a_token_is_on_the_disk_before_its_file_goes(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    char path[200];
    self->sync = true;
    (void)lk_place_token(place, "k");
    snprintf(path, sizeof path, "%s", lk_place_file(place, "k.lock"));
    flushes = 0;
    there_at_flush = path;
    flush_fails = true;
    sweep(self);
    assert_int_equal(flushes, 1);
    assert_true(is_there(place, "k.lock"));
    flush_fails = false;
    sweep(self);
    there_at_flush = NULL;
    assert_int_equal(flushes, 2);
    assert_false(is_there(place, "k.lock"));
    bare_close(self);
}

static void a_slot_never_goes_back(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    int tokens;
    uint64_t token;
    assert_true((tokens = lk_file_tokens_open(self)) >= 0);
    assert_true(lk_file_tokens_raise(tokens, 5, ahead));
    assert_int_equal(lk_file_tokens_floor(self, 5, &token), 0);
    assert_true(token == ahead);
    close(tokens);
    assert_true((tokens = lk_file_tokens_open(self)) >= 0);
    assert_true(lk_file_tokens_raise(tokens, 5 + LK_FILE_TOKEN_SLOTS, 7));
    assert_true(lk_file_tokens_raise(tokens, LK_FILE_TOKEN_SLOTS - 1, 8));
    assert_false(lk_file_tokens_raise(tokens, 6, UINT64_MAX - 1));
    assert_int_equal(lk_file_tokens_floor(self, 5, &token), 0);
    assert_true(token == ahead);
    assert_int_equal(lk_file_tokens_floor(self, 6, &token), 0);
    assert_true(token == 0);
    assert_int_equal(lk_file_tokens_floor(self, LK_FILE_TOKEN_SLOTS - 1, &token), 0);
    assert_true(token == 8);
    /* While another raises a slot, that one can't be had, and the others can. */
    int second;
    struct flock range = {.l_type = F_WRLCK, .l_whence = SEEK_SET, .l_start = 80, .l_len = 16};
    assert_true((second = lk_file_tokens_open(self)) >= 0);
    assert_int_equal(fcntl(second, F_OFD_SETLK, &range), 0);
    assert_false(lk_file_tokens_raise(tokens, 5, ahead + 1));
    assert_true(lk_file_tokens_raise(tokens, 4, 9) && lk_file_tokens_raise(tokens, 6, 9));
    close(second);
    close(tokens);
    bare_close(self);
}

/* Each byte of a slot lost: never a wrong token. */
static void a_damaged_slot_goes_on_from_the_clock(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    int tokens;
    uint64_t token;
    assert_true((tokens = lk_file_tokens_open(self)) >= 0);
    assert_true(lk_file_tokens_raise(tokens, 0, ahead + 12345));
    close(tokens);
    const int fd = open(lk_place_file(place, ".tokens"), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    for (off_t i = 0; i < 16; i++) {
        unsigned char was, other;
        assert_int_equal(pread(fd, &was, 1, i), 1);
        other = (unsigned char)~was;
        assert_int_equal(pwrite(fd, &other, 1, i), 1);
        assert_int_equal(lk_file_tokens_floor(self, 0, &token), 0);
        assert_true(token == 0);
        assert_int_equal(pwrite(fd, &was, 1, i), 1);
    }
    assert_int_equal(ftruncate(fd, 9), 0);
    assert_int_equal(lk_file_tokens_floor(self, 0, &token), 0);
    assert_true(token == 0);
    close(fd);
    assert_int_equal(unlink(lk_place_file(place, ".tokens")), 0);
    /* A file with a damaged slot is of use all the same. */
    assert_true((tokens = lk_file_tokens_open(self)) >= 0);
    assert_true(lk_file_tokens_raise(tokens, 1, 5));
    assert_int_equal(pwrite(tokens, "xxxxxxxxxxxxxxxx", 16, 0), 16);
    close(tokens);
    uint64_t last = lk_place_token(place, "k");
    assert_true(last < ahead);
    sweep(self);
    assert_false(is_there(place, "k.lock"));
    assert_true(lk_place_token(place, "k") > last);
    put_ahead(place, "k.lock", ahead);
    sweep(self);
    assert_true(lk_place_token(place, "k") == ahead + 1);
    bare_close(self);
}

/* What is no file of tokens is left alone, and so are then the lock files. */
static void somebody_elses_tokens_are_left_alone(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    char target[200], text[20000], after[sizeof text];
    memset(text, 'z', sizeof text);
    snprintf(target, sizeof target, "%s/target", place->base);
    for (int i = 0; i < 5; i++) {
        static const size_t lengths[] = {0, 0, sizeof text, 16, 16384};
        const char *path = lk_place_file(place, ".tokens");
        if (i == 0)
            assert_int_equal(symlink(target, path), 0);
        else if (i == 1)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            put_file(place, ".tokens", text, lengths[i]);
        if (i == 3)
            assert_int_equal(chmod(path, 0602), 0); /* everybody can write it */
        (void)lk_place_token(place, "k");
        sweep(self);
        assert_true(is_there(place, "k.lock"));
        assert_int_equal(unlink(lk_place_file(place, "k.lock")), 0);
        const uint64_t token = lk_place_token(place, "k");
        assert_true(token > 0 && token < ahead);
        path = lk_place_file(place, ".tokens");
        if (i >= 2) {
            const int fd = open(path, O_RDONLY | O_CLOEXEC);
            const ssize_t len = read(fd, after, sizeof after);
            close(fd);
            assert_int_equal(len, lengths[i]);
            assert_memory_equal(text, after, (size_t)len);
        }
        assert_int_equal(i == 1 ? rmdir(path) : unlink(path), 0);
        assert_int_equal(access(target, F_OK), -1);
    }
    sweep(self);
    assert_false(is_there(place, "k.lock"));
    bare_close(self);
}

/* A break, before and after a removal. */
static void a_break_counts_on_from_a_removed_file(void **state)
{
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    locker_info info = LOCKER_INFO_INIT;
    locker_handle *held;
    locker_error err;
    put_ahead(place, "k.lock", ahead);
    sweep(self);
    assert_ok(locker_show(place->l, "k", &info, &err), err);
    assert_true(!info.held && info.token == 0);
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_true(locker_handle_token(held) == ahead + 1);
    /* its record is lost, so that only what is remembered tells */
    assert_int_equal(truncate(lk_place_file(place, "k.lock"), 3), 0);
    assert_ok(locker_break(place->l, "k", NULL, NULL, &err), err);
    const uint64_t token = lk_place_token(place, "k");
    assert_true(token >= ahead + 1);
    sweep(self);
    assert_true(lk_place_token(place, "k") > token);
    lk_give_lost(held);
    bare_close(self);
}

/* ------------------------------------------------------------------ what is never removed ---- */

static int lock_byte(const lk_place *place, const char *name, short type, off_t byte)
{
    const int fd = open(lk_place_file(place, name), O_RDWR | O_CLOEXEC);
    assert_true(fd >= 0);
    assert_int_equal(lk_file_range_lock(fd, type, byte), 0);
    return fd;
}

static void a_sweep_keeps_files_in_use(void **state)
{
    static const char *const names[] = {"held.lock", "waited.lock", "broken.lock"};
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    int fds[3];
    for (int i = 0; i < 3; i++) {
        char key[16];
        snprintf(key, sizeof key, "%.*s", (int)strcspn(names[i], "."), names[i]);
        (void)lk_place_token(place, key);
        fds[i] = lock_byte(place, names[i], i == 1 ? F_RDLCK : F_WRLCK, i);
    }
    sweep(self);
    for (int i = 0; i < 3; i++) {
        assert_true(is_there(place, names[i]));
        close(fds[i]);
        sweep(self);
        assert_false(is_there(place, names[i]));
        for (int k = i + 1; k < 3; k++)
            assert_true(is_there(place, names[k]));
    }
    bare_close(self);
}

static void put_socket(const lk_place *place, const char *name)
{
    struct sockaddr_un address = {.sun_family = AF_UNIX};
    const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const int base = open(place->locks, O_PATH | O_DIRECTORY | O_CLOEXEC); /* a socket's path is short */
    snprintf(address.sun_path, sizeof address.sun_path, "/proc/self/fd/%d/%s", base, name);
    assert_int_equal(bind(fd, (const struct sockaddr *)&address, sizeof address), 0);
    close(base);
    close(fd);
}

static bool is_any(const char *name)
{
    return strcmp(name, ".") != 0 && strcmp(name, "..") != 0;
}

static void a_sweep_keeps_files_that_are_no_locks(void **state)
{
    static const char *const names[] = {"long.lock", "damaged.lock", "directory.lock", "link.lock",
                                        "hard.lock", "open.lock",    "elsewhere.lock", "record",
                                        ".x.lock",   "high.lock",    "postgres.lock",  "a b.lock",
                                        "fifo.lock", "socket.lock",  "zeros.lock",     "empty.lock"};
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    char text[1000];
    memset(text, 'z', sizeof text);
    put_file(place, "long.lock", text, sizeof text);
    put_file(place, "damaged.lock", text, 100);
    assert_int_equal(mkdir(lk_place_file(place, "directory.lock"), 0700), 0);
    put_ahead(place, "record", 5);
    put_ahead(place, ".x.lock", 5);
    put_ahead(place, "high.lock", UINT64_MAX - 2);
    assert_int_equal(symlink("record", lk_place_file(place, "link.lock")), 0);
    char other[200];
    put_file(place, "hard.lock", "", 0);
    snprintf(other, sizeof other, "%s/other", place->base);
    assert_int_equal(link(lk_place_file(place, "hard.lock"), other), 0);
    put_ahead(place, "open.lock", 5);
    assert_int_equal(chmod(lk_place_file(place, "open.lock"), 0602), 0);
    put_file(place, "elsewhere.lock", "", 0); /* such as another program makes */
    assert_int_equal(chmod(lk_place_file(place, "elsewhere.lock"), 0644), 0);
    put_file(place, "empty.lock", "", 0); /* as one of ours that was killed before it was written */
    put_ahead(place, "a b.lock", 5);      /* no key is encoded so */
    memset(text, '\0', sizeof text);
    put_file(place, "zeros.lock", text, LK_FILE_RECORD_SIZE);
    assert_int_equal(mkfifo(lk_place_file(place, "fifo.lock"), 0600), 0);
    put_socket(place, "socket.lock");
    put_file(place, "postgres.lock", "", 0);
    const int held = open(lk_place_file(place, "postgres.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(flock(held, LOCK_EX), 0);
    put_ahead(place, "twice.lock", 5); /* ours, with another name */
    snprintf(other, sizeof other, "%s/twice", place->base);
    assert_int_equal(link(lk_place_file(place, "twice.lock"), other), 0);
    (void)lk_place_token(place, "k");
    sweep(self);
    close(held);
    for (size_t i = 0; i < sizeof names / sizeof *names; i++)
        if (!is_there(place, names[i]))
            test_fails("%s was removed", names[i]);
    assert_false(is_there(place, "k.lock"));
    assert_false(is_there(place, "twice.lock"));
    bare_close(self);
}

static void make_old(const char *path)
{
    static const struct timespec old[2] = {{1000000, 0}, {1000000, 0}};
    assert_int_equal(utimensat(AT_FDCWD, path, old, AT_SYMLINK_NOFOLLOW), 0);
}

/* Old files, directories, links, FIFOs and sockets of other programs, whose names begin as ours do, or are ours to the letter. */
static void a_sweep_keeps_files_of_other_programs(void **state)
{
    enum { TICKET = 34 };
    static const char *const files[] = {".new-important", ".new-1-2-3x",    ".new-1-2-z",
                                        ".new-7-8-9",     ".queue-of-mail", ".queue-1-2-3"};
    static const char *const directories[] = {".new-things", ".new-1-2-5", ".queue-mail", ".queue-8-1-5"};
    lk_place *place = *state;
    lk_file *self = bare_open(place->locks);
    char path[300], part[243], ticket[TICKET + 1];
    for (size_t i = 0; i < sizeof files / sizeof *files; i++)
        put_file(place, files[i], "data", 4);
    assert_int_equal(symlink("nowhere", lk_place_file(place, ".new-7-8-a")), 0);
    assert_int_equal(mkfifo(lk_place_file(place, ".new-7-8-b"), 0600), 0);
    put_socket(place, ".new-7-8-c");
    put_ahead(place, ".new-7-8-d", 5); /* one of ours, with a name elsewhere */
    snprintf(path, sizeof path, "%s/elsewhere", place->base);
    assert_int_equal(link(lk_place_file(place, ".new-7-8-d"), path), 0);
    put_file(place, ".new-7-8-e", "", 0);
    assert_int_equal(chmod(lk_place_file(place, ".new-7-8-e"), 0644), 0);
    for (size_t i = 0; i < sizeof directories / sizeof *directories; i++)
        assert_int_equal(mkdir(lk_place_file(place, directories[i]), 0755), 0);
    memset(part, 'y', 240);
    strcpy(part + 240, ".d");
    assert_int_equal(mkdir(lk_place_file(place, part), 0755), 0);
    /* In a directory with the name of a queue: what is no ticket, and what is none but has the name of one. */
    strcpy(ticket, "00000000000000aa-00000001-00000002");
    snprintf(path, sizeof path, ".queue-8-1-5/%s", ticket);
    put_file(place, path, "data", 4);
    ticket[0] = '1';
    snprintf(path, sizeof path, ".queue-8-1-5/%s", ticket);
    put_socket(place, path);
    assert_int_equal(
        mkfifo(lk_place_file(place, ".queue-8-1-5/a-name-that-is-longer-than-a-ticket-is"), 0600), 0);
    put_file(place, ".queue-8-1-5/=0123456789abcdef0123456789abcdef", "data", 4);
    assert_int_equal(symlink("x", lk_place_file(place, ".queue-8-1-5/=0123456789-not-a-number-at-all-=")), 0);
    (void)lk_place_token(place, "k");
    const size_t before = count_in(place->locks, is_any),
                 inside = count_in(lk_place_file(place, ".queue-8-1-5"), is_any);
    DIR *all_of_them = opendir(place->locks);
    for (const struct dirent *entry; (entry = readdir(all_of_them)) != NULL;)
        if (is_any(entry->d_name))
            make_old(lk_place_file(place, entry->d_name));
    closedir(all_of_them);
    sweep(self);
    bare_close(self);
    assert_int_equal(count_in(place->locks, is_any), before); /* .tokens has come, and k.lock gone */
    assert_int_equal(count_in(lk_place_file(place, ".queue-8-1-5"), is_any), inside);
}

/* ------------------------------------------------------------------ whom it wakes ---- */

static bool has_events(lk_file *self)
{
    struct pollfd p = {.fd = lk_file_descriptor(self), .events = POLLIN};
    return poll(&p, 1, 0) == 1;
}

static void a_removal_wakes_no_holder(void **state)
{
    enum { LOOKS = 3 };
    lk_place *place = *state;
    lk_file *holder = bare_open(place->locks), *self = bare_open(place->locks);
    bare_grant held[2];
    lost = 0;
    (void)lk_place_token(place, long_key(2));
    sweep(self); /* the tokens' file is there */
    bare_lock(holder, "held", &held[0]);
    bare_lock(holder, long_key(1), &held[1]);
    for (int i = 0; i <= LOOKS; i++) {
        (void)lk_place_token(place, "k");
        (void)lk_place_token(place, long_key(2));
        sweep(self);
        assert_false(is_there(place, "k.lock"));
        assert_false(has_events(holder));
        lk_clock_go((i + 1) * INT64_C(1100000000)); /* a second later, when it has looked at its grants */
        (void)lk_file_dispatch(holder);
    }
    assert_int_equal(bare_unlock(holder, &held[1]), LOCKER_OK);
    assert_int_equal(bare_unlock(holder, &held[0]), LOCKER_OK);
    /* Nor does the file that it had held. */
    (void)lk_file_dispatch(holder);
    sweep(self);
    assert_false(is_there(place, "held.lock"));
    assert_false(has_events(holder));
    assert_int_equal(lost, 0);
    bare_close(holder);
    bare_close(self);
}

/* Somebody removes the file of a grant: its holder is told by the next look, of one that lasts by an event. */
static void a_holder_notices_that_its_file_is_removed(void **state)
{
    lk_place *place = *state;
    for (int looks = 0; looks < 4; looks++) {
        lk_file *holder = bare_open(place->locks);
        bare_grant held;
        lost = 0;
        lk_clock_go(0);
        bare_lock(holder, "k", &held);
        for (int i = 0; i < looks; i++) {
            lk_clock_go((i + 1) * INT64_C(1100000000));
            (void)lk_file_dispatch(holder);
        }
        assert_false(has_events(holder));
        assert_int_equal(unlink(lk_place_file(place, "k.lock")), 0);
        assert_int_equal(has_events(holder), looks >= 2);
        if (looks < 2)
            lk_clock_go((looks + 1) * INT64_C(1100000000));
        (void)lk_file_dispatch(holder);
        assert_int_equal(lost, 1);
        assert_int_equal(bare_unlock(holder, &held), LOCKER_LOST);
        bare_close(holder);
    }
}

/* A grant that has its watch, and whose file is not looked at any more: what no event tells is still seen. */
static void a_holder_of_a_watched_grant_notices_a_change_of_the_path(void **state)
{
    lk_place *place = *state;
    char path[120], link[100];
    bare_grant held;
    snprintf(link, sizeof link, "%s/link", place->base);
    snprintf(path, sizeof path, "%s/locks", link);
    assert_int_equal(symlink(place->base, link), 0);
    lk_file *holder = bare_open(path);
    lost = 0;
    bare_lock(holder, "k", &held);
    for (int i = 0; i < 4; i++) {
        lk_clock_go((i + 1) * INT64_C(1100000000));
        (void)lk_file_dispatch(holder);
        assert_true((lost != 0) == (i == 3));
        if (i == 2) {
            assert_int_equal(unlink(link), 0);
            assert_int_equal(symlink("/", link), 0);
        }
    }
    assert_int_equal(bare_unlock(holder, &held), LOCKER_LOST);
    bare_close(holder);
}

/* ------------------------------------------------------------------ meeting a sweep ---- */

static void a_try_waits_for_a_sweep(void **state)
{
    lk_place *place = *state;
    lk_locking trier;
    locker_lock_options options = lk_wait_options(0);
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    (void)lk_place_token(place, "k");
    const int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(lk_file_whole_lock(fd, F_WRLCK), 0);
    assert_ok(locker_show(place->l, "k", &info, &err), err);
    assert_false(info.held);
    const uint64_t before = lk_stats(place->l).attempts;
    lk_locking_start(&trier, place->l, "k", &options);
    while (lk_stats(place->l).attempts == before)
        ;
    close(fd);
    assert_int_equal(lk_locking_join(&trier), LOCKER_OK);
    lk_give(trier.held);
}

/* A sweep that is late, as on a busy machine, holds nothing, so a try waits for it and does not answer BUSY. */
static void a_try_waits_for_a_late_sweep(void **state)
{
    lk_place *place = *state;
    lk_locking trier;
    locker_lock_options options = lk_wait_options(0);
    (void)lk_place_token(place, "k");
    const int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(lk_file_whole_lock(fd, F_WRLCK), 0);
    lk_locking_start(&trier, place->l, "k", &options);
    usleep(300 * 1000);
    close(fd);
    assert_status(LOCKER_OK, lk_locking_join(&trier), trier.err);
    lk_give(trier.held);
}

/* However long it takes: one that will wait goes on waiting. */
static void a_wait_outlives_a_removal_that_takes_long(void **state)
{
    lk_place *place = *state;
    lk_locking waiter;
    (void)lk_place_token(place, "k");
    const int fd = open(lk_place_file(place, "k.lock"), O_RDWR | O_CLOEXEC);
    assert_int_equal(lk_file_whole_lock(fd, F_WRLCK), 0);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    const uint64_t before = lk_stats(place->l).attempts;
    while (lk_stats(place->l).attempts < before + 2 && lk_stats(place->l).waiting > 0)
        usleep(1000);
    close(fd);
    lk_give(lk_locking_grant(&waiter));
}

/* What was being made when its maker died goes with a sweep when it is old, and not before. A maker that lives has its file locked. */
static void a_sweep_removes_old_half_made_files(void **state)
{
    static const char *const names[] = {".new-1-2-3", ".new-1-2-4", ".new-1-2-5", ".new-1-2-6"};
    enum { FILE_OLD, DIRECTORY_OLD, FILE_YOUNG, FILE_LOCKED };
    const struct timespec old[2] = {{.tv_sec = time(NULL) - 1000}, {.tv_sec = time(NULL) - 1000}};
    lk_place *place = *state;
    struct stat s;
    for (int i = FILE_OLD; i <= FILE_LOCKED; i++) {
        const char *const path = lk_place_file(place, names[i]);
        if (i == DIRECTORY_OLD)
            assert_int_equal(mkdir(path, 0700), 0);
        else
            close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
        if (i != FILE_YOUNG)
            assert_int_equal(utimensat(AT_FDCWD, path, old, 0), 0);
    }
    const int maker = open(lk_place_file(place, names[FILE_LOCKED]), O_RDWR | O_CLOEXEC);
    assert_int_equal(lk_file_whole_lock(maker, F_WRLCK), 0);
    lk_file *self = bare_open(place->locks);
    sweep(self);
    bare_close(self);
    for (int i = FILE_OLD; i <= FILE_LOCKED; i++)
        assert_int_equal(stat(lk_place_file(place, names[i]), &s), i >= FILE_YOUNG ? 0 : -1);
    close(maker);
}

/* ------------------------------------------------------------------ storms ---- */

enum { STORM_KEYS = 3, SOLO = STORM_KEYS };

typedef struct {
    _Atomic int stop;
    _Atomic uint32_t holder[STORM_KEYS + 1];
    _Atomic uint64_t token[STORM_KEYS + 1];
    _Atomic uint64_t cycles, tries, sweeps, removed;
    _Atomic uint64_t two, back, busy, failed;
} storm;

static storm *storm_map(const char *path)
{
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, sizeof(storm)) != 0)
        return NULL;
    storm *s = mmap(NULL, sizeof *s, PROT_READ | PROT_WRITE, MAP_SHARED, fd, 0);
    close(fd);
    return s == MAP_FAILED ? NULL : s;
}

static void storm_cycle(storm *s, locker *l, int k)
{
    static const char *const keys[] = {"a", "b", NULL, "solo"};
    locker_handle *held;
    locker_error err;
    const char *key = keys[k] != NULL ? keys[k] : long_key(0);
    const locker_status status =
        k == SOLO ? locker_try_lock(l, key, NULL, &held, &err) : locker_lock(l, key, NULL, &held, &err);
    if (status != LOCKER_OK) {
        fprintf(stderr, "storm: %s: %s\n", key, err.text);
        (*(status == LOCKER_BUSY ? &s->busy : &s->failed))++;
        return;
    }
    if (atomic_exchange(&s->holder[k], 1) != 0)
        s->two++;
    if (atomic_exchange(&s->token[k], locker_handle_token(held)) >= locker_handle_token(held))
        s->back++;
    s->holder[k] = 0;
    if (locker_unlock(held, &err) != LOCKER_OK)
        s->failed++;
    locker_handle_free(held);
    (*(k == SOLO ? &s->tries : &s->cycles))++;
}

/* stormer KIND URI DIRECTORY FILE, or stormer shots URI NAME */
int lk_stormer_play(int argc, char **argv)
{
    locker *l = NULL;
    locker_error err;
    if (argc == 3)
        return shoot(argv[1], argv[2]);
    storm *s = argc == 4 ? storm_map(argv[3]) : NULL;
    if (s == NULL)
        return 1;
    if (strcmp(argv[0], "sweep") == 0) {
        lk_file *self = bare_open(argv[2]);
        while (s->stop == 0) {
            (void)lk_file_sweep_part(self, &all, 0);
            s->sweeps++;
        }
        bare_close(self);
        return 0;
    }
    if (locker_open(argv[1], NULL, &l, &err) != LOCKER_OK)
        return 2;
    for (int i = 0; s->stop == 0; i++)
        storm_cycle(s, l, strcmp(argv[0], "try") == 0 ? SOLO : i % STORM_KEYS);
    locker_close(l);
    return 0;
}

static bool has_raged(void *s_)
{
    enum { CYCLES = 3000, SWEEPS = 300 };
    const storm *s = s_;
    return (s->cycles > CYCLES && s->tries > CYCLES && s->sweeps > SWEEPS) || s->two || s->back || s->busy ||
           s->failed;
}

static void sweeps_in_a_storm_do_no_harm(void **state)
{
    static const char *const kinds[] = {"lock", "lock", "lock", "try", "sweep", "sweep"};
    enum { CHILDREN = sizeof kinds / sizeof *kinds };
    lk_place *place = *state;
    lk_child *child[CHILDREN];
    char path[100];
    snprintf(path, sizeof path, "%s/storm", place->base);
    storm *s = storm_map(path);
    assert_non_null(s);
    for (int k = 0; k < STORM_KEYS + 1; k++) /* nothing but what is remembered lets them grow */
        s->token[k] = ahead;
    put_ahead(place, "a.lock", ahead);
    put_ahead(place, "solo.lock", ahead);
    lk_file *self = bare_open(place->locks);
    lk_file_name name;
    int tokens;
    assert_true((tokens = lk_file_tokens_open(self)) >= 0);
    lk_file_name_set(&name, "", "b", 1);
    assert_true(lk_file_tokens_raise(tokens, name.hash, ahead));
    lk_file_name_set(&name, "", long_key(0), strlen(long_key(0)));
    assert_true(lk_file_tokens_raise(tokens, name.hash, ahead));
    close(tokens);
    bare_close(self);
    for (int i = 0; i < CHILDREN; i++)
        child[i] =
            lk_child_start("stormer", (const char *[]){kinds[i], place->uri, place->locks, path, NULL});
    const bool raged = lk_until(has_raged, s, LK_TEST_PATIENCE_MS);
    s->stop = 1;
    for (int i = 0; i < CHILDREN; i++)
        assert_int_equal(lk_child_end(child[i]), 0);
    print_message("%llu cycles, %llu tries, %llu sweeps\n", (unsigned long long)s->cycles,
                  (unsigned long long)s->tries, (unsigned long long)s->sweeps);
    assert_int_equal(s->two, 0);
    assert_int_equal(s->back, 0);
    assert_int_equal(s->busy, 0);
    assert_int_equal(s->failed, 0);
    assert_true(raged);
    (void)munmap(s, sizeof *s);
}

/* ------------------------------------------------------------------ kill -9 ---- */

/* sweeper DIRECTORY: a part for each line. */
int lk_sweeper_play(int argc, char **argv)
{
    lk_file *self = argc == 1 ? bare_open(argv[0]) : NULL;
    char line[LK_LINE_MAX];
    lk_side_say("listens");
    while (self != NULL && lk_side_hear(line)) {
        (void)lk_file_sweep_part(self, &all, 0);
    }
    return 0;
}

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

static bool sweep_and_kill(const lk_place *place, int n)
{
    struct death d = {.n = n};
    lk_child *sweeper = lk_child_start("sweeper", (const char *[]){place->locks, NULL});
    lk_child_expect(sweeper, "listens");
    lk_child_step(sweeper, "sweep", lives, &d);
    lk_child_kill(sweeper);
    return !d.over;
}

/* Or each sweep would make a system call more for each that was killed before, and never come to its end. */
static void remove_what_is_half_made(lk_place *place)
{
    DIR *directory = opendir(place->locks);
    for (const struct dirent *entry; (entry = readdir(directory)) != NULL;)
        if (strncmp(entry->d_name, LK_FILE_NEW_PREFIX, strlen(LK_FILE_NEW_PREFIX)) == 0)
            (void)unlinkat(dirfd(directory), entry->d_name, 0);
    closedir(directory);
}

static void a_sweep_killed_anywhere_loses_nothing(void **state)
{
    lk_place *place = *state;
    locker *other = lk_place_open(place);
    locker_handle *held;
    locker_error err;
    int n = 1;
    uint64_t last = put_ahead(place, "k.lock", ahead);
    put_ahead(place, "l.lock", ahead);
    for (; sweep_and_kill(place, n); n++) {
        assert_ok(locker_try_lock(place->l, "k", NULL, &held, &err), err);
        assert_true(locker_handle_token(held) > last);
        last = locker_handle_token(held);
        lk_expect_busy(other, "k");
        lk_give(held);
        assert_true(lk_place_token(place, "l") > ahead);
        (void)unlink(lk_place_file(place, n % 2 == 0 ? ".tokens" : ".none")); /* it is made anew, too */
        remove_what_is_half_made(place);
        if (n % 2 == 0)
            last = put_ahead(place, "k.lock", last);
    }
    print_message("killed at %d system calls\n", n - 1);
    assert_true(n > 30);
    locker_close(other);
}

static const struct CMUnitTest tests[] = {
    place_test(many_keys_leave_few_files),
    place_test(one_key_of_each_process_leaves_few_files),
    place_test(held_locks_hide_no_others),
    place_test(few_files_are_left_alone),
    place_test(names_cut_before_a_point_are_swept),
    place_test(long_directories_are_swept_in_parts),
    place_test(long_names_go_with_their_directories),
    place_test(tokens_grow_over_removals),
    place_test(a_token_is_on_the_disk_before_its_file_goes),
    place_test(a_slot_never_goes_back),
    place_test(a_damaged_slot_goes_on_from_the_clock),
    place_test(somebody_elses_tokens_are_left_alone),
    place_test(a_break_counts_on_from_a_removed_file),
    place_test(a_sweep_keeps_files_in_use),
    place_test(a_sweep_keeps_files_that_are_no_locks),
    place_test(a_sweep_keeps_files_of_other_programs),
    place_test(a_removal_wakes_no_holder),
    place_test(a_holder_notices_that_its_file_is_removed),
    place_test(a_holder_of_a_watched_grant_notices_a_change_of_the_path),
    place_test(a_try_waits_for_a_sweep),
    place_test(a_try_waits_for_a_late_sweep),
    place_test(a_wait_outlives_a_removal_that_takes_long),
    place_test(a_sweep_removes_old_half_made_files),
    place_test(sweeps_in_a_storm_do_no_harm),
    place_test(a_sweep_killed_anywhere_loses_nothing),
};

const lk_group lk_removal = {"removal", tests, sizeof(tests) / sizeof(tests[0]), in_memory, NULL};
