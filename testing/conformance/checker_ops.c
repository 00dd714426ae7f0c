/* checker_ops.c: the driver's operations, as core calls them: each is passed on with the driver's copies
 * of the claims, and its answer is looked at. */
#include "checker_internal.h"

#include <string.h>
#include <sys/mman.h>

#define BIT(status) (1u << LOCKER_##status)

/* core.renew hands over at most so many; more is passed on in parts. */
enum { BATCH = 256 };

static atomic_ulong dispatches;

unsigned long lk_checker_dispatches(void)
{
    return atomic_load(&dispatches);
}

/* Call a driver's operation. Where it does not come back, the watchdog says so. */
#define UNDER_WAY(name, key, ...)                                                                            \
    do {                                                                                                     \
        lk_operation operation = {{NULL, NULL}, NULL, "", 0};                                                \
        lk_checker_operation_begin(&operation, name, key);                                                   \
        __VA_ARGS__;                                                                                         \
        lk_checker_operation_end(&operation);                                                                \
    } while (0)

/* When an operation that begins now and may not block has to be back. */
static int64_t at_once(const lk_checked *w)
{
    return lk_checker_now(w);
}

/* ------------------------------------------------------------------ life ---- */

static locker_status checked_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                  locker_error *err)
{
    /* not from the heap, whose growth is looked at too */
    lk_checked *w = mmap(NULL, sizeof *w, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);

    if (w == MAP_FAILED)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    w->services = lk_checker_services;
    w->services.clock = svc->clock;
    w->core = svc;
    (void)strncpy(w->name_space, config->name_space, sizeof w->name_space - 1);
    locker_status status;
    UNDER_WAY("open", NULL, status = lk_checker_tested->open(config, &w->services, &w->self, err));
    lk_checker_answer("open", status,
                      BIT(OK) | BIT(CONFIG) | BIT(UNSUPPORTED) | BIT(UNAVAILABLE) | BIT(DENIED) |
                          BIT(PROTOCOL) | BIT(NOMEM),
                      err);
    if (status != LOCKER_OK)
        atomic_store(&w->closed, true);
    *self = w;
    return status;
}

static void checked_close(void *self)
{
    lk_checked *w = self;
    const size_t left = lk_checker_count(w);
    if (left > 0)
        lk_checker_report("core", "%zu claims were neither released, withdrawn nor passed before close",
                          left);
    UNDER_WAY("close", NULL, lk_checker_tested->close(w->self));
    atomic_store(&w->closed, true);
}

static void checked_abandon(void *self)
{
    lk_checker_tested->abandon(((lk_checked *)self)->self);
}

static int checked_descriptor(void *self)
{
    return lk_checker_tested->descriptor(((lk_checked *)self)->self);
}

static int64_t checked_dispatch(void *self)
{
    lk_checked *w = self;
    const int64_t began = at_once(w);
    atomic_fetch_add(&dispatches, 1);
    int64_t at;
    UNDER_WAY("dispatch", NULL, at = lk_checker_tested->dispatch(w->self));
    lk_checker_deadline(w, "blocks", "dispatch", began);
    return at;
}

/* ------------------------------------------------------------------ claims ---- */

/* What core sets before each attempt. Not token and valid_until: a driver may have set them when it granted
 * the claim to one that waits, and tells it with the next attempt. */
static void refresh(locker_claim *inner, const locker_claim *outer)
{
    inner->asked_at = outer->asked_at;
    inner->attempt_until = outer->attempt_until;
    inner->retry_at = outer->retry_at;
    inner->alone = false; /* the outer one may be told right now that it is awaited */
}

/* What the driver set in a claim that it granted. */
static void answer(locker_claim *outer, const locker_claim *inner)
{
    outer->token = inner->token;
    outer->valid_until = inner->valid_until;
    outer->granted_at = inner->granted_at;
    outer->slot = inner->slot;
    lk_mutex_lock(&lk_checker_mutex);
    if (inner->alone && !lk_checker_record_locked(inner)->awaited)
        outer->alone = true;
    lk_mutex_unlock(&lk_checker_mutex);
}

/* The driver's copy of a claim that it must have. */
static locker_claim *known(lk_checked *w, locker_claim *outer, const char *operation)
{
    if (!lk_checker_is_seen(outer))
        lk_checker_report("core", "core called %s for a claim of '%.60s' that the driver does not have",
                          operation, outer->key);
    return lk_checker_inner(w, outer);
}

