/*
 * toy.c: a driver of leases in this process' memory, as small as one can be, and what can be wrong with one.
 * The environment variable FAULT breaks it in one way, which the kit has to catch; without it the kit has to
 * pass. CMakeLists.txt lists the faults, and by which test and words each is caught. HABIT makes it do what
 * is allowed but rare: the kit has to pass that too.
 */
#include <pthread.h>
#include <signal.h>
#include <stdatomic.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/eventfd.h>
#include <sys/wait.h>
#include <time.h>
#include <unistd.h>

#include <locker/conformance.h>

#define MS INT64_C(1000000)

enum { POLL_MS = 5, FORGOTTEN_MS = 1500 };

struct lock {
    struct lock *next;
    char *name; /* namespace, newline, key */
    char owner[LOCKER_OWNER_MAX + 1];
    uint64_t token;
    int64_t until, since_unix_ms;
};

struct toy {
    const locker_services *svc;
    char name_space[64];
};

/* The driver's bytes of a claim. */
struct place {
    uint64_t token; /* of its grant; 0: none */
    bool waited;    /* it was refused before */
};

/* Locks are never removed: their tokens have to grow. */
static pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
static struct lock *locks;

static bool is_set(const char *variable, const char *name)
{
    const char *wanted = getenv(variable);
    return wanted != NULL && strcmp(wanted, name) == 0;
}

static bool fault(const char *name)
{
    return is_set("FAULT", name);
}

static bool habit(const char *name)
{
    return is_set("HABIT", name);
}

/* Once in a hundred calls. */
static bool now_and_then(void)
{
    static atomic_uint calls;
    return atomic_fetch_add(&calls, 1) % 100 == 99;
}

static void pause_ms(int64_t ms)
{
    const struct timespec time = {ms / 1000, ms % 1000 * MS};
    nanosleep(&time, NULL);
}

static int64_t now_of(const struct toy *toy)
{
    return toy->svc->clock->now(toy->svc->clock->context);
}

static struct lock *lock_locked(const struct toy *toy, const char *key)
{
    char name[sizeof toy->name_space + LOCKER_KEY_MAX + 2];
    struct lock *lock = locks;
    snprintf(name, sizeof name, "%s\n%s", toy->name_space, key);
    while (lock != NULL && strcmp(lock->name, name) != 0)
        lock = lock->next;
    if (lock != NULL)
        return lock;
    lock = calloc(1, sizeof *lock);
    if (lock == NULL)
        abort();
    lock->name = strdup(name);
    lock->next = locks;
    return locks = lock;
}

/* ------------------------------------------------------------------ life ---- */

static const locker_services *closed; /* of the last instance that was closed; guarded by mutex */

static locker_status toy_open(const locker_driver_config *config, const locker_services *svc, void **self,
                              locker_error *err)
{
    struct toy *toy = calloc(1, sizeof *toy);
    if (toy == NULL)
        return locker_error_set(err, LOCKER_NOMEM, 0, "out of memory");
    toy->svc = svc;
    if (!fault("ignores-namespaces"))
        snprintf(toy->name_space, sizeof toy->name_space, "%s", config->name_space);
    *self = toy;
    if (fault("calls-after-close") && closed != NULL)
        closed->attend(closed);
    return LOCKER_OK;
}

static void *live_on(void *nothing)
{
    pause();
    return nothing;
}

static void toy_close(void *self)
{
    struct toy *toy = self;
    pthread_t thread;
    closed = toy->svc;
    if (fault("leaks-a-descriptor") && eventfd(0, 0) < 0)
        abort();
    if (fault("leaks-a-thread") && pthread_create(&thread, NULL, live_on, NULL) == 0)
        pthread_detach(thread);
    if (!fault("leaks-memory"))
        free(toy);
}

/* ------------------------------------------------------------------ claims ---- */

static struct place *place_of(const locker_claim *claim)
{
    return claim->data;
}

static void grant_locked(const struct toy *toy, struct lock *lock, locker_claim *claim)
{
    struct timespec wall;
    clock_gettime(CLOCK_REALTIME, &wall);
    if ((!fault("repeats-tokens") || lock->token == 0) && !(fault("repeats-a-token") && now_and_then()))
        lock->token++;
    claim->token = place_of(claim)->token = lock->token;
    lock->until = claim->valid_until = claim->asked_at + claim->ttl_ns;
    if (fault("counts-from-the-answer"))
        claim->valid_until = now_of(toy) + claim->ttl_ns;
    lock->since_unix_ms = (int64_t)wall.tv_sec * 1000;
    snprintf(lock->owner, sizeof lock->owner, "%s", claim->owner);
}

