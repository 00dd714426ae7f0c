/* scenario_unlock_after_loss.c: a holder that has lost its lock unlocks. The other's lock has to stay. */
#include <stdio.h>

#include "scenario.h"

/* An operator takes the lock away, and another gets it, before the holder's own deadline has passed. The
 * holder is stopped meanwhile, so it unlocks before it can have heard of it. */
static void run(lk_cell *cell)
{
    lk_worker *first = lk_hire(cell, "first"), *second = lk_hire(cell, "second"),
              *third = lk_hire(cell, "third");
    lk_promise(cell, "Unlock compares before it releases: it returns LOST, and the other holder keeps "
                     "the lock.");
    lk_ignore(cell, LK_CHECK_OVERLAP); /* the first one is stopped, and can't be told in time */
    lk_ignore(cell, LK_CHECK_TRUTH);
    lk_observe(cell, cell->backend->uri, -1);
    lk_compare_take(first);
    lk_compare_fault(cell, true, "break", first->name);
    lk_compare_freeze(first);
    lk_tell(first, "unlock"); /* it will, the moment it goes on */
    const lk_answer broken = lk_ask(third, "break %s", cell->key);
    lk_compare_take(second);
    lk_compare_thaw(first);
    const lk_answer given = lk_hear(first);
    lk_compare_fault(cell, false, "break", first->name);
    const lk_answer tried = lk_ask(third, "try %s 0 1", cell->key);
    const lk_answer kept = lk_ask(second, "unlock");
    if (lk_failed(cell))
        return;
    if (broken.status != LOCKER_OK)
        lk_fail(cell, "the lock could not be broken: %s", broken.text);
    if (given.status != LOCKER_LOST)
        lk_broken(cell, "unlock returned %s", locker_status_name(given.status));
    if (tried.status != LOCKER_BUSY)
        lk_broken(cell, "after the unlock, the try of a third process returned %s",
                  locker_status_name(tried.status));
    /* an unlock whose answer didn't come in time says nothing against what the third was told */
    const bool is_kept = kept.status == LOCKER_OK || kept.status == LOCKER_UNKNOWN;
    if (!is_kept)
        lk_broken(cell, "the second holder's unlock returned %s", locker_status_name(kept.status));
    lk_measure(cell, "unlock said lost", "", given.status == LOCKER_LOST);
    lk_measure(cell, "the other kept it", "", tried.status == LOCKER_BUSY && is_kept);
}

static void conclude(lk_result *result)
{
    lk_figure(result, "the first holder's unlock %s, and the second %s the lock",
              lk_every(result, "unlock said lost") ? "returned lost" : "DID NOT RETURN LOST",
              lk_every(result, "the other kept it") ? "kept" : "LOST");
}

const lk_scenario lk_scenario_unlock_after_loss = {
    .name = "unlock-after-loss",
    .title = "A holder that lost the lock unlocks",
    .question = "An operator breaks a holder's lock, another process gets it, and then the first holder "
                "unlocks. Does the second holder keep the lock?",
    .needs = LK_CAN_BE_SHARED,
    .run = run,
    .conclude = conclude,
};
