/*
 * memory.c: locks among the threads of one process. The shortest driver: read this one first.
 *
 * A space is a set of keys, shared by all lockers that were opened with the same name and namespace; one
 * without a name is its locker's own. Each key that is in use has an slot with its holder and a queue.
 * Release hands the lock to the first of the queue at once and wakes it; its next attempt finds that it has
 * been granted. So the order is that of asking, among all lockers of the space, and nobody overtakes.
 */
#include <search.h>
#include <stdatomic.h>
#include <stdlib.h>
#include <string.h>
#include <time.h>

#include <locker/driver.h>

typedef struct slot slot;

/* The driver's bytes of a claim. Guarded by the space's mutex. */
typedef struct {
    enum { NEW, QUEUED, GRANTED, BROKEN } state;
    slot *slot;
    locker_claim *prev, *next;  /* in the slot's queue */
    const locker_services *svc; /* of its locker, for waking */
    int64_t granted_at;         /* ns of the locker's clock */
} place;

struct slot {
    const char *key; /* the allocation's tail */
    locker_claim *holder;
    locker_claim *first, *last; /* the queue */
    uint32_t users;             /* claims that point here */
};

typedef struct space {
    struct space *next;    /* in `spaces`, guarded by spaces_mutex */
    uint32_t users;        /* lockers; guarded by spaces_mutex */
    char *name;            /* NULL: a locker's own */
    pthread_mutex_t mutex; /* guards the slots; taken before core's, never while another space's is held */
    void *slots;           /* a tree of tsearch(3) by key */
} space;

typedef struct {
    space *space;
    const locker_services *svc;
} instance;

/* Lockers of one process find the space that they share by its name, so this list has to be the process's. */
static pthread_mutex_t spaces_mutex = PTHREAD_MUTEX_INITIALIZER;
static space *spaces;

/* One counter for all keys: a token grows even when a space is dropped and made again. Relaxed: the space's
 * mutex orders the grants of a key. */
static _Atomic uint64_t last_token;

static place *of(const locker_claim *claim)
{
    return locker_claim_private(claim);
}

/* ------------------------------------------------------------------ slots ---- */

static int compare(const void *a, const void *b)
{
    return strcmp(((const slot *)a)->key, ((const slot *)b)->key);
}

static slot *find_locked(space *s, const char *key)
{
    slot wanted = {.key = key};
    slot *const *found = tfind(&wanted, &s->slots, compare);

    return found == NULL ? NULL : *found;
}

/* The slot of the key, made when there is none; NULL when memory ran out. */
static slot *use_locked(space *s, const char *key, size_t length)
{
    slot *e = find_locked(s, key);

    if (e == NULL) {
        char *tail;

        e = malloc(sizeof *e + length + 1);
        if (e == NULL)
            return NULL;
        tail = (char *)(e + 1);
        memcpy(tail, key, length + 1);
        *e = (slot){.key = tail};
        if (tsearch(e, &s->slots, compare) == NULL) {
            free(e);
            return NULL;
        }
    }
    e->users++;
    return e;
}

static void drop_locked(space *s, slot *e)
{
    if (--e->users > 0)
        return;
    (void)tdelete(e, &s->slots, compare);
    free(e);
}

static void grant_locked(slot *e, locker_claim *claim, int64_t now)
{
    place *p = of(claim);

    e->holder = claim;
    p->state = GRANTED;
    p->granted_at = now;
    claim->token = atomic_fetch_add_explicit(&last_token, 1, memory_order_relaxed) + 1;
    claim->valid_until = LOCKER_NEVER;
}

static void unqueue_locked(slot *e, locker_claim *claim)
{
    place *p = of(claim);

    if (p->prev != NULL)
        of(p->prev)->next = p->next;
    else
        e->first = p->next;
    if (p->next != NULL)
        of(p->next)->prev = p->prev;
    else
        e->last = p->prev;
    p->prev = p->next = NULL;
}

/* Nobody holds it any more: grant it to the first of the queue. */
static void hand_over_locked(slot *e)
{
    locker_claim *claim = e->first;

    e->holder = NULL;
    if (claim == NULL)
        return;
    unqueue_locked(e, claim);
    grant_locked(e, claim, of(claim)->svc->clock->now(of(claim)->svc->clock->context));
    of(claim)->svc->wake(of(claim)->svc, claim);
}

/* ------------------------------------------------------------------ life ---- */

static locker_status no_memory(locker_error *err)
{
    return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
}

static void space_drop(space *s)
{
    bool last;

    (void)pthread_mutex_lock(&spaces_mutex);
    last = --s->users == 0;
    if (last && s->name != NULL) {
        space **link = &spaces;

        while (*link != s)
            link = &(*link)->next;
        *link = s->next;
    }
    (void)pthread_mutex_unlock(&spaces_mutex);
    if (!last)
        return;
    (void)pthread_mutex_destroy(&s->mutex);
    free(s->name);
    free(s);
}

