/*
 * heartbeat.c: the heartbeat. A server answers pings and reads by itself, even when it is cut off from the
 * majority that may have ended our session long ago. So a multi of checks of all our nodes is sent, every
 * eighth of the session time-out while one of them is a lock, every quarter while all of them wait. The
 * leader has to order it like a write; only its answer extends what we hold (validity.h). A node that is
 * missing shows in the same answer. When it is no heartbeat's turn, a read keeps the session touched.
 *
 * Each quarter a multi of checks of the nodes that we wait for is sent as well. A server that was restarted
 * may have lost a deletion for ever (ZOOKEEPER-4785, ZOOKEEPER-5010), and would never tell of it; the leader
 * knows. Since a server tells of a deletion before it answers what was ordered later, an answer that a node
 * is missing, of which the server has not told, is proof that it won't.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

/* Of one request. A server closes a connection that sends more than its jute.maxbuffer: 1 MB, if nobody has
 * set it to less. */
enum { CHECKS_MAX = 1024, BYTES_MAX = 96 * 1024, CHECK_BYTES = 17 };

/* Eighths of the session time-out: with less than the first no grant is made, with less than the second a
 * heartbeat follows it. */
enum { LEAST = 1, LITTLE = 3 };

/* A request of checks that is being made. */
struct checks {
    zoo_op_t *ops;
    char *paths; /* one behind the other */
    size_t count, used;
};

/* A heartbeat under way. */
struct beat {
    size_t count;
    struct lk_zk_node *nodes[CHECKS_MAX]; /* each is referred to */
    zoo_op_result_t results[CHECKS_MAX];  /* written by the client library */
};

/* Checks under way of nodes that we wait for. */
struct inquiry {
    size_t count;
    char *paths;                         /* one behind the other */
    zoo_op_result_t results[CHECKS_MAX]; /* written by the client library */
};

/* ------------------------------------------------------------------ a request ---- */

static bool checks_begin(struct checks *c)
{
    *c = (struct checks){calloc(CHECKS_MAX, sizeof(*c->ops)), malloc(BYTES_MAX), 0, 0};
    return c->ops != NULL && c->paths != NULL;
}

static void checks_end(struct checks *c)
{
    free(c->ops);
    free(c->paths);
}

static bool has_room(const struct checks *c)
{
    return c->count < CHECKS_MAX && c->used + c->count * CHECK_BYTES + LK_ZK_PATH_MAX <= BYTES_MAX;
}

/* Where the next path goes. */
static char *next_path(const struct checks *c)
{
    return c->paths + c->used;
}

static void add_check(struct checks *c)
{
    zoo_check_op_init(&c->ops[c->count++], next_path(c), -1);
    c->used += strlen(next_path(c)) + 1;
}

/* ------------------------------------------------------------------ our own nodes ---- */

static void extend_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim != NULL && node->granted && node->there)
        z->svc->lease_extended(z->svc, node->claim, lk_zk_earlier(lk_zk_deadline_locked(z), node->cap));
}

static void unanswered_locked(struct lk_zk *z)
{
    if (z->beat_unanswered == 0)
        z->beat_unanswered = lk_zk_now(z);
}

static void beat_now_locked(struct lk_zk *z)
{
    z->beat_at = z->quarter_at = 0;
    lk_zk_keeper_by_locked(z, 0);
}

static void beat_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    static const char why[] = "its node was deleted by somebody else";
    struct beat *b = op->context;
    (void)reply;
    if (rc == ZOK)
        lk_zk_confirm_locked(z, op->sent);
    z->beat_unanswered = 0;
    if (!lk_zk_unknown(rc))
        z->doubted = false;
    for (size_t i = 0; i < b->count; i++) {
        struct lk_zk_node *node = b->nodes[i];
        if (rc == ZOK)
            extend_locked(z, node);
        else if (rc == ZNONODE && b->results[i].err == ZNONODE && node->there && !node->deleting)
            lk_zk_node_vanish_locked(z, node, why);
        if (node->call != NULL)
            lk_zk_call_done_locked(node->call); /* it may have wanted proof, and looks again */
        lk_zk_node_unref_locked(z, node);
    }
    if (rc == ZNONODE) /* the others were not checked */
        beat_now_locked(z);
    free(b);
}

/* One request for as many nodes as it holds, from *next on. False: nothing was sent. */
static bool send_locked(struct lk_zk *z, struct lk_zk_node **next)
{
    struct beat *b = calloc(1, sizeof(*b));
    struct checks c;
    bool sent = false;
    if (!checks_begin(&c) || b == NULL)
        goto out;
    for (; *next != NULL && has_room(&c); *next = (*next)->next) {
        struct lk_zk_node *node = *next;
        if (!node->there || node->deleting)
            continue;
        lk_zk_node_path(z, node, next_path(&c));
        b->nodes[c.count] = node;
        add_check(&c);
    }
    b->count = c.count;
    sent = c.count > 0 && lk_zk_multi_locked(z, c.ops, b->results, c.count, beat_done_locked, b) != NULL;
    if (sent) {
        for (size_t i = 0; i < b->count; i++)
            b->nodes[i]->ops++;
        unanswered_locked(z);
        b = NULL;
    }
out:
    free(b);
    checks_end(&c);
    return sent;
}

