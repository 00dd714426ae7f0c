/* clock_shim.c: loaded into a redis-server (LD_PRELOAD), has it read the time from a page of memory that a
 * test writes. Its event loop goes by another clock, which stays. */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <unistd.h>

static const volatile int64_t *page; /* in us, since 1970 */

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("LOCKER_CLOCK_PAGE");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd >= 0 ? mmap(NULL, sizeof *page, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED)
        abort();
    page = memory;
    close(fd);
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    const int64_t us = *page;
    (void)zone;
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}
