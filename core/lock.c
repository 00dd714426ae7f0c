/* lock.c: the path of a lock call.
 *
 * A call makes a claim. Where the service has no queue of its own, only one claim of a key contends there; the others stand
 * in the key's FIFO until they are promoted, or until the holder's grant is handed over to them (grant.c). A contender makes
 * an attempt on its caller's own thread, and after BUSY sleeps until the driver wakes it or its time to try again has come.
 * Whatever ends the call but a grant, the driver is told to withdraw. */
#include "claim.h"
#include "config.h"
#include "frame.h"
#include "grant.h"
#include "lease.h"
#include "lk_sized.h"
#include "parts.h"
#include "share.h"
#include "text.h"

/* A call, with its options resolved. */
typedef struct {
    locker *l;
    const locker_lock_options *options;
    const char *key;
    size_t key_len;
    int64_t start;      /* when it came */
    int64_t deadline;   /* when it gives up; LOCKER_NEVER, also of a try */
    bool try;           /* it doesn't wait for another holder */
    bool start_is_past; /* the call has waited or attempted since `start` */
    bool held_here;     /* another call of this locker holds the key */
    bool lost_early;    /* its grant was lost before it had its handle */
    lk_claim *claim;
    locker_handle **out; /* set once it is held */
    lk_wait wait;
    locker_error last; /* why the latest attempt failed that the call's own end did not cut short */
} request;

static const int64_t retry_after_outage = LK_S;

/* Whether what is held here leaves no room for the claim. Beside a reader, or a permit, there may be room for another. */
static bool is_full_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    const lk_key *const key = r->claim->key;
    int32_t room = r->claim->pub.permits > 0 ? r->claim->pub.permits : 1;
    if (key->holder != NULL || lk_is_shared(r->claim))
        return key->holder != NULL;
    for (const lk_list *at = key->sharers.next; at != &key->sharers && room > 0; at = at->next)
        room--;
    return room == 0;
}

/* Whether a call of this locker holds the key, as one does that asks for it again without saying that it is the same owner. */
static bool is_held_here_locked(const locker *l, const lk_key *key) LK_REQUIRES(l->mutex)
{
    (void)l;
    LK_EACH(lk_claim, holder, among, &key->sharers)
        if (holder->phase == LK_GRANTED)
            return true;
    return key->holder != NULL && key->holder->phase == LK_GRANTED;
}

/* The answer, unless nobody knows whether there is room: by what the driver answered last, whoever asked, or says all
 * along. Silence for less than command_timeout tells nothing. */
static locker_status unless_unknown_locked(const request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    const lk_key *const key = r->claim->key;
    const bool unknown = (key->away || LK_READ(r->l->out_of_reach)) && !is_full_locked(r);
    return unknown ? LOCKER_UNAVAILABLE : status;
}

/* Why the call has to end without a grant; OK: it need not. */
static locker_status why_stop_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    if (r->l->closing)
        return LOCKER_CLOSED;
    if ((r->claim->events & LK_CANCELED) != 0 ||
        (r->options->cancel != NULL && locker_cancel_fired(r->options->cancel)))
        return LOCKER_CANCELED;
    if (r->deadline != LOCKER_NEVER && lk_now(r->l) >= r->deadline)
        return unless_unknown_locked(r, LOCKER_TIMEOUT);
    return LOCKER_OK;
}

static bool is_owners_locked(const request *r, lk_claim *holder) LK_REQUIRES(r->l->mutex)
{
    if (holder->pub.permits != r->claim->pub.permits)
        return false;
    return holder->owner != NULL && strcmp(holder->owner, r->claim->owner) == 0 &&
           holder->phase == LK_GRANTED && !lk_lease_over_locked(r->l, holder, lk_now(r->l));
}

/* What the same owner holds of the key through this locker, so that the call enters again; NULL: nothing. */
static lk_claim *owners_grant_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    lk_key *const key = r->claim->key;
    if (r->claim->owner == NULL || r->l->closing)
        return NULL;
    if (key->holder != NULL && is_owners_locked(r, key->holder))
        return key->holder;
    LK_EACH_SAFE(lk_claim, holder, among, &key->sharers)
        if (is_owners_locked(r, holder))
            return holder;
    return NULL;
}

