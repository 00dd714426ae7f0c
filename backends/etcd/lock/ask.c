/* ask.c: the question about a place: what it asks, and what its answer shows. */
#include <stdlib.h>
#include <string.h>

#include "lk_error.h"
#include "place.h"

/* The driver has servers read at most READ_MOST keys of queues at a time: a key takes about 1.4 us. Queues
 * of up to SHORT_QUEUE keys are not counted. */
enum { READ_MOST = 16384, SHORT_QUEUE = 64 };
/* The number of places of one key whose first requests are in flight together. It is 1 because servers
 * carry out concurrent requests in any order. */
enum { COME_MOST = 1 };

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

/* Add the condition that no client uses the key in another way (lock or permits, or another number of
 * permits). If the condition fails, the answer shows a key of such a client. */
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

/* Return a key of a client that uses the key in another way, from the n-th answer on. NULL: there is none. */
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
    lk_etcd_if(t, p->key, 0);
    lk_etcd_get_op(&t->otherwise, p->key);
    add_use(t, p);
    if (p->want != LK_ETCD_WAIT && p->mode == LOCKER_SHARED) {
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_UNSHARED1);
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_UNSHARED2);
    } else if (p->want != LK_ETCD_WAIT) {
        lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_QUEUE);
    }
    lk_etcd_put_op(&t->then, p->key, p->record, p->lease->id);
    if (p->want == LK_ETCD_WAIT)
        add_ahead(&t->then, p);
}

/* Return true if the place's key is that of its permit. No key can be ahead of a permit. */
static bool has_permit(const lk_etcd_place *p)
{
    return p->slot >= 0 && p->step == LK_ETCD_FIRST;
}

/* Return true if the place's next LOOK or CHECK must be ordered like a write, because a plain read proves
 * nothing. This is so if the answer may grant the lock, or if a plain read has shown the place as FIRST or
 * gone. While the key ahead is watched, a plain read is enough. */
static bool has_to_order_locked(lk_etcd *e, const lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    const bool is_told = p->behind_at != 0 && p->ahead.watcher.id == 0 &&
                         (p->predecessor.len == 0 || lk_etcd_place_is_second_locked(e, p));
    const bool is_next = p->step == LK_ETCD_FIRST || is_told;
    return p->unproven || (is_next && lk_etcd_prover_locked(e->net) == 0);
}

static void make_look(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_if(t, p->key, p->created);
    lk_etcd_get_op(&t->then, p->key);
    if (!has_permit(p))
        add_ahead(&t->then, p);
}

static void make_check(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_if(t, p->key, p->created);
    lk_etcd_get_op(&t->then, p->key);
    lk_etcd_get_op(&t->then, p->predecessor);
}

static void make_count(lk_etcd_txn_of *t, const lk_etcd_place *p)
{
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_WANTS, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_SLOTS, 0, 0);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_QUEUE, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_OTHERS1, 0, 1);
    lk_etcd_latest_op(&t->then, p->base, p->permits, LK_ETCD_OTHERS2, 0, 1);
}

/* A waiter's TAKE requires that the key of its place exists. A try has no place: its TAKE requires that no claim waits, unless slots are
 * left for all waiters, that the key is not locked, and that no other number of permits is in use. */
static void make_take(lk_etcd_txn_of *t, const lk_etcd_place *p, ProtobufCBinaryData slot)
{
    lk_etcd_if(t, slot, 0);
    lk_etcd_get_op(&t->otherwise, slot);
    if (p->want != LK_ETCD_WAIT) {
        if (p->want != LK_ETCD_TRY_BESIDE)
            lk_etcd_if_none(t, p->base, p->permits, LK_ETCD_WANTS);
        add_use(t, p);
    } else {
        lk_etcd_get_op(&t->otherwise, p->key);
        lk_etcd_if(t, p->key, p->created);
        lk_etcd_delete_op(&t->then, p->key);
    }
    lk_etcd_put_op(&t->then, slot, p->record, p->lease->id);
}

static void answered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply);

static lk_etcd_asked what_to_ask(const lk_etcd_place *p)
{
    if (p->slot >= 0 && !has_permit(p))
        return LK_ETCD_TAKE;
    if (p->created != 0)
        return p->step == LK_ETCD_ENTERED && p->predecessor.len > 0 ? LK_ETCD_CHECK : LK_ETCD_LOOK;
    return p->permits > 0 && p->want != LK_ETCD_WAIT ? LK_ETCD_COUNT : LK_ETCD_ENTER;
}

