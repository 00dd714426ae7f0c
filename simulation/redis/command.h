/* command.h: a command, and what is known of it before it runs. */
#pragma once

#include "bytes.h"

typedef struct lk_sr_call lk_sr_call;

enum {
    LK_SR_WRITE = 1,        /**< changes keys */
    LK_SR_NEEDS_MEMORY = 2, /**< and may need more memory for them */
    LK_SR_NO_SCRIPT = 4,    /**< not for scripts */
    LK_SR_NO_AUTH = 8,      /**< for who hasn't logged in, too */
    LK_SR_WHILE_STALE = 16, /**< served with data that are too old to show */
    LK_SR_WHILE_LOADING = 32,
    LK_SR_WHILE_BUSY = 64,
    LK_SR_REPLICATES = 128,   /**< may write, so a pause of writes holds it back */
    LK_SR_IN_PUBSUB = 256,    /**< for a client that has subscribed, too */
    LK_SR_CHANNELS = 512,     /**< its arguments, or the first of them, are channels */
    LK_SR_SCRIPT_KEYS = 1024, /**< keys are counted by the second argument */
    LK_SR_SHARD = 2048,       /**< its channels are a shard's, and have slots as keys do */
    /* categories of rights */
    LK_SR_CAT_KEYSPACE = 1 << 12,
    LK_SR_CAT_READ = 1 << 13,
    LK_SR_CAT_STRING = 1 << 14,
    LK_SR_CAT_SORTEDSET = 1 << 15,
    LK_SR_CAT_HASH = 1 << 16,
    LK_SR_CAT_LIST = 1 << 17,
    LK_SR_CAT_PUBSUB = 1 << 18,
    LK_SR_CAT_ADMIN = 1 << 19,
    LK_SR_CAT_DANGEROUS = 1 << 20,
    LK_SR_CAT_CONNECTION = 1 << 21,
    LK_SR_CAT_SCRIPTING = 1 << 22
};

typedef struct {
    const char *name; /**< "get", "client|kill" */
    int arity;        /**< the words of a request; below 0: so many or more */
    unsigned flags;
    int first_key, last_key; /**< their places in a request, 0: none; last below 0: from the end */
    int key_step;
    void (*run)(lk_sr_call *call);
} lk_sr_command;

/* ------------------------------------------------------------------ table.c ---- */

extern const lk_sr_command lk_sr_commands[];
extern const size_t lk_sr_command_count;

/** NULL: there is no such command, or no such subcommand. */
const lk_sr_command *lk_sr_command_find(const lk_sr_text *argv, size_t argc);

/** Whether the word is a command that has subcommands. */
bool lk_sr_command_is_container(lk_sr_text word);

/** Whether a request of it may have so many words. */
bool lk_sr_command_takes(const lk_sr_command *command, size_t argc);

/* ------------------------------------------------------------------ command_keys.c ---- */

/** Their places: from the first to the last, by this step. */
typedef struct {
    size_t first, last; /**< first 0: there are none */
    size_t step;
} lk_sr_places;

/** Channels of shards are no keys, but have their slots likewise. What a script's count of keys makes no sense of are none. */
lk_sr_places lk_sr_command_keys(const lk_sr_command *command, const lk_sr_text *argv, size_t argc);
