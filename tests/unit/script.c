/* script.c: the scripted driver and its clock. */
#include "script.h"

#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <poll.h>

#define MS INT64_C(1000000)

/* Which script the next open belongs to. A test is one thread that opens. */
static struct script *opening;

/* ------------------------------------------------------------------ the clock ---- */

static int64_t clock_now(void *context)
{
    return atomic_load(&((struct script *)context)->now);
}

/* The contract allows spurious wake-ups, so looking again after a moment of real time is enough. */
static void clock_wait(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    struct timespec t;

    if (clock_now(context) >= until)
        return;
    (void)clock_gettime(CLOCK_MONOTONIC, &t);
    t.tv_nsec += MS;
    if (t.tv_nsec >= 1000 * MS) {
        t.tv_nsec -= 1000 * MS;
        t.tv_sec++;
    }
    (void)pthread_cond_timedwait(cond, mutex, &t);
}

static void clock_poll(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};

    if (clock_now(context) < until)
        (void)poll(&p, 1, 1);
}

const locker_clock *script_clock(struct script *s)
{
    static locker_clock clock;

    clock = (locker_clock){clock_now, clock_wait, clock_poll, s};
    return &clock;
}

void script_advance(struct script *s, int64_t ms)
{
    (void)atomic_fetch_add(&s->now, ms * MS);
}

int64_t script_now(struct script *s)
{
    return clock_now(s);
}

/* ------------------------------------------------------------------ operations ---- */

static locker_status script_driver_open(const locker_driver_config *c, const locker_services *svc,
                                        void **self, locker_error *err)
{
    struct script *s = opening;
    int n;

    (void)err;
    s->svc = svc;
    n = snprintf(s->seen_config, sizeof s->seen_config, "%s|%s|%s|%s|%s|%lld|", c->scheme,
                 c->user != NULL ? c->user : "-", c->password != NULL ? c->password : "-", c->path,
                 c->name_space, (long long)(c->ttl_ns / MS));
    for (size_t i = 0; i < c->host_count; i++)
        n += snprintf(s->seen_config + n, sizeof s->seen_config - (size_t)n, "%s:%d,", c->hosts[i].name,
                      c->hosts[i].port);
    (void)snprintf(s->seen_config + n, sizeof s->seen_config - (size_t)n, "|%lld|%lld|%lld|%s",
                   (long long)c->values[0].number, (long long)c->values[1].number,
                   (long long)c->values[2].number, c->values[3].text != NULL ? c->values[3].text : "-");
    *self = s;
    return LOCKER_OK;
}

static void script_driver_close(void *self)
{
    (void)self;
}

static void add_locked(struct script *s, locker_claim *claim)
{
    for (size_t i = 0; i < s->claim_count; i++)
        if (s->claims[i] == claim)
            return;
    if (s->claim_count < SCRIPT_CLAIMS)
        s->claims[s->claim_count++] = claim;
}

static void end_locked(struct script *s, const locker_claim *claim)
{
    for (size_t i = 0; i < s->claim_count; i++) {
        if (s->claims[i] != claim)
            continue;
        memmove(&s->claims[i], &s->claims[i + 1], (s->claim_count - i - 1) * sizeof *s->claims);
        s->claim_count--;
        return;
    }
    abort(); /* ended twice, or never begun: the contract is broken */
}

static void grant_locked(struct script *s, locker_claim *claim, int64_t lease_ms)
{
    claim->token = ++s->token;
    claim->valid_until =
        lease_ms < 0 ? LOCKER_NEVER : script_now(s) + (lease_ms > 0 ? lease_ms * MS : claim->ttl_ns);
}

