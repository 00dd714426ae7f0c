/* fork.c: telling a fork's child. */
#include <sys/mman.h>

#include "fork.h"

/* A page that the kernel wipes in a fork's child tells the child apart without a system call (madvise(2),
 * MADV_WIPEONFORK, Linux 4.14). Where it can't be had, the process id does. */
void lk_fork_watch(locker *l)
{
    const size_t size = (size_t)sysconf(_SC_PAGESIZE);
    char *const page = mmap(NULL, size, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    l->pid = getpid();
    if (page == MAP_FAILED)
        return;
    if (madvise(page, size, MADV_WIPEONFORK) != 0) {
        (void)munmap(page, size);
        return;
    }
    *page = 1;
    l->fork_page = page;
    l->fork_page_size = size;
}

void lk_fork_unwatch(locker *l)
{
    if (l->fork_page != NULL)
        (void)munmap(l->fork_page, l->fork_page_size);
}
