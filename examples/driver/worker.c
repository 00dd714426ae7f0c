/* worker.c: the background of an instance; see worker.h. */
#include "worker.h"

#include <signal.h>
#include <stdlib.h>
#include <string.h>

/* Before a failed transaction is tried again. */
static const int64_t pause_ns = 20 * INT64_C(1000000);

static int64_t now_of(const lock_worker *w)
{
    return w->svc->clock->now(w->svc->clock->context);
}

/* ------------------------------------------------------------------ what is wanted ---- */

static void list_locked(lock_worker *w, lock_job *job)
{
    if (job->listed)
        return;
    job->listed = true;
    job->next = w->first;
    w->first = job;
    pthread_cond_signal(&w->wanted);
}

lock_job *worker_job(const char *name, int64_t ttl_ns)
{
    size_t length = strlen(name) + 1;
    lock_job *job = calloc(1, sizeof *job + length);
    if (job == NULL)
        return NULL;
    (void)memcpy(job->name, name, length);
    job->ttl_ns = ttl_ns;
    return job;
}

void worker_granted(lock_worker *w, lock_job *job, locker_claim *grant)
{
    pthread_mutex_lock(&w->mutex);
    job->claim = grant;
    job->token = grant->token;
    pthread_mutex_unlock(&w->mutex);
}

void worker_renew(lock_worker *w, lock_job *const *jobs, size_t count)
{
    pthread_mutex_lock(&w->mutex);
    for (size_t i = 0; i < count; i++) {
        jobs[i]->renew = true;
        list_locked(w, jobs[i]);
    }
    pthread_mutex_unlock(&w->mutex);
}

void worker_let_go(lock_worker *w, lock_job *job)
{
    pthread_mutex_lock(&w->mutex);
    job->claim = NULL;
    job->renew = false;
    pthread_mutex_unlock(&w->mutex);
}

void worker_end(lock_worker *w, lock_job *job, bool release)
{
    bool unused;
    pthread_mutex_lock(&w->mutex);
    job->claim = NULL;
    job->renew = false;
    job->over = true;
    if (release) {
        job->release = true;
        job->release_until = now_of(w) + w->cleanup_ns;
        list_locked(w, job);
    }
    unused = !job->listed;
    pthread_mutex_unlock(&w->mutex);
    if (unused)
        free(job);
}

/* ------------------------------------------------------------------ the work ---- */

/* What is wanted of it in this transaction. More may be wanted while it goes on: that is for the next one. */
static void choose(lock_worker *w, lock_job *job)
{
    pthread_mutex_lock(&w->mutex);
    job->done = job->release ? JOB_RELEASED : job->renew ? JOB_RENEWED : JOB_UNTOUCHED;
    pthread_mutex_unlock(&w->mutex);
}

/* One transaction for all. When it fails nothing was done, and everything is still wanted. */
static void transact(lock_worker *w, lock_job *jobs, int64_t until)
{
    locker_status status = store_begin(&w->store, until, NULL, NULL);
    const bool begun = status == LOCKER_OK;
    int64_t now = now_of(w);
    for (lock_job *job = jobs; job != NULL && status == LOCKER_OK; job = job->next) {
        choose(w, job);
        if (job->done == JOB_UNTOUCHED)
            continue;
        job->answer = store_move(&w->store, job->name, job->token, now,
                                 job->done == JOB_RELEASED ? 0 : now + job->ttl_ns, NULL);
        if (job->answer != LOCKER_LOST)
            status = job->answer;
    }
    if (begun)
        status = store_end(&w->store, status, NULL);
    for (lock_job *job = jobs; job != NULL && status != LOCKER_OK; job = job->next)
        job->done = JOB_UNTOUCHED;
}

/* Tells core, and sees what is left to do. `sent` is from before the transaction. */
static void settle_locked(lock_worker *w, lock_job *job, int64_t sent)
{
    if (job->done == JOB_RENEWED && job->claim != NULL) {
        if (job->answer == LOCKER_OK)
            w->svc->lease_extended(w->svc, job->claim, sent + job->ttl_ns);
        else
            w->svc->lease_lost(w->svc, job->claim, "its lease had ended, or it was broken");
    }
    if (job->done == JOB_RENEWED)
        job->renew = false;
    if (job->done == JOB_RELEASED || now_of(w) >= job->release_until)
        job->release = false;
    job->done = JOB_UNTOUCHED;
}

