/*
 * queue.c: finding our own places, and who is ahead of them. The only proof that nobody is ahead is a list of
 * the queue that shows the place itself with nobody before it. Such a list stays true however old it is:
 * numbers only grow, so nobody comes in before a node that is there. They do so up to 2^31 - 1, which the
 * server then gives for ever; a place with that number proves nothing (USED_UP). What is heard of the
 * predecessor is a hint to list again, and never more.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

enum { FIRST_BUCKETS = 64 };

/* ------------------------------------------------------------------ the table ---- */

static struct lk_zk_node **bucket_locked(const struct lk_zk *z, uint64_t id)
{
    return &z->places[id & (z->place_buckets - 1)]; /* ids are counted */
}

/* A table that can't grow is slower, not wrong: only the first one has to be had. */
static bool make_room_locked(struct lk_zk *z)
{
    struct lk_zk_node **old = z->places;
    const size_t old_buckets = z->place_buckets;
    if (z->place_count < old_buckets)
        return true;
    const size_t buckets = old_buckets == 0 ? FIRST_BUCKETS : old_buckets * 2;
    struct lk_zk_node **fresh = calloc(buckets, sizeof(struct lk_zk_node *));
    if (fresh == NULL)
        return old_buckets > 0;
    z->places = fresh;
    z->place_buckets = buckets;
    for (size_t i = 0; i < old_buckets; i++) {
        for (struct lk_zk_node *node = old[i], *next; node != NULL; node = next) {
            struct lk_zk_node **bucket = bucket_locked(z, node->id);
            next = node->same;
            node->same = *bucket;
            *bucket = node;
        }
    }
    free(old);
    return true;
}

bool lk_zk_queue_add_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (!make_room_locked(z))
        return false;
    struct lk_zk_node **bucket = bucket_locked(z, node->id);
    node->same = *bucket;
    *bucket = node;
    z->place_count++;
    return true;
}

void lk_zk_queue_remove_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    struct lk_zk_node **link = bucket_locked(z, node->id);
    while (*link != node)
        link = &(*link)->same;
    *link = node->same;
    z->place_count--;
}

static struct lk_zk_node *find_locked(const struct lk_zk *z, uint64_t id)
{
    struct lk_zk_node *node = z->place_count > 0 ? *bucket_locked(z, id) : NULL;
    while (node != NULL && node->id != id)
        node = node->same;
    return node;
}

struct lk_zk_node *lk_zk_queue_find_locked(const struct lk_zk *z, const char *name)
{
    uint64_t id;
    int32_t sequence;
    return lk_zk_is_own(z, name, &id, &sequence) ? find_locked(z, id) : NULL;
}

/* A name is given once, so what has one of ours and no claim is of no use to anybody: a create that was
 * executed late, or one of an earlier session that the servers have not ended yet. */
void lk_zk_queue_sweep_locked(struct lk_zk *z, const char *parent, const struct String_vector *names)
{
    if (!z->may_stray)
        return;
    for (int32_t i = 0; i < names->count; i++) {
        uint64_t id;
        int32_t sequence;
        if (!lk_zk_own_id(z, names->data[i], &id))
            continue;
        struct lk_zk_node *node = find_locked(z, id);
        if ((node != NULL && node->claim != NULL) || !lk_zk_contender(names->data[i], &sequence))
            continue;
        if (node == NULL)
            node = lk_zk_node_adopt_locked(z, parent, id);
        if (node != NULL && !node->there && node->step != LK_ZK_ASKED)
            lk_zk_node_stray_locked(z, node, sequence);
    }
}

/* ------------------------------------------------------------------ its place ---- */

/* What a list shows of a place. */
struct view {
    bool there;        /* it is in the list itself */
    const char *ahead; /* its predecessor; NULL: nobody is before it */
    int32_t sequence;  /* of that */
};

static struct view look_locked(const struct lk_zk *z, const struct lk_zk_node *node,
                               const struct String_vector *names)
{
    struct view v = {.there = false};
    char own[LK_ZK_NAME_MAX];
    lk_zk_name(z, node->id, node->sequence, own);
    for (int32_t i = 0; i < names->count; i++) {
        const char *name = names->data[i];
        int32_t sequence;
        if (!lk_zk_contender(name, &sequence))
            continue;
        if (sequence == node->sequence && strcmp(name, own) == 0) {
            v.there = true;
        } else if (lk_zk_before(sequence, name, node->sequence, own) &&
                   (v.ahead == NULL || lk_zk_before(v.sequence, v.ahead, sequence, name))) {
            v.ahead = name;
            v.sequence = sequence;
        }
    }
    return v;
}

/* Have the predecessor's end told. False: out of memory. */
static bool wait_locked(struct lk_zk *z, struct lk_zk_node *node, const char *ahead)
{
    const struct lk_zk_node *ours = lk_zk_queue_find_locked(z, ahead);
    return lk_zk_watch_ahead_locked(z, node, ahead, ours != NULL && ours->there && !ours->unwanted);
}

void lk_zk_queue_place_locked(struct lk_zk *z, struct lk_zk_node *node, const struct String_vector *names)
{
    const struct view v = look_locked(z, node, names);
    if (!v.there) {
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    } else if (lk_zk_used_up(node->sequence)) {
        lk_zk_node_settle_locked(z, node, LK_ZK_USED_UP);
    } else if (v.ahead == NULL) {
        lk_zk_node_settle_locked(z, node, LK_ZK_FIRST);
    } else {
        lk_zk_node_settle_locked(z, node, LK_ZK_BEHIND); /* a try leaves then */
        if (node->claim->will_wait && !wait_locked(z, node, v.ahead))
            lk_zk_node_fail_locked(z, node, ZSYSTEMERROR, "watching the node ahead");
    }
}

void lk_zk_queue_hint_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim != NULL && node->step == LK_ZK_BEHIND)
        lk_zk_node_list_locked(z, node);
}
