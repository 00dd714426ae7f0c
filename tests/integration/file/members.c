/* members.c: users of one group share a lock directory, also under the filters of system calls that services run with. Each user is a
 * child that gives up root's rights. */
#include <errno.h>
#include <grp.h>
#include <linux/filter.h>
#include <linux/seccomp.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/stat.h>
#include <sys/syscall.h>
#include <unistd.h>

#include "child.h"
#include "file_test.h"
#include "holding.h"
#include "skips.h"

enum { GROUP = 61000, FIRST = 60001, SECOND = 60002, STRANGER = 60003 };

/* ------------------------------------------------------------------ a member ---- */

/* What systemd installs for RestrictSUIDSGID=yes: no call may set the set-group-id bit. ABI_ARGUMENT: the low half of one. */
#define ABI_ARGUMENT(n) (offsetof(struct seccomp_data, args) + 8 * (n))
#define REFUSE_MODE(call, n)                                                                                 \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),                                   \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 3),                                                     \
        BPF_STMT(BPF_LD | BPF_W | BPF_ABS, ABI_ARGUMENT(n)),                                                 \
        BPF_JUMP(BPF_JMP | BPF_JSET | BPF_K, 06000, 0, 1),                                                   \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)
#define REFUSE(call)                                                                                         \
    BPF_STMT(BPF_LD | BPF_W | BPF_ABS, offsetof(struct seccomp_data, nr)),                                   \
        BPF_JUMP(BPF_JMP | BPF_JEQ | BPF_K, call, 0, 1),                                                     \
        BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ERRNO | EPERM)

static bool install(struct sock_filter *filter, unsigned short len)
{
    const struct sock_fprog program = {len, filter};
    return prctl(PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0) == 0 &&
           prctl(PR_SET_SECCOMP, SECCOMP_MODE_FILTER, &program) == 0;
}

static bool restrict_setgid(void)
{
    struct sock_filter chmod_[] = {REFUSE_MODE(SYS_fchmod, 1)}, chmodat[] = {REFUSE_MODE(SYS_fchmodat, 2)},
                       mkdir_[] = {REFUSE_MODE(SYS_mkdirat, 2)}, mknod_[] = {REFUSE_MODE(SYS_mknodat, 2)};
    return install(chmod_, sizeof chmod_ / sizeof *chmod_) &&
           install(chmodat, sizeof chmodat / sizeof *chmodat) &&
           install(mkdir_, sizeof mkdir_ / sizeof *mkdir_) && install(mknod_, sizeof mknod_ / sizeof *mknod_);
}

