/* run_holder.c: who holds the lock that is not to be had. A wait says it once, from a thread of its own, so
 * that the place in the queue is kept. */
#include <poll.h>
#include <stdio.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include "run_parts.h"

enum { PATIENCE_MS = 2000 };

const char *lk_run_holder_words(const lk_run *r, char *out, size_t size)
{
    locker_info info = LOCKER_INFO_INIT;
    int n = 0;
    out[0] = '\0';
    locker_error err;
    if (locker_show(r->l, r->options.key, &info, &err) == LOCKER_OK && info.held) {
        char owner[LK_CLI_CLEAN];
        n = snprintf(out, size, " by %s",
                     info.owner[0] ? lk_cli_clean(info.owner, owner) : "a holder that is not known");
        if (info.holders_len > 1)
            n += snprintf(out + n, size - (size_t)n, " and %zu more", info.holders_len - 1);
        char since[96];
        if (lk_cli_since_words(info.since_unix_ms, since, sizeof since))
            n += snprintf(out + n, size - (size_t)n, " since %s", since);
        if (info.waiters > 0)
            snprintf(out + n, size - (size_t)n, "; %lld waiting", (long long)info.waiters);
    }
    locker_info_clear(&info);
    return out;
}

static void *tell(void *context)
{
    lk_run *r = context;
    struct pollfd stop = {.fd = r->teller.stop_fd, .events = POLLIN};
    if (poll(&stop, 1, PATIENCE_MS) != 0)
        return NULL;
    char words[512];
    lk_run_holder_words(r, words, sizeof words);
    if (!atomic_load_explicit(&r->teller.over, memory_order_relaxed))
        lk_cli_message("waiting for '%s'%s%s", r->options.key, words[0] ? ", held" : "", words);
    return NULL;
}

void lk_run_teller_start(lk_run *r)
{
    lk_run_teller *t = &r->teller;
    sigset_t all, before;
    t->stop_fd = eventfd(0, EFD_CLOEXEC);
    /* It may outlive the wait, when signals are the loop's; what it let through would end us then. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    t->started = t->stop_fd >= 0 && pthread_create(&t->thread, NULL, tell, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    if (!t->started && t->stop_fd >= 0)
        close(t->stop_fd);
}

void lk_run_teller_hush(lk_run_teller *t)
{
    if (t->started && !atomic_exchange_explicit(&t->over, true, memory_order_relaxed))
        eventfd_write(t->stop_fd, 1);
}

void lk_run_teller_end(lk_run_teller *t)
{
    if (!t->started)
        return;
    lk_run_teller_hush(t);
    pthread_join(t->thread, NULL);
    close(t->stop_fd);
    t->started = false;
}
