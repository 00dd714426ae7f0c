/* checker_services.c: core's services, as the driver under test sees them. Each looks whether it may be
 * called for that claim now, and passes the call on to core for core's claim. */
#include "checker_internal.h"

#include <stdarg.h>
#include <stdio.h>

static lk_checked *checked(const locker_services *svc)
{
    return (lk_checked *)(uintptr_t)svc;
}

/* Whether the instance may call its services. */
static bool may_call(const lk_checked *w, const char *service)
{
    const bool closed = atomic_load(&w->closed);
    if (closed)
        lk_checker_report("after-close", "%s was called after close, or after open had failed", service);
    return !closed;
}

/* Core's claim for the driver's, with a copy of its record; NULL: the service can't be passed on. */
static locker_claim *outer_of(const lk_checked *w, const locker_claim *inner, const char *service,
                              lk_record *copy)
{
    if (!may_call(w, service))
        return NULL;
    lk_mutex_lock(&lk_checker_mutex);
    lk_record *record = lk_checker_record_locked(inner);
    if (record != NULL)
        *copy = *record;
    lk_mutex_unlock(&lk_checker_mutex);
    if (record == NULL)
        lk_checker_report("gone", "%s was called with an address that is not a claim", service);
    else if (copy->instance == NULL)
        lk_checker_report("gone", "%s was called for the claim of '%s' after %s had ended it", service,
                          copy->key, copy->let_go_by != NULL ? copy->let_go_by : "no operation");
    else if (copy->instance != w)
        lk_checker_report("gone", "%s was called for the claim of '%s', which belongs to another instance",
                          service, copy->key);
    else
        return copy->outer;
    return NULL;
}

/* While it is being attempted it may have been enrolled already; and a wake that was under way when the grant
 * came is no breach. */
static bool may_wake(const lk_checked *w, const lk_record *record)
{
    return record->enrolled || record->attempting ||
           (record->enrolled_until != 0 &&
            lk_checker_now(w) - record->enrolled_until < LK_CHECKER_LATE_MS * INT64_C(1000000));
}

static void wake(const locker_services *svc, locker_claim *claim)
{
    lk_checked *w = checked(svc);
    lk_record record;
    locker_claim *outer = outer_of(w, claim, "wake", &record);
    if (outer == NULL)
        return;
    if (!may_wake(w, &record))
        lk_checker_report("wake", "wake was called for the claim of '%s', which %s", record.key,
                          record.granted ? "is a grant" : "is not enrolled");
    lk_mutex_lock(&lk_checker_mutex);
    lk_checker_record_locked(claim)->woken = true;
    lk_mutex_unlock(&lk_checker_mutex);
    w->core->wake(w->core, outer);
}

static void lease_extended(const locker_services *svc, locker_claim *claim, int64_t until)
{
    lk_checked *w = checked(svc);
    lk_record record;
    locker_claim *outer = outer_of(w, claim, "lease_extended", &record);
    if (outer == NULL)
        return;
    if (!record.granted && !record.attempting)
        lk_checker_report("not-granted",
                          "lease_extended was called for the claim of '%s', which is not a grant",
                          record.key);
    if (lk_checker_is_bounded(outer) && until > lk_checker_now(w) + outer->ttl_ns)
        lk_checker_report("valid-until", "lease_extended of '%s' set a deadline %lld ms after now + ttl",
                          record.key, (long long)((until - lk_checker_now(w) - outer->ttl_ns) / 1000000));
    w->core->lease_extended(w->core, outer, until);
}

static void lease_shortened(const locker_services *svc, locker_claim *claim, int64_t until)
{
    lk_checked *w = checked(svc);
    lk_record record;
    locker_claim *outer = outer_of(w, claim, "lease_shortened", &record);
    if (outer == NULL)
        return;
    if (!record.granted && !record.attempting)
        lk_checker_report("not-granted",
                          "lease_shortened was called for the claim of '%s', which is not a grant",
                          record.key);
    w->core->lease_shortened(w->core, outer, until);
}

static void lease_lost(const locker_services *svc, locker_claim *claim, const char *why)
{
    lk_checked *w = checked(svc);
    lk_record record = {.granted = true};
    locker_claim *outer = NULL;
    if (claim != NULL)
        outer = outer_of(w, claim, "lease_lost", &record);
    else if (!may_call(w, "lease_lost"))
        return;
    if (claim != NULL && outer == NULL)
        return;
    if (!record.granted && !record.attempting)
        lk_checker_report("not-granted", "lease_lost was called for the claim of '%s', which is not a grant",
                          record.key);
    w->core->lease_lost(w->core, outer, why);
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    lk_checked *w = checked(svc);
    if (may_call(w, "suspect"))
        w->core->suspect(w->core, out_of_reach);
}

static void attend(const locker_services *svc)
{
    lk_checked *w = checked(svc);
    if (may_call(w, "attend"))
        w->core->attend(w->core);
}

static bool log_wanted(const locker_services *svc, locker_log_level level)
{
    lk_checked *w = checked(svc);
    return may_call(w, "log_wanted") && w->core->log_wanted(w->core, level);
}

/* Whether this thread is inside core's log. */
static _Thread_local bool logging;

void lk_checker_told(locker_log_level level, const char *text, void *user)
{
    (void)level, (void)user;
    if (logging)
        lk_checker_report(
            "core", "core called the application's log callback inside the driver's call of log: %s", text);
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    lk_checked *w = checked(svc);
    if (!may_call(w, "log"))
        return;
    va_list args;
    va_start(args, format);
    char text[1024];
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    logging = true;
    w->core->log(w->core, level, "%s", text);
    logging = false;
}

/* It may cross with the grant, and is true of that, too. */
static void awaited(const locker_services *svc, locker_claim *claim)
{
    lk_checked *w = checked(svc);
    lk_record record;
    locker_claim *outer = outer_of(w, claim, "awaited", &record);
    if (outer == NULL)
        return;
    if (claim->mode != LOCKER_SHARED || (!record.granted && !record.attempting && !record.enrolled))
        lk_checker_report("not-granted",
                          "awaited was called for the claim of '%s', which is not a shared grant",
                          record.key);
    lk_mutex_lock(&lk_checker_mutex);
    lk_checker_record_locked(claim)->awaited = true;
    lk_mutex_unlock(&lk_checker_mutex);
    w->core->awaited(w->core, outer);
}

const locker_services lk_checker_services = {
    .size = sizeof(locker_services),
    .wake = wake,
    .lease_extended = lease_extended,
    .lease_lost = lease_lost,
    .suspect = suspect,
    .attend = attend,
    .log_wanted = log_wanted,
    .log = log_line,
    .awaited = awaited,
    .lease_shortened = lease_shortened,
};