/* Answers whether something is still wanted. */
static bool settle(lock_worker *w, lock_job *jobs, int64_t sent)
{
    bool more = false;
    lock_job *next;
    pthread_mutex_lock(&w->mutex);
    for (lock_job *job = jobs; job != NULL; job = next) {
        next = job->next;
        job->listed = false;
        settle_locked(w, job, sent);
        if (job->renew || job->release) {
            list_locked(w, job);
            more = true;
        } else if (job->over) {
            free(job);
        }
    }
    pthread_mutex_unlock(&w->mutex);
    return more;
}

/* Waits for work and takes all of it. NULL: it is time to end. */
static lock_job *await_work(lock_worker *w)
{
    lock_job *jobs;
    pthread_mutex_lock(&w->mutex);
    while (w->first == NULL && w->stop_at == LOCKER_NEVER)
        w->svc->clock->wait(w->svc->clock->context, &w->wanted, &w->mutex, LOCKER_NEVER);
    jobs = w->first;
    w->first = NULL;
    pthread_mutex_unlock(&w->mutex);
    return jobs;
}

/* Answers until when a transaction may take, or 0 when the time is over. */
static int64_t time_for_one(lock_worker *w)
{
    int64_t now = now_of(w), until = now + w->command_timeout_ns;
    pthread_mutex_lock(&w->mutex);
    if (w->stop_at < until)
        until = w->stop_at;
    pthread_mutex_unlock(&w->mutex);
    return until > now ? until : 0;
}

static void pause_before_retry(lock_worker *w)
{
    const int64_t until = now_of(w) + pause_ns;
    pthread_mutex_lock(&w->mutex);
    while (now_of(w) < until)
        w->svc->clock->wait(w->svc->clock->context, &w->wanted, &w->mutex, until);
    pthread_mutex_unlock(&w->mutex);
}

static void *work(void *argument)
{
    lock_worker *w = argument;
    lock_job *jobs;
    while ((jobs = await_work(w)) != NULL) {
        int64_t sent = now_of(w), until = time_for_one(w);

        if (until != 0) {
            transact(w, jobs, until);
        } else { /* the leases' end will do it */
            for (lock_job *job = jobs; job != NULL; job = job->next)
                job->release_until = 0;
        }
        if (settle(w, jobs, sent) && until != 0)
            pause_before_retry(w);
    }
    return NULL;
}

/* ------------------------------------------------------------------ life ---- */

/* Signals are for the application's threads. */
static int start_thread(lock_worker *w)
{
    sigset_t all, before;
    int rc;
    (void)sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    rc = pthread_create(&w->thread, NULL, work, w);
    pthread_sigmask(SIG_SETMASK, &before, NULL);
    return rc;
}

locker_status worker_start(lock_worker *w, const char *path, const locker_driver_config *config,
                           const locker_services *svc, locker_error *err)
{
    const int64_t until = svc->clock->now(svc->clock->context) + config->connect_timeout_ns;
    locker_status status = store_open(&w->store, path, svc->clock, until, err);
    int rc;
    if (status != LOCKER_OK)
        return status;
    w->svc = svc;
    w->command_timeout_ns = config->command_timeout_ns;
    w->cleanup_ns = config->cleanup_ns;
    w->first = NULL;
    w->stop_at = LOCKER_NEVER;
    pthread_mutex_init(&w->mutex, NULL);
    (void)locker_cond_init(&w->wanted);
    rc = start_thread(w);
    if (rc == 0)
        return LOCKER_OK;
    pthread_cond_destroy(&w->wanted);
    pthread_mutex_destroy(&w->mutex);
    store_close(&w->store);
    return locker_error_set(err, LOCKER_UNAVAILABLE, rc, "can't start a thread: %s", strerror(rc));
}

void worker_stop(lock_worker *w)
{
    pthread_mutex_lock(&w->mutex);
    w->stop_at = now_of(w) + w->cleanup_ns;
    pthread_cond_signal(&w->wanted);
    pthread_mutex_unlock(&w->mutex);
    pthread_join(w->thread, NULL);
    pthread_cond_destroy(&w->wanted);
    pthread_mutex_destroy(&w->mutex);
    store_close(&w->store);
}
