/* events.c: what is done when a command connection is up, when there is a subscription or never will be, and on a message of
 * this instance's own channel: a release in any process tells there that it handed a lock to one of our waiters ("value
 * last/count direct_us lock": the last of so many numbers), that one of them has entered ("value enter lock"), or has come to
 * stand among the first ("value near lock"); and a break that it took a lock away from us ("value broken lock"), or from one of whom nobody knew yet ("value taken counter
 * lock"). A message that gets lost costs no more than a look, or is made up for by the next renewal. */
#include <inttypes.h>

#include "instance.h"

static const int64_t hop_us = 200; /* what a hand-over takes, for the reckoning of how long they go on */

/* The order matters. What is known of the server comes first: commands that are made from here on use it. What nobody
 * wants any more is given back before anybody asks for something new. */
void lk_redis_on_up_locked(void *self, int64_t server_us, int64_t at)
{
    lk_redis_node *node = self;
    lk_redis *r = node->r;
    if (server_us != 0)
        lk_redis_server_time_set_locked(&node->time, server_us, at);
    /* A slot may have been elsewhere meanwhile, and lost numbers there: each grant in a cluster lifts its counter. */
    lk_redis_fences_set_least(&node->fences, r->map != NULL ? 0 : server_us);
    lk_redis_recovery_meet_locked(r);
    if (r->set.wait_replicas > 0 && node->commands->socket->replicas > r->set.wait_replicas)
        r->shared.svc->log(r->shared.svc, LOCKER_LOG_WARN,
                           "redis: wait_replicas is %" PRId64 ", but the master has %" PRId64
                           " replicas: a replica without a lock may be promoted; set "
                           "wait_replicas to the number of replicas that may be promoted",
                           r->set.wait_replicas, node->commands->socket->replicas);
    (void)lk_redis_cleanups_run_locked(r, lk_redis_now(&r->shared));
}

/* The word of a break may have been missed: a renewal tells. */
static bool may_have_missed_locked(const lk_redis_node *node, const lk_redis_claim *data) LK_REDIS_LOCKED
{
    return data->noted && lk_redis_claim_is_held(data) && data->core->renewed &&
           lk_redis_net_is_subscribed(node->net, data->slot) &&
           lk_redis_net_has_missed_locked(node->net, data->slot);
}

void lk_redis_on_subscribed_locked(void *self, const uint32_t *slots)
{
    lk_redis_node *const node = self;
    lk_redis *const r = node->r;
    bool moved = false;
    pthread_cond_broadcast(&r->shared.changed);
    for (lk_redis_claim *data = NULL; (data = lk_redis_claims_after_locked(&r->claims, data)) != NULL;) {
        if (slots != NULL && (slots[data->slot / 32] >> data->slot % 32 & 1) == 0)
            continue;
        moved = moved || (slots != NULL && !lk_redis_net_is_subscribed(node->net, data->slot));
        if (!lk_redis_claim_is_granted(data)) /* another attempt finds what was missed, and enrols too */
            r->shared.svc->wake(r->shared.svc, data->core);
        else if (slots != NULL && may_have_missed_locked(node, data))
            lk_redis_renew_now_locked(r, data->core);
    }
    if (moved)
        lk_redis_net_want_map_locked(node->net);
    if (r->map == NULL && lk_redis_net_is_subscribed(node->net, 0)) /* likewise of all that came before it */
        lk_redis_renew_noted_locked(node);
}

/* Whether the claim is of that lock. */
static bool is_lock_of(const lk_redis *r, const locker_claim *claim, const char *lock, size_t lock_len)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    return lock_len == prefix->len + claim->key_len && memcmp(lock, prefix->text, prefix->len) == 0 &&
           memcmp(lock + prefix->len, claim->key, claim->key_len) == 0;
}

/* Why who has it has lost it: somebody broke it, but no grant with a number behind the counter of then, which he has got by an
 * attempt of his own since. Or he is handed it again with a number behind his own: the server has forgotten that he had it, and
 * found him in its queue when another gave it back: a replica that was behind when made master has the queue of then, too. */
static const char *why_lost(const lk_redis_claim *data, bool is_broken, uint64_t fence)
{
    const uint64_t first = LK_READ(data->fence);
    const bool is_forgotten = !is_broken && first != 0 && fence >= first + data->numbers;
    if (is_broken && first <= fence)
        return "its lock was broken by an operator";
    return is_forgotten ? "the server had lost it, and another client had the lock meanwhile" : NULL;
}

/* What a message says. */
typedef enum {
    HANDED,  /* the lock is its waiter's */
    ENTERED, /* ... beside others that share it, or with a permit: it asks which */
    NEAR,    /* so it may be soon */
    DOUBTED, /* another doubts whether its waiter lives */
    BROKEN,  /* the lock was taken from him whose info it has */
    TAKEN    /* ... from a holder without an info, or from one of several holders */
} kind;

typedef struct {
    kind what;
    uint64_t value;
    int64_t fence; /* HANDED: the last of its numbers. TAKEN: the counter then, or its own. BROKEN: any */
    int64_t count; /* ... of so many */
    int64_t direct_us;
    const char *lock;
    size_t lock_len;
} message;

