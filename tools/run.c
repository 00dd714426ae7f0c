/*
 * run.c: locker run: takes the lock, runs a command under it, releases it, and answers with the command's
 * exit code or with what went wrong. run.h lists the parts.
 */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include "run.h"
#include "subcommands.h"

enum { KILL_AFTER_DEFAULT_MS = 5000, MARGIN_MS = 100 };

typedef struct run {
    lk_run_options options;
    lk_run_signals signals;
    lk_run_events events;
    locker *l;
    locker_handle *held;
    lk_run_teller teller;
    char backend[64];
    int64_t ttl_ms; /* 0: no lease */
    int64_t kill_after_ms;
    bool abandoned; /* the service does not answer to the release: exit without waiting for it */
} run;

static int64_t monotonic_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_MONOTONIC, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}

/* A descriptor of ours must never become 0, 1 or 2. Those that were closed stay closed for the command. */
static void fill_standard_descriptors(void)
{
    int fd;
    do
        fd = open("/dev/null", O_RDWR | O_CLOEXEC);
    while (fd >= 0 && fd <= STDERR_FILENO);
    if (fd >= 0)
        close(fd);
}

/* What to do about a limit of the system. */
static const char *advice(int error)
{
    switch (error) {
    case EMFILE:
    case ENFILE:
        return "; raise the limit on open files (ulimit -n)";
    case EAGAIN:
        return "; raise the limit on processes and threads (ulimit -u)";
    default:
        return "";
    }
}

/* Try first, so that `waiting` is only told when there is something to wait for. */
static locker_status ask_for_lock(run *r, locker_cancel *cancel, locker_error *err)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const lk_run_options *o = &r->options;
    const int64_t start = monotonic_ms();
    options.ttl_ms = o->ttl_ms;
    options.cancel = cancel;
    locker_status status = locker_try_lock(r->l, o->key, &options, &r->held, err);
    if ((status != LOCKER_BUSY && status != LOCKER_UNAVAILABLE) || o->wait_ms == 0)
        return status;
    options.wait_ms = o->wait_ms;
    if (o->wait_ms > 0) {
        options.wait_ms -= monotonic_ms() - start;
        if (options.wait_ms <= 0) /* the try took all the time that there was */
            return status == LOCKER_BUSY ? LOCKER_TIMEOUT : status;
    }
    lk_run_event_waiting(&r->events);
    if (o->common.verbose)
        lk_cli_message("waiting for '%s': %s", o->key, err->text);
    if (!o->common.quiet && (o->common.verbose || isatty(STDERR_FILENO)))
        lk_run_teller_start(&r->teller, r->l, o->key);
    status = locker_lock(r->l, o->key, &options, &r->held, err);
    lk_run_teller_hush(&r->teller);
    return status;
}

/* Busy, or not free in time: by whose doing. */
static void say_conflict(const run *r, locker_status status, const locker_error *err)
{
    const lk_run_options *o = &r->options;
    char holder[512];
    lk_run_holder_words(r->l, o->key, holder, sizeof holder);
    char words[32];
    if (status == LOCKER_TIMEOUT)
        lk_cli_message("'%s' did not become free within %s%s%s", o->key,
                       lk_cli_time_words(o->wait_ms, words, sizeof words), holder[0] ? "; it is held" : "",
                       holder);
    else if (holder[0])
        lk_cli_message("'%s' is held%s", o->key, holder);
    else
        lk_cli_message("%s", err->text);
}

static int refused(const run *r, locker_status status, const locker_error *err, int number)
{
    const lk_run_options *o = &r->options;
    if (number) {
        char name[32];
        if (!o->common.quiet)
            lk_cli_message("%s came while waiting for '%s'", lk_run_signal_name(number, name, sizeof name),
                           o->key);
        return LK_EXIT_SIGNAL + number;
    }
    if (status == LOCKER_BUSY || status == LOCKER_TIMEOUT) {
        if (!o->common.quiet)
            say_conflict(r, status, err);
        return o->conflict_exit;
    }
    return lk_cli_fail(NULL, status, err);
}

/* --kill-after is at most what is left of the lease right after a confirmation, less the time to the next
 * renewal: else one renewal that fails would end the command. */