static locker_status toy_acquire(void *self, locker_claim *claim, locker_error *err)
{
    static locker_claim *_Atomic earlier; /* threads come at once */
    struct toy *toy = self;
    locker_status status = LOCKER_OK;
    struct lock *lock;
    (void)err;
    if (fault("is-late"))
        pause_ms((claim->attempt_until - claim->asked_at) / MS + 1200);
    while (fault("never-comes-back"))
        pause();
    if (fault("has-no-error-text"))
        return LOCKER_UNAVAILABLE;
    if (fault("changes-the-claim"))
        claim->ttl_ns++;
    pthread_mutex_lock(&mutex);
    lock = lock_locked(toy, claim->key);
    if (fault("stalls-when-many") && lock->token % 200 == 199)
        pause_ms(100);
    if (lock->until > now_of(toy) && !fault("grants-to-two") &&
        !(fault("grants-to-two-seldom") && now_and_then())) {
        const int64_t poll_ms = fault("forgets-a-waiter") && now_and_then() ? FORGOTTEN_MS : POLL_MS;
        if (!fault("never-wakes"))
            claim->retry_at = fault("retries-in-the-past") ? 1 : now_of(toy) + poll_ms * MS;
        status = habit("wakes-a-canceled-attempt") && claim->will_wait ? LOCKER_CANCELED : LOCKER_BUSY;
        place_of(claim)->waited = claim->will_wait;
    } else {
        grant_locked(toy, lock, claim);
    }
    if (fault("writes-to-an-ended-claim") && earlier != NULL)
        earlier->retry_at = 0;
    if (fault("reads-an-ended-claim") && earlier != NULL && earlier->token == 0)
        claim->retry_at = LOCKER_NEVER;
    earlier = claim;
    if (fault("writes-past-its-bytes"))
        memset(place_of(claim), 0, sizeof(struct place) + 16);
    pthread_mutex_unlock(&mutex);
    return status;
}

static locker_status let_go(struct toy *toy, const locker_claim *claim)
{
    locker_status status = LOCKER_LOST;
    struct lock *lock;
    pthread_mutex_lock(&mutex);
    lock = lock_locked(toy, claim->key);
    if (lock->until > now_of(toy) && (lock->token == place_of(claim)->token || fault("releases-others"))) {
        if (!fault("never-releases"))
            lock->until = 0;
        status = LOCKER_OK;
    }
    pthread_mutex_unlock(&mutex);
    return status;
}

/* Work for `ms` beside twice as many busy processes as there are processors: most of the time others have the processor. */
static void work_in_a_crowd(const struct toy *toy, int64_t ms)
{
    enum { CROWD_AT_MOST = 256 };
    const long wanted = 2 * sysconf(_SC_NPROCESSORS_ONLN);
    const int count = wanted < CROWD_AT_MOST ? (int)wanted : CROWD_AT_MOST;
    pid_t crowd[CROWD_AT_MOST];
    for (int i = 0; i < count; i++)
        if ((crowd[i] = fork()) == 0)
            for (;;)
                ;
    for (const int64_t until = now_of(toy) + ms * MS; now_of(toy) < until;)
        ;
    for (int i = 0; i < count; i++) {
        kill(crowd[i], SIGKILL);
        waitpid(crowd[i], NULL, 0);
    }
}

static void toy_withdraw(void *self, locker_claim *claim)
{
    static locker_claim *_Atomic earlier; /* threads come at once */
    static atomic_flag worked = ATOMIC_FLAG_INIT;
    struct toy *toy = self;
    if (habit("has-no-processor-once") && !atomic_flag_test_and_set(&worked))
        work_in_a_crowd(toy, 1500);
    if (fault("blocks"))
        pause_ms(1500);
    if (fault("wakes-an-ended-claim") && earlier != NULL)
        toy->svc->wake(toy->svc, earlier);
    if (fault("wakes-a-try") || (habit("wakes-a-canceled-attempt") && place_of(claim)->waited))
        toy->svc->wake(toy->svc, claim);
    earlier = claim;
    if (place_of(claim)->token != 0)
        (void)let_go(toy, claim);
}

static locker_status toy_release(void *self, locker_claim *grant, int64_t until, locker_error *err)
{
    struct toy *toy = self;
    locker_status status = let_go(toy, grant);
    (void)until;
    if (fault("wakes-a-grant") || (habit("wakes-late") && place_of(grant)->waited))
        toy->svc->wake(toy->svc, grant);
    if (fault("answers-busy"))
        return LOCKER_BUSY;
    if (fault("always-releases") || fault("always-releases-what-is-lost"))
        return LOCKER_OK;
    if (status != LOCKER_OK)
        return locker_error_set(err, status, 0, "the lease had ended, or was broken");
    return status;
}

