/* mock.c: making a mock, freeing it, and opening lockers on it; see internal.h. */
#include <search.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "lk_sized.h"
#include "lk_wakeup.h"

enum { PATIENCE_MS = 10000 };

static void describe(locker_mock *m)
{
    const locker_mock_options *o = &m->options;
    m->semantics = (locker_semantics){
        .size = sizeof m->semantics,
        .driver = "mock",
        .scope = LOCKER_SCOPE_PROCESS,
        .fairness = o->queue ? LOCKER_FAIR_GLOBAL : LOCKER_FAIR_LOCAL,
        .leases = o->leases != LOCKER_MOCK_LEASES_NONE,
        .can_break = true,
        .shared = o->queue ? LOCKER_ORDER_ARRIVAL : LOCKER_ORDER_LOCAL,
        .permits_most = LOCKER_PERMITS_MAX,
        .holder_dies = "the test process ends with it",
        .holder_stalls = "as the test decides",
        .cut_off = "as the test decides",
        .service_restarts = "as the test decides",
        .failover = "there is no failover",
        .token = "grows for the life of the mock",
        .cost = "no cost: a mock has no service",
    };
    m->driver = lk_mock_driver;
    m->driver.semantics = &m->semantics;
    m->driver.caps = o->queue ? LOCKER_CAP_QUEUE : 0;
    if (o->leases != LOCKER_MOCK_LEASES_RENEWED)
        m->driver.renew = NULL;
    if (!o->pass)
        m->driver.pass = NULL;
}

/* Nobody else sees it yet. NULL: out of memory. */
LK_UNCHECKED static locker_mock *make(const locker_mock_options *options)
{
    locker_mock *m = calloc(1, sizeof *m);
    if (m == NULL || lk_mock_clock_init(&m->clock) != 0) {
        free(m);
        return NULL;
    }
    m->options = *options;
    if (m->options.patience_ms == 0)
        m->options.patience_ms = PATIENCE_MS;
    m->random = m->options.seed;
    m->entries_end = &m->entries;
    lk_mutex_init(&m->mutex);
    (void)locker_cond_init(&m->recorded); /* glibc's can't fail */
    describe(m);
    m->script = lk_script_new();
    if (m->script == NULL) {
        locker_mock_free(m);
        return NULL;
    }
    return m;
}

static locker_status check(const locker_mock_options *o, locker_error *err)
{
    if (o->leases < LOCKER_MOCK_LEASES_RENEWED || o->leases > LOCKER_MOCK_LEASES_NONE)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the option leases is %d, which is not a locker_mock_leases", (int)o->leases);
    if (o->patience_ms < 0 || o->patience_ms > INT64_C(86400000))
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "patience_ms is %lld; set 0 for the default, or 1 to 86400000",
                                (long long)o->patience_ms);
    return LOCKER_OK;
}

locker_status locker_mock_new(const locker_mock_options *options, locker_mock **out, locker_error *err)
{
    locker_mock_options own = LOCKER_MOCK_OPTIONS_INIT;
    locker_status status = LOCKER_OK;
    if (options != NULL)
        status = LK_SIZED_TAKE(locker_mock_options, &own, options, patience_ms, err);
    if (status == LOCKER_OK)
        status = check(&own, err);
    if (out == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0, "the `out` passed to locker_mock_new is NULL");
    *out = NULL;
    if (status != LOCKER_OK)
        return status;
    *out = make(&own);
    if (*out == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory for a mock");
    return locker_error_set(err, LOCKER_OK, 0, "%s", "");
}

static void nothing(void *item)
{
    (void)item;
}

/* Nobody else uses it any more. */
LK_UNCHECKED void locker_mock_free(locker_mock *mock)
{
    if (mock == NULL)
        return;
    while (mock->hosts != NULL) {
        lk_mock_host *h = mock->hosts;
        mock->hosts = h->next;
        (void)close(h->kick_fd);
        free(h);
    }
    tdestroy(mock->entry_tree, nothing);
    while (mock->entries != NULL) {
        lk_mock_entry *entry = mock->entries;
        mock->entries = entry->next;
        while (!lk_list_empty(&entry->grants))
            lk_mock_unhold_locked(mock, lk_mock_first_grant_locked(mock, entry));
        free(entry);
    }
    tdestroy(mock->name_tree, free);
    lk_script_free(mock->script);
    free(mock->calls);
    pthread_cond_destroy(&mock->recorded);
    lk_mutex_destroy(&mock->mutex);
    lk_mock_clock_destroy(&mock->clock);
    free(mock);
}

/* ------------------------------------------------------------------ opening ---- */

/* Nobody else sees it yet. NULL: out of memory, or of descriptors. */
LK_UNCHECKED static lk_mock_host *make_host(locker_mock *m)
{
    lk_mock_host *h = calloc(1, sizeof *h);
    if (h == NULL)
        return NULL;
    h->mock = m;
    h->owner = "";
    lk_list_init(&h->claims);
    h->session_until = h->beat_at = LOCKER_NEVER;
    h->clock = lk_mock_clock_table(h);
    h->kick_fd = lk_wakeup_new();
    if (h->kick_fd < 0) {
        free(h);
        return NULL;
    }
    return h;
}

static void append_locked(locker_mock *m, lk_mock_host *h) LK_REQUIRES(m->mutex, m->clock.mutex)
{
    lk_mock_host **link = &m->hosts;
    while (*link != NULL)
        link = &(*link)->next;
    *link = h;
}

lk_mock_host *lk_mock_add_host(locker_mock *m)
{
    lk_mock_host *const h = make_host(m);
    if (h == NULL)
        return NULL;
    lk_mutex_lock(&m->mutex);
    lk_mutex_lock(&m->clock.mutex);
    append_locked(m, h);
    lk_mutex_unlock(&m->clock.mutex);
    lk_mutex_unlock(&m->mutex);
    return h;
}

locker_status locker_mock_open(locker_mock *mock, const char *owner, const locker_options *options,
                               locker **out, locker_error *err)
{
    locker_driver_options d = LOCKER_DRIVER_OPTIONS_INIT;
    locker_options o = LOCKER_OPTIONS_INIT;
    locker_status status = LOCKER_OK;
    if (out != NULL)
        *out = NULL;
    if (mock == NULL || out == NULL)
        return locker_error_set(err, LOCKER_INVALID, 0,
                                "the mock or the `out` passed to locker_mock_open is NULL");
    if (options != NULL)
        status = LK_SIZED_TAKE(locker_options, &o, options, log_user, err);
    if (status != LOCKER_OK)
        return status;
    lk_mock_host *h = lk_mock_add_host(mock);
    if (h == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory or descriptors for a mock's locker");
    if (owner != NULL)
        o.owner = owner;
    d.options = &o;
    d.clock = &h->clock;
    status = locker_open_driver(&mock->driver, &d, out, err);
    if (status == LOCKER_OK) {
        lk_mock_await_keeper(mock, h);
        lk_mutex_lock(&mock->mutex);
        h->l = *out;
        lk_mutex_unlock(&mock->mutex);
    }
    return status;
}
