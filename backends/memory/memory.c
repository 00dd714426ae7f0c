/* memory.c: locks among the threads of one process. The shortest driver: read this one first.
 *
 * A space is a set of locks, shared by all lockers that were opened with the same name and namespace; one
 * without a name is its locker's own. It is a hash table of the claims that hold, and behind each holder
 * stands the queue of those that wait for it. Release hands the lock to the first of the queue at once and
 * wakes it; its next attempt finds that it has been granted. So the order is that of asking, among all
 * lockers of the space, and nobody overtakes. All that a lock needs is in its claim: nothing is allocated. */
#include <stdio.h>
#include <string.h>

#include "lk_error.h"
#include "lk_mutex.h"
#include "lk_table.h"
#include "lk_time.h"

/* The driver's bytes of a claim. Guarded by the space's mutex. */
typedef struct {
    /* NEW: also when it was broken. HANDED: granted while it stood in the queue, which its next attempt finds; core
     * doesn't know yet */
    enum { NEW, QUEUED, HANDED, GRANTED } state;
    lk_table_link in_space; /* of a holder */
    lk_list queue;          /* of a holder: who waits behind it */
    lk_list in_queue;       /* of one that waits */
    int64_t since;          /* of a holder: when it was granted; its claim's is core's from then on */
    locker_claim *claim;
    const locker_services *svc; /* of its locker, for waking */
} place;

typedef struct {
    lk_list link LK_GUARDED_BY(spaces_mutex);   /* in `spaces` */
    uint32_t users LK_GUARDED_BY(spaces_mutex); /* lockers */
    lk_mutex mutex;                             /* taken before core's, never while another space's is held */
    lk_table holders LK_GUARDED_BY(mutex);      /* by the hash of their key */
    uint64_t token LK_GUARDED_BY(mutex);        /* the last that was given out */
    char name[];                                /* "": a locker's own */
} space;

typedef struct {
    space *space;
    const locker_services *svc;
} instance;

/* Lockers of one process find the space that they share by its name, so this list has to be the process's. */
static lk_mutex spaces_mutex = {PTHREAD_MUTEX_INITIALIZER};
static lk_list spaces LK_GUARDED_BY(spaces_mutex) = {&spaces, &spaces};

/* The last token of any space that was dropped, so that a key's tokens grow on. */
static uint64_t last_token LK_GUARDED_BY(spaces_mutex);

/* The holder of the key; NULL: nobody holds it. */
static place *find_locked(const space *s, const char *key, size_t length, uint32_t hash) LK_REQUIRES(s->mutex)
{
    LK_TABLE_EACH_OF(link, &s->holders, hash) {
        place *p = LK_CONTAINER(link, place, in_space);
        if (link->hash == hash && p->claim->key_len == length && memcmp(p->claim->key, key, length) == 0)
            return p;
    }
    return NULL;
}

static void grant_locked(space *s, place *p, int64_t now) LK_REQUIRES(s->mutex)
{
    p->state = p->state == QUEUED ? HANDED : GRANTED;
    p->claim->granted_at = p->since = now;
    p->claim->token = ++s->token;
    p->claim->valid_until = LOCKER_NEVER;
}

/* It has the lock no more: the first of its queue takes its place, and the queue. It keeps none of them: a claim
 * that was broken before core knew of its grant asks once more. */
static void hand_over_locked(space *s, place *old) LK_REQUIRES(s->mutex)
{
    lk_list *const first = lk_list_take(&old->queue);
    lk_table_remove(&s->holders, &old->in_space);
    if (first == NULL)
        return;
    place *const p = LK_CONTAINER(first, place, in_queue);
    lk_list_init(&p->queue);
    lk_list_splice(&p->queue, &old->queue);
    lk_table_add(&s->holders, &p->in_space, p->claim->key_hash);
    grant_locked(s, p, p->svc->clock->now(p->svc->clock->context));
    p->svc->wake(p->svc, p->claim);
}

static space *space_find_locked(const char *name) LK_REQUIRES(spaces_mutex)
{
    LK_EACH(space, s, link, &spaces)
        if (strcmp(s->name, name) == 0)
            return s;
    return NULL;
}

