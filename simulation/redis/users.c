/* users.c: see users.h. */
#include "users.h"

#include <stdlib.h>
#include <string.h>

/* ------------------------------------------------------------------ rules ---- */

static void allow_all(lk_sr_user *user, bool allowed)
{
    memset(user->allowed, allowed, sizeof user->allowed);
}

static const struct {
    const char *name;
    unsigned flag;
} categories[] = {
    {"keyspace", LK_SR_CAT_KEYSPACE},
    {"read", LK_SR_CAT_READ},
    {"write", LK_SR_WRITE},
    {"string", LK_SR_CAT_STRING},
    {"sortedset", LK_SR_CAT_SORTEDSET},
    {"hash", LK_SR_CAT_HASH},
    {"list", LK_SR_CAT_LIST},
    {"pubsub", LK_SR_CAT_PUBSUB},
    {"admin", LK_SR_CAT_ADMIN},
    {"dangerous", LK_SR_CAT_DANGEROUS},
    {"connection", LK_SR_CAT_CONNECTION},
    {"scripting", LK_SR_CAT_SCRIPTING},
};

/* False: there is none of that name; so with commands. */
static bool allow_category(lk_sr_user *user, lk_sr_text name, bool allowed)
{
    bool known = lk_sr_is(name, "all");
    if (known)
        allow_all(user, allowed);
    for (size_t i = 0; i < sizeof categories / sizeof categories[0]; i++) {
        known = known || lk_sr_is(name, categories[i].name);
        for (size_t j = 0; lk_sr_is(name, categories[i].name) && j < user->commands.count; j++) {
            if ((user->commands.at[j].flags & categories[i].flag) != 0)
                user->allowed[j] = allowed;
        }
    }
    return known;
}

/* A container's name stands for all its subcommands. Who denies what there is not here either is right. */
static bool allow_command(lk_sr_user *user, lk_sr_text name, bool allowed)
{
    bool known = lk_sr_is(name, "cluster") || lk_sr_is(name, "debug") || lk_sr_is(name, "keys");
    for (size_t i = 0; i < user->commands.count; i++) {
        const char *full = user->commands.at[i].name, *bar = strchr(full, '|');
        const lk_sr_text container = {full, bar != NULL ? (size_t)(bar - full) : 0};
        if (!lk_sr_is(name, full) && (bar == NULL || !lk_sr_same(name, container)))
            continue;
        user->allowed[i] = allowed;
        known = true;
    }
    return known;
}

static void add(lk_sr_items *items, lk_sr_text name)
{
    if (lk_sr_items_find(items, name) == NULL)
        (void)lk_sr_items_insert(items, items->count, name);
}

static void reset(lk_sr_user *user)
{
    user->on = user->no_password = false;
    allow_all(user, false);
    lk_sr_items_free(&user->passwords);
    lk_sr_items_free(&user->keys);
    lk_sr_items_free(&user->channels);
}

static void forget_passwords(lk_sr_user *user, bool none_needed)
{
    lk_sr_items_free(&user->passwords);
    user->no_password = none_needed;
}

/* "*" stands alone. */
static const char *add_pattern(lk_sr_items *patterns, lk_sr_text pattern, const char *too_late)
{
    if (lk_sr_is(pattern, "*"))
        lk_sr_items_free(patterns);
    else if (lk_sr_items_find(patterns, lk_sr_word("*")) != NULL)
        return too_late;
    add(patterns, pattern);
    return NULL;
}

/* A rule that is a word; false: it is none. */
static bool word_rule(lk_sr_user *user, lk_sr_text rule)
{
    if (lk_sr_is(rule, "on") || lk_sr_is(rule, "off"))
        user->on = lk_sr_is(rule, "on");
    else if (lk_sr_is(rule, "nopass") || lk_sr_is(rule, "resetpass"))
        forget_passwords(user, lk_sr_is(rule, "nopass"));
    else if (lk_sr_is(rule, "allkeys"))
        (void)add_pattern(&user->keys, lk_sr_word("*"), NULL);
    else if (lk_sr_is(rule, "resetkeys"))
        lk_sr_items_free(&user->keys);
    else if (lk_sr_is(rule, "allchannels"))
        (void)add_pattern(&user->channels, lk_sr_word("*"), NULL);
    else if (lk_sr_is(rule, "resetchannels"))
        lk_sr_items_free(&user->channels);
    else if (lk_sr_is(rule, "allcommands") || lk_sr_is(rule, "nocommands"))
        allow_all(user, lk_sr_is(rule, "allcommands"));
    else if (lk_sr_is(rule, "reset"))
        reset(user);
    else
        return false;
    return true;
}

const char *lk_sr_user_rule(lk_sr_user *user, lk_sr_text rule)
{
    static const char nonsense[] = "Syntax error";
    if (rule.len == 0 || word_rule(user, rule))
        return NULL;
    if (rule.len < 2)
        return nonsense;
    const char kind = rule.data[0];
    lk_sr_text rest = {rule.data + 1, rule.len - 1};
    if (kind == '>') {
        user->no_password = false;
        add(&user->passwords, rest);
    } else if (kind == '~') {
        return add_pattern(
            &user->keys, rest,
            "Adding a pattern after the * pattern (or the 'allkeys' flag) is not valid and does not "
            "have any effect. Try 'resetkeys' to start with an empty list of patterns");
    } else if (kind == '&') {
        return add_pattern(
            &user->channels, rest,
            "Adding a pattern after the * pattern (or the 'allchannels' flag) is not valid and does "
            "not have any effect. Try 'resetchannels' to start with an empty list of channels");
    } else if (kind == '+' || kind == '-') {
        const lk_sr_text category = {rest.data + 1, rest.len - 1};
        const bool known = rest.data[0] == '@' ? allow_category(user, category, kind == '+')
                                               : allow_command(user, rest, kind == '+');
        return known ? NULL : "Unknown command or category name in ACL";
    } else {
        return nonsense;
    }
    return NULL;
}

