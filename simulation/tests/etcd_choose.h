/* etcd_choose.h: random requests of etcd's, most of them about keys, leases and revisions that there are. */
#pragma once

#include "etcd.pb-c.h"

typedef struct {
    uint64_t random;
    int64_t revision; /* the latest that an answer has told */
} etcd_chooser;

uint64_t etcd_draw(etcd_chooser *c, uint64_t below);

/* path: where it is to be asked; answer: what is answered. To be freed by protobuf_c_message_free_unpacked(). NULL: it is a compaction
 * up to *revision. */
ProtobufCMessage *etcd_choose(etcd_chooser *c, const char **path, const ProtobufCMessageDescriptor **answer,
                              int64_t *revision);
/* Of the stream of watches. */
ProtobufCMessage *etcd_choose_watch(etcd_chooser *c);
