/* scratch.c: the directory of a run, and its guardian; see scratch.h. */
#include "servers/scratch.h"

#include <errno.h>
#include <fcntl.h>
#include <ftw.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "servers/wait.h"

enum { TMPDIR_MAX = 48 };

static struct {
    char path[TMPDIR_MAX + 16]; /* "": there is none */
    int alive;                  /* the guardian reads the other end until we are gone */
    pid_t guardian;
    int made; /* directories in it */
} scratch = {.alive = -1};

/* What the guardian tells when it has made the directory, or hasn't. */
typedef struct {
    char path[sizeof scratch.path];
    int error; /* an errno; 0: it is there */
} news;

/* ------------------------------------------------------------------ removing ---- */

static int remove_entry(const char *path, const struct stat *about, int kind, struct FTW *where)
{
    (void)about;
    (void)kind;
    (void)where;
    if (remove(path) < 0 && errno == EBUSY)
        return -1;
    return 0; /* what is not empty yet is met again */
}

static void remove_tree(const char *path)
{
    nftw(path, remove_entry, 16, FTW_DEPTH | FTW_PHYS);
}

static bool is_kept(void)
{
    return getenv("LK_TEST_KEEP") != NULL;
}

/* Servers die at the same moment as our process, and may still be writing. */
static void clear_away(void)
{
    for (int tries = 0; tries < 100 && !is_kept() && access(scratch.path, F_OK) == 0; tries++) {
        remove_tree(scratch.path);
        if (access(scratch.path, F_OK) == 0)
            lk_pause_ms(20);
    }
}

/* ------------------------------------------------------------------ the guardian ---- */

/* It makes the directory too, so that there is no moment in which the directory is there and nobody who would
 * remove it. */
static _Noreturn void guard(int alive, int told)
{
    news made = {.error = 0};
    setsid();
    for (int number = 1; number < 32; number++)
        signal(number, SIG_IGN); /* a terminal's Ctrl-C is not for us; -9 is told below */
    if (mkdtemp(scratch.path) == NULL) {
        made.error = errno;
        scratch.path[0] = '\0';
    }
    memcpy(made.path, scratch.path, sizeof made.path);
    if (write(told, &made, sizeof made) < 0 || made.error != 0) {
        clear_away();
        _exit(0);
    }
    dup2(alive, 0); /* nothing of the caller's stays open: somebody may wait for the end of our output */
    close_range(1, ~0U, 0);
    char byte;
    while (read(0, &byte, 1) < 0 && errno == EINTR)
        ;
    clear_away();
    _exit(0);
}

/* What the guardian tells; an errno when there is none. */
static news start_guardian(void)
{
    news made = {.error = ECHILD};
    int alive[2], told[2];
    if (pipe2(alive, O_CLOEXEC) < 0 || pipe2(told, O_CLOEXEC) < 0 || (scratch.guardian = fork()) < 0) {
        made.error = errno; /* the program's end is near; descriptors are of no interest */
        return made;
    }
    if (scratch.guardian == 0) {
        close(alive[1]);
        close(told[0]);
        guard(alive[0], told[1]);
    }
    close(alive[0]);
    close(told[1]);
    if (read(told[0], &made, sizeof made) != (ssize_t)sizeof made)
        made.error = ECHILD;
    close(told[0]);
    scratch.alive = alive[1];
    return made;
}

const char *lk_scratch(char *why, size_t size)
{
    const char *place = getenv("TMPDIR");
    if (scratch.path[0] != '\0')
        return scratch.path;
    /* sockets' paths are short, and lines to workers are words */
    if (place == NULL || place[0] != '/' || strlen(place) > TMPDIR_MAX || strchr(place, ' ') != NULL)
        place = "/tmp";
    snprintf(scratch.path, sizeof scratch.path, "%s/locker-XXXXXX", place);
    news made = start_guardian();
    if (made.error != 0) {
        lk_scratch_close();
        snprintf(why, size, "can't make a directory in %s: %s; set TMPDIR to a writable directory", place,
                 strerror(made.error));
        return NULL;
    }
    memcpy(scratch.path, made.path, sizeof scratch.path);
    return scratch.path;
}

void lk_scratch_close(void)
{
    if (scratch.alive >= 0) {
        close(scratch.alive);
        waitpid(scratch.guardian, NULL, 0);
    }
    scratch.alive = -1;
    scratch.path[0] = '\0';
}

/* ------------------------------------------------------------------ directories in it ---- */

bool lk_scratch_make(const char *word, char path[LK_SCRATCH_PATH], char *why, size_t size)
{
    const char *base = lk_scratch(why, size);
    if (base == NULL)
        return false;
    snprintf(path, LK_SCRATCH_PATH, "%s/%.9s-%d", base, word, ++scratch.made % 10000);
    if (mkdir(path, 0700) < 0) {
        snprintf(why, size, "can't make %s: %s", path, strerror(errno));
        return false;
    }
    return true;
}

bool lk_scratch_empty(const char *path)
{
    remove_tree(path);
    return mkdir(path, 0700) == 0;
}

void lk_scratch_remove(const char *path)
{
    if (path[0] == '/' && !is_kept())
        remove_tree(path);
}
