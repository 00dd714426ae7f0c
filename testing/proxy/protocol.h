/* protocol.h: what a proxy has to be told of the messages that it passes on. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/** A whole message. */
typedef struct {
    const char *bytes;
    size_t length;
    uint64_t nth; /* request of its connection, from 1; of a reply: that of the oldest request without one; 0:
                     none is */
} lk_message;

/** The number of a message that is no request's answer. */
enum { LK_UNASKED = -1 };

/** All members, or nothing but the first. */
typedef struct {
    /** The length of the first message; 0 when it isn't all there yet. */
    size_t (*length)(const char *bytes, size_t count);
    /** Whether a request is of the kind that a test means. */
    bool (*is)(const lk_message *request, const char *kind);
    /** What a request has in common with its reply, and no other reply that is due; LK_UNASKED. */
    int64_t (*number)(const lk_message *message);
    /** Something that is no reply. */
    const char *nonsense;
    size_t nonsense_length;
} lk_protocol;

/** Writes what is to come instead of a reply, or in answer to a request; answers its length. */
typedef size_t lk_forge(const lk_message *message, char *out, size_t size);