/* Return where the length of the place's queue is kept, as of the last answer. Keys with equal hashes
 * share an entry. */
static int64_t *crowd_locked(lk_etcd *e, const lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    return &e->crowds[lk_hash_text(p->base) % LK_ETCD_CROWDS];
}

/* Return the number of keys that a server reads for the place's next question. */
static int64_t reads_locked(lk_etcd *e, const lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    const lk_etcd_asked asks = what_to_ask(p);
    return asks == LK_ETCD_ENTER || (asks == LK_ETCD_LOOK && !has_permit(p)) ? *crowd_locked(e, p) : 0;
}

/* Return true if the question has to wait. To find the key ahead, a server reads the whole queue. If many
 * questions have it do that, it answers no client in time. So the longer the queues are, the fewer
 * questions are in flight. */
static bool has_to_wait_locked(lk_etcd *e, const lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    const int64_t reads = reads_locked(e, p);
    return reads > SHORT_QUEUE && e->reading > 0 && e->reading + reads > READ_MOST;
}

/* Send the questions that have waited, as far as there is room. A place whose lease is still being
 * requested asks when the lease is granted. */
static void next_ask_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    LK_EACH_SAFE(lk_etcd_place, p, turn, &e->asks) {
        if (!lk_etcd_is_up_locked(e->net) || has_to_wait_locked(e, p))
            return;
        lk_list_remove(&p->turn);
        const bool asks = p->lease->id != 0 && p->step != LK_ETCD_FAILED && p->step != LK_ETCD_GONE;
        if (asks && !lk_etcd_place_ask_locked(e, p))
            lk_etcd_place_tell_locked(e, p);
    }
}

/* Return true if the place's first request waits in the key's line. Many creates at once would delay all
 * other requests at the servers. Only one exclusive claim gets the lock, and a hand-over takes longer than
 * a request, so the claims in the line lose nothing. */
static bool lines_up(const lk_etcd_place *p)
{
    return what_to_ask(p) == LK_ETCD_ENTER && p->want == LK_ETCD_WAIT && p->permits == 0 &&
           p->mode == LOCKER_EXCLUSIVE;
}

/* Return true if the place may send its first request now. False: it waits in its line. Without memory for
 * a line, it may. */
static bool is_let_in_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    if (p->admission == LK_ETCD_LET_IN || !lines_up(p))
        return true;
    p->line = lk_line_of(&e->lines, lk_hash_text(p->base));
    if (p->line == NULL)
        return true;
    if (lk_line_has_room(p->line, COME_MOST) && lk_list_empty(&p->line->waiting)) {
        p->admission = LK_ETCD_LET_IN;
        p->line->inside++;
        return true;
    }
    p->admission = LK_ETCD_IN_LINE;
    lk_list_append(&p->line->waiting, &p->turn);
    return false;
}

bool lk_etcd_place_ask_locked(lk_etcd *e, lk_etcd_place *p)
{
    lk_etcd_txn_of t;
    lk_etcd_key slot;
    if (lk_etcd_in_flight(p->ask) || lk_etcd_in_flight(p->removal) || lk_list_linked(&p->turn))
        return true;
    p->asked = what_to_ask(p);
    if (p->asked == LK_ETCD_TAKE &&
        lk_etcd_in_flight(p->move)) /* the answer to the move says which lease the permit is to be on */
        return true;
    if (!is_let_in_locked(e, p))
        return true;
    if (has_to_wait_locked(e, p)) {
        lk_list_append(&e->asks, &p->turn);
        return true;
    }
    lk_etcd_txn_begin(&t);
    if (p->asked == LK_ETCD_ENTER) {
        make_enter(&t, p);
    } else if (p->asked == LK_ETCD_LOOK) {
        make_look(&t, p);
    } else if (p->asked == LK_ETCD_CHECK) {
        make_check(&t, p);
    } else if (p->asked == LK_ETCD_COUNT) {
        make_count(&t, p);
    } else {
        lk_etcd_slot_key(p->base, p->permits, p->slot, &slot);
        make_take(&t, p, lk_etcd_bytes(&slot));
    }
    const bool looks = p->asked == LK_ETCD_LOOK || p->asked == LK_ETCD_CHECK,
               orders = has_to_order_locked(e, p);
    if (looks && orders)
        lk_etcd_order_op(&t.otherwise);
    p->prover = orders || !looks ? LK_ETCD_ANY_MEMBER : lk_etcd_prover_locked(e->net);
    const int64_t reads = reads_locked(e, p);
    p->unanswered = lk_etcd_txn_send_locked(e, &t, answered_locked, p) == NULL; /* no memory */
    if (p->unanswered)
        return false;
    lk_etcd_flight_sent(&p->ask);
    p->requests++;
    p->reads = reads;
    e->reading += reads;
    p->asked_on = p->lease;
    p->lease->requests++;
    return true;
}

