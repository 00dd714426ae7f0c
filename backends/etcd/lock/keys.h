/* keys.h: names and values of keys. A lock's base is its name, encoded as one component, below the path and namespace:
 *
 *   BASE/<id>                   an exclusive place (BASE/<lease>: of etcdctl lock, or Go's concurrency.Mutex)
 *   BASE/s-<id>                 a shared place
 *   BASE%permits/<N>-want-<id>  a place that waits for one of N permits
 *   BASE%permits/<N>-slot-<k>   the permit of slot k
 *
 * In an encoded name, two capital hexadecimal digits follow each '%'. So no base begins with another lock's BASE%permits. */
#pragma once

#include "instance.h"

enum { LK_ETCD_NAME_MAX = 80 }; /* the bytes behind the base */

typedef struct {
    size_t len;
    char text[LK_ETCD_KEY_MAX];
} lk_etcd_key;

/* The kinds of ranges of keys. */
typedef enum {
    LK_ETCD_QUEUE,     /* the contenders of a lock */
    LK_ETCD_UNSHARED1, /* the contenders that are not shared, in two parts */
    LK_ETCD_UNSHARED2,
    LK_ETCD_PERMITS, /* all keys of permits */
    LK_ETCD_WANTS,   /* the waiters for one of N permits */
    LK_ETCD_SLOTS,   /* the holders of one of N permits */
    LK_ETCD_OTHERS1, /* keys of permits with another number than N, in two parts */
    LK_ETCD_OTHERS2,
    LK_ETCD_RANGES
} lk_etcd_range_of;

locker_status lk_etcd_root_init(lk_etcd *e, const locker_driver_config *config, locker_error *err);
/* Encode the key into its base. Return false if it is too long. */
bool lk_etcd_base(const lk_etcd *e, const char *key, size_t key_len, lk_etcd_key *base);
/* Return the first key of the range, and the key behind its last. */
void lk_etcd_bounds(const char *base, int32_t permits, lk_etcd_range_of what, lk_etcd_key *begin,
                    lk_etcd_key *end);
/* Return the key of the place with that id. */
void lk_etcd_place_key(const char *base, locker_mode mode, int32_t permits, const char *id, lk_etcd_key *key);
void lk_etcd_slot_key(const char *base, int32_t permits, int32_t slot, lk_etcd_key *key);
/* What the name of a key below a base says: `permits` is 0 for a lock, `slot` is -1 without a permit or if
 * the name has no slot. */
typedef struct {
    locker_mode mode;
    int32_t permits, slot;
    bool has_permit;
} lk_etcd_told;
lk_etcd_told lk_etcd_key_told(const ProtobufCBinaryData *key, size_t base_len);

/* ---------------------------------------------------------------- records: the value of a key of ours ---- */
enum { LK_ETCD_RECORD_MAX = LK_ETCD_ID_LEN + 24 + LOCKER_OWNER_MAX + 1 };

typedef struct {
    char id[LK_ETCD_ID_LEN + 1]; /* "" for a foreign client's value */
    int64_t unix_ms;             /* since when the lock is held; -1: the value does not say */
    char owner[LOCKER_OWNER_MAX + 1];
} lk_etcd_record;

/* Convert a time of the driver's clock to ms since 1970. */
int64_t lk_etcd_unix_ms(const lk_etcd *e, int64_t at);
void lk_etcd_record_write(const char *id, int64_t unix_ms, const char *owner, char text[LK_ETCD_RECORD_MAX]);
/* Read a value. A foreign client's value counts as an owner, if it is text. */
void lk_etcd_record_read(const ProtobufCBinaryData *value, lk_etcd_record *record);
