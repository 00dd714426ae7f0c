/*
 * grant_time.c: since when a lock that was waited for is held. Its node's age says since when its holder has
 * stood in the queue. So once such a lock has been held for a while, the time of the grant is written into
 * the data of the key's node, together with the token of the grant that it is about.
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

#include "../internal.h"

/* A lock that is given back sooner isn't worth a write, which the servers have to agree on. */
static const int64_t write_after_ns = 250 * LK_MS;
static const int64_t again_ns = 100 * LK_MS;

/* The number behind these words, and what comes behind it; NULL: they aren't there. */
static const char *number(const char *text, const char *words, uint64_t *out)
{
    char *end;
    if (text == NULL || strncmp(text, words, strlen(words)) != 0)
        return NULL;
    *out = strtoull(text + strlen(words), &end, 10);
    return end;
}

/* What would not be written so again is somebody else's. */
bool lk_zk_record_read(const char *data, int len, struct lk_zk_record *record)
{
    char text[LK_ZK_RECORD_MAX], again[LK_ZK_RECORD_MAX];
    uint64_t since = 0;
    *record = (struct lk_zk_record){0};
    if (len <= 0)
        return true;
    if (len >= LK_ZK_RECORD_MAX)
        return false;
    memcpy(text, data, (size_t)len);
    text[len] = '\0';
    const char *rest = number(text, "locker: grant ", &record->granted);
    rest = number(rest, " since ", &since);
    if (number(rest, " broken ", &record->broken) == NULL)
        return false;
    record->unix_ms = (int64_t)since;
    return lk_zk_record_write(record, again) == (size_t)len && strcmp(text, again) == 0;
}

size_t lk_zk_record_write(const struct lk_zk_record *record, char text[LK_ZK_RECORD_MAX])
{
    return (size_t)snprintf(text, LK_ZK_RECORD_MAX,
                            "locker: grant %" PRIu64 " since %" PRId64 " broken %" PRIu64, record->granted,
                            record->unix_ms, record->broken);
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
    char text[LK_ZK_RECORD_MAX];
    struct lk_zk_record record;
    bool sent = false;
    if (lk_zk_unknown(rc)) {
        retry_locked(z, node);
    } else if (rc == ZOK && is_wanted(node) && lk_zk_record_read(reply->text, reply->text_len, &record) &&
               record.granted < (uint64_t)node->czxid) {
        record.granted = (uint64_t)node->czxid;
        record.unix_ms = node->granted_at / LK_MS + z->wall_ahead_ms;
        const size_t len = lk_zk_record_write(&record, text);
        sent =
            lk_zk_set_locked(z, node->parent, text, len, reply->stat->version, written_locked, node) != NULL;
    }
    if (!sent) /* else that refers to it */
        lk_zk_node_unref_locked(z, node);
}

void lk_zk_since_write_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->since_by = LOCKER_NEVER;
    if (lk_zk_get_locked(z, node->parent, NULL, NULL, read_locked, node) != NULL)
        node->ops++;
    else
        node->since_by = lk_zk_now(z) + again_ns;
}
