/* leader.c: a server that leads, or is alone: it brings the others to its history, orders what is written, and ends
 * sessions (Leader, LearnerHandler). */
#include "network.h"

#include <stdlib.h>

static int64_t ticks_ms(const lk_simzk_server *s, int32_t ticks)
{
    return (int64_t)ticks * s->z->setup.tick_ms;
}

/* ------------------------------------------------------------------ followers ---- */

static void send(lk_simzk_server *s, int to, lk_simzk_message message)
{
    message.connection = s->leading.followers[to].connection;
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_QUORUM, s->id, to}, &message);
}

/* To all that follow already. */
static void send_all(lk_simzk_server *s, lk_simzk_message_kind kind, lk_simzk_txn *txn)
{
    for (int i = 0; i < s->z->setup.servers; i++)
        if (s->leading.followers[i].told)
            send(s, i, (lk_simzk_message){.kind = kind, .zxid = txn->zxid, .txn = lk_simzk_txn_ref(txn)});
}

/* It has to acknowledge a proposal in time. */
static void asked(lk_simzk_server *s, int follower, int64_t zxid)
{
    lk_simzk_follower *const f = &s->leading.followers[follower];
    const int64_t now = lk_simzk_clock_ms(s);
    if (!f->synced)
        return;
    if (f->asked_ms == 0) {
        f->asked_ms = now;
        f->asked_zxid = zxid;
    } else {
        f->next_ms = now;
        f->next_zxid = zxid;
    }
}

static void acknowledged(lk_simzk_follower *f, int64_t zxid)
{
    if (f->asked_zxid == zxid) {
        f->asked_ms = f->next_ms;
        f->asked_zxid = f->next_zxid;
        f->next_ms = f->next_zxid = 0;
    } else if (f->next_zxid == zxid) {
        f->next_ms = f->next_zxid = 0;
    }
}

void lk_simzk_lead_lost(lk_simzk_server *s, int follower)
{
    s->leading.followers[follower] = (lk_simzk_follower){0};
}

static void dismiss(lk_simzk_server *s, int follower)
{
    send(s, follower, (lk_simzk_message){.kind = LK_SIMZK_BYE});
    lk_simzk_lead_lost(s, follower);
}

static int count_followers(const lk_simzk_server *s, bool (*is_one)(const lk_simzk_follower *f))
{
    int count = 1; /* itself */
    for (int i = 0; i < s->z->setup.servers; i++)
        count += i != s->id && is_one(&s->leading.followers[i]);
    return count;
}

static bool is_connected(const lk_simzk_follower *f)
{
    return f->connection != 0;
}

static bool has_acked_epoch(const lk_simzk_follower *f)
{
    return f->epoch_acked;
}

static bool is_synced(const lk_simzk_follower *f)
{
    return f->synced;
}

/* ------------------------------------------------------------------ proposals ---- */

static void try_to_commit(lk_simzk_server *s)
{
    lk_list *const first = lk_list_first(&s->leading.proposals);
    lk_simzk_proposal *const proposal = first != NULL ? LK_CONTAINER(first, lk_simzk_proposal, link) : NULL;
    if (proposal == NULL || !lk_simzk_is_majority(s->z, __builtin_popcount(proposal->acks)))
        return;
    lk_list_remove(first);
    s->leading.committed = proposal->txn->zxid;
    send_all(s, LK_SIMZK_COMMIT, proposal->txn); /* before it changes anything itself */
    lk_simzk_commit_txn(s, proposal->txn);
    for (lk_list *link = s->leading.syncs.next, *next; link != &s->leading.syncs; link = next) {
        lk_simzk_sync *const sync = LK_CONTAINER(link, lk_simzk_sync, link);
        next = link->next;
        if (sync->zxid > s->leading.committed)
            break;
        if (s->leading.followers[sync->from].connection == sync->connection)
            send(s, sync->from, (lk_simzk_message){.kind = LK_SIMZK_SYNCED});
        lk_list_remove(link);
        free(sync);
    }
    lk_simzk_txn_unref(proposal->txn);
    free(proposal);
}

