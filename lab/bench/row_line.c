/* row_line.c: row line: processes that wait for one lock of the file driver, each to run a command. Measured is the time from the
 * unlock that sets them off until all are served and gone. Bare is flock(1). */
#include <errno.h>
#include <fcntl.h>
#include <spawn.h>
#include <stdlib.h>
#include <string.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"

extern char **environ;

typedef struct {
    char directory[LK_SCRATCH_PATH];
    char uri[96], bare[96];
    int length;
    bool ours;
} line;

static const char key[] = "line";
enum { SHORT = 50, MIDDLE = 200, LONG = 400, FIELDS = 8 };

/* Processes that sleep in flock(2) for that file, as /proc/locks has them. */
static int count_sleeping(const struct stat *file)
{
    char text[256], wanted[32];
    int count = 0;
    FILE *const locks = fopen("/proc/locks", "re");
    (void)snprintf(wanted, sizeof wanted, ":%lu ", (unsigned long)file->st_ino);
    while (locks != NULL && fgets(text, sizeof text, locks) != NULL)
        count += strstr(text, "-> FLOCK") != NULL && strstr(text, wanted) != NULL;
    if (locks != NULL)
        (void)fclose(locks);
    return count;
}

static int count_waiting(lk_bench *b, locker *l)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err;
    if (locker_show(l, key, &info, &err) != LOCKER_OK)
        lk_bench_crew_fail(b, "%s", err.text);
    const int count = (int)info.waiters;
    locker_info_clear(&info);
    return count;
}

static void line_body(lk_bench *b, int member, const void *arg)
{
    const line *p = arg;
    const char *const ours[] = {LOCKER_BENCH_TOOL, "run", "--uri", p->uri, key, "--", "true", NULL};
    const char *const bare[] = {"flock", p->bare, "true", NULL};
    const char *const *argv = p->ours ? ours : bare;
    (void)member;
    locker *l = p->ours ? lk_open_or_fail(b, p->uri) : NULL;
    locker_handle *held = l != NULL ? lk_lock_or_fail(b, l, key, NULL) : NULL;
    struct stat file = {0};
    const int fd = l != NULL ? -1 : open(p->bare, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    if (l == NULL && (fd < 0 || flock(fd, LOCK_EX) != 0 || fstat(fd, &file) != 0))
        lk_bench_crew_fail(b, "%s: %s", p->bare, strerror(errno));
    for (int i = 0; i < p->length; i++) {
        pid_t pid;
        const int code = posix_spawnp(&pid, argv[0], NULL, NULL, (char *const *)argv, environ);
        if (code != 0)
            lk_bench_crew_fail(b, "%s: %s", argv[0], strerror(code));
    }
    while ((l != NULL ? count_waiting(b, l) : count_sleeping(&file)) < p->length)
        lk_bench_sleep(20 * LK_BENCH_MS);
    lk_bench_crew_ready(b);
    lk_bench_sleep(200 * LK_BENCH_MS);
    const int64_t from = lk_bench_now();
    if (l != NULL)
        lk_unlock_or_fail(b, held);
    else
        (void)close(fd);
    for (int i = 0; i < p->length; i++) {
        int status = 0;
        if (wait(&status) < 0 || status != 0)
            lk_bench_crew_fail(b, "%s ended with status %d", argv[0], status);
    }
    b->crew->value[0] = (double)(lk_bench_now() - from) / LK_BENCH_MS;
    (void)locker_close(l);
}

static bool line_of(lk_bench *b, line *p, int length)
{
    char what[64];
    lk_series took[2] = {0};
    p->length = (int)lk_scale(b, length);
    (void)snprintf(what, sizeof what, "%d waiting `locker run`, all served", length);
    const lk_bench_figure served = {"line", what, "ms", "flock(1)", LK_GOAL_RATIO_AT_MOST, 1.3};
    for (int round = 0; round < b->rounds; round++) {
        for (int ours = 0; ours < 2; ours++) {
            p->ours = ours != 0;
            const lk_work work = {.members = 1, .cpu = -1, .body = line_body, .arg = p};
            if (!lk_bench_crew_run(b, &work))
                return false;
            lk_series_add(&took[ours], b->crew->value[0]);
        }
    }
    lk_bench_report(b, &served, &took[0], &took[1]);
    return true;
}

bool lk_row_line(lk_bench *b)
{
    line p;
    char why[256];
    if (!lk_scratch_make("line", p.directory, why, sizeof why)) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(p.uri, sizeof p.uri, "file://%s/locks", p.directory);
    (void)snprintf(p.bare, sizeof p.bare, "%s/bare", p.directory);
    const bool done = line_of(b, &p, SHORT) && line_of(b, &p, MIDDLE) && line_of(b, &p, LONG);
    lk_scratch_remove(p.directory);
    return done;
}
