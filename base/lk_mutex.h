/* lk_mutex.h: mutexes that the compiler checks. clang's -Wthread-safety (script/check makes it an error) sees
 * that what a mutex guards is touched with it held, and that each function holds what the next one requires.
 * (https://clang.llvm.org/docs/ThreadSafetyAnalysis.html)
 *
 * It looks at one function at a time, and knows of the others what their declarations say:
 *
 *   LK_REQUIRES(m)     the caller holds m. Names end in _locked when it stays held, in _unlocking when it is
 *                      dropped and taken again inside, so that what was known before the call has to be
 *                      looked at anew.
 *   LK_ACQUIRE(m)      takes it
 *   LK_RELEASE(m)      lets go of it; a name ends in _unlock when more is done before that
 *   LK_EXCLUDES(m)     the caller must not hold it
 *   LK_GUARDED_BY(m)   of a member. C gives it no way to name another member (before clang 20), so what is
 *                      checked is that some mutex is held; m says to the reader which.
 *   LK_UNCHECKED       of a function that can't be followed: one that begins and ends an object that nobody
 *                      else sees, say. Its comment says why. */
#pragma once

#include <pthread.h>

#ifdef __clang__
#define LK_CHECKED(attribute) __attribute__((attribute))
#else
#define LK_CHECKED(attribute)
#endif
#define LK_REQUIRES(...)     LK_CHECKED(requires_capability(__VA_ARGS__))
#define LK_ACQUIRE(...)      LK_CHECKED(acquire_capability(__VA_ARGS__))
#define LK_RELEASE(...)      LK_CHECKED(release_capability(__VA_ARGS__))
#define LK_EXCLUDES(...)     LK_CHECKED(locks_excluded(__VA_ARGS__))
#define LK_GUARDED_BY(mutex) LK_CHECKED(guarded_var)
#define LK_UNCHECKED         LK_CHECKED(no_thread_safety_analysis)

/** A pthread mutex; `plain` is for what knows no others, such as a condition variable. */
typedef struct LK_CHECKED(capability("mutex")) {
    pthread_mutex_t plain;
} lk_mutex;

static inline void lk_mutex_init(lk_mutex *mutex)
{
    pthread_mutex_init(&mutex->plain, NULL);
}

static inline void lk_mutex_destroy(lk_mutex *mutex)
{
    pthread_mutex_destroy(&mutex->plain);
}

static inline void lk_mutex_lock(lk_mutex *mutex) LK_ACQUIRE(*mutex) LK_UNCHECKED
{
    pthread_mutex_lock(&mutex->plain);
}

static inline void lk_mutex_unlock(lk_mutex *mutex) LK_RELEASE(*mutex) LK_UNCHECKED
{
    pthread_mutex_unlock(&mutex->plain);
}

/** pthread_cond_wait(): the mutex is let go of meanwhile, and held again afterwards. */
static inline void lk_mutex_wait(lk_mutex *mutex, pthread_cond_t *cond) LK_REQUIRES(*mutex)
{
    pthread_cond_wait(cond, &mutex->plain);
}