static space *space_new_locked(const char *name) LK_REQUIRES(spaces_mutex)
{
    space *s = calloc(1, sizeof *s + strlen(name) + 1);
    if (s == NULL || !lk_table_reserve(&s->holders)) {
        free(s);
        return NULL;
    }
    strcpy(s->name, name);
    s->token = last_token;
    lk_mutex_init(&s->mutex);
    lk_list_prepend(&spaces, &s->link);
    return s;
}

/* A fork's child begins with an empty list: the parent's locks are none of its own, and its threads, one of
 * which may have had the mutex, don't exist there. */
static bool forks_watched;

static void forget_spaces(void)
{
    lk_list_init(&spaces);
    lk_mutex_init(&spaces_mutex);
}

static void watch_forks(void)
{
    forks_watched = pthread_atfork(NULL, NULL, forget_spaces) == 0;
}

/* The space of that name. NULL: out of memory. */
static space *space_use(const char *name)
{
    static pthread_once_t once = PTHREAD_ONCE_INIT;
    pthread_once(&once, watch_forks); /* before anybody locks the mutex */
    if (!forks_watched)
        return NULL;
    lk_mutex_lock(&spaces_mutex);
    space *s = name[0] != '\0' ? space_find_locked(name) : NULL;
    if (s == NULL)
        s = space_new_locked(name);
    if (s != NULL)
        s->users++;
    lk_mutex_unlock(&spaces_mutex);
    return s;
}

static locker_status memory_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                 locker_error *err)
{
    if (config->host_count > 0)
        return lk_misconfigured(err, "memory has no host: write memory:NAME, or memory: alone");
    instance *m = calloc(1, sizeof *m);
    char *name;
    if (m == NULL)
        return lk_out_of_memory(err);
    m->svc = svc;
    /* a namespace has no control characters, so a newline divides the two */
    if (asprintf(&name, "%s\n%s", config->path, config->name_space) >= 0) {
        m->space = space_use(config->path[0] != '\0' ? name : "");
        free(name);
    }
    if (m->space == NULL) {
        free(m);
        return lk_out_of_memory(err);
    }
    *self = m;
    return LOCKER_OK;
}

static void memory_close(void *self)
{
    instance *m = self;
    space *s = m->space;
    free(m);
    lk_mutex_lock(&spaces_mutex);
    const bool last = --s->users == 0;
    if (last) {
        lk_list_remove(&s->link);
        if (s->token > last_token)
            last_token = s->token;
    }
    lk_mutex_unlock(&spaces_mutex);
    if (!last)
        return;
    lk_mutex_destroy(&s->mutex);
    lk_table_destroy(&s->holders);
    free(s);
}

/* Nobody has asked for this claim, or its grant was lost before core knew of it. */
static void ask_locked(instance *m, locker_claim *claim) LK_REQUIRES(m->space->mutex)
{
    place *p = claim->data;
    place *holder = find_locked(m->space, claim->key, claim->key_len, claim->key_hash);
    p->claim = claim;
    p->svc = m->svc;
    if (holder == NULL) {
        lk_list_init(&p->queue);
        lk_table_add(&m->space->holders, &p->in_space, claim->key_hash);
        grant_locked(m->space, p, claim->asked_at);
    } else if (claim->will_wait) {
        p->state = QUEUED;
        lk_list_append(&holder->queue, &p->in_queue);
    }
}

static locker_status memory_acquire(void *self, locker_claim *claim, locker_error *err)
{
    (void)err;
    instance *m = self;
    place *p = claim->data;
    lk_mutex_lock(&m->space->mutex);
    if (p->state == NEW)
        ask_locked(m, claim);
    else if (p->state == HANDED)
        p->state = GRANTED;
    const bool granted = p->state == GRANTED;
    lk_mutex_unlock(&m->space->mutex);
    return granted ? LOCKER_OK : LOCKER_BUSY;
}

/* OK, or LOST when there is nothing to let go of. */
static locker_status let_go(space *s, place *p)
{
    locker_status status = LOCKER_OK;
    lk_mutex_lock(&s->mutex);
    if (p->state == QUEUED)
        lk_list_remove(&p->in_queue);
    else if (p->state == GRANTED || p->state == HANDED)
        hand_over_locked(s, p);
    else
        status = LOCKER_LOST;
    lk_mutex_unlock(&s->mutex);
    return status;
}