/* Whether the call wants more of the lease than the first one asked for, all that the service knows of. */
static bool asks_more(const request *r, const lk_claim *holder)
{
    const bool leased = r->l->driver->semantics->leases || !holder->pub.renewed;
    return (!r->options->no_renew && !holder->pub.renewed) ||
           (leased && r->options->ttl_ms * LK_MS > holder->pub.ttl_ns);
}

/* Whether the call may enter the grant of its owner. */
static locker_status check_entry(request *r, const lk_claim *holder)
{
    if (lk_is_shared(holder) && !lk_is_shared(r->claim))
        return lk_invalid(&r->last, "its owner holds it shared, and a shared lock cannot become "
                                    "exclusive; unlock it first");
    if (asks_more(r, holder))
        return lk_invalid(&r->last,
                          "its owner already holds it for %lld ms%s, and another call cannot extend "
                          "that; ask for more in the first call",
                          (long long)(holder->pub.ttl_ns / LK_MS),
                          holder->pub.renewed ? ", renewed" : " without renewal");
    return LOCKER_OK;
}

/* Enter what another call of the same owner holds, also if it was granted while this call was waiting or asking: the call rides on
 * that grant then. OK without a ride: there is no such grant. */
static locker_status enter_owners_locked(request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *const grant = owners_grant_locked(r);
    if (grant == NULL)
        return LOCKER_OK;
    const locker_status status = check_entry(r, grant);
    if (status != LOCKER_OK)
        return status;
    r->claim->ride = lk_board_locked(r->l, grant);
    return r->claim->ride != NULL ? LOCKER_OK : LOCKER_NOMEM;
}

/* Most calls never sleep, so the condition variable is made here. */
static void sleep_unlocking(request *r, int64_t until) LK_REQUIRES(r->l->mutex)
{
    const locker_clock *const clock = &r->l->clock;
    if (!r->wait.sleeps) {
        (void)locker_cond_init(&r->wait.cond); /* glibc's can't fail */
        r->wait.sleeps = true;
    }
    if (clock->hooks != NULL && clock->hooks->waits != NULL)
        clock->hooks->waits(clock->context, &r->claim->pub);
    clock->wait(clock->context, &r->wait.cond, &r->l->mutex.plain, until);
}

/* Whether what the contender is being told will do for the try, too: until then nobody knows that there is no room. */
static bool answer_comes_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    const lk_claim *const contender = r->claim->key->contender;
    return !locker_claim_is_plain(&r->claim->pub) && contender != NULL && !contender->tried &&
           contender->pub.mode == r->claim->pub.mode;
}

/* A try stands behind none but tries, each of which is answered at once: who waits may contend for ever. */
static bool try_may_stand_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    const lk_list *const fifo = &r->claim->key->fifo;
    return answer_comes_locked(r) &&
           (lk_list_empty(fifo) || !LK_CONTAINER(fifo->prev, lk_claim, link)->pub.will_wait);
}

/* The attempt for the contender came to nothing, and its answer does for the tries behind it. */
static void answer_tries_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    r->claim->tried = true;
    LK_EACH(lk_claim, next, link, &r->claim->key->fifo)
        if (!next->pub.will_wait)
            lk_wake_call_locked(r->l, next->wait);
}

/* Stand in the key's FIFO. OK: promoted (it contends now), granted by a hand-over, or it rides. Else why not. */
static locker_status fifo_wait_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    if (r->try && !try_may_stand_locked(r))
        return unless_unknown_locked(r, LOCKER_BUSY);
    r->start_is_past = true;
    LK_WRITE(claim->phase, LK_QUEUED);
    lk_list_append(&claim->key->fifo, &claim->link);
    while (claim->phase == LK_QUEUED) {
        const bool receives = claim->busy_with != LK_IDLE; /* a grant is being handed over to it */
        locker_status stop = receives ? LOCKER_OK : enter_owners_locked(r);
        if (!receives && stop == LOCKER_OK && claim->ride == NULL)
            stop = why_stop_locked(r);
        if (stop == LOCKER_OK && claim->ride == NULL && r->try && !answer_comes_locked(r))
            stop = unless_unknown_locked(r, LOCKER_BUSY);
        if (stop != LOCKER_OK || claim->ride != NULL) {
            lk_list_remove(&claim->link);
            return stop;
        }
        r->l->stats.waiting++;
        sleep_unlocking(r, receives ? LOCKER_NEVER : r->deadline);
        r->l->stats.waiting--;
    }
    return LOCKER_OK;
}

