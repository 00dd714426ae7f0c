/* record.h: what we keep in the data of a key's node. */
#pragma once

#include "place.h"

/* All zeros: nothing. */
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
