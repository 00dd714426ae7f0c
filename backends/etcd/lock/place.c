/* place.c: a place's requests, what their answers make known of it, and how it ends. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "lease.h"
#include "lk_error.h"

/* A lock that is given back sooner is worth neither a watch on its own key nor a write. */
static const int64_t watch_after_ns = 20 * LK_MS, tell_after_ns = 250 * LK_MS, again_ns = 100 * LK_MS;

static int64_t unix_ms_of(const lk_etcd *e, int64_t at)
{
    return (lk_time_of(CLOCK_REALTIME) - (lk_etcd_now_of(e) - at)) / LK_MS;
}

lk_etcd_place *lk_etcd_place_new_locked(lk_etcd *e, locker_claim *claim, const lk_etcd_key *base,
                                        lk_etcd_lease *lease)
{
    lk_etcd_place *p = calloc(1, sizeof *p + base->len + 1);
    if (p == NULL)
        return NULL;
    (void)strcpy(p->base, base->text);
    (void)snprintf(p->id, sizeof p->id, "%016" PRIx64 "%016" PRIx64, e->id, ++e->last_id);
    p->claim = claim;
    p->mode = claim->mode;
    p->permits = claim->permits;
    p->slot = -1;
    p->tries = !claim->will_wait;
    p->ahead.place = p->own.place = p;
    p->cap = LOCKER_NEVER;
    lk_etcd_record_write(p->id, unix_ms_of(e, claim->asked_at), claim->owner, p->record);
    lk_etcd_place_key(p->base, p->mode, p->permits, p->id, &p->key);
    p->lease = lease;
    lk_list_append(&lease->places, &p->link);
    return p;
}

/* ---------------------------------------------------------------- who is told ---- */

void lk_etcd_place_tell_locked(lk_etcd *e, const lk_etcd_place *p)
{
    if (p->call != NULL)
        lk_etcd_call_done_locked(e->net, p->call);
    else if (p->claim != NULL && p->enrolled)
        e->svc->wake(e->svc, p->claim);
}

void lk_etcd_place_vanish_locked(lk_etcd *e, lk_etcd_place *p, const char *why)
{
    const bool granted = p->granted_at != 0;
    p->step = LK_ETCD_GONE;
    p->created = 0;
    p->doubt = p->may_move = false;
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    p->granted_at = 0;
    if (granted && p->claim != NULL) {
        lk_list_remove(&p->more);
        e->svc->lease_lost(e->svc, p->claim, why);
    }
    lk_etcd_place_tell_locked(e, p);
}

void lk_etcd_place_on_lease_locked(lk_etcd *e, lk_etcd_place *p, lk_etcd_lease *lease, int64_t modified)
{
    p->may_move = p->may_move && modified == p->modified;
    p->modified = modified;
    p->unsure = false;
    if (p->lease == lease)
        return;
    lk_list_remove(&p->link);
    p->lease = lease;
    lk_list_append(&lease->places, &p->link);
    if (p->granted_at != 0)
        e->svc->lease_extended(e->svc, p->claim, lk_time_earlier(lk_etcd_lease_until(lease), p->cap));
}

/* Somebody reliable has shown the key as it is. */
static void shown_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *kv) LK_REQUIRES(*e->net)
{
    p->created = kv->create_revision;
    p->doubt = false;
    LK_EACH(lk_etcd_lease, lease, link, &e->leases) {
        if (lease->id == kv->lease) {
            lk_etcd_place_on_lease_locked(e, p, lease, kv->mod_revision);
            return;
        }
    }
    p->may_move = p->may_move && kv->mod_revision == p->modified;
    p->modified = kv->mod_revision;
    p->unsure = e->remake = true; /* on one that is forgotten: it is put to another */
    lk_etcd_keeper_by_locked(e->net, 0);
}

void lk_etcd_place_shown_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__Ranged *ranged)
{
    const LkEtcdPb__KeyValue *kv = ranged != NULL && ranged->n_kvs > 0 ? ranged->kvs[0] : NULL;
    if (kv != NULL && kv->create_revision == p->created)
        shown_locked(e, p, kv);
    else
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
}

/* ---------------------------------------------------------------- what is asked ---- */

/* Its key is that of its permit. */
static bool has_permit(const lk_etcd_place *p)
{
    return p->slot >= 0 && p->step == LK_ETCD_FIRST;
}

