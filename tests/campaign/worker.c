/*
 * worker.c: a process of a campaign: threads that take and give locks in every way there is, and write down
 * what came of it (docs/history.md), while round.py harms them and the service.
 *
 *   campaign_worker work URI HISTORY NAME SEED THREADS KEYS BREAKS
 *       until the line "quiet" comes, which it answers with "quiet" when no call is under way and nothing is
 *       held; lockers stay open until its input ends.
 *   campaign_worker look URI HISTORY NAME KEYS BREAKS BOUND_MS
 *       takes and gives each key once, alone or with all of its permits, within the bound, and asks the service what is
 *       left of it; says as JSON how long each took.
 *
 * KEYS has a letter for each key, which are key/0 and so on: `a`, who takes it has it alone; `r`, most share it, and
 * others write; `p`, it has PERMITS permits. With BREAKS 1 there is the key "broken" as well, whose holders are broken now and
 * then. One thread of a process has that key, so none of its grants is handed on inside a locker.
 */
#include <errno.h>
#include <inttypes.h>
#include <poll.h>
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>
#include <unistd.h>

#include <locker/locker.h>

#include "writer.h"

enum { THREADS_AT_MOST = 8, LOOK_EVERY_MS = 5, PERMITS = 3 };

struct hand {
    locker *l;
    bool own; /* its locker is its alone, and closed now and then */
    bool breaks;
    uint64_t row;
    locker_cancel *cancel;
    atomic_bool fickle; /* its call may be canceled before the round is over */
    pthread_t thread;
};

static const char *uri;
static const char *kinds;
static unsigned keys;
static lk_history_writer *history;
static atomic_bool quiet;
static atomic_int busy; /* threads that have not seen `quiet` */
static atomic_llong handles;
static atomic_bool gave_up; /* a call that waits told of an outage before its own end */
static struct hand hands[THREADS_AT_MOST];

/* ------------------------------------------------------------------ small things ---- */

static unsigned any(struct hand *hand, unsigned limit)
{
    hand->row = hand->row * UINT64_C(6364136223846793005) + 1442695040888963407U;
    return (unsigned)(hand->row >> 33) % limit;
}

static void rest_ms(unsigned ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * 1000000L};
    nanosleep(&time, NULL);
}

static void name_key(char key[32], unsigned number)
{
    snprintf(key, 32, number < keys ? "key/%u" : "broken", number);
}

static char kind_of(unsigned key)
{
    return key < keys ? kinds[key] : 'a';
}

static locker *open_locker(const char *owner)
{
    locker_options options = LOCKER_OPTIONS_INIT;
    locker_error err;
    locker *l = NULL;
    options.owner = owner;
    while (locker_open(uri, &options, &l, &err) != LOCKER_OK) {
        if (atomic_load(&quiet) || err.status != LOCKER_UNAVAILABLE) {
            fprintf(stderr, "can't open %s: %s: %s\n", uri, locker_status_name(err.status), err.text);
            return NULL;
        }
        rest_ms(50);
    }
    return l;
}

/* ------------------------------------------------------------------ the history ---- */

/* One grant, from the question to the answer of unlock. */
struct turn {
    char key[32];
    locker_mode mode;
    int32_t permits;
    int64_t handle, ttl_ns, told;
    locker_handle *held;
};

static lk_event event_of(const struct turn *turn, lk_op op, lk_history_phase phase)
{
    lk_event event = LK_EVENT_INIT;
    event.op = op;
    event.phase = phase;
    event.key = turn->key;
    event.handle = turn->handle;
    return event;
}

static void tell(lk_event event)
{
    if (!lk_history_write(history, &event)) {
        fprintf(stderr, "can't write the history: %s\n", strerror(errno));
        abort();
    }
}

/* The time is read first, so what the handle says counts from then. */
static int64_t deadline(const locker_handle *held)
{
    const int64_t now = lk_event_now(), left = locker_handle_remaining_ms(held);
    return left <= 0 ? 0 : now + left * 1000000;
}

static void tell_asked(const struct turn *turn, lk_op op)
{
    lk_event event = event_of(turn, op, LK_PHASE_INVOKE);
    event.mode = turn->mode == LOCKER_SHARED ? "shared" : NULL;
    event.permits = turn->permits;
    tell(event);
}