/* What a record says before and after an attempt. */
static void note(const lk_checked *w, const locker_claim *inner, bool attempting, locker_status status)
{
    /* an answer without the service's word leaves open whether the service has enrolled it */
    const unsigned open = BIT(BUSY) | BIT(TIMEOUT) | BIT(CANCELED) | BIT(UNAVAILABLE);
    const int64_t now = lk_checker_now(w);

    lk_mutex_lock(&lk_checker_mutex);
    lk_record *record = lk_checker_record_locked(inner);
    record->attempting = attempting;
    if (attempting)
        record->awaited = record->woken = false;
    if (!attempting) {
        record->granted = status == LOCKER_OK;
        record->attempts += !record->granted;
        record->answered_at = now;
        record->retry_at = inner->retry_at;
        if (record->granted && record->enrolled)
            record->enrolled_until = now;
        if (record->granted)
            record->enrolled = false;
        else if ((open & 1u << status) != 0)
            record->enrolled = inner->will_wait;
    }
    lk_mutex_unlock(&lk_checker_mutex);
}

static uint64_t token_before(const locker_claim *inner)
{
    lk_mutex_lock(&lk_checker_mutex);
    const uint64_t token = lk_checker_record_locked(inner)->token_before;
    lk_mutex_unlock(&lk_checker_mutex);
    return token;
}

static void check_grant(lk_checked *w, const locker_claim *inner)
{
    const bool leases = lk_checker_tested->semantics->leases;
    if (leases && inner->valid_until == LOCKER_NEVER)
        lk_checker_report("valid-until", "acquire of '%.60s' set no lease, but semantics.leases is true",
                          inner->key);
    else if (!leases && inner->valid_until != LOCKER_NEVER)
        lk_checker_report("valid-until", "acquire of '%.60s' set a lease, but semantics.leases is false",
                          inner->key);
    else if (leases && lk_checker_is_bounded(inner) && inner->valid_until > inner->asked_at + inner->ttl_ns)
        lk_checker_report(
            "valid-until",
            "acquire of '%.60s' set a lease that ends %lld ms after asked_at + ttl; count the lease from a "
            "time before the request was sent",
            inner->key, (long long)((inner->valid_until - inner->asked_at - inner->ttl_ns) / 1000000));
    /* a grant that came too late is given back, and its token used by nobody; one that was broken may come
     * back after a later one, but not after one that had come back before it asked */
    if (inner->permits > 0 && (inner->slot < 0 || inner->slot >= inner->permits))
        lk_checker_report("slot", "acquire of '%.60s' set slot %d of %d permits", inner->key, inner->slot,
                          inner->permits);
    if (lk_checker_now(w) < inner->valid_until)
        lk_checker_token(w, inner->key, inner->token, token_before(inner));
}

/* Not all of the copy, of which another thread may be granting right now, nor of the outer one, which may be told that it is
 * awaited. */
static locker_claim what_is_cores(const locker_claim *inner, const locker_claim *outer)
{
    return (locker_claim){.key = inner->key,
                          .key_len = outer->key_len,
                          .owner = inner->owner,
                          .data = inner->data,
                          .ttl_ns = outer->ttl_ns,
                          .will_wait = outer->will_wait,
                          .mode = outer->mode,
                          .permits = outer->permits,
                          .renewed = outer->renewed,
                          .asked_at = outer->asked_at,
                          .attempt_until = outer->attempt_until};
}

static bool differs(const locker_claim *inner, const locker_claim *before)
{
    return inner->key != before->key || inner->key_len != before->key_len || inner->owner != before->owner ||
           inner->data != before->data || inner->ttl_ns != before->ttl_ns ||
           inner->will_wait != before->will_wait || inner->mode != before->mode ||
           inner->permits != before->permits || inner->renewed != before->renewed ||
           inner->asked_at != before->asked_at || inner->attempt_until != before->attempt_until;
}