void lk_sr_user_copy(lk_sr_user *to, const lk_sr_user *from)
{
    reset(to);
    to->on = from->on;
    to->no_password = from->no_password;
    memcpy(to->allowed, from->allowed, sizeof to->allowed);
    lk_sr_items_copy(&to->passwords, &from->passwords);
    lk_sr_items_copy(&to->keys, &from->keys);
    lk_sr_items_copy(&to->channels, &from->channels);
}

/* ------------------------------------------------------------------ users ---- */

static lk_sr_user *user_of(const lk_list *link)
{
    return LK_CONTAINER(link, lk_sr_user, link);
}

lk_sr_user *lk_sr_users_add(lk_sr_users *users, lk_sr_text name)
{
    lk_sr_user *user = lk_sr_make(sizeof *user);
    user->commands = users->commands;
    lk_sr_put(&user->name, name);
    lk_list_append(&users->all, &user->link);
    return user;
}

void lk_sr_users_init(lk_sr_users *users, const lk_sr_command *commands, size_t count)
{
    users->commands = (lk_sr_command_list){commands, count};
    lk_list_init(&users->all);
    lk_sr_user *user = lk_sr_users_add(users, lk_sr_word("default"));
    user->on = user->no_password = true;
    allow_all(user, true);
    add(&user->keys, lk_sr_word("*"));
    add(&user->channels, lk_sr_word("*"));
}

void lk_sr_users_destroy(lk_sr_users *users)
{
    LK_LIST_EACH_SAFE(link, &users->all) {
        lk_sr_user *user = user_of(link);
        reset(user);
        lk_sr_bytes_free(&user->name);
        lk_list_remove(&user->link);
        free(user);
    }
    lk_sr_bytes_free(&users->required);
}

lk_sr_user *lk_sr_users_find(const lk_sr_users *users, lk_sr_text name)
{
    LK_LIST_EACH(link, &users->all) {
        if (lk_sr_same(lk_sr_view(&user_of(link)->name), name))
            return user_of(link);
    }
    return NULL;
}

lk_sr_user *lk_sr_users_default(const lk_sr_users *users)
{
    return user_of(users->all.next);
}

void lk_sr_users_require(lk_sr_users *users, lk_sr_text password)
{
    lk_sr_user *user = lk_sr_users_default(users);
    if (lk_sr_same(lk_sr_view(&users->required), password))
        return;
    lk_sr_bytes_set(&users->required, password);
    forget_passwords(user, password.len == 0);
    if (password.len > 0)
        add(&user->passwords, password);
}

lk_sr_user *lk_sr_users_login(const lk_sr_users *users, lk_sr_text name, lk_sr_text password)
{
    lk_sr_user *user = lk_sr_users_find(users, name);
    if (user == NULL || !user->on ||
        (!user->no_password && lk_sr_items_find(&user->passwords, password) == NULL))
        return NULL;
    return user;
}

/* ------------------------------------------------------------------ rights ---- */

static bool matches_one(const lk_sr_items *patterns, lk_sr_text text)
{
    for (size_t i = 0; i < patterns->count; i++) {
        if (lk_sr_matches(lk_sr_view(&patterns->at[i].name), text))
            return true;
    }
    return false;
}

bool lk_sr_user_may_hear(const lk_sr_user *user, lk_sr_text channel)
{
    return matches_one(&user->channels, channel);
}

static bool may_keys(const lk_sr_user *user, const lk_sr_command *command, const lk_sr_text *argv,
                     size_t argc)
{
    const lk_sr_places places = lk_sr_command_keys(command, argv, argc);
    for (size_t i = places.first; i > 0 && i <= places.last; i += places.step) {
        if (!matches_one(&user->keys, argv[i]))
            return false;
    }
    return true;
}

lk_sr_right lk_sr_user_may(const lk_sr_user *user, const lk_sr_command *command, const lk_sr_text *argv,
                           size_t argc)
{
    if ((command->flags & LK_SR_NO_AUTH) == 0 && !user->allowed[command - user->commands.at])
        return LK_SR_NO_COMMAND;
    if ((command->flags & LK_SR_SHARD) == 0 && !may_keys(user, command, argv, argc))
        return LK_SR_NO_KEY;
    const bool publishes = lk_sr_is(argv[0], "publish") || lk_sr_is(argv[0], "spublish");
    const size_t channels = publishes ? 2 : argc;
    for (size_t i = 1; (command->flags & LK_SR_CHANNELS) != 0 && i < channels; i++) {
        if (!lk_sr_user_may_hear(user, argv[i]))
            return LK_SR_NO_CHANNEL;
    }
    return LK_SR_ALLOWED;
}
