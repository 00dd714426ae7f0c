/* play.c: the steps of random scripts; see play.h. */
#include "play.h"

#include <stdlib.h>
#include <string.h>
#include <time.h>

static const char *const keys[MODEL_KEYS] = {"a", "b", "c"};
static const char *const mode_names[] = {[LOCKER_EXCLUSIVE] = "alone", [LOCKER_SHARED] = "shared"};

/* SplitMix64: https://prng.di.unimi.it/splitmix64.c */
uint64_t play_draw(script *s, uint64_t below)
{
    uint64_t z = s->random += UINT64_C(0x9e3779b97f4a7c15);
    z = (z ^ (z >> 30)) * UINT64_C(0xbf58476d1ce4e5b9);
    z = (z ^ (z >> 27)) * UINT64_C(0x94d049bb133111eb);
    return (z ^ (z >> 31)) % below;
}

int64_t play_now(const script *s)
{
    return locker_mock_now_ms(s->mock);
}

/* ------------------------------------------------------------------ calls ---- */

static void told(locker_handle *lost, void *user)
{
    model_handle *h = user;
    (void)lost;
    (void)atomic_fetch_add(&h->told, 1);
}

/* As the key is used, mostly. */
static void choose_kind(script *s, int key, locker_lock_options *o)
{
    o->permits = s->permits[key];
    if (play_draw(s, 16) == 0) {
        o->permits = (int32_t)play_draw(s, 1 + MODEL_PERMITS);
        s->model.mixed[key] = s->model.mixed[key] || o->permits != s->permits[key];
    }
    if (o->permits == 0 && play_draw(s, 2) == 0)
        o->mode = LOCKER_SHARED;
}

/* What a lock call asks for. NULL: no place for a handle is left. */
static bool choose(script *s, int key, locker_lock_options *o)
{
    static const char *const owners[] = {NULL, NULL, NULL, "x", "y"};
    static const int64_t ttls[] = {TTL_MS, TTL_MS, 500, 9000};
    *o = (locker_lock_options)LOCKER_LOCK_OPTIONS_INIT;
    choose_kind(s, key, o);
    if (o->mode == LOCKER_EXCLUSIVE && o->permits == 0)
        o->owner = owners[play_draw(s, 5)];
    o->ttl_ms = s->options.leases == LOCKER_MOCK_LEASES_SESSION ? TTL_MS : ttls[play_draw(s, 4)];
    if (o->owner != NULL) /* who enters again shares the lease that is there */
        o->ttl_ms = TTL_MS;
    o->no_renew = o->owner == NULL && play_draw(s, 4) == 0;
    o->cancel = play_draw(s, 3) == 0 ? s->cancel : NULL;
    o->on_lost = told;
    o->user = model_place(&s->model);
    return o->user != NULL;
}

static void *lock_it(void *argument)
{
    call *c = argument;
    c->status = locker_lock(c->l, keys[c->key], &c->options, &c->held, NULL);
    atomic_store(&c->done, true);
    return NULL;
}

static size_t calls_under_way(script *s)
{
    size_t n = 0;
    for (int i = 0; i < CALLS; i++)
        n += s->calls[i].used && !atomic_load(&s->calls[i].done);
    return n;
}

/* Whether it shares a grant that was another's. */
static bool rides(const script *s, const call *granted)
{
    const uint64_t token = locker_handle_token(granted->held);
    if (granted->options.mode != LOCKER_SHARED)
        return false;
    for (int i = 0; i < CALLS; i++) {
        const call *c = &s->calls[i];

        if (c != granted && c->used && atomic_load(&c->done) && locker_handle_token(c->held) == token)
            return true;
    }
    return token <= model_last_token(&s->model, granted->key);
}

/* Whoever came before on the same queue must not stand there still. One that came during an outage waits for
 * its end before it can stand in a queue of the service. */
