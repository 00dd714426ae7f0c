/* memory.c: locks among the threads of one process. The shortest driver: read this one first.
 *
 * A space is a set of locks, shared by all lockers that were opened with the same name and namespace; one
 * without a name is its locker's own. It is a hash table of the keys that are held. A key's seat is in the claim of one of its
 * holders: it has the others, and the queue of those that wait. When the first of the queue can enter it does at once, and is
 * woken; its next attempt finds that it has been granted. So the order is that of asking, among all lockers of the space and
 * over both modes, and nobody overtakes. All that a lock needs is in its claim: nothing is allocated. */
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
    lk_table_link in_space; /* of one that has the seat */
    lk_list others; /* of one that has the seat: the other holders; of permits: in order of their slots */
    lk_list queue;  /* of one that has the seat: who waits */
    lk_list link;   /* in others, or in the queue */
    int64_t since;  /* of a holder: when it was granted; its claim's is core's from then on */
    locker_claim *claim;
    const locker_services *svc; /* of its locker, for waking */
} place;

typedef struct {
    lk_list link LK_GUARDED_BY(spaces_mutex);   /* in `spaces` */
    uint32_t users LK_GUARDED_BY(spaces_mutex); /* lockers */
    lk_mutex mutex;                             /* taken before core's, never while another space's is held */
    lk_table held LK_GUARDED_BY(mutex);         /* seats, by the hash of their key */
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

/* Who has the key's seat; NULL: nobody holds it. */
static place *find_locked(const space *s, const char *key, size_t length, uint32_t hash) LK_REQUIRES(s->mutex)
{
    LK_TABLE_EACH_OF(link, &s->held, hash) {
        place *p = LK_CONTAINER(link, place, in_space);
        if (link->hash == hash && p->claim->key_len == length && memcmp(p->claim->key, key, length) == 0)
            return p;
    }
    return NULL;
}

static place *seat_of_locked(const space *s, const place *p) LK_REQUIRES(s->mutex)
{
    return find_locked(s, p->claim->key, p->claim->key_len, p->claim->key_hash);
}

static void grant_locked(space *s, place *p, int64_t now) LK_REQUIRES(s->mutex)
{
    p->state = p->state == QUEUED ? HANDED : GRANTED;
    p->claim->granted_at = p->since = now;
    p->claim->token = ++s->token;
    p->claim->valid_until = LOCKER_NEVER;
}

static void sit_locked(space *s, place *p) LK_REQUIRES(s->mutex)
{
    lk_list_init(&p->others);
    lk_list_init(&p->queue);
    lk_table_add(&s->held, &p->in_space, p->claim->key_hash);
}

/* The least slot that is free, and in *before who has the next greater one; the list's own link: nobody. */
static int32_t free_slot_locked(const place *seat, lk_list **before)
{
    int32_t slot = seat->claim->slot == 0 ? 1 : 0;
    *before = (lk_list *)(uintptr_t)&seat->others;
    LK_EACH(place, other, link, &seat->others) {
        if (other->claim->slot > slot) {
            *before = &other->link;
            return slot;
        }
        slot = other->claim->slot + 1;
        if (slot == seat->claim->slot)
            slot++;
    }
    return slot;
}

/* Let it hold the key beside those who do, if they and the number of permits allow that. */
static bool sit_beside_locked(place *seat, place *p)
{
    const locker_claim *const claim = p->claim;
    lk_list *before = &seat->others;
    if (claim->permits > 0) {
        p->claim->slot = free_slot_locked(seat, &before);
        if (p->claim->slot >= claim->permits)
            return false;
    } else if (claim->mode != LOCKER_SHARED || seat->claim->mode != LOCKER_SHARED) {
        return false;
    }
    lk_list_append(before, &p->link); /* in front of it */
    return true;
}

/* The first of the queue enter, as far as they can. Core knows nothing of these yet: one that is broken before asks once more. */
static void admit_locked(space *s, place *seat) LK_REQUIRES(s->mutex)
{
    for (lk_list *first; (first = lk_list_take(&seat->queue)) != NULL;) {
        place *const p = LK_CONTAINER(first, place, link);
        if (!sit_beside_locked(seat, p)) {
            lk_list_prepend(&seat->queue, first);
            return;
        }
        grant_locked(s, p, p->svc->clock->now(p->svc->clock->context));
        p->svc->wake(p->svc, p->claim);
    }
}

/* End the hold or the wait of a place. Its seat goes to another holder, else to the first waiter. The waiters behind it enter, as
 * far as they can. */
static void leave_locked(space *s, place *old) LK_REQUIRES(s->mutex)
{
    if (lk_list_linked(&old->link)) { /* it has no seat: it holds the key beside the seat, or waits */
        lk_list_remove(&old->link);
        admit_locked(s, seat_of_locked(s, old));
        return;
    }
    lk_table_remove(&s->held, &old->in_space);
    lk_list *const holder = lk_list_take(&old->others);
    lk_list *const next = holder != NULL ? holder : lk_list_take(&old->queue);
    if (next == NULL)
        return; /* the usual case */
    place *const p = LK_CONTAINER(next, place, link);
    sit_locked(s, p);
    lk_list_splice(&p->others, &old->others);
    lk_list_splice(&p->queue, &old->queue);
    if (holder == NULL) {
        p->claim->slot = 0;
        grant_locked(s, p, p->svc->clock->now(p->svc->clock->context));
        p->svc->wake(p->svc, p->claim);
    }
    admit_locked(s, p);
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
    if (s == NULL || !lk_table_reserve(&s->held)) {
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
        return lk_misconfigured(err, "a memory URI has no host; write memory:NAME or memory:");
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
    lk_table_destroy(&s->held);
    free(s);
}

/* Who shares the key is told that somebody waits. */
static void stand_locked(place *seat, place *p)
{
    p->state = QUEUED;
    if (seat->claim->mode == LOCKER_SHARED && lk_list_empty(&seat->queue)) {
        seat->svc->awaited(seat->svc, seat->claim);
        LK_EACH(place, other, link, &seat->others)
            other->svc->awaited(other->svc, other->claim);
    }
    lk_list_append(&seat->queue, &p->link);
}

/* Nobody has asked for this claim, or its grant was lost before core knew of it. CONFIG: the key is used in another way. */
static locker_status ask_locked(instance *m, locker_claim *claim, locker_error *err)
    LK_REQUIRES(m->space->mutex)
{
    place *const p = claim->data;
    place *const seat = find_locked(m->space, claim->key, claim->key_len, claim->key_hash);
    p->claim = claim;
    p->svc = m->svc;
    if (seat != NULL && seat->claim->permits != claim->permits)
        return locker_other_use(err, seat->claim->permits, claim->permits);
    if (seat == NULL) {
        claim->slot = 0;
        sit_locked(m->space, p);
    } else if (!lk_list_empty(&seat->queue) || !sit_beside_locked(seat, p)) {
        if (claim->will_wait)
            stand_locked(seat, p);
        return LOCKER_BUSY;
    }
    claim->alone = true;
    grant_locked(m->space, p, claim->asked_at);
    return LOCKER_OK;
}

static locker_status memory_acquire(void *self, locker_claim *claim, locker_error *err)
{
    instance *m = self;
    place *p = claim->data;
    locker_status status = LOCKER_BUSY;
    lk_mutex_lock(&m->space->mutex);
    if (p->state == NEW)
        status = ask_locked(m, claim, err);
    else if (p->state == HANDED)
        p->state = GRANTED;
    if (p->state == GRANTED)
        status = LOCKER_OK;
    lk_mutex_unlock(&m->space->mutex);
    return status;
}

/* OK, or LOST when there is nothing to let go of. */
static locker_status let_go(space *s, place *p)
{
    locker_status status = LOCKER_OK;
    lk_mutex_lock(&s->mutex);
    if (p->state != NEW)
        leave_locked(s, p);
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

static void describe_locked(const place *p, locker_holder *holder)
{
    const locker_clock *clock = p->svc->clock;
    (void)strncpy(holder->owner, p->claim->owner, LOCKER_OWNER_MAX);
    holder->token = p->claim->token;
    holder->since_unix_ms =
        lk_time_of(CLOCK_REALTIME) / LK_MS - (clock->now(clock->context) - p->since) / LK_MS;
    holder->remaining_ms = -1;
    holder->slot = p->claim->permits > 0 ? p->claim->slot : -1;
}

static place *next_holder(place *seat, place *p)
{
    return LK_LIST_ELEMENT(p == seat ? seat->others.next : p->link.next, &seat->others, place, link);
}

/* Those who hold the key and whom `only` names, of all who do. */
static locker_status describe_holders_locked(place *seat, const locker_break_options *only, locker_info *info,
                                             locker_error *err)
{
    size_t count = 0;
    for (place *p = seat; p != NULL; p = next_holder(seat, p))
        count++;
    info->holders = calloc(count, sizeof *info->holders);
    if (info->holders == NULL)
        return lk_out_of_memory(err);
    for (place *p = seat; p != NULL; p = next_holder(seat, p))
        if (locker_break_names(only, p->claim->owner, p->claim->token))
            describe_locked(p, &info->holders[info->holders_len++]);
    locker_info_settle(info, seat->claim->mode, seat->claim->permits);
    return LOCKER_OK;
}

static locker_status describe_queue_locked(const place *seat, locker_info *info, locker_error *err)
{
    LK_EACH(place, waiter, link, &seat->queue)
        info->waiters++;
    if (info->waiters == 0)
        return LOCKER_OK;
    info->queue = calloc((size_t)info->waiters, sizeof *info->queue);
    info->queue_stride = sizeof *info->queue;
    if (info->queue == NULL)
        return lk_out_of_memory(err);
    LK_EACH(place, waiter, link, &seat->queue) {
        locker_waiter *const told = &info->queue[info->queue_len++];
        (void)strncpy(told->owner, waiter->claim->owner, LOCKER_OWNER_MAX);
        told->mode = waiter->claim->mode;
        told->permits = waiter->claim->permits;
    }
    return LOCKER_OK;
}

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

static locker_status memory_show(void *self, const char *key, size_t key_len, int64_t until,
                                 locker_info *info, locker_error *err)
{
    (void)until;
    space *s = ((instance *)self)->space;
    locker_status status = LOCKER_OK;
    info->waiters = 0;
    lk_mutex_lock(&s->mutex);
    place *const seat = find_locked(s, key, key_len, locker_key_hash(key, key_len));
    if (seat != NULL)
        status = describe_holders_locked(seat, &anybody, info, err);
    if (seat != NULL && status == LOCKER_OK)
        status = describe_queue_locked(seat, info, err);
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

/* Which of those who hold the key is to be broken; of whoever entered since, none. NULL: none is. */
static place *named_locked(place *seat, const locker_break_options *only, uint64_t newest)
{
    for (place *p = seat; p != NULL; p = next_holder(seat, p))
        if (p->claim->token <= newest && locker_break_names(only, p->claim->owner, p->claim->token))
            return p;
    return NULL;
}

static locker_status memory_break(void *self, const char *key, size_t key_len,
                                  const locker_break_options *only, int64_t until, locker_info *broken,
                                  locker_error *err)
{
    (void)until;
    space *s = ((instance *)self)->space;
    const uint32_t hash = locker_key_hash(key, key_len);
    locker_status status = LOCKER_INVALID;
    lk_mutex_lock(&s->mutex);
    place *seat = find_locked(s, key, key_len, hash);
    const uint64_t newest = s->token;
    const bool named = seat != NULL && named_locked(seat, only, newest) != NULL;
    if (seat != NULL)
        status = describe_holders_locked(seat, named ? only : &anybody, broken, err);
    if (status == LOCKER_OK)
        status = locker_break_check(only, broken, err);
    for (place *p; status == LOCKER_OK && seat != NULL && (p = named_locked(seat, only, newest)) != NULL;
         seat = find_locked(s, key, key_len, hash)) {
        lose_locked(p);
        leave_locked(s, p);
    }
    lk_mutex_unlock(&s->mutex);
    return status != LOCKER_INVALID ? status : locker_error_set(err, status, 0, "'%s' has no holder", key);
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
    .shared = LOCKER_ORDER_ARRIVAL,
    .permits_most = LOCKER_PERMITS_MAX,
    .holder_dies = "all locks of the process end with it",
    .holder_stalls = "the holder keeps the lock; the others wait",
    .cut_off = "cannot happen: there is no network",
    .service_restarts = "the service is the process itself",
    .failover = "there is no failover",
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