/* One attempt, with the mutex released meanwhile. */
static locker_status attempt_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    /* `start` is earlier, which is safe, and spares reading the clock */
    const int64_t sent = r->start_is_past ? lk_now(r->l) : r->start;
    const int64_t until =
        lk_time_earlier(lk_time_after(r->try ? r->start : sent, r->l->command_timeout_ns), r->deadline);
    const bool rest = r->try && r->start_is_past; /* of a try's time, in which silence tells nothing */
    claim->pub.has_waited = r->start_is_past;
    r->start_is_past = true;
    lk_busy_begin_unlocking(r->l, claim, LK_IN_ACQUIRE);
    claim->pub.retry_at = LOCKER_NEVER;
    claim->pub.alone = false;
    claim->pub.asked_at = sent;
    claim->pub.attempt_until = until;
    r->l->stats.attempts++;
    lk_mutex_unlock(&r->l->mutex);
    locker_error why;
    (void)lk_ok(&why);
    const locker_status status = r->l->driver->acquire(r->l->self, &claim->pub, &why);
    const bool cut_short = status == LOCKER_TIMEOUT && claim->pub.attempt_until >= r->deadline;
    if (status != LOCKER_OK && (!cut_short || r->last.text[0] == '\0'))
        r->last = why;
    lk_mutex_lock(&r->l->mutex);
    lk_busy_end_unlocking(r->l, claim);
    const bool silent = !rest && (status == LOCKER_UNAVAILABLE || (status == LOCKER_TIMEOUT && !cut_short));
    if (status == LOCKER_OK || status == LOCKER_BUSY || (silent && status == LOCKER_UNAVAILABLE))
        claim->key->away = status == LOCKER_UNAVAILABLE;
    /* what else there is ends this call, and tells the others nothing: the next one asks */
    if ((status == LOCKER_BUSY || silent) && !locker_claim_is_plain(&claim->pub))
        answer_tries_locked(r);
    return status;
}

/* The driver granted: is the grant still good? One whose lease ran out on its way is given back, and not told
 * as held. Without a lease the driver's time will do: reading a clock is a seventh of a lock in memory. */
static locker_status accept_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    const int64_t sent = claim->pub.asked_at;
    if (claim->pub.valid_until == LOCKER_NEVER && !claim->pub.renewed)
        claim->pub.valid_until = lk_time_after(sent, claim->pub.ttl_ns);
    const int64_t now = claim->pub.valid_until == LOCKER_NEVER && claim->pub.granted_at != 0
                            ? claim->pub.granted_at
                            : lk_now(r->l);
    claim->key->passed = 0;
    claim->key->passing_since = now;
    if (lk_grant_unlocking(r->l, claim, now))
        return LOCKER_OK;
    /* not at once: half of the time is for others; the driver's own time may be before the call's */
    claim->pub.retry_at = lk_time_after(now, now > sent ? now - sent : 0);
    if ((claim->events & LK_LOST_ALL) != 0)
        return lk_unavailable(&r->last, "the session with the service ended during the request for the lock");
    return lk_unavailable(&r->last,
                          "the lease of %lld ms ended before the service's answer arrived; set a longer ttl",
                          (long long)(claim->pub.ttl_ns / LK_MS));
}

/* Whether a try has time left to ask in. */
static bool has_time_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    return lk_now(r->l) < lk_time_after(r->start, r->l->command_timeout_ns);
}

/* A session ended while the driver was asked, and the grant may have been its: who holds it isn't known. */
static bool ask_again_locked(const request *r) LK_REQUIRES(r->l->mutex)
{
    return (r->claim->events & LK_LOST_ALL) != 0 && (!r->try || has_time_locked(r));
}

