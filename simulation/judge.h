/*
 * judge.h: what is asked after each step of a simulation, and at each answer. It looks into handles, because asking them
 * would take time; and it knows what went wrong, so that what the library does not promise then is excused, and no more.
 */
#pragma once

#include <locker/locker.h>

#include "world/network.h"

enum { LK_SIM_KEYS_MAX = 8 };

/** A grant that is certainly the service's. */
typedef struct {
    uint64_t serial;
    int64_t asked_at, granted_at;
} lk_sim_grant;

/** From the call that takes the lock until the return of that which gives it back. */
typedef struct lk_sim_hold {
    struct lk_sim_hold *next;
    lk_sim_process *process;
    unsigned key;
    locker_mode mode;       /**< as it asks, as the next */
    int32_t permits;        /**< one of so many; 0: it is a lock */
    bool waits;             /**< it asks for more than one try */
    int64_t asked_at;       /**< when the call began */
    int64_t began;          /**< likewise, of the time that its process ran */
    int64_t ttl_ns;         /**< what it asks for */
    const void *locker;     /**< by which; set by who asks, as the next */
    const bool *leaves;     /**< whether that is being closed */
    const unsigned *opened; /**< how often that place was opened */
    unsigned was_opened;    /**< likewise, when the call began */
    int64_t leaves_at;      /**< before that it doesn't go by itself; 0: it may be canceled */
    int64_t ends_at;        /**< before that its time is not over, whether it may be canceled or not */
    bool renews;            /**< it is to be renewed */
    size_t crowd;           /**< the most that stood in the service's queue of the key since the call began */
    bool was_first;         /**< its process stood among the first alone of the queue that was lost lately */
    int64_t place_at;       /**< since then it certainly stands in line by itself */
    int64_t
        overtaken_at; /**< one who came later, beside whom it may be, was granted it; of the time that its process ran; -1: never */
    uint64_t asked_behind; /**< the greatest token of the key then */
    locker_handle *handle; /**< NULL: it is not granted yet */
    int64_t granted_at;
    uint64_t serial; /**< the number of its grant, among all */
    unsigned long long token;
    int32_t slot;        /**< of a permit */
    bool rides;          /**< on a grant that another call of its process got */
    bool shuts;          /**< it shuts others out, when it was last looked at */
    int64_t first_until; /**< the deadline that it was granted with; 0: it was handed on inside its process */
    bool told;           /**< on_lost was called, or needs not be */
    int64_t until_local; /**< the deadline that was seen last, of its process' clock */
    int64_t most_local;  /**< ... as it was confirmed, before it was shortened */
    int64_t most;        /**< ... in true time */
    int64_t moved_at;    /**< when it was seen to move forward, or to be confirmed as it was */
    int64_t
        suspect_local; /**< when it is suspect, by the process' clock: each confirmation moves that forward */
    int64_t until;     /**< the true time of that */
    int64_t over;      /**< when it was first seen to be lost, of the time that its process ran; -1: never */
    int64_t broken_at; /**< somebody was told that he broke it, and it may have listened; 0: nobody */
    int64_t breaks_at; /**< when that one had begun to */
    int64_t handed_at; /**< when its process was last told that the key was handed on to it; 0: never */
    bool gives;        /**< unlock was called: it shuts nobody out any more */
    int64_t gave_at;   /**< when that was */
    bool gave_lost;    /**< it was lost before */
    bool gave_part;    /**< others of its process have the same grant still: the service isn't asked */
    uint64_t passed_before;         /**< how often its locker had handed locks on inside its process then */
    unsigned long long gave_behind; /**< the greatest token then of those that it shuts out */
    lk_sim_grant gave_after;        /**< the latest one of them then */
    int64_t behind_asked_at;        /**< when the call that got that began */
    int64_t behind_granted_at;
} lk_sim_hold;

/** A call that breaks a lock. */
typedef struct lk_sim_break lk_sim_break;

/** So many of a queue ask often for their places, and so does the last. */
enum { LK_SIM_FIRST = 3 };

/** What a service's driver promises when all is well. What is not set is not judged. */
typedef struct {
    int64_t idle_ns; /**< so long at most is a key free that somebody waits for; 0: all is never well */
    int64_t
        poll_ns; /**< what one of many waiters lets pass for each of them before it asks for its place again */
    int64_t broken_ns;  /**< after so long at most the holder knows that its lock was broken */
    int64_t call_ns;    /**< so long at most does a call wait for the service's answer */
    int64_t cleanup_ns; /**< so long is tried to give back what nobody wants */
    int64_t lease_ns;   /**< the longest, and a little */
    int64_t settle_ns;  /**< so long after a fault is not all well: connections are made anew */
    int64_t back_ns;   /**< so long after it a client that could not connect may wait before it looks again */
    int64_t term_ns;   /**< after so much silence somebody is taken for gone */
    bool keeps_count;  /**< tokens grow over a loss of all data */
    bool breaks_prove; /**< a break that says OK has ended the lock, and no unlock of it has */
    bool has_tokens;   /**< they grow from grant to grant */
    bool has_order;    /**< who waits is served in the order of arrival, by whichever locker he asked */
    bool has_leases;   /**< a lock has a lease of its own, which a grant has a part of */
    unsigned
        drift; /**< the percentage of a lease, beyond one, that deadlines leave for a fast service's clock */
    bool shares_leases; /**< ... which may be up to an eighth shorter than the lock's time */
    bool tells_breaks;  /**< lk_sim_judge_carried_out() is called */
    bool (*is_free)(
        unsigned key); /**< the service has no lock of the key, nor a lease that could end; NULL: not known */
    size_t (*waiters)(unsigned key); /**< how many stand in the service's queue of the key; NULL: not known */
    bool (*is_first)(
        unsigned key,
        int pid); /**< a process stands among its first LK_SIM_FIRST alone; set where `waiters` is */
    bool (*is_withheld)(
        unsigned key); /**< nobody can get the key now, nor see or break its lock; NULL: never */
    bool has_replica;  /**< who has only looked may not know yet that he is connected to one */
} lk_sim_bounds;

