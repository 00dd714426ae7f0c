/* command_keys.h: which words of a request are keys. */
#pragma once

#include "command.h"

/** Their places: from the first to the last, by this step. */
typedef struct {
    size_t first, last; /**< first 0: there are none */
    size_t step;
} lk_sr_places;

/** Channels of shards are no keys, but have their slots likewise. What a script's count of keys makes no sense of are none. */
lk_sr_places lk_sr_command_keys(const lk_sr_command *command, const lk_sr_text *argv, size_t argc);
