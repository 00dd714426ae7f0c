/* ops.c: the driver's operations. Each asks the script first whether it goes wrong, then the service, and is
 * recorded when it is answered. */
#include "flight.h"

/* ------------------------------------------------------------------ acquire ---- */

/* The service is not asked, or doesn't do it. */
static locker_status refuse_attempt_locked(locker_mock *m, const lk_mock_flight *f) LK_REQUIRES(m->mutex)
{
    locker_claim *claim = f->claim;
    const lk_mock_place *const p = lk_mock_place_of(claim);
    lk_mock_entry *entry = lk_mock_entry_locked(m, claim->key, claim->key_len);
    if (entry == NULL || (p->host == NULL && !lk_mock_adopt_locked(m, f->host, entry, claim)))
        return LOCKER_NOMEM;
    if (f->refusal == LOCKER_BUSY)
        lk_mock_take_away_locked(m, claim); /* it may have been given to it since it was woken */
    if (f->refusal == LOCKER_BUSY && claim->will_wait && p->state != LK_MOCK_QUEUED)
        lk_mock_enqueue_locked(m, entry, claim);
    return f->refusal;
}

/* The answer has arrived; but meanwhile the lock may have been granted after all, or taken away again, or the
 * call given up. */
static locker_status settle_locked(locker_mock *m, lk_mock_flight *f, locker_status status, bool interrupted,
                                   locker_error *err) LK_REQUIRES(m->mutex)
{
    locker_claim *claim = f->claim;
    lk_mock_place *p = lk_mock_place_of(claim);
    if (f->arrives && !f->late && (status == LOCKER_OK) != (p->state == LK_MOCK_GRANTED))
        status = lk_mock_attempt_locked(m, f->host, claim, err);
    if (status != LOCKER_OK && interrupted)
        status = LOCKER_CANCELED;
    if (status != LOCKER_OK && f->fault.retry_ms > 0)
        claim->retry_at = lk_mock_now(m) + f->fault.retry_ms * LK_MS;
    p->answered = status == LOCKER_OK;
    claim->alone = p->answered && claim->mode == LOCKER_SHARED && lk_list_empty(&p->grant->entry->queue);
    f->call.token = status == LOCKER_OK ? claim->token : 0;
    if (p->answered && f->fault.what == LOCKER_FAULT_LOSE_LOCK)
        lk_mock_take_away_locked(m, claim);
    return status;
}

static locker_status mock_acquire(void *self, locker_claim *claim, locker_error *err)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    lk_mutex_lock(&m->mutex);
    lk_mock_flight f =
        lk_mock_take_off_locked(m, h, LOCKER_OP_ACQUIRE, claim->key, claim, claim->attempt_until);
    locker_status status =
        f.arrives ? lk_mock_attempt_locked(m, h, claim, err) : refuse_attempt_locked(m, &f);
    lk_mutex_unlock(&m->mutex);
    bool interrupted = false;
    status = lk_mock_travel(m, &f, status, LOCKER_TIMEOUT, &interrupted);
    lk_mutex_lock(&m->mutex);
    status = lk_mock_land_locked(m, &f, settle_locked(m, &f, status, interrupted, err));
    lk_mutex_unlock(&m->mutex);
    return status == LOCKER_CONFIG && f.arrives ? status : lk_mock_explain(&f, status, err);
}

static void mock_interrupt(void *self, locker_claim *claim)
{
    lk_mock_interrupt(((const lk_mock_host *)self)->mock, claim);
}

/* ------------------------------------------------------------------ release ---- */

static void mock_withdraw(void *self, locker_claim *claim)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    lk_mock_flight f = {.host = h, .claim = claim, .asked = lk_mock_now(m)};
    lk_mutex_lock(&m->mutex);
    f.call = (locker_mock_call){.op = LOCKER_OP_WITHDRAW, .at_ms = f.asked / LK_MS, .together = 1};
    if (lk_mock_place_of(claim)->grant != NULL)
        f.call.key = lk_mock_place_of(claim)->grant->entry->key;
    f.call.owner = lk_mock_intern_locked(m, claim->owner);
    f.call.token = lk_mock_place_of(claim)->answered ? claim->token : 0;
    (void)lk_mock_end_locked(m, claim, !h->cut);
    (void)lk_mock_land_locked(m, &f, LOCKER_OK);
    lk_mutex_unlock(&m->mutex);
}