static void memory_withdraw(void *self, locker_claim *claim)
{
    (void)let_go(((instance *)self)->space, claim->data);
}

static locker_status memory_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    (void)until;
    if (let_go(((instance *)self)->space, grant->data) == LOCKER_OK)
        return LOCKER_OK;
    return lk_lost(err, "'%s' was broken before it was unlocked", grant->key);
}

static void describe_holder_locked(const place *holder, locker_info *info)
{
    const locker_clock *clock = holder->svc->clock;
    info->held = true;
    (void)strncpy(info->owner, holder->claim->owner, LOCKER_OWNER_MAX);
    info->token = holder->claim->token;
    info->since_unix_ms =
        lk_time_of(CLOCK_REALTIME) / LK_MS - (clock->now(clock->context) - holder->since) / LK_MS;
}

static locker_status describe_queue_locked(const place *holder, locker_info *info, locker_error *err)
{
    LK_EACH(place, waiter, in_queue, &holder->queue)
        info->waiters++;
    if (info->waiters == 0)
        return LOCKER_OK;
    info->queue = calloc((size_t)info->waiters, sizeof *info->queue);
    info->queue_stride = sizeof *info->queue;
    if (info->queue == NULL)
        return lk_out_of_memory(err);
    LK_EACH(place, waiter, in_queue, &holder->queue)
        (void)strncpy(info->queue[info->queue_len++].owner, waiter->claim->owner, LOCKER_OWNER_MAX);
    return LOCKER_OK;
}

static locker_status memory_show(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err)
{
    (void)until;
    space *s = ((instance *)self)->space;
    locker_status status = LOCKER_OK;
    info->waiters = 0;
    lk_mutex_lock(&s->mutex);
    const place *holder = find_locked(s, key, key_len, locker_key_hash(key, key_len));
    if (holder != NULL) {
        describe_holder_locked(holder, info);
        status = describe_queue_locked(holder, info, err);
    }
    lk_mutex_unlock(&s->mutex);
    return status;
}

/* Core is told of a loss only if it knows of the grant; else the claim asks again: the hand-over woke it. */
static void lose_locked(place *holder)
{
    const bool known = holder->state == GRANTED;
    holder->state = NEW;
    if (known)
        holder->svc->lease_lost(holder->svc, holder->claim, "it was broken");
}

static locker_status memory_break(void *self, const char *key, size_t key_len,
                                  const locker_break_options *only, int64_t until, locker_info *broken,
                                  locker_error *err)
{
    (void)until;
    space *s = ((instance *)self)->space;
    locker_status status = LOCKER_INVALID;
    lk_mutex_lock(&s->mutex);
    place *holder = find_locked(s, key, key_len, locker_key_hash(key, key_len));
    if (holder != NULL) {
        describe_holder_locked(holder, broken);
        status = locker_break_check(only, broken, err);
    }
    if (status == LOCKER_OK) {
        lose_locked(holder);
        hand_over_locked(s, holder);
    }
    lk_mutex_unlock(&s->mutex);
    return status != LOCKER_INVALID ? status : locker_error_set(err, status, 0, "nobody holds '%s'", key);
}

static locker_status memory_ping(void *self, int64_t until, locker_error *err)
{
    (void)self;
    (void)until;
    (void)err;
    return LOCKER_OK;
}

static const locker_parameter params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};
static const locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "memory",
    .scope = LOCKER_SCOPE_PROCESS,
    .fairness = LOCKER_FAIR_GLOBAL,
    .can_break = true,
    .holder_dies = "the process dies with it, and all its locks",
    .holder_stalls = "it keeps the lock; the others wait",
    .cut_off = "can't happen",
    .service_restarts = "the service is the process itself",
    .failover = "there is none",
    .token = "grows for the life of the process",
    .cost = "no system call",
};

const locker_driver lk_memory_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "memory",
    .schemes = (const char *const[]){"memory", NULL},
    .example = "memory:shop",
    .features = "",
    .caps = LOCKER_CAP_QUEUE,
    .claim_size = sizeof(place),
    .params = params,
    .semantics = &semantics,
    .open = memory_open,
    .close = memory_close,
    .acquire = memory_acquire,
    .withdraw = memory_withdraw,
    .release = memory_release,
    .show = memory_show,
    .break_lock = memory_break,
    .ping = memory_ping,
};