static void add_ahead(lk_etcd_ops *ops, const lk_etcd_place *p)
{
    const bool is_there = p->created != 0;
    if (p->permits > 0) {
        lk_etcd_latest_op(ops, p->base, p->permits, LK_ETCD_WANTS, p->created, is_there ? 1 : 2);
        lk_etcd_latest_op(ops, p->base, p->permits, LK_ETCD_SLOTS, 0, 0);
    } else if (p->mode == LOCKER_SHARED) {
        lk_etcd_latest_op(ops, p->base, p->permits, LK_ETCD_UNSHARED1, p->created, 1);
        lk_etcd_latest_op(ops, p->base, p->permits, LK_ETCD_UNSHARED2, p->created, 1);
    } else {
        lk_etcd_latest_op(ops, p->base, p->permits, LK_ETCD_QUEUE, p->created, is_there ? 1 : 2);
    }
}

/* If the key is in use as it wants it, or not at all; else who uses it otherwise is told behind. */
static void add_use(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    static const lk_etcd_range_of of_permits[] = {LK_ETCD_QUEUE, LK_ETCD_OTHERS1, LK_ETCD_OTHERS2},
                                  of_lock[] = {LK_ETCD_PERMITS};
    const lk_etcd_range_of *const other = p->permits > 0 ? of_permits : of_lock;
    for (size_t i = 0; i < (p->permits > 0 ? 3 : 1); i++) {
        lk_etcd_if_none(t, p->base, p->permits, other[i]);
        lk_etcd_latest_op(&t->otherwise, p->base, p->permits, other[i], 0, 1);
    }
}

/* Who uses it otherwise, by the answers from the n-th on; NULL: nobody. */
static const LkEtcdPb__KeyValue *other_use(const LkEtcdPb__TxnDone *done, size_t n)
{
    for (; n < done->n_responses; n++) {
        const LkEtcdPb__Ranged *const ranged = lk_etcd_ranged(done, n);
        if (ranged != NULL && ranged->n_kvs > 0)
            return ranged->kvs[0];
    }
    return NULL;
}

static void make_enter(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_if(t, &p->key, 0);
    lk_etcd_get_op(&t->otherwise, &p->key);
    add_use(t, p);
    if (p->tries && p->mode == LOCKER_SHARED) {
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_UNSHARED1);
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_UNSHARED2);
    } else if (p->tries) {
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_QUEUE);
    }
    lk_etcd_put_op(&t->then, &p->key, p->record, p->lease->id);
    if (!p->tries)
        add_ahead(&t->then, p);
}

static void make_look(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_if(t, &p->key, p->created);
    lk_etcd_get_op(&t->then, &p->key);
    if (!has_permit(p))
        add_ahead(&t->then, p);
}

static void make_count(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_WANTS, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_SLOTS, 0, 0);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_QUEUE, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_OTHERS1, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_OTHERS2, 0, 1);
}

static void make_take(lk_etcd_txn_of *t, const lk_etcd_place *p, const lk_etcd_key *slot)
{
    lk_etcd_if(t, slot, 0);
    lk_etcd_get_op(&t->otherwise, slot);
    t->otherwise.body[0].range.keys_only = false;
    if (p->tries) {
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_WANTS);
        add_use(t, p);
    } else {
        lk_etcd_get_op(&t->otherwise, &p->key);
        lk_etcd_if(t, &p->key, p->created);
        lk_etcd_delete_op(&t->then, &p->key);
    }
    lk_etcd_put_op(&t->then, slot, p->record, p->lease->id);
}

static void answered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply);

static lk_etcd_asked what_to_ask(const lk_etcd_place *p)
{
    if (p->slot >= 0 && !has_permit(p))
        return LK_ETCD_TAKE;
    if (p->created != 0)
        return LK_ETCD_LOOK;
    return p->permits > 0 && p->tries ? LK_ETCD_COUNT : LK_ETCD_ENTER;
}