static void toy_renew(void *self, locker_claim *const *grants, size_t count)
{
    struct toy *toy = self;
    if (fault("never-renews"))
        return;
    pthread_mutex_lock(&mutex);
    for (size_t i = 0; i < count; i++) {
        struct lock *lock = lock_locked(toy, grants[i]->key);
        int64_t now = now_of(toy);

        if (lock->token == place_of(grants[i])->token && lock->until > now) {
            lock->until = now + grants[i]->ttl_ns;
            toy->svc->lease_extended(toy->svc, grants[i], lock->until);
        } else {
            toy->svc->lease_lost(toy->svc, grants[i], "it had ended, or was broken");
        }
    }
    pthread_mutex_unlock(&mutex);
}

static int64_t toy_dispatch(void *self)
{
    return fault("spins") ? now_of(self) : LOCKER_NEVER;
}

/* ------------------------------------------------------------------ looking ---- */

static bool describe_locked(const struct toy *toy, const struct lock *lock, locker_info *info)
{
    info->held = lock->until > now_of(toy);
    info->token = lock->token;
    if (info->held) {
        snprintf(info->owner, sizeof info->owner, "%s", lock->owner);
        info->since_unix_ms = lock->since_unix_ms;
        info->remaining_ms = (lock->until - now_of(toy)) / MS;
    }
    return info->held;
}

static locker_status toy_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                              locker_error *err)
{
    (void)key_len;
    (void)until;
    (void)err;
    pthread_mutex_lock(&mutex);
    (void)describe_locked(self, lock_locked(self, key), info);
    pthread_mutex_unlock(&mutex);
    return LOCKER_OK;
}

static locker_status toy_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                               int64_t until, locker_info *broken, locker_error *err)
{
    locker_status status = LOCKER_INVALID;
    struct lock *lock;
    (void)key_len;
    (void)until;
    pthread_mutex_lock(&mutex);
    lock = lock_locked(self, key);
    if (describe_locked(self, lock, broken))
        status = fault("breaks-any-holder") ? LOCKER_OK : locker_break_check(only, broken, err);
    if (status == LOCKER_OK)
        lock->until = 0;
    pthread_mutex_unlock(&mutex);
    return status != LOCKER_INVALID ? status : locker_error_set(err, status, 0, "nobody holds '%s'", key);
}

static locker_status toy_ping(void *self, int64_t until, locker_error *err)
{
    (void)self;
    (void)until;
    (void)err;
    return LOCKER_OK;
}

/* ------------------------------------------------------------------ the table and the program ---- */

static void *start(char *uri, size_t size)
{
    snprintf(uri, size, "toy:box?namespace=suite&command_timeout=300ms");
    return uri;
}

static void stop(void *service)
{
    (void)service;
}

static const char *const schemes[] = {"toy", NULL};
static const locker_parameter no_params[] = {{NULL, LOCKER_PARAM_TEXT, NULL, 0, 0, NULL}};

static locker_semantics semantics = {
    .size = sizeof(locker_semantics),
    .driver = "toy",
    .scope = LOCKER_SCOPE_PROCESS,
    .fairness = LOCKER_FAIR_LOCAL,
    .leases = true,
    .can_break = true,
    .shared = LOCKER_ORDER_NONE, /* and no permits: the kit skips what tests them */
    .holder_dies = "the process dies with it, and all its locks",
    .holder_stalls = "its lease ends",
    .cut_off = "can't happen",
    .service_restarts = "the service is the process itself",
    .failover = "there is none",
    .token = "grows for the life of the process",
    .cost = "a walk through all locks",
};

static const locker_driver toy_driver = {
    .abi = LOCKER_DRIVER_ABI,
    .size = sizeof(locker_driver),
    .name = "toy",
    .schemes = schemes,
    .example = "toy:box",
    .features = "",
    .claim_size = sizeof(struct place),
    .ttl_min_ms = 20,
    .ttl_max_ms = 86400000,
    .params = no_params,
    .semantics = &semantics,
    .open = toy_open,
    .close = toy_close,
    .acquire = toy_acquire,
    .withdraw = toy_withdraw,
    .release = toy_release,
    .renew = toy_renew,
    .dispatch = toy_dispatch,
    .show = toy_show,
    .break_lock = toy_break,
    .ping = toy_ping,
};

int main(int argc, char **argv)
{
    const char *const hang_ms = getenv("HANG_MS");
    const locker_conformance_subject subject = {.size = sizeof subject,
                                                .driver = &toy_driver,
                                                .start = start,
                                                .stop = stop,
                                                .poll_ms = POLL_MS,
                                                .hang_ms = hang_ms != NULL ? strtoll(hang_ms, NULL, 10) : 0};
    semantics.leases = !fault("promises-no-leases");
    return locker_conformance_run(&subject, argc, argv);
}
