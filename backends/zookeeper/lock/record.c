/* record.c: what we keep in the data of a key's node: since when the lock is held, and which grant was broken last
 * (inspect.c, release.c). If somebody keeps something else there, it is left alone; nothing depends on it but what people
 * are shown, and what a release can prove.
 *
 * A node's age says since when its holder has stood in the queue. So once a lock that was waited for has been held for a
 * while, the time of the grant is written, together with its token. Not into the holder's own node: who waits behind it
 * watches that, and the clients that queue with us (Curator, kazoo, go-zookeeper) would each wake up, list the queue and
 * watch again. Nobody watches the key's node. */
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#include "place.h"

/* A lock that is given back sooner isn't worth a write, which the servers have to agree on. */
static const int64_t write_after_ns = 250 * LK_MS;
static const int64_t again_ns = 100 * LK_MS;

/* The next number of a text, which goes on behind it. */
static uint64_t number(char **text)
{
    *text += strcspn(*text, "-0123456789");
    return strtoull(*text, text, 10);
}

/* What would not be written so again, word for word, is somebody else's. */
bool lk_zk_record_read(const char *data, int len, lk_zk_record *record)
{
    char text[LK_ZK_RECORD_MAX] = "", again[LK_ZK_RECORD_MAX];
    char *at = text;
    *record = (lk_zk_record){0};
    if (len <= 0)
        return true;
    if (len >= LK_ZK_RECORD_MAX)
        return false;
    memcpy(text, data, (size_t)len);
    record->granted = number(&at);
    record->unix_ms = (int64_t)number(&at);
    record->broken = number(&at);
    lk_zk_record_write(record, again);
    return strlen(again) == (size_t)len && strcmp(text, again) == 0;
}

void lk_zk_record_write(const lk_zk_record *record, char text[LK_ZK_RECORD_MAX])
{
    (void)snprintf(text, LK_ZK_RECORD_MAX, "locker: grant %" PRIu64 " since %" PRId64 " broken %" PRIu64,
                   record->granted, record->unix_ms, record->broken);
}

void lk_zk_grant_time_plan_locked(lk_zk *z, lk_zk_node *node)
{
    if (!node->waited || lk_zk_node_is_permit(node) ||
        z->wall_ahead_ms == 0) /* a permit's node is as old as its grant */
        return;
    node->granted_at = lk_zk_now(z);
    lk_zk_node_write_by_locked(z, node, node->granted_at + write_after_ns);
}

static bool is_wanted(const lk_zk_node *node)
{
    return node->granted && lk_zk_is_there(node) && !lk_zk_is_deleting(node);
}

static void retry_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net)
{
    if (is_wanted(node))
        lk_zk_node_write_by_locked(z, node, lk_zk_now(z) + again_ns);
}

static void written_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    if (lk_zk_unknown(reply->rc))
        retry_locked(z, node);
    lk_zk_node_unref_locked(z, node);
}

/* Replaced if it is another grant's, and by its version: what an older grant sends late does nothing. */
static void read_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_node *node = context;
    char text[LK_ZK_RECORD_MAX];
    lk_zk_record record;
    if (lk_zk_unknown(reply->rc)) {
        retry_locked(z, node);
    } else if (reply->rc == ZOK && is_wanted(node) &&
               lk_zk_record_read(reply->text, reply->text_len, &record) &&
               record.granted < (uint64_t)node->czxid) {
        record.granted = (uint64_t)node->czxid;
        record.unix_ms = node->granted_at / LK_MS + z->wall_ahead_ms;
        lk_zk_record_write(&record, text);
        (void)lk_zk_node_ref(
            node, lk_zk_set_locked(z->net, node->parent, text, reply->stat->version, written_locked, node));
    }
    lk_zk_node_unref_locked(z, node);
}

void lk_zk_grant_time_write_locked(lk_zk *z, lk_zk_node *node)
{
    node->write_at = LOCKER_NEVER;
    if (!lk_zk_node_ref(node, lk_zk_get_locked(z->net, node->parent, read_locked, node)))
        node->write_at = lk_zk_now(z) + again_ns;
}
