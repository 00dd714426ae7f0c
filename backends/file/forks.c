/* forks.c: a fork's child closes its copies of the descriptors of those who wait, or are about to lock, at once. When the parent dies the child's copies would keep the
 * mark on byte 1 and the ticket alive: who tries the lock would be told BUSY, and who stands behind would wait, for a waiter that is
 * dead. What is held stays locked for as long as the child lives, as it always does: there exclusion comes first.
 *
 * A child that is made by the system call alone, without fork(), still has copies of all. */
#include <pthread.h>

#include "instance.h"

static lk_mutex mutex = {PTHREAD_MUTEX_INITIALIZER}; /* taken before the instances' */
static lk_list instances LK_GUARDED_BY(mutex) = {&instances, &instances};
static bool watched; /* written before main() */

/* The lists stand still while the child's memory is made. */
LK_UNCHECKED static void before_fork(void)
{
    lk_mutex_lock(&mutex);
    LK_EACH(lk_file, self, among_all, &instances)
        lk_mutex_lock(&self->mutex);
}

LK_UNCHECKED static void after_fork_in_parent(void)
{
    LK_EACH(lk_file, self, among_all, &instances)
        lk_mutex_unlock(&self->mutex);
    lk_mutex_unlock(&mutex);
}

LK_UNCHECKED static void after_fork_in_child(void)
{
    LK_EACH(lk_file, self, among_all, &instances) {
        LK_EACH(lk_file_claim, c, link, &self->claims) {
            if (c->state == LK_FILE_HELD)
                continue;
            if (c->ticket_fd >= 0)
                lk_file_slot_abandon(c->ticket_slot);
            if (c->ahead_fd >= 0)
                lk_file_slot_abandon(c->ahead_slot);
            lk_file_slot_abandon(c->slot);
            c->ticket_fd = c->ahead_fd = c->fd = -1;
        }
        lk_mutex_init(&self->mutex);
    }
    lk_list_init(&instances);
    lk_mutex_init(&mutex);
}

/* What is registered last is called first before a fork. So a handler of those who call the library, which takes a mutex that they hold
 * over such calls, must come behind this one: before that of any program, and of any library that uses this one. */
__attribute__((constructor(101))) static void watch(void)
{
    watched = pthread_atfork(before_fork, after_fork_in_parent, after_fork_in_child) == 0;
}

bool lk_file_forks_join(lk_file *self)
{
    if (!watched)
        return false;
    lk_mutex_lock(&mutex);
    lk_list_append(&instances, &self->among_all);
    lk_mutex_unlock(&mutex);
    return true;
}

void lk_file_forks_leave(lk_file *self)
{
    lk_mutex_lock(&mutex);
    if (lk_list_linked(&self->among_all))
        lk_list_remove(&self->among_all);
    lk_mutex_unlock(&mutex);
}
