/* place.h: a place in a key's queue: its step, what changes that, and its node; its life, and who is told. */
#pragma once

#include "paths.h"

/* A lock that is given back sooner needs no watch on its own node, which spares the server a request. */
enum { LK_ZK_OWN_WATCH_MS = 20 };
/* What shows that a place is there is believed for so long. */
enum { LK_ZK_RECENT_MS = 100 };
/* How often parents that another client deletes are made again, those of a queue or of permits. */
enum { LK_ZK_PARENTS_TRIES = 8 };

/* What is known of a place: of its node, and of who is ahead. What leads from one to another stands in place.c. */
typedef enum {
    LK_ZK_NOTHING, /* nothing has been asked under its name */
    LK_ZK_ASKED,   /* create and list are under way */
    LK_ZK_DOUBT,   /* create got no answer: the node is there, or not, or comes yet */
    LK_ZK_UNSEEN,  /* the same, and a search did not show it: the claim goes on under another name */
    LK_ZK_ENTERED, /* it is there; who is ahead isn't known: a list is under way, or wanted */
    LK_ZK_BEHIND,  /* it is there; somebody was ahead in a list that showed it, or one of ours is */
    LK_ZK_FIRST,   /* it is there; nobody was: it has the lock. Or its permit is */
    LK_ZK_HEAD,   /* it is there; nobody was, of those who want a permit: how many are free has to be asked */
    LK_ZK_FULL,   /* the same, and none was: it waits until one is given back */
    LK_ZK_TAKING, /* it is there, or its permit: the exchange of the two is under way, or got no answer */
    LK_ZK_USED_UP, /* it is there; its number says nothing, because the key's node has no more of them */
    LK_ZK_FAILED,  /* `error` says why */
    LK_ZK_GONE,    /* it isn't there and won't be, with proof */
    LK_ZK_STEPS
} lk_zk_step;

/* What becomes known. */
typedef enum {
    LK_ZK_CREATING,  /* create and list are about to be sent */
    LK_ZK_NOT_SENT,  /* create was not, after all */
    LK_ZK_NO_ANSWER, /* whether the node is there, or will be, isn't known */
    LK_ZK_NOT_SHOWN, /* a search that came after the create did not show it */
    LK_ZK_STOOD_FOR, /* another place stands for all that may come yet in this queue */
    LK_ZK_FORGOTTEN, /* nothing has come in this queue for long */
    LK_ZK_SHOWN,     /* the node is there: an answer, or a list, says so; and who is ahead has to be asked */
    LK_ZK_HINT,      /* the predecessor may have gone */
    LK_ZK_SOMEBODY,  /* a list shows it, and somebody ahead; or it is there, and so is one of ours ahead */
    LK_ZK_NOBODY,    /* a list shows it, and nobody ahead */
    LK_ZK_NEXT,      /* the same, and it wants a permit */
    LK_ZK_NO_ROOM,   /* all permits are taken */
    LK_ZK_ROOM,      /* one may be free */
    LK_ZK_TAKES,     /* the exchange is about to be sent */
    LK_ZK_NOT_TAKEN, /* it was not, or it was refused, and may be sent once more */
    LK_ZK_TOOK,      /* the permit is there */
    LK_ZK_NO_ORDER,  /* a list shows it, and its number is used up */
    LK_ZK_REFUSED,   /* a server refuses what the place needs */
    LK_ZK_ENDED,     /* the node isn't there and won't be, with proof */
    LK_ZK_EVENTS
} lk_zk_event;

/* What the key's node tells of the break that may have removed a node of ours (release.c). */
typedef enum {
    LK_ZK_MARK_UNKNOWN, /* it was not asked for, or had no answer */
    LK_ZK_MARK_ASKED,   /* that is under way */
    LK_ZK_MARK_NONE,    /* nobody has broken it */
    LK_ZK_MARK_BROKEN,  /* somebody has */
    LK_ZK_MARK_UNCLEAR  /* the answer says neither */
} lk_zk_mark;

