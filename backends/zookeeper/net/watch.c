/*
 * watch.c: being told that a node was deleted: to a waiter, the one ahead of it, if that is another's; to a
 * holder, its own. Watches are set by get, because exists on a node that has gone would leave a watch for
 * ever. The client library sets them anew after a reconnection.
 */
#include <stdlib.h>
#include <string.h>

#include "../internal.h"

enum { FIRST_BUCKETS = 64 };

/* FNV-1a: http://www.isthe.com/chongo/tech/comp/fnv/ . Never 0. */
uint32_t lk_zk_hash(const char *text)
{
    uint32_t hash = 2166136261u;
    for (; *text != '\0'; text++)
        hash = (hash ^ (unsigned char)*text) * 16777619u;
    return hash != 0 ? hash : 1;
}

/* ------------------------------------------------------------------ the table ---- */

static struct lk_zk_watch **bucket_locked(struct lk_zk *z, uint32_t hash)
{
    return &z->watches[hash & (z->watch_buckets - 1)];
}

/* A table that can't grow is slower, not wrong: only the first one has to be had. */
static bool make_room_locked(struct lk_zk *z)
{
    struct lk_zk_watch **old = z->watches;
    const size_t old_buckets = z->watch_buckets;
    if (z->watch_count < old_buckets)
        return true;
    const size_t buckets = old_buckets == 0 ? FIRST_BUCKETS : old_buckets * 2;
    struct lk_zk_watch **fresh = calloc(buckets, sizeof(struct lk_zk_watch *));
    if (fresh == NULL)
        return old_buckets > 0;
    z->watches = fresh;
    z->watch_buckets = buckets;
    for (size_t i = 0; i < old_buckets; i++) {
        for (struct lk_zk_watch *w = old[i], *next; w != NULL; w = next) {
            struct lk_zk_watch **bucket = bucket_locked(z, w->hash);
            next = w->next;
            w->next = *bucket;
            *bucket = w;
        }
    }
    free(old);
    return true;
}

static struct lk_zk_watch *find_locked(struct lk_zk *z, const char *path, uint32_t hash)
{
    struct lk_zk_watch *w = z->watch_count > 0 ? *bucket_locked(z, hash) : NULL;
    while (w != NULL && (w->hash != hash || strcmp(w->path, path) != 0))
        w = w->next;
    return w;
}

static struct lk_zk_watch *use_locked(struct lk_zk *z, const char *path)
{
    const uint32_t hash = lk_zk_hash(path);
    struct lk_zk_watch *w = find_locked(z, path, hash);
    if (w != NULL)
        return w;
    w = make_room_locked(z) ? calloc(1, sizeof(*w) + strlen(path) + 1) : NULL;
    if (w == NULL)
        return NULL;
    struct lk_zk_watch **bucket = bucket_locked(z, hash);
    w->z = z;
    w->hash = hash;
    (void)strcpy(w->path, path);
    w->next = *bucket;
    *bucket = w;
    z->watch_count++;
    return w;
}

static void remove_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    struct lk_zk_watch **link = bucket_locked(z, w->hash);
    while (*link != w)
        link = &(*link)->next;
    *link = w->next;
    z->watch_count--;
    if (w->op != NULL)
        w->op->done = NULL;
}

static struct lk_zk_node *take_locked(struct lk_zk_watch *w)
{
    struct lk_zk_node *node = w->behind;
    if (node != NULL) {
        w->behind = node->next_behind;
        node->ahead = NULL;
    }
    return node;
}

void lk_zk_watches_free_locked(struct lk_zk *z)
{
    for (size_t i = 0; i < z->watch_buckets; i++) {
        while (z->watches[i] != NULL) {
            struct lk_zk_watch *w = z->watches[i];
            z->watches[i] = w->next;
            while (take_locked(w) != NULL) {
            }
            free(w);
        }
    }
    z->watch_count = 0;
}

/* ------------------------------------------------------------------ asking and hearing ---- */

static void tell_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    struct lk_zk_node *node;
    while ((node = take_locked(w)) != NULL)
        lk_zk_queue_hint_locked(z, node);
}

/* The node is gone: tell those behind it. */
static void fire_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    remove_locked(z, w);
    tell_locked(z, w);
    free(w);
}

/* It can't be read, so it can't be watched: those behind it can't wait. */
static void refuse_locked(struct lk_zk *z, struct lk_zk_watch *w, int rc)
{
    struct lk_zk_node *node;
    while ((node = take_locked(w)) != NULL)
        lk_zk_node_fail_locked(z, node, rc, "watching the node ahead");
    remove_locked(z, w);
    free(w);
}

static void get_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_watch *w = op->context;
    (void)reply;
    w->op = NULL;
    if (rc == ZOK)
        w->armed = true;
    else if (rc == ZNONODE)
        fire_locked(z, w);
    else if (!lk_zk_unknown(rc))
        refuse_locked(z, w, rc);
    else if (w->behind != NULL)
        lk_zk_stalled_locked(z);
    else
        fire_locked(z, w); /* which tells nobody */
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context);

