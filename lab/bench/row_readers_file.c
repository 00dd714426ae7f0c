/* row_readers_file.c: readers of one key of the file driver, beside the system calls that sharing a file needs: open, F_OFD_SETLK
 * with F_RDLCK, close. They keep readers from writers and a writer waiting for ever. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <unistd.h>

#include "bench.h"

static void read_once(lk_bench *b, size_t index, void *arg)
{
    struct flock range = {.l_type = F_RDLCK, .l_whence = SEEK_SET, .l_start = 0, .l_len = 1};
    const char *path = arg;
    const int fd = open(path, O_RDWR | O_CREAT | O_CLOEXEC, 0600);
    (void)index;
    if (fd < 0 || fcntl(fd, F_OFD_SETLK, &range) != 0)
        lk_bench_crew_fail(b, "%s: %s", path, strerror(errno));
    (void)close(fd);
}

/* The file stands beside the folder of the locks. */
static void bare(lk_bench *b, const lk_readers *on, int each, size_t first)
{
    char path[LK_SERVER_TEXT];
    (void)snprintf(path, sizeof path, "%s-bare", on->uri + strlen("file://"));
    lk_readers_turns(b, each, first, read_once, path);
}

bool lk_row_readers_file(lk_bench *b)
{
    lk_readers on = {.row = "fread", .against = "open, OFD lock, close", .cpu = -1, .bare = bare};
    char directory[LK_SCRATCH_PATH], why[256];
    if (!lk_scratch_make("readers", directory, why, sizeof why)) {
        lk_bench_progress("%s", why);
        return false;
    }
    (void)snprintf(on.uri, sizeof on.uri, "file://%s/locks", directory);
    const bool good = lk_readers_run(b, &on);
    lk_scratch_remove(directory);
    return good;
}