static void ack(lk_simzk_server *s, int from, int64_t zxid)
{
    LK_LIST_EACH(link, &s->leading.proposals) {
        lk_simzk_proposal *const proposal = LK_CONTAINER(link, lk_simzk_proposal, link);
        if (proposal->txn->zxid == zxid)
            proposal->acks |= 1u << from;
    }
    try_to_commit(s);
}

static void propose(lk_simzk_server *s, lk_simzk_txn *txn)
{
    lk_simzk_proposal *const proposal = lk_simzk_alloc(sizeof *proposal);
    proposal->txn = lk_simzk_txn_ref(txn);
    lk_list_append(&s->leading.proposals, &proposal->link);
    for (int i = 0; i < s->z->setup.servers; i++)
        if (s->leading.followers[i].told)
            asked(s, i, txn->zxid);
    send_all(s, LK_SIMZK_PROPOSAL, txn);
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_DISK, s->id, s->id},
                  &(lk_simzk_message){.kind = LK_SIMZK_WRITTEN, .txn = lk_simzk_txn_ref(txn)});
}

static void prepare(lk_simzk_server *s, lk_simzk_call *call)
{
    s->leading.preparation.time_ms = lk_simzk_clock_ms(s);
    lk_simzk_prepare(&s->leading.preparation, call);
}

/* A server that is alone answers in the order of arrival, once what came before is on the disk. */
static void request_alone(lk_simzk_server *s, lk_simzk_call *call)
{
    const lk_simzk_link disk = {LK_SIMZK_DISK, s->id, s->id};
    if (call->txn == NULL && s->z->counts[disk.channel][disk.from][disk.to] == 0)
        lk_simzk_final(s, call);
    else
        lk_simzk_post(s->z, disk, &(lk_simzk_message){.kind = LK_SIMZK_WRITTEN, .call = call});
}

void lk_simzk_lead_request(lk_simzk_server *s, lk_simzk_call *call)
{
    prepare(s, call);
    if (lk_simzk_is_alone(s)) {
        request_alone(s, call);
        return;
    }
    lk_simzk_txn *const txn = call->txn != NULL ? lk_simzk_txn_ref(call->txn) : NULL;
    if (call->connection != NULL)
        lk_simzk_commit_submit(s, call);
    else
        lk_simzk_call_free(call);
    if (txn != NULL)
        propose(s, txn);
    lk_simzk_txn_unref(txn);
}

void lk_simzk_lead_written(lk_simzk_server *s, lk_simzk_message *message)
{
    lk_simzk_call *const call = message->call;
    if (message->txn != NULL) {
        lk_simzk_history_append(&s->log, message->txn);
        ack(s, s->id, message->txn->zxid);
    } else if (call != NULL) { /* of a server that is alone */
        if (call->txn != NULL)
            lk_simzk_history_append(&s->log, call->txn);
        message->call = NULL;
        lk_simzk_final(s, call);
    }
}

/* ------------------------------------------------------------------ requests of followers ---- */

static void follower_sync(lk_simzk_server *s, int from, const lk_simzk_call *call)
{
    const lk_list *const last = lk_list_empty(&s->leading.proposals) ? NULL : s->leading.proposals.prev;
    if (last == NULL) {
        send(s, from, (lk_simzk_message){.kind = LK_SIMZK_SYNCED});
        return;
    }
    lk_simzk_sync *const sync = lk_simzk_alloc(sizeof *sync);
    *sync = (lk_simzk_sync){.from = from,
                            .connection = call->owner,
                            .zxid = LK_CONTAINER(last, lk_simzk_proposal, link)->txn->zxid};
    lk_list_append(&s->leading.syncs, &sync->link);
}

static void follower_request(lk_simzk_server *s, int from, lk_simzk_message *message)
{
    lk_simzk_call *const call = message->call;
    message->call = NULL;
    call->owner = s->leading.followers[from].connection;
    if (lk_simzk_call_writes(call)) {
        lk_simzk_lead_request(s, call);
        return;
    }
    follower_sync(s, from, call);
    lk_simzk_call_free(call);
}

static void revalidate(lk_simzk_server *s, int from, const lk_simzk_message *message)
{
    const bool valid =
        lk_simzk_tracker_touch(&s->tracker, message->session, message->timeout_ms, lk_simzk_clock_ms(s));
    if (valid)
        lk_simzk_tracker_own(&s->tracker, message->session, message->connection);
    send(s, from,
         (lk_simzk_message){.kind = LK_SIMZK_REVALIDATE, .session = message->session, .valid = valid});
}

