/*
 * since.c: since when a lock that was waited for is held. Its node's age says since when its holder has stood
 * in the queue. So once such a lock has been held for a while, the time of the grant is written into the data
 * of the key's node, together with the token of the grant that it is about.
 *
 * Not into the holder's own node: who waits behind it watches that, and the clients that queue with us
 * (Curator, kazoo, go-zookeeper) would each wake up, list the queue and watch again. Nobody watches the key's
 * node. If somebody keeps something else there, it is left alone; nothing depends on it but what people are
 * shown.
 */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

/* A lock that is given back sooner isn't worth a write, which the servers have to agree on. */
static const int64_t write_after_ns = 250 * LK_MS;
static const int64_t again_ns = 100 * LK_MS;

/* What is written: the grant's token, and when it was made, in ms of the epoch. */
static const char before_token[] = "locker: grant ", before_time[] = " since ";
enum { TEXT_MAX = 80 };

bool lk_zk_since_parse(const char *data, int len, uint64_t *token, int64_t *unix_ms)
{
    char text[TEXT_MAX], *end;
    if (len <= 0 || len >= TEXT_MAX)
        return false;
    memcpy(text, data, (size_t)len);
    text[len] = '\0';
    if (strncmp(text, before_token, sizeof(before_token) - 1) != 0)
        return false;
    *token = strtoull(text + sizeof(before_token) - 1, &end, 10);
    if (strncmp(end, before_time, sizeof(before_time) - 1) != 0)
        return false;
    *unix_ms = strtoll(end + sizeof(before_time) - 1, &end, 10);
    return *end == '\0';
}

void lk_zk_since_plan_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (!node->waited || z->wall_ahead_ms == 0)
        return;
    node->granted_at = lk_zk_now(z);
    lk_zk_node_since_by_locked(z, node, node->granted_at + write_after_ns);
}

static bool is_wanted(const struct lk_zk_node *node)
{
    return node->granted && node->there && !node->deleting;
}

static void retry_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (is_wanted(node))
        lk_zk_node_since_by_locked(z, node, lk_zk_now(z) + again_ns);
}

static void written_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    (void)reply;
    if (lk_zk_unknown(rc))
        retry_locked(z, node);
    lk_zk_node_unref_locked(z, node);
}

/* What is there is replaced if it is another grant's, and by its version, so that an older grant's request
 * that comes late replaces nothing. */
static void read_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    char text[TEXT_MAX];
    uint64_t token = 0;
    int64_t since;
    bool sent = false;
    if (lk_zk_unknown(rc)) {
        retry_locked(z, node);
    } else if (rc == ZOK && is_wanted(node) &&
               (reply->text_len <= 0 || lk_zk_since_parse(reply->text, reply->text_len, &token, &since)) &&
               token < (uint64_t)node->czxid) {
        const int len =
            snprintf(text, sizeof(text), "%s%" PRIu64 "%s%" PRId64, before_token, (uint64_t)node->czxid,
                     before_time, node->granted_at / LK_MS + z->wall_ahead_ms);
        sent = lk_zk_set_locked(z, node->queue->path, text, (size_t)len, reply->stat->version, written_locked,
                                node) != NULL;
    }
    if (!sent) /* else that refers to it */
        lk_zk_node_unref_locked(z, node);
}

void lk_zk_since_write_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->since_by = LOCKER_NEVER;
    if (lk_zk_get_locked(z, node->queue->path, NULL, NULL, read_locked, node) != NULL)
        node->ops++;
    else
        node->since_by = lk_zk_now(z) + again_ns;
}
