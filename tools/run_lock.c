/* run_lock.c: takes the lock, or says why it can't be had and who holds it, and releases it. */
#include <errno.h>
#include <poll.h>
#include <stdio.h>
#include <string.h>
#include <sys/time.h>
#include <unistd.h>

#include "run_parts.h"

enum { KILL_AFTER_DEFAULT_MS = 5000, MARGIN_MS = 100, OPENING_MS = 1000, TELL_AFTER_MS = 2000 };

struct timespec lk_run_timespec(int64_t ms)
{
    return (struct timespec){.tv_sec = (time_t)(ms / 1000), .tv_nsec = (long)(ms % 1000) * 1000000};
}

const char *lk_run_advice(int error)
{
    if (error == EMFILE || error == ENFILE)
        return "; raise the limit on open files (ulimit -n)";
    return error == EAGAIN ? "; raise the limit on processes and threads (ulimit -u)" : "";
}

/* Write " by OWNER since TIME (3m ago)", with the number of waiters; nothing if the service does not say. Return `out`. */
static const char *holder_words(const lk_run *r, char *out, size_t size)
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

/* A wait names the holder once, from a thread of its own, so that the place in the queue is kept. */
static void *tell(void *context)
{
    lk_run *r = context;
    struct pollfd stop = {.fd = r->teller.wake_fd, .events = POLLIN};
    if (poll(&stop, 1, TELL_AFTER_MS) != 0)
        return NULL;
    char words[512];
    holder_words(r, words, sizeof words);
    if (!atomic_load_explicit(&r->teller.over, memory_order_relaxed))
        lk_cli_message("waiting for '%s'%s%s", r->options.key, words[0] ? ", held" : "", words);
    return NULL;
}

static locker_status take(lk_run *r, const locker_lock_options *options, locker_error *err)
{
    const lk_run_options *o = &r->options;
    return o->key_count == 1 ? locker_lock(r->l, o->key, options, &r->held, err)
                             : locker_lock_all(r->l, o->keys, o->key_count, options, &r->held, err);
}

/* Try first, so that `waiting` is only told when there is something to wait for. */
static locker_status ask_for_lock(lk_run *r, locker_cancel *cancel, locker_error *err)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const lk_run_options *o = &r->options;
    options.ttl_ms = o->ttl_ms;
    options.cancel = cancel;
    options.mode = o->mode;
    options.permits = o->permits;
    options.wait_ms = 0;
    locker_status status = take(r, &options, err);
    if ((status != LOCKER_BUSY && status != LOCKER_UNAVAILABLE) || o->wait_ms == 0)
        return status;
    options.wait_ms = o->wait_ms;
    if (o->wait_ms > 0) {
        options.wait_ms -= lk_cli_now_ms(CLOCK_MONOTONIC) - r->began_ms;
        if (options.wait_ms <= 0) /* the try took all the time that there was */
            return status == LOCKER_BUSY ? LOCKER_TIMEOUT : status;
    }
    lk_run_event(r, "waiting", "{}");
    if (o->common.verbose)
        lk_cli_message("waiting for '%s': %s", o->key, err->text);
    if (!o->common.quiet && (o->common.verbose || isatty(STDERR_FILENO)))
        lk_run_thread_start(&r->teller, tell, r); /* if that fails, nothing is printed */
    status = take(r, &options, err);
    lk_run_thread_stop(&r->teller);
    return status;
}

/* Busy, or not free in time: by whose doing. */
static void say_conflict(const lk_run *r, locker_status status, const locker_error *err)
{
    const lk_run_options *o = &r->options;
    char holder[512];
    holder_words(r, holder, sizeof holder);
    char words[32], place[LK_CLI_PLACE];
    lk_cli_place(&o->common, r->l, place);
    if (o->key_count > 1) /* it need not be the first that is held */
        lk_cli_message("%s, at %s", err->text, place);
    else if (status == LOCKER_TIMEOUT)
        lk_cli_message("'%s' did not become free within %s%s%s, at %s", o->key,
                       lk_cli_time_words(o->wait_ms, words, sizeof words), holder[0] ? "; it is held" : "",
                       holder, place);
    else if (holder[0])
        lk_cli_message("'%s' is held%s, at %s", o->key, holder, place);
    else
        lk_cli_message("%s, at %s", err->text, place);
}

