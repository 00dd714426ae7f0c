/* etcd_render.c: see etcd_render.h. */
#include "etcd_render.h"

#include <stdarg.h>
#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd.pb-c.h"

void etcd_render_text(rendered *into, const char *format, ...)
{
    va_list list, again;
    va_start(list, format);
    va_copy(again, list);
    const int count = vsnprintf(NULL, 0, format, list);
    va_end(list);
    if (into->count + (size_t)count + 1 > into->room) {
        into->room = 2 * (into->count + (size_t)count + 1);
        into->text = realloc(into->text, into->room);
        if (into->text == NULL)
            abort();
    }
    (void)vsnprintf(into->text + into->count, (size_t)count + 1, format, again);
    va_end(again);
    into->count += (size_t)count;
}

static void render_bytes(rendered *into, const ProtobufCBinaryData *data)
{
    etcd_render_text(into, "\"");
    for (size_t i = 0; i < data->len; i++)
        etcd_render_text(into, data->data[i] >= ' ' && data->data[i] <= '~' ? "%c" : "\\%02x", data->data[i]);
    etcd_render_text(into, "\"");
}

static void render_one(rendered *into, const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_INT64:
    case PROTOBUF_C_TYPE_UINT64:
        etcd_render_text(into, "%lld", (long long)*(const int64_t *)at);
        break;
    case PROTOBUF_C_TYPE_BOOL:
        etcd_render_text(into, "%s", *(const protobuf_c_boolean *)at ? "true" : "false");
        break;
    case PROTOBUF_C_TYPE_ENUM:
        etcd_render_text(into, "%d", *(const int *)at);
        break;
    case PROTOBUF_C_TYPE_STRING:
        etcd_render_text(into, "\"%s\"", *(char *const *)at);
        break;
    case PROTOBUF_C_TYPE_BYTES:
        render_bytes(into, at);
        break;
    case PROTOBUF_C_TYPE_MESSAGE:
        etcd_render(into, *(ProtobufCMessage *const *)at);
        break;
    default:
        abort();
    }
}

static size_t size_of(const ProtobufCFieldDescriptor *field)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_BYTES:
        return sizeof(ProtobufCBinaryData);
    case PROTOBUF_C_TYPE_ENUM:
        return sizeof(int);
    case PROTOBUF_C_TYPE_BOOL:
        return sizeof(protobuf_c_boolean);
    default:
        return sizeof(int64_t);
    }
}

/* What says nothing. */
static bool is_nothing(const ProtobufCFieldDescriptor *field, const void *at)
{
    switch (field->type) {
    case PROTOBUF_C_TYPE_MESSAGE:
        return *(ProtobufCMessage *const *)at == NULL;
    case PROTOBUF_C_TYPE_STRING:
        return *(char *const *)at == NULL || **(char *const *)at == '\0';
    case PROTOBUF_C_TYPE_BYTES:
        return ((const ProtobufCBinaryData *)at)->len == 0;
    case PROTOBUF_C_TYPE_ENUM:
        return *(const int *)at == 0;
    case PROTOBUF_C_TYPE_BOOL:
        return !*(const protobuf_c_boolean *)at;
    default:
        return *(const int64_t *)at == 0;
    }
}

static void render_field(rendered *into, const ProtobufCMessage *message,
                         const ProtobufCFieldDescriptor *field)
{
    const char *const base = (const char *)message, *const at = base + field->offset;
    const bool is_list = field->label == PROTOBUF_C_LABEL_REPEATED,
               is_one = (field->flags & PROTOBUF_C_FIELD_FLAG_ONEOF) != 0;
    if (is_one && *(const uint32_t *)(const void *)(base + field->quantifier_offset) != field->id)
        return;
    if (!is_list) {
        if (is_nothing(field, at) && !is_one)
            return;
        etcd_render_text(into, " %s=", field->name);
        render_one(into, field, at);
        return;
    }
    const size_t count = *(const size_t *)(const void *)(base + field->quantifier_offset);
    const char *const items = *(char *const *)(const void *)at;
    if (count == 0)
        return;
    etcd_render_text(into, " %s=[", field->name);
    for (size_t i = 0; i < count; i++)
        render_one(into, field, items + i * size_of(field));
    etcd_render_text(into, "]");
}

void etcd_render(rendered *into, const ProtobufCMessage *message)
{
    const ProtobufCMessageDescriptor *const of = message->descriptor;
    etcd_render_text(into, "{");
    for (unsigned i = 0; i < of->n_fields; i++)
        if (of != &lk_etcd_pb__header__descriptor || strcmp(of->fields[i].name, "revision") == 0)
            render_field(into, message, &of->fields[i]);
    etcd_render_text(into, " }");
}