/* The word behind the value. */
static kind kind_of(const char **text)
{
    static const struct {
        const char *word;
        kind what;
    } words[] = {{" near ", NEAR},
                 {" look ", DOUBTED},
                 {" enter ", ENTERED},
                 {" broken ", BROKEN},
                 {" taken ", TAKEN}};
    for (size_t i = 0; i < sizeof words / sizeof *words; i++) {
        const size_t len = strlen(words[i].word);
        if (strncmp(*text, words[i].word, len) == 0) {
            *text += len;
            return words[i].what;
        }
    }
    ++*text;
    return HANDED;
}

/* "last/count". Earlier releases tell of one number by which they count alone: the next attempt takes one of ours. */
static bool read_grant(const char **text, message *m)
{
    if (lk_redis_read_number(text, '/', &m->fence))
        return lk_redis_read_number(text, ' ', &m->count) && m->count <= LK_REDIS_PASS_RESERVE;
    const bool is_early = lk_redis_read_number(text, ' ', &m->fence);
    m->fence = 0;
    return is_early;
}

/* A name with a NUL in it is no lock's. */
static bool read_message(const lk_redis *r, const redisReply *text, message *m)
{
    const char *at = text->str + LK_REDIS_VALUE_LEN;
    if (text->len < LK_REDIS_VALUE_LEN + 4 || text->len != strlen(text->str) || *at != ' ' ||
        !lk_redis_value_number(&r->values, text->str, &m->value))
        return false;
    m->what = kind_of(&at);
    m->fence = INT64_MAX;
    m->count = m->direct_us = 0;
    if (m->what == HANDED && (!read_grant(&at, m) || !lk_redis_read_number(&at, ' ', &m->direct_us)))
        return false;
    if (m->what == TAKEN && !lk_redis_read_number(&at, ' ', &m->fence))
        return false;
    m->lock = at;
    m->lock_len = (size_t)(text->str + text->len - at);
    return true;
}

/* Who waits may have been given the lock, and not know yet, when it is broken. Number 0 of a lock that is handed over: none,
 * because fencing is off, or because the lock is left free for a moment; a client that polls may have it then and tells nobody
 * when it gives it back, so the waiter looks again soon. */
static void tell_locked(lk_redis *r, lk_redis_claim *data, const message *m) LK_REDIS_LOCKED
{
    const locker_services *const svc = r->shared.svc;
    const bool is_broken = m->what == BROKEN || m->what == TAKEN;
    if (lk_redis_claim_is_granted(data)) {
        const char *const why =
            is_broken || m->what == HANDED ? why_lost(data, is_broken, (uint64_t)m->fence) : NULL;
        if (why != NULL)
            svc->lease_lost(svc, data->core, why);
        return;
    }
    if (m->what == NEAR || m->what == DOUBTED) {
        lk_redis_look_soon_locked(r, data, m->what == DOUBTED);
        return;
    }
    if (m->what == ENTERED) {
        svc->wake(svc, data->core);
        return;
    }
    data->broken = data->broken || is_broken;
    data->direct_us = is_broken ? 0 : m->direct_us + hop_us;
    data->polls = m->fence == 0 ? 1 : 0;
    data->given_numbers = (uint8_t)m->count;
    LK_WRITE(data->given, is_broken ? 0 : (uint64_t)m->fence);
    svc->wake(svc, data->core);
}

/* The keys of a lock that a message names. Its namespace is ours, unless somebody else wrote into a queue. */
static bool keys_of(lk_redis *r, const message *m, lk_redis_keys *keys, uint16_t *slot)
{
    const lk_redis_prefix *const prefix = &r->set.prefix;
    if (m->lock_len <= prefix->len || memcmp(m->lock, prefix->text, prefix->len) != 0)
        return false;
    const char *const key = m->lock + prefix->len;
    const size_t key_len = m->lock_len - prefix->len;
    *slot = lk_redis_slot_of(&r->slots, prefix, key, key_len);
    return lk_redis_keys_in(r, keys, key, key_len, *slot);
}

/* The claim that the lock was handed to may have ended; and whoever writes into queues may hand a value another lock than
 * the one that it waits for. Then nobody here wants that, and it is given back. */
void lk_redis_on_message_locked(void *self, const redisReply *text)
{
    lk_redis *r = ((lk_redis_node *)self)->r;
    message m;
    lk_redis_keys keys;
    uint16_t slot;
    if (!read_message(r, text, &m))
        return;
    lk_redis_claim *data = lk_redis_claims_find_locked(&r->claims, m.value);
    if (data != NULL && is_lock_of(r, data->core, m.lock, m.lock_len))
        tell_locked(r, data, &m);
    else if ((m.what == HANDED || m.what == ENTERED) && keys_of(r, &m, &keys, &slot))
        lk_redis_cleanup_start_locked(r, &keys, slot, m.value,
                                      m.what == ENTERED ? LK_REDIS_SHARING : LK_REDIS_UNNOTED, NULL);
}
