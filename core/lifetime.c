/* lifetime.c: making a locker, and freeing it when the last that refers to it has gone. */
#include <stdlib.h>
#include <string.h>

#include "clock.h"
#include "descriptors.h"
#include "fork.h"
#include "lifetime.h"
#include "no_cancel.h"
#include "services.h"

/* Nobody else knows it yet. */
LK_UNCHECKED locker *lk_locker_new(const lk_config *config, const locker_options *options,
                                   const locker_clock *clock)
{
    locker *const l = calloc(1, sizeof *l);
    if (l == NULL)
        return NULL;
    l->services = lk_services;
    l->clock = clock != NULL ? *clock : *locker_system_clock();
    l->services.clock = &l->clock;
    l->given = config->driver;
    l->driver = &l->table;
    l->ttl_ns = config->ttl_ns;
    l->command_timeout_ns = config->command_timeout_ns;
    if (options != NULL) {
        l->log = options->log;
        l->log_user = options->log_user;
        l->log_level = options->log_level != 0 ? options->log_level : LOCKER_LOG_WARN;
    }
    l->epoll_fd = l->keeper_wakeup_fd = l->timer_fd = l->driver_fd = l->leader_fd = l->leader_wakeup_fd = -1;
    lk_list_init(&l->held);
    lk_list_init(&l->lost);
    lk_list_init(&l->log_lines);
    lk_list_init(&l->waits);
    lk_list_init(&l->cancels);
    lk_mutex_init(&l->mutex);
    pthread_cond_init(&l->changed, NULL);
    lk_fork_watch(l);
    l->owner = strdup(config->owner);
    if (l->owner != NULL && lk_table_reserve(&l->keys))
        return l;
    lk_locker_free(l);
    return NULL;
}

/* Nobody else knows it any more. */
LK_UNCHECKED void lk_locker_free(locker *l)
{
    LK_NO_CANCEL;

    lk_descriptors_close(l);
    lk_fork_unwatch(l);
    free(l->heap);
    lk_table_destroy(&l->keys);
    free(l->owner);
    pthread_cond_destroy(&l->changed);
    lk_mutex_destroy(&l->mutex);
    free(l);
}

void lk_handle_gone(locker *l)
{
    if (atomic_fetch_sub_explicit(&l->owed, 1, memory_order_acq_rel) == 1)
        lk_locker_free(l);
}

/* l->handles is constant now. */
LK_UNCHECKED void lk_user_gone(locker *l)
{
    const int64_t made = (int64_t)l->handles;
    if (atomic_fetch_add_explicit(&l->owed, made, memory_order_acq_rel) + made == 0)
        lk_locker_free(l);
}
