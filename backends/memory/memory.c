/*
 * memory.c: locks among the threads of one process. The shortest driver: read this one first.
 *
 * A space is a set of locks, shared by all lockers that were opened with the same name and namespace; one
 * without a name is its locker's own. It is a hash table of the claims that hold, and behind each holder
 * stands the queue of those that wait for it. Release hands the lock to the first of the queue at once and
 * wakes it; its next attempt finds that it has been granted. So the order is that of asking, among all
 * lockers of the space, and nobody overtakes. All that a lock needs is in its claim: nothing is allocated.
 */
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <locker/driver.h>

enum { FIRST_BUCKETS = 64 };

/* The driver's bytes of a claim. Guarded by the space's mutex. */
typedef struct {
    /* HANDED: granted while it stood in the queue, which its next attempt finds; core doesn't know yet */
    enum { NEW, QUEUED, HANDED, GRANTED, BROKEN } state;
    locker_claim *prev, *next;  /* in the queue; next of a holder: in its bucket */
    locker_claim *first, *last; /* of a holder: the queue behind it */
    int64_t since;              /* of a holder: when it was granted; its claim's is core's from then on */
    const locker_services *svc; /* of its locker, for waking */
} place;

typedef struct space {
    struct space *next;    /* in `spaces`, guarded by spaces_mutex */
    uint32_t users;        /* lockers; guarded by spaces_mutex */
    char *name;            /* NULL: a locker's own */
    pthread_mutex_t mutex; /* guards what follows; taken before core's, never while another space's is held */
    locker_claim **buckets; /* the holders, by the hash of their key */
    size_t bucket_count;    /* a power of two */
    size_t held;            /* how many holders there are */
    uint64_t token;         /* the last that was given out */
} space;

typedef struct {
    space *space;
    const locker_services *svc;
} instance;

/* Lockers of one process find the space that they share by its name, so this list has to be the process's. */
static pthread_mutex_t spaces_mutex = PTHREAD_MUTEX_INITIALIZER;
static space *spaces;

/* A fork's child begins with an empty list: the parent's locks are none of its own, and its threads, one of
 * which may have had the mutex, don't exist there. */
static pthread_once_t forks_once = PTHREAD_ONCE_INIT;
static bool forks_watched;

/* The last token of any space that was dropped: a key's tokens grow even when its space is made again.
 * Guarded by spaces_mutex. */
static uint64_t last_token;

static place *of(const locker_claim *claim)
{
    return claim->data;
}

/* ------------------------------------------------------------------ holders ---- */

static locker_claim **bucket_of(const space *s, uint32_t hash)
{
    return &s->buckets[hash & (s->bucket_count - 1)];
}

/* What points to the holder of the key; to NULL when nobody holds it. */
static locker_claim **find_locked(const space *s, const char *key, size_t length, uint32_t hash)
{
    locker_claim **link = bucket_of(s, hash);
    while (*link != NULL && ((*link)->key_hash != hash || (*link)->key_len != length ||
                             memcmp((*link)->key, key, length) != 0))
        link = &of(*link)->next;
    return link;
}

static locker_claim **find_same_locked(const space *s, const locker_claim *claim)
{
    return find_locked(s, claim->key, claim->key_len, claim->key_hash);
}

/* A table that can't grow is slower, not wrong: no memory is no error here. */
static void make_room_locked(space *s)
{
    locker_claim **old = s->buckets;
    const size_t old_count = s->bucket_count;
    if (s->held < old_count)
        return;
    locker_claim **fresh;
    fresh = calloc(2 * old_count, sizeof *fresh);
    if (fresh == NULL)
        return;
    s->buckets = fresh;
    s->bucket_count = 2 * old_count;
    for (size_t i = 0; i < old_count; i++) {
        for (locker_claim *holder = old[i], *next; holder != NULL; holder = next) {
            locker_claim **bucket = bucket_of(s, holder->key_hash);

            next = of(holder)->next;
            of(holder)->next = *bucket;
            *bucket = holder;
        }
    }
    free(old);
}

static void grant_locked(space *s, locker_claim *claim, int64_t now)
{
    of(claim)->state = of(claim)->state == QUEUED ? HANDED : GRANTED;
    claim->granted_at = of(claim)->since = now;
    claim->token = ++s->token;
    claim->valid_until = LOCKER_NEVER;
}

/* Nobody has the key. `link` is its bucket's end. */
static void hold_locked(space *s, locker_claim **link, locker_claim *claim)
{
    *link = claim;
    s->held++;
    grant_locked(s, claim, claim->asked_at);
    make_room_locked(s);
}

static void enqueue_locked(locker_claim *holder, locker_claim *claim)
{
    place *h = of(holder), *p = of(claim);
    p->state = QUEUED;
    p->prev = h->last;
    if (h->last != NULL)
        of(h->last)->next = claim;
    else
        h->first = claim;
    h->last = claim;
}

