/*
 * reconnect.c: a thread that lives while a connection is missing. It may block: in resolving a name, in
 * connecting, in waiting for the next try. The first connection is made by open, in its caller's thread.
 */
#include <signal.h>
#include <stdio.h>
#include <string.h>

#include "internal.h"

static const int64_t backoff_least = 50 * LK_MS;
static const int64_t backoff_most = 2 * LK_S;

static bool command_missing_locked(const struct lk_redis *r)
{
    return r->conn.state == LK_CONN_DOWN;
}

static bool subscriber_missing_locked(const struct lk_redis *r)
{
    return r->conn.state == LK_CONN_UP && r->sub.wanted && r->sub.link == NULL && !r->sub.refused;
}

/* Exponential back-off with full jitter, so that a thousand clients don't come back at once. */
void lk_back_off_locked(struct lk_redis *r)
{
    int64_t most = backoff_least;
    for (unsigned i = 0; i < r->failures && most < backoff_most; i++)
        most *= 2;
    r->failures++;
    r->retry_at = lk_redis_now(r) + (int64_t)lk_random(r, (uint64_t)lk_earlier(most, backoff_most));
}

bool lk_has_failed_since_locked(const struct lk_redis *r, int64_t since)
{
    return r->failed_at != 0 && r->failed_at >= since;
}

/* The back-off spares a server that comes back; one that is asked for without patience would be said to be
 * away for as long. So a try hurries, but no more often than the shortest back-off, however many try. */
int64_t lk_connector_hurry_locked(struct lk_redis *r)
{
    const int64_t since = lk_redis_now(r) - backoff_least;
    const int64_t soon = lk_has_failed_since_locked(r, since) ? r->failed_at + backoff_least : 0;
    const bool sooner = soon < r->retry_at;
    if (sooner)
        r->retry_at = soon;
    if (sooner || !r->connector_running)
        lk_connector_want_locked(r);
    return since;
}

/* Make the command connection. Releases lock meanwhile. */
static void connect_command_locked(struct lk_redis *r)
{
    struct lk_connect_error why = {0};
    char redirect[LK_PEER_MAX];
    char loaded[LK_SCRIPT_COUNT][41];
    memcpy(redirect, r->redirect, sizeof(redirect));
    const int64_t began = lk_redis_now(r); /* what has come up since may not have been seen */
    pthread_mutex_unlock(&r->lock);
    struct lk_link *link =
        lk_connect_master(&r->set, redirect, loaded, lk_system_now() + r->set.connect_timeout_ns, &why);
    pthread_mutex_lock(&r->lock);
    if (r->closing) {
        lk_link_free(link, true);
        return;
    }
    r->failed_at = link == NULL ? began : 0;
    r->deserted = link == NULL && why.deserted;
    if (link == NULL) {
        if (why.permanent || r->failures == 0)
            lk_note_locked(r, LOCKER_LOG_WARN, "redis: %s", why.error.text);
        r->last_error = why;
        r->redirect[0] = '\0';
        lk_back_off_locked(r);
        pthread_cond_broadcast(&r->changed);
        return;
    }
    lk_conn_install_locked(r, link);
    (void)lk_cleanups_run_locked(r, lk_redis_now(r));
    lk_pump_locked(r);
}

/* Whether the subscription is with the server that is asked for locks, as far as both tell who they are: what
 * another one says is not about these locks. A name may stand for many servers, and a master that does not
 * answer is looked for at the other hosts. */
static bool is_same_server_locked(const struct lk_redis *r, const struct lk_link *link)
{
    return strcmp(link->server.run, r->server.run) == 0;
}

static void connect_subscriber_locked(struct lk_redis *r)
{
    struct lk_connect_error why = {0};
    char peer[LK_PEER_MAX];
    const unsigned era = atomic_load_explicit(&r->era, memory_order_relaxed);
    memcpy(peer, r->conn.link->peer, sizeof(peer));
    pthread_mutex_unlock(&r->lock);
    const int64_t until = lk_system_now() + r->set.connect_timeout_ns;
    struct lk_link *link = lk_connect_master(&r->set, peer, NULL, until, &why);
    if (link != NULL && !lk_subscribe(r, link, until, &why)) {
        lk_link_free(link, true);
        link = NULL;
    }
    pthread_mutex_lock(&r->lock);
    if (r->closing || r->sub.link != NULL || era != atomic_load_explicit(&r->era, memory_order_relaxed)) {
        lk_link_free(link, true);
        return;
    }
    if (link != NULL && is_same_server_locked(r, link)) {
        lk_subscriber_install_locked(r, link);
        return;
    }
    if (link != NULL) {
        lk_link_free(link, false);
    } else if (why.permanent) {
        r->sub.refused = true;
        r->sub.why = why.error;
        lk_claims_wake_locked(r);
    }
    lk_back_off_locked(r);
}

/* "MOVED 3999 127.0.0.1:6381" names the master; READONLY does not, so ROLE is asked. */
void lk_moved_locked(struct lk_redis *r, const redisReply *reply)
{
    const char *colon = strrchr(reply->str, ':');
    const char *host = strrchr(reply->str, ' ');
    if (strncmp(reply->str, "READONLY", 8) != 0 && colon != NULL && host != NULL && colon > host + 1)
        (void)snprintf(r->redirect, sizeof(r->redirect), "%s", host + 1);
    lk_conn_fail_locked(r, "it is not the master");
}

static void *run(void *argument)
{
    struct lk_redis *r = argument;
    pthread_mutex_lock(&r->lock);
    while (!r->closing) {
        const bool command = command_missing_locked(r);
        if (!command && !subscriber_missing_locked(r))
            break;
        if (lk_redis_now(r) < r->retry_at) {
            r->clock->wait(r->clock->context, &r->changed, &r->lock, r->retry_at);
            continue;
        }
        if (command)
            connect_command_locked(r);
        else
            connect_subscriber_locked(r);
    }
    r->connector_running = false;
    const bool left = r->connector_left;
    if (!r->closing)
        r->svc->attend(r->svc); /* the keeper writes the log */
    pthread_cond_broadcast(&r->changed);
    pthread_mutex_unlock(&r->lock);
    if (left)
        lk_redis_free(r);
    return NULL;
}

void lk_connector_want_locked(struct lk_redis *r)
{
    if (r->closing || (!command_missing_locked(r) && !subscriber_missing_locked(r)))
        return;
    if (r->connector_running) {
        pthread_cond_broadcast(&r->changed);
        return;
    }
    if (r->connector_joinable) /* it has nothing left to do but return */
        (void)pthread_join(r->connector, NULL);
    sigset_t all, before;
    sigfillset(&all);
    pthread_sigmask(SIG_SETMASK, &all, &before);
    r->connector_joinable = r->connector_running = pthread_create(&r->connector, NULL, run, r) == 0;
    pthread_sigmask(SIG_SETMASK, &before, NULL);
}

bool lk_connector_stop(struct lk_redis *r, int64_t until)
{
    pthread_mutex_lock(&r->lock);
    r->closing = true;
    pthread_cond_broadcast(&r->changed);
    while (r->connector_running && lk_redis_now(r) < until)
        r->clock->wait(r->clock->context, &r->changed, &r->lock, until);
    const bool ended = !r->connector_running;
    const bool joinable = r->connector_joinable;
    const pthread_t thread = r->connector;
    if (!ended) /* it is resolving a name, or connecting; it frees the instance when it is done */
        r->connector_left = true;
    pthread_mutex_unlock(&r->lock);
    if (joinable && ended)
        (void)pthread_join(thread, NULL);
    else if (joinable)
        (void)pthread_detach(thread);
    return ended;
}