/* What the servers hold of a place, as far as the driver knows. */
typedef enum {
    LK_ZK_NO_NODE,    /* no node; `step` says if one may come yet */
    LK_ZK_WAS_EITHER, /* no node is known, but an exchange was sent that may be carried out */
    LK_ZK_PLACE,      /* the node in the queue */
    LK_ZK_EITHER,     /* the node in the queue or the permit: an exchange of the two was sent */
    LK_ZK_LEFT_QUEUE, /* the node in the queue is deleted; the permit may be there */
    LK_ZK_PERMIT,     /* the permit */
    LK_ZK_WAS_PERMIT  /* no node; the permit was there */
} lk_zk_held;

/* The question that is in flight: one at a time. */
typedef enum {
    LK_ZK_IDLE,
    LK_ZK_LISTING,   /* a list or a read, which shows how the place stands */
    LK_ZK_EXCHANGING /* the exchange for a permit, and the read behind it */
} lk_zk_flight;

/* Whether we want the place, and how its delete stands. */
typedef enum {
    LK_ZK_WANTED,
    LK_ZK_UNWANTED,       /* it is to be deleted as soon as there is a connection */
    LK_ZK_DELETING,       /* the delete is in flight */
    LK_ZK_DELETE_LOST,    /* a delete had no answer; another one is to be sent */
    LK_ZK_DELETING_AGAIN, /* a delete had no answer; another one is in flight */
    LK_ZK_DELETED         /* we deleted it, with proof */
} lk_zk_removal;

/* The watch on the place's own node. */
typedef enum {
    LK_ZK_UNWATCHED,
    LK_ZK_WATCH_ASKED, /* the watch is asked for, or its server may have lost it */
    LK_ZK_WATCHED /* this connection's server has the watch: it reports the deletion before it reports later changes */
} lk_zk_guard;

/* Which places a list showed ahead of a place that is BEHIND. */
typedef enum {
    LK_ZK_AHEAD_ANY,
    LK_ZK_AHEAD_OURS, /* `right_behind`, which is ours; no place stands in between */
    LK_ZK_AHEAD_ONE   /* a single place, another locker's: this place is first once that is deleted */
} lk_zk_ahead;

/* Creates of a key's places go a few at a time (create.c). */
typedef enum {
    LK_ZK_NO_LINE,
    LK_ZK_IN_LINE,        /* it waits in `line`, and its call waits */
    LK_ZK_IN_LINE_ASLEEP, /* it waits in `line`, and its call sleeps until it is let in */
    LK_ZK_LET_IN          /* its create is in flight */
} lk_zk_admission;

/* Whether servers refuse to delete it. */
typedef enum {
    LK_ZK_TROUBLE_NONE,
    LK_ZK_TROUBLE_REFUSED,
    LK_ZK_TROUBLE_STUCK /* for long, and the session goes on: that was logged */
} lk_zk_trouble;