/* The space of that name; takes the name over. NULL: out of memory. */
static space *space_use(char *name)
{
    space *s = NULL;

    (void)pthread_mutex_lock(&spaces_mutex);
    if (name != NULL)
        for (s = spaces; s != NULL && strcmp(s->name, name) != 0;)
            s = s->next;
    if (s != NULL) {
        free(name);
    } else {
        s = calloc(1, sizeof *s);
        if (s == NULL) {
            free(name);
        } else {
            s->name = name;
            (void)pthread_mutex_init(&s->mutex, NULL);
            if (name != NULL) {
                s->next = spaces;
                spaces = s;
            }
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
    instance *m;
    char *name = NULL;

    if (config->host_count > 0)
        return locker_error_set(err, LOCKER_CONFIG, 0,
                                "memory has no host: write memory:NAME, or memory: alone");
    if (config->path[0] != '\0') {
        size_t length = strlen(config->path);

        name = malloc(length + strlen(config->name_space) + 2);
        if (name == NULL)
            return no_memory(err);
        memcpy(name, config->path, length);
        name[length] = '\n'; /* a namespace has no control characters, so this divides the two */
        (void)strcpy(name + length + 1, config->name_space);
    }
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
    place *p = of(claim);
    locker_status status = LOCKER_BUSY;
    slot *e;

    (void)pthread_mutex_lock(&m->space->mutex);
    if (p->state == GRANTED) {
        status = LOCKER_OK;
    } else if (p->state == NEW) {
        p->svc = m->svc;
        e = use_locked(m->space, claim->key, claim->key_len);
        if (e == NULL) {
            status = no_memory(err);
        } else if (e->holder == NULL) {
            p->slot = e;
            grant_locked(e, claim, claim->asked_at);
            status = LOCKER_OK;
        } else if (!claim->will_wait) {
            drop_locked(m->space, e);
        } else {
            p->slot = e;
            p->state = QUEUED;
            p->prev = e->last;
            if (e->last != NULL)
                of(e->last)->next = claim;
            else
                e->first = claim;
            e->last = claim;
        }
    }
    (void)pthread_mutex_unlock(&m->space->mutex);
    return status;
}

static locker_status let_go(instance *m, locker_claim *claim)
{
    place *p = of(claim);
    locker_status status = LOCKER_OK;

    (void)pthread_mutex_lock(&m->space->mutex);
    if (p->state == QUEUED)
        unqueue_locked(p->slot, claim);
    else if (p->state == GRANTED)
        hand_over_locked(p->slot);
    else
        status = LOCKER_LOST;
    if (p->slot != NULL)
        drop_locked(m->space, p->slot);
    p->slot = NULL;
    (void)pthread_mutex_unlock(&m->space->mutex);
    return status;
}

static void memory_withdraw(void *self, locker_claim *claim)
{
    (void)let_go(self, claim);
}

static locker_status memory_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    locker_status status = let_go(self, grant);

    (void)until;
    if (status == LOCKER_LOST)
        (void)locker_error_set(err, status, 0, "'%s' was broken before it was unlocked", grant->key);
    return status;
}

/* ------------------------------------------------------------------ looking ---- */

static void describe_holder_locked(const slot *e, locker_info *info)
{
    const locker_claim *holder = e->holder;
    const place *p = of(holder);
    struct timespec wall;

    (void)clock_gettime(CLOCK_REALTIME, &wall);
    info->held = true;
    (void)strncpy(info->owner, holder->owner, LOCKER_OWNER_MAX);
    info->token = holder->token;
    info->since_unix_ms = (int64_t)wall.tv_sec * 1000 + wall.tv_nsec / 1000000 -
                          (p->svc->clock->now(p->svc->clock->context) - p->granted_at) / 1000000;
}

static locker_status describe_queue_locked(const slot *e, locker_info *info, locker_error *err)
{
    size_t n = 0;

    for (const locker_claim *c = e->first; c != NULL; c = of(c)->next)
        n++;
    info->waiters = (int64_t)n;
    if (n == 0)
        return LOCKER_OK;
    info->queue = calloc(n, sizeof *info->queue);
    if (info->queue == NULL)
        return no_memory(err);
    for (const locker_claim *c = e->first; c != NULL; c = of(c)->next)
        (void)strncpy(info->queue[info->queue_len++].owner, c->owner, LOCKER_OWNER_MAX);
    return LOCKER_OK;
}

static locker_status memory_show(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err)
{
    instance *m = self;
    locker_status status = LOCKER_OK;
    const slot *e;

    (void)key_len;
    (void)until;
    info->waiters = 0;
    (void)pthread_mutex_lock(&m->space->mutex);
    e = find_locked(m->space, key);
    if (e != NULL && e->holder != NULL) {
        describe_holder_locked(e, info);
        status = describe_queue_locked(e, info, err);
    }
    (void)pthread_mutex_unlock(&m->space->mutex);
    return status;
}

static locker_status memory_break(void *self, const char *key, size_t key_len, int64_t until,
                                  locker_info *broken, locker_error *err)
{
    instance *m = self;
    locker_claim *holder = NULL;
    slot *e;

    (void)key_len;
    (void)until;
    (void)pthread_mutex_lock(&m->space->mutex);
    e = find_locked(m->space, key);
    if (e != NULL && e->holder != NULL) {
        holder = e->holder;
        describe_holder_locked(e, broken);
        of(holder)->state = BROKEN;
        of(holder)->svc->lease_lost(of(holder)->svc, holder, "it was broken");
        hand_over_locked(e);
    }
    (void)pthread_mutex_unlock(&m->space->mutex);
    return holder != NULL ? LOCKER_OK : locker_error_set(err, LOCKER_INVALID, 0, "nobody holds '%s'", key);
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
static const locker_param params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};

static const locker_semantics semantics = {
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
    .name = "memory",
    .schemes = schemes,
    .example = "memory:shop",
    .features = "",
    .caps = LOCKER_CAP_QUEUE | LOCKER_CAP_BREAK,
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