/* Sleep until another attempt may succeed. OK: try again. */
static locker_status wait_for_wake_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    const int64_t until = lk_time_earlier(r->claim->pub.retry_at, r->deadline);
    while ((r->claim->events & LK_WOKEN) == 0 && owners_grant_locked(r) == NULL && lk_now(r->l) < until &&
           why_stop_locked(r) == LOCKER_OK) {
        r->l->stats.waiting++;
        if (lk_leader_take_locked(r->l, &r->wait))
            lk_leader_sleep_unlocking(r->l, until);
        else
            sleep_unlocking(r, until);
        r->l->stats.waiting--;
    }
    lk_leader_leave_locked(r->l, &r->wait);
    return why_stop_locked(r);
}

/* What a failed attempt means for the call. OK: wait until retry_at, or for a wake, and try again. A call
 * that waits does so over an outage, too, until its own end; cut short by that, an attempt tells nothing. */
static locker_status judge_locked(request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    int64_t *const retry_at = &r->claim->pub.retry_at;
    const int64_t now = lk_now(r->l);
    const bool silent = status == LOCKER_TIMEOUT && r->claim->pub.attempt_until < r->deadline;
    if (silent) {
        status = lk_unavailable(&r->last, "the service did not answer within %lld ms (command_timeout)",
                                (long long)(r->l->command_timeout_ns / LK_MS));
        *retry_at = now;
        r->claim->key->away = true;
    }
    const locker_status stop = why_stop_locked(r);
    if (stop != LOCKER_OK)
        return stop;
    if (status == LOCKER_TIMEOUT)
        return unless_unknown_locked(r, LOCKER_TIMEOUT); /* a little before its time, as it was rounded */
    if (r->try || (status != LOCKER_BUSY && status != LOCKER_UNAVAILABLE))
        return status;
    if (status == LOCKER_UNAVAILABLE && *retry_at == LOCKER_NEVER) {
        if (!LK_READ(r->l->out_of_reach))
            return status; /* the driver says that it is final */
        *retry_at = lk_time_after(now, retry_after_outage);
    }
    return LOCKER_OK;
}

/* Make attempts until there is a grant (OK), or a reason to stop; then the driver has withdrawn. */
static locker_status contend_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    bool seen = false;
    locker_status status = why_stop_locked(r);
    if (status == LOCKER_OK && r->try && r->start_is_past && !has_time_locked(r))
        status =
            lk_unavailable(&r->last, "earlier attempts of this call used up its command_timeout (%lld ms)",
                           (long long)(r->l->command_timeout_ns / LK_MS));
    while (status == LOCKER_OK || owners_grant_locked(r) != NULL) {
        status = enter_owners_locked(r);
        if (status != LOCKER_OK || r->claim->ride != NULL)
            break;
        seen = true;
        status = attempt_unlocking(r);
        if (status == LOCKER_OK) {
            status = accept_unlocking(r);
            if (status == LOCKER_OK)
                return LOCKER_OK;
            seen = false; /* it was withdrawn; the next attempt is the driver's first sight of it */
            if (ask_again_locked(r)) {
                status = why_stop_locked(r);
                continue;
            }
            if (!locker_claim_is_plain(&r->claim->pub))
                answer_tries_locked(r);
        }
        status = judge_locked(r, status);
        if (status == LOCKER_OK)
            status = wait_for_wake_unlocking(r);
    }
    if (seen)
        lk_withdraw_unlocking(r->l, r->claim);
    return status;
}

/* Give the call its handle of a claim that is held. */
static void attach_locked(request *r, lk_claim *claim, locker_handle *handle) LK_REQUIRES(r->l->mutex)
{
    *handle = (locker_handle){.l = r->l,
                              .claim = claim,
                              .sibling = claim->handles,
                              .on_lost = r->options->on_lost,
                              .user = r->options->user,
                              .lost_fd = -1};
    claim->handles = handle;
    r->l->handles++;
    *r->out = handle;
}