/* A place: an ephemeral node, or an attempt to make one. */
struct lk_zk_node {
    lk_list link;           /* in lk_zk.nodes, left or doubtful */
    lk_table_link by_id;    /* in lk_zk.places */
    lk_table_link in_queue; /* in lk_zk.queues, by its parent */
    lk_list timer;          /* in lk_zk.timed, or in no list */
    lk_list turn;           /* in those that wait in its line, or in no list */
    lk_line *line;          /* as `admission` says; NULL: it is in none */
    lk_zk_watcher watcher;  /* of the predecessor, while it is BEHIND and waits */
    uint64_t right_behind;  /* the id of the place ahead, if that is AHEAD_OURS */
    /* that predecessor, while its delete and a read of this place are under way; else NULL */
    lk_zk_node *succeeds;
    locker_claim *claim;   /* whose it is; NULL: nobody's, to be deleted */
    lk_zk_call *call;      /* who waits for the next step; NULL: nobody */
    locker_error *error;   /* of FAILED; malloc'ed, may be NULL */
    uint64_t id;           /* the part of its name that is its own */
    int64_t session;       /* in which it was asked for */
    int64_t czxid;         /* the fencing token; 0 until it is known */
    int64_t seen_at;       /* when the latest list or check was sent that showed it */
    int64_t watch_at;      /* when it wants a watch on itself */
    int64_t write_at;      /* when the time of its grant wants to be written */
    int64_t granted_at;    /* that time; of a lock that was waited for */
    int64_t cap;           /* LOST then at the latest, of a lease that isn't renewed; else LOCKER_NEVER */
    int64_t retry_at;      /* of a delete */
    int64_t trouble_since; /* when the first delete was refused */
    int trouble_rc;        /* ... and what the latest was answered */
    int64_t doubt_since;   /* of one in `doubtful`: of the latest name that it stands for */
    int64_t look_at;       /* ... when it is looked for again */
    int32_t sequence;      /* once it is there */
    int32_t permits;       /* how many its key has; 0: it wants a lock */
    int32_t slot;          /* which of them it takes, once that was asked for */
    int32_t other;         /* the first before it says so many permits; 0: it says as many */
    int create_rc;         /* create's answer */
    int parent_rc;         /* ... and why its parent could not be made; ZOK: it could, or nothing is known */
    int take_rc;           /* that of the exchange; */
    int take_place_rc;     /* ... for its place in the queue, where it was refused */
    unsigned requests;     /* that refer to it */
    lk_zk_step step;       /* changed by lk_zk_node_step_locked() alone */
    lk_zk_mark mark;       /* once it is GONE */
    uint8_t tries;         /* how often its parents have been made */
    locker_mode mode;      /* SHARED: it waits for no place that shares the key */
    lk_zk_held held;
    lk_zk_flight flight;
    lk_zk_removal removal; /* changed in ending.c alone */
    lk_zk_guard guard;
    lk_zk_ahead ahead;
    lk_zk_admission admission;
    lk_zk_trouble trouble;
    bool waited;               /* it has been BEHIND */
    bool granted;              /* core knows that it has the lock */
    bool event_awaited;        /* the claim was enrolled: it is woken, not its caller */
    bool mixed;                /* the key's node has been used for permits, too, and may be still */
    bool makes_parent;         /* the parent of permits is made along with it */
    char tail[LK_ZK_TAIL_MAX]; /* of its name */
    char parent[];             /* the path of the key's node */
};

/* Return true if its node is at the server: the node's name is known, and no end of it. */
static inline bool lk_zk_is_there(const lk_zk_node *node)
{
    return node->held >= LK_ZK_PLACE && node->held <= LK_ZK_PERMIT;
}

/* Return true if its node is a permit, or was when it ended. */
static inline bool lk_zk_node_is_permit(const lk_zk_node *node)
{
    return node->held == LK_ZK_PERMIT || node->held == LK_ZK_WAS_PERMIT;
}

static inline bool lk_zk_is_in_line(const lk_zk_node *node)
{
    return node->admission == LK_ZK_IN_LINE || node->admission == LK_ZK_IN_LINE_ASLEEP;
}

static inline bool lk_zk_is_deleting(const lk_zk_node *node)
{
    return node->removal == LK_ZK_DELETING || node->removal == LK_ZK_DELETING_AGAIN;
}

/* Return true if a delete had no answer, and may have been carried out. */
static inline bool lk_zk_maybe_deleted(const lk_zk_node *node)
{
    return node->removal == LK_ZK_DELETE_LOST || node->removal == LK_ZK_DELETING_AGAIN;
}

/* ---------------------------------------------------------------- its life ---- */
/* Without a claim: one of ours that a list shows, and of which nothing is known, to be deleted. NULL: no memory. */
lk_zk_node *lk_zk_node_new_locked(lk_zk *z, locker_claim *claim, const char *parent, uint64_t id,
                                  const char *tail) LK_REQUIRES(*z->net);
