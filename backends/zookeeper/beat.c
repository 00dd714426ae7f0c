/*
 * beat.c: the heartbeat. A server answers pings and reads by itself, even when it is cut off from the
 * majority that may have ended our session long ago. So every quarter of the session time-out a multi of
 * checks of all our nodes is sent, which the leader has to order like a write; only its answer extends what
 * we hold. A node that is missing shows in the same answer.
 *
 * With it goes a multi of checks of the nodes that we wait for. A server that was restarted may have lost a
 * deletion for ever (ZOOKEEPER-4785, ZOOKEEPER-5010), and would never tell of it; the leader knows. Since a
 * server tells of a deletion before it answers what was ordered later, an answer that a node is missing, of
 * which the server has not told, is proof that it won't.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { CHECKS_MAX = 1024, BYTES_MAX = 256 * 1024 }; /* of one request; a server takes 1 MB */

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
    return c->count < CHECKS_MAX && c->used + LK_ZK_PATH_MAX <= BYTES_MAX;
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

static void extend_locked(struct lk_zk *z, struct lk_zk_node *node, int64_t sent)
{
    const int64_t until = lk_zk_earlier(sent + z->timeout_ns / 4 * 3, node->cap);
    if (node->claim != NULL && node->granted && node->there)
        z->svc->lease_extended(z->svc, node->claim, until);
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
            extend_locked(z, node, op->sent);
        else if (rc == ZNONODE && b->results[i].err == ZNONODE && node->there && !node->deleting)
            lk_zk_node_vanish_locked(z, node, why);
        if (node->call != NULL)
            lk_zk_call_done_locked(node->call); /* it may have wanted proof, and looks again */
        lk_zk_node_unref_locked(z, node);
    }
    if (rc == ZNONODE) { /* the others were not checked */
        z->beat_at = 0;
        lk_zk_keeper_by_locked(z, 0);
    }
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
        if (z->beat_unanswered == 0)
            z->beat_unanswered = lk_zk_now(z);
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
    return z->beat_unanswered == 0 ? LOCKER_NEVER : z->beat_unanswered + z->timeout_ns / 4;
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
    if (now >= z->beat_at) {
        struct lk_zk_node *next = z->nodes;
        const struct lk_zk_watch *ahead = lk_zk_watch_next_locked(z, NULL);
        z->beat_at = next != NULL ? now + z->timeout_ns / 4 : LOCKER_NEVER;
        while (next != NULL && send_locked(z, &next)) {
        }
        while (ahead != NULL)
            ahead = inquire_locked(z, ahead);
    }
    return lk_zk_earlier(z->beat_at, leave_at_locked(z));
}

/* A server doesn't tell a connection whose session was closed by another one, and answers nothing to it, not
 * even pings. So a heartbeat is due at once, and without an answer a new connection has to tell. */
void lk_zk_doubt_locked(struct lk_zk *z)
{
    z->doubted = true;
    z->beat_at = 0;
    lk_zk_keeper_by_locked(z, 0);
}

/* A request for one node alone, so that the answer is about it. */
void lk_zk_prove_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    struct lk_zk_node *const after = node->next;
    struct lk_zk_node *next = node;
    node->next = NULL;
    (void)send_locked(z, &next);
    node->next = after;
}