bool lk_etcd_place_ask_locked(lk_etcd *e, lk_etcd_place *p)
{
    lk_etcd_txn_of t;
    lk_etcd_key slot;
    if (p->asking)
        return true;
    p->asked = what_to_ask(p);
    lk_etcd_txn_begin(&t);
    if (p->asked == LK_ETCD_ENTER) {
        make_enter(&t, p);
    } else if (p->asked == LK_ETCD_LOOK) {
        make_look(&t, p);
    } else if (p->asked == LK_ETCD_COUNT) {
        make_count(&t, p);
    } else {
        lk_etcd_slot_key(p->base, p->permits, p->slot, &slot);
        make_take(&t, p, &slot);
    }
    p->asking = lk_etcd_txn_send_locked(e, &t, answered_locked, p) != NULL;
    p->requests += p->asking;
    p->asked_on = p->asking ? p->lease : NULL;
    p->lease->requests += p->asking;
    p->unanswered = !p->asking; /* no memory */
    return p->asking;
}

/* ---------------------------------------------------------------- what that makes known ---- */

/* The latest that was created of what the two have answered, but for the place itself; NULL: nobody. */
static const LkEtcdPb__KeyValue *latest(const lk_etcd_place *p, const LkEtcdPb__Ranged *a,
                                        const LkEtcdPb__Ranged *b)
{
    const LkEtcdPb__KeyValue *found = NULL;
    const LkEtcdPb__Ranged *const of[] = {a, b};
    for (size_t n = 0; n < 2; n++) {
        for (size_t i = 0; of[n] != NULL && i < of[n]->n_kvs; i++) {
            const LkEtcdPb__KeyValue *const kv = of[n]->kvs[i];
            const bool own = kv->key.len == p->key.len && memcmp(kv->key.data, p->key.text, p->key.len) == 0;
            if (!own && (found == NULL || kv->create_revision > found->create_revision))
                found = kv;
        }
    }
    return found;
}

/* The lowest slot that nobody has; -1: there is none. */
static int32_t free_slot(const lk_etcd_place *p, const LkEtcdPb__Ranged *slots)
{
    bool *taken = calloc((size_t)p->permits, sizeof *taken);
    int32_t slot = -1;
    for (size_t i = 0; taken != NULL && i < slots->n_kvs; i++) {
        const lk_etcd_told told = lk_etcd_key_told(&slots->kvs[i]->key, strlen(p->base));
        if (told.slot >= 0 && told.slot < p->permits)
            taken[told.slot] = true;
    }
    for (int32_t i = 0; taken != NULL && slot < 0 && i < p->permits; i++)
        slot = taken[i] ? -1 : i;
    free(taken);
    return slot;
}

static void other_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *kv) LK_REQUIRES(*e->net)
{
    (void)e;
    p->other = lk_etcd_key_told(&kv->key, strlen(p->base)).permits;
    p->step = LK_ETCD_OTHER;
}

/* Its end, or that of a permit, is to be told: from what was seen on. */
static void behind_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *ahead, int64_t revision)
    LK_REQUIRES(*e->net)
{
    lk_etcd_key begin, end;
    end.len = 0;
    if (ahead == NULL) {
        lk_etcd_bounds(p->base, p->permits, LK_ETCD_SLOTS, &begin, &end);
    } else if (ahead->key.len < LK_ETCD_KEY_MAX) {
        memcpy(begin.text, ahead->key.data, ahead->key.len);
        begin.len = ahead->key.len;
    } else {
        p->unanswered = true; /* nobody makes such a key: it is looked at again, as long as it is there */
        return;
    }
    if (lk_etcd_watch_locked(e->net, &p->ahead.watcher, lk_etcd_bytes(&begin), lk_etcd_bytes(&end), revision + 1))
        p->step = LK_ETCD_BEHIND;
    else
        p->unanswered = true;
    p->waited = true;
}

/* It is there. Is somebody ahead? The answers begin with the n-th. */
static void judge_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, size_t n, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const first = lk_etcd_ranged(done, n), *const second = lk_etcd_ranged(done, n + 1);
    const bool permits = p->permits > 0;
    const LkEtcdPb__KeyValue *const ahead = latest(p, first, permits ? NULL : second);
    p->step = LK_ETCD_ENTERED;
    if (first == NULL || (second == NULL && (permits || p->mode == LOCKER_SHARED)))
        return; /* that is no answer of a server's */
    if (ahead != NULL) {
        behind_locked(e, p, ahead, done->header->revision);
    } else if (permits) {
        p->slot = free_slot(p, second);
        if (p->slot < 0)
            behind_locked(e, p, NULL, done->header->revision);
    } else {
        p->step = LK_ETCD_FIRST;
        p->seen = sent;
    }
}