/* From the list that it is in to another one. */
void lk_zk_node_move_locked(lk_zk *z, lk_zk_node *node, lk_list *list) LK_REQUIRES(*z->net);
/* True if no delete that may succeed is under way or due. */
bool lk_zk_left_settled_locked(const lk_zk *z) LK_REQUIRES(*z->net);
/* That may have changed: tell who waits for it. */
void lk_zk_left_changed_locked(const lk_zk *z) LK_REQUIRES(*z->net);
/* Free it if nobody refers to it and nothing is left at the server. False: not yet. */
bool lk_zk_node_reap_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* One request more refers to it, where that was sent. False: it was not (NULL). */
static inline bool lk_zk_node_ref(lk_zk_node *node, const lk_zk_request *request)
{
    node->requests += request != NULL;
    return request != NULL;
}
/* The same, and this is its question in flight. */
static inline bool lk_zk_node_asks(lk_zk_node *node, lk_zk_flight flight, const lk_zk_request *request)
{
    node->flight = request != NULL ? flight : LK_ZK_IDLE;
    return lk_zk_node_ref(node, request);
}
/* One less. */
void lk_zk_node_unref_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
void lk_zk_node_free_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Its claim goes: nobody waits for it any more. */
void lk_zk_node_disown_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

/* Our own place of that name, or path, or id; NULL: there is none. */
lk_zk_node *lk_zk_node_find_locked(const lk_zk *z, const char *name) LK_REQUIRES(*z->net);
lk_zk_node *lk_zk_node_by_id_locked(const lk_zk *z, uint64_t id) LK_REQUIRES(*z->net);
/* Whatever a list shows of its name is not this one any more: it has another, which is never asked for. */
void lk_zk_node_unname_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Where it is: its place in the queue, or its permit. */
void lk_zk_node_path(const lk_zk *z, const lk_zk_node *node, char path[LK_ZK_PATH_MAX]);
/* The path of its permit. */
void lk_zk_node_permit_path(const lk_zk *z, const lk_zk_node *node, char path[LK_ZK_PATH_MAX]);

/* ---------------------------------------------------------------- what it wants after a while: place.c ---- */
/* A watch on itself at that time, whatever was said before. A place that goes sooner costs no request for it. */
void lk_zk_node_watch_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* The time of its grant to be written then. */
void lk_zk_node_write_by_locked(lk_zk *z, lk_zk_node *node, int64_t at) LK_REQUIRES(*z->net);
/* Nothing of that any more. */
void lk_zk_node_timers_stop_locked(lk_zk_node *node);
/* It waits in no line any more. Where its create is under way, the answer has the next one come. */
void lk_zk_node_leave_line_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- its step ---- */
/* Something has become known of it. */
void lk_zk_node_step_locked(lk_zk_node *node, lk_zk_event event);
/* The same, and whoever waits for it is told. */
void lk_zk_node_tell_locked(lk_zk *z, lk_zk_node *node, lk_zk_event event) LK_REQUIRES(*z->net);
/* REFUSED, with the server's reason; without a claim and a node it is ENDED. */
void lk_zk_node_fail_locked(lk_zk *z, lk_zk_node *node, int rc, const char *doing) LK_REQUIRES(*z->net);
/* The node is there, with that number. */
void lk_zk_node_found_locked(lk_zk *z, lk_zk_node *node, int32_t sequence) LK_REQUIRES(*z->net);

/* A heartbeat is due at once. */
void lk_zk_heartbeat_now_locked(lk_zk *z) LK_REQUIRES(*z->net);
/* An answer said nothing although the connection is up: resume in a moment. */
void lk_zk_stalled_locked(lk_zk *z) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- how it ends, or is in doubt: ending.c ---- */
/* Send the delete, unless one is under way. */
void lk_zk_node_delete_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* One of its nodes is gone, perhaps with the whole session, which a server doesn't tell the connection, nor does it answer
 * anything there, not even pings. So nothing is granted until a heartbeat has found its nodes, or a delete was carried out;
 * without an answer a new connection has to tell. That this one is lost answers nothing. */
