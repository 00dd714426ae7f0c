/* probe.c: see probe.h. */
#include "probe.h"

#include <poll.h>
#include <string.h>
#include <sys/eventfd.h>
#include <unistd.h>

static const int64_t ms_ns = 1000000;

/* Which probe the next open belongs to. */
static probe *opening;

static void enter(probe *p, const locker_claim *claim)
{
    probe_claim *c = claim->data;
    if (atomic_fetch_add(&c->inside, 1) != 0)
        (void)atomic_fetch_add(&p->overlaps, 1);
}

static void leave(const locker_claim *claim)
{
    probe_claim *c = claim->data;
    (void)atomic_fetch_sub(&c->inside, 1);
}

static locker_status hooked(probe *p, probe_hook *hook, locker_claim *claim, locker_status status)
{
    return hook != NULL ? hook(p, claim, status) : status;
}

/* ------------------------------------------------------------------ the driver ---- */

static locker_status probe_open_driver(const locker_driver_config *config, const locker_services *svc,
                                       void **self, locker_error *err)
{
    (void)config, (void)err;
    opening->svc = svc;
    *self = opening;
    return LOCKER_OK;
}

static void probe_close(void *self)
{
    (void)self;
}

static void grant(probe *p, locker_claim *claim, uint64_t token)
{
    claim->token = token;
    claim->valid_until = p->svc->clock->now(p->svc->clock->context) + claim->ttl_ns;
    claim->granted_at = 0;
}

static void set_holder(probe *p, const locker_claim *from, const locker_claim *to)
{
    pthread_mutex_lock(&p->mutex);
    if (p->holder == from)
        p->holder = to;
    pthread_mutex_unlock(&p->mutex);
}

static locker_status probe_acquire(void *self, locker_claim *claim, locker_error *err)
{
    probe *p = self;
    probe_claim *c = claim->data;
    locker_status status = LOCKER_BUSY;
    int number = atomic_fetch_add(&p->acquires, 1);
    (void)err;
    enter(p, claim);
    c->attempts++;
    set_holder(p, NULL, claim);
    pthread_mutex_lock(&p->mutex);
    if (p->holder == claim)
        status = LOCKER_OK;
    pthread_mutex_unlock(&p->mutex);
    if (status == LOCKER_OK)
        grant(p, claim, (uint64_t)number + 1);
    status = hooked(p, p->acquire, claim, status);
    if (status != LOCKER_OK)
        set_holder(p, claim, NULL);
    leave(claim);
    return status;
}

static void probe_interrupt(void *self, locker_claim *claim)
{
    probe *p = self;
    (void)atomic_fetch_add(&p->interrupts, 1);
    (void)hooked(p, p->interrupt, claim, LOCKER_OK);
}

static void probe_withdraw(void *self, locker_claim *claim)
{
    probe *p = self;
    (void)atomic_fetch_add(&p->withdraws, 1);
    enter(p, claim);
    (void)hooked(p, p->withdraw, claim, LOCKER_OK);
    set_holder(p, claim, NULL);
    leave(claim);
    memset(claim->data, 0xA5, sizeof(probe_claim)); /* what a new claim must not see */
}

static locker_status probe_release(void *self, locker_claim *claim, int64_t until, locker_error *err)
{
    probe *p = self;
    locker_status status;
    (void)until, (void)err;
    (void)atomic_fetch_add(&p->releases, 1);
    enter(p, claim);
    status = hooked(p, p->release, claim, LOCKER_OK);
    set_holder(p, claim, NULL);
    leave(claim);
    return status;
}

static locker_status probe_pass(void *self, locker_claim *from, locker_claim *to)
{
    probe *p = self;
    locker_status status;
    (void)atomic_fetch_add(&p->passes, 1);
    enter(p, from);
    enter(p, to);
    grant(p, to, from->token + 1);
    to->valid_until = from->valid_until;
    set_holder(p, from, to);
    status = hooked(p, p->pass, to, LOCKER_OK);
    if (status != LOCKER_OK)
        set_holder(p, to, from);
    leave(to);
    leave(from);
    if (status != LOCKER_OK)
        memset(to->data, 0, sizeof(probe_claim));
    return status;
}

