/* storm_crew.c: the threads of a storm, all on one locker; see storm.h. */
#include "storm.h"

#include <inttypes.h>
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <time.h>
#include <unistd.h>

enum { WISHES = 7, LAPSE_TTL_MS = 300, LAPSES_ONE_IN = 40, BREAKS_ONE_IN = 4 };

struct hand {
    lk_crew *crew;
    uint64_t row; /* of its random numbers */
    locker_cancel *cancel;
    pthread_t thread;
    char owner[16]; /* nobody else's */
};

struct lk_crew {
    lk_detector *detector;
    lk_plan plan;
    locker *l;
    unsigned number;
    uint64_t row; /* of who cancels */
    pthread_barrier_t start;
    pthread_t canceler;
    atomic_bool gone;    /* no call may begin */
    atomic_uint calling; /* threads in a call, or about to begin one */
    atomic_uint busy;    /* threads that have not ended */
    struct hand hands[LK_CREW_AT_MOST];
};

/* xorshift64*. */
unsigned lk_storm_random(uint64_t *row, unsigned limit)
{
    *row ^= *row >> 12;
    *row ^= *row << 25;
    *row ^= *row >> 27;
    return limit > 0 ? (unsigned)(*row * UINT64_C(2685821657736338717) >> 33) % limit : 0;
}

void lk_storm_choose(lk_storm_kind kind, unsigned random, locker_lock_options *options)
{
    if (kind == LK_STORM_OF_PERMITS)
        options->permits = LK_STORM_PERMITS;
    else if (kind == LK_STORM_SHARED && random % 3 != 0)
        options->mode = LOCKER_SHARED;
}

static void rest_us(unsigned us)
{
    const struct timespec time = {us / 1000000, us % 1000000 * 1000L};
    nanosleep(&time, NULL);
}

/* ------------------------------------------------------------------ a turn ---- */

static bool is_seldom(struct hand *hand, lk_wish wish)
{
    return (wish == LK_WISH_LAPSE && lk_storm_random(&hand->row, LAPSES_ONE_IN) != 0) ||
           (wish == LK_WISH_BREAK && lk_storm_random(&hand->row, BREAKS_ONE_IN) != 0);
}

static lk_wish choose(struct hand *hand)
{
    lk_wish wish;
    do
        wish = (lk_wish)(1U << lk_storm_random(&hand->row, WISHES));
    while ((hand->crew->plan.wishes & wish) == 0 || is_seldom(hand, wish));
    return wish;
}

static locker_lock_options options_of(struct hand *hand, lk_wish wish)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    options.wait_ms = wish == LK_WISH_TRY     ? 0
                      : wish == LK_WISH_BRIEF ? 1 + lk_storm_random(&hand->row, 3)
                                              : LK_TEST_PATIENCE_MS;
    options.owner = wish == LK_WISH_AGAIN ? hand->owner : NULL;
    options.no_renew = wish == LK_WISH_LAPSE;
    options.ttl_ms = wish == LK_WISH_LAPSE ? LAPSE_TTL_MS : 0;
    lk_storm_choose(hand->crew->plan.kind, lk_storm_random(&hand->row, 1000), &options);
    if (wish == LK_WISH_CANCEL) {
        locker_cancel_reset(hand->cancel);
        options.cancel = hand->cancel;
    }
    return options;
}

static bool makes_sense(const lk_crew *crew, lk_wish wish, locker_status status)
{
    if (status == LOCKER_OK || (status == LOCKER_CLOSED && crew->plan.closes))
        return true;
    return (wish == LK_WISH_TRY && status == LOCKER_BUSY) ||
           (wish == LK_WISH_BRIEF && status == LOCKER_TIMEOUT) ||
           (wish == LK_WISH_CANCEL && status == LOCKER_CANCELED) ||
           (wish == LK_WISH_BREAK &&
            (status == LOCKER_INVALID || status == LOCKER_UNAVAILABLE || status == LOCKER_BUSY));
}

/* Stays for a moment, or until its lease has ended, and looks at its handle meanwhile. */
static void stay(struct hand *hand, unsigned key, lk_wish wish, int64_t asked, locker_handle *held,
                 locker_mode mode)
{
    lk_crew *crew = hand->crew;
    lk_stay *mine = lk_detector_enter(crew->detector, key, crew->number, asked, held, mode);
    const int64_t us = wish == LK_WISH_LAPSE ? 2 * LAPSE_TTL_MS * 1000 : lk_storm_random(&hand->row, 1500);
    const int64_t until = lk_storm_now() + us * 1000;
    if (mine == NULL)
        return;
    do
        rest_us(us > 0 ? 100 : 0);
    while (lk_stay_look(mine, held) && lk_storm_now() < until);
    lk_stay_give(mine, held);
}

/* Whoever waits: it is had already. Where it was lost meanwhile it is another grant. */
static void enter_again(struct hand *hand, unsigned key, const locker_lock_options *options,
                        const locker_handle *held)
{
    lk_crew *crew = hand->crew;
    locker_handle *again = NULL;
    locker_error err = {LOCKER_OK, 0, ""};
    const locker_status status = locker_lock(crew->l, lk_storm_key(key), options, &again, &err);
    const bool was_held = locker_handle_state(held) <= LOCKER_STATE_SUSPECT;
    if (status != LOCKER_OK)
        lk_detector_complain(crew->detector, "%s: re-entry of an owner failed: %s", lk_storm_key(key),
                             err.text);
    else if (was_held && locker_handle_token(again) != locker_handle_token(held))
        lk_detector_complain(crew->detector, "%s: re-entry gave an owner a second grant", lk_storm_key(key));
    locker_handle_free(again);
}