/* A key is used in one way at a time: what its users here say, before the service does. */
static locker_status check_use_locked(request *r, const lk_key *key) LK_REQUIRES(r->l->mutex)
{
    const int32_t wanted = r->claim->pub.permits;
    const lk_claim *const user = lk_user_locked(r->l, key);
    return user == NULL || user->pub.permits == wanted
               ? LOCKER_OK
               : locker_other_use(&r->last, user->pub.permits, wanted);
}

/* Get the call its handle of a grant that was another's. */
static void ride_locked(request *r, locker_handle *ride) LK_REQUIRES(r->l->mutex)
{
    attach_locked(r, ride->claim, ride);
    ++*(r->claim->owner != NULL ? &r->l->stats.reentered : &r->l->stats.rode);
    lk_histogram_add(&r->l->stats.wait, lk_now(r->l) - r->start);
}

/* Whether what is held here already has the call's answer, without the service: to come in, or why it can't. */
static bool enter_at_once_locked(request *r, lk_key *key, locker_status *status) LK_REQUIRES(r->l->mutex)
{
    if (key->users == 1) /* the call itself */
        return false;
    *status = check_use_locked(r, key);
    if (*status != LOCKER_OK)
        return true;
    *status = enter_owners_locked(r);
    if (r->claim->ride != NULL) {
        attach_locked(r, r->claim->ride->claim, r->claim->ride);
        r->l->stats.reentered++;
    }
    if (*status != LOCKER_OK || r->claim->ride != NULL)
        return true;
    if (!lk_is_shared(r->claim) || r->l->closing)
        return false;
    lk_claim *const grant =
        lk_grant_to_ride_locked(r->l, key, r->claim, r->start_is_past ? lk_now(r->l) : r->start);
    locker_handle *const ride = grant != NULL ? lk_board_locked(r->l, grant) : NULL;
    if (ride != NULL)
        ride_locked(r, ride);
    return ride != NULL;
}

/* Stand behind those of the locker who want the key, or go to the service at once: in the FIFO, or contending. */
static locker_status line_up_unlocking(request *r, lk_key *key) LK_REQUIRES(r->l->mutex)
{
    lk_claim *const claim = r->claim;
    bool behind = key->contender != NULL;
    if ((r->l->driver->caps & LOCKER_CAP_QUEUE) != 0) {
        if (!lk_is_shared(claim) || r->try || key->writers > 0 ||
            (behind && !lk_rides_along(key->contender, claim)))
            return LOCKER_OK;
    } else {
        behind = behind || key->holder != NULL || !lk_list_empty(&key->fifo);
    }
    if (behind)
        return fifo_wait_unlocking(r);
    key->contender = claim;
    return LOCKER_OK;
}

/* The call rides on another claim's grant, unless that was lost meanwhile. */
static void claim_ride_locked(request *r) LK_REQUIRES(r->l->mutex)
{
    locker_handle *const ride = r->claim->ride;
    r->lost_early = lk_lease_over_locked(r->l, ride->claim, lk_now(r->l));
    if (r->lost_early)
        lk_alight_locked(r->l, ride);
    else
        ride_locked(r, ride);
}

/* The claim ends without a grant of its own. */
static void end_claim_locked(request *r, lk_key *key) LK_REQUIRES(r->l->mutex)
{
    lk_claim *const claim = r->claim;
    const bool rode_before = claim->ride != NULL; /* also shows clang's analyzer that there is a claim */
    LK_WRITE(claim->phase, LK_GONE);
    if (key->contender == claim) {
        key->contender = NULL;
        lk_promote_locked(r->l, key);
    }
    if (rode_before || claim->ride != NULL)
        claim_ride_locked(r);
    lk_claim_unref_locked(r->l, claim); /* the driver's side */
}

