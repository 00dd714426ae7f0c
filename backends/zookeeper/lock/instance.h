/* instance.h: what the files of this floor share, which knows keys, places in queues and claims. Below it is net.h: one
 * session with ZooKeeper. `script/circles --order backends/zookeeper/lock` prints the order of the files.
 *
 * What changes is guarded by the connection's mutex (lk_zk_enter). */
#pragma once

#include "lk_line.h"
#include "net/net.h"

enum {
    LK_ZK_STEM_LEN = 40,                                   /* of our nodes' names: _c_<uuid>- */
    LK_ZK_TAIL_MAX = 24,                                   /* ... what each is for, with its NUL: lock- */
    LK_ZK_NAME_MAX = LK_ZK_STEM_LEN + LK_ZK_TAIL_MAX + 11, /* ... and the number */
    LK_ZK_ROOT_MAX = 512,                                  /* chroot and namespace, encoded */
    LK_ZK_PARENT_MAX = LK_ZK_PATH_MAX - 512, /* ... with a key behind it; a child may be a foreign client's */
    LK_ZK_PERMITS_MAX = 10000,               /* of a key: they are listed all at once */
    LK_ZK_SEEN = 1024,                       /* keys whose parents are known to be there */
};

typedef struct lk_zk_node lk_zk_node;

/* The driver's bytes of a claim. */
typedef struct {
    lk_zk_node *node LK_ZK_GUARDED; /* NULL: none */
    lk_zk_call *call LK_ZK_GUARDED; /* the attempt under way, for interrupt */
    bool interrupted LK_ZK_GUARDED; /* no attempt is made for it any more */
    bool aside LK_ZK_GUARDED; /* its last place had a number that is used up: it looks before it takes one */
    bool use_known LK_ZK_GUARDED; /* nobody who came before uses the key otherwise */
} lk_zk_claim;

struct lk_zk {
    const locker_services *svc;
    lk_zk_net *net;
    char root[LK_ZK_ROOT_MAX];     /* chroot and namespace as a path: "" or /a/b */
    char stem[LK_ZK_STEM_LEN + 1]; /* of our nodes' names, without an id; random at its beginning */
    const char *exclusive;         /* the tail of those that want a key alone */
    int64_t cleanup_ns;
    uint64_t last_id LK_ZK_GUARDED; /* given to a node; begins at random */
    bool suspect LK_ZK_GUARDED;     /* core was told that the service is out of reach */

    /* places, each in one of these lists, and all of them by id and by queue */
    lk_list nodes LK_ZK_GUARDED;    /* with a claim */
    lk_list left LK_ZK_GUARDED;     /* without: to be deleted */
    lk_list doubtful LK_ZK_GUARDED; /* one a queue in which something of ours may come yet, but no claim's */
    lk_table places LK_ZK_GUARDED, queues LK_ZK_GUARDED;
    /* lk_line, by the hash of the queue's path: places whose create waits for others */
    lk_table lines LK_ZK_GUARDED;
    lk_zk_call *closer LK_ZK_GUARDED; /* waits until `left` is empty; NULL: nobody */
    int64_t search_at LK_ZK_GUARDED;  /* none of `doubtful` is looked for before then */
    bool any_refused LK_ZK_GUARDED;   /* one of `left` may be one that can't be deleted */
    bool may_stray LK_ZK_GUARDED; /* a session ended, or a create was unanswered: names may have no claim */
    int64_t resume_at LK_ZK_GUARDED;     /* what stands still is taken up again then; LOCKER_NEVER: nothing */
    int64_t wall_ahead_ms LK_ZK_GUARDED; /* the servers' wall clock less our clock; 0: not known */
    uint32_t seen[LK_ZK_SEEN] LK_ZK_GUARDED; /* hashes of parents that are there, or were */

    /* what places want after a while */
    lk_list timed LK_ZK_GUARDED; /* there, but not yet watched themselves, or their grant not yet written */
    int64_t timed_at LK_ZK_GUARDED; /* none of those wants it before then */

    /* heartbeat.c */
    bool doubted LK_ZK_GUARDED;      /* whether the session is still there (lk_zk_session_doubt_locked) */
    bool doubted_here LK_ZK_GUARDED; /* ... since this connection came, which may be an ended session's */
    int64_t pulse_at LK_ZK_GUARDED;  /* next heartbeat or touch */
    int64_t ask_at LK_ZK_GUARDED;    /* next question about what is waited for; LOCKER_NEVER: nothing is */
    int64_t pulse_unanswered LK_ZK_GUARDED; /* when the oldest of them without an answer was sent; 0: none */
    bool pulse_holds LK_ZK_GUARDED;         /* the latest of them was for a lock */
    unsigned left_in_a_row LK_ZK_GUARDED;   /* servers, for want of an answer, since one has answered */
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
void lk_zk_begin_release(void *self, locker_claim *const *grants, size_t count);
locker_status lk_zk_release(void *self, locker_claim *grant, int64_t until, locker_error *err);
locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err);
locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err);
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err);
