/* command_keys.c: which words of a request are keys. */
#include "command.h"

#include <stdio.h>
#include <stdlib.h>

/* Redis reads it as atoi() does, whatever the command itself thinks of it. */
static int count_of(lk_sr_text text)
{
    char digits[32];
    (void)snprintf(digits, sizeof digits, "%.*s",
                   text.len < sizeof digits ? (int)text.len : (int)sizeof digits, text.data);
    return (int)strtol(digits, NULL, 10);
}

lk_sr_places lk_sr_command_keys(const lk_sr_command *command, const lk_sr_text *argv, size_t argc)
{
    lk_sr_places places = {(size_t)command->first_key, (size_t)command->last_key, (size_t)command->key_step};
    if ((command->flags & LK_SR_SCRIPT_KEYS) != 0) {
        const int count = count_of(argv[2]);
        if (count < 1 || (size_t)count > argc - 3)
            return (lk_sr_places){0, 0, 1};
        return (lk_sr_places){3, (size_t)count + 2, 1};
    }
    if (command->last_key < 0)
        places.last = argc - (size_t)-command->last_key;
    if (places.last >= argc)
        places.last = argc - 1;
    if (places.last < places.first)
        places.first = 0;
    return places;
}
