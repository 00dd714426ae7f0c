/*
 * threads.c: what stands for pthread: mutexes, conditions and threads of fibers. Each call is a moment in which another
 * fiber may go on, so a seed finds what needs a switch between two mutexes. A mutex and a condition are their addresses: a
 * mutex keeps who holds it in its own first bytes, which PTHREAD_MUTEX_INITIALIZER has as zero.
 */
#include <errno.h>
#include <pthread.h>
#include <stdlib.h>

#include "fibers.h"
#include "seams.h"

enum { SPURIOUS_PPM = 2000 };

static lk_sim_fiber **holder_of(pthread_mutex_t *mutex)
{
    return (lk_sim_fiber **)(void *)mutex;
}

int lk_sim_pthread_mutex_init(pthread_mutex_t *mutex, const pthread_mutexattr_t *attributes)
{
    (void)attributes;
    *holder_of(mutex) = NULL;
    return 0;
}

int lk_sim_pthread_mutex_destroy(pthread_mutex_t *mutex)
{
    if (*holder_of(mutex) != NULL)
        lk_sim_fail("a mutex is destroyed that is held");
    return 0;
}

static void take(pthread_mutex_t *mutex)
{
    while (*holder_of(mutex) != NULL) {
        if (*holder_of(mutex) == lk_sim_self())
            lk_sim_fail("a mutex is taken twice");
        (void)lk_sim_wait(mutex, INT64_MAX);
    }
    *holder_of(mutex) = lk_sim_self();
}

static void let_go(pthread_mutex_t *mutex)
{
    if (*holder_of(mutex) != lk_sim_self())
        lk_sim_fail("a mutex is let go of that another holds");
    *holder_of(mutex) = NULL;
    lk_sim_wake_all(mutex); /* who comes first has it */
}

int lk_sim_pthread_mutex_lock(pthread_mutex_t *mutex)
{
    lk_sim_pause();
    take(mutex);
    return 0;
}

int lk_sim_pthread_mutex_unlock(pthread_mutex_t *mutex)
{
    let_go(mutex);
    lk_sim_pause();
    return 0;
}

/* ------------------------------------------------------------------ conditions ---- */

int lk_sim_pthread_cond_init(pthread_cond_t *cond, const pthread_condattr_t *attributes)
{
    (void)attributes; /* the clocks of a process run alike */
    (void)cond;
    return 0;
}

int lk_sim_pthread_cond_destroy(pthread_cond_t *cond)
{
    (void)cond;
    return 0;
}

static bool wait_for(pthread_cond_t *cond, pthread_mutex_t *mutex, int64_t until)
{
    if (lk_sim_chance(SPURIOUS_PPM)) {
        let_go(mutex);
        lk_sim_pause();
        take(mutex);
        return true;
    }
    *holder_of(mutex) = NULL;
    lk_sim_wake_all(mutex);
    const bool woken = lk_sim_wait(cond, until);
    take(mutex);
    return woken;
}

int lk_sim_pthread_cond_wait(pthread_cond_t *cond, pthread_mutex_t *mutex)
{
    (void)wait_for(cond, mutex, INT64_MAX);
    return 0;
}

int lk_sim_pthread_cond_timedwait(pthread_cond_t *cond, pthread_mutex_t *mutex, const struct timespec *until)
{
    return wait_for(cond, mutex, lk_sim_true_of_spec(until)) ? 0 : ETIMEDOUT;
}

int lk_sim_pthread_cond_signal(pthread_cond_t *cond)
{
    lk_sim_wake_one(cond);
    lk_sim_pause();
    return 0;
}

int lk_sim_pthread_cond_broadcast(pthread_cond_t *cond)
{
    lk_sim_wake_all(cond);
    lk_sim_pause();
    return 0;
}

/* ------------------------------------------------------------------ threads ---- */

int lk_sim_pthread_create(pthread_t *thread, const pthread_attr_t *attributes, void *(*run)(void *),
                          void *argument)
{
    (void)attributes;
    *thread = (pthread_t)(uintptr_t)lk_sim_spawn(lk_sim_here(), run, argument);
    lk_sim_pause();
    return 0;
}

int lk_sim_pthread_join(pthread_t thread, void **result)
{
    const lk_sim_fiber *const fiber = (const lk_sim_fiber *)(uintptr_t)thread;
    while (!lk_sim_is_over(fiber, result))
        (void)lk_sim_wait(fiber, INT64_MAX);
    return 0;
}

int lk_sim_pthread_detach(pthread_t thread)
{
    (void)thread;
    return 0;
}

pthread_t lk_sim_pthread_self(void)
{
    return (pthread_t)(uintptr_t)lk_sim_self();
}

/* It may be called by one fiber while another is inside. */
int lk_sim_pthread_once(pthread_once_t *once, void (*run)(void))
{
    enum { NEVER, INSIDE, DONE };
    if (*once == NEVER) {
        *once = INSIDE;
        run();
        *once = DONE;
        lk_sim_wake_all(once);
    }
    while (*once == INSIDE)
        (void)lk_sim_wait(once, INT64_MAX);
    return 0;
}
