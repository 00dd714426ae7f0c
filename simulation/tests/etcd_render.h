/* etcd_render.h: messages of etcd's interface as texts, to be compared and to be read. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stddef.h>

typedef struct {
    char *text;
    size_t count, room;
} rendered;

/* All that it says, but for who says it: of a header the revision alone. */
void etcd_render(rendered *into, const ProtobufCMessage *message);
void etcd_render_text(rendered *into, const char *format, ...) __attribute__((format(printf, 2, 3)));