static bool restrict_chown(void)
{
    struct sock_filter filter[] = {REFUSE(SYS_fchown), REFUSE(SYS_fchownat),
                                   BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    return install(filter, sizeof filter / sizeof *filter);
}

/* As a filesystem without access control lists. */
static bool restrict_acl(void)
{
    struct sock_filter filter[] = {REFUSE(SYS_fsetxattr), BPF_STMT(BPF_RET | BPF_K, SECCOMP_RET_ALLOW)};
    return install(filter, sizeof filter / sizeof *filter);
}

static int become(const char *uid, const char *umask_, const char *filter)
{
    const uid_t user = (uid_t)atoi(uid);
    const gid_t group = GROUP;
    umask((mode_t)strtoul(umask_, NULL, 8));
    if (setgroups(user == STRANGER ? 0 : 1, &group) != 0 || setresgid(user, user, user) != 0 ||
        setresuid(user, user, user) != 0)
        return 2;
    if ((strchr(filter, 'g') != NULL && !restrict_setgid()) ||
        (strchr(filter, 'o') != NULL && !restrict_chown()) ||
        (strchr(filter, 'x') != NULL && !restrict_acl()))
        return 3;
    return 0;
}

static locker_status take(locker *l, const char *key, locker_mode mode, int32_t permits, locker_handle **held,
                          locker_error *err)
{
    locker_lock_options o = LOCKER_LOCK_OPTIONS_INIT;
    o.mode = mode;
    o.permits = permits;
    o.wait_ms = LK_TEST_PATIENCE_MS;
    return locker_lock(l, key, &o, held, err);
}

static void log_line(locker_log_level level, const char *text, void *warned)
{
    (void)level;
    (void)text;
    *(bool *)warned = true;
}

/* Commands: "open", "take", "give", "many". Answers: a status, and the text of an error. */
static int serve(const char *uri)
{
    static bool warned;
    locker *l = NULL;
    locker_handle *held[3] = {NULL, NULL, NULL};
    locker_error err = {0};
    char line[LK_LINE_MAX];
    locker_options o = LOCKER_OPTIONS_INIT;
    o.log = log_line;
    o.log_user = &warned;
    o.log_level = LOCKER_LOG_WARN;
    lk_side_say("ready");
    while (lk_side_hear(line)) {
        locker_status status = LOCKER_OK;
        if (strcmp(line, "open") == 0) {
            status = locker_open(uri, &o, &l, &err);
        } else if (strcmp(line, "take") == 0) {
            status = take(l, "k", LOCKER_EXCLUSIVE, 0, &held[0], &err);
            locker_handle_free(held[0]);
            if (status == LOCKER_OK)
                status = take(l, "s", LOCKER_SHARED, 0, &held[1], &err);
            if (status == LOCKER_OK)
                status = take(l, "p", LOCKER_EXCLUSIVE, 2, &held[2], &err);
        } else if (strcmp(line, "give") == 0) {
            status = locker_unlock(held[1], &err);
            if (status == LOCKER_OK)
                status = locker_unlock(held[2], &err);
            locker_handle_free(held[1]);
            locker_handle_free(held[2]);
        } else {
            for (int i = 0; i < 1500 && status == LOCKER_OK; i++) {
                char key[16];
                snprintf(key, sizeof key, "%d", i);
                status = take(l, key, LOCKER_EXCLUSIVE, 0, &held[0], &err);
                locker_handle_free(held[0]);
            }
            locker_close(l);
            l = NULL;
        }
        lk_side_say("%s%s %s", locker_status_name(status), warned ? " warned" : "",
                    status == LOCKER_OK ? "" : err.text);
    }
    locker_close(l);
    return 0;
}

int lk_member_play(int argc, char **argv)
{
    if (argc != 4)
        return 1;
    const int code = become(argv[0], argv[1], argv[2]);
    return code != 0 ? code : serve(argv[3]);
}

/* ------------------------------------------------------------------ the tests ---- */

/* A directory of root's for the group. */
static int setup(void **state)
{
    (void)lk_place_setup(state);
    lk_place *place = *state;
    return chmod(place->base, 0755) == 0 && rmdir(place->locks) == 0 ? 0 : -1;
}

static void above(const lk_place *place, gid_t group, mode_t mode, char path[200])
{
    if (geteuid() != 0)
        skip_reported("file.members", "only root can be two users");
    snprintf(path, 200, "%s/above", place->base);
    assert_int_equal(mkdir(path, 0700), 0);
    assert_int_equal(chown(path, 0, group), 0);
    assert_int_equal(chmod(path, mode), 0);
}

static lk_child *member(int user, const char *mask, const char *filter, const char *directory)
{
    char uid[16], uri[300];
    snprintf(uid, sizeof uid, "%d", user);
    snprintf(uri, sizeof uri, "file://%s?shared=yes", directory);
    lk_child *child = lk_child_start("member", (const char *[]){uid, mask, filter, uri, NULL});
    lk_child_expect(child, "ready");
    return child;
}

static void does(lk_child *child, const char *what, const char *answer)
{
    lk_child_say(child, "%s", what);
    char line[LK_LINE_MAX];
    if (strstr(lk_child_hear(child, line), answer) == NULL)
        test_fails("%s: \"%s\" does not say \"%s\"", what, line, answer);
    if (strcmp(answer, "ok ") == 0 && strstr(line, "warned") != NULL)
        test_fails("%s: it was warned", what);
}

static void every_member_may_use_files_of_the_others(void **state)
{
    static const char *const masks[][2] = {{"022", "077"}, {"077", "022"}, {"002", "077"}};
    const lk_place *place = *state;
    char path[200], locks[300];
    above(place, GROUP, 02770, path);
    for (size_t i = 0; i < sizeof masks / sizeof *masks; i++) {
        snprintf(locks, sizeof locks, "%s/%zu", path, i);
        lk_child *first = member(FIRST, masks[i][0], "", locks),
                 *second = member(SECOND, masks[i][1], "", locks);
        does(first, "open", "ok ");
        does(second, "open", "ok ");
        does(first, "take", "ok ");
        does(second, "take", "ok ");
        does(first, "give", "ok ");
        does(second, "give", "ok ");
        if (i == 0) {
            does(first, "many", "ok ");
            does(second, "many", "ok ");
        }
        assert_int_equal(lk_child_end(first), 0);
        assert_int_equal(lk_child_end(second), 0);
    }
}

static void two_may_make_it_at_once(void **state)
{
    enum { ROUNDS = 50 };
    const lk_place *place = *state;
    char path[200], locks[300];
    above(place, GROUP, 02775, path);
    for (int i = 0; i < ROUNDS; i++) {
        snprintf(locks, sizeof locks, "%s/%d", path, i);
        lk_child *both[2] = {member(FIRST, "022", "", locks), member(SECOND, "022", "", locks)};
        for (int k = 0; k < 2; k++)
            lk_child_say(both[k], "open");
        for (int k = 0; k < 2; k++)
            lk_child_expect(both[k], "ok ");
        for (int k = 0; k < 2; k++)
            assert_int_equal(lk_child_end(both[k]), 0);
    }
}

/* One who is in no group of the others makes directories where everybody may; and a directory that is no group's. */
static void a_strangers_directory_is_refused(void **state)
{
    const lk_place *place = *state;
    char path[200], locks[300];
    above(place, GROUP, 02777, path);
    snprintf(locks, sizeof locks, "%s/inherited", path);
    lk_child *stranger = member(STRANGER, "002", "", locks), *first = member(FIRST, "002", "", locks);
    does(stranger, "open", "ok ");
    does(first, "open", "config");
    assert_int_equal(lk_child_end(stranger), 0);
    assert_int_equal(lk_child_end(first), 0);
    assert_int_equal(chmod(path, 01777), 0);
    static const mode_t modes[] = {02775, 02750, 0770};
    for (size_t i = 0; i < sizeof modes / sizeof *modes; i++) {
        snprintf(locks, sizeof locks, "%s/%zu", path, i);
        assert_int_equal(mkdir(locks, 0700), 0);
        assert_int_equal(chown(locks, SECOND, i == 0 ? STRANGER : GROUP),
                         0); /* of another group; not for the group */
        assert_int_equal(chmod(locks, modes[i]), 0);
        first = member(FIRST, "002", "", locks);
        does(first, "open", "2770");
        assert_int_equal(lk_child_end(first), 0);
    }
}

/* In a directory without the set-group-id bit it can't be set; where it is inherited nothing has to be set. */
static void a_filter_leaves_nothing_half_made(void **state)
{
    const lk_place *place = *state;
    char path[200], locks[300];
    struct stat s;
    above(place, 0, 01777, path);
    snprintf(locks, sizeof locks, "%s/locks", path);
    lk_child *first = member(FIRST, "022", "go", locks);
    does(first, "open", "RestrictSUIDSGID");
    assert_int_equal(lk_child_end(first), 0);
    assert_int_equal(stat(locks, &s), -1);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_nlink, 2); /* no directory is in it */
    assert_int_equal(mkdir(locks, 0700), 0);
    assert_int_equal(chown(locks, 0, GROUP), 0);
    assert_int_equal(chmod(locks, 02770), 0);
    for (int i = 0; i < 2; i++) {
        lk_child *both[2] = {member(FIRST, i == 0 ? "022" : "007", "go", locks),
                             member(SECOND, "077", "go", locks)};
        static const char *const steps[] = {"open", "take", "give", "many"};
        for (size_t k = 0; k < 2 * (sizeof steps / sizeof *steps); k++)
            does(both[k % 2], steps[k / 2], "ok ");
        assert_int_equal(lk_child_end(both[0]), 0);
        assert_int_equal(lk_child_end(both[1]), 0);
    }
    strcat(locks, "/.tokens");
    assert_int_equal(stat(locks, &s), 0); /* sweeps went on */
    assert_int_equal(s.st_gid, GROUP);
}