static void check_order(script *s, const call *granted)
{
    for (int i = 0; i < CALLS; i++) {
        const call *c = &s->calls[i];

        if (c->used && c->enrolled && !atomic_load(&c->done) && c->key == granted->key &&
            c->number < granted->number && (c->host == granted->host || s->options.queue) &&
            model_is_calm(&s->model, play_now(s)) && c->options.owner == NULL &&
            granted->options.owner == NULL)
            model_wrong(&s->model, "key %s: a call that came later was served before", keys[c->key]);
    }
}

static void collect(script *s, call *c)
{
    pthread_join(c->thread, NULL);
    c->used = false;
    note(s, "  the call %llu of host %d for %s answers %s", (unsigned long long)c->number, c->host,
         keys[c->key], locker_status_name(c->status));
    if (c->status == LOCKER_OK && !rides(s, c))
        check_order(s, c);
    (void)model_lock_answered(&s->model, c->host, c->key, &c->options, false, c->status, c->held, c->began,
                              play_now(s));
}

/* Of the calls that have answered, the one with the smallest token, below this one: so the model sees grants
 * in their order. */
static call *next_answered(script *s, uint64_t below)
{
    call *first = NULL;
    for (int i = 0; i < CALLS; i++) {
        call *c = &s->calls[i];

        if (c->used && atomic_load(&c->done) && locker_handle_token(c->held) < below &&
            (first == NULL || locker_handle_token(c->held) < locker_handle_token(first->held)))
            first = c;
    }
    return first;
}

/* Wait, in real time and without moving the clock, until each call on another thread stands waiting or has
 * answered, and have the model hear of the answers. */
static void gather(script *s, uint64_t below)
{
    const struct timespec pause = {.tv_nsec = 20000};
    size_t rounds = 0;
    if (locker_mock_advance(s->mock, 0) != LOCKER_OK)
        model_wrong(&s->model, "the threads did not come to rest");
    while (locker_mock_waiters(s->mock, NULL) != calls_under_way(s)) {
        if (rounds++ > PATIENCE_MS * 20u) {
            model_wrong(&s->model, "%zu calls should wait, and %zu do", calls_under_way(s),
                        locker_mock_waiters(s->mock, NULL));
            break;
        }
        (void)nanosleep(&pause, NULL);
    }
    if (locker_mock_advance(s->mock, 0) != LOCKER_OK)
        model_wrong(&s->model, "the threads did not come to rest");
    for (call *c = next_answered(s, below); c != NULL; c = next_answered(s, below))
        collect(s, c);
}

void play_settle(script *s)
{
    gather(s, UINT64_MAX);
    model_look(&s->model, play_now(s));
}

static bool waits_for(const script *s, int key)
{
    for (int i = 0; i < CALLS; i++)
        if (s->calls[i].used && s->calls[i].key == key)
            return true;
    return false;
}

/* Whether all who wait for the key could have it as it is held now. */
static bool all_have_room(const script *s, int key)
{
    for (int i = 0; i < CALLS; i++)
        if (s->calls[i].used && s->calls[i].key == key &&
            !model_has_room(&s->model, key, &s->calls[i].options, play_now(s)))
            return false;
    return true;
}

/* Where there is room one who waits is let in, and nobody waits beyond his time. */
static void check_progress(script *s)
{
    for (int i = 0; i < CALLS; i++) {
        const call *c = &s->calls[i];

        if (!c->used)
            continue;
        if (c->options.wait_ms >= 0 && play_now(s) > c->began + c->options.wait_ms)
            model_wrong(&s->model, "a call waits for %s beyond its %lld ms", keys[c->key],
                        (long long)c->options.wait_ms);
        if (model_is_calm(&s->model, play_now(s)) && all_have_room(s, c->key))
            model_wrong(&s->model, "key %s: there is room, and a call waits", keys[c->key]);
    }
}

/* ------------------------------------------------------------------ steps ---- */

static int any_host(script *s)
{
    return (int)play_draw(s, MODEL_HOSTS);
}

