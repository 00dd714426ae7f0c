/*
 * sqlite_lock.c: the driver's table and its operations. store.c has the database, worker.c the background.
 *
 * A caller's thread makes its attempt by itself: it looks whether the lock is held, and if it isn't, takes it
 * in a transaction. SQLite tells nobody that a row has changed, so a claim that waits asks again after
 * `poll`, or when the lease that it saw ends. Renewals and withdrawals go to the worker, because core's
 * keeper must not wait for a disk or another process.
 */
#include "sqlite_lock.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include "worker.h"

#define MS INT64_C(1000000)

struct instance {
    lock_store store; /* the callers' connection */
    lock_worker worker;
    const locker_services *svc;
    int64_t poll_ns;
    char name_space[STORE_NAMESPACE_MAX + 1];
};

/* The driver's bytes of a claim. */
struct place {
    lock_job *job;    /* NULL: no attempt has been made */
    bool interrupted; /* guarded by store.mutex */
};

enum { PARAM_POLL };

static const locker_parameter params[] = {
    [PARAM_POLL] = {"poll", LOCKER_PARAM_DURATION, "20ms", 1, 60000,
                    "how often a waiter looks for a free lock"},
    {NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL},
};

static struct place *place_of(const locker_claim *claim)
{
    return claim->data;
}

static int64_t now_of(const struct instance *in)
{
    return in->svc->clock->now(in->svc->clock->context);
}

static int64_t wall_us(void)
{
    struct timespec wall;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    return (int64_t)wall.tv_sec * 1000000 + wall.tv_nsec / 1000;
}

/* The key's name in the table. A namespace has no newline, so this divides the two. */
static void name_key(const struct instance *in, const char *key, char name[STORE_NAME_MAX])
{
    (void)snprintf(name, STORE_NAME_MAX, "%s\n%s", in->name_space, key);
}

/* ------------------------------------------------------------------ life ---- */

static locker_status check_config(const locker_driver_config *config, locker_error *err)
{
    if (config->host_count > 0)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "sqlite has no host: write sqlite:///path/to/locks.db");
    if (config->path[0] != '/')
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "sqlite needs a file: write sqlite:///path/to/locks.db");
    if (strlen(config->name_space) > STORE_NAMESPACE_MAX)
        return locker_error_set(err, LOCKER_CONFIG, 0, "the namespace is too long: at most %d bytes",
                                STORE_NAMESPACE_MAX);
    return LOCKER_OK;
}