static int refused(lk_run *r, locker_status status, const locker_error *err, int number)
{
    const lk_run_options *o = &r->options;
    if (number) {
        char name[32];
        r->ended_by = number;
        if (!o->common.quiet)
            lk_cli_message("%s came while waiting for '%s'", lk_run_signal_name(number, name, sizeof name),
                           o->key);
        return LK_EXIT_SIGNAL + number;
    }
    if (status == LOCKER_BUSY || status == LOCKER_TIMEOUT) {
        /* As flock(1), -n says nothing where nobody looks: for a job of cron(8) it is no error. */
        if (!o->common.quiet && (!o->nonblock || o->common.verbose || isatty(STDERR_FILENO)))
            say_conflict(r, status, err);
        return o->conflict_exit;
    }
    return lk_cli_fail(status, err);
}

/* --kill-after is at most what is left of the lease right after a confirmation, less the time to the next
 * renewal: else one renewal that fails would end the command. */
static int fix_times(lk_run *r)
{
    const int64_t remaining = locker_handle_remaining_ms(r->held), ttl = locker_handle_ttl_ms(r->held);
    r->ttl_ms = ttl > 0 ? ttl : 0;
    r->kill_after_ms = r->options.kill_after_ms;
    r->margin_ms = r->ttl_ms > 0 && r->ttl_ms / 20 < MARGIN_MS ? r->ttl_ms / 20 : MARGIN_MS;
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

/* Name the command in the label that the library makes where none is configured. `locker show` then says who holds the lock,
 * not that some `locker run` does. */
static void name_after_command(const lk_run_options *o)
{
    char *const slash = strrchr(o->command[0], '/');
    program_invocation_short_name = slash != NULL && slash[1] != '\0' ? slash + 1 : o->command[0];
}

/* Refuse a service whose locks would not protect the command. Return the exit code. */
static int check_service(const lk_run *r)
{
    const char *why;
    if (locker_get_semantics(r->l)->scope == LOCKER_SCOPE_PROCESS)
        why =
            "its locks are visible only to this process, so they exclude no other command; use file: or a service";
    else if (r->options.no_fork && !locker_keeps_over_exec(r->l))
        why = "--no-fork needs a lock that lasts without renewal, as file: has, because nothing renews a "
              "lock after exec; remove --no-fork, or use file:";
    else
        return LK_EXIT_OK;
    lk_cli_message("%s: %s", r->backend, why);
    return LK_EXIT_CONFIG;
}

static char late_text[128], late_full_text[128 + LOCKER_ERROR_TEXT_MAX];
static const char *volatile late_words; /* one of them */

/* The wait is over before the service could be opened: nothing is asked for yet. */
static void opening_is_late(int number)
{
    (void)number;
    if (write(STDERR_FILENO, late_words, strlen(late_words)) < 0)
        _exit(LK_EXIT_SYSTEM);
    _exit(LK_EXIT_UNAVAILABLE);
}

/* Let --wait bound the opening too, which can't be cancelled; 0: no longer. */
static void bound_opening(int64_t ms)
{
    static struct sigaction before; /* both are the command's afterwards */
    static sigset_t mask;
    const struct sigaction action = {.sa_handler = opening_is_late};
    sigset_t alarm;
    sigemptyset(&alarm);
    sigaddset(&alarm, SIGALRM);
    const struct itimerval when = {
        .it_value = {.tv_sec = (time_t)(ms / 1000), .tv_usec = (suseconds_t)(ms % 1000) * 1000}};
    char words[32];
    snprintf(late_text, sizeof late_text,
             "locker: the lock service could not be opened within %s; 'locker ping' shows the cause\n",
             lk_cli_time_words(ms, words, sizeof words));
    late_words = late_text;
    if (ms > 0) {
        sigaction(SIGALRM, &action, &before);
        pthread_sigmask(SIG_UNBLOCK, &alarm, &mask);
    }
    setitimer(ITIMER_REAL, &when, NULL);
    if (ms == 0) {
        sigaction(SIGALRM, &before, NULL);
        pthread_sigmask(SIG_SETMASK, &mask, NULL);
    }
}

/* The service is full, which is waited for as for the lock. */
static void wait_to_open(const lk_common *common, const locker_error *err)
{
    if (!common->quiet && (common->verbose || isatty(STDERR_FILENO)))
        lk_cli_message("waiting for a connection: %s", err->text);
    snprintf(late_full_text, sizeof late_full_text, "%.*s: %s\n", (int)strcspn(late_text, ";"), late_text,
             err->text);
    late_words = late_full_text;
}

static int64_t opening_until(const lk_run *r)
{
    const int64_t wait_ms = r->options.wait_ms;
    return wait_ms < 0 ? INT64_MAX : wait_ms > 0 ? r->began_ms + wait_ms : 0;
}

int lk_run_acquire(lk_run *r)
{
    const lk_run_options *o = &r->options;
    locker_status status = LOCKER_OK;
    const int error = lk_run_wait_begin(&r->signals);
    if (error) {
        lk_cli_message("cannot wait for the lock: %s%s", strerror(error), lk_run_advice(error));
        return LK_EXIT_SYSTEM;
    }
    name_after_command(o);
    r->began_ms = lk_cli_now_ms(CLOCK_MONOTONIC);
    if (o->wait_ms > 0)
        bound_opening(o->wait_ms > OPENING_MS ? o->wait_ms : OPENING_MS);
    int code = lk_cli_open_until(&o->common, o->owner, o->ttl_ms, opening_until(r), wait_to_open, &r->l);
    if (!code) {
        lk_cli_backend(r->l, r->backend, sizeof r->backend);
        code = check_service(r);
    }
    if (!code)
        code = lk_run_check_nested(r);
    if (o->wait_ms > 0)
        bound_opening(0);
    locker_error err;
    if (!code) {
        lk_run_signals_stoppable(&r->signals, true);
        status = ask_for_lock(r, lk_run_wait_enter(), &err);
        lk_run_signals_stoppable(&r->signals, false);
    }
    const int number = lk_run_wait_end(&r->signals);
    if (code)
        return code;
    if (status != LOCKER_OK || number)
        return refused(r, status, &err, number);
    code = fix_times(r);
    return code ? code : LK_GO_ON;
}

typedef struct {
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
    const struct timespec end = lk_run_timespec(lk_cli_now_ms(CLOCK_MONOTONIC) + ms);
    return pthread_clockjoin_np(thread, NULL, CLOCK_MONOTONIC, &end) == 0;
}

locker_status lk_run_release(lk_run *r)
{
    static unlocking u; /* the thread may outlive this call */
    locker_error err = {.text = "the service did not answer"};
    locker_status status = LOCKER_UNKNOWN;
    const int64_t left = locker_handle_remaining_ms(r->held);
    u.held = r->held;
    if (!r->stopped || left < 0)
        unlock(&u);
    else
        r->abandoned = !unlock_within(&u, left + MARGIN_MS);
    if (!r->abandoned) {
        status = u.status;
        err = u.err;
        r->abandoned = r->stopped && status == LOCKER_UNKNOWN; /* nor would it to what closing asks */
    }
    lk_run_event(r, "released", "{s:s}", "status", locker_status_name(status));
    if (r->options.common.quiet || status == LOCKER_OK || (status == LOCKER_LOST && r->lost))
        return status;
    if (status == LOCKER_LOST)
        lk_cli_message("the lock '%s' was lost while the command ran: %s", r->options.key, err.text);
    else
        lk_cli_message("warning: cannot release '%s', which stays locked until its lease ends: %s",
                       r->options.key, err.text);
    return status;
}