/* Choose another lease if the present one has become too old while the place waited in line. Return false
 * without memory. */
static bool renew_lease_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    lk_etcd_lease *const l = lk_etcd_lease_for_locked(e, p->claim, p);
    if (l == NULL)
        return false;
    if (l != p->lease) {
        lk_list_remove(&p->link);
        p->lease = l;
        lk_list_append(&l->places, &p->link);
    }
    return true;
}

/* Let the first place of the line send its request. If its lease is still being requested, it asks when
 * the lease is granted. */
static void let_first_in_locked(lk_etcd *e, lk_line *line) LK_REQUIRES(*e->net)
{
    lk_etcd_place *const p = LK_CONTAINER(lk_list_take(&line->waiting), lk_etcd_place, turn);
    p->admission = LK_ETCD_LET_IN;
    line->inside++;
    if (p->step != LK_ETCD_NOTHING)
        return; /* a lease was refused, and the place has been told */
    if (!renew_lease_locked(e, p) || (p->lease->id != 0 && !lk_etcd_place_ask_locked(e, p)))
        lk_etcd_place_tell_locked(e, p); /* its call asks for itself */
}

/* Let places of the line in, as far as there is room. Without a connection the line keeps its order. */
static void go_on_locked(lk_etcd *e, lk_line *line) LK_REQUIRES(*e->net)
{
    while (lk_etcd_is_up_locked(e->net) && lk_line_has_room(line, COME_MOST) &&
           !lk_list_empty(&line->waiting))
        let_first_in_locked(e, line);
    lk_line_settle(&e->lines, line);
}

/* Take the place out of its line, unless it has to send its first request again: the request had no
 * answer, or its lease had ended. */
static void step_out_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    lk_line *const line = p->line;
    const bool asks_again = p->unanswered || p->step == LK_ETCD_NOTHING;
    if (line == NULL || (asks_again && p->claim != NULL))
        return;
    line->inside -= p->admission == LK_ETCD_LET_IN;
    p->admission = LK_ETCD_NO_LINE;
    p->line = NULL;
    go_on_locked(e, line);
}

void lk_etcd_lines_look_after_locked(lk_etcd *e)
{
    if (!e->line_stands)
        return;
    e->line_stands = false;
    for (lk_table_link *link = lk_table_after(&e->lines, NULL), *next; link != NULL; link = next) {
        next = lk_table_after(&e->lines, link);
        go_on_locked(e, LK_CONTAINER(link, lk_line, by_hash));
    }
}

/* ---------------------------------------------------------------- what the answer shows ---- */

/* Return the key with the greatest create revision among both answers, without the place's own key. NULL:
 * there is none. */
static const LkEtcdPb__KeyValue *latest(const lk_etcd_place *p, const LkEtcdPb__Ranged *a,
                                        const LkEtcdPb__Ranged *b)
{
    const LkEtcdPb__KeyValue *found = NULL;
    const LkEtcdPb__Ranged *const of[] = {a, b};
    for (size_t n = 0; n < 2; n++) {
        for (size_t i = 0; of[n] != NULL && i < of[n]->n_kvs; i++) {
            const LkEtcdPb__KeyValue *const kv = of[n]->kvs[i];
            const bool own = kv->key.len == p->key.len && memcmp(kv->key.data, p->key.data, p->key.len) == 0;
            if (!own && (found == NULL || kv->create_revision > found->create_revision))
                found = kv;
        }
    }
    return found;
}

