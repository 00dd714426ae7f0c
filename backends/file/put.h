/* put.h: writing to a file without SIGXFSZ. */
#pragma once

#include <errno.h>
#include <sys/resource.h>
#include <unistd.h>

/** pwrite(), but EFBIG where the process's limit on the size of files (RLIMIT_FSIZE) leaves no room: the kernel would send SIGXFSZ,
 * which kills a process that does not expect it. */
static inline ssize_t lk_file_put(int fd, const void *bytes, size_t len, off_t at)
{
    struct rlimit limit;
    if (getrlimit(RLIMIT_FSIZE, &limit) == 0 && limit.rlim_cur != RLIM_INFINITY &&
        (rlim_t)at + len > limit.rlim_cur) {
        errno = EFBIG;
        return -1;
    }
    return pwrite(fd, bytes, len, at);
}
