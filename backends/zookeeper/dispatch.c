/* dispatch.c: the keeper's turn: driving when nobody else does, heartbeats, watches on our own nodes, deletes
 * that have to be repeated. */
#include <stdarg.h>
#include <stdio.h>

#include "internal.h"

/* A lock that is given back sooner needs no watch on its own node, which spares the server a request. */
static const int64_t own_watch_after_ns = 20 * LK_MS;

void lk_zk_note_locked(struct lk_zk *z, locker_log_level level, const char *format, ...)
{
    va_list arguments;
    if (!z->svc->log_wanted(z->svc, level))
        return;
    va_start(arguments, format);
    (void)vsnprintf(z->note, sizeof(z->note), format, arguments);
    va_end(arguments);
    z->note_level = level;
    z->log_due = true;
    z->svc->attend(z->svc); /* the keeper writes it, without lock */
}

void lk_zk_note_write(struct lk_zk *z)
{
    char note[LOCKER_ERROR_TEXT_MAX];
    pthread_mutex_lock(&z->lock);
    const bool due = z->log_due;
    const locker_log_level level = z->note_level;
    if (due)
        (void)snprintf(note, sizeof(note), "%s", z->note);
    z->log_due = false;
    pthread_mutex_unlock(&z->lock);
    if (due)
        z->svc->log(z->svc, level, "%s", note);
}

/* Watch those of our own nodes that have been there for a while: a deletion by somebody else is told at once
 * then, not by the next heartbeat. */
static int64_t watch_fresh_locked(struct lk_zk *z, int64_t now)
{
    int64_t next_at = LOCKER_NEVER;
    struct lk_zk_node *next;
    for (struct lk_zk_node *node = z->fresh; node != NULL && z->up; node = next) {
        next = node->fresh_next;
        const int64_t due = node->created_at + own_watch_after_ns;
        if (now < due) {
            next_at = lk_zk_earlier(next_at, due);
            continue;
        }
        lk_zk_node_fresh_locked(z, node, false);
        if (node->there && !node->deleting)
            (void)lk_zk_watch_own_locked(z, node); /* without memory the heartbeat finds it out */
    }
    return next_at;
}

/* Deletes that were refused. A node that the server won't let us delete would block its queue for as long as
 * we live, so after the clean-up time the session is given up. */
static int64_t delete_left_locked(struct lk_zk *z, int64_t now)
{
    int64_t next_at = LOCKER_NEVER;
    struct lk_zk_node *next;
    for (struct lk_zk_node *node = z->left; node != NULL && z->up; node = next) {
        next = node->next;
        if (node->deleting || !node->there || node->step == LK_ZK_SEARCHING)
            continue;
        if (node->trouble_since != 0 && now - node->trouble_since >= z->set.cleanup_ns) {
            lk_zk_note_locked(z, LOCKER_LOG_ERROR,
                              "zookeeper: %s/%s can't be deleted; its session is given up", node->parent,
                              node->name);
            z->over = true;
            return now;
        }
        if (now >= node->retry_at)
            lk_zk_node_delete_locked(z, node);
        else
            next_at = lk_zk_earlier(next_at, node->retry_at);
    }
    return next_at;
}

int64_t lk_zk_dispatch(void *self)
{
    struct lk_zk *z = self;
    pthread_mutex_lock(&z->lock);
    z->keeper_at = LOCKER_NEVER;
    int64_t next = lk_zk_drive_locked(z);
    const int64_t now = lk_zk_now(z);
    if (z->up && now >= z->resume_at)
        lk_zk_resume_locked(z);
    next = lk_zk_earlier(next, z->up ? z->resume_at : LOCKER_NEVER);
    next = lk_zk_earlier(next, watch_fresh_locked(z, now));
    next = lk_zk_earlier(next, delete_left_locked(z, now));
    next = lk_zk_earlier(next, lk_zk_beat_locked(z, now));
    next = lk_zk_earlier(next, z->keeper_at); /* somebody may have wanted it in between */
    z->keeper_at = next;
    const bool log_due = z->log_due;
    pthread_mutex_unlock(&z->lock);
    if (log_due)
        lk_zk_note_write(z);
    return next;
}
