/* grpc.h: a client of etcd's interface that waits for each answer, over bytes that somebody carries: a socket, or a simulated
 * member's connection. */
#pragma once

#include <protobuf-c/protobuf-c.h>
#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct grpc grpc;

/* Who carries bytes. Both answer false when the connection has ended. */
typedef struct {
    bool (*send)(void *context, const void *bytes, size_t count);
    /* What has come, to grpc_feed(); waits for it, for a moment. */
    bool (*receive)(void *context, grpc *client);
    void *context;
} grpc_carrier;

typedef struct {
    int status; /* -1: none came */
    char text[256];
    uint8_t *bytes; /* the message; to be freed */
    size_t count;
} grpc_answer;

grpc *grpc_new(const grpc_carrier *carrier);
void grpc_free(grpc *client);
/* For carriers. */
bool grpc_feed(grpc *client, const void *bytes, size_t count);

grpc_answer grpc_call(grpc *client, const char *path, const void *bytes, size_t count, int64_t patience_ms);
/* The message as bytes, to be freed. */
uint8_t *grpc_pack(const ProtobufCMessage *message, size_t *count);
grpc_answer grpc_ask(grpc *client, const char *path, const ProtobufCMessage *message, int64_t patience_ms);

/* One stream, which stays open. */
bool grpc_open(grpc *client, const char *path);
bool grpc_say(grpc *client, const ProtobufCMessage *message);
/* The next that it has said, to be freed; NULL: nothing within that time. */
uint8_t *grpc_hear(grpc *client, size_t *count, int64_t patience_ms);