static void unqueue_locked(locker_claim *holder, locker_claim *claim)
{
    place *h = of(holder), *p = of(claim);
    if (p->prev != NULL)
        of(p->prev)->next = p->next;
    else
        h->first = p->next;
    if (p->next != NULL)
        of(p->next)->prev = p->prev;
    else
        h->last = p->prev;
    p->prev = p->next = NULL;
}

/* The holder that `link` points to has it no more: the first of its queue takes its place, and the queue. It
 * keeps none of them: a claim that was broken before core knew of its grant asks once more. */
static void hand_over_locked(space *s, locker_claim **link)
{
    locker_claim *old = *link, *claim = of(old)->first;
    place *o = of(old);
    if (claim == NULL) {
        *link = o->next;
        o->next = NULL;
        s->held--;
        return;
    }
    unqueue_locked(old, claim);
    place *p = of(claim);
    p->first = o->first;
    p->last = o->last;
    p->next = o->next;
    o->first = o->last = o->next = NULL;
    *link = claim;
    grant_locked(s, claim, p->svc->clock->now(p->svc->clock->context));
    p->svc->wake(p->svc, claim);
}

/* ------------------------------------------------------------------ life ---- */

static locker_status no_memory(locker_error *err)
{
    return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
}

/* Takes the name over. NULL: out of memory. The caller holds spaces_mutex. */
static space *space_new(char *name)
{
    space *s = calloc(1, sizeof *s);
    locker_claim **buckets = calloc(FIRST_BUCKETS, sizeof *buckets);
    if (s == NULL || buckets == NULL) {
        free(s);
        free(buckets);
        free(name);
        return NULL;
    }
    s->name = name;
    s->buckets = buckets;
    s->bucket_count = FIRST_BUCKETS;
    s->token = last_token;
    (void)pthread_mutex_init(&s->mutex, NULL);
    return s;
}

static void forget_spaces(void)
{
    spaces = NULL;
    (void)pthread_mutex_init(&spaces_mutex, NULL);
}

static void watch_forks(void)
{
    forks_watched = pthread_atfork(NULL, NULL, forget_spaces) == 0;
}

static void space_free(space *s)
{
    (void)pthread_mutex_destroy(&s->mutex);
    free(s->buckets);
    free(s->name);
    free(s);
}

static void space_drop(space *s)
{
    (void)pthread_mutex_lock(&spaces_mutex);
    const bool last = --s->users == 0;
    if (last && s->token > last_token)
        last_token = s->token;
    if (last && s->name != NULL) {
        space **link = &spaces;

        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
    }
    (void)pthread_mutex_unlock(&spaces_mutex);
    if (!last)
        return;
    space_free(s);
}

/* The space of that name; takes the name over. NULL: out of memory. */
static space *space_use(char *name)
{
    space *s = NULL;
    (void)pthread_once(&forks_once, watch_forks); /* before anybody locks the mutex */
    if (!forks_watched) {
        free(name);
        return NULL;
    }
    (void)pthread_mutex_lock(&spaces_mutex);
    if (name != NULL)
        for (s = spaces; s != NULL && strcmp(s->name, name) != 0;)
            s = s->next;
    if (s != NULL) {
        free(name);
    } else {
        s = space_new(name);
        if (s != NULL && s->name != NULL) {
            s->next = spaces;
            spaces = s;
        }
    }
    if (s != NULL)
        s->users++;
    (void)pthread_mutex_unlock(&spaces_mutex);
    return s;
}

static locker_status memory_open(const locker_driver_config *config, const locker_services *svc, void **self,
                                 locker_error *err)
{
    char *name = NULL;
    if (config->host_count > 0)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "memory has no host: write memory:NAME, or memory: alone");
    if (config->path[0] != '\0') {
        const size_t length = strlen(config->path);

        name = malloc(length + strlen(config->name_space) + 2);
        if (name == NULL)
            return no_memory(err);
        memcpy(name, config->path, length);
        name[length] = '\n'; /* a namespace has no control characters, so this divides the two */
        (void)strcpy(name + length + 1, config->name_space);
    }
    instance *m;
    m = malloc(sizeof *m);
    if (m == NULL) {
        free(name);
        return no_memory(err);
    }
    m->svc = svc;
    m->space = space_use(name);
    if (m->space == NULL) {
        free(m);
        return no_memory(err);
    }
    *self = m;
    return LOCKER_OK;
}

static void memory_close(void *self)
{
    instance *m = self;
    space_drop(m->space);
    free(m);
}

/* ------------------------------------------------------------------ claims ---- */