/* ------------------------------------------------------------------ becoming one ---- */

/* All that it has, as far as the follower has not; and what is under way. */
static void tell_history(lk_simzk_server *s, int to)
{
    const lk_simzk_history *const mine = &s->tree.history;
    const size_t common = lk_simzk_history_until(mine, s->leading.followers[to].zxid);
    lk_simzk_message message = {.kind = LK_SIMZK_HISTORY,
                                .zxid = common > 0 ? mine->items[common - 1]->zxid : 0};
    for (size_t i = common; i < mine->count; i++)
        lk_simzk_history_append(&message.history, mine->items[i]);
    send(s, to, message);
    LK_LIST_EACH(link, &s->z->links[LK_SIMZK_APPLY][s->id][s->id]) {
        lk_simzk_txn *const txn = LK_CONTAINER(link, lk_simzk_message, link)->txn;
        send(s, to, (lk_simzk_message){.kind = LK_SIMZK_PROPOSAL, .txn = lk_simzk_txn_ref(txn)});
        send(s, to, (lk_simzk_message){.kind = LK_SIMZK_COMMIT, .zxid = txn->zxid});
    }
    LK_LIST_EACH(link, &s->leading.proposals)
        send(s, to,
             (lk_simzk_message){.kind = LK_SIMZK_PROPOSAL,
                                .txn = lk_simzk_txn_ref(LK_CONTAINER(link, lk_simzk_proposal, link)->txn)});
    send(s, to, (lk_simzk_message){.kind = LK_SIMZK_NEWLEADER, .epoch = s->leading.epoch});
    s->leading.followers[to].told = true;
}

static void serve(lk_simzk_server *s)
{
    lk_simzk_leading *const l = &s->leading;
    const int64_t now = lk_simzk_clock_ms(s);
    l->phase = LK_SIMZK_BROADCASTING;
    l->half_tick_ms = now + s->z->setup.tick_ms / 2;
    l->container_ms = now + s->z->setup.container_check_ms;
    l->preparation = (lk_simzk_preparation){.tree = &s->tree,
                                            .tracker = &s->tracker,
                                            .alone = lk_simzk_is_alone(s),
                                            .is_3_9 = s->z->setup.is_3_9,
                                            .zxid = s->tree.zxid};
    lk_simzk_tracker_free(&s->tracker);
    lk_simzk_tracker_init(&s->tracker, s->z->setup.tick_ms, now);
    for (size_t i = 0; i < s->tree.session_count; i++)
        lk_simzk_tracker_add(&s->tracker, s->tree.sessions[i].id, s->tree.sessions[i].timeout_ms, now);
    s->serves = s->has_inputs = true;
}

/* A majority has its history. */
static void establish(lk_simzk_server *s)
{
    s->leading.committed = s->tree.zxid = s->leading.epoch << 32;
    s->election.vote.epoch = s->leading.epoch;
    serve(s);
    for (int i = 0; i < s->z->setup.servers; i++)
        if (s->leading.followers[i].synced)
            send(s, i, (lk_simzk_message){.kind = LK_SIMZK_UPTODATE});
}

static void tell_epoch(lk_simzk_server *s, int to)
{
    lk_simzk_follower *const f = &s->leading.followers[to];
    if (f->connection == 0 || f->epoch_told)
        return;
    f->epoch_told = true;
    send(s, to, (lk_simzk_message){.kind = LK_SIMZK_LEADERINFO, .epoch = s->leading.epoch});
}

static void follower_info(lk_simzk_server *s, int from, const lk_simzk_message *message)
{
    lk_simzk_leading *const l = &s->leading;
    l->followers[from] =
        (lk_simzk_follower){.connection = message->connection,
                            .heard_ms = lk_simzk_clock_ms(s),
                            .tick_deadline = l->ticks + s->z->setup.init_limit + s->z->setup.sync_limit};
    if (!l->decided && message->epoch >= l->epoch)
        l->epoch = message->epoch + 1;
    if (!l->decided && lk_simzk_is_majority(s->z, count_followers(s, is_connected))) {
        l->decided = true;
        s->accepted_epoch = l->epoch;
    }
    for (int i = 0; l->decided && i < s->z->setup.servers; i++)
        tell_epoch(s, i);
}

