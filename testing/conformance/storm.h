/* storm.h: what the storms share. A storm is rounds: crews of threads, each on a locker of its own, in this
 * process and in others, take and give few keys in every way there is; then the round is judged.
 *
 * storm_detector.c is the detector: each grant's stay is written down in memory that all processes share,
 * as the time for which its holder was certain, and a round is judged by its stays. A holder is certain
 * from the return of its lock call to the last time that its handle was asked and did not say that it was
 * lost; so a lease that ran out on a busy machine, or a process that was killed, accuses nobody.
 * storm_crew.c has the threads, storms.c the storms. */
#pragma once

#include <stdatomic.h>

#include "kit.h"

enum { LK_STORM_KEYS = 4, LK_STAYS = 20000, LK_BLOWS = 2000, LK_STORM_PERMITS = 3 };

/** How a storm uses its keys. */
typedef enum {
    LK_STORM_PLAIN,
    LK_STORM_SHARED, /* now shared, now not */
    LK_STORM_OF_PERMITS
} lk_storm_kind;

/** The mode and permits of a call of that kind, with a random number. */
void lk_storm_choose(lk_storm_kind kind, unsigned random, locker_lock_options *options);

/** One grant. Times are ns of CLOCK_BOOTTIME. Written by its holder; whole when `from` is set. */
typedef struct {
    unsigned key, crew;
    locker_mode mode;
    int32_t slot; /**< of a permit; else -1 */
    uint64_t token;
    int64_t asked;        /**< when the call began */
    _Atomic int64_t from; /**< when it had returned */
    _Atomic int64_t seen; /**< the last time that the holder was certain; 0: it never was */
    int64_t until;        /**< as the holder was certain last: when the lease ends; -1: there is none */
    int64_t gives;        /**< when it began to give; 0: it never did */
    int64_t gave;         /**< when unlock had answered; 0: it never did */
    locker_status answer;
    int64_t end; /**< for the judge: until when it shut others out */
} lk_stay;

/** An operator's break of whatever held the key. */
typedef struct {
    unsigned key;
    int64_t asked;
    _Atomic int64_t done; /**< 0: it has not returned */
} lk_blow;

/** What all processes of a storm share. */
typedef struct {
    atomic_uint stays, blows; /**< how many were begun in this round */
    atomic_bool has_complaint;
    char complaint[300]; /**< the first answer that made no sense; of who set the flag */
    lk_stay stay[LK_STAYS];
    lk_blow blow[LK_BLOWS];
} lk_detector;

/** Maps the detector in that file, which is made if it is not there. Ends the process when it can't. */
lk_detector *lk_detector_open(const char *path);
void lk_detector_close(lk_detector *detector);

/** A round begins: nothing has happened. */
void lk_detector_clear(lk_detector *detector);

/** A grant that just came, in that mode, asked for at `asked`. NULL: the round has had enough. */
lk_stay *lk_detector_enter(lk_detector *detector, unsigned key, unsigned crew, int64_t asked,
                           locker_handle *held, locker_mode mode);

/** Its holder looks whether it still is one; answers it. */
bool lk_stay_look(lk_stay *stay, const locker_handle *held);

/** It unlocks, and writes down the answer. */
void lk_stay_give(lk_stay *stay, locker_handle *held);

/** Somebody breaks the key. */
locker_status lk_detector_break(lk_detector *detector, unsigned key, locker *l, locker_error *err);

/** Complains of what no detector is needed for. */
void lk_detector_complain(lk_detector *detector, const char *format, ...)
    __attribute__((format(printf, 2, 3)));

/** Judges a round that has ended. NULL: all is well; else what was seen, in `text`. */
const char *lk_detector_judge(lk_detector *detector, char *text, size_t size);

/** What a thread may wish for, as bits. */
typedef enum {
    LK_WISH_TRY = 1,
    LK_WISH_WAIT = 2,
    LK_WISH_BRIEF = 4,  /* a wait of up to 3 ms */
    LK_WISH_CANCEL = 8, /* a wait that is canceled, soon or never */
    LK_WISH_LAPSE = 16, /* a lease that ends while it is held, seldom */
    LK_WISH_BREAK = 32, /* of keys from 1 on */
    LK_WISH_AGAIN = 64  /* a wait of an owner, who enters again what he has */
} lk_wish;

/** How a crew spends a round. */
typedef struct {
    unsigned wishes;
    unsigned threads; /* at most LK_CREW_AT_MOST */
    unsigned turns;   /* calls of each thread */
    unsigned keys;    /* at most LK_STORM_KEYS */
    bool closes;      /* its locker may be closed meanwhile */
    lk_storm_kind kind;
} lk_plan;

enum { LK_CREW_AT_MOST = 24 };

/** Threads on one locker. Opaque. */
typedef struct lk_crew lk_crew;

/** Starts them on a round. `number` is the locker's among all of the storm. */
lk_crew *lk_crew_start(lk_detector *detector, const lk_plan *plan, locker *l, unsigned number, uint64_t seed);

/** Keeps further calls from the locker and waits until those under way are in it; then it may be closed. */
void lk_crew_leave(lk_crew *crew);

/** Waits for their end. */
void lk_crew_join(lk_crew *crew);

/** The key's name. */
const char *lk_storm_key(unsigned key);

/** The next of a row of random numbers, below `limit`. */
unsigned lk_storm_random(uint64_t *row, unsigned limit);

/** Now, in ns of CLOCK_BOOTTIME. */
int64_t lk_storm_now(void);

/** The part of another process: rounds as the parent tells them, on a detector given by its path. */
int lk_storm_serve(locker *l, const char *path, unsigned number);

/** How long storms rage and from which seed; of the command line. rounds 0: for a short time. */
extern unsigned long lk_storm_rounds;
extern uint64_t lk_storm_seed;
