/* prepare.h: what a leader makes of a request: the transaction that it proposes, by what will be when all has been
 * applied that was proposed before (PrepRequestProcessor). */
#pragma once

#include "call.h"
#include "tracker.h"
#include "tree.h"

/* What a node will be. */
typedef struct {
    int64_t zxid; /* of the transaction that makes it so */
    bool exists;
    char *path;
    int32_t version, cversion, children;
    int64_t owner;
    bool container;
    lk_simzk_acl acl; /* the transaction's memory, or the node's */
} lk_simzk_prospect;

/* All zero but for the tree and the tracker: nothing proposed. */
typedef struct {
    const lk_simzk_tree *tree;
    lk_simzk_tracker *tracker;
    bool alone, is_3_9;
    int64_t zxid; /* the last that was given */
    int64_t time_ms;
    lk_simzk_prospect *prospects; /* the oldest first */
    size_t count, room;
} lk_simzk_preparation;

/* Gives the call its transaction; a read gets the error that it is refused with. */
void lk_simzk_prepare(lk_simzk_preparation *p, lk_simzk_call *call);
/* That transaction has been applied. */
void lk_simzk_prepared_until(lk_simzk_preparation *p, int64_t zxid);
void lk_simzk_preparation_free(lk_simzk_preparation *p);