static void tell_grant(struct turn *turn, lk_op op, locker_status status)
{
    lk_event event = event_of(turn, op, status == LOCKER_OK ? LK_PHASE_OK : LK_PHASE_FAIL);
    event.t = lk_event_now();
    if (status == LOCKER_OK) {
        event.token = (int64_t)locker_handle_token(turn->held);
        event.slot = locker_handle_slot(turn->held);
        event.valid_until = turn->told = deadline(turn->held);
        if (locker_handle_state(turn->held) == LOCKER_STATE_LOST)
            event.valid_until = event.t; /* it was over when it came */
        event.ttl = turn->ttl_ns;
        event.owner = locker_handle_owner(turn->held);
    } else {
        event.outcome = locker_status_name(status);
    }
    tell(event);
}

static void tell_lease(struct turn *turn)
{
    lk_event event = event_of(turn, LK_OP_LEASE, LK_PHASE_INFO);
    event.valid_until = deadline(turn->held);
    if (event.valid_until - turn->told < 2000000)
        return; /* it has not moved, but for the rounding */
    turn->told = event.valid_until;
    tell(event);
}

static void on_lost(locker_handle *held, void *user)
{
    (void)held;
    tell(event_of(user, LK_OP_LOST, LK_PHASE_INFO));
}

/* With `close` the locker is closed under it. */
static void give(struct turn *turn, locker *close)
{
    lk_event event = event_of(turn, LK_OP_UNLOCK, LK_PHASE_INVOKE);
    locker_status status;
    event.valid_until = deadline(turn->held);
    tell(event);
    if (close != NULL)
        (void)locker_close(close);
    status = locker_unlock(turn->held, NULL);
    event = event_of(turn, LK_OP_UNLOCK,
                     status == LOCKER_OK     ? LK_PHASE_OK
                     : status == LOCKER_LOST ? LK_PHASE_FAIL
                                             : LK_PHASE_INFO);
    event.outcome = status == LOCKER_OK ? NULL : locker_status_name(status);
    tell(event);
    locker_handle_free(turn->held);
}

/* locker.h: a call that waits goes on over an outage of the service until its own end. */
static locker_status lock(locker *l, struct turn *turn, const locker_lock_options *options)
{
    const int64_t began = lk_event_now(), end = began + options->wait_ms * 1000000;
    locker_error err;
    const locker_status status = locker_lock(l, turn->key, options, &turn->held, &err);
    if (status == LOCKER_UNAVAILABLE && lk_event_now() < end) {
        fprintf(stderr, "a wait of %" PRId64 " ms ended after %" PRId64 " ms: %s\n", options->wait_ms,
                (lk_event_now() - began) / 1000000, err.text);
        atomic_store(&gave_up, true);
    }
    return status;
}

/* ------------------------------------------------------------------ a thread's work ---- */

/* Mostly short, sometimes beyond a lease. */
static void hold(struct hand *hand, struct turn *turn)
{
    const int64_t ms = any(hand, 40) == 0 ? any(hand, 2500) : any(hand, 12);
    const int64_t until = lk_event_now() + ms * 1000000;
    while (!atomic_load(&quiet) && lk_event_now() < until &&
           locker_handle_state(turn->held) <= LOCKER_STATE_SUSPECT) {
        tell_lease(turn);
        rest_ms(LOOK_EVERY_MS);
    }
}

static locker_lock_options wish(struct hand *hand)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const unsigned kind = any(hand, 10);
    options.wait_ms = kind < 3 ? 0 : kind < 5 ? any(hand, 100) : any(hand, 3000);
    options.no_renew = any(hand, 10) == 0;
    options.cancel = hand->cancel;
    options.on_lost = on_lost;
    locker_cancel_reset(hand->cancel);
    atomic_store(&hand->fickle, any(hand, 5) == 0);
    if (atomic_load(&quiet))
        locker_cancel_fire(hand->cancel);
    return options;
}