/* Whatever was known of another key that it had, and of its lease. */
static void made_locked(lk_etcd *e, lk_etcd_place *p, int64_t revision) LK_REQUIRES(*e->net)
{
    p->created = revision;
    p->doubt = p->may_move = false;
    lk_etcd_place_on_lease_locked(e, p, p->asked_on, revision);
}

static void entered_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const own = done->succeeded ? NULL : lk_etcd_ranged(done, 0);
    const LkEtcdPb__KeyValue *const other = done->succeeded ? NULL : other_use(done, 1);
    if (done->succeeded) {
        made_locked(e, p, done->header->revision);
        p->step = p->tries ? LK_ETCD_FIRST : p->step;
        p->seen = sent;
        if (!p->tries)
            judge_locked(e, p, done, 1, sent);
    } else if (own != NULL && own->n_kvs > 0) { /* by a request before this one, whose answer was lost */
        shown_locked(e, p, own->kvs[0]);
        p->step = p->tries ? LK_ETCD_FIRST : LK_ETCD_ENTERED;
        p->seen = sent;
    } else if (other != NULL) {
        other_locked(e, p, other);
    } else if (own != NULL && p->tries) {
        p->step = LK_ETCD_TAKEN;
    }
}

static void looked_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const own = done->succeeded ? lk_etcd_ranged(done, 0) : NULL;
    if (!done->succeeded) {
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
    } else if (own != NULL && own->n_kvs == 1) {
        if (own->kvs[0]->mod_revision >= p->modified) /* else it was put to another lease since, as was told before */
            shown_locked(e, p, own->kvs[0]);
        if (has_permit(p))
            p->seen = sent;
        else
            judge_locked(e, p, done, 1, sent);
    }
}

static void counted_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done) LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const wants = lk_etcd_ranged(done, 0), *const slots = lk_etcd_ranged(done, 1);
    const LkEtcdPb__KeyValue *const other = other_use(done, 2);
    if (wants == NULL || slots == NULL)
        return;
    p->slot = wants->n_kvs == 0 ? free_slot(p, slots) : -1;
    if (other != NULL)
        other_locked(e, p, other);
    else
        p->step = p->slot >= 0 ? LK_ETCD_NOTHING : LK_ETCD_TAKEN; /* it takes that one */
}

static void took_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const slot = done->succeeded ? NULL : lk_etcd_ranged(done, 0),
                                  *const own = done->succeeded ? NULL : lk_etcd_ranged(done, 1);
    lk_etcd_record record = {.id = ""};
    if (slot != NULL && slot->n_kvs > 0)
        lk_etcd_record_read(&slot->kvs[0]->value, &record);
    if (!done->succeeded && (slot == NULL || own == NULL))
        return;
    if (done->succeeded || strcmp(record.id, p->id) == 0) {
        lk_etcd_slot_key(p->base, p->permits, p->slot, &p->key);
        if (done->succeeded)
            made_locked(e, p, done->header->revision);
        else
            shown_locked(e, p, slot->kvs[0]);
        p->step = LK_ETCD_FIRST;
        p->seen = sent;
        return;
    }
    p->slot = -1; /* somebody was faster: it looks again */
    p->doubt = false;
    if (!p->tries && own->n_kvs == 0)
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
}

static void refused_locked(lk_etcd *e, lk_etcd_place *p, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    if (reply->status == LK_ETCD_NOT_FOUND) {
        lk_etcd_lease_dead_locked(e, p->asked_on);
        return;
    }
    p->step = LK_ETCD_FAILED;
    (void)lk_etcd_error(reply, "taking a lock", p->base, &p->error);
}