static locker_status script_acquire(void *self, locker_claim *claim, locker_error *err)
{
    struct script *s = self;
    struct script_answer answer;
    bool hold;

    (void)pthread_mutex_lock(&s->mutex);
    add_locked(s, claim);
    s->attempts++;
    if (++s->in_flight > s->in_flight_max)
        s->in_flight_max = s->in_flight;
    answer = s->answers_taken < s->answer_count ? s->answers[s->answers_taken++] : s->usual;
    hold = s->hold_attempts;
    (void)pthread_mutex_unlock(&s->mutex);
    if (hold) {
        lk_gate_open(&s->inside, 1);
        (void)lk_gate_pass(&s->go);
    }
    (void)pthread_mutex_lock(&s->mutex);
    s->in_flight--;
    if (s->interrupted)
        answer.status = LOCKER_CANCELED;
    if (answer.status == LOCKER_OK)
        grant_locked(s, claim, answer.lease_ms);
    else if (answer.retry_in_ms > 0)
        claim->retry_at = script_now(s) + answer.retry_in_ms * MS;
    script_advance(s, answer.takes_ms);
    (void)pthread_mutex_unlock(&s->mutex);
    return answer.status == LOCKER_OK
               ? LOCKER_OK
               : locker_error_set(err, answer.status, 0, "scripted %s", locker_status_name(answer.status));
}

static void script_interrupt(void *self, locker_claim *claim)
{
    struct script *s = self;

    (void)claim;
    (void)pthread_mutex_lock(&s->mutex);
    s->interrupted = true;
    s->interrupts++;
    (void)pthread_mutex_unlock(&s->mutex);
    lk_gate_open(&s->go, 1);
}

static void script_withdraw(void *self, locker_claim *claim)
{
    struct script *s = self;

    (void)pthread_mutex_lock(&s->mutex);
    end_locked(s, claim);
    s->withdrawn++;
    (void)pthread_mutex_unlock(&s->mutex);
    lk_gate_open(&s->withdrew, 1);
}

static locker_status script_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    struct script *s = self;
    locker_status status;

    (void)until;
    (void)pthread_mutex_lock(&s->mutex);
    end_locked(s, grant);
    s->released++;
    status = s->release_status;
    (void)pthread_mutex_unlock(&s->mutex);
    return status == LOCKER_OK ? status
                               : locker_error_set(err, status, 0, "scripted %s", locker_status_name(status));
}

static locker_status script_pass(void *self, locker_claim *from, locker_claim *to)
{
    struct script *s = self;
    locker_status status;

    (void)pthread_mutex_lock(&s->mutex);
    status = s->pass_status;
    if (status == LOCKER_OK) {
        end_locked(s, from);
        add_locked(s, to);
        grant_locked(s, to, 0);
        to->valid_until = from->valid_until;
        s->passed++;
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return status;
}

static void script_renew(void *self, locker_claim *const *grants, size_t count)
{
    struct script *s = self;

    (void)grants;
    (void)pthread_mutex_lock(&s->mutex);
    s->renew_calls++;
    s->renew_grants += (unsigned)count;
    (void)pthread_mutex_unlock(&s->mutex);
    lk_gate_open(&s->renewed, 1);
}

static locker_status script_show(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)until, (void)err;
    info->held = true;
    return LOCKER_OK;
}