/* False: its locker is closed, and none can be opened any more. */
static bool take_and_give(struct hand *hand, unsigned key)
{
    struct turn turn = {.handle = atomic_fetch_add(&handles, 1) + 1};
    locker_lock_options options = wish(hand);
    const lk_op op = options.wait_ms == 0 ? LK_OP_TRY : LK_OP_LOCK;
    const bool closes = hand->own && any(hand, 10) == 0;
    locker_status status;
    name_key(turn.key, key);
    turn.mode = options.mode = kind_of(key) == 'r' && any(hand, 4) > 0 ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
    turn.permits = options.permits = kind_of(key) == 'p' ? PERMITS : 0;
    options.user = &turn;
    tell_asked(&turn, op);
    status = lock(hand->l, &turn, &options);
    turn.ttl_ns = status == LOCKER_OK && locker_get_semantics(hand->l)->leases ? INT64_C(4000000000) : 0;
    tell_grant(&turn, op, status);
    if (status == LOCKER_OK) {
        hold(hand, &turn);
        give(&turn, closes ? hand->l : NULL);
        if (closes)
            hand->l = open_locker(NULL);
    }
    return hand->l != NULL;
}

/* For readers of the history. */
static void tell_break(locker_status status)
{
    lk_event event = LK_EVENT_INIT;
    event.op = LK_OP_NOTE;
    event.phase = LK_PHASE_INFO;
    event.key = "broken";
    event.what = "break";
    event.outcome = locker_status_name(status);
    tell(event);
}

static void *work(void *argument)
{
    struct hand *hand = argument;
    while (!atomic_load(&quiet)) {
        if (hand->breaks && any(hand, 8) == 0)
            tell_break(locker_break(hand->l, "broken", NULL, NULL, NULL));
        else if (!take_and_give(hand, any(hand, keys + (hand->breaks ? 1 : 0))))
            break;
        rest_ms(1 + any(hand, 25));
    }
    atomic_fetch_sub(&busy, 1);
    return NULL;
}

/* ------------------------------------------------------------------ the process ---- */

static void finish(unsigned threads, locker *shared)
{
    lk_event event = LK_EVENT_INIT;
    for (unsigned i = 0; i < threads; i++) {
        pthread_join(hands[i].thread, NULL);
        if (hands[i].own)
            (void)locker_close(hands[i].l);
        locker_cancel_free(hands[i].cancel);
    }
    (void)locker_close(shared);
    event.op = LK_OP_END;
    event.phase = LK_PHASE_INFO;
    tell(event);
}

/* Fires cancels now and then; reads what it is told. */
static void obey(unsigned threads)
{
    struct pollfd in = {.fd = STDIN_FILENO, .events = POLLIN};
    struct hand self = {.row = 1};
    char line[16];
    while (poll(&in, 1, (int)(30 + any(&self, 200))) == 0) {
        struct hand *hand = &hands[any(&self, threads)];

        if (atomic_load(&hand->fickle))
            locker_cancel_fire(hand->cancel);
    }
    if (read(STDIN_FILENO, line, sizeof line) <= 0)
        fprintf(stderr, "the input ended before its time\n");
    atomic_store(&quiet, true);
    while (atomic_load(&busy) > 0) {
        for (unsigned i = 0; i < threads; i++)
            locker_cancel_fire(hands[i].cancel);
        rest_ms(5);
    }
    printf("quiet\n");
    fflush(stdout);
    while (read(STDIN_FILENO, line, sizeof line) > 0) {
    }
}

static int play_worker(char **words)
{
    const uint64_t seed = strtoull(words[0], NULL, 10);
    const unsigned threads = (unsigned)atoi(words[1]);
    const bool breaks = atoi(words[3]) != 0;
    locker *shared;
    kinds = words[2];
    keys = (unsigned)strlen(kinds);
    shared = open_locker(NULL);
    if (shared == NULL || threads == 0 || threads > THREADS_AT_MOST)
        return EXIT_FAILURE;
    atomic_store(&busy, (int)threads);
    for (unsigned i = 0; i < threads; i++) {
        struct hand *hand = &hands[i];

        hand->own = i > 0 && i + 1 == threads;
        hand->breaks = breaks && i == 0;
        hand->row = (seed * 100 + i) * UINT64_C(0x9E3779B97F4A7C15) | 1;
        hand->cancel = locker_cancel_new();
        hand->l = hand->own ? open_locker(NULL) : shared;
        if (hand->cancel == NULL || hand->l == NULL || pthread_create(&hand->thread, NULL, work, hand) != 0)
            return EXIT_FAILURE;
    }
    printf("works\n");
    fflush(stdout);
    obey(threads);
    finish(threads, shared);
    return EXIT_SUCCESS;
}

/* ------------------------------------------------------------------ who looks in the end ---- */