static void answered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *p = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    const bool makes = p->asked == LK_ETCD_ENTER || p->asked == LK_ETCD_TAKE, doubted = p->doubt;
    lk_etcd_heard_locked(e, reply);
    p->asking = false;
    p->asked_on->requests--;
    p->unanswered = lk_etcd_unknown(reply->status);
    if (p->unanswered) {
        p->doubt = p->doubt || makes;
        if (makes)
            lk_etcd_lease_taint_locked(e, p->asked_on);
    } else if (reply->status != LK_ETCD_OK) {
        refused_locked(e, p, reply);
    } else if (done->header == NULL || p->step == LK_ETCD_GONE) {
        p->doubt = p->doubt && p->step != LK_ETCD_GONE; /* it was told to be gone meanwhile */
    } else if (p->asked == LK_ETCD_ENTER) {
        entered_locked(e, p, done, reply->sent);
    } else if (p->asked == LK_ETCD_LOOK) {
        looked_locked(e, p, done, reply->sent);
    } else if (p->asked == LK_ETCD_COUNT) {
        counted_locked(e, p, done);
    } else {
        took_locked(e, p, done, reply->sent);
    }
    if (doubted && !p->doubt)
        lk_etcd_leases_settle_locked(e);
    if (p->claim == NULL)
        lk_etcd_place_delete_locked(e, p);
    else
        lk_etcd_place_tell_locked(e, p);
    lk_etcd_place_unref_locked(e, p);
}

/* ---------------------------------------------------------------- while it is held ---- */

void lk_etcd_place_granted_locked(lk_etcd *e, lk_etcd_place *p)
{
    p->granted_at = lk_etcd_now_of(e);
    p->enrolled = false;
    p->told = !p->waited; /* else it does not have it since it asked for it: that is written later */
    lk_list_prepend(&e->granted, &p->more);
    lk_etcd_lease_used_locked(e, p->lease);
    const int64_t at = p->granted_at + watch_after_ns;
    if (at < e->watch_at) {
        e->watch_at = at;
        lk_etcd_keeper_by_locked(e->net, at);
    }
}

/* Its own deletion is told, unless that can't be asked for now. */
static bool watch_own_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    return lk_etcd_watch_locked(e->net, &p->own.watcher, lk_etcd_bytes(&p->key), (ProtobufCBinaryData){0, NULL},
                                p->modified + 1);
}

int64_t lk_etcd_places_look_after_locked(lk_etcd *e, int64_t now)
{
    if (now < e->watch_at || !lk_etcd_is_up_locked(e->net))
        return lk_etcd_is_up_locked(e->net) ? e->watch_at : LOCKER_NEVER;
    e->watch_at = LOCKER_NEVER;
    LK_EACH(lk_etcd_place, p, more, &e->granted) {
        int64_t at = LOCKER_NEVER;
        if (!p->watched && now >= p->granted_at + watch_after_ns)
            p->watched = watch_own_locked(e, p);
        if (!p->watched)
            at = lk_time_later(p->granted_at + watch_after_ns, now + LK_MS);
        if (!p->told && now >= p->granted_at + tell_after_ns) {
            lk_etcd_record_write(p->id, unix_ms_of(e, p->granted_at), p->claim->owner, p->record);
            p->told = p->retell = e->remake = true;
        } else if (!p->told) {
            at = lk_time_earlier(at, p->granted_at + tell_after_ns);
        }
        e->watch_at = lk_time_earlier(e->watch_at, at);
    }
    return e->watch_at;
}

static void on_gone_locked(lk_etcd *e, lk_etcd_watcher *watcher, int64_t revision) LK_REQUIRES(*e->net)
{
    lk_etcd_eye *const eye = LK_CONTAINER(watcher, lk_etcd_eye, watcher);
    lk_etcd_place *const p = eye->place;
    if (eye == &p->ahead) {
        p->step = p->step == LK_ETCD_BEHIND ? LK_ETCD_ENTERED : p->step;
        lk_etcd_place_tell_locked(e, p);
    } else if (revision > p->created && !p->deleting) {
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
    } else if (p->granted_at != 0) {
        p->watched = false;
        e->watch_at = lk_time_earlier(e->watch_at, lk_etcd_now_of(e) + again_ns);
        lk_etcd_keeper_by_locked(e->net, e->watch_at);
    }
}

/* ---------------------------------------------------------------- how it ends ---- */

static bool is_wanted(const lk_etcd_place *p)
{
    return p->claim != NULL || p->requests > 0 || lk_list_linked(&p->more);
}

static void reap_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    if (is_wanted(p))
        return;
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    lk_list_remove(&p->link);
    free(p);
    if (e->closer != NULL && lk_list_empty(&e->left))
        lk_etcd_call_done_locked(e->net, e->closer);
}

