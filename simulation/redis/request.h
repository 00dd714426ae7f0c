/* request.h: requests in what a client sends: lists of strings, or words in a line. */
#pragma once

#include "bytes.h"

/** The words of a request; they stand in the bytes that it was read from. */
typedef struct {
    lk_sr_text *argv;
    size_t argc, room;
    size_t used; /**< bytes that it took */
} lk_sr_request;

typedef enum {
    LK_SR_REQUEST_WHOLE, /**< maybe without a word */
    LK_SR_REQUEST_PART,
    LK_SR_REQUEST_WRONG /**< the error says why; no further one can be read */
} lk_sr_request_state;

/** `strict`: of a client that hasn't logged in, who may send little. */
lk_sr_request_state lk_sr_request_read(lk_sr_request *request, lk_sr_text bytes, bool strict, char *error,
                                       size_t size);
void lk_sr_request_free(lk_sr_request *request);