/* Return the lowest free slot, after leaving `left` free slots to others. -1: there is none. */
static int32_t free_slot(const lk_etcd_place *p, const LkEtcdPb__Ranged *slots, int64_t left)
{
    bool *taken = calloc((size_t)p->permits, sizeof *taken);
    int32_t slot = -1;
    for (size_t i = 0; taken != NULL && i < slots->n_kvs; i++) {
        const lk_etcd_told told = lk_etcd_key_told(&slots->kvs[i]->key, strlen(p->base));
        if (told.slot >= 0 && told.slot < p->permits)
            taken[told.slot] = true;
    }
    for (int32_t i = 0; taken != NULL && slot < 0 && i < p->permits; i++)
        slot = taken[i] || left-- > 0 ? -1 : i;
    free(taken);
    return slot;
}

static void other_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *kv) LK_REQUIRES(*e->net)
{
    (void)e;
    p->other = lk_etcd_key_told(&kv->key, strlen(p->base)).permits;
    lk_etcd_place_step(p, LK_ETCD_OTHER);
}

/* Watch the key ahead, or the permits (NULL), which existed at this revision. If the watch begins later
 * than that, one more question shows what has happened in between (lk_etcd_place_watched_locked). */
static void behind_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *ahead, int64_t revision)
    LK_REQUIRES(*e->net)
{
    const int64_t created = ahead != NULL ? ahead->create_revision : 0;
    lk_etcd_key begin, end;
    end.len = 0;
    lk_etcd_place_follow(p, ahead != NULL ? &ahead->key : NULL);
    if (p->ahead.watcher.id != 0 && p->behind == created) {
        p->behind_at = lk_time_later(p->behind_at, revision);
        if (p->behind_at >= p->told_from)
            lk_etcd_place_step(p, LK_ETCD_BEHIND); /* else the next question looks again */
        return;
    }
    p->behind = created;
    p->behind_at = revision;
    p->told_from = 0;
    if (ahead == NULL) {
        lk_etcd_bounds(p->base, p->permits, LK_ETCD_SLOTS, &begin, &end);
    } else if (ahead->key.len < LK_ETCD_KEY_MAX) {
        memcpy(begin.text, ahead->key.data, ahead->key.len);
        begin.len = ahead->key.len;
    } else {
        lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
        p->unanswered = true; /* no client makes such a key: the place asks again as long as the key exists */
        return;
    }
    if (lk_etcd_watch_locked(e->net, &p->ahead.watcher, lk_etcd_bytes(&begin), lk_etcd_bytes(&end), 0))
        lk_etcd_place_step(p, LK_ETCD_BEHIND);
    else
        p->unanswered = true;
}

void lk_etcd_place_watched_locked(lk_etcd *e, lk_etcd_place *p, int64_t revision)
{
    p->told_from = revision;
    if (p->step != LK_ETCD_BEHIND || lk_etcd_in_flight(p->ask) || p->behind_at >= revision ||
        p->claim == NULL)
        return; /* the answer to come is compared with told_from */
    lk_etcd_place_step(p, LK_ETCD_ENTERED);
    if (!lk_etcd_place_ask_locked(e, p))
        lk_etcd_place_tell_locked(e, p);
}

/* Record that the place's key exists, and that no key is ahead of it. */
static void is_first(lk_etcd_place *p, int64_t sent)
{
    lk_etcd_place_step(p, LK_ETCD_FIRST);
    p->seen = sent;
    p->unproven = p->prover != LK_ETCD_ANY_MEMBER;
}

/* Judge the place, whose key exists, by the keys ahead: those answers begin with the n-th. */
static void judge_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, size_t n, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const first = lk_etcd_ranged(done, n), *const second =
                                                                       lk_etcd_ranged(done, n + 1);
    const bool permits = p->permits > 0;
    const LkEtcdPb__KeyValue *const ahead = latest(p, first, permits ? NULL : second);
    lk_etcd_place_step(p, LK_ETCD_ENTERED);
    if (first == NULL || (second == NULL && (permits || p->mode == LOCKER_SHARED)))
        return; /* no server answers so */
    *crowd_locked(e, p) = lk_time_later(0, lk_time_earlier(first->count, READ_MOST));
    if (ahead != NULL) {
        behind_locked(e, p, ahead, done->header->revision);
    } else if (permits) {
        p->slot = free_slot(p, second, 0);
        if (p->slot < 0)
            behind_locked(e, p, NULL, done->header->revision);
    } else {
        is_first(p, sent);
    }
}

