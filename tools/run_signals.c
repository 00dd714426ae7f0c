/*
 * run_signals.c: the signals of locker run. All that we take are blocked before the first thread exists and
 * read from a descriptor, so there is no handler. While we wait for the lock a thread reads those that end
 * the wait; while the command runs, run_supervise.c reads all.
 */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <string.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include "run.h"

/* A signal that we were started to ignore stays ignored, as nohup(1) and a shell's background jobs want. */
static void add_unless_ignored(sigset_t *set, int number)
{
    struct sigaction action;
    if (sigaction(number, NULL, &action) == 0 && action.sa_handler == SIG_IGN)
        return;
    sigaddset(set, number);
}

void lk_run_signals_take(lk_run_signals *s, bool foreground)
{
    static const int endings[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT};
    static const int forwarded[] = {SIGINT, SIGTERM, SIGHUP, SIGQUIT, SIGUSR1, SIGUSR2, SIGWINCH};
    struct sigaction ignore = {.sa_handler = SIG_IGN}, standard = {.sa_handler = SIG_DFL};
    sigemptyset(&s->endings);
    sigemptyset(&s->watched);
    for (size_t i = 0; i < sizeof endings / sizeof endings[0]; i++)
        add_unless_ignored(&s->endings, endings[i]);
    for (size_t i = 0; i < sizeof forwarded / sizeof forwarded[0]; i++)
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

void lk_run_signals_stoppable(const lk_run_signals *s, bool stoppable)
{
    sigset_t set;
    sigemptyset(&set);
    if (sigismember(&s->watched, SIGTSTP))
        sigaddset(&set, SIGTSTP);
    pthread_sigmask(stoppable ? SIG_UNBLOCK : SIG_BLOCK, &set, NULL);
}

void lk_run_signals_forget(const lk_run_signals *s)
{
    const struct timespec now = {0, 0};
    sigset_t unneeded;
    /* Endings that come between the wait and the command's start are forwarded; they stay. */
    sigemptyset(&unneeded);
    for (int number = 1; number < NSIG; number++)
        if ((number == SIGUSR1 || number == SIGUSR2 || number == SIGWINCH) &&
            sigismember(&s->watched, number) == 1)
            sigaddset(&unneeded, number);
    while (sigtimedwait(&unneeded, NULL, &now) > 0)
        continue;
}

void lk_run_signals_restore(const lk_run_signals *s)
{
    sigaction(SIGPIPE, &s->inherited_pipe, NULL);
    sigaction(SIGCHLD, &s->inherited_child, NULL);
    sigprocmask(SIG_SETMASK, &s->inherited_mask, NULL);
}

static void ending_came(lk_run_waiter *w, int number)
{
    pthread_mutex_lock(&w->lock);
    /* Nothing is held yet and nothing asked for, so there is nothing to tidy up; opening can't be interrupted
     * in another way. */
    if (!w->in_service)
        _exit(LK_EXIT_SIGNAL + number);
    if (w->signal == 0)
        w->signal = number;
    pthread_mutex_unlock(&w->lock);
    locker_cancel_fire(w->cancel);
}

static void *wait_for_endings(void *context)
{
    lk_run_waiter *w = context;
    struct pollfd fds[2] = {{.fd = signalfd(-1, &w->signals->endings, SFD_CLOEXEC | SFD_NONBLOCK)},
                            {.fd = w->stop_pipe[0]}};
    for (int i = 0; i < 2; i++)
        fds[i].events = POLLIN;
    for (;;) {
        if (poll(fds, 2, -1) < 0 && errno != EINTR)
            break;
        struct signalfd_siginfo info;
        while (fds[0].fd >= 0 && read(fds[0].fd, &info, sizeof info) == (ssize_t)sizeof info)
            ending_came(w, (int)info.ssi_signo);
        if (fds[1].revents)
            break;
    }
    if (fds[0].fd >= 0)
        close(fds[0].fd);
    return NULL;
}

int lk_run_waiter_start(lk_run_waiter *w, const lk_run_signals *signals)
{
    memset(w, 0, sizeof *w);
    w->signals = signals;
    if (pipe2(w->stop_pipe, O_CLOEXEC) != 0)
        return errno;
    w->cancel = locker_cancel_new();
    pthread_mutex_init(&w->lock, NULL);
    const int error = w->cancel ? pthread_create(&w->thread, NULL, wait_for_endings, w) : errno;
    if (error) {
        close(w->stop_pipe[0]);
        close(w->stop_pipe[1]);
        locker_cancel_free(w->cancel);
        pthread_mutex_destroy(&w->lock);
    }
    return error;
}

void lk_run_waiter_enter(lk_run_waiter *w)
{
    pthread_mutex_lock(&w->lock);
    w->in_service = true;
    pthread_mutex_unlock(&w->lock);
}

int lk_run_waiter_stop(lk_run_waiter *w)
{
    close(w->stop_pipe[1]);
    pthread_join(w->thread, NULL);
    close(w->stop_pipe[0]);
    locker_cancel_free(w->cancel);
    pthread_mutex_destroy(&w->lock);
    return w->signal;
}
