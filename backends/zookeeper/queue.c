/*
 * queue.c: who is ahead. A place waits for the node right ahead of it. When that one goes, the lock is ours
 * without another request if nobody stands further ahead, because numbers only grow: nobody comes in between.
 * That nobody does is known beforehand:
 *
 *   - the list had shown that one alone;
 *   - that one is a place of our own, and went as the first: then all before it had gone;
 *   - right ahead of that one was a place of our own, which went before as the first;
 *   - else the one ahead of that one is watched too, and when it goes the queue is listed again while we
 * wait.
 *
 * If it isn't, the queue is listed when the one ahead has gone: it may have given up while others before it
 * are still there. A place of our own that is right ahead needs no watch: its end is told by the answer to
 * our own delete, or by its own watch.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

enum { FIRST_BUCKETS = 16 };

/* ------------------------------------------------------------------ the table ---- */

static struct lk_zk_queue **bucket_locked(const struct lk_zk *z, uint32_t hash)
{
    return &z->queues[hash & (z->queue_buckets - 1)];
}

/* A table that can't grow is slower, not wrong: only the first one has to be had. */
static bool make_room_locked(struct lk_zk *z)
{
    struct lk_zk_queue **old = z->queues;
    const size_t old_buckets = z->queue_buckets;
    if (z->queue_count < old_buckets)
        return true;
    const size_t buckets = old_buckets == 0 ? FIRST_BUCKETS : old_buckets * 2;
    struct lk_zk_queue **fresh = calloc(buckets, sizeof(struct lk_zk_queue *));
    if (fresh == NULL)
        return old_buckets > 0;
    z->queues = fresh;
    z->queue_buckets = buckets;
    for (size_t i = 0; i < old_buckets; i++) {
        for (struct lk_zk_queue *q = old[i], *next; q != NULL; q = next) {
            struct lk_zk_queue **bucket = bucket_locked(z, q->hash);
            next = q->next;
            q->next = *bucket;
            *bucket = q;
        }
    }
    free(old);
    return true;
}

static struct lk_zk_queue *find_locked(const struct lk_zk *z, const char *path, uint32_t hash)
{
    struct lk_zk_queue *q = z->queue_count > 0 ? *bucket_locked(z, hash) : NULL;
    while (q != NULL && (q->hash != hash || strcmp(q->path, path) != 0))
        q = q->next;
    return q;
}

struct lk_zk_queue *lk_zk_queue_use_locked(struct lk_zk *z, const char *path)
{
    const uint32_t hash = lk_zk_hash(path);
    struct lk_zk_queue *q = find_locked(z, path, hash);
    if (q == NULL) {
        const size_t size = sizeof(*q) + strlen(path) + 1;
        q = make_room_locked(z) ? malloc(size) : NULL;
        if (q == NULL)
            return NULL;
        struct lk_zk_queue **bucket = bucket_locked(z, hash);
        *q = (struct lk_zk_queue){.next = *bucket, .hash = hash};
        (void)strcpy(q->path, path);
        *bucket = q;
        z->queue_count++;
    }
    q->users++;
    return q;
}

void lk_zk_queue_drop_locked(struct lk_zk *z, struct lk_zk_queue *queue)
{
    if (--queue->users > 0)
        return;
    struct lk_zk_queue **link = bucket_locked(z, queue->hash);
    while (*link != queue)
        link = &(*link)->next;
    *link = queue->next;
    z->queue_count--;
    free(queue);
}

struct lk_zk_node *lk_zk_queue_find_locked(struct lk_zk *z, const char *path)
{
    char parent[LK_ZK_PARENT_MAX], name[LK_ZK_NAME_MAX];
    const char *slash = strrchr(path, '/');
    if (slash == NULL || (size_t)(slash - path) >= sizeof(parent))
        return NULL;
    memcpy(parent, path, (size_t)(slash - path));
    parent[slash - path] = '\0';
    const struct lk_zk_queue *q = find_locked(z, parent, lk_zk_hash(parent));
    for (struct lk_zk_node *node = q != NULL ? q->last : NULL; node != NULL; node = node->before) {
        lk_zk_name(z, node->id, node->sequence, name);
        if (strcmp(name, slash + 1) == 0)
            return node;
    }
    return NULL;
}

/* ------------------------------------------------------------------ our own places ---- */

/* Nearly always it comes last, because the server counts on from one creation to the next. */
void lk_zk_queue_enter_locked(struct lk_zk_node *node)
{
    struct lk_zk_queue *q = node->queue;
    if (node->there)
        return;
    node->there = true;
    node->before = q->last;
    node->after = NULL;
    while (node->before != NULL && lk_zk_before(node->sequence, "", node->before->sequence, "")) {
        node->after = node->before;
        node->before = node->before->before;
    }
    if (node->before != NULL)
        node->before->after = node;
    if (node->after != NULL)
        node->after->before = node;
    else
        q->last = node;
}

