/* herd.c: many contenders at once, with a key each, or with one key for all; see bench.h. */
#include "bench.h"

enum { DISORDER = LK_COUNTS_MAX - 1 };

static const int64_t ttl = 10000; /* ms */

/* What the threads of a process share. */
typedef struct {
    const lk_herd *h;
    locker *l;
    size_t first; /* place of this process's first waiter in the counts */
} pen;

/* Count a grant out of the order of arrival. A waiter gets its fencing token when it enters the queue, so the tokens of grants in
 * order grow. Only the holder of the lock calls it. */
static void check_order(lk_bench *b, const locker_handle *held)
{
    const int64_t token = (int64_t)locker_handle_token(held);
    if (token < b->crew->mark)
        b->crew->count[DISORDER]++;
    b->crew->mark = token;
}

static void herd_thread(lk_bench *b, size_t index, void *arg)
{
    const pen *p = arg;
    uint64_t turns = 0;
    char own[64];
    const char *key = p->h->shared ? p->h->key : lk_lane_key(own, p->h->key, (int)index);
    while (!lk_bench_crew_stopped(b)) {
        locker_handle *held = lk_lock_or_fail(b, p->l, key, NULL);

        if (p->h->shared)
            check_order(b, held);
        lk_unlock_or_fail(b, held);
        if (!lk_bench_crew_stopped(b))
            turns++;
    }
    b->crew->count[p->first + index] = turns;
}

static void herd_body(lk_bench *b, int member, const void *arg)
{
    const lk_herd *h = arg;
    const int each = h->waiters / h->processes;
    pen p = {.h = h, .first = (size_t)(member * each)};
    if (h->side != LK_HERD_OURS) {
        h->bare(b, h, each, p.first);
        return;
    }
    char uri[LK_SERVER_TEXT];
    p.l = lk_open_or_fail(b, h->uri(uri, h->port, ttl));
    lk_bench_crew_ready(b);
    lk_threads_join(lk_threads_start(b, (size_t)each, herd_thread, &p));
    (void)locker_close(p.l);
}

bool lk_herd_run(lk_bench *b, lk_herd h, lk_herd_outcome *o)
{
    for (int round = 0; round < b->rounds; round++) {
        for (h.side = LK_HERD_BARE; h.side < h.sides; h.side++) {
            lk_work work = {.members = h.processes,
                            .duration = lk_scale(b, 3000) * LK_BENCH_MS,
                            .cpu = b->client_cpu,
                            .body = herd_body,
                            .arg = &h,
                            .asked = h.requests};

            if (!lk_bench_crew_run(b, &work))
                return false;
            const double turns = (double)lk_bench_crew_total(b, (size_t)h.waiters);
            lk_series_add(&o->rate[h.side], turns / b->crew->value[LK_VALUE_SECONDS]);
            lk_series_add(&o->sent[h.side], turns > 0 ? (double)b->crew->asked / turns : 0);
            lk_series_add(&o->fairness[h.side], lk_bench_crew_fairness(b, (size_t)h.waiters));
            if (h.side == LK_HERD_OURS)
                lk_series_add(&o->disorder, (double)b->crew->count[DISORDER]);
        }
    }
    return true;
}

const char *lk_lane_key(char out[64], const char *key, int number)
{
    (void)snprintf(out, 64, "%s-%d", key, number);
    return out;
}
