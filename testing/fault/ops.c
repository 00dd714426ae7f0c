/* ops.c: the operations: each asks the script whether it goes wrong, then the other driver; see
 * internal.h. */
#include <string.h>

#include "internal.h"

enum { RETRY_MS = 50 };

/* ------------------------------------------------------------------ flights ---- */

static lk_fault_flight take_off(lk_fault_instance *f, locker_op op, const char *key)
{
    lk_mutex_lock(&f->mutex);
    lk_fault_flight flight = lk_fault_take_off_locked(f, op, key);
    lk_mutex_unlock(&f->mutex);
    return flight;
}

/* Wait until the answer has travelled. It is late when it comes after `until`. p NULL: nobody interrupts. */
static void travel(lk_fault_instance *f, lk_fault_flight *flight, const lk_fault_place *p, int64_t until)
{
    int64_t at = flight->silent ? LOCKER_NEVER : flight->asked + flight->fault.delay_ms * LK_MS;
    if (!flight->silent && flight->fault.delay_ms == 0)
        return;
    flight->late = at >= until;
    if (flight->late)
        at = until;
    lk_mutex_lock(&f->mutex);
    while ((p == NULL || !p->interrupted) && lk_fault_now(f) < at)
        f->core->clock->wait(f->core->clock->context, &f->changed, &f->mutex.plain, at);
    lk_mutex_unlock(&f->mutex);
}

static locker_status explain(const lk_fault_flight *flight, locker_op op, locker_status status,
                             locker_error *err)
{
    const char *name = lk_fault_op_name(op);
    if (flight->late)
        return locker_error_set(
            err, status, 0, "no answer arrived in time: the fault script delayed or dropped it (%s)", name);
    if (flight->hit && flight->fault.what == LOCKER_FAULT_ANSWER)
        return locker_error_set(err, status, 0, "the fault script answers %s (%s)",
                                locker_status_name(status), name);
    return locker_error_set(err, status, 0, "disconnected by the fault script (%s)", name);
}

/* ------------------------------------------------------------------ acquire ---- */

/* The other driver's attempt. A grant whose answer was lost, and which core doesn't know of, is given back
 * first. */
static locker_status attempt(lk_fault_instance *f, locker_claim *claim, locker_error *err)
{
    lk_fault_place *p = lk_fault_place_of(f, claim);
    lk_mutex_lock(&f->mutex);
    const bool hidden = p->hidden;
    const bool interrupted = p->interrupted;
    p->inside = !interrupted;
    lk_mutex_unlock(&f->mutex);
    if (interrupted)
        return LOCKER_CANCELED;
    if (hidden) {
        f->inner->withdraw(f->self, claim);
        memset(claim->data, 0, f->inner->claim_size);
        claim->granted_at = 0;
        claim->alone = false;
        lk_mutex_lock(&f->mutex);
        p->hidden = false;
        lk_mutex_unlock(&f->mutex);
    }
    p->seen = true;
    const locker_status status = f->inner->acquire(f->self, claim, err);
    lk_mutex_lock(&f->mutex);
    p->inside = false;
    lk_mutex_unlock(&f->mutex);
    return status;
}

/* What the caller is told of an attempt that a fault acted on. */
static locker_status settle(lk_fault_instance *f, lk_fault_flight *flight, locker_claim *claim,
                            locker_status status, locker_error *err)
{
    lk_fault_place *p = lk_fault_place_of(f, claim);
    const bool granted = flight->arrives && status == LOCKER_OK;
    lk_mutex_lock(&f->mutex);
    const bool interrupted = p->interrupted;
    p->interrupted = false;
    p->hidden = p->hidden || (granted && flight->late);
    lk_mutex_unlock(&f->mutex);
    if (granted && !flight->late)
        return LOCKER_OK;
    claim->retry_at = flight->arrives && !flight->late ? claim->retry_at : LOCKER_NEVER;
    if (interrupted)
        return LOCKER_CANCELED;
    if (flight->late)
        return explain(flight, LOCKER_OP_ACQUIRE, LOCKER_TIMEOUT, err);
    if (flight->arrives)
        return status;
    if (flight->fault.retry_ms > 0 || flight->refusal == LOCKER_BUSY)
        claim->retry_at =
            lk_fault_now(f) + (flight->fault.retry_ms > 0 ? flight->fault.retry_ms : RETRY_MS) * LK_MS;
    return flight->refusal == LOCKER_BUSY ? LOCKER_BUSY
                                          : explain(flight, LOCKER_OP_ACQUIRE, flight->refusal, err);
}

static locker_status fault_acquire(void *self, locker_claim *claim, locker_error *err)
{
    lk_fault_instance *f = self;
    lk_fault_flight flight = take_off(f, LOCKER_OP_ACQUIRE, claim->key);
    locker_status status = flight.arrives ? attempt(f, claim, err) : flight.refusal;
    travel(f, &flight, lk_fault_place_of(f, claim), claim->attempt_until);
    status = settle(f, &flight, claim, status, err);
    if (status == LOCKER_OK && flight.fault.what == LOCKER_FAULT_LOSE_LOCK)
        lk_fault_steal(f, claim->key, claim->token, claim->attempt_until); /* others may hold it beside us */
    return status;
}

