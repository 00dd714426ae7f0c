/* plugin.c: what a user would have a program with raised privileges load: it leaves a file in /tmp. */
#include <fcntl.h>
#include <unistd.h>

__attribute__((constructor)) static void load(void)
{
    const int fd = open("/tmp/loaded", O_WRONLY | O_CREAT | O_CLOEXEC, 0644);
    if (fd >= 0)
        close(fd);
}
