/* contenders.h: clients that want one lock, each a child that notes when it takes it to be its own, and which two of them came
 * nearest to having it at once. */
#pragma once

#include "sweep.h"

/** What one is about. */
typedef enum {
    LK_COMES,
    LK_OPEN,  /**< it can begin */
    LK_WAITS, /**< it was told to lock */
    LK_HAS,
    LK_DISMISSED, /**< it was told to die with the lock */
    LK_OVER
} lk_doing;

typedef struct {
    const char *name;
    lk_child *child; /**< in a role as "holder" is, or etcdctl */
    bool foreign;    /**< etcdctl, which tells when it has the lock, and not when it has lost it */
    lk_doing doing;
    bool lost;       /**< it was told so, at `told` */
    int64_t granted; /**< it took the lock to be its own from then, in ms (0: never), ... */
    int64_t until;   /**< to then: to its deadline, or until it was told; INT64_MAX: it has not said yet */
    int64_t deadline, told;
    long long left; /**< of its lease at the grant, in ms */
    char text[100]; /**< what went wrong; "": nothing */
} lk_contender;

enum { LK_CONTENDERS = 3 };

typedef struct {
    lk_contender who[LK_CONTENDERS];
    int count;
} lk_scene;

/** Adds one, whose child is started. */
lk_contender *lk_contender_add(lk_scene *s, const char *name, lk_child *child);
/** Waits until it can begin. */
bool lk_contender_opens(lk_scene *s, const lk_contender *c, int within_ms);
/** Tells it to lock. */
void lk_contender_lock(lk_contender *c);
/** Waits until it has the lock. */
bool lk_contender_gets(lk_scene *s, const lk_contender *c, int within_ms);
/** Hears what all say, until then, or for so long. */
void lk_scene_until(lk_scene *s, int64_t until_ms);
void lk_scene_for(lk_scene *s, int ms);
/** Whoever has the lock dies with it (etcdctl gives it back), until nobody waits any more, or so much time has passed. The last, too,
 * says until when it had it. */
void lk_scene_pass_on(lk_scene *s, int within_ms);
/** Notes the grant that came soonest after another's end, or before it; the text says whose. No text: there was none. */
void lk_scene_judge(const lk_scene *s, lk_outcome *o);
/** Kills all. */
void lk_scene_end(lk_scene *s);
