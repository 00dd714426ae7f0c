/* follower.c: a server that follows a leader: it takes its history and its proposals, passes on what its clients write,
 * and tells it which of them it has heard of (Learner, Follower). */
#include "network.h"

#include <stdlib.h>

enum { TRIES = 5, AGAIN_MS = 100 }; /* to connect */

static void send(lk_simzk_server *s, lk_simzk_message message)
{
    message.connection = s->following.connection;
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_QUORUM, s->id, s->following.leader}, &message);
}

/* ------------------------------------------------------------------ becoming one ---- */

static void connect(lk_simzk_server *s)
{
    s->following.connection = ++s->z->serial;
    s->following.again_ms = INT64_MAX;
    s->following.tries++;
    send(s, (lk_simzk_message){.kind = LK_SIMZK_FOLLOWERINFO, .epoch = s->accepted_epoch});
}

void lk_simzk_follow(lk_simzk_server *s, int leader)
{
    s->following = (lk_simzk_following){.leader = leader, .heard_ms = lk_simzk_clock_ms(s)};
    lk_list_init(&s->following.syncs);
    connect(s);
}

void lk_simzk_follow_end(lk_simzk_server *s)
{
    send(s, (lk_simzk_message){.kind = LK_SIMZK_BYE});
    lk_simzk_history_free(&s->following.pending);
    lk_simzk_touches_free(&s->following.touches);
    for (lk_list *link; (link = lk_list_take(&s->following.syncs)) != NULL;)
        free(LK_CONTAINER(link, lk_simzk_sync, link));
}

static void leader_info(lk_simzk_server *s, int64_t epoch)
{
    s->following.accepted = true;
    if (epoch < s->accepted_epoch) {
        s->resigns = true;
        return;
    }
    send(s, (lk_simzk_message){.kind = LK_SIMZK_ACKEPOCH,
                               .epoch = epoch > s->accepted_epoch ? s->current_epoch : -1,
                               .zxid = s->tree.zxid});
    s->accepted_epoch = epoch;
}

/* What the leader doesn't have is forgotten. It is all on the disk at once, where a real server takes a while, which
 * its leader waits for. */
static void take_history(lk_simzk_server *s, const lk_simzk_message *message)
{
    const size_t common = lk_simzk_history_until(&s->tree.history, message->zxid);
    if (common < s->tree.history.count)
        lk_simzk_tree_truncate(&s->tree, common);
    for (size_t i = 0; i < message->history.count; i++)
        lk_simzk_tree_apply(&s->tree, message->history.items[i], NULL, NULL);
    lk_simzk_history_truncate(&s->log, 0);
    for (size_t i = 0; i < s->tree.history.count; i++)
        lk_simzk_history_append(&s->log, s->tree.history.items[i]);
    s->following.synced = true;
}

static void serve(lk_simzk_server *s)
{
    s->election.vote.epoch = s->current_epoch;
    s->serves = s->has_inputs = true;
}

/* ------------------------------------------------------------------ following ---- */

static void proposal(lk_simzk_server *s, lk_simzk_txn *txn)
{
    lk_simzk_history_append(&s->following.pending, txn);
    lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_DISK, s->id, s->id},
                  &(lk_simzk_message){.kind = LK_SIMZK_WRITTEN, .txn = lk_simzk_txn_ref(txn)});
}

void lk_simzk_follow_written(lk_simzk_server *s, const lk_simzk_message *message)
{
    lk_simzk_history_append(&s->log, message->txn);
    send(s, (lk_simzk_message){.kind = LK_SIMZK_ACK, .zxid = message->txn->zxid});
}

static void commit(lk_simzk_server *s)
{
    lk_simzk_following *const f = &s->following;
    lk_simzk_commit_txn(s, f->pending.items[f->committed++]);
    if (f->committed == f->pending.count) {
        lk_simzk_history_truncate(&f->pending, 0);
        f->committed = 0;
    }
}

static void synced(lk_simzk_server *s)
{
    lk_list *const link = lk_list_take(&s->following.syncs);
    if (link == NULL)
        return;
    lk_simzk_sync *const sync = LK_CONTAINER(link, lk_simzk_sync, link);
    lk_simzk_commit_sync(s, sync->session, sync->xid);
    free(sync);
}

