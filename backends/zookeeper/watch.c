/*
 * watch.c: being told that a node was deleted. One watch a path, whoever is interested: a waiter in the one
 * ahead, a holder in its own. It is set by get, because exists on a node that has gone would leave a watch
 * for ever. The client library sets watches anew after a reconnection.
 */
#include <stdlib.h>
#include <string.h>

#include "internal.h"

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

static struct lk_zk_watch *use_locked(struct lk_zk *z, const char *path)
{
    const uint32_t hash = lk_zk_hash(path);
    if (!make_room_locked(z))
        return NULL;
    struct lk_zk_watch **bucket = bucket_locked(z, hash);
    for (struct lk_zk_watch *w = *bucket; w != NULL; w = w->next)
        if (w->hash == hash && strcmp(w->path, path) == 0)
            return w;
    struct lk_zk_watch *w = calloc(1, sizeof(*w) + strlen(path) + 1);
    if (w == NULL)
        return NULL;
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

static void detach_locked(struct lk_zk_watch *w)
{
    if (w->own != NULL)
        w->own->own = NULL;
    w->own = NULL;
    while (w->followers != NULL) {
        struct lk_zk_node *node = w->followers;
        w->followers = node->follower;
        node->ahead = NULL;
    }
}

void lk_zk_watches_free_locked(struct lk_zk *z)
{
    for (size_t i = 0; i < z->watch_buckets; i++) {
        while (z->watches[i] != NULL) {
            struct lk_zk_watch *w = z->watches[i];
            z->watches[i] = w->next;
            detach_locked(w);
            free(w);
        }
    }
    z->watch_count = 0;
}

/* ------------------------------------------------------------------ asking and hearing ---- */

/* The node is gone: tell those who are interested. */
static void fire_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    struct lk_zk_node *own = w->own;
    remove_locked(z, w);
    w->own = NULL;
    if (own != NULL) {
        own->own = NULL;
        if (!own->deleting && own->there)
            lk_zk_node_vanish_locked(z, own, "its node was deleted by somebody else");
    }
    while (w->followers != NULL) {
        struct lk_zk_node *node = w->followers;
        w->followers = node->follower;
        node->ahead = NULL;
        lk_zk_node_advance_locked(z, node);
    }
    free(w);
}

/* It can't be read, so it can't be watched: those behind it can't wait. */
static void refuse_locked(struct lk_zk *z, struct lk_zk_watch *w, int rc)
{
    while (w->followers != NULL) {
        struct lk_zk_node *node = w->followers;
        w->followers = node->follower;
        node->ahead = NULL;
        lk_zk_node_fail_locked(z, node, rc, "watching the node ahead");
    }
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
    else
        lk_zk_stalled_locked(z);
}

static void ask_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    if (!w->armed && w->op == NULL)
        w->op = lk_zk_get_locked(z, w->path, w, get_done_locked, w);
}

static void forget_locked(struct lk_zk *z, struct lk_zk_watch *w)
{
    remove_locked(z, w);
    free(w);
}

/* Called by the library with lock held, by the thread that drives. */
void lk_zk_on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    struct lk_zk_watch *w = context;
    (void)zh;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT)
        return; /* every watch gets these, and stays */
    w->armed = false;
    if (type == ZOO_DELETED_EVENT)
        fire_locked(w->z, w);
    else if (w->own != NULL || w->followers != NULL)
        ask_locked(w->z, w);
    else if (w->op == NULL)
        forget_locked(w->z, w);
}

void lk_zk_watches_resume_locked(struct lk_zk *z)
{
    for (size_t i = 0; i < z->watch_buckets; i++)
        for (struct lk_zk_watch *w = z->watches[i]; w != NULL; w = w->next)
            if (w->own != NULL || w->followers != NULL)
                ask_locked(z, w);
}

/* ------------------------------------------------------------------ being interested ---- */

bool lk_zk_watch_own_locked(struct lk_zk *z, struct lk_zk_node *node)
{
    char path[LK_ZK_PATH_MAX];
    (void)lk_zk_join(path, node->parent, node->name);
    struct lk_zk_watch *w = use_locked(z, path);
    if (w == NULL)
        return false;
    w->own = node;
    node->own = w;
    ask_locked(z, w);
    return true;
}

bool lk_zk_watch_ahead_locked(struct lk_zk *z, struct lk_zk_node *node, const char *name)
{
    char path[LK_ZK_PATH_MAX];
    lk_zk_unwatch_ahead_locked(node);
    struct lk_zk_watch *w = lk_zk_join(path, node->parent, name) ? use_locked(z, path) : NULL;
    if (w == NULL)
        return false;
    node->ahead = w;
    node->follower = w->followers;
    w->followers = node;
    ask_locked(z, w);
    return true;
}

void lk_zk_unwatch_ahead_locked(struct lk_zk_node *node)
{
    if (node->ahead == NULL)
        return;
    struct lk_zk_node **link = &node->ahead->followers;
    while (*link != node)
        link = &(*link)->follower;
    *link = node->follower;
    node->ahead = NULL;
}

void lk_zk_unwatch_own_locked(struct lk_zk_node *node)
{
    if (node->own != NULL)
        node->own->own = NULL;
    node->own = NULL;
}
