/* run_signals.c: the signals of locker run. All that we take are blocked before the first thread exists. While we wait for
 * the lock this thread, and no other, lets those through that end the wait, and a handler ends it; while the command
 * runs, run_supervise.c reads all from a descriptor. */
#include <errno.h>
#include <signal.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include "run_parts.h"

/* A signal that we were started to ignore stays ignored, as nohup(1) and a shell's background jobs want. */
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return;
    sigaddset(set, number);
}

/* What is forwarded to the command. The first ENDINGS of these ask a program to end. */
static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
enum { ENDINGS = 4, FORWARDED = sizeof forwarded / sizeof forwarded[0] };

void lk_run_signal_mask(int how, int number)
{
    sigset_t set;
    sigemptyset(&set);
    sigaddset(&set, number);
    pthread_sigmask(how, &set, NULL);
}

void lk_run_signals_take(lk_run_signals *s, bool foreground)
{
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigemptyset(&s->endings);
    sigemptyset(&s->watched);
    for (size_t i = 0; i < ENDINGS; i++)
        add_unless_ignored(&s->endings, forwarded[i]);
    for (size_t i = 0; i < FORWARDED; i++)
        add_unless_ignored(&s->watched, forwarded[i]);
    sigaddset(&s->watched, SIGCHLD);
    sigaddset(&s->watched, SIGCONT);
    if (!foreground)
        add_unless_ignored(&s->watched, SIGTSTP);
    sigset_t blocked = s->watched;
    /* Giving the terminal away and taking it back would stop a background process otherwise. */
    sigaddset(&blocked, SIGTTOU);
    pthread_sigmask(SIG_BLOCK, &blocked, &s->inherited_mask);
    /* A reader of --status-fd that is gone must not end us; and with an ignored CHLD nothing could be
     * reaped. */
    sigaction(SIGPIPE, &ignore, &s->inherited_pipe);
    sigaction(SIGCHLD, &standard, &s->inherited_child);
}

int lk_run_thread_start(lk_run_thread *t, void *(*run)(void *r), lk_run *r)
{
    sigset_t all, before;
    t->wake_fd = eventfd(0, EFD_CLOEXEC);
    if (t->wake_fd < 0)
        return errno;
    /* The thread may outlive the wait for the lock. A signal that it took then would end us. */
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    const int error = pthread_create(&t->thread, NULL, run, r);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    t->started = error == 0;
    if (!t->started)
        close(t->wake_fd);
    return error;
}

void lk_run_thread_wake(const lk_run_thread *t)
{
    if (t->started)
        eventfd_write(t->wake_fd, 1);
}

void lk_run_thread_stop(lk_run_thread *t)
{
    atomic_store_explicit(&t->over, true, memory_order_relaxed);
    lk_run_thread_wake(t);
}

void lk_run_thread_end(lk_run_thread *t)
{
    if (!t->started)
        return;
    lk_run_thread_stop(t);
    pthread_join(t->thread, NULL);
    close(t->wake_fd);
    t->started = false;
}

void lk_run_signals_stoppable(const lk_run_signals *s, bool stoppable)
{
    if (sigismember(&s->watched, SIGTSTP))
        lk_run_signal_mask(stoppable ? SIG_UNBLOCK : SIG_BLOCK, SIGTSTP);
}

void lk_run_signals_forget(const lk_run_signals *s)
{
    const struct timespec now = {0, 0};
    sigset_t unneeded;
    /* Endings that come between the wait and the command's start are forwarded; they stay. */
    sigemptyset(&unneeded);
    for (size_t i = ENDINGS; i < FORWARDED; i++)
        if (sigismember(&s->watched, forwarded[i]) == 1)
            sigaddset(&unneeded, forwarded[i]);
    while (sigtimedwait(&unneeded, NULL, &now) > 0)
        continue;
}

void lk_run_signals_restore(const lk_run_signals *s)
{
    sigaction(SIGPIPE, &s->inherited_pipe, NULL);
    sigaction(SIGCHLD, &s->inherited_child, NULL);
    sigprocmask(SIG_SETMASK, &s->inherited_mask, NULL);
}

void lk_run_die_of(int number)
{
    const struct rlimit none = {0, 0};
    const struct sigaction standard = {.sa_handler = SIG_DFL};
    if (number != SIGINT && number != SIGQUIT)
        return;
    /* A core file would show our memory. A limit of zero does not stop a program that takes core files. */
    prctl(PR_SET_DUMPABLE, 0);
    setrlimit(RLIMIT_CORE, &none);
    sigaction(number, &standard, NULL);
    kill(getpid(), number);
    lk_run_signal_mask(SIG_UNBLOCK, number);
}

/* While we wait for the lock; for the handler. */
static locker_cancel *volatile cancel;
static volatile sig_atomic_t in_service, came;

static void ending_came(int number)
{
    /* Nothing is held yet and nothing asked for, so there is nothing to tidy up; opening can't be interrupted
     * in another way. */
    if (!in_service) {
        lk_run_die_of(number);
        _exit(LK_EXIT_SIGNAL + number);
    }
    if (came == 0)
        came = number;
    locker_cancel_fire(cancel);
}

static void set_endings(const lk_run_signals *s, void (*handler)(int number))
{
    struct sigaction action = {.sa_handler = handler, .sa_flags = SA_RESTART};
    action.sa_mask = s->endings;
    for (int number = 1; number < NSIG; number++)
        if (sigismember(&s->endings, number) == 1)
            sigaction(number, &action, NULL);
}

/* As process 1 we are the parent of every orphan. */
static void reap_orphans(int number)
{
    const int error = errno;
    (void)number;
    while (waitpid(-1, NULL, WNOHANG) > 0)
        continue;
    errno = error;
}

static void take_orphans(bool take)
{
    const struct sigaction action = {.sa_handler = take ? reap_orphans : SIG_DFL, .sa_flags = SA_RESTART};
    if (getpid() != 1)
        return;
    sigaction(SIGCHLD, &action, NULL);
    lk_run_signal_mask(take ? SIG_UNBLOCK : SIG_BLOCK, SIGCHLD);
    reap_orphans(SIGCHLD); /* no signal comes for those that ended before we became this program */
}

int lk_run_wait_begin(const lk_run_signals *s)
{
    in_service = came = 0;
    cancel = locker_cancel_new();
    if (cancel == NULL)
        return errno;
    set_endings(s, ending_came);
    pthread_sigmask(SIG_UNBLOCK, &s->endings, NULL);
    take_orphans(true);
    return 0;
}

locker_cancel *lk_run_wait_enter(void)
{
    in_service = 1;
    return cancel;
}

int lk_run_wait_end(const lk_run_signals *s)
{
    take_orphans(false);
    pthread_sigmask(SIG_BLOCK, &s->endings, NULL);
    set_endings(s, SIG_DFL);
    locker_cancel_free(cancel);
    cancel = NULL;
    return came;
}
