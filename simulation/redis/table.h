/* table.h: the commands that there are. */
#pragma once

#include "command.h"

extern const lk_sr_command lk_sr_commands[];
extern const size_t lk_sr_command_count;

/** NULL: there is no such command, or no such subcommand. */
const lk_sr_command *lk_sr_command_find(const lk_sr_text *argv, size_t argc);

/** Whether the word is a command that has subcommands. */
bool lk_sr_command_is_container(lk_sr_text word);

/** Whether a request of it may have so many words. */
bool lk_sr_command_takes(const lk_sr_command *command, size_t argc);