static locker_status sqlite_lock_open(const locker_driver_config *config, const locker_services *svc,
                                      void **self, locker_error *err)
{
    locker_status status = check_config(config, err);
    struct instance *in;
    if (status != LOCKER_OK)
        return status;
    in = calloc(1, sizeof *in);
    if (in == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    in->svc = svc;
    in->poll_ns = config->values[PARAM_POLL].number;
    (void)strcpy(in->name_space, config->name_space);
    status = store_open(&in->store, config->path, svc->clock, now_of(in) + config->connect_timeout_ns, err);
    if (status == LOCKER_OK) {
        status = worker_start(&in->worker, config->path, config, svc, err);
        if (status != LOCKER_OK)
            store_close(&in->store);
    }
    if (status != LOCKER_OK) {
        free(in);
        return status;
    }
    *self = in;
    return LOCKER_OK;
}

static void sqlite_lock_close(void *self)
{
    struct instance *in = self;
    worker_stop(&in->worker);
    store_close(&in->store);
    free(in);
}

/* ------------------------------------------------------------------ claims ---- */

static locker_status busy_until(const struct instance *in, locker_claim *claim, int64_t until)
{
    const int64_t poll_at = now_of(in) + in->poll_ns;
    claim->retry_at = until < poll_at ? until : poll_at;
    return LOCKER_BUSY;
}

/* Greater than the last, and never behind the wall clock: so the file may be deleted while that is right. */
static uint64_t next_token(uint64_t last)
{
    const uint64_t wall = (uint64_t)wall_us();
    return wall > last ? wall : last + 1;
}

/* In a transaction: takes the lock if nobody holds it. */
static locker_status take(struct instance *in, locker_claim *claim, const char *name, locker_error *err)
{
    store_row row;
    locker_status status = store_read(&in->store, name, &row, err);
    const int64_t now = now_of(in);
    if (status != LOCKER_OK)
        return status;
    if (row.until > now)
        return busy_until(in, claim, row.until);
    row.token = next_token(row.token);
    row.until = now + claim->ttl_ns;
    row.since_unix_ms = wall_us() / 1000;
    (void)snprintf(row.owner, sizeof row.owner, "%s", claim->owner);
    claim->token = row.token;
    /* from before anything was sent, so that the holder gives it up before another can have it */
    claim->valid_until = claim->asked_at + claim->ttl_ns;
    return store_grant(&in->store, name, &row, err);
}

static locker_status sqlite_lock_acquire(void *self, locker_claim *claim, locker_error *err)
{
    struct instance *in = self;
    struct place *place = place_of(claim);
    store_row row;
    locker_status status;
    if (place->job == NULL) {
        char name[STORE_NAME_MAX];

        name_key(in, claim->key, name);
        place->job = worker_job(name, claim->ttl_ns);
        if (place->job == NULL)
            return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    }
    /* who waits only reads, again and again: the others' transactions go on */
    status = store_peek(&in->store, place->job->name, claim->attempt_until, &place->interrupted, &row, err);
    if (status == LOCKER_OK && row.until > now_of(in))
        return busy_until(in, claim, row.until);
    if (status == LOCKER_OK)
        status = store_begin(&in->store, claim->attempt_until, &place->interrupted, err);
    if (status != LOCKER_OK)
        return status;
    status = store_end(&in->store, take(in, claim, place->job->name, err), err);
    if (status == LOCKER_OK)
        worker_granted(&in->worker, place->job, claim);
    return status;
}

static void sqlite_lock_interrupt(void *self, locker_claim *claim)
{
    struct instance *in = self;
    store_interrupt(&in->store, &place_of(claim)->interrupted);
}

static void sqlite_lock_withdraw(void *self, locker_claim *claim)
{
    struct instance *in = self;
    struct place *place = place_of(claim);
    if (place->job != NULL)
        worker_end(&in->worker, place->job, place->job->token != 0);
    place->job = NULL;
}

static locker_status release(struct instance *in, const lock_job *job, int64_t until, locker_error *err)
{
    locker_status status = store_begin(&in->store, until, NULL, err), moved;
    if (status != LOCKER_OK)
        return status;
    moved = store_move(&in->store, job->name, job->token, now_of(in), 0, err);
    status = store_end(&in->store, moved == LOCKER_LOST ? LOCKER_OK : moved, err);
    return status == LOCKER_OK ? moved : status;
}

static locker_status sqlite_lock_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    struct instance *in = self;
    struct place *place = place_of(grant);
    locker_status status;
    worker_let_go(&in->worker, place->job); /* no renewal may come after the release */
    status = release(in, place->job, until, err);
    if (status == LOCKER_LOST)
        (void)locker_error_set(err, status, 0, "the lease of '%s' had ended, or it was broken", grant->key);
    else if (status != LOCKER_OK)
        status = locker_error_set(err, LOCKER_UNKNOWN, 0,
                                  "'%s' could not be released in time; that goes on in the background",
                                  grant->key);
    worker_end(&in->worker, place->job, status == LOCKER_UNKNOWN);
    place->job = NULL;
    return status;
}

static void sqlite_lock_renew(void *self, locker_claim *const *grants, size_t count)
{
    struct instance *in = self;
    for (size_t i = 0; i < count; i++)
        worker_renew(&in->worker, &place_of(grants[i])->job, 1);
}

/* ------------------------------------------------------------------ looking ---- */

/* Answers why an operation of core's that must not say TIMEOUT failed. */
static locker_status unavailable(locker_status status, locker_error *err)
{
    if (status != LOCKER_TIMEOUT)
        return status;
    return locker_error_set(err, LOCKER_UNAVAILABLE, 0, "others kept the database for too long");
}