void lk_zk_session_doubt_locked(lk_zk *z) LK_REQUIRES(*z->net);
/* It is gone, with proof: somebody else deleted it. A heartbeat is due at once. */
void lk_zk_node_vanish_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* It is there, with that number, but nobody wants it. */
void lk_zk_node_stray_locked(lk_zk *z, lk_zk_node *node, int32_t sequence) LK_REQUIRES(*z->net);
/* Whether it is there, or will be, isn't known. Without a claim it has no name any more. */
void lk_zk_node_doubt_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Nobody wants it any more: it is deleted in the background, and freed. */
void lk_zk_node_leave_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Delete again what servers refused to delete, if it is time. Returns when it is. */
int64_t lk_zk_delete_left_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* True if a node of ours in that queue can't be deleted. */
bool lk_zk_is_refused_locked(lk_zk *z, const char *queue) LK_REQUIRES(*z->net);
/* The session is over, and all places with it. */
void lk_zk_all_vanish_locked(lk_zk *z) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- who is ahead of it: queue.c ---- */
/* Ask for the queue's list, and find the node's place in it. */
void lk_zk_node_list_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* One of ours in its queue, with as many permits, ahead of it if it is there, for which a list has to be asked yet; NULL: none. */
const lk_zk_node *lk_zk_ours_ahead_locked(const lk_zk *z, const lk_zk_node *node) LK_REQUIRES(*z->net);
/* The node is there, and no list was asked for with it: wait behind one of ours, or ask for one; nobody's is deleted. */
void lk_zk_node_follow_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* The answer to a list: the node's place is found in it if it was there when that was asked for. */
void lk_zk_list_answered_locked(lk_zk *z, lk_zk_node *node, const lk_zk_reply *reply) LK_REQUIRES(*z->net);
/* Delete what a list of a queue shows of ours that belongs to no claim. */
void lk_zk_queue_sweep_locked(lk_zk *z, const char *parent, const struct String_vector *names)
    LK_REQUIRES(*z->net);
/* What the connection tells of a predecessor: it may have gone (ZNONODE), or it can't be watched. */
void lk_zk_predecessor_gone_locked(lk_zk *z, lk_zk_watcher *watcher, int rc) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- how it begins, and what follows no answer: create.c ---- */
/* Send create and list in one flight, when it is its turn among the places of its key. */
void lk_zk_node_start_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* Look for it, when its create got no answer. */
void lk_zk_node_search_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* After a reconnection: it is time for those that have not been in doubt for long. */
void lk_zk_search_again_locked(lk_zk *z) LK_REQUIRES(*z->net);
/* Look for those that nobody waits for, if it is time. Returns when it is again. */
int64_t lk_zk_search_due_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- from the queue to a permit: exchange.c ---- */
/* Send the exchange, with the slot that is set; also once more. */
void lk_zk_node_take_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* The children of that node, which are permits, are others now: who waits for one at the head of the queue counts again. */
void lk_zk_permits_changed_locked(lk_zk *z, const char *path) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- whether it is still there: heartbeat.c ---- */
/* Send heartbeats if it is time; returns when the next is due. */
int64_t lk_zk_heartbeat_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* Whether the deadline is far enough away for a grant. */
bool lk_zk_enough_locked(lk_zk *z, int64_t now) LK_REQUIRES(*z->net);
/* Have the deadline moved, for a caller that can have this node's lock once there is enough. */
void lk_zk_prove_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);

/* Have it told at once when somebody else deletes it: what it has is lost. False: no memory or connection. */
bool lk_zk_watch_own_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* What the connection tells of a node of that path. */
void lk_zk_own_event_locked(lk_zk *z, const char *path, bool deleted) LK_REQUIRES(*z->net);

/* ---------------------------------------------------------------- what the data of a key's node says: record.c ---- */
/* What we keep there. All zeros: nothing. */
typedef struct {
    uint64_t granted; /* the token of a grant that was waited for ... */
    int64_t unix_ms;  /* ... and when it was made */
    uint64_t broken;  /* the token of the latest that was broken */
} lk_zk_record;

enum { LK_ZK_RECORD_MAX = 112 };

/* False: somebody keeps something else there. */
bool lk_zk_record_read(const char *data, int len, lk_zk_record *record);
void lk_zk_record_write(const lk_zk_record *record, char text[LK_ZK_RECORD_MAX]);
/* The node has the lock from now on: have that written, if it has waited and if it lasts. */
void lk_zk_grant_time_plan_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
/* The node has had the lock for long enough. */
void lk_zk_grant_time_write_locked(lk_zk *z, lk_zk_node *node) LK_REQUIRES(*z->net);