static locker_status take_unlocking(request *r, lk_key *key) LK_REQUIRES(r->l->mutex)
{
    lk_claim *claim = r->claim;
    locker_status status = LOCKER_OK;
    if (key->holder != NULL)
        (void)lk_lease_over_locked(r->l, key->holder, r->start); /* spares reading the clock */
    LK_WRITE(claim->phase, LK_CONTENDING);
    if (key->holder != NULL && r->try)
        status = LOCKER_BUSY; /* held in this process: nobody needs to be asked */
    else
        status = line_up_unlocking(r, key);
    const bool handed_over = claim->phase != LK_CONTENDING;
    if (status == LOCKER_OK && !handed_over && claim->ride == NULL) {
        const bool writes = key->contender != claim && !lk_is_shared(claim);
        key->writers += writes; /* who comes meanwhile to share the key doesn't go past it */
        status = contend_unlocking(r);
        key->writers -= writes;
    }
    if (status != LOCKER_OK || claim->ride != NULL) {
        r->held_here = is_held_here_locked(r->l, key);
        end_claim_locked(r, key);
    } else if (handed_over && lk_lease_over_locked(r->l, claim, lk_now(r->l))) {
        r->lost_early = true; /* the keeper ends the claim */
    }
    return status;
}

static void count_locked(const request *r, locker_status status) LK_REQUIRES(r->l->mutex)
{
    locker_statistics *const s = &r->l->stats;
    if (status == LOCKER_OK) {
        lk_histogram_add(&s->wait, r->claim->pub.granted_at - r->start);
        return;
    }
    uint64_t *const count = status == LOCKER_BUSY       ? &s->busy
                            : status == LOCKER_TIMEOUT  ? &s->timed_out
                            : status == LOCKER_CANCELED ? &s->canceled
                                                        : &s->failed;
    ++*count;
}

static locker_status run_unlocking(request *r) LK_REQUIRES(r->l->mutex)
{
    locker_cancel *const cancel = r->options->cancel;
    locker_status status = LOCKER_NOMEM;
    lk_key_use_locked(r->l, r->claim);
    lk_key *key = r->claim->key;
    if (!lk_heap_reserve_locked(r->l))
        goto gone;
    if (cancel != NULL && locker_cancel_fired(cancel)) {
        status = LOCKER_CANCELED;
        r->l->stats.canceled++;
        goto unreserve;
    }
    if (enter_at_once_locked(r, key, &status))
        goto unreserve;
    status = LOCKER_NOMEM;
    r->wait.claim = r->claim;
    r->wait.cancel = cancel;
    if (cancel != NULL && !lk_cancel_watch_locked(r->l, &r->wait))
        goto unreserve;
    r->claim->wait = &r->wait;
    lk_list_prepend(&r->l->waits, &r->wait.link);
    status = take_unlocking(r, key);
    if (cancel != NULL)
        lk_cancel_unwatch_locked(r->l, &r->wait);
    while (r->claim->interrupting)
        lk_await_unlocking(r->l);
    lk_list_remove(&r->wait.link);
    r->claim->wait = NULL;
    r->l->heap_reserved--;
    const bool granted = status == LOCKER_OK && r->claim->ride == NULL && !r->lost_early;
    if (granted || status != LOCKER_OK)
        count_locked(r, status);
    if (granted)
        attach_locked(r, r->claim, &r->claim->first_handle);
    else
        lk_claim_unref_locked(r->l, r->claim);
    return status;
unreserve:
    r->l->heap_reserved--;
gone:
    lk_claim_unref_locked(r->l, r->claim);
    lk_claim_unref_locked(r->l, r->claim);
    return status;
}

static locker_status tell(const request *r, locker_status status, locker_error *err)
{
    static const char held_here[] =
        "this locker itself; to lock it again while it is held, give both calls the same owner";
    const char *key = r->key;
    const bool hints =
        r->last.text[0] != '\0' && r->last.status == LOCKER_BUSY; /* the driver's BUSY said more */
    switch (status) {
    case LOCKER_OK:
        return lk_ok(err);
    case LOCKER_BUSY:
        return locker_error_set(err, status, 0, "'%s' is held by %s%s%s", key,
                                r->held_here ? held_here : "another", hints ? "; " : "",
                                hints ? r->last.text : "");
    case LOCKER_CANCELED:
        return locker_error_set(err, status, 0, "waiting for '%s' was canceled", key);
    case LOCKER_CLOSED:
        return locker_error_set(err, status, 0, "the locker was closed during the wait for '%s'", key);
    case LOCKER_NOMEM:
        return locker_error_set(err, status, 0, "out of memory while locking '%s'", key);
    case LOCKER_TIMEOUT:
        return locker_error_set(err, status, 0, "'%s' did not become free within %lld ms%s%s%s%s", key,
                                (long long)r->options->wait_ms, r->last.text[0] != '\0' ? "; last: " : "",
                                r->last.text, r->held_here ? "; it is held by " : "",
                                r->held_here ? held_here : "");
    default:
        return locker_error_set(err, status, r->last.os_error, "locking '%s': %s", key,
                                r->last.text[0] != '\0'        ? r->last.text
                                : status == LOCKER_UNAVAILABLE ? "the service is out of reach"
                                                               : locker_status_name(status));
    }
}

