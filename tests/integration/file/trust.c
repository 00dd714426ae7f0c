/* trust.c: directories, files and filesystems that the file driver refuses. */
#include <dirent.h>
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "directory.h"
#include "file_test.h"
#include "holding.h"
#include "locking.h"
#include "puppet.h"
#include "skips.h"

static void refused(const char *uri, locker_status wanted, const char *text)
{
    locker *l = NULL;
    locker_error err;
    assert_status(wanted, locker_open(uri, NULL, &l, &err), err);
    assert_null(l);
    if (strstr(err.text, text) == NULL)
        test_fails("%s: \"%s\" does not say \"%s\"", uri, err.text, text);
}

static void opens(const char *uri)
{
    locker *l = NULL;
    locker_error err;
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    locker_close(l);
}

static void uris(void **state)
{
    lk_place *place = *state;
    char uri[200];
    refused("file://otherhost/run/locks", LOCKER_CONFIG, "no host");
    refused("file://localhost:99/run/locks", LOCKER_CONFIG, "no port");
    refused("file:", LOCKER_CONFIG, "path");
    snprintf(uri, sizeof(uri), "file://localhost%s", place->locks);
    opens(uri);
    snprintf(uri, sizeof(uri), "file://%s/missing/locks", place->base);
    refused(uri, LOCKER_CONFIG, "create the parent first");
}