static int fix_times(run *r)
{
    const int64_t remaining = locker_handle_remaining_ms(r->held), ttl = locker_handle_ttl_ms(r->held);
    r->ttl_ms = ttl > 0 ? ttl : 0;
    r->kill_after_ms = r->options.kill_after_ms;
    if (r->ttl_ms == 0 || remaining < 0) {
        if (r->kill_after_ms < 0)
            r->kill_after_ms = KILL_AFTER_DEFAULT_MS;
        return LK_EXIT_OK;
    }
    int64_t most = remaining - r->ttl_ms / LK_RUN_RENEWALS;
    if (most < 0)
        most = 0;
    if (r->kill_after_ms > most)
        return lk_run_kill_after_too_long(most);
    if (r->kill_after_ms < 0)
        r->kill_after_ms = r->ttl_ms / 4 < KILL_AFTER_DEFAULT_MS ? r->ttl_ms / 4 : KILL_AFTER_DEFAULT_MS;
    if (r->kill_after_ms > most)
        r->kill_after_ms = most;
    return LK_EXIT_OK;
}

/* A lock that another process can't see excludes nobody: this command is the only one in its process. */
static int check_scope(const run *r)
{
    if (locker_get_semantics(r->l)->scope != LOCKER_SCOPE_PROCESS)
        return LK_EXIT_OK;
    lk_cli_message(
        "%s: locks are seen by one process alone, so they exclude no other command: use file:, or a "
        "service",
        r->backend);
    return LK_EXIT_CONFIG;
}

/* Open the service and take the lock. Returns LK_GO_ON with the lock held, or the exit code, which may be 0
 * (-E). */
static int acquire(run *r)
{
    const lk_run_options *o = &r->options;
    locker_status status = LOCKER_OK;
    lk_run_waiter waiter;
    const int error = lk_run_waiter_start(&waiter, &r->signals);
    if (error) {
        lk_cli_message("can't start a thread: %s%s", strerror(error), advice(error));
        return LK_EXIT_SYSTEM;
    }
    int code = lk_cli_open(&o->common, o->owner, o->ttl_ms, &r->l);
    if (!code) {
        lk_cli_backend(&o->common, r->l, r->backend, sizeof r->backend);
        code = check_scope(r);
    }
    if (!code)
        code = lk_run_check_nested(o->key, r->l);
    locker_error err;
    if (!code) {
        lk_run_signals_stoppable(&r->signals, true);
        lk_run_waiter_enter(&waiter);
        status = ask_for_lock(r, waiter.cancel, &err);
        lk_run_signals_stoppable(&r->signals, false);
    }
    const int number = lk_run_waiter_stop(&waiter);
    if (code)
        return code;
    if (status != LOCKER_OK || number)
        return refused(r, status, &err, number);
    code = fix_times(r);
    return code ? code : LK_GO_ON;
}

typedef struct unlocking {
    locker_handle *held;
    locker_status status;
    locker_error err;
} unlocking;

static void *unlock(void *context)
{
    unlocking *u = context;
    u->status = locker_unlock(u->held, &u->err);
    return NULL;
}

/* As locker_unlock(), but no longer than `ms`: after the lease's end an answer of the service, which could
 * not be reached before, says nothing more. False: the thread still asks, and we can only exit. */
static bool unlock_within(unlocking *u, int64_t ms)
{
    pthread_t thread;
    if (pthread_create(&thread, NULL, unlock, u) != 0) {
        unlock(u);
        return true;
    }
    struct timespec end;
    clock_gettime(CLOCK_MONOTONIC, &end);
    end.tv_sec += (time_t)(ms / 1000);
    end.tv_nsec += (long)(ms % 1000) * 1000000;
    end.tv_sec += end.tv_nsec / 1000000000;
    end.tv_nsec %= 1000000000;
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) == 0;
}