/* The directory is there, and what is made in it can't get its mode. */
static void a_directory_whose_mode_cannot_be_given_to_its_queues_is_refused(void **state)
{
    const lk_place *place = *state;
    char path[200];
    struct stat s;
    above(place, GROUP, 02770, path);
    lk_child *first = member(FIRST, "022", "gox", path);
    does(first, "open", "cannot create directories in");
    assert_int_equal(lk_child_end(first), 0);
    assert_int_equal(stat(path, &s), 0);
    assert_int_equal(s.st_nlink, 2); /* nothing is left of the attempt */
    first = member(FIRST, "007", "gox", path);
    does(first, "open", "ok ");
    assert_int_equal(lk_child_end(first), 0);
}

#define member_test(f) cmocka_unit_test_setup_teardown(f, setup, lk_place_teardown)

static const struct CMUnitTest tests[] = {
    member_test(every_member_may_use_files_of_the_others),
    member_test(two_may_make_it_at_once),
    member_test(a_strangers_directory_is_refused),
    member_test(a_filter_leaves_nothing_half_made),
    member_test(a_directory_whose_mode_cannot_be_given_to_its_queues_is_refused),
};

const lk_group lk_members = {"members", tests, sizeof(tests) / sizeof(tests[0]), NULL, NULL};