void lk_etcd_place_unref_locked(lk_etcd *e, lk_etcd_place *p)
{
    p->requests--;
    reap_locked(e, p);
}

static void again_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    e->retry_at = lk_time_earlier(e->retry_at, lk_etcd_now_of(e) + again_ns);
    lk_etcd_keeper_by_locked(e->net, e->retry_at);
}

static void deleted_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *p = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    lk_etcd_heard_locked(e, reply);
    p->deleting = false;
    p->unanswered = lk_etcd_unknown(reply->status);
    if (p->unanswered) {
        p->maybe_deleted = true;
    } else if (reply->status != LK_ETCD_OK) {
        p->step = LK_ETCD_FAILED;
        (void)lk_etcd_error(reply, "giving a lock back", p->base, &p->error);
    } else {
        p->step = LK_ETCD_GONE;
        p->freed = done->succeeded && p->created != 0;
        p->created = 0;
        p->doubt = false;
    }
    if (p->call != NULL)
        lk_etcd_call_done_locked(e->net, p->call);
    else if (p->claim == NULL && !p->unanswered)
        lk_etcd_place_delete_locked(e, p);
    else if (p->claim == NULL)
        again_locked(e);
    lk_etcd_place_unref_locked(e, p);
}

static bool is_left(const lk_etcd_place *p)
{
    return p->created != 0 || p->doubt;
}

/* One in doubt has a name that nobody else has; what its permit may come to be goes with its lease, which is tainted. */
void lk_etcd_place_delete_locked(lk_etcd *e, lk_etcd_place *p)
{
    lk_etcd_txn_of t;
    const bool refused = p->claim == NULL && p->step == LK_ETCD_FAILED && !p->doubt;
    if (p->asking || p->deleting)
        return;
    if (!is_left(p) || refused || (p->claim == NULL && lk_etcd_now_of(e) >= p->left_until)) {
        if (p->claim == NULL && lk_list_linked(&p->more))
            lk_list_remove(&p->more);
        return;
    }
    lk_etcd_txn_begin(&t);
    if (p->created != 0)
        lk_etcd_if(&t, &p->key, p->created);
    lk_etcd_delete_op(&t.then, &p->key);
    p->deleting = lk_etcd_txn_send_locked(e, &t, deleted_locked, p) != NULL;
    p->requests += p->deleting;
    if (!p->deleting)
        again_locked(e);
}

void lk_etcd_place_leave_locked(lk_etcd *e, lk_etcd_place *p)
{
    if (p->granted_at != 0)
        lk_list_remove(&p->more);
    if (p->doubt || p->may_move)
        lk_etcd_leases_settle_locked(e);
    p->granted_at = 0;
    p->claim = NULL;
    p->call = NULL;
    p->enrolled = false;
    p->left_until = lk_time_after(lk_etcd_now_of(e), e->cleanup_ns);
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    lk_list_append(&e->left, &p->more);
    p->requests++; /* until it is known whether there is something to be done */
    lk_etcd_place_delete_locked(e, p);
    lk_etcd_place_unref_locked(e, p);
}

int64_t lk_etcd_places_left_locked(lk_etcd *e, int64_t now)
{
    int64_t next = LOCKER_NEVER;
    LK_EACH_SAFE(lk_etcd_place, p, more, &e->left) {
        p->requests++;
        lk_etcd_place_delete_locked(e, p);
        if (!p->asking && !p->deleting) /* else the answer calls */
            next = lk_time_earlier(next, lk_time_later(p->left_until, now + LK_MS));
        lk_etcd_place_unref_locked(e, p);
    }
    return next;
}

/* Whoever waits finds out anew who is ahead; what has been left is deleted, and what is on a lease goes on. */
static void on_up_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    e->retry_at = 0;
    e->svc->attend(e->svc);
    LK_EACH(lk_etcd_lease, lease, link, &e->leases)
        LK_EACH(lk_etcd_place, p, link, &lease->places)
            if (p->granted_at == 0)
                lk_etcd_place_tell_locked(e, p);
}

static void on_down_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    (void)e;
}

const lk_etcd_owner lk_etcd_connection_events = {
    .on_up = on_up_locked, .on_down = on_down_locked, .on_gone = on_gone_locked};
