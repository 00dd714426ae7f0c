/* server.c: one server: it starts, looks for a leader, leads or follows, and ends. */
#include "network.h"

/* ------------------------------------------------------------------ roles ---- */

static void end_role(lk_simzk_server *s)
{
    if (s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_end(s);
    if (s->role == LK_SIMZK_FOLLOWING)
        lk_simzk_follow_end(s);
    s->role = LK_SIMZK_LOOKING;
    s->serves = s->resigns = false;
    lk_simzk_hang_up_all(s);
    lk_simzk_calls_free(&s->waiting);
    lk_simzk_drop(s->z, (lk_simzk_link){LK_SIMZK_APPLY, s->id, s->id});
}

static void write_all(lk_simzk_server *s)
{
    const lk_simzk_link disk = {LK_SIMZK_DISK, s->id, s->id};
    for (lk_simzk_message *message; (message = lk_simzk_fetch(s->z, disk)) != NULL;) {
        lk_simzk_txn *const txn = message->call != NULL ? message->call->txn : message->txn;
        if (txn != NULL)
            lk_simzk_history_append(&s->log, txn);
        lk_simzk_message_free(message);
    }
}

/* All that is on its disk counts, committed or not: that is its history. */
static void apply_log(lk_simzk_server *s)
{
    for (size_t i = lk_simzk_history_until(&s->log, s->tree.zxid); i < s->log.count; i++)
        lk_simzk_tree_apply(&s->tree, s->log.items[i], NULL, NULL);
}

static void look_for_leader(lk_simzk_server *s)
{
    if (lk_simzk_is_alone(s)) {
        s->role = LK_SIMZK_LEADING;
        lk_simzk_lead(s);
    } else {
        lk_simzk_elect(s);
    }
}

static void resign(lk_simzk_server *s)
{
    end_role(s);
    write_all(s);
    apply_log(s);
    look_for_leader(s);
}

static void take_role(lk_simzk_server *s)
{
    const int leader = lk_simzk_elected(s);
    if (leader < 0)
        return;
    s->role = leader == s->id ? LK_SIMZK_LEADING : LK_SIMZK_FOLLOWING;
    if (leader == s->id)
        lk_simzk_lead(s);
    else
        lk_simzk_follow(s, leader);
}

void lk_simzk_server_settle(lk_simzk_server *s)
{
    if (!s->running || s->stopped)
        return;
    if (s->resigns)
        resign(s);
    if (s->role == LK_SIMZK_LOOKING)
        take_role(s);
    lk_simzk_serve(s);
}

/* ------------------------------------------------------------------ life ---- */

void lk_simzk_server_start(lk_simzk_server *s)
{
    s->running = true;
    s->stopped = false;
    s->watches.tells_zxid = s->z->setup.is_3_9;
    lk_simzk_tree_init(&s->tree);
    lk_simzk_tracker_init(&s->tracker, s->z->setup.tick_ms, lk_simzk_clock_ms(s));
    apply_log(s);
    look_for_leader(s);
}

/* Those that were connected with it see that, as soon as it is delivered. */
static void say_bye(const lk_simzk_server *s)
{
    for (int i = 0; i < s->z->setup.servers; i++) {
        const lk_simzk_server *const other = &s->z->servers[i];
        const bool follows =
            other->running && other->role == LK_SIMZK_FOLLOWING && other->following.leader == s->id;
        const bool leads = other->running && other->role == LK_SIMZK_LEADING && i != s->id;
        const uint64_t connection = follows ? other->following.connection
                                    : leads ? other->leading.followers[s->id].connection
                                            : 0;
        if (connection != 0)
            lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_QUORUM, s->id, i},
                          &(lk_simzk_message){.kind = LK_SIMZK_BYE, .connection = connection});
    }
}

void lk_simzk_server_crash(lk_simzk_server *s, bool written)
{
    if (written)
        write_all(s);
    end_role(s);
    lk_simzk_drop_all(s->z, s->id);
    s->running = s->stopped = s->has_inputs = false;
    say_bye(s);
    lk_simzk_server_end(s);
}

void lk_simzk_server_end(lk_simzk_server *s)
{
    lk_simzk_tracker_free(&s->tracker);
    lk_simzk_watches_free(&s->watches);
    lk_simzk_tree_free(&s->tree);
    s->tree = (lk_simzk_tree){0};
}

/* ------------------------------------------------------------------ messages ---- */

/* Nobody leads there. */
static void refuse(const lk_simzk_server *s, int from, const lk_simzk_message *message)
{
    if (message->kind == LK_SIMZK_FOLLOWERINFO)
        lk_simzk_post(s->z, (lk_simzk_link){LK_SIMZK_QUORUM, s->id, from},
                      &(lk_simzk_message){.kind = LK_SIMZK_BYE, .connection = message->connection});
}

static void receive_quorum(lk_simzk_server *s, int from, lk_simzk_message *message)
{
    if (s->running && s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_receive(s, from, message);
    else if (s->running && s->role == LK_SIMZK_FOLLOWING && message->kind != LK_SIMZK_FOLLOWERINFO)
        lk_simzk_follow_receive(s, message);
    else
        refuse(s, from, message);
}

void lk_simzk_server_receive(lk_simzk_server *s, lk_simzk_link link, lk_simzk_message *message)
{
    if (link.channel == LK_SIMZK_QUORUM)
        receive_quorum(s, link.from, message);
    else if (!s->running)
        return;
    else if (link.channel == LK_SIMZK_VOTES)
        lk_simzk_elect_receive(s, link.from, &message->vote);
    else if (link.channel == LK_SIMZK_APPLY)
        lk_simzk_commit_apply(s, message);
    else if (s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_written(s, message);
    else if (s->role == LK_SIMZK_FOLLOWING)
        lk_simzk_follow_written(s, message);
}

void lk_simzk_server_cut(lk_simzk_server *s, int from)
{
    if (s->running && s->role == LK_SIMZK_FOLLOWING && s->following.leader == from)
        s->resigns = true;
    if (s->running && s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_lost(s, from);
}

/* ------------------------------------------------------------------ time ---- */

int64_t lk_simzk_server_due(const lk_simzk_server *s)
{
    if (!s->running || s->stopped)
        return INT64_MAX;
    return lk_simzk_clock_when(s, s->role == LK_SIMZK_LEADING     ? lk_simzk_lead_due(s)
                                  : s->role == LK_SIMZK_FOLLOWING ? lk_simzk_follow_due(s)
                                                                  : lk_simzk_elect_due(s));
}

void lk_simzk_server_tick(lk_simzk_server *s)
{
    if (s->role == LK_SIMZK_LEADING)
        lk_simzk_lead_tick(s);
    else if (s->role == LK_SIMZK_FOLLOWING)
        lk_simzk_follow_tick(s);
    else
        lk_simzk_elect_tick(s);
}