void lk_sim_judge_begin(const lk_sim_bounds *bounds);

/* ------------------------------------------------------------------ what goes wrong ---- */

/** Something goes wrong, or goes on after it did. Until so long after now no answer is expected in time. */
void lk_sim_judge_trouble(int64_t span_ns);
/** There may be locks now that nobody has, until their leases are over. */
void lk_sim_judge_leaves(void);
/** A fault begins that lasts, or ends. */
void lk_sim_judge_lasts(bool begins);
/** The service loses what it knows of the key, or all its data: what was confirmed before need not be true. */
void lk_sim_judge_forgets(unsigned key);
void lk_sim_judge_forgets_all(void);
/** Somebody deletes them, and the server itself goes on: who connects anew can't know. */
void lk_sim_judge_flushes(void);
/** The service loses the queue of the key, and tells nobody. */
void lk_sim_judge_loses_queue(unsigned key);
/** A failover loses what replicas did not have to confirm of the key, or of all: all but grants and renewals. `goes_on`: as long
 * as it isn't called anew, as by those who use the old master still. */
void lk_sim_judge_forgets_ends(unsigned key);
void lk_sim_judge_forgets_all_ends(bool goes_on);
/** Since then the servers' leader stood still, for longer than clients can bear. */
void lk_sim_judge_was_deaf(int64_t since);
/** Somebody who isn't ours has got the key now, for so long at least if nobody breaks it. */
void lk_sim_judge_stranger(unsigned key, int64_t span_ns);
/** The clock by which the service ends leases shows so much more from now on than one that had run evenly. */
void lk_sim_judge_clock(int64_t lead_ns);
/** The service's name leads to another server now than this one. */
void lk_sim_judge_moves(const lk_sim_service *from);
/** Who holds the key may hear of no break until he has renewed it, because the key has moved to another server. */
void lk_sim_judge_deafens(unsigned key);
/** The service tells a process that it has handed the key on to it. */
void lk_sim_judge_handed(unsigned key, const lk_sim_process *process);
/** All that is left of a process that was killed. */
void lk_sim_judge_forget(const lk_sim_process *process);

/** The service carries out somebody's break of the key. */
void lk_sim_judge_carried_out(unsigned key);
/** The service takes the lock of that token away, because its holder's time is over: he must know. */
void lk_sim_judge_ended(uint64_t token);

/* ------------------------------------------------------------------ calls ---- */

/** A call since `began`, lk_sim_ran(), may have taken so long, and the time that it waits for an answer. */
void lk_sim_judge_took(const lk_sim_process *process, int64_t began, int64_t most_ns, const char *what);
/** A call for the key begins. */
void lk_sim_judge_asks(lk_sim_hold *hold, lk_sim_process *process, unsigned key,
                       const locker_lock_options *options);
/** It has answered OK. */
void lk_sim_judge_granted(lk_sim_hold *hold, locker_handle *handle);
/** The owner of `hold` asks for its lock again (`begins`), and has left again. If the lock was lost meanwhile, that call takes a new
 * one. In a process that is killed the call never ends. */
void lk_sim_judge_enters_again(const lk_sim_hold *hold, bool begins);
/** It has answered something else. */
void lk_sim_judge_refused(lk_sim_hold *hold, locker_status status, const char *text);
/** Whoever holds it is about to unlock. */
void lk_sim_judge_gives(lk_sim_hold *hold);
/** What unlock said. */
void lk_sim_judge_unlocked(lk_sim_hold *hold, locker_status status);
/** Whether it is held, by what its handle goes by. */
bool lk_sim_judge_is_held(lk_sim_hold *hold);
/** What its handle said, asked since then, when that was so. */
void lk_sim_judge_said(lk_sim_hold *hold, bool was_held, int64_t since, locker_state state, int64_t left_ms);

lk_sim_break *lk_sim_judge_breaks(lk_sim_process *process, unsigned key, uint64_t token);
void lk_sim_judge_broke(lk_sim_break *of, locker_status status, const locker_info *broken);

/** Who certainly holds the key, one of them. NULL: nobody does. */
lk_sim_hold *lk_sim_judge_holder(unsigned key);
/** A look by a process that began then, when that one held the key, has told this. */
void lk_sim_judge_shown(const lk_sim_process *process, unsigned key, const lk_sim_hold *holder, int64_t since,
                        const locker_info *info);

/** After each step. */
void lk_sim_judge_look(void);
/** Whether nothing has gone wrong since then, nor for a while before. */
bool lk_sim_judge_was_well(int64_t since);
/** The service withheld the key at that time or since. */
bool lk_sim_judge_was_withheld(unsigned key, int64_t since);
/** Nor is there anything any more that was left behind. */
bool lk_sim_judge_is_calm(void);
/** Whether somebody has been granted the key, and has not given it back. */
bool lk_sim_judge_is_used(unsigned key);
unsigned lk_sim_judge_grants(void);
