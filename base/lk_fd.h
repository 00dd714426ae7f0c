/* lk_fd.h: descriptors of the library are never 0, 1 or 2. In a program that has closed its standard streams the kernel gives out
 * those numbers, and what the program, or another library, prints would then land in a lock file or on a server's connection. */
#pragma once

#include <errno.h>
#include <fcntl.h>
#include <unistd.h>

/** Return the descriptor, or a close-on-exec copy above 2 in its place. -1: errno says why; the descriptor is closed then. Every call
 * that makes a descriptor passes it through here (script/descriptors checks that). */
static inline int lk_fd_high(int fd)
{
    if (fd < 0 || fd > STDERR_FILENO)
        return fd;
    const int high = fcntl(fd, F_DUPFD_CLOEXEC, STDERR_FILENO + 1);
    const int code = errno;
    close(fd);
    errno = code;
    return high;
}
