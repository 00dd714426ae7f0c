/* request.h: what a member can be asked, by gRPC's paths and the driver's own messages; what it refuses at the door; and what it
 * answers. */
#pragma once

#include <stdbool.h>

#include "etcd.pb-c.h"
#include "memory.h"

typedef enum {
    LK_SIMETCD_RANGE,
    LK_SIMETCD_PUT,
    LK_SIMETCD_DELETE,
    LK_SIMETCD_TXN,
    LK_SIMETCD_COMPACT,
    LK_SIMETCD_GRANT,
    LK_SIMETCD_REVOKE,
    LK_SIMETCD_ASK, /* how much time a lease has left */
    LK_SIMETCD_STATUS,
    LK_SIMETCD_MEMBERS, /* which there are */
    LK_SIMETCD_WATCH,
    LK_SIMETCD_KINDS,
    LK_SIMETCD_NOTHING = LK_SIMETCD_KINDS /* a new leader's first entry */
} lk_simetcd_kind;

/* A refusal, with gRPC's number; NULL: there is none. */
typedef struct {
    int status;
    const char *text;
} lk_simetcd_error;

extern const lk_simetcd_error lk_simetcd_lease_not_found, lk_simetcd_lease_exists, lk_simetcd_ttl_too_large,
    lk_simetcd_key_not_found, lk_simetcd_compacted, lk_simetcd_future, lk_simetcd_no_leader,
    lk_simetcd_leader_changed, lk_simetcd_timed_out, lk_simetcd_leader_failed, lk_simetcd_connection_lost,
    lk_simetcd_unknown_method;

/* The kind at a path; LK_SIMETCD_KINDS: there is none. */
lk_simetcd_kind lk_simetcd_kind_of(const char *path);
/* NULL: these bytes are no such request. Else to be freed by protobuf_c_message_free_unpacked(). A compaction is a Delete whose
 * key is its revision, in decimal digits: the driver has no message for it. */
ProtobufCMessage *lk_simetcd_unpack(lk_simetcd_kind kind, const uint8_t *bytes, size_t count);
/* What the door says, without a look at what there is. */
const lk_simetcd_error *lk_simetcd_check(lk_simetcd_kind kind, const ProtobufCMessage *message);
/* Whether it goes through the log. */
bool lk_simetcd_writes(lk_simetcd_kind kind, const ProtobufCMessage *message);