static void ack_epoch(lk_simzk_server *s, int from, const lk_simzk_message *message)
{
    lk_simzk_leading *const l = &s->leading;
    lk_simzk_follower *const f = &l->followers[from];
    const bool ahead =
        message->epoch > s->current_epoch || (message->epoch == s->current_epoch && message->zxid > l->zxid);
    f->zxid = message->zxid;
    f->answered = true;
    if (l->phase == LK_SIMZK_DISCOVERING && message->epoch != -1 && ahead) {
        dismiss(s, from);
        return;
    }
    f->epoch_acked = l->phase != LK_SIMZK_DISCOVERING || message->epoch != -1;
    if (l->phase != LK_SIMZK_DISCOVERING) {
        tell_history(s, from);
    } else if (lk_simzk_is_majority(s->z, count_followers(s, has_acked_epoch))) {
        l->phase = LK_SIMZK_SYNCHRONIZING;
        l->until_ms = lk_simzk_clock_ms(s) + ticks_ms(s, s->z->setup.init_limit);
        s->current_epoch = l->epoch;
        for (int i = 0; i < s->z->setup.servers; i++)
            if (l->followers[i].answered)
                tell_history(s, i);
    }
}

static void ack_history(lk_simzk_server *s, int from)
{
    lk_simzk_leading *const l = &s->leading;
    l->followers[from].synced = true;
    if (l->phase == LK_SIMZK_BROADCASTING)
        send(s, from, (lk_simzk_message){.kind = LK_SIMZK_UPTODATE});
    else if (lk_simzk_is_majority(s->z, count_followers(s, is_synced)))
        establish(s);
}

void lk_simzk_lead(lk_simzk_server *s)
{
    lk_simzk_leading *const l = &s->leading;
    *l = (lk_simzk_leading){.zxid = s->tree.zxid, .epoch = s->accepted_epoch + 1};
    lk_list_init(&l->proposals);
    lk_list_init(&l->syncs);
    l->until_ms = lk_simzk_clock_ms(s) + ticks_ms(s, s->z->setup.init_limit);
    if (lk_simzk_is_alone(s))
        serve(s);
}

void lk_simzk_lead_end(lk_simzk_server *s)
{
    for (int i = 0; i < s->z->setup.servers; i++)
        if (s->leading.followers[i].connection != 0)
            dismiss(s, i);
    for (lk_list *link; (link = lk_list_take(&s->leading.proposals)) != NULL;) {
        lk_simzk_proposal *const proposal = LK_CONTAINER(link, lk_simzk_proposal, link);
        lk_simzk_txn_unref(proposal->txn);
        free(proposal);
    }
    for (lk_list *link; (link = lk_list_take(&s->leading.syncs)) != NULL;)
        free(LK_CONTAINER(link, lk_simzk_sync, link));
    lk_simzk_preparation_free(&s->leading.preparation);
    lk_simzk_tracker_free(&s->tracker);
}

void lk_simzk_lead_receive(lk_simzk_server *s, int from, lk_simzk_message *message)
{
    lk_simzk_follower *const f = &s->leading.followers[from];
    if (message->kind == LK_SIMZK_FOLLOWERINFO) {
        follower_info(s, from, message);
        return;
    }
    if (f->connection != message->connection)
        return;
    f->heard_ms = lk_simzk_clock_ms(s);
    f->tick_deadline = s->leading.ticks + s->z->setup.sync_limit;
    switch (message->kind) {
    case LK_SIMZK_ACKEPOCH:
        ack_epoch(s, from, message);
        break;
    case LK_SIMZK_ACK:
        acknowledged(f, message->zxid);
        if ((message->zxid & UINT32_MAX) == 0)
            ack_history(s, from);
        else
            ack(s, from, message->zxid);
        break;
    case LK_SIMZK_REQUEST:
        follower_request(s, from, message);
        break;
    case LK_SIMZK_REVALIDATE:
        revalidate(s, from, message);
        break;
    case LK_SIMZK_TOUCHED:
        for (size_t i = 0; i < message->touches.count; i++)
            (void)lk_simzk_tracker_touch(&s->tracker, message->touches.items[i].session,
                                         message->touches.items[i].timeout_ms, lk_simzk_clock_ms(s));
        break;
    default:
        lk_simzk_lead_lost(s, from);
        break;
    }
}

