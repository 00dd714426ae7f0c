/* record.h: what we keep in the data of a key's node. */
#pragma once

#include <stdbool.h>
#include <stdint.h>

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