static void step_try(script *s)
{
    int host = any_host(s), key = (int)play_draw(s, MODEL_KEYS);
    locker_lock_options o;
    locker_handle *held = NULL;
    locker_status status;
    int64_t began = play_now(s);
    bool others = waits_for(s, key);
    if (!s->model.open[host] || !choose(s, key, &o))
        return;
    o.wait_ms = play_draw(s, 3) == 0 ? (int64_t)play_draw(s, 5000) : 0;
    status = locker_lock(s->lockers[host], keys[key], &o, &held, NULL);
    note(s, "host %d locks %s (%s, %d permits), waiting %lld ms: %s", host, keys[key], mode_names[o.mode],
         (int)o.permits, (long long)o.wait_ms, locker_status_name(status));
    if (status == LOCKER_OK)
        gather(s, locker_handle_token(held));
    (void)model_lock_answered(&s->model, host, key, &o, others, status, held, began, play_now(s));
    if (o.wait_ms > 0 && status == LOCKER_TIMEOUT && play_now(s) != began + o.wait_ms)
        model_wrong(&s->model, "the test's own call timed out after %lld ms instead of %lld",
                    (long long)(play_now(s) - began), (long long)o.wait_ms);
}

static void step_wait(script *s)
{
    int host = any_host(s);
    call *c = NULL;
    for (int i = 0; i < CALLS; i++)
        if (!s->calls[i].used)
            c = &s->calls[i];
    if (c == NULL || !s->model.open[host])
        return;
    *c = (call){
        .host = host, .key = (int)play_draw(s, MODEL_KEYS), .l = s->lockers[host], .began = play_now(s)};
    if (!choose(s, c->key, &c->options))
        return;
    c->options.wait_ms = play_draw(s, 2) == 0 ? -1 : 1 + (int64_t)play_draw(s, 20000);
    c->number = ++s->numbers;
    c->enrolled = !s->model.faults && !s->model.cut[c->host];
    note(s, "call %llu: host %d waits %lld ms for %s (%s, %d permits)", (unsigned long long)c->number, host,
         (long long)c->options.wait_ms, keys[c->key], mode_names[c->options.mode], (int)c->options.permits);
    c->used = pthread_create(&c->thread, NULL, lock_it, c) == 0;
}

static void release(script *s, model_handle *h)
{
    locker_status status = locker_unlock(h->held, NULL);
    note(s, "host %d unlocks %s, which was %s: %s", h->host, keys[h->key], locker_state_name(h->seen),
         locker_status_name(status));
    model_unlock_answered(&s->model, h, status, play_now(s));
}

static void step_unlock(script *s)
{
    model_handle *h = &s->model.handles[play_draw(s, MODEL_HANDLES)];
    for (int i = 0; i < MODEL_HANDLES && h->held == NULL; i++)
        h = &s->model.handles[i];
    if (h->held == NULL)
        return;
    release(s, h);
    if (play_draw(s, 3) == 0)
        return; /* to be unlocked again */
    locker_handle_free(h->held);
    h->held = NULL;
    h->taken = false;
}

static void step_advance(script *s)
{
    static const int64_t times[] = {1, 100, 1000, 3000, 10000, 31000};
    int64_t ms = times[play_draw(s, 6)] + (int64_t)play_draw(s, 50);
    note(s, "%lld ms go by", (long long)ms);
    if (locker_mock_advance(s->mock, ms) != LOCKER_OK)
        model_wrong(&s->model, "the clock can't be moved");
}