/* ------------------------------------------------------------------ time ---- */

/* A follower that has not acknowledged a proposal for too long is given up. */
static void ping(lk_simzk_server *s, int to)
{
    const lk_simzk_follower *const f = &s->leading.followers[to];
    if (f->asked_ms != 0 && lk_simzk_clock_ms(s) - f->asked_ms >= ticks_ms(s, s->z->setup.sync_limit))
        dismiss(s, to);
    else
        send(s, to, (lk_simzk_message){.kind = LK_SIMZK_PINGED});
}

static void half_tick(lk_simzk_server *s)
{
    lk_simzk_leading *const l = &s->leading;
    int heard = 1;
    l->half_tick_ms = lk_simzk_clock_ms(s) + s->z->setup.tick_ms / 2;
    if (l->half)
        l->ticks++;
    for (int i = 0; i < s->z->setup.servers; i++)
        heard += l->followers[i].connection != 0 && l->ticks <= l->followers[i].tick_deadline;
    if (l->half && !lk_simzk_is_majority(s->z, heard))
        s->resigns = true;
    l->half = !l->half;
    for (int i = 0; !s->resigns && i < s->z->setup.servers; i++)
        if (l->followers[i].told)
            ping(s, i);
}

static void expire(lk_simzk_server *s)
{
    const int64_t now = lk_simzk_clock_ms(s);
    while (s->tracker.next_ms <= now)
        for (int64_t session; (session = lk_simzk_tracker_expire(&s->tracker, now)) != 0;)
            lk_simzk_lead_request(s, lk_simzk_call_new(LK_SIMZK_CALL_CLOSE_SESSION, NULL, session, NULL));
}

/* Containers that had children, and have none. */
static void remove_containers(lk_simzk_server *s)
{
    s->leading.container_ms = lk_simzk_clock_ms(s) + s->z->setup.container_check_ms;
    LK_LIST_EACH(link, &s->tree.containers) {
        const lk_simzk_node *const node = LK_CONTAINER(link, lk_simzk_node, special);
        if (node->count > 0 || node->cversion == 0)
            continue;
        lk_simzk_call *const call = lk_simzk_call_new(LK_SIMZK_CALL_DELETE_CONTAINER, NULL, 0, NULL);
        call->path = node->path;
        lk_simzk_lead_request(s, call);
    }
}

/* When a follower that says nothing is given up. */
static int64_t patience_ms(const lk_simzk_server *s, const lk_simzk_follower *f)
{
    return f->heard_ms + ticks_ms(s, f->synced ? s->z->setup.sync_limit : s->z->setup.init_limit);
}

static int64_t earlier(int64_t one, int64_t other)
{
    return one < other ? one : other;
}

int64_t lk_simzk_lead_due(const lk_simzk_server *s)
{
    const lk_simzk_leading *const l = &s->leading;
    int64_t due = l->until_ms;
    if (l->phase == LK_SIMZK_BROADCASTING) {
        due = earlier(s->tracker.next_ms, l->container_ms);
        if (!lk_simzk_is_alone(s))
            due = earlier(due, l->half_tick_ms);
    }
    for (int i = 0; i < s->z->setup.servers; i++)
        if (l->followers[i].connection != 0)
            due = earlier(due, patience_ms(s, &l->followers[i]));
    return due;
}

void lk_simzk_lead_tick(lk_simzk_server *s)
{
    lk_simzk_leading *const l = &s->leading;
    const int64_t now = lk_simzk_clock_ms(s);
    for (int i = 0; i < s->z->setup.servers; i++)
        if (l->followers[i].connection != 0 && now >= patience_ms(s, &l->followers[i]))
            dismiss(s, i);
    if (l->phase != LK_SIMZK_BROADCASTING) {
        s->resigns |= now >= l->until_ms;
        return;
    }
    if (s->tracker.next_ms <= now)
        expire(s);
    if (l->container_ms <= now)
        remove_containers(s);
    if (!lk_simzk_is_alone(s) && l->half_tick_ms <= now)
        half_tick(s);
}