static locker_status checked_acquire(void *self, locker_claim *outer, locker_error *err)
{
    lk_checked *w = self;
    locker_claim *inner = lk_checker_inner(w, outer);
    if (inner == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for copies of claims");
    refresh(inner, outer);
    const locker_claim before = what_is_cores(inner, outer);
    note(w, inner, true, LOCKER_OK);
    locker_status status;
    UNDER_WAY("acquire", outer->key, status = lk_checker_tested->acquire(w->self, inner, err));
    lk_checker_deadline(w, "late", "acquire", before.attempt_until);
    lk_checker_answer("acquire", status,
                      BIT(OK) | BIT(BUSY) | BIT(TIMEOUT) | BIT(CANCELED) | BIT(UNAVAILABLE) | BIT(DENIED) |
                          BIT(INVALID) | BIT(CONFIG) | BIT(PROTOCOL) | BIT(NOMEM) | BIT(UNSUPPORTED),
                      err);
    if (differs(inner, &before))
        lk_checker_report("changed",
                          "acquire of '%.60s' changed a member of the claim that only core may change",
                          outer->key);
    outer->retry_at = inner->retry_at;
    if (status == LOCKER_OK) {
        check_grant(w, inner);
        answer(outer, inner);
    } else if (inner->retry_at < before.asked_at) {
        lk_checker_report("retry-at", "acquire of '%.60s' set retry_at to a time before asked_at",
                          outer->key);
    }
    note(w, inner, false, status);
    return status;
}

static void checked_interrupt(void *self, locker_claim *outer)
{
    lk_checked *w = self;
    const int64_t began = at_once(w);
    locker_claim *inner = lk_checker_inner(w, outer);
    if (inner == NULL)
        return;
    UNDER_WAY("interrupt", outer->key, lk_checker_tested->interrupt(w->self, inner));
    lk_checker_deadline(w, "blocks", "interrupt", began);
}

static void checked_withdraw(void *self, locker_claim *outer)
{
    lk_checked *w = self;
    const int64_t began = at_once(w);
    if (!lk_checker_is_seen(outer))
        return; /* acquire found no place for a copy */
    locker_claim *const inner = lk_checker_inner(w, outer);
    UNDER_WAY("withdraw", outer->key, lk_checker_tested->withdraw(w->self, inner));
    lk_checker_let_go(outer, "withdraw");
    lk_checker_deadline(w, "blocks", "withdraw", began);
}

static locker_status checked_release(void *self, locker_claim *outer, int64_t until, locker_error *err)
{
    lk_checked *w = self;
    locker_claim *inner = known(w, outer, "release");
    inner->valid_until = outer->valid_until; /* core has moved it with each extension */
    locker_status status;
    UNDER_WAY("release", outer->key, status = lk_checker_tested->release(w->self, inner, until, err));
    lk_checker_let_go(outer, "release");
    lk_checker_deadline(w, "late", "release", until);
    lk_checker_answer("release", status, BIT(OK) | BIT(LOST) | BIT(UNKNOWN), err);
    return status;
}

static void checked_begin_release(void *self, locker_claim *const *outer, size_t count)
{
    lk_checked *w = self;
    locker_claim *inner[LOCKER_KEYS_MAX];
    const int64_t began = at_once(w);
    for (size_t i = 0; i < count; i++) {
        inner[i] = known(w, outer[i], "begin_release");
        inner[i]->valid_until = outer[i]->valid_until;
    }
    lk_checker_tested->begin_release(w->self, inner, count);
    lk_checker_deadline(w, "blocks", "begin_release", began);
}

static locker_status checked_keep_over_exec(void *self, locker_claim *outer, locker_error *err)
{
    lk_checked *w = self;
    locker_claim *inner = known(w, outer, "keep_over_exec");
    const int64_t began = at_once(w);
    const locker_status status = lk_checker_tested->keep_over_exec(w->self, inner, err);
    lk_checker_deadline(w, "blocks", "keep_over_exec", began);
    lk_checker_answer("keep_over_exec", status, BIT(OK) | BIT(LOST) | BIT(UNAVAILABLE), err);
    return status;
}

/* ------------------------------------------------------------------ pass and renew ---- */

static void check_pass(lk_checked *w, const locker_claim *from, const locker_claim *to)
{
    if (to->valid_until > from->valid_until)
        lk_checker_report("pass", "pass of '%.60s' made the lease longer without asking the service",
                          to->key);
    lk_checker_token(w, to->key, to->token, from->token);
}

static locker_status checked_pass(void *self, locker_claim *outer_from, locker_claim *outer_to)
{
    lk_checked *w = self;
    locker_claim *from = known(w, outer_from, "pass"), *to = lk_checker_inner(w, outer_to);
    const int64_t began = at_once(w);
    if (to == NULL)
        return LOCKER_BUSY;
    from->valid_until = outer_from->valid_until;
    locker_claim giver = *from;
    locker_status status;
    UNDER_WAY("pass", outer_to->key, status = lk_checker_tested->pass(w->self, from, to));
    lk_checker_deadline(w, "blocks", "pass", began);
    lk_checker_answer("pass", status, BIT(OK) | BIT(BUSY), NULL);
    if (status == LOCKER_OK) {
        check_pass(w, &giver, to);
        note(w, to, false, LOCKER_OK);
        answer(outer_to, to);
        lk_checker_let_go(outer_from, "pass");
    } else {
        if (from->token != giver.token || to->token != outer_to->token ||
            to->valid_until != outer_to->valid_until)
            lk_checker_report("pass", "pass of '%.60s' answered BUSY and changed a claim", outer_to->key);
        lk_checker_let_go(outer_to, "pass");
    }
    return status;
}

static void checked_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_checked *w = self;
    locker_claim *inner[BATCH];
    const int64_t began = at_once(w);
    while (count > 0) {
        const size_t n = count < BATCH ? count : BATCH;

        for (size_t i = 0; i < n; i++)
            inner[i] = known(w, grants[i], "renew");
        UNDER_WAY("renew", grants[0]->key, lk_checker_tested->renew(w->self, inner, n));
        grants += n;
        count -= n;
    }
    lk_checker_deadline(w, "blocks", "renew", began);
}

