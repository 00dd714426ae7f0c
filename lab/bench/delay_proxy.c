/* delay_proxy.c: a proxy in a process of its own, which makes the way to a server longer, and changes
 * nothing else. For the rows that count round trips. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include "bench.h"
#include "proxy/proxy.h"

pid_t lk_delay_start(lk_bench *b, int to, int64_t ms, int *port)
{
    lk_proxy *proxy = lk_proxy_open(NULL, to);
    const pid_t boss = getpid(), pid = proxy != NULL ? fork() : -1;
    if (pid == 0) {
        (void)signal(SIGINT, SIG_DFL);
        (void)signal(SIGTERM, SIG_DFL);
        (void)setpgid(0, 0); /* Ctrl-C is for the boss, who stops us */
        (void)prctl(PR_SET_PDEATHSIG, SIGKILL);
        (void)prctl(PR_SET_TIMERSLACK, 1UL);
        if (b->server_cpu >= 0)
            (void)lk_bench_pin(b->server_cpu);
        lk_proxy_delay(proxy, ms, ms);
        if (getppid() == boss)
            lk_proxy_serve(proxy);
        _exit(1);
    }
    if (pid < 0)
        lk_bench_progress("can't start the proxy: %s", strerror(errno));
    else
        *port = lk_proxy_port(proxy);
    lk_proxy_free(proxy);
    return pid > 0 ? pid : 0;
}

void lk_delay_stop(pid_t pid)
{
    if (pid <= 0)
        return;
    (void)kill(pid, SIGKILL);
    (void)waitpid(pid, NULL, 0);
}