static locker_status mock_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    lk_mutex_lock(&m->mutex);
    lk_mock_flight f = lk_mock_take_off_locked(m, h, LOCKER_OP_RELEASE, grant->key, grant, until);
    f.call.token = grant->token;
    if (!f.arrives && f.refusal == LOCKER_LOST)
        lk_mock_take_away_locked(m, grant);
    locker_status status = lk_mock_end_locked(m, grant, f.arrives);
    if (!f.arrives)
        status = f.refusal == LOCKER_LOST ? LOCKER_LOST : LOCKER_UNKNOWN;
    lk_mutex_unlock(&m->mutex);
    bool interrupted;
    status = lk_mock_travel(m, &f, status, LOCKER_UNKNOWN, &interrupted);
    lk_mutex_lock(&m->mutex);
    (void)lk_mock_land_locked(m, &f, status);
    lk_mutex_unlock(&m->mutex);
    if (status == LOCKER_LOST)
        return locker_error_set(err, status, 0, "the lock '%s' was lost before unlock", grant->key);
    return lk_mock_explain(&f, status, err);
}

static locker_status mock_pass(void *self, locker_claim *from, locker_claim *to)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    lk_mock_place *p = lk_mock_place_of(from);
    locker_status status = LOCKER_BUSY;
    lk_mutex_lock(&m->mutex);
    lk_mock_flight f = lk_mock_take_off_locked(m, h, LOCKER_OP_PASS, from->key, from, LOCKER_NEVER);
    if (f.arrives && !f.silent && p->state == LK_MOCK_GRANTED &&
        lk_mock_adopt_locked(m, h, p->grant->entry, to)) {
        lk_mock_place *const next = lk_mock_place_of(to);
        lk_mock_unhold_locked(m, p->grant);
        lk_mock_grant_locked(m, to);
        next->grant->until = p->grant->until; /* the service was not asked */
        next->answered = true;
        to->token = next->grant->token;
        to->valid_until = from->valid_until;
        p->state = LK_MOCK_LOST;
        (void)lk_mock_end_locked(m, from, true);
        status = LOCKER_OK;
        f.call.token = to->token;
    }
    (void)lk_mock_land_locked(m, &f, status);
    lk_mutex_unlock(&m->mutex);
    return status;
}

/* ------------------------------------------------------------------ life ---- */

static locker_status mock_open(const locker_driver_config *config, const locker_services *svc, void **self,
                               locker_error *err)
{
    lk_mock_host *h = svc->clock->context;
    locker_mock *m = h->mock;
    lk_mutex_lock(&m->mutex);
    const bool down = m->down;
    if (!down) {
        h->svc = svc;
        h->owner = lk_mock_intern_locked(m, config->owner);
        h->session_ns = config->ttl_ns;
    }
    lk_mutex_unlock(&m->mutex);
    if (down)
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "the mock is disconnected (open)");
    lk_mock_keeper(m, h, true);
    *self = h;
    return LOCKER_OK;
}

static void abandon_locked(locker_mock *m, lk_mock_grant *grant, bool arrives) LK_REQUIRES(m->mutex)
{
    grant->claim = NULL;
    grant->host = NULL;
    grant->retry_at = LOCKER_NEVER;
    if (arrives)
        lk_mock_free_locked(m, grant);
}

/* A session ends with its locker; what could not be given back otherwise ends with its lease. */
static void mock_close(void *self)
{
    lk_mock_host *h = self;
    locker_mock *m = h->mock;
    const bool leases = m->options.leases == LOCKER_MOCK_LEASES_RENEWED;
    lk_mock_keeper(m, h, false);
    lk_mutex_lock(&m->mutex);
    LK_EACH(const lk_mock_place, p, of_host, &h->claims)
        m->claims_left++;
    lk_list_init(&h->claims);
    h->svc = NULL;
    h->l = NULL;
    for (lk_mock_entry *entry = m->entries; entry != NULL; entry = entry->next)
        LK_EACH_SAFE(lk_mock_grant, g, link, &entry->grants)
            if (g->host == h)
                abandon_locked(m, g, !h->cut || !leases);
    h->session_until = h->beat_at = LOCKER_NEVER;
    lk_mutex_unlock(&m->mutex);
}

static const char *const schemes[] = {"mock", NULL};
static const locker_parameter params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};

/* Without capability bits and semantics: each mock has a copy with its own. */
const locker_driver lk_mock_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "mock",
    .schemes = schemes,
    .example = "mock:",
    .features = "",
    .claim_size = sizeof(lk_mock_place),
    .ttl_min_ms = 10,
    .ttl_max_ms = INT64_C(86400000),
    .params = params,
    .open = mock_open,
    .close = mock_close,
    .acquire = mock_acquire,
    .interrupt = mock_interrupt,
    .withdraw = mock_withdraw,
    .release = mock_release,
    .pass = mock_pass,
    .renew = lk_mock_renew,
    .show = lk_mock_show,
    .break_lock = lk_mock_break,
    .ping = lk_mock_ping,
};