/* Allocate what the call needs, with no lock held. */
static bool prepare(request *r)
{
    locker *l = r->l;
    const locker_lock_options *o = r->options;
    char *label = NULL;
    r->claim = lk_claim_new(l, r->key, r->key_len);
    if (r->claim == NULL)
        return false;
    if (o->owner != NULL)
        label = r->claim->owner = strdup(o->owner);
    if (o->label != NULL)
        label = strdup(o->label);
    r->claim->pub.owner = label != NULL ? label : l->owner;
    if ((o->owner != NULL && r->claim->owner == NULL) || (o->label != NULL && label == NULL)) {
        lk_claim_free(l, r->claim);
        return false;
    }
    r->claim->pub.ttl_ns = o->ttl_ms > 0 ? o->ttl_ms * LK_MS : l->ttl_ns;
    r->claim->pub.will_wait = !r->try;
    r->claim->pub.renewed = !o->no_renew;
    r->claim->pub.mode = o->mode;
    r->claim->pub.permits = o->permits;
    return true;
}

/* What was handed over was lost before its call had woken up: with a claim of its own it asks again. */
static bool prepare_again_unlocking(request *r, locker_status *status) LK_REQUIRES(r->l->mutex)
{
    r->lost_early = false;
    lk_mutex_unlock(&r->l->mutex);
    const bool prepared = prepare(r);
    lk_mutex_lock(&r->l->mutex);
    if (!prepared)
        *status = LOCKER_NOMEM;
    return prepared;
}

int64_t lk_deadline(int64_t start, int64_t wait_ms)
{
    const bool endless = wait_ms < 0 || wait_ms > LOCKER_NEVER / 4 / LK_MS;
    return endless ? LOCKER_NEVER : lk_time_after(start, wait_ms * LK_MS);
}

static locker_status lock_call(request *r, locker_error *err)
{
    r->start = lk_now(r->l);
    if (r->deadline == 0)
        r->deadline = lk_deadline(r->start, r->try ? -1 : r->options->wait_ms);
    if (!prepare(r))
        return tell(r, LOCKER_NOMEM, err);
    lk_mutex_lock(&r->l->mutex);
    locker_status status;
    if (r->l->closing) {
        lk_claim_free(r->l, r->claim);
        status = LOCKER_CLOSED;
    } else {
        r->l->calls++;
        do
            status = run_unlocking(r);
        while (r->lost_early && prepare_again_unlocking(r, &status));
        lk_leave_locked(r->l);
    }
    lk_mutex_unlock(&r->l->mutex);
    if (r->wait.sleeps)
        pthread_cond_destroy(&r->wait.cond);
    return tell(r, status, err);
}

/* Whether the driver has what is neither a lock for one nor nonsense. */
static locker_status check_kind(const locker *l, const locker_lock_options *o, locker_error *err)
{
    const locker_driver *const d = l->driver;
    if (o->mode != LOCKER_EXCLUSIVE && o->mode != LOCKER_SHARED)
        return lk_invalid(err, "mode is %d: give LOCKER_EXCLUSIVE or LOCKER_SHARED", (int)o->mode);
    if (o->permits < 0 || o->permits > LOCKER_PERMITS_MAX)
        return lk_invalid(err, "permits is %d: give 1 to %d, or 0 for a lock", o->permits,
                          LOCKER_PERMITS_MAX);
    if (o->mode == LOCKER_SHARED && o->permits > 0)
        return lk_invalid(err, "LOCKER_SHARED and permits exclude each other; give only mode, or only "
                               "permits");
    if (o->mode == LOCKER_SHARED && d->semantics->shared == LOCKER_ORDER_NONE)
        return lk_unsupported(err, "the %s driver has no shared locks", d->name);
    if (o->permits > 0 && d->semantics->permits_most == 0)
        return lk_unsupported(err, "the %s driver has no permits", d->name);
    return o->permits <= d->semantics->permits_most || o->permits == 0
               ? LOCKER_OK
               : lk_unsupported(err, "the %s driver has at most %lld permits", d->name,
                                (long long)d->semantics->permits_most);
}