static void directories(void **state)
{
    lk_place *place = *state;
    struct stat s;
    char uri[200], path[100];
    assert_int_equal(stat(place->locks, &s), 0);
    assert_int_equal(s.st_mode & 07777, 0700);

    assert_int_equal(chmod(place->locks, 0770), 0);
    refused(place->uri, LOCKER_CONFIG, "shared=yes");
    snprintf(uri, sizeof(uri), "%s?shared=yes", place->uri);
    opens(uri);
    assert_int_equal(chmod(place->locks, 0777), 0);
    refused(place->uri, LOCKER_CONFIG, "every user");
    refused(uri, LOCKER_CONFIG, "every user");
    assert_int_equal(chmod(place->locks, 0700), 0);

    snprintf(path, sizeof(path), "%s/link", place->base);
    assert_int_equal(symlink(place->locks, path), 0);
    static const char *const ends[] = {"", "/", "/."};
    for (size_t i = 0; i < sizeof(ends) / sizeof(ends[0]); i++) {
        snprintf(uri, sizeof(uri), "file://%s%s", path, ends[i]);
        refused(uri, LOCKER_CONFIG, "symbolic link");
    }
    snprintf(path, sizeof(path), "%s/plain", place->base);
    close(open(path, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    snprintf(uri, sizeof(uri), "file://%s", path);
    refused(uri, LOCKER_CONFIG, "not a directory");
    if (geteuid() != 0)
        skip_reported("a directory of another user", "only root can make one");
    assert_int_equal(chown(place->locks, 65534, (gid_t)-1), 0);
    refused(place->uri, LOCKER_CONFIG, "belongs to user 65534");
}

static void denied(lk_place *place, const char *key, const char *text)
{
    locker_handle *held;
    locker_error err;
    assert_status(LOCKER_DENIED, locker_lock(place->l, key, NULL, &held, &err), err);
    if (strstr(err.text, text) == NULL)
        test_fails("\"%s\" does not say \"%s\"", err.text, text);
    locker_info info = LOCKER_INFO_INIT;
    assert_int_not_equal(locker_break(place->l, key, NULL, &info, &err), LOCKER_OK);
}

static void files(void **state)
{
    lk_place *place = *state;
    struct stat s;
    char target[100];
    snprintf(target, sizeof(target), "%s/target", place->base);
    assert_int_equal(symlink(target, lk_place_file(place, "a.lock")), 0);
    denied(place, "a", "symbolic link");
    assert_int_equal(stat(target, &s), -1);
    assert_int_equal(mkfifo(lk_place_file(place, "b.lock"), 0600), 0);
    denied(place, "b", "not a regular file");
    assert_int_equal(mkdir(lk_place_file(place, "c.lock"), 0700), 0);
    denied(place, "c", "a directory, FIFO");
    close(open(target, O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(link(target, lk_place_file(place, "d.lock")), 0);
    denied(place, "d", "hard link");
    /* A copy of the directory by cp -al gives our own files other names, too. */
    (void)lk_place_token(place, "copied");
    snprintf(target, sizeof(target), "%s/copy", place->base);
    assert_int_equal(link(lk_place_file(place, "copied.lock"), target), 0);
    (void)lk_place_token(place, "copied");
    close(open(lk_place_file(place, "e.lock"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(chmod(lk_place_file(place, "e.lock"), 0666), 0);
    denied(place, "e", "every user");
    if (geteuid() != 0)
        skip_reported("a file of another user", "only root can make one");
    close(open(lk_place_file(place, "f.lock"), O_WRONLY | O_CREAT | O_CLOEXEC, 0600));
    assert_int_equal(chown(lk_place_file(place, "f.lock"), 65534, (gid_t)-1), 0);
    denied(place, "f", "another user");
}

/* A link at the place of one of the directories that a long name is cut into. */
static void links_on_the_way(void **state)
{
    lk_place *place = *state;
    char key[LOCKER_KEY_MAX + 1] = "";
    memset(key, 'k', LOCKER_KEY_MAX);
    char part[LOCKER_KEY_MAX] = "";
    memset(part, 'k', 240);
    strcat(part, ".d");
    assert_int_equal(symlink(place->base, lk_place_file(place, part)), 0);
    denied(place, key, "symbolic link");
    assert_int_equal(unlink(lk_place_file(place, part)), 0);
    assert_true(lk_place_token(place, key) < lk_place_token(place, key));
}

static void shared_files_can_be_written_by_the_group(void **state)
{
    lk_place *place = *state;
    struct stat s;
    char uri[200];
    locker_error err;
    locker *l;
    locker_handle *held;
    snprintf(uri, sizeof(uri), "file://%s/group?shared=yes", place->base);
    mode_t mask = umask(0077);
    assert_ok(locker_open(uri, NULL, &l, &err), err);
    assert_ok(locker_lock(l, "k", NULL, &held, &err), err);
    umask(mask);
    snprintf(uri, sizeof(uri), "%s/group/k.lock", place->base);
    assert_int_equal(stat(uri, &s), 0);
    assert_int_equal(s.st_mode & 0777, 0660);
    locker_handle_free(held);
    locker_close(l);
}

struct group {
    char directory[100], part[400];
    int calls;
};

static void require_modes(const char *directory)
{
    DIR *all = opendir(directory);
    for (const struct dirent *entry; all != NULL && (entry = readdir(all)) != NULL;) {
        struct stat s;
        if (entry->d_name[0] == '.' || fstatat(dirfd(all), entry->d_name, &s, AT_SYMLINK_NOFOLLOW) != 0)
            continue;
        assert_int_equal(s.st_mode & 07777, S_ISDIR(s.st_mode) ? 02770 : 0660);
    }
    if (all != NULL)
        closedir(all);
}

/* Until it listens again. */
static bool has_its_modes(void *context, long number, uint64_t first)
{
    struct group *g = context;
    require_modes(g->directory);
    require_modes(g->part);
    return g->calls++ < 4 || number != SYS_read || first != STDIN_FILENO;
}

/* Its maker may be killed at any moment, and another come. */
static void a_shared_file_never_exists_without_its_mode(void **state)
{
    enum { PART = 240 };
    lk_place *place = *state;
    char uri[200], command[300], keys[2][PART + 11] = {"k", ""};
    struct group g = {.calls = 0};
    memset(keys[1], 'k', sizeof keys[1] - 1);
    snprintf(g.directory, sizeof g.directory, "%s/group", place->base);
    snprintf(g.part, sizeof g.part, "%s/%.*s.d", g.directory, PART, keys[1]);
    snprintf(uri, sizeof uri, "file://%s?shared=yes", g.directory);
    for (int i = 0; i < 2; i++) {
        const mode_t mask = umask(0077);
        lk_child *puppet = lk_puppet_start(uri);
        umask(mask);
        snprintf(command, sizeof command, "lock %.*s 0 0 1 0 0", PART + 10, keys[i]);
        g.calls = 0;
        lk_child_step(puppet, command, has_its_modes, &g);
        assert_true(g.calls > 5);
        lk_child_kill(puppet);
    }
    struct stat s;
    assert_int_equal(stat(g.part, &s), 0);
}

static void filesystems(void **state)
{
    (void)state;
    assert_string_equal(lk_file_filesystem_refused(0x6969), "NFS");
    assert_string_equal(lk_file_filesystem_refused(0xFE534D42), "SMB2");
    assert_non_null(lk_file_filesystem_refused((uint64_t)(int64_t)(int32_t)0xFF534D42));
    assert_non_null(strstr(lk_file_filesystem_refused(0x65735546), "FUSE"));
    static const uint32_t remote[] = {
        /* those that coreutils calls remote, and that hold files of their own */
        0x61636673, 0x5346414F, 0x6B414653, 0x00C36400, 0xFF534D42, 0x73757245, 0x19830326, 0x65735546,
        0x01161970, 0x47504653, 0x013111A8, 0x0BD00BD0, 0x0000564C, 0x00006969, 0x7461636F, 0xAAD7AAEA,
        0x7C7C6673, 0x0000517B, 0xFE534D42, 0xBEEFDEAD, 0x786F4256, 0xBACBACBC, 0xA501FCF5};
    for (size_t i = 0; i < sizeof remote / sizeof *remote; i++)
        if (lk_file_filesystem_refused(remote[i]) == NULL)
            test_fails("%#x is not refused", remote[i]);
    assert_null(lk_file_filesystem_refused(0x794C7630)); /* overlay */
    assert_null(lk_file_filesystem_refused(0xEF53));     /* ext4 */
    assert_null(lk_file_filesystem_refused(0x01021994)); /* tmpfs */
}

static void a_full_disk_is_told(void **state)
{
    lk_place *place = *state;
    char uri[200], path[100];
    locker_error err;
    locker *l;
    locker_handle *held = NULL;
    snprintf(path, sizeof(path), "%s/small", place->base);
    assert_int_equal(mkdir(path, 0700), 0);
    if (mount("tmpfs", path, "tmpfs", MS_NOSUID | MS_NODEV, "size=4k,nr_inodes=16,mode=0700") != 0) {
        skip_reported("a full disk", "can't mount a small tmpfs, which takes root");
    }
    snprintf(uri, sizeof(uri), "file://%s", path);
    locker_status opened = locker_open(uri, NULL, &l, &err), first = LOCKER_OK, second = LOCKER_OK;
    locker_error why = {0};
    if (opened == LOCKER_OK) {
        first = locker_try_lock(l, "one", NULL, &held, &err); /* takes the only page */
        locker_handle *none = NULL;
        second = locker_try_lock(l, "two", NULL, &none, &why);
        locker_handle_free(none);
        locker_handle_free(held);
        if (first == LOCKER_OK)
            first = locker_try_lock(l, "one", NULL, &held, &err); /* its file is there, and is enough */
        locker_handle_free(held);
        locker_close(l);
    }
    umount2(path, MNT_DETACH);
    assert_int_equal(opened, LOCKER_OK);
    assert_int_equal(first, LOCKER_OK);
    assert_int_equal(second, LOCKER_UNAVAILABLE);
    assert_int_equal(why.os_error, ENOSPC);
    assert_non_null(strstr(why.text, "make room"));
}

/* Answers how often it was gone about: one that waits may make a file in it meanwhile. */
static int clean(const lk_place *place)
{
    char command[200];
    snprintf(command, sizeof command, "rm -r %s 2>/dev/null", place->locks);
    int times = 1;
    while (system(command) != 0)
        times++;
    return times;
}

static void excludes_another(const lk_place *place, const char *key)
{
    locker *other = lk_place_open(place);
    locker_handle *held;
    locker_error err;
    assert_ok(locker_try_lock(place->l, key, NULL, &held, &err), err);
    lk_expect_busy(other, key);
    lk_give(held);
    assert_ok(locker_try_lock(other, key, NULL, &held, &err), err);
    lk_expect_busy(place->l, key);
    lk_give(held);
    locker_close(other);
}

/* What cleans /tmp has removed it, once before the locker had a lock and once behind that. */
static void an_idle_locker_makes_its_directory_again(void **state)
{
    lk_place *place = *state;
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    for (int i = 0; i < 5; i++) {
        (void)clean(place);
        if (i == 1)
            assert_ok(locker_ping(place->l, NULL, &err), err);
        if (i == 2)
            assert_ok(locker_show(place->l, "k", &info, &err), err);
        if (i == 3)
            assert_status(LOCKER_INVALID, locker_break(place->l, "k", NULL, NULL, &err), err);
        excludes_another(place, "k");
    }
    (void)clean(place);
    assert_int_equal(mkdir(place->locks, 0777), 0);
    assert_int_equal(chmod(place->locks, 0777), 0);
    locker_handle *held;
    assert_status(LOCKER_UNAVAILABLE, locker_lock(place->l, "k", NULL, &held, &err), err);
    assert_non_null(strstr(err.text, "every user")); /* it is trusted no more than at the opening */
    assert_int_equal(chmod(place->locks, 0700), 0);
    excludes_another(place, "k");
}

static bool can_be_used(void *l)
{
    locker_error err;
    return locker_ping(l, NULL, &err) == LOCKER_OK;
}

/* The holder is told, and nothing is granted until it has let go. */
static void a_holder_loses_with_the_directory(void **state)
{
    lk_place *place = *state;
    locker_handle *held, *none;
    locker_error err;
    assert_ok(locker_lock(place->l, "k", NULL, &held, &err), err);
    (void)clean(place);
    const locker_status status = locker_try_lock(place->l, "other", NULL, &none, &err);
    if (status == LOCKER_OK) { /* the loss was noticed before, and the lock withdrawn */
        assert_int_equal(locker_handle_state(held), LOCKER_STATE_LOST);
        lk_give(none);
    } else {
        assert_status(LOCKER_UNAVAILABLE, status, err);
        lk_require_state(held, LOCKER_STATE_LOST);
    }
    lk_give_lost(held);
    lk_require(can_be_used, place->l, "the lock is withdrawn");
    excludes_another(place, "k");
}

static void a_waiter_goes_on_in_the_new_directory(void **state)
{
    lk_place *place = *state;
    locker *other = lk_place_open(place);
    lk_locking waiter;
    locker_handle *held;
    locker_error err;
    assert_ok(locker_lock(other, "k", NULL, &held, &err), err);
    lk_locking_start(&waiter, place->l, "k", NULL);
    lk_require_waiting(place->l, 1);
    const int times = clean(place);
    locker_handle *const granted = lk_locking_grant(&waiter);
    lk_require_state(held, LOCKER_STATE_LOST);
    lk_give_lost(held);
    lk_require(can_be_used, other, "the lock is withdrawn");
    if (times == 1) { /* else what it was granted may have been removed as well */
        lk_expect_busy(other, "k");
        lk_give(granted);
    } else {
        locker_handle_free(granted);
    }
    locker_close(other);
}

static const struct CMUnitTest tests[] = {
    place_test(uris),
    place_test(directories),
    place_test(files),
    place_test(links_on_the_way),
    place_test(shared_files_can_be_written_by_the_group),
    place_test(a_shared_file_never_exists_without_its_mode),
    cmocka_unit_test(filesystems),
    place_test(a_full_disk_is_told),
    place_test(an_idle_locker_makes_its_directory_again),
    place_test(a_holder_loses_with_the_directory),
    place_test(a_waiter_goes_on_in_the_new_directory),
};

const lk_group lk_trust = {"trust", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