static void lock(struct hand *hand, unsigned key, lk_wish wish)
{
    lk_crew *crew = hand->crew;
    const locker_lock_options options = options_of(hand, wish);
    const int64_t asked = lk_storm_now();
    locker_handle *held = NULL;
    locker_error err = {LOCKER_OK, 0, ""};
    const locker_status status = locker_lock(crew->l, lk_storm_key(key), &options, &held, &err);
    atomic_fetch_sub(&crew->calling, 1);
    if (!makes_sense(crew, wish, status))
        lk_detector_complain(crew->detector,
                             "%s: a lock call of kind %d answered %s after %" PRId64 " ms: %s",
                             lk_storm_key(key), (int)wish, locker_status_name(status),
                             (lk_storm_now() - asked) / 1000000, err.text);
    if (held != NULL && wish == LK_WISH_AGAIN)
        enter_again(hand, key, &options, held);
    if (held != NULL)
        stay(hand, key, wish, asked, held, options.mode);
    locker_handle_free(held);
}

static void break_one(struct hand *hand)
{
    lk_crew *crew = hand->crew;
    const unsigned key = 1 + lk_storm_random(&hand->row, crew->plan.keys - 1);
    locker_error err = {LOCKER_OK, 0, ""};
    const locker_status status = lk_detector_break(crew->detector, key, crew->l, &err);
    atomic_fetch_sub(&crew->calling, 1);
    if (!makes_sense(crew, LK_WISH_BREAK, status))
        lk_detector_complain(crew->detector, "%s: break answered %s: %s", lk_storm_key(key),
                             locker_status_name(status), err.text);
}

/* No call may begin when the locker is being left: who counted himself in first may. */
static bool may_call(lk_crew *crew)
{
    atomic_fetch_add(&crew->calling, 1);
    if (!atomic_load(&crew->gone))
        return true;
    atomic_fetch_sub(&crew->calling, 1);
    return false;
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    lk_crew *crew = hand->crew;
    pthread_barrier_wait(&crew->start);
    for (unsigned i = 0; i < crew->plan.turns && may_call(crew); i++) {
        const lk_wish wish = choose(hand);

        if (wish == LK_WISH_BREAK)
            break_one(hand);
        else
            lock(hand, lk_storm_random(&hand->row, crew->plan.keys), wish);
        rest_us(lk_storm_random(&hand->row, 300));
    }
    atomic_fetch_sub(&crew->busy, 1);
    return NULL;
}

/* ------------------------------------------------------------------ all of them ---- */

static void *cancel(void *argument)
{
    lk_crew *crew = argument;
    while (atomic_load(&crew->busy) > 0) {
        locker_cancel_fire(crew->hands[lk_storm_random(&crew->row, crew->plan.threads)].cancel);
        rest_us(lk_storm_random(&crew->row, 1500));
    }
    return NULL;
}

static void must(int error, const char *what)
{
    if (error == 0)
        return;
    fprintf(stderr, "storm: can't start %s\n", what);
    exit(EXIT_FAILURE);
}

lk_crew *lk_crew_start(lk_detector *detector, const lk_plan *plan, locker *l, unsigned number, uint64_t seed)
{
    lk_crew *crew = calloc(1, sizeof *crew);
    must(crew == NULL, "a crew");
    crew->detector = detector;
    crew->plan = *plan;
    crew->l = l;
    crew->number = number;
    crew->row = seed * 2 + 1;
    crew->busy = plan->threads;
    pthread_barrier_init(&crew->start, NULL, plan->threads);
    for (unsigned i = 0; i < plan->threads; i++) {
        struct hand *hand = &crew->hands[i];

        hand->crew = crew;
        snprintf(hand->owner, sizeof hand->owner, "%u/%u", number, i);
        hand->row = (seed + i + 1) * UINT64_C(0x9E3779B97F4A7C15) | 1;
        hand->cancel = locker_cancel_new();
        must(hand->cancel == NULL, "a cancel");
    }
    for (unsigned i = 0; i < plan->threads; i++)
        must(pthread_create(&crew->hands[i].thread, NULL, work, &crew->hands[i]), "a thread");
    must(pthread_create(&crew->canceler, NULL, cancel, crew), "a thread");
    return crew;
}

/* `calling` only falls when nothing may begin. When as many wait in the locker, all of them are in it. */
static bool all_are_inside(lk_crew *crew)
{
    const unsigned before = atomic_load(&crew->calling);
    const uint64_t waiting = lk_stats(crew->l).waiting;
    return before == waiting && atomic_load(&crew->calling) == before;
}

void lk_crew_leave(lk_crew *crew)
{
    atomic_store(&crew->gone, true);
    while (!all_are_inside(crew))
        sched_yield();
}

void lk_crew_join(lk_crew *crew)
{
    for (unsigned i = 0; i < crew->plan.threads; i++)
        pthread_join(crew->hands[i].thread, NULL);
    pthread_join(crew->canceler, NULL);
    for (unsigned i = 0; i < crew->plan.threads; i++)
        locker_cancel_free(crew->hands[i].cancel);
    pthread_barrier_destroy(&crew->start);
    free(crew);
}