static void revalidated(lk_simzk_server *s, const lk_simzk_message *message)
{
    for (lk_list *link = s->connections.next, *next; link != &s->connections; link = next) {
        lk_simzk_connection *const c = LK_CONTAINER(link, lk_simzk_connection, link);
        next = link->next;
        if (c->session == message->session && !c->established)
            lk_simzk_welcome(s, c, message->valid);
    }
}

void lk_simzk_follow_receive(lk_simzk_server *s, lk_simzk_message *message)
{
    lk_simzk_following *const f = &s->following;
    if (message->connection != f->connection)
        return;
    f->heard_ms = lk_simzk_clock_ms(s);
    switch (message->kind) {
    case LK_SIMZK_LEADERINFO:
        leader_info(s, message->epoch);
        break;
    case LK_SIMZK_HISTORY:
        take_history(s, message);
        break;
    case LK_SIMZK_NEWLEADER:
        s->current_epoch = message->epoch;
        send(s, (lk_simzk_message){.kind = LK_SIMZK_ACK, .zxid = message->epoch << 32});
        break;
    case LK_SIMZK_UPTODATE:
        serve(s);
        break;
    case LK_SIMZK_PROPOSAL:
        proposal(s, message->txn);
        break;
    case LK_SIMZK_COMMIT:
        commit(s);
        break;
    case LK_SIMZK_SYNCED:
        synced(s);
        break;
    case LK_SIMZK_PINGED:
        send(s, (lk_simzk_message){.kind = LK_SIMZK_TOUCHED, .touches = lk_simzk_touches_take(&f->touches)});
        break;
    case LK_SIMZK_REVALIDATE:
        revalidated(s, message);
        break;
    default: /* BYE */
        if (f->accepted || f->tries == TRIES)
            s->resigns = true;
        else
            f->again_ms = lk_simzk_clock_ms(s) + AGAIN_MS;
        break;
    }
}

/* ------------------------------------------------------------------ clients ---- */

static void pass_on(lk_simzk_server *s, const lk_simzk_call *call)
{
    lk_simzk_call *const copy = lk_simzk_call_new(call->kind, NULL, call->session, call->body);
    copy->timeout_ms = call->timeout_ms;
    send(s, (lk_simzk_message){.kind = LK_SIMZK_REQUEST, .call = copy});
}

void lk_simzk_follow_request(lk_simzk_server *s, lk_simzk_call *call)
{
    if (lk_simzk_call_writes(call)) {
        pass_on(s, call);
    } else if (lk_simzk_call_asks(call) == LK_SIMZK_SYNC) {
        lk_simzk_sync *const sync = lk_simzk_alloc(sizeof *sync);
        *sync = (lk_simzk_sync){.session = call->session, .xid = lk_simzk_call_xid(call)};
        lk_list_append(&s->following.syncs, &sync->link);
        pass_on(s, call);
    }
    lk_simzk_commit_submit(s, call);
}

void lk_simzk_follow_revalidate(lk_simzk_server *s, const lk_simzk_connection *c)
{
    send(s,
         (lk_simzk_message){.kind = LK_SIMZK_REVALIDATE, .session = c->session, .timeout_ms = c->timeout_ms});
}

/* ------------------------------------------------------------------ time ---- */

static int64_t patience_ms(const lk_simzk_server *s)
{
    const int32_t ticks = s->serves ? s->z->setup.sync_limit : s->z->setup.init_limit;
    return s->following.heard_ms + (int64_t)ticks * s->z->setup.tick_ms;
}

int64_t lk_simzk_follow_due(const lk_simzk_server *s)
{
    const int64_t patience = patience_ms(s);
    return patience < s->following.again_ms ? patience : s->following.again_ms;
}

void lk_simzk_follow_tick(lk_simzk_server *s)
{
    const int64_t now = lk_simzk_clock_ms(s);
    if (now >= patience_ms(s))
        s->resigns = true;
    else if (now >= s->following.again_ms)
        connect(s);
}
