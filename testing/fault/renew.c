/* renew.c: what the other driver tells core, and the faults of renewals; see internal.h. */
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

#include "internal.h"

static lk_fault_instance *faulty(const locker_services *svc)
{
    return (lk_fault_instance *)(uintptr_t)svc;
}

/* ------------------------------------------------------------------ delayed answers ---- */

static void drop_locked(lk_fault_instance *f, lk_fault_place *p) LK_REQUIRES(f->mutex)
{
    lk_fault_place **at = &f->delayed;
    for (; *at != NULL; at = &(*at)->next) {
        if (*at == p) {
            *at = p->next;
            return;
        }
    }
}

static void delay_locked(lk_fault_instance *f, locker_claim *grant, int64_t tell_at, int64_t until)
    LK_REQUIRES(f->mutex)
{
    lk_fault_place *p = lk_fault_place_of(f, grant);
    drop_locked(f, p); /* the later answer says more */
    p->claim = grant;
    p->tell_at = tell_at;
    p->until = until;
    p->next = f->delayed;
    f->delayed = p;
    f->core->attend(f->core);
}

void lk_fault_hush(lk_fault_instance *f, locker_claim *claim)
{
    lk_fault_place *p = lk_fault_place_of(f, claim);
    lk_mutex_lock(&f->mutex);
    p->ending = true;
    drop_locked(f, p);
    lk_mutex_unlock(&f->mutex);
}

/* Tell what is due; answers when the next is. */
static int64_t tell_locked(lk_fault_instance *f) LK_REQUIRES(f->mutex)
{
    int64_t now = f->delayed != NULL ? lk_fault_now(f) : 0, next_at = LOCKER_NEVER;
    lk_fault_place **at = &f->delayed;
    while (*at != NULL) {
        lk_fault_place *p = *at;

        if (p->tell_at <= now) {
            *at = p->next;
            if (!f->cut)
                f->core->lease_extended(f->core, p->claim, p->until);
            continue;
        }
        if (p->tell_at < next_at)
            next_at = p->tell_at;
        at = &p->next;
    }
    return next_at;
}

int64_t lk_fault_dispatch(void *self)
{
    lk_fault_instance *f = self;
    const int64_t theirs = f->inner->dispatch != NULL ? f->inner->dispatch(f->self) : LOCKER_NEVER;
    lk_mutex_lock(&f->mutex);
    const int64_t ours = tell_locked(f);
    lk_mutex_unlock(&f->mutex);
    return ours < theirs ? ours : theirs;
}

/* ------------------------------------------------------------------ renewing ---- */

/* Whether it is to be sent; what happens to its answer is noted with the claim. */
static bool show_renewal_locked(lk_fault_instance *f, locker_claim *grant) LK_REQUIRES(f->mutex)
{
    lk_fault_flight flight = lk_fault_take_off_locked(f, LOCKER_OP_RENEW, grant->key);
    lk_fault_place *p = lk_fault_place_of(f, grant);
    p->renewal = flight.fault;
    if (!flight.arrives && flight.refusal == LOCKER_LOST && !flight.silent)
        f->core->lease_lost(f->core, grant, "the fault script answered lost");
    return flight.arrives;
}

void lk_fault_renew(void *self, locker_claim *const *grants, size_t count)
{
    lk_fault_instance *f = self;
    locker_claim **sent = calloc(count, sizeof *sent);
    size_t n = 0;
    if (sent == NULL)
        return; /* not renewed: core asks again */
    lk_mutex_lock(&f->mutex);
    for (size_t i = 0; i < count; i++)
        if (show_renewal_locked(f, grants[i]))
            sent[n++] = grants[i];
    lk_mutex_unlock(&f->mutex);
    if (n > 0)
        f->inner->renew(f->self, sent, n);
    free(sent);
}

/* ------------------------------------------------------------------ services ---- */

static void wake(const locker_services *svc, locker_claim *claim)
{
    const lk_fault_instance *f = faulty(svc);
    f->core->wake(f->core, claim);
}

static void lease_extended(const locker_services *svc, locker_claim *grant, int64_t until)
{
    lk_fault_instance *f = faulty(svc);
    lk_fault_place *p = lk_fault_place_of(f, grant);
    bool told = true;
    lk_mutex_lock(&f->mutex);
    if (!p->ending && !p->hidden && f->inner->renew == NULL) /* a session: nobody asked for it */
        told = show_renewal_locked(f, grant);
    told = told && !p->ending && !p->hidden && !f->cut && p->renewal.what != LOCKER_FAULT_LOSE_REPLY;
    if (told && p->renewal.delay_ms > 0)
        delay_locked(f, grant, lk_fault_now(f) + p->renewal.delay_ms * LK_MS, until);
    else if (told)
        f->core->lease_extended(f->core, grant, until);
    if (!p->ending && p->renewal.what == LOCKER_FAULT_LOSE_LOCK) {
        lk_fault_steal_later_locked(f, grant);
        p->renewal.what = LOCKER_FAULT_ANSWER;
    }
    lk_mutex_unlock(&f->mutex);
}

/* Whatever is told later, of before, counts no more. */
static void lease_shortened(const locker_services *svc, locker_claim *grant, int64_t until)
{
    lk_fault_instance *const f = faulty(svc);
    lk_fault_place *const p = lk_fault_place_of(f, grant);
    lk_mutex_lock(&f->mutex);
    drop_locked(f, p); /* a delayed renewal would move the deadline past the shortened one */
    if (!p->ending && !p->hidden && !f->cut)
        f->core->lease_shortened(f->core, grant, until);
    lk_mutex_unlock(&f->mutex);
}

static void lease_lost(const locker_services *svc, locker_claim *grant, const char *why)
{
    const lk_fault_instance *f = faulty(svc);
    f->core->lease_lost(f->core, grant, why);
}

static void suspect(const locker_services *svc, bool out_of_reach)
{
    lk_fault_instance *f = faulty(svc);
    lk_mutex_lock(&f->mutex);
    f->out_of_reach = out_of_reach;
    if (!f->cut)
        f->core->suspect(f->core, out_of_reach);
    lk_mutex_unlock(&f->mutex);
}

static void attend(const locker_services *svc)
{
    const lk_fault_instance *f = faulty(svc);
    f->core->attend(f->core);
}

static bool log_wanted(const locker_services *svc, locker_log_level level)
{
    const lk_fault_instance *f = faulty(svc);
    return f->core->log_wanted(f->core, level);
}

static void log_line(const locker_services *svc, locker_log_level level, const char *format, ...)
{
    const lk_fault_instance *f = faulty(svc);
    va_list args;
    va_start(args, format);
    char text[1024];
    (void)vsnprintf(text, sizeof text, format, args);
    va_end(args);
    f->core->log(f->core, level, "%s", text);
}

static void awaited(const locker_services *svc, locker_claim *grant)
{
    lk_fault_instance *const f = faulty(svc);
    const lk_fault_place *const p = lk_fault_place_of(f, grant);
    lk_mutex_lock(&f->mutex);
    if (!p->ending && !p->hidden)
        f->core->awaited(f->core, grant);
    lk_mutex_unlock(&f->mutex);
}

const locker_services lk_fault_services = {
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