static void describe(const struct instance *in, const store_row *row, locker_info *info)
{
    const int64_t left = row->until - now_of(in);
    info->token = row->token;
    if (left <= 0)
        return;
    info->held = true;
    info->since_unix_ms = row->since_unix_ms;
    info->remaining_ms = left / MS;
    (void)snprintf(info->owner, sizeof info->owner, "%s", row->owner);
}

/* In a transaction like a grant's, so what it shows is what the next grant will find. `only`: break it, if it
 * is that one's. */
static locker_status look(struct instance *in, const char *key, const locker_break_options *only,
                          int64_t until, locker_info *info, locker_error *err)
{
    char name[STORE_NAME_MAX];
    store_row row;
    locker_status status = store_begin(&in->store, until, NULL, err);
    if (status != LOCKER_OK)
        return unavailable(status, err);
    name_key(in, key, name);
    status = store_read(&in->store, name, &row, err);
    if (status == LOCKER_OK)
        describe(in, &row, info);
    if (status == LOCKER_OK && only != NULL)
        status = info->held ? locker_break_check(only, info, err)
                            : locker_error_set(err, LOCKER_INVALID, 0, "nobody holds '%s'", key);
    if (status == LOCKER_OK && only != NULL)
        status = store_move(&in->store, name, row.token, 0, 0, err);
    return store_end(&in->store, status, err);
}

static locker_status sqlite_lock_show(void *self, const char *key, size_t key_len, int64_t until,
                                      locker_info *info, locker_error *err)
{
    (void)key_len;
    return look(self, key, NULL, until, info, err);
}

static locker_status sqlite_lock_break(void *self, const char *key, size_t key_len,
                                       const locker_break_options *only, int64_t until, locker_info *broken,
                                       locker_error *err)
{
    (void)key_len;
    return look(self, key, only, until, broken, err);
}

static locker_status sqlite_lock_ping(void *self, int64_t until, locker_error *err)
{
    struct instance *in = self;
    locker_status status = store_begin(&in->store, until, NULL, err);
    return status == LOCKER_OK ? store_end(&in->store, status, err) : unavailable(status, err);
}

/* ------------------------------------------------------------------ the table ---- */

static const char *const schemes[] = {"sqlite", NULL};

static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "sqlite",
    .scope = LOCKER_SCOPE_HOST,
    .fairness = LOCKER_FAIR_LOCAL,
    .leases = true,
    .tokens_persist = true,
    .can_break = true,
    .shared = LOCKER_ORDER_NONE, /* and no permits: such calls answer UNSUPPORTED */
    .holder_dies = "the lock is free when its lease ends",
    .holder_stalls =
        "its lease ends and another gets the lock; if it is stopped inside a transaction (well under "
        "a millisecond), all others wait until it goes on",
    .cut_off = "can't happen: the database is a local file",
    .service_restarts = "there is no server; a reboot frees every lock",
    .failover = "there is none",
    .token =
        "grows with the key's row, and never stands behind the wall clock in microseconds; it can be given "
        "again when the file is lost, or the host loses power, and the clock is set back too",
    .cost =
        "a transaction each to lock and to unlock; a read for each poll of a waiter; a row for each key that "
        "was ever locked",
};

const locker_driver sqlite_lock_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "sqlite",
    .schemes = schemes,
    .example = "sqlite:///var/lib/shop/locks.db",
    .features = "",
    .claim_size = sizeof(struct place),
    .ttl_min_ms = 100,
    .ttl_max_ms = INT64_C(24) * 3600 * 1000,
    .params = params,
    .semantics = &semantics,
    .open = sqlite_lock_open,
    .close = sqlite_lock_close,
    /* no abandon: a fork's child must not touch SQLite's connections at all, and they are close-on-exec */
    .acquire = sqlite_lock_acquire,
    .interrupt = sqlite_lock_interrupt,
    .withdraw = sqlite_lock_withdraw,
    .release = sqlite_lock_release,
    .renew = sqlite_lock_renew,
    .show = sqlite_lock_show,
    .break_lock = sqlite_lock_break,
    .ping = sqlite_lock_ping,
};
