/* thief.c: takes locks away behind their holders' backs. The service has to be asked for that, which blocks:
 * so what is found out where nothing may block is left to a thread, which lives from the first time to
 * closing. */
#include <stdlib.h>
#include <string.h>

#include "internal.h"
#include "lk_thread.h"

struct lk_fault_theft {
    lk_fault_theft *next;
    uint64_t token;
    char key[LOCKER_KEY_MAX + 1];
};

void lk_fault_steal(lk_fault_instance *f, const char *key, uint64_t token, int64_t until)
{
    const locker_break_options only = {.size = sizeof only, .token = token};
    locker_info info = LOCKER_INFO_INIT;
    locker_error err = {LOCKER_UNSUPPORTED, 0, "the driver has no break"};
    locker_status status = LOCKER_UNSUPPORTED;
    if (f->inner->break_lock != NULL)
        status = f->inner->break_lock(f->self, key, strlen(key), &only, until, &info, &err);
    locker_info_clear(&info);
    /* INVALID: it has gone by itself; BUSY: it is another's by now */
    if (status != LOCKER_OK && status != LOCKER_INVALID && status != LOCKER_BUSY)
        f->core->log(f->core, LOCKER_LOG_WARN, "lose-lock: cannot break the lock '%s': %s", key, err.text);
}

static void *steal_all(void *arg)
{
    lk_fault_instance *f = arg;
    lk_mutex_lock(&f->mutex);
    for (;;) {
        lk_fault_theft *theft = f->thefts;

        if (theft != NULL) {
            f->thefts = theft->next;
            lk_mutex_unlock(&f->mutex);
            lk_fault_steal(f, theft->key, theft->token, lk_fault_now(f) + f->patience_ns);
            free(theft);
            lk_mutex_lock(&f->mutex);
        } else if (f->stop) {
            break;
        } else {
            lk_mutex_wait(&f->mutex, &f->robbing);
        }
    }
    lk_mutex_unlock(&f->mutex);
    return NULL;
}

static bool start_thief_locked(lk_fault_instance *f) LK_REQUIRES(f->mutex)
{
    if (f->thief_runs)
        return true;
    f->thief_runs = lk_thread_start(&f->thief, steal_all, f) == 0;
    return f->thief_runs;
}

void lk_fault_steal_later_locked(lk_fault_instance *f, const locker_claim *grant)
{
    lk_fault_theft *theft = start_thief_locked(f) ? malloc(sizeof *theft) : NULL;
    if (theft == NULL)
        return; /* no memory, no theft */
    theft->token = grant->token;
    memcpy(theft->key, grant->key, grant->key_len + 1);
    theft->next = f->thefts;
    f->thefts = theft;
    pthread_cond_signal(&f->robbing);
}

void lk_fault_thief_end(lk_fault_instance *f)
{
    lk_mutex_lock(&f->mutex);
    f->stop = true;
    const bool runs = f->thief_runs;
    const pthread_t thief = f->thief; /* if it runs */
    pthread_cond_signal(&f->robbing);
    lk_mutex_unlock(&f->mutex);
    if (runs)
        pthread_join(thief, NULL);
}