static void probe_renew(void *self, locker_claim *const *grants, size_t count)
{
    probe *p = self;
    for (size_t i = 0; i < count; i++) {
        (void)atomic_fetch_add(&p->renews, 1);
        enter(p, grants[i]);
        (void)hooked(p, p->renew, grants[i], LOCKER_OK);
        leave(grants[i]);
    }
}

static int probe_descriptor(void *self)
{
    return ((probe *)self)->fd;
}

static int64_t probe_dispatch(void *self)
{
    probe *p = self;
    return p->dispatch != NULL ? p->dispatch(p) : LOCKER_NEVER;
}

static locker_status probe_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                                locker_error *err)
{
    (void)self, (void)key, (void)key_len, (void)until, (void)info, (void)err;
    return LOCKER_OK;
}

static locker_status probe_ping(void *self, int64_t until, locker_error *err)
{
    (void)self, (void)until, (void)err;
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the clock ---- */

static int64_t now(void *context)
{
    return atomic_load(&((probe *)context)->now);
}

static void wait_for(void *context, pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    probe *p = context;
    (void)until;
    pthread_cond_wait(cond, mutex);
    if (p->waited != NULL)
        p->waited(p, mutex);
}

static void poll_for(void *context, int fd, int64_t until)
{
    struct pollfd p = {.fd = fd, .events = POLLIN};
    (void)poll(&p, 1, until <= now(context) ? 0 : -1);
}

void probe_advance(probe *p, int64_t ms)
{
    (void)atomic_fetch_add(&p->now, ms * ms_ns);
}

/* ------------------------------------------------------------------ for the tests ---- */

void probe_init(probe *p)
{
    static const char *const schemes[] = {"probe", NULL};
    static const locker_parameter params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};
    static const locker_semantics semantics = {
        .size = sizeof(locker_semantics), .driver = "probe", .leases = true};
    *p = (probe){
        .driver = {.abi = LOCKER_DRIVER_ABI,
                   .size = sizeof(locker_driver),
                   .name = "probe",
                   .schemes = schemes,
                   .claim_size = sizeof(probe_claim),
                   .params = params,
                   .semantics = &semantics,
                   .open = probe_open_driver,
                   .close = probe_close,
                   .acquire = probe_acquire,
                   .interrupt = probe_interrupt,
                   .withdraw = probe_withdraw,
                   .release = probe_release,
                   .pass = probe_pass,
                   .renew = probe_renew,
                   .dispatch = probe_dispatch,
                   .show = probe_show,
                   .ping = probe_ping},
        .now = 1000 * ms_ns,
        .fd = -1,
    };
    p->clock = (locker_clock){sizeof(locker_clock), now, wait_for, poll_for, p, NULL};
    pthread_mutex_init(&p->mutex, NULL);
    lk_gate_init(&p->entered);
    lk_gate_init(&p->leave);
}

locker *probe_open_with(probe *p, locker_driver_options *o)
{
    locker_error err;
    locker *l = NULL;
    opening = p;
    if (p->fd >= 0)
        p->driver.descriptor = probe_descriptor;
    o->clock = p->real_time ? NULL : &p->clock;
    assert_ok(locker_open_driver(&p->driver, o, &l, &err), err);
    return l;
}

locker *probe_open(probe *p)
{
    locker_driver_options o = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options options = LOCKER_OPTIONS_INIT;
    options.ttl_ms = PROBE_TTL_MS;
    o.options = &options;
    return probe_open_with(p, &o);
}

void probe_end(probe *p, locker *l)
{
    assert_int_equal(locker_close(l), LOCKER_OK);
    assert_null(p->holder);
    assert_int_equal(atomic_load(&p->overlaps), 0);
    if (p->fd >= 0)
        (void)close(p->fd);
    pthread_mutex_destroy(&p->mutex);
    lk_gate_destroy(&p->entered);
    lk_gate_destroy(&p->leave);
}

locker_status probe_stands(probe *p, locker_claim *claim, locker_status status)
{
    (void)claim;
    lk_gate_open(&p->entered, 1);
    (void)lk_gate_pass(&p->leave);
    return status;
}
