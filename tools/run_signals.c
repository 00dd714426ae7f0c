/* run_signals.c: the signals of locker run. All that we take are blocked before the first thread exists and
 * read from a descriptor, so there is no handler. While we wait for the lock a thread reads those that end
 * the wait; while the command runs, run_supervise.c reads all. */
#include <errno.h>
#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/signalfd.h>
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
    static const int numbers[] = {SIGUSR1, SIGUSR2, SIGWINCH};
    sigset_t unneeded;
    /* Endings that come between the wait and the command's start are forwarded; they stay. */
    sigemptyset(&unneeded);
    for (size_t i = 0; i < sizeof numbers / sizeof numbers[0]; i++)
        if (sigismember(&s->watched, numbers[i]) == 1)
            sigaddset(&unneeded, numbers[i]);
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
    pthread_mutex_lock(&w->mutex);
    /* Nothing is held yet and nothing asked for, so there is nothing to tidy up; opening can't be interrupted
     * in another way. */
    if (!w->in_service)
        _exit(LK_EXIT_SIGNAL + number);
    if (w->signal == 0)
        w->signal = number;
    pthread_mutex_unlock(&w->mutex);
    locker_cancel_fire(w->cancel);
}

static void *wait_for_endings(void *context)
{
    lk_run_waiter *w = context;
    struct pollfd fds[2] = {
        {.fd = signalfd(-1, &w->signals->endings, SFD_CLOEXEC | SFD_NONBLOCK), .events = POLLIN},
        {.fd = w->stop_fd, .events = POLLIN}};
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
    w->stop_fd = eventfd(0, EFD_CLOEXEC);
    if (w->stop_fd < 0)
        return errno;
    w->cancel = locker_cancel_new();
    pthread_mutex_init(&w->mutex, NULL);
    const int error = w->cancel ? pthread_create(&w->thread, NULL, wait_for_endings, w) : errno;
    if (error) {
        close(w->stop_fd);
        locker_cancel_free(w->cancel);
        pthread_mutex_destroy(&w->mutex);
    }
    return error;
}

void lk_run_waiter_enter(lk_run_waiter *w)
{
    pthread_mutex_lock(&w->mutex);
    w->in_service = true;
    pthread_mutex_unlock(&w->mutex);
}

int lk_run_waiter_stop(lk_run_waiter *w)
{
    eventfd_write(w->stop_fd, 1);
    pthread_join(w->thread, NULL);
    close(w->stop_fd);
    locker_cancel_free(w->cancel);
    pthread_mutex_destroy(&w->mutex);
    return w->signal;
}
