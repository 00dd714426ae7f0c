/*
 * thief.c: takes locks away behind their holders' backs. The service has to be asked for that, which blocks:
 * so what is found out where nothing may block is left to a thread, which lives from the first time to
 * closing.
 */
#include <signal.h>
#include <stdlib.h>
#include <string.h>

#include "internal.h"

struct lk_theft {
    lk_theft *next;
    uint64_t token;
    char key[LOCKER_KEY_MAX + 1];
};

void lk_fault_steal(lk_faulty *f, const char *key, int64_t until)
{
    locker_info info = LOCKER_INFO_INIT;
    locker_error err = {LOCKER_UNSUPPORTED, 0, "it has no such operation"};
    locker_status status = LOCKER_UNSUPPORTED;

    if (f->inner->break_lock != NULL)
        status = f->inner->break_lock(f->self, key, strlen(key), until, &info, &err);
    locker_info_clear(&info);
    if (status != LOCKER_OK && status != LOCKER_INVALID) /* INVALID: it has gone by itself */
        f->core->log(f->core, LOCKER_LOG_WARN, "lose-lock: the lock '%s' can't be broken: %s", key, err.text);
}

/* The holder may have given it back meanwhile, and another may have it. */
static void carry_out(lk_faulty *f, const lk_theft *theft)
{
    locker_info info = LOCKER_INFO_INIT;
    int64_t until = lk_fault_now(f) + f->patience_ns;
    bool same = f->inner->show(f->self, theft->key, strlen(theft->key), until, &info, NULL) == LOCKER_OK &&
                info.held && (info.token == theft->token || info.token == 0);

    locker_info_clear(&info);
    if (same)
        lk_fault_steal(f, theft->key, until);
}

static void *steal_all(void *arg)
{
    lk_faulty *f = arg;

    (void)pthread_mutex_lock(&f->mutex);
    for (;;) {
        lk_theft *theft = f->thefts;

        if (theft != NULL) {
            f->thefts = theft->next;
            (void)pthread_mutex_unlock(&f->mutex);
            carry_out(f, theft);
            free(theft);
            (void)pthread_mutex_lock(&f->mutex);
        } else if (f->stop) {
            break;
        } else {
            (void)pthread_cond_wait(&f->robbing, &f->mutex);
        }
    }
    (void)pthread_mutex_unlock(&f->mutex);
    return NULL;
}

static bool start_thief_locked(lk_faulty *f)
{
    sigset_t all, before;

    if (f->thief_runs)
        return true;
    (void)sigfillset(&all);
    (void)pthread_sigmask(SIG_SETMASK, &all, &before);
    f->thief_runs = pthread_create(&f->thief, NULL, steal_all, f) == 0;
    (void)pthread_sigmask(SIG_SETMASK, &before, NULL);
    return f->thief_runs;
}

void lk_fault_steal_later_locked(lk_faulty *f, const locker_claim *grant)
{
    lk_theft *theft = start_thief_locked(f) ? malloc(sizeof *theft) : NULL;

    if (theft == NULL)
        return; /* no memory, no theft */
    theft->token = grant->token;
    memcpy(theft->key, grant->key, grant->key_len + 1);
    theft->next = f->thefts;
    f->thefts = theft;
    (void)pthread_cond_signal(&f->robbing);
}

void lk_fault_thief_end(lk_faulty *f)
{
    bool runs;

    (void)pthread_mutex_lock(&f->mutex);
    f->stop = true;
    runs = f->thief_runs;
    (void)pthread_cond_signal(&f->robbing);
    (void)pthread_mutex_unlock(&f->mutex);
    if (runs)
        (void)pthread_join(f->thief, NULL);
}
