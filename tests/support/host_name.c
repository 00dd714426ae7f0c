/* host_name.c: gethostname() of the whole program, exported to the libraries that it loads (CMakeLists.txt): a name that is in
 * every /etc/hosts. */
#include "host_name.h"

#include <pthread.h>
#include <stdatomic.h>
#include <stdio.h>
#include <time.h>
#include <unistd.h>

static pthread_t prompt;
static atomic_int delay_s;

void lk_host_name_delay(int seconds)
{
    prompt = pthread_self();
    atomic_store(&delay_s, seconds);
}

/* Instead of the C library's. */
__attribute__((visibility("default"))) int gethostname(char *name, size_t len)
{
    const int s = atomic_load(&delay_s);
    if (s > 0 && !pthread_equal(prompt, pthread_self()))
        (void)nanosleep(&(struct timespec){.tv_sec = s}, NULL);
    (void)snprintf(name, len, "localhost");
    return 0;
}
