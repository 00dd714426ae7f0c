/* keeper.c: the keeper's turn: driving when nobody else does, heartbeats, what our nodes want after a
 * while, deletes that have to be repeated. */
#include <stdarg.h>
#include <stdio.h>

#include "../internal.h"

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
    z->svc->attend(z->svc); /* the keeper writes it, if nobody does before */
}

/* A function of its own, so that those who have nothing to write need no room for it. */
__attribute__((noinline)) static void write_note_and_unlock(struct lk_zk *z)
{
    char note[LOCKER_ERROR_TEXT_MAX];
    const locker_log_level level = z->note_level;
    (void)snprintf(note, sizeof(note), "%s", z->note);
    z->log_due = false;
    pthread_mutex_unlock(&z->lock);
    z->svc->log(z->svc, level, "%s", note);
}

void lk_zk_leave(struct lk_zk *z)
{
    lk_zk_push_locked(z);
    if (z->log_due)
        write_note_and_unlock(z);
    else
        pthread_mutex_unlock(&z->lock);
}

/* Deletes that were refused. A node that the server won't let us delete would block its queue for as long as
 * we live, so after the clean-up time the session is given up. */
static int64_t delete_left_locked(struct lk_zk *z, int64_t now)
{
    int64_t next_at = LOCKER_NEVER;
    struct lk_zk_node *next;
    for (struct lk_zk_node *node = z->left; node != NULL && z->up; node = next) {
        next = node->next;
        if (node->deleting || !node->there)
            continue;
        if (node->trouble_since != 0 && now - node->trouble_since >= z->set.cleanup_ns) {
            lk_zk_note_locked(z, LOCKER_LOG_ERROR,
                              "zookeeper: a node of %s can't be deleted; its session is given up",
                              node->parent);
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
    next = lk_zk_earlier(next, lk_zk_nodes_tend_locked(z, now));
    next = lk_zk_earlier(next, delete_left_locked(z, now));
    next = lk_zk_earlier(next, lk_zk_search_due_locked(z, now));
    next = lk_zk_earlier(next, lk_zk_beat_locked(z, now));
    next = lk_zk_earlier(next, z->keeper_at); /* somebody may have wanted it in between */
    z->keeper_at = next;
    lk_zk_leave(z);
    return next;
}
