/* apply.h: requests on a store. What is applied alike, in the same order, is the same on each member. */
#pragma once

#include "request.h"
#include "store.h"

typedef struct {
    const lk_simetcd_error *error;
    ProtobufCMessage *
        message; /* in the arena, as all that it points to but for what is the store's: until the next change */
    LkEtcdPb__Header *header; /* the message's, of which only the revision is filled in */
} lk_simetcd_answer;

/* A read, or a write, which changes the store. least_ttl: of a lease, in s. */
void lk_simetcd_apply(lk_simetcd_store *store, lk_simetcd_kind kind, const ProtobufCMessage *message,
                      int64_t least_ttl, lk_simetcd_arena *arena, lk_simetcd_answer *answer);
/* A key as it is told. */
LkEtcdPb__KeyValue *lk_simetcd_told(const lk_simetcd_kv *kv, lk_simetcd_arena *arena);