/* ------------------------------------------------------------------ looking ---- */

static const unsigned looking =
    BIT(OK) | BIT(UNAVAILABLE) | BIT(DENIED) | BIT(INVALID) | BIT(PROTOCOL) | BIT(NOMEM);

static locker_status checked_check_key(void *self, const char *key, size_t key_len, locker_error *err)
{
    const locker_status status = lk_checker_tested->check_key(((lk_checked *)self)->self, key, key_len, err);
    lk_checker_answer("check_key", status, BIT(OK) | BIT(INVALID), err);
    return status;
}

static void check_info(const char *operation, const locker_info *info)
{
    if ((info->queue_len > 0) != (info->queue != NULL) && info->queue_len > 0)
        lk_checker_report("answer", "%s set queue_len to %zu, but queue is NULL", operation, info->queue_len);
    if (info->waiters >= 0 && info->queue_len > (size_t)info->waiters)
        lk_checker_report("answer", "%s set queue_len greater than waiters", operation);
}

static locker_status checked_show(void *self, const char *key, size_t key_len, int64_t until,
                                  locker_info *info, locker_error *err)
{
    lk_checked *w = self;
    locker_status status;
    UNDER_WAY("show", key, status = lk_checker_tested->show(w->self, key, key_len, until, info, err));
    lk_checker_deadline(w, "late", "show", until);
    lk_checker_answer("show", status, looking, err);
    if (status == LOCKER_OK)
        check_info("show", info);
    return status;
}

static locker_status checked_break(void *self, const char *key, size_t key_len,
                                   const locker_break_options *only, int64_t until, locker_info *broken,
                                   locker_error *err)
{
    lk_checked *w = self;
    locker_status status;
    UNDER_WAY("break_lock", key,
              status = lk_checker_tested->break_lock(w->self, key, key_len, only, until, broken, err));
    lk_checker_deadline(w, "late", "break_lock", until);
    lk_checker_answer("break_lock", status, looking | BIT(BUSY) | BIT(CONFIG), err);
    if ((status == LOCKER_OK || status == LOCKER_BUSY) && !broken->held)
        lk_checker_report("answer", "break_lock answered OK or BUSY without a holder in *broken");
    return status;
}

static locker_status checked_ping(void *self, int64_t until, locker_error *err)
{
    lk_checked *w = self;
    locker_status status;
    UNDER_WAY("ping", NULL, status = lk_checker_tested->ping(w->self, until, err));
    lk_checker_deadline(w, "late", "ping", until);
    lk_checker_answer("ping", status, looking & ~BIT(INVALID), err);
    return status;
}

/* ------------------------------------------------------------------ the table ---- */

/* What the driver has not, the table has not either. */
#define CHECKED(operation, checked) table->operation = driver->operation != NULL ? (checked) : NULL

void lk_checker_fill(locker_driver *table, const locker_driver *driver)
{
    *table = *driver;
    table->claim_size = sizeof(void *); /* what checker_claims.c keeps in core's claims */
    CHECKED(open, checked_open);
    CHECKED(close, checked_close);
    CHECKED(abandon, checked_abandon);
    CHECKED(check_key, checked_check_key);
    CHECKED(acquire, checked_acquire);
    CHECKED(interrupt, checked_interrupt);
    CHECKED(withdraw, checked_withdraw);
    CHECKED(begin_release, checked_begin_release);
    CHECKED(release, checked_release);
    CHECKED(pass, checked_pass);
    CHECKED(renew, checked_renew);
    CHECKED(descriptor, checked_descriptor);
    CHECKED(dispatch, checked_dispatch);
    CHECKED(show, checked_show);
    CHECKED(break_lock, checked_break);
    CHECKED(ping, checked_ping);
    CHECKED(keep_over_exec, checked_keep_over_exec);
}