static void ask_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    if (!w->armed && w->op == NULL)
        w->op = lk_zk_get_locked(z, w->path, on_watch, w, get_done_locked, w);
}

/* Called by the library with lock held, by the thread that drives. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct lk_zk_watch *w = context;
    (void)zh;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT)
        return; /* every watch gets these, and stays */
    w->armed = false;
    if (type == ZOO_DELETED_EVENT) {
        fire_locked(w->z, w);
    } else if (w->behind != NULL) {
        ask_locked(w->z, w);
    } else if (w->op == NULL) {
        remove_locked(w->z, w);
        free(w);
    }
}

void lk_zk_watches_resume_locked(struct lk_zk *z)
{
    for (size_t i = 0; i < z->watch_buckets; i++)
        for (struct lk_zk_watch *w = z->watches[i]; w != NULL; w = w->next)
            if (w->behind != NULL)
                ask_locked(z, w);
}

const struct lk_zk_watch *lk_zk_watch_next_locked(const struct lk_zk *z, const struct lk_zk_watch *w)
{
    size_t bucket = w != NULL ? (w->hash & (z->watch_buckets - 1)) + 1 : 0;
    w = w != NULL ? w->next : NULL;
    for (;; w = w->next) {
        while (w == NULL && bucket < z->watch_buckets)
            w = z->watches[bucket++];
        if (w == NULL || (w->behind != NULL && w->armed))
            return w;
    }
}

/* The watch itself stays: another server may tell of it yet. */
void lk_zk_watch_missed_locked(struct lk_zk *z, const char *path)
{
    struct lk_zk_watch *w = find_locked(z, path, lk_zk_hash(path));
    if (w == NULL || !w->armed || w->behind == NULL)
        return;
    lk_zk_leave_server_locked(z, "a server has missed a deletion");
    tell_locked(z, w); /* they list at the next one */
    lk_zk_note_locked(z, LOCKER_LOG_WARN,
                      "zookeeper: a server of %.100s has not told that %.200s was deleted; compare what each "
                      "lists there, and restore one that differs",
                      z->set.names, path);
}

/* ------------------------------------------------------------------ being interested ---- */

bool lk_zk_watch_ahead_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name, bool is_ours)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_unwatch_locked(z, node);
    struct lk_zk_watch *w = lk_zk_join(path, node->parent, name) ? use_locked(z, path) : NULL;
    if (w == NULL)
        return false;
    node->ahead = w;
    node->next_behind = w->behind;
    w->behind = node;
    if (!is_ours)
        ask_locked(z, w);
    return true;
}

void lk_zk_unwatch_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    if (node->ahead == NULL)
        return;
    struct lk_zk_watch *w = node->ahead;
    struct lk_zk_node **link = &w->behind;
    while (*link != node)
        link = &(*link)->next_behind;
    *link = node->next_behind;
    node->ahead = NULL;
    if (w->behind == NULL && !w->armed && w->op == NULL) { /* the server was never asked */
        remove_locked(z, w);
        free(w);
    }
}

void lk_zk_watch_ours_locked(struct lk_zk *z, const struct lk_zk_node *gone)
{
    char path[LK_ZK_PATH_MAX];
    if (z->watch_count == 0)
        return;
    lk_zk_node_path(z, gone, path);
    struct lk_zk_watch *w = find_locked(z, path, lk_zk_hash(path));
    if (w == NULL)
        return;
    const bool asked = w->armed || w->op != NULL;
    tell_locked(z, w);
    if (!asked) {
        remove_locked(z, w);
        free(w);
    }
}

/* ------------------------------------------------------------------ our own nodes ---- */

static void want_again_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    node->watched = false;
    lk_zk_node_watch_by_locked(z, node, lk_zk_now(z));
}

/* What the library keeps of it is all there is: the event names the path, and the path finds the node. */
static void on_own(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct lk_zk *z = context;
    (void)zh;
    (void)state;
    if (type == ZOO_SESSION_EVENT)
        return;
    struct lk_zk_node *node = lk_zk_queue_find_locked(z, path);
    if (node == NULL || !node->there || node->deleting)
        return;
    if (type == ZOO_DELETED_EVENT) {
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
        lk_zk_doubt_locked(z);
    } else if (node->claim != NULL) {
        want_again_locked(z, node);
    }
}

static void own_done_locked(struct lk_zk *z, struct lk_zk_op *op, int rc, const struct lk_zk_reply *reply)
{
    struct lk_zk_node *node = op->context;
    (void)reply;
    if (rc == ZNONODE && node->there && !node->deleting) {
        lk_zk_node_vanish_locked(z, node, "its node was deleted by somebody else");
    } else if (lk_zk_unknown(rc) && node->there && node->claim != NULL) {
        want_again_locked(z, node);
    }
    lk_zk_node_unref_locked(z, node);
}

bool lk_zk_watch_own_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_node_path(z, node, path);
    if (lk_zk_get_locked(z, path, on_own, z, own_done_locked, node) == NULL)
        return false;
    node->watched = true;
    node->ops++;
    return true;
}