static void step_fault(script *s)
{
    static const char *const faults[] = {"acquire unavailable",
                                         "acquire:a denied",
                                         "acquire busy",
                                         "acquire retry=700ms busy",
                                         "acquire delay=200ms",
                                         "acquire lose-request",
                                         "acquire lose-reply",
                                         "acquire retry=1s unavailable",
                                         "acquire skip=2 timeout",
                                         "release lost",
                                         "release unknown",
                                         "release lose-reply",
                                         "release lose-request",
                                         "release delay=300ms",
                                         "renew unavailable",
                                         "renew times=9 unavailable",
                                         "renew lost",
                                         "renew delay=2s",
                                         "renew lose-reply",
                                         "pass busy",
                                         "any times=2 unavailable",
                                         "any lose-reply",
                                         "acquire lose-lock",
                                         "renew lose-lock"};
    const char *text = faults[play_draw(s, sizeof faults / sizeof *faults)];
    note(s, "fault: %s", text);
    if (locker_mock_script(s->mock, text, NULL) != LOCKER_OK)
        model_wrong(&s->model, "the fault '%s' was refused", text);
    s->model.faults = true;
    if (strstr(text, "lose-lock") != NULL)
        s->model.thieves = true;
    model_disturb(&s->model, play_now(s));
}

static void step_cut(script *s)
{
    int host = any_host(s);
    if (!s->model.open[host])
        return;
    note(s, "host %d is %s", host, s->model.cut[host] ? "connected" : "cut off");
    if (s->model.cut[host])
        locker_mock_reconnect(s->mock, s->lockers[host]);
    else
        locker_mock_disconnect(s->mock, s->lockers[host]);
    s->model.cut[host] = !s->model.cut[host];
    model_disturb(&s->model, play_now(s));
}

static void step_lose(script *s)
{
    int key = (int)play_draw(s, MODEL_KEYS), host = any_host(s);
    model_disturb(&s->model, play_now(s));
    if (play_draw(s, 2) == 0) {
        note(s, "%s is lost", keys[key]);
        model_rob(&s->model, key, -1);
        if (locker_mock_lose(s->mock, keys[key]) == LOCKER_OK)
            s->model.stranger_until[key] = 0;
    } else if (s->model.open[host]) {
        note(s, "host %d loses all", host);
        model_rob(&s->model, -1, host);
        locker_mock_lose_all(s->mock, s->lockers[host]);
    }
}

static void step_break(script *s)
{
    int key = (int)play_draw(s, MODEL_KEYS), host = any_host(s);
    bool held = model_is_held(&s->model, key, play_now(s));
    bool sure = model_is_calm(&s->model, play_now(s));
    locker_status status;
    if (!s->model.open[host])
        return;
    model_rob(&s->model, key, -1);
    status = locker_break(s->lockers[host], keys[key], NULL, NULL, NULL);
    note(s, "host %d breaks %s: %s", host, keys[key], locker_status_name(status));
    if (sure && status != (held ? LOCKER_OK : LOCKER_INVALID))
        model_wrong(&s->model, "key %s is %s, and breaking answered %s", keys[key], held ? "held" : "free",
                    locker_status_name(status));
    if (status != LOCKER_INVALID) { /* also without an answer it may be gone */
        (void)locker_mock_leave(s->mock, keys[key]);
        s->model.stranger_until[key] = 0;
    }
    model_disturb(&s->model, play_now(s));
}

static void step_stranger(script *s)
{
    int key = (int)play_draw(s, MODEL_KEYS);
    int64_t ttl = play_draw(s, 2) == 0 ? 0 : 1 + (int64_t)play_draw(s, 20000);
    locker_mode mode = play_draw(s, 3) == 0 ? LOCKER_SHARED : LOCKER_EXCLUSIVE;
    uint64_t token = 0;
    if (s->model.stranger_until[key] > play_now(s)) {
        note(s, "the stranger leaves %s", keys[key]);
        if (locker_mock_leave(s->mock, keys[key]) == LOCKER_OK)
            s->model.stranger_until[key] = 0;
    } else if (locker_mock_take_as(s->mock, keys[key], "stranger", mode, 0, ttl, &token) == LOCKER_OK) {
        note(s, "a stranger takes %s (%s) for %lld ms", keys[key], mode_names[mode], (long long)ttl);
        s->model.mixed[key] = s->model.mixed[key] || s->permits[key] > 0;
        s->model.stranger_until[key] = ttl == 0 ? INT64_MAX : play_now(s) + ttl;
        if (model_is_calm(&s->model, play_now(s)) && token <= model_last_token(&s->model, key))
            model_wrong(&s->model, "key %s: the stranger's token is not greater", keys[key]);
        model_stranger(&s->model, key, mode, token, play_now(s));
    }
}

