/* keys.h: names of keys. A lock's name is one component, encoded, below the path and namespace: its base. Below that:
 *
 *   BASE/<id>                   who wants it alone, or has it; foreign clients' (etcdctl lock, Go's concurrency.Mutex) are BASE/<lease>
 *   BASE/s-<id>                 who shares it
 *   BASE%permits/<N>-want-<id>  who waits for one of its N permits
 *   BASE%permits/<N>-slot-<k>   who has the permit of slot k
 *
 * An encoded name has no '%' but before two digits of a hexadecimal number in capital letters, so no key's base begins with
 * another's of these. */
#pragma once

#include "instance.h"

enum { LK_ETCD_NAME_MAX = 80 }; /* what follows the base */

typedef struct {
    size_t len;
    char text[LK_ETCD_KEY_MAX];
} lk_etcd_key;

/* What a range of keys is about. */
typedef enum {
    LK_ETCD_QUEUE,     /* contenders of a lock */
    LK_ETCD_UNSHARED1, /* ... those that don't share it: in two parts */
    LK_ETCD_UNSHARED2,
    LK_ETCD_PERMITS, /* all that is about permits */
    LK_ETCD_WANTS,   /* ... who waits for one of N; */
    LK_ETCD_SLOTS,   /* ... who has one of N; */
    LK_ETCD_OTHERS1, /* ... both, of those that say another number: in two parts */
    LK_ETCD_OTHERS2,
    LK_ETCD_RANGES
} lk_etcd_range_of;

locker_status lk_etcd_root_init(lk_etcd *e, const locker_driver_config *config, locker_error *err);
/* False: too long. */
bool lk_etcd_base(const lk_etcd *e, const char *key, size_t key_len, lk_etcd_key *base);
/* Where such a range begins, and ends. */
void lk_etcd_bounds(const char *base, int32_t permits, lk_etcd_range_of what, lk_etcd_key *begin,
                    lk_etcd_key *end);
/* The key of one with that id. */
void lk_etcd_place_key(const char *base, locker_mode mode, int32_t permits, const char *id, lk_etcd_key *key);
void lk_etcd_slot_key(const char *base, int32_t permits, int32_t slot, lk_etcd_key *key);
/* What a key below the base says of itself: permits is 0 for locks, slot -1 for who has none, or tells of none. */
typedef struct {
    locker_mode mode;
    int32_t permits, slot;
    bool has_permit;
} lk_etcd_told;
lk_etcd_told lk_etcd_key_told(const ProtobufCBinaryData *key, size_t base_len);
