/* users.h: who may log in, and what he may do: Redis' ACL, as far as answers depend on it. */
#pragma once

#include "../lists.h"

#include "command.h"
#include "items.h"

enum { LK_SR_COMMANDS_MAX = 96 };

/** The commands that there are. */
typedef struct {
    const lk_sr_command *at;
    size_t count;
} lk_sr_command_list;

typedef struct {
    lk_list link;
    lk_sr_command_list commands;
    lk_sr_bytes name;
    bool on, no_password;
    bool allowed[LK_SR_COMMANDS_MAX];      /**< by the command's index */
    lk_sr_items passwords, keys, channels; /**< the last two are patterns */
} lk_sr_user;

typedef struct {
    lk_sr_command_list commands;
    lk_list all;          /**< the default user is the first */
    lk_sr_bytes required; /**< `requirepass` */
} lk_sr_users;

typedef enum { LK_SR_ALLOWED, LK_SR_NO_COMMAND, LK_SR_NO_KEY, LK_SR_NO_CHANNEL } lk_sr_right;

/** The default user alone, who may do everything without a password. */
void lk_sr_users_init(lk_sr_users *users, const lk_sr_command *commands, size_t count);
void lk_sr_users_destroy(lk_sr_users *users);

lk_sr_user *lk_sr_users_find(const lk_sr_users *users, lk_sr_text name);
lk_sr_user *lk_sr_users_default(const lk_sr_users *users);

/** As ACL SETUSER with one rule: NULL, or what is wrong with it. */
const char *lk_sr_user_rule(lk_sr_user *user, lk_sr_text rule);

/** `to` may do what `from` may, and logs in likewise. */
void lk_sr_user_copy(lk_sr_user *to, const lk_sr_user *from);

/** As `requirepass`, which has no effect when it is what it was; empty: none is needed. */
void lk_sr_users_require(lk_sr_users *users, lk_sr_text password);

/** NULL: not with that password. */
lk_sr_user *lk_sr_users_login(const lk_sr_users *users, lk_sr_text name, lk_sr_text password);

/** A user made new by that name. */
lk_sr_user *lk_sr_users_add(lk_sr_users *users, lk_sr_text name);

bool lk_sr_user_may_hear(const lk_sr_user *user, lk_sr_text channel);

/** Whether the user may do that. */
lk_sr_right lk_sr_user_may(const lk_sr_user *user, const lk_sr_command *command, const lk_sr_text *argv,
                           size_t argc);
