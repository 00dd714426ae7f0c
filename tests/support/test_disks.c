/* test_disks.c: disks that can be frozen; see test_disks.h. */
#include "test_disks.h"

#include <errno.h>
#include <fcntl.h>
#include <linux/fs.h>
#include <sched.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <sys/mount.h>
#include <sys/stat.h>
#include <unistd.h>

#include "expect.h"
#include "servers/process.h"
#include "skips.h"
#include "test_servers.h"

enum { SIZE = 512 << 20, ROOM = LK_SCRATCH_PATH + 16 };

static int disks[LK_ENSEMBLE]; /* the directories they are mounted at, by the member's id */

/* Ends the program as skipped. */
static _Noreturn void cannot_freeze(const char *why)
{
    lk_test_report_skip("disks that are frozen", why);
    fflush(NULL);
    _exit(77); /* SKIP_RETURN_CODE */
}

static bool run(const char *const *words)
{
    return lk_process_run(0, words) == 0;
}

/* What is mounted is seen by nobody else, and is gone with the last of us. */
static void go_apart(void)
{
    if (geteuid() != 0 || unshare(CLONE_NEWNS) < 0 || mount("", "/", NULL, MS_REC | MS_PRIVATE, NULL) < 0)
        cannot_freeze("needs root and mount namespaces");
    if (!lk_program_exists("mkfs.ext4"))
        cannot_freeze("needs the program mkfs.ext4: install e2fsprogs");
}

/* ------------------------------------------------------------------ the guardian ---- */

/* Thaws all when we have ended: a server that waits for its disk can't. */
static _Noreturn void guard(int alive)
{
    char byte;
    setsid();
    for (int number = 1; number < 32; number++)
        signal(number, SIG_IGN);
    dup2(alive, 0);
    for (int i = 0; i < LK_ENSEMBLE; i++)
        dup2(disks[i], 1 + i); /* none of them is one of these */
    close_range(1 + LK_ENSEMBLE, ~0U, 0);
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    for (int i = 0; i < LK_ENSEMBLE; i++)
        (void)ioctl(1 + i, FITHAW, 0);
    _exit(0);
}

static void start_guardian(void)
{
    int alive[2];
    if (pipe2(alive, O_CLOEXEC) < 0)
        test_fails("can't make a pipe: %s", strerror(errno));
    const pid_t pid = fork();
    if (pid < 0)
        test_fails("can't start a guardian of disks: %s", strerror(errno));
    if (pid == 0)
        guard(alive[0]);
    close(alive[0]); /* the other end is closed by our end */
}

/* ------------------------------------------------------------------ a disk ---- */

/* In the directory `data`, which is empty. */
static void mount_disk(const char *image, const char *data)
{
    const int fd = open(image, O_WRONLY | O_CREAT | O_EXCL | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, SIZE) < 0)
        test_fails("can't make %s: %s", image, strerror(errno));
    close(fd);
    if (!run((const char *[]){"mkfs.ext4", "-q", "-m", "0", image, NULL}))
        cannot_freeze("needs the program mkfs.ext4, and it can't here");
    if (!run((const char *[]){"mount", "-o", "loop", image, data, NULL}))
        cannot_freeze("needs loop devices, and mount finds none");
}

static void put_on_disk(lk_server *member)
{
    char data[ROOM], before[ROOM], all[ROOM], image[ROOM];
    snprintf(data, sizeof data, "%s/data", member->directory);
    snprintf(before, sizeof before, "%s/before", member->directory);
    snprintf(all, sizeof all, "%s/before/.", member->directory);
    snprintf(image, sizeof image, "%s/disk", member->directory);
    lk_server_kill(member);
    if (rename(data, before) < 0 || mkdir(data, 0700) < 0)
        test_fails("can't make room for a disk in %s: %s", data, strerror(errno));
    mount_disk(image, data);
    if (!run((const char *[]){"cp", "-a", all, data, NULL}))
        test_fails("can't put data on a disk in %s", data);
    disks[member->id - 1] = open(data, O_RDONLY | O_DIRECTORY | O_CLOEXEC);
    if (disks[member->id - 1] < 0)
        test_fails("can't open %s: %s", data, strerror(errno));
}

void lk_test_put_on_disks(lk_server *members)
{
    go_apart();
    for (int i = 0; i < LK_ENSEMBLE; i++)
        put_on_disk(&members[i]);
    start_guardian();
    lk_test_ensemble_heal(members);
}

void lk_test_disk_freeze(const lk_server *member)
{
    if (ioctl(disks[member->id - 1], FIFREEZE, 0) < 0)
        test_fails("can't freeze a disk: %s", strerror(errno));
}

void lk_test_disk_thaw(const lk_server *member)
{
    if (ioctl(disks[member->id - 1], FITHAW, 0) < 0)
        test_fails("can't thaw a disk: %s", strerror(errno));
}
