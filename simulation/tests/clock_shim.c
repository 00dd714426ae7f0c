/* clock_shim.c: loaded into a redis-server (LD_PRELOAD), has it read the time from a page of memory that a
 * test writes, or the time that it is and so much more. Its event loop goes by another clock, which stays. (libfaketime
 * 0.9.10 ends in a recursion beside the server's jemalloc.) */
#include <fcntl.h>
#include <stdint.h>
#include <stdlib.h>
#include <sys/mman.h>
#include <sys/time.h>
#include <time.h>
#include <unistd.h>

/* In us: since 1970, or 0: as it is; and what is added to that. What is not in the file is 0. */
static const volatile int64_t *page;

__attribute__((constructor)) static void map(void)
{
    const char *path = getenv("LOCKER_CLOCK_PAGE");
    const int fd = path != NULL ? open(path, O_RDONLY | O_CLOEXEC) : -1;
    void *memory = fd >= 0 ? mmap(NULL, 2 * sizeof *page, PROT_READ, MAP_SHARED, fd, 0) : MAP_FAILED;
    if (memory == MAP_FAILED)
        abort();
    page = memory;
    close(fd);
}

int gettimeofday(struct timeval *restrict tv, void *restrict zone)
{
    struct timespec real;
    (void)zone;
    clock_gettime(CLOCK_REALTIME, &real);
    const int64_t us = page[0] != 0 ? page[0] : real.tv_sec * 1000000 + real.tv_nsec / 1000 + page[1];
    tv->tv_sec = us / 1000000;
    tv->tv_usec = us % 1000000;
    return 0;
}