/* Release, and say what became of it. */
static locker_status release(run *r, bool already_told, bool stopped)
{
    static unlocking u; /* the thread may outlive this call */
    locker_error err = {.text = "the service did not answer"};
    locker_status status = LOCKER_UNKNOWN;
    const int64_t left = locker_handle_remaining_ms(r->held);
    u.held = r->held;
    if (!stopped || left < 0)
        unlock(&u);
    else
        r->abandoned = !unlock_within(&u, left + MARGIN_MS);
    if (!r->abandoned) {
        status = u.status;
        err = u.err;
        r->abandoned = stopped && status == LOCKER_UNKNOWN; /* nor would it to what closing asks */
    }
    lk_run_event_released(&r->events, locker_status_name(status));
    if (r->options.common.quiet || status == LOCKER_OK || (status == LOCKER_LOST && already_told))
        return status;
    if (status == LOCKER_LOST)
        lk_cli_message("the lock '%s' was lost while the command ran: %s", r->options.key, err.text);
    else
        lk_cli_message("warning: releasing '%s' failed, it frees itself at its lease's end: %s",
                       r->options.key, err.text);
    return status;
}

static int command_code(const run *r, const lk_run_child *child)
{
    if (child->exec_error) {
        lk_cli_message("can't run '%s': %s", lk_cli_quotable(r->options.command[0]),
                       strerror(child->exec_error));
        return child->exec_error == ENOENT ? LK_EXIT_NOT_FOUND : LK_EXIT_CANNOT_EXEC;
    }
    return child->signal != 0 ? LK_EXIT_SIGNAL + child->signal : child->code;
}

/* The lock counts as lost when it was, or when the command was stopped because it could not be kept: it ended
 * by our signal, or nobody can say that it was ours to the end. */
static bool was_lost(const lk_run_outcome *outcome, const lk_run_child *child, locker_status released)
{
    if (outcome->lost || released == LOCKER_LOST)
        return true;
    return outcome->stopped && (child->signal != 0 || released != LOCKER_OK);
}

static int run_command(run *r)
{
    char **environment = lk_run_environment(r->l, r->held, r->backend, r->ttl_ms);
    const int64_t margin = r->ttl_ms > 0 && r->ttl_ms / 20 < MARGIN_MS ? r->ttl_ms / 20 : MARGIN_MS;
    lk_run_child child;
    lk_run_watch watch = {.held = r->held,
                          .child = &child,
                          .options = &r->options,
                          .signals = &r->signals,
                          .events = &r->events,
                          .kill_after_ms = r->kill_after_ms,
                          .margin_ms = margin};
    const int error =
        environment ? lk_run_child_start(&child, &r->options, &r->signals, environment) : ENOMEM;
    lk_run_environment_free(environment);
    if (error) {
        lk_cli_message("can't start the command: %s%s", strerror(error), advice(error));
        return LK_EXIT_SYSTEM;
    }
    lk_run_outcome outcome;
    lk_run_watch_over(&watch, &outcome);
    lk_run_child_finish(&child);
    if (!child.exec_error)
        lk_run_event_exited(&r->events, child.code, child.signal);
    int code = command_code(r, &child);
    if (outcome.system_error) {
        lk_cli_message("can't watch over the command, which was killed: %s%s", strerror(outcome.system_error),
                       advice(outcome.system_error));
        code = LK_EXIT_SYSTEM;
    }
    const bool lost = was_lost(&outcome, &child, release(r, outcome.lost, outcome.stopped));
    /* What the command left running was protected by the lock as well. */
    if (lost && r->options.lost_signal)
        lk_run_child_signal(&child, SIGKILL);
    lk_run_child_let_go();
    if (lost && !outcome.system_error)
        code = r->options.lost_exit;
    return code;
}

int lk_cli_run(int argc, char **argv)
{
    run r;
    memset(&r, 0, sizeof r);
    int code = lk_run_parse(argc, argv, &r.options);
    if (code != LK_GO_ON)
        return code;
    fill_standard_descriptors();
    r.events = (lk_run_events){.fd = r.options.status_fd, .key = r.options.key};
    lk_run_signals_take(&r.signals, r.options.foreground);
    code = acquire(&r);
    if (code == LK_GO_ON) {
        if (r.options.common.verbose)
            lk_cli_message("holding '%s', token %llu", r.options.key,
                           (unsigned long long)locker_handle_token(r.held));
        lk_run_event_acquired(&r.events, r.held, r.backend, r.ttl_ms);
        lk_run_signals_forget(&r.signals);
        code = run_command(&r);
    }
    lk_run_teller_end(&r.teller);
    if (r.abandoned) {
        fflush(NULL);
        _exit(code);
    }
    locker_handle_free(r.held);
    locker_close(r.l);
    return code;
}
