/* secret.c: a password's file, which a thread reads. */
#include "secret.h"

#include <stdlib.h>
#include <string.h>

#include "lk_thread.h"

/* A password's file. The instance uses it, and a thread while it reads. The last user frees it. */
struct lk_etcd_secret {
    lk_mutex mutex; /* locked inside the driver's mutex */
    unsigned users LK_GUARDED_BY(mutex);
    const locker_services *svc LK_GUARDED_BY(mutex); /* NULL: the instance has gone */
    bool reading LK_GUARDED_BY(mutex);
    bool ready LK_GUARDED_BY(mutex);
    char *password LK_GUARDED_BY(mutex); /* with `ready`: the password; NULL: it could not be read */
    char file[];
};

lk_etcd_secret *lk_etcd_secret_new(const char *file)
{
    const size_t size = strlen(file) + 1;
    lk_etcd_secret *const s = calloc(1, sizeof *s + size);
    if (s == NULL)
        return NULL;
    lk_mutex_init(&s->mutex);
    s->users = 1;
    memcpy(s->file, file, size);
    return s;
}

static void forget_locked(lk_etcd_secret *s) LK_REQUIRES(s->mutex)
{
    if (s->password != NULL)
        explicit_bzero(s->password, strlen(s->password));
    free(s->password);
    s->password = NULL;
    s->ready = false;
}

static void leave(lk_etcd_secret *s) LK_RELEASE(s->mutex)
{
    const bool last = --s->users == 0;
    if (last)
        forget_locked(s);
    lk_mutex_unlock(&s->mutex);
    if (!last)
        return;
    lk_mutex_destroy(&s->mutex);
    free(s);
}

void lk_etcd_secret_drop(lk_etcd_secret *s)
{
    if (s == NULL)
        return;
    lk_mutex_lock(&s->mutex);
    s->svc = NULL;
    leave(s);
}

static void *run(void *argument)
{
    lk_etcd_secret *const s = argument;
    char *const password = locker_secret_read(s->file, NULL);
    lk_mutex_lock(&s->mutex);
    s->password = password;
    s->reading = false;
    s->ready = true;
    if (s->svc != NULL)
        s->svc->attend(s->svc);
    leave(s);
    return NULL;
}

bool lk_etcd_secret_read(lk_etcd_secret *s, const locker_services *svc)
{
    pthread_t thread;
    lk_mutex_lock(&s->mutex);
    const bool begins = !s->reading && lk_thread_start(&thread, run, s) == 0;
    if (begins) {
        pthread_detach(thread);
        forget_locked(s); /* a result for which an earlier login did not wait */
        s->svc = svc;
        s->reading = true;
        s->users++; /* counted before the thread can leave */
    }
    lk_mutex_unlock(&s->mutex);
    return begins;
}

bool lk_etcd_secret_take(lk_etcd_secret *s, char **password)
{
    lk_mutex_lock(&s->mutex);
    const bool ready = s->ready;
    *password = s->password;
    s->password = NULL;
    s->ready = false;
    lk_mutex_unlock(&s->mutex);
    return ready;
}