void lk_zk_queue_leave_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    struct lk_zk_node *after = node->after;
    const bool was_first = node->step == LK_ZK_FIRST;
    if (!node->there)
        return;
    node->there = false;
    if (node->before != NULL)
        node->before->after = after;
    if (after != NULL)
        after->before = node->before;
    else
        node->queue->last = node->before;
    node->before = node->after = NULL;
    if (after == NULL || after->step != LK_ZK_QUEUED || after->ahead_is == LK_ZK_AHEAD_STRANGERS)
        return;
    if (was_first)
        after->beyond = 0;
    if (after->ahead_is == LK_ZK_AHEAD_OURS)
        lk_zk_queue_advance_locked(z, after, NULL);
    else
        after->ahead_is = LK_ZK_AHEAD_STRANGERS;
}

void lk_zk_queue_first_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    lk_zk_unwatch_all_locked(node);
    lk_zk_node_settle_locked(z, node, LK_ZK_FIRST);
}

/* ------------------------------------------------------------------ its place ---- */

/* What a list shows of a place. */
struct view {
    bool there;       /* it is in the list itself */
    uint32_t smaller; /* how many stand ahead */
    struct {
        const char *name;
        int32_t sequence;
    } ahead, second; /* the nearest of those, and the next; NULL: none */
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
        } else if (lk_zk_before(sequence, name, node->sequence, own)) {
            v.smaller++;
            if (v.ahead.name == NULL || lk_zk_before(v.ahead.sequence, v.ahead.name, sequence, name)) {
                v.second = v.ahead;
                v.ahead.name = name;
                v.ahead.sequence = sequence;
            } else if (v.second.name == NULL ||
                       lk_zk_before(v.second.sequence, v.second.name, sequence, name)) {
                v.second.name = name;
                v.second.sequence = sequence;
            }
        }
    }
    return v;
}

static bool is_named(const struct lk_zk *z, const struct lk_zk_node *node, const char *name, int32_t sequence)
{
    char own[LK_ZK_NAME_MAX];
    if (node == NULL || name == NULL || node->sequence != sequence)
        return false;
    lk_zk_name(z, node->id, node->sequence, own);
    return strcmp(own, name) == 0;
}

/* Somebody is ahead of it. False: out of memory. */
static bool queue_up_locked(struct lk_zk *z, struct lk_zk_node *node, const struct view *v)
{
    const struct lk_zk_node *before = node->before;
    node->gone = 0;
    node->beyond = v->smaller - 1;
    if (is_named(z, before, v->ahead.name, v->ahead.sequence)) {
        node->ahead_is = LK_ZK_AHEAD_OURS;
        lk_zk_unwatch_all_locked(node);
        return true;
    }
    if (is_named(z, before, v->second.name, v->second.sequence)) {
        node->ahead_is = LK_ZK_AHEAD_ONE;
        lk_zk_unwatch_locked(&node->second);
    } else {
        node->ahead_is = LK_ZK_AHEAD_STRANGERS;
        if (node->beyond == 0)
            lk_zk_unwatch_locked(&node->second);
        else /* without memory the queue is listed when the one ahead has gone */
            (void)lk_zk_watch_sibling_locked(z, &node->second, v->second.name);
    }
    return lk_zk_watch_sibling_locked(z, &node->ahead, v->ahead.name);
}

/* The only one that the list shows ahead went after the list was made, and that has been told before. */
static bool is_outdated(const struct lk_zk_node *node, const struct view *v)
{
    char path[LK_ZK_PATH_MAX];
    return node->gone != 0 && v->smaller == 1 && v->ahead.sequence == node->gone_sequence &&
           lk_zk_join(path, node->queue->path, v->ahead.name) && lk_zk_hash(path) == node->gone;
}

void lk_zk_queue_place_locked(struct lk_zk *z, struct lk_zk_node *node, const struct String_vector *names)
{
    const struct view v = look_locked(z, node, names);
    if (!v.there)
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    else if (v.smaller == 0 || is_outdated(node, &v))
        lk_zk_queue_first_locked(z, node);
    else if (node->claim->will_wait && !queue_up_locked(z, node, &v))
        lk_zk_node_fail_locked(z, node, ZSYSTEMERROR, "watching the node ahead");
    else
        lk_zk_node_settle_locked(z, node, LK_ZK_QUEUED); /* a try that came second leaves */
}

void lk_zk_queue_advance_locked(struct lk_zk *z, struct lk_zk_node *node, const char *path)
{
    if (node->claim == NULL || node->step != LK_ZK_QUEUED)
        return;
    if (node->beyond == 0) {
        lk_zk_queue_first_locked(z, node);
    } else if (!node->looking) {
        lk_zk_node_list_locked(z, node);
    } else { /* the list that is under way tells */
        node->step = LK_ZK_LISTING;
        node->gone = path != NULL && lk_zk_contender(path, &node->gone_sequence) ? lk_zk_hash(path) : 0;
    }
}

void lk_zk_queue_look_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->claim == NULL || node->step != LK_ZK_QUEUED || node->beyond == 0)
        return;
    if (--node->beyond > 0)
        lk_zk_node_look_locked(z, node);
}