/* ------------------------------------------------------------------ nodes that we wait for ---- */

static void inquiry_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct inquiry *q = op->context;
    const char *path = q->paths;
    (void)reply;
    for (size_t i = 0; rc == ZNONODE && i < q->count; i++, path += strlen(path) + 1)
        if (q->results[i].err == ZNONODE)
            lk_zk_watch_missed_locked(z, path);
    free(q->paths);
    free(q);
}

/* One request for as many as it holds, from the watch `from` on; returns the one to go on with, or NULL. */
static const struct lk_zk_watch *inquire_locked(struct lk_zk *z, const struct lk_zk_watch *from)
{
    struct inquiry *q = calloc(1, sizeof(*q));
    struct checks c;
    if (!checks_begin(&c) || q == NULL) {
        from = NULL;
        goto out;
    }
    for (; from != NULL && has_room(&c); from = lk_zk_watch_next_locked(z, from)) {
        (void)strcpy(next_path(&c), from->path);
        add_check(&c);
    }
    q->count = c.count;
    q->paths = c.paths;
    if (lk_zk_multi_locked(z, c.ops, q->results, c.count, inquiry_done_locked, q) != NULL) {
        c.paths = NULL;
        q = NULL;
    }
out:
    free(q);
    checks_end(&c);
    return from;
}

/* ------------------------------------------------------------------ when ---- */

/* When a server that leaves the oldest heartbeat without an answer is left for another one. */
static int64_t leave_at_locked(const struct lk_zk *z)
{
    return z->beat_unanswered == 0 ? LOCKER_NEVER : z->beat_unanswered + z->timeout_ns / 8;
}

static void touch_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    (void)op;
    (void)rc;
    (void)reply;
    z->beat_unanswered = 0; /* answers come in order */
}

static bool holds_locked(const struct lk_zk *z)
{
    const struct lk_zk_node *node = z->nodes;
    while (node != NULL && !node->granted)
        node = node->next;
    return node != NULL;
}

/* A heartbeat if it is time for one and there is anything to check; a touch otherwise. */
static void pulse_locked(struct lk_zk *z, int64_t now)
{
    const bool quarter = now >= z->quarter_at;
    struct lk_zk_node *next = z->nodes;
    bool sent = false;
    z->beat_at = now + z->timeout_ns / 8;
    if (quarter || z->doubted || holds_locked(z))
        while (next != NULL && send_locked(z, &next))
            sent = true;
    if (!sent && lk_zk_touch_locked(z, touch_done_locked) != NULL)
        unanswered_locked(z);
    if (!quarter)
        return;
    z->quarter_at = z->beat_at + z->timeout_ns / 16; /* the next pulse but one, if it comes a bit early */
    for (const struct lk_zk_watch *ahead = lk_zk_watch_next_locked(z, NULL); ahead != NULL;)
        ahead = inquire_locked(z, ahead);
}

int64_t lk_zk_beat_locked(struct lk_zk *z, int64_t now)
{
    if (z->up && now >= leave_at_locked(z)) {
        z->beat_unanswered = now; /* where there is no other one, that is looked at again later */
        if (z->doubted)
            lk_zk_reconnect_locked(z, "a heartbeat has no answer, and the session may have ended");
        else
            lk_zk_leave_server_locked(z, "a heartbeat has no answer");
    }
    if (!z->up)
        return LOCKER_NEVER; /* after a reconnection it is due at once */
    if (now >= z->beat_at)
        pulse_locked(z, now);
    return lk_zk_earlier(z->beat_at, leave_at_locked(z));
}

/* A server doesn't tell a connection whose session was closed by another one, and answers nothing to it, not
 * even pings. So a heartbeat is due at once, and without an answer a new connection has to tell. */
void lk_zk_doubt_locked(struct lk_zk *z)
{
    z->doubted = true;
    beat_now_locked(z);
}

bool lk_zk_enough_locked(struct lk_zk *z, int64_t now)
{
    const int64_t left = lk_zk_deadline_locked(z) - now;
    if (left < z->timeout_ns / 8 * LEAST)
        return false;
    if (left < z->timeout_ns / 8 * LITTLE)
        beat_now_locked(z);
    return true;
}

/* A request for one node alone, so that the answer is about it. Where that would not be enough, because the
 * last touch that is known is old, a new connection touches at once. */
void lk_zk_prove_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    const int64_t now = lk_zk_now(z);
    if (lk_zk_validity_promise(&z->validity, now) - now < z->timeout_ns / 8 * LEAST) {
        lk_zk_reconnect_locked(z, "the session was not kept up for long");
        return;
    }
    struct lk_zk_node *const after = node->next;
    struct lk_zk_node *next = node;
    node->next = NULL;
    (void)send_locked(z, &next);
    node->next = after;
}