static void tell_what_is_left(locker *l, const struct turn *turn, int64_t until, locker_info *info)
{
    lk_event event = event_of(turn, LK_OP_SERVER, LK_PHASE_INFO);
    for (;;) {
        event.sent = lk_event_now();
        if (locker_show(l, turn->key, info, NULL) == LOCKER_OK && !info->held && info->waiters <= 0)
            break;
        if (lk_event_now() > until)
            break;
        rest_ms(LOOK_EVERY_MS);
    }
    event.handle = 0;
    event.held = info->held;
    event.waiters = info->waiters;
    event.token = info->held ? (int64_t)info->token : 0;
    event.owner = info->held && info->owner[0] != '\0' ? info->owner : NULL;
    tell(event);
}

static locker_status take(locker *l, struct turn *turn, int64_t until)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    const int64_t left = (until - lk_event_now()) / 1000000;
    locker_status status;
    options.wait_ms = left > 0 ? left : 1;
    options.permits = turn->permits;
    turn->handle = atomic_fetch_add(&handles, 1) + 1;
    tell_asked(turn, LK_OP_LOCK);
    status = lock(l, turn, &options);
    tell_grant(turn, LK_OP_LOCK, status);
    return status;
}

/* Those that are not held yet, one after the other, up to the first that can't be had. */
static locker_status take_all(locker *l, struct turn turns[], unsigned count, int64_t until)
{
    locker_status status = LOCKER_OK;
    for (unsigned i = 0; i < count && status == LOCKER_OK; i++)
        if (turns[i].held == NULL)
            status = take(l, &turns[i], until);
    return status;
}

/* Whoever comes too late for the bound is asked for once more, for the reader: was it late, or is it
 * never? */
static void look(locker *l, unsigned key, int64_t bound_ms)
{
    struct turn turns[PERMITS] = {0};
    const unsigned count = kind_of(key) == 'p' ? PERMITS : 1;
    locker_info info = LOCKER_INFO_INIT;
    const int64_t began = lk_event_now(), until = began + bound_ms * 1000000;
    for (unsigned i = 0; i < count; i++) {
        name_key(turns[i].key, key);
        turns[i].permits = count > 1 ? PERMITS : 0;
    }
    const locker_status status = take_all(l, turns, count, until);
    const int64_t got = lk_event_now();
    const locker_status then = take_all(l, turns, count, got + bound_ms * 1000000);
    for (unsigned i = 0; i < count; i++)
        if (turns[i].held != NULL)
            give(&turns[i], NULL);
    tell_what_is_left(l, &turns[0], lk_event_now() + bound_ms * 1000000, &info);
    printf("%s\"%s\": {\"status\": \"%s\", \"ms\": %" PRId64
           ", \"then\": \"%s\", \"held\": %s, \"waiters\": %" PRId64 "}",
           key > 0 ? ", " : "", turns[0].key, locker_status_name(status), (got - began) / 1000000,
           locker_status_name(then), info.held ? "true" : "false", info.waiters);
    locker_info_clear(&info);
}

static int play_looker(char **words)
{
    const unsigned breaks = (unsigned)atoi(words[1]);
    locker *l = open_locker(NULL);
    kinds = words[0];
    keys = (unsigned)strlen(kinds);
    if (l == NULL)
        return EXIT_FAILURE;
    printf("{");
    for (unsigned key = 0; key < keys + breaks; key++)
        look(l, key, atoll(words[2]));
    printf("}\n");
    finish(0, l);
    return EXIT_SUCCESS;
}

int main(int argc, char **argv)
{
    lk_event common = LK_EVENT_INIT;
    const bool works = argc == 9 && strcmp(argv[1], "work") == 0;
    int code;
    if (!works && !(argc == 8 && strcmp(argv[1], "look") == 0)) {
        fprintf(stderr, "usage: campaign_worker work|look ...: round.py knows how\n");
        return 64;
    }
    signal(SIGPIPE, SIG_IGN);
    uri = argv[2];
    common.worker = argv[4];
    history = lk_history_writer_open(argv[3], &common);
    if (history == NULL) {
        fprintf(stderr, "can't write %s: %s\n", argv[3], strerror(errno));
        return EXIT_FAILURE;
    }
    code = works ? play_worker(argv + 5) : play_looker(argv + 5);
    lk_history_writer_close(history);
    return code == EXIT_SUCCESS && atomic_load(&gave_up) ? EXIT_FAILURE : code;
}
