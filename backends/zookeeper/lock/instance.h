/* instance.h: what the files of this floor share, which knows keys, places in queues and claims. Below it is net.h: one
 * session with ZooKeeper. ARCHITECTURE.md has the files in their order.
 *
 * What changes is guarded by the connection's mutex (lk_zk_enter). */
#pragma once

#include "lk_table.h"
#include "net/net.h"

enum {
    LK_ZK_STEM_LEN = 45,                     /* of our nodes' names: _c_<uuid>-lock- */
    LK_ZK_NAME_MAX = LK_ZK_STEM_LEN + 12,    /* ... and the number, and a NUL */
    LK_ZK_ROOT_MAX = 512,                    /* chroot and namespace, encoded */
    LK_ZK_PARENT_MAX = LK_ZK_PATH_MAX - 512, /* ... with a key behind it; a child may be a foreign client's */
    LK_ZK_SEEN = 1024,                       /* keys whose parents are known to be there */
};

typedef struct lk_zk_node lk_zk_node;

/* The driver's bytes of a claim. */
typedef struct {
    lk_zk_node *node; /* NULL: none */
    lk_zk_call *call; /* the attempt under way, for interrupt */
    bool interrupted; /* no attempt is made for it any more */
    bool aside;       /* its last place had a number that is used up: it looks before it takes one */
} lk_zk_claim;

struct lk_zk {
    const locker_services *svc;
    lk_zk_net *net;
    char root[LK_ZK_ROOT_MAX];     /* chroot and namespace as a path: "" or /a/b */
    char stem[LK_ZK_STEM_LEN + 1]; /* of our nodes' names, without an id; random at its beginning */
    int64_t cleanup_ns;
    uint64_t last_id; /* given to a node; begins at random */
    bool suspect;     /* core was told that the service is out of reach */

    /* places, each in one of these lists, and all of them by id */
    lk_list nodes;    /* with a claim */
    lk_list left;     /* without: to be deleted */
    lk_list doubtful; /* one for each queue in which something of ours may come yet, but no claim's */
    lk_table places;
    lk_zk_call *closer; /* waits until `left` is empty; NULL: nobody */
    bool may_stray;    /* a create was once unanswered, or a session ended: names without a claim may stand in
                                  queues from then on */
    int64_t resume_at; /* what stands still is taken up again then; LOCKER_NEVER: nothing */
    int64_t wall_ahead_ms;     /* the servers' wall clock less our clock; 0: not known */
    uint32_t seen[LK_ZK_SEEN]; /* hashes of parents that are there, or were */

    /* what places want after a while */
    lk_list timed;    /* there, but not yet watched themselves, or their grant not yet written */
    int64_t timed_at; /* none of those wants it before then */

    /* heartbeat.c */
    bool doubted;             /* whether the session is still there; until a heartbeat is answered */
    int64_t pulse_at;         /* next heartbeat or touch */
    int64_t quarter_at;       /* the next heartbeat of those that wait is not before that */
    int64_t pulse_unanswered; /* when the oldest of either without an answer was sent; 0: none */
};

static inline int64_t lk_zk_now(const lk_zk *z)
{
    return z->svc->clock->now(z->svc->clock->context);
}

extern const lk_zk_owner lk_zk_connection_events;

locker_status lk_zk_check_key(void *self, const char *key, size_t key_len, locker_error *err);
int64_t lk_zk_dispatch(void *self);
locker_status lk_zk_acquire(void *self, locker_claim *claim, locker_error *err);
void lk_zk_interrupt(void *self, locker_claim *claim);
void lk_zk_withdraw(void *self, locker_claim *claim);
locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err);
locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err);
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err);