static locker_status check_lock_options(const locker *l, const locker_lock_options *o, locker_error *err)
{
    locker_status status = LOCKER_OK;
    if (o->wait_ms < -1)
        return lk_invalid(err, "wait_ms is %lld: give -1 (for ever), 0 (try) or a time in ms",
                          (long long)o->wait_ms);
    if (o->owner != NULL)
        status = lk_text_check(o->owner, LOCKER_OWNER_MAX, "the owner", NULL, err);
    if (status == LOCKER_OK && o->label != NULL)
        status = lk_text_check(o->label, LOCKER_OWNER_MAX, "the label", NULL, err);
    if (status == LOCKER_OK)
        status = lk_ttl_check(o->ttl_ms, err);
    if (status == LOCKER_OK && (o->mode != LOCKER_EXCLUSIVE || o->permits != 0))
        status = check_kind(l, o, err);
    return status == LOCKER_OK && o->ttl_ms > 0 ? lk_ttl_in_range(l->driver, o->ttl_ms, LOCKER_CONFIG, err)
                                                : status;
}

/* While the driver looks at the key, the call counts: locker_close() waits for it before it closes the driver. */
static locker_status check_key(request *r, locker_error *err)
{
    const bool asks_driver = r->l->driver->check_key != NULL;
    locker_status status = asks_driver ? lk_enter(r->l, "locker_lock", err) : LOCKER_OK;
    if (status != LOCKER_OK)
        return status;
    status = lk_check_key(r->l, r->key, &r->key_len, err);
    if (asks_driver)
        lk_leave(r->l);
    return status;
}

locker_status lk_lock(locker *l, const char *key, const locker_lock_options *options, bool try,
                      int64_t deadline, locker_handle **out, locker_error *err)
{
    static const locker_lock_options defaults = LOCKER_LOCK_OPTIONS_INIT;
    LK_NO_CANCEL;
    request r;
    r.l = l;
    r.options = options != NULL ? options : &defaults;
    r.key = key;
    r.last.os_error = 0;
    r.last.text[0] = '\0'; /* the rest of a request is set as it goes: it is more than half a kilobyte */
    r.wait.sleeps = false;
    r.start_is_past = false;
    r.lost_early = false;
    r.held_here = false;
    r.deadline = deadline;
    r.out = out;
    if (out != NULL)
        *out = NULL;
    if (out == NULL || l == NULL)
        return lk_invalid(err, "locker_lock needs a locker and a pointer for the handle");
    locker_status status = lk_admit(l, "locker_lock", err);
    locker_lock_options own;
    if (status == LOCKER_OK && options != NULL && options->size != sizeof own) {
        status = LK_SIZED_TAKE(locker_lock_options, &own, options, label, err);
        r.options = &own;
    }
    if (status == LOCKER_OK && options != NULL)
        status = check_lock_options(l, r.options, err);
    if (status == LOCKER_OK)
        status = check_key(&r, err);
    r.try = try || r.options->wait_ms == 0;
    if (status == LOCKER_OK)
        status = lock_call(&r, err);
    return status;
}

locker_status locker_lock(locker *l, const char *key, const locker_lock_options *options, locker_handle **out,
                          locker_error *err)
{
    return lk_lock(l, key, options, false, 0, out, err);
}

locker_status locker_try_lock(locker *l, const char *key, const locker_lock_options *options,
                              locker_handle **out, locker_error *err)
{
    return lk_lock(l, key, options, true, 0, out, err);
}