/* Judge the place by its predecessor alone. If the predecessor has gone, keys before it may remain. */
static void checked_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const predecessor = lk_etcd_ranged(done, 1);
    lk_etcd_place_step(p, LK_ETCD_ENTERED);
    if (predecessor == NULL)
        return; /* no server answers so */
    if (predecessor->n_kvs > 0 && predecessor->kvs[0]->create_revision == p->behind) {
        behind_locked(e, p, predecessor->kvs[0], done->header->revision);
    } else if (lk_etcd_place_is_second_locked(e, p)) {
        is_first(p, sent);
    } else {
        lk_etcd_place_follow(p, NULL);
    }
}

/* Record that the request made the place's key. What was known of an earlier key and its lease counts no
 * more. */
static void made_locked(lk_etcd *e, lk_etcd_place *p, int64_t revision) LK_REQUIRES(*e->net)
{
    lk_etcd_first_at(e, revision)->created =
        0; /* the revision was another key's, in data that the servers have lost */
    p->created = revision;
    lk_etcd_flight_settled(&p->ask);
    lk_etcd_flight_settled(&p->move);
    lk_etcd_place_on_lease_locked(e, p, p->asked_on, revision);
}

static void entered_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const own = done->succeeded ? NULL : lk_etcd_ranged(done, 0);
    const LkEtcdPb__KeyValue *const other = done->succeeded ? NULL : other_use(done, 1);
    if (done->succeeded) {
        made_locked(e, p, done->header->revision);
        if (p->want != LK_ETCD_WAIT)
            is_first(p, sent);
        else
            judge_locked(e, p, done, 1, sent);
    } else if (own != NULL && own->n_kvs > 0 &&
               !lk_etcd_may_come(p->ask)) { /* an earlier use of the name made it, in restored data */
        p->spent = true;
        lk_etcd_place_step(p, LK_ETCD_GONE);
    } else if (own != NULL && own->n_kvs > 0) { /* an unanswered request before this one made it */
        lk_etcd_place_is_locked(e, p, own->kvs[0]);
        lk_etcd_place_step(p, p->want != LK_ETCD_WAIT ? LK_ETCD_FIRST : LK_ETCD_ENTERED);
        p->seen = sent;
    } else if (other != NULL) {
        other_locked(e, p, other);
    } else if (own != NULL && p->want != LK_ETCD_WAIT) {
        lk_etcd_place_step(p, LK_ETCD_TAKEN);
    }
}

static void looked_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__TxnDone *done, int64_t sent)
    LK_REQUIRES(*e->net)
{
    const LkEtcdPb__Ranged *const own = done->succeeded ? lk_etcd_ranged(done, 0) : NULL;
    const uint64_t member = done->header->member_id;
    if (p->prover != LK_ETCD_ANY_MEMBER) {
        lk_etcd_answered_by_locked(e->net, member);
        p->prover = p->prover != 0 && member == p->prover ? LK_ETCD_ANY_MEMBER : 0;
    }
    p->unproven = !done->succeeded && p->prover == 0;
    if (p->unproven) {
        lk_etcd_place_step(p, LK_ETCD_ENTERED);
    } else if (!done->succeeded || (own != NULL && own->n_kvs == 1 && !lk_etcd_place_owns(p, own->kvs[0]))) {
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
    } else if (own != NULL && own->n_kvs == 1) {
        if (own->kvs[0]->mod_revision >=
            p->modified) /* else a move has changed the key since, and its answer came first */
            lk_etcd_place_is_locked(e, p, own->kvs[0]);
        if (p->asked == LK_ETCD_CHECK)
            checked_locked(e, p, done, sent);
        else if (has_permit(p))
            is_first(p, sent);
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
    p->slot = free_slot(p, slots, wants->count); /* each waiter is about to take one slot */
    p->want = wants->count > 0 ? LK_ETCD_TRY_BESIDE : LK_ETCD_TRY;
    if (other != NULL)
        other_locked(e, p, other);
    else
        lk_etcd_place_step(p, p->slot >= 0 ? LK_ETCD_NOTHING : LK_ETCD_TAKEN); /* it takes that slot next */
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
        lk_etcd_key key;
        lk_etcd_slot_key(p->base, p->permits, p->slot, &key);
        lk_etcd_place_name(p, &key);
        if (done->succeeded)
            made_locked(e, p, done->header->revision);
        else
            lk_etcd_place_is_locked(e, p, slot->kvs[0]);
        lk_etcd_place_step(p, LK_ETCD_FIRST);
        p->seen = sent;
        return;
    }
    p->slot = -1; /* another claim was faster: the next question looks again */
    lk_etcd_flight_settled(&p->ask);
    if (p->want == LK_ETCD_WAIT && own->n_kvs == 0)
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
}