static locker_status memory_acquire(void *self, locker_claim *claim, locker_error *err)
{
    instance *m = self;
    space *s = m->space;
    place *p = of(claim);
    (void)err;
    (void)pthread_mutex_lock(&s->mutex);
    if (p->state == NEW) {
        locker_claim **link = find_same_locked(s, claim);

        p->svc = m->svc;
        if (*link == NULL)
            hold_locked(s, link, claim);
        else if (claim->will_wait)
            enqueue_locked(*link, claim);
    }
    if (p->state == HANDED)
        p->state = GRANTED;
    const bool granted = p->state == GRANTED;
    (void)pthread_mutex_unlock(&s->mutex);
    return granted ? LOCKER_OK : LOCKER_BUSY;
}

static locker_status let_go(instance *m, locker_claim *claim)
{
    space *s = m->space;
    place *p = of(claim);
    locker_status status = LOCKER_OK;
    (void)pthread_mutex_lock(&s->mutex);
    if (p->state == QUEUED)
        unqueue_locked(*find_same_locked(s, claim), claim);
    else if (p->state == GRANTED || p->state == HANDED)
        hand_over_locked(s, find_same_locked(s, claim));
    else
        status = LOCKER_LOST;
    (void)pthread_mutex_unlock(&s->mutex);
    return status;
}

static void memory_withdraw(void *self, locker_claim *claim)
{
    (void)let_go(self, claim);
}

static locker_status memory_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    const locker_status status = let_go(self, grant);
    (void)until;
    if (status == LOCKER_LOST)
        (void)locker_error_set(err, status, 0, "'%s' was broken before it was unlocked", grant->key);
    return status;
}

/* ------------------------------------------------------------------ looking ---- */

static void describe_holder_locked(const locker_claim *holder, locker_info *info)
{
    const locker_clock *clock = of(holder)->svc->clock;
    struct timespec wall;
    (void)clock_gettime(CLOCK_REALTIME, &wall);
    info->held = true;
    (void)strncpy(info->owner, holder->owner, LOCKER_OWNER_MAX);
    info->token = holder->token;
    info->since_unix_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 -
                          (clock->now(clock->context) - of(holder)->since) / 1000000;
}

static locker_status describe_queue_locked(const locker_claim *holder, locker_info *info, locker_error *err)
{
    size_t n = 0;
    for (const locker_claim *c = of(holder)->first; c != NULL; c = of(c)->next)
        n++;
    info->waiters = (int64_t)n;
    if (n == 0)
        return LOCKER_OK;
    info->queue = calloc(n, sizeof *info->queue);
    info->queue_stride = sizeof *info->queue;
    if (info->queue == NULL)
        return no_memory(err);
    for (const locker_claim *c = of(holder)->first; c != NULL; c = of(c)->next)
        (void)strncpy(info->queue[info->queue_len++].owner, c->owner, LOCKER_OWNER_MAX);
    return LOCKER_OK;
}

static locker_status memory_show(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err)
{
    space *s = ((instance *)self)->space;
    locker_status status = LOCKER_OK;
    (void)until;
    info->waiters = 0;
    (void)pthread_mutex_lock(&s->mutex);
    const locker_claim *holder = *find_locked(s, key, key_len, locker_key_hash(key, key_len));
    if (holder != NULL) {
        describe_holder_locked(holder, info);
        status = describe_queue_locked(holder, info, err);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return status;
}

/* Core is told of a loss only if it knows of the grant; else the claim is as if it had never asked, and asks
 * again: the hand-over has woken it. */
static void lose_locked(locker_claim *holder)
{
    place *p = of(holder);
    if (p->state == HANDED) {
        p->state = NEW;
        return;
    }
    p->state = BROKEN;
    p->svc->lease_lost(p->svc, holder, "it was broken");
}

static locker_status memory_break(void *self, const char *key, size_t key_len,
                                  const locker_break_options *only, int64_t until, locker_info *broken,
                                  locker_error *err)
{
    space *s = ((instance *)self)->space;
    locker_status status = LOCKER_INVALID;
    (void)until;
    (void)pthread_mutex_lock(&s->mutex);
    locker_claim **link = find_locked(s, key, key_len, locker_key_hash(key, key_len));
    locker_claim *holder = *link;
    if (holder != NULL) {
        describe_holder_locked(holder, broken);
        status = locker_break_check(only, broken, err);
    }
    if (status == LOCKER_OK) {
        lose_locked(holder);
        hand_over_locked(s, link);
    }
    (void)pthread_mutex_unlock(&s->mutex);
    return status != LOCKER_INVALID ? status : locker_error_set(err, status, 0, "nobody holds '%s'", key);
}

static locker_status memory_ping(void *self, int64_t until, locker_error *err)
{
    (void)self;
    (void)until;
    (void)err;
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the table ---- */

static const char *const schemes[] = {"memory", NULL};
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

extern const locker_driver lk_memory_driver;
const locker_driver lk_memory_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "memory",
    .schemes = schemes,
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