static locker_status script_ping(void *self, int64_t until, locker_error *err)
{
    (void)self, (void)until, (void)err;
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the table ---- */

static const char *const schemes[] = {"script", NULL};
static const locker_param params[] = {
    {"poll", LOCKER_PARAM_DURATION, "1s", 10, 60000, "a duration"},
    {"number", LOCKER_PARAM_NUMBER, "7", 1, 9, "a number"},
    {"flag", LOCKER_PARAM_BOOL, "yes", 0, 0, "a flag"},
    {"file", LOCKER_PARAM_PATH, NULL, 0, 0, "a path"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};
static const locker_semantics semantics = {.driver = "script", .leases = true};

const locker_driver *script_driver(struct script *s, unsigned flags)
{
    static locker_driver table;

    opening = s;
    table = (locker_driver){
        .abi = LOCKER_DRIVER_ABI,
        .name = "script",
        .schemes = schemes,
        .caps = (unsigned)LOCKER_CAP_AUTH |
                ((flags & SCRIPT_NO_LEASES) != 0 ? 0u : (unsigned)LOCKER_CAP_LEASES) |
                ((flags & SCRIPT_QUEUES) != 0 ? (unsigned)LOCKER_CAP_QUEUE : 0u),
        .claim_size = 8,
        .ttl_min_ms = 10,
        .ttl_max_ms = 3600000,
        .params = params,
        .semantics = &semantics,
        .open = script_driver_open,
        .close = script_driver_close,
        .acquire = script_acquire,
        .interrupt = script_interrupt,
        .withdraw = script_withdraw,
        .release = script_release,
        .pass = (flags & SCRIPT_PASSES) != 0 ? script_pass : NULL,
        .renew = script_renew,
        .show = script_show,
        .ping = script_ping,
    };
    return &table;
}

/* ------------------------------------------------------------------ for the tests ---- */

struct script *script_new(void)
{
    struct script *s = calloc(1, sizeof *s);

    assert_non_null(s);
    (void)pthread_mutex_init(&s->mutex, NULL);
    lk_gate_init(&s->inside);
    lk_gate_init(&s->go);
    lk_gate_init(&s->renewed);
    lk_gate_init(&s->withdrew);
    atomic_init(&s->now, 1000 * MS);
    return s;
}

struct script *script_open(unsigned flags, locker **l)
{
    struct script *s = script_new();
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_error err;

    o.clock = script_clock(s);
    if ((flags & SCRIPT_NO_LEASES) != 0)
        s->usual.lease_ms = -1;
    assert_ok(locker_open_driver(script_driver(s, flags), &o, l, &err), err);
    return s;
}

void script_close(struct script *s, locker *l)
{
    assert_int_equal(locker_close(l), LOCKER_OK);
    assert_int_equal(s->claim_count, 0);
    lk_gate_destroy(&s->inside);
    lk_gate_destroy(&s->go);
    lk_gate_destroy(&s->renewed);
    lk_gate_destroy(&s->withdrew);
    (void)pthread_mutex_destroy(&s->mutex);
    free(s);
}

void script_answer(struct script *s, struct script_answer answer)
{
    (void)pthread_mutex_lock(&s->mutex);
    s->answers[s->answer_count++ % SCRIPT_ANSWERS] = answer;
    (void)pthread_mutex_unlock(&s->mutex);
}

void script_usual(struct script *s, struct script_answer answer)
{
    (void)pthread_mutex_lock(&s->mutex);
    s->usual = answer;
    (void)pthread_mutex_unlock(&s->mutex);
}

struct awaited {
    struct script *s;
    size_t i;
    locker_claim *claim;
};

static bool has_claim(void *context)
{
    struct awaited *a = context;

    (void)pthread_mutex_lock(&a->s->mutex);
    a->claim = a->i < a->s->claim_count ? a->s->claims[a->i] : NULL;
    (void)pthread_mutex_unlock(&a->s->mutex);
    return a->claim != NULL;
}

locker_claim *script_claim(struct script *s, size_t i)
{
    struct awaited a = {s, i, NULL};

    lk_require(has_claim, &a, "a claim reaches the driver");
    return a.claim;
}

struct counted {
    struct script *s;
    unsigned attempts;
};

static bool has_attempted(void *context)
{
    struct counted *c = context;
    bool has;

    (void)pthread_mutex_lock(&c->s->mutex);
    has = c->s->attempts >= c->attempts && c->s->in_flight == 0;
    (void)pthread_mutex_unlock(&c->s->mutex);
    return has;
}

void script_await_attempts(struct script *s, unsigned attempts)
{
    struct counted c = {s, attempts};

    lk_require(has_attempted, &c, "an attempt");
}

void script_wake(struct script *s, locker_claim *claim)
{
    s->svc->wake(s->svc, claim);
}

void script_extend(struct script *s, locker_claim *claim, int64_t ms)
{
    s->svc->lease_extended(s->svc, claim, script_now(s) + ms * MS);
}