static void step_show(script *s)
{
    int key = (int)play_draw(s, MODEL_KEYS), host = any_host(s);
    bool held = model_is_held(&s->model, key, play_now(s)), sure = model_is_calm(&s->model, play_now(s));
    locker_info info = LOCKER_INFO_INIT;
    locker_status status;
    if (!s->model.open[host])
        return;
    status = locker_show(s->lockers[host], keys[key], &info, NULL);
    note(s, "host %d shows %s: %s, %s", host, keys[key], locker_status_name(status),
         info.held ? "held" : "free");
    if (sure && (status != LOCKER_OK || info.held != held))
        model_wrong(&s->model, "key %s is %s, and show says %s", keys[key], held ? "held" : "free",
                    info.held ? "held" : "free");
    if (sure && info.holders_len > 0 && info.holders_len != model_holders(&s->model, key, play_now(s)))
        model_wrong(&s->model, "key %s: show tells of %zu holders", keys[key], info.holders_len);
    locker_info_clear(&info);
}

void play_open_host(script *s, int host)
{
    char label[8];
    locker_options o = LOCKER_OPTIONS_INIT;
    (void)snprintf(label, sizeof label, "h%d", host);
    o.ttl_ms = TTL_MS;
    s->model.open[host] = locker_mock_open(s->mock, label, &o, &s->lockers[host], NULL) == LOCKER_OK;
    if (!s->model.open[host])
        model_wrong(&s->model, "host %d can't be opened", host);
}

static void step_close(script *s)
{
    int host = any_host(s);
    if (play_draw(s, 3) != 0)
        return;
    note(s, "host %d closes, and opens again", host);
    if (s->model.cut[host])
        model_disturb(&s->model, play_now(s));
    (void)locker_close(s->lockers[host]);
    model_host_closed(&s->model, host);
    play_settle(s);
    play_open_host(s, host);
}

static void step_cancel(script *s)
{
    note(s, "the cancel is fired");
    locker_cancel_fire(s->cancel);
    play_settle(s);
    for (int i = 0; i < CALLS; i++)
        if (s->calls[i].used && s->calls[i].options.cancel != NULL)
            model_wrong(&s->model, "a canceled call for %s waits on", keys[s->calls[i].key]);
    locker_cancel_reset(s->cancel);
}

/* All is well again, for longer than any lease. */
static void step_calm(script *s)
{
    note(s, "calm");
    locker_mock_forget(s->mock);
    locker_mock_reconnect(s->mock, NULL);
    locker_mock_wake(s->mock, NULL); /* those whom a fault told that it was busy */
    s->model.faults = s->model.thieves = false;
    memset(s->model.cut, 0, sizeof s->model.cut);
    model_disturb(&s->model, play_now(s));
    for (int i = 0; i < 4; i++) {
        if (locker_mock_advance(s->mock, 31000) != LOCKER_OK)
            model_wrong(&s->model, "the clock can't be moved");
        play_settle(s);
    }
}

/* ------------------------------------------------------------------ any step ---- */

void play_step(script *s)
{
    static void (*const peaceful[])(script *) = {step_try,    step_try,     step_wait,    step_wait,
                                                 step_unlock, step_unlock,  step_show,    step_stranger,
                                                 step_close,  step_advance, step_advance, step_cancel};
    static void (*const hostile[])(script *) = {step_fault, step_fault, step_cut,
                                                step_lose,  step_break, step_calm};
    const size_t kinds = sizeof peaceful / sizeof *peaceful;
    bool war = s->seed % 3 != 0; /* each third script has peace */
    size_t n = play_draw(s, kinds + (war ? sizeof hostile / sizeof *hostile : 0));
    if (n < kinds)
        peaceful[n](s);
    else
        hostile[n - kinds](s);
    play_settle(s);
    check_progress(s);
}