static void fault_interrupt(void *self, locker_claim *claim)
{
    lk_fault_instance *f = self;
    lk_fault_place *p = lk_fault_place_of(f, claim);
    lk_mutex_lock(&f->mutex);
    p->interrupted = true;
    const bool inside = p->inside;
    pthread_cond_broadcast(&f->changed);
    lk_mutex_unlock(&f->mutex);
    if (inside && f->inner->interrupt != NULL)
        f->inner->interrupt(f->self, claim);
}

/* ------------------------------------------------------------------ giving back ---- */

static void fault_withdraw(void *self, locker_claim *claim)
{
    lk_fault_instance *f = self;
    lk_fault_hush(f, claim);
    if (lk_fault_place_of(f, claim)->seen)
        f->inner->withdraw(f->self, claim);
}

static locker_status fault_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_fault_instance *f = self;
    lk_fault_flight flight = take_off(f, LOCKER_OP_RELEASE, grant->key);
    locker_status status = LOCKER_UNKNOWN;
    lk_fault_hush(f, grant);
    if (flight.arrives)
        status = f->inner->release(f->self, grant, until, err);
    travel(f, &flight, NULL, until);
    if (!flight.arrives) {
        f->inner->withdraw(f->self, grant); /* the service hears of it after all, behind the caller's back */
        status = flight.refusal == LOCKER_LOST ? LOCKER_LOST : LOCKER_UNKNOWN;
    }
    if (flight.late)
        return explain(&flight, LOCKER_OP_RELEASE, LOCKER_UNKNOWN, err);
    return flight.arrives ? status : explain(&flight, LOCKER_OP_RELEASE, status, err);
}

static locker_status fault_pass(void *self, locker_claim *from, locker_claim *to)
{
    lk_fault_instance *f = self;
    lk_fault_flight flight = take_off(f, LOCKER_OP_PASS, from->key);
    locker_status status = LOCKER_BUSY;
    if (flight.arrives && !flight.silent)
        status = f->inner->pass(f->self, from, to);
    if (status == LOCKER_OK) {
        lk_fault_hush(f, from);
        lk_fault_place_of(f, to)->seen = true;
    }
    return status;
}

/* ------------------------------------------------------------------ looking ---- */

/* The other driver's operation; `only` is for break. */
static locker_status ask(const lk_fault_instance *f, locker_op op, const char *key, size_t key_len,
                         const locker_break_options *only, int64_t until, locker_info *info,
                         locker_error *err)
{
    if (op == LOCKER_OP_PING)
        return f->inner->ping(f->self, until, err);
    if (op == LOCKER_OP_SHOW)
        return f->inner->show(f->self, key, key_len, until, info, err);
    return f->inner->break_lock(f->self, key, key_len, only, until, info, err);
}

static locker_status look(lk_fault_instance *f, locker_op op, const char *key, size_t key_len,
                          const locker_break_options *only, int64_t until, locker_info *info,
                          locker_error *err)
{
    lk_fault_flight flight = take_off(f, op, key);
    locker_status status = flight.refusal;
    if (flight.arrives)
        status = ask(f, op, key, key_len, only, until, info, err);
    travel(f, &flight, NULL, until);
    if (flight.late)
        return explain(&flight, op, LOCKER_UNAVAILABLE, err);
    return flight.arrives ? status : explain(&flight, op, status, err);
}

static locker_status fault_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                                locker_error *err)
{
    return look(self, LOCKER_OP_SHOW, key, key_len, NULL, until, info, err);
}

static locker_status fault_break(void *self, const char *key, size_t key_len,
                                 const locker_break_options *only, int64_t until, locker_info *broken,
                                 locker_error *err)
{
    return look(self, LOCKER_OP_BREAK, key, key_len, only, until, broken, err);
}

static locker_status fault_ping(void *self, int64_t until, locker_error *err)
{
    return look(self, LOCKER_OP_PING, NULL, 0, NULL, until, NULL, err);
}

/* ------------------------------------------------------------------ the table ---- */

void lk_fault_fill(locker_driver *table)
{
    table->acquire = fault_acquire;
    table->interrupt = fault_interrupt; /* a delay can be interrupted, whatever the other driver can */
    table->withdraw = fault_withdraw;
    table->release = fault_release;
    table->begin_release = NULL;  /* what becomes of each release is decided when it is called */
    table->keep_over_exec = NULL; /* no fault can be played in what follows exec */
    table->pass = table->pass != NULL ? fault_pass : NULL;
    table->renew = table->renew != NULL ? lk_fault_renew : NULL;
    table->dispatch = lk_fault_dispatch;
    table->show = fault_show;
    table->break_lock = table->break_lock != NULL ? fault_break : NULL;
    table->ping = fault_ping;
}