static void refused_locked(lk_etcd *e, lk_etcd_place *p, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    if (reply->status == LK_ETCD_NOT_FOUND) {
        lk_etcd_lease_dead_locked(e, p->asked_on);
        if (p->asked == LK_ETCD_TAKE && p->want == LK_ETCD_WAIT)
            lk_etcd_flight_settled(
                &p->ask); /* an earlier TAKE would have made the permit on this lease, which has ended */
        if (!lk_etcd_may_come(p->ask))
            p->slot = -1; /* it looks again, and is moved to another lease */
        return;
    }
    lk_etcd_place_step(p, LK_ETCD_FAILED);
    (void)lk_etcd_error(reply, "taking a lock", p->base, &p->error);
}

/* Forget that the place of this number was FIRST: an unanswered request may make a key of this name that
 * we never learn of. */
static void forget_first_locked(lk_etcd *e, uint64_t number) LK_REQUIRES(*e->net)
{
    for (size_t i = 0; i < LK_ETCD_FIRST_KEPT; i++)
        if (e->first[i].number == number)
            e->first[i].created = 0;
}

static void answered_locked(lk_etcd *e, void *context, const lk_etcd_reply *reply) LK_REQUIRES(*e->net)
{
    lk_etcd_place *p = context;
    const LkEtcdPb__TxnDone *const done = (const LkEtcdPb__TxnDone *)(const void *)reply->message;
    const bool makes = p->asked == LK_ETCD_ENTER || p->asked == LK_ETCD_TAKE,
               doubted = lk_etcd_may_come(p->ask);
    p->requests++; /* keep it until the places behind it in line were let in */
    lk_etcd_heard_locked(e, reply);
    e->reading -= p->reads;
    p->reads = 0;
    p->asked_on->requests--;
    p->unanswered = lk_etcd_unknown(reply->status);
    lk_etcd_flight_ended(&p->ask, makes && p->unanswered);
    if (makes && p->unanswered)
        forget_first_locked(e, p->number);
    p->spent = p->spent || (makes && (reply->status != LK_ETCD_OK || done->header == NULL));
    if (p->unanswered) {
        if (makes)
            lk_etcd_lease_taint_locked(e, p->asked_on);
    } else if (reply->status != LK_ETCD_OK) {
        refused_locked(e, p, reply);
    } else if (done->header == NULL || p->step == LK_ETCD_GONE) {
        if (p->step == LK_ETCD_GONE) /* its end was reported meanwhile */
            lk_etcd_flight_settled(&p->ask);
    } else if (p->asked == LK_ETCD_ENTER) {
        entered_locked(e, p, done, reply->sent);
    } else if (p->asked == LK_ETCD_LOOK || p->asked == LK_ETCD_CHECK) {
        looked_locked(e, p, done, reply->sent);
    } else if (p->asked == LK_ETCD_COUNT) {
        counted_locked(e, p, done);
    } else {
        took_locked(e, p, done, reply->sent);
    }
    if (doubted && !lk_etcd_may_come(p->ask))
        lk_etcd_leases_settle_locked(e);
    const bool goes_on_waiting = p->step == LK_ETCD_BEHIND && !p->unanswered && p->call == NULL &&
                                 (p->asked == LK_ETCD_LOOK || p->asked == LK_ETCD_CHECK);
    if (p->claim == NULL)
        lk_etcd_place_delete_locked(e, p);
    else if (!goes_on_waiting)
        lk_etcd_place_tell_locked(e, p);
    lk_etcd_place_unref_locked(e, p);
    step_out_locked(e, p);
    lk_etcd_place_unref_locked(e, p);
    next_ask_locked(e);
}
