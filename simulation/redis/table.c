/* table.c: the commands that there are. Arity, flags and keys are Redis'. */

#include <string.h>
#include <strings.h>

#include "commands.h"
#include "users.h"

#define READ    LK_SR_CAT_READ
#define WRITE   (LK_SR_WRITE | LK_SR_REPLICATES)
#define GROW    (WRITE | LK_SR_NEEDS_MEMORY)
#define STR     LK_SR_CAT_STRING
#define KEY     LK_SR_CAT_KEYSPACE
#define ZSET    LK_SR_CAT_SORTEDSET
#define LIST    LK_SR_CAT_LIST
#define HASH    LK_SR_CAT_HASH
#define ALWAYS  (LK_SR_WHILE_STALE | LK_SR_WHILE_LOADING)
#define OUTSIDE LK_SR_NO_SCRIPT
#define CONN    LK_SR_CAT_CONNECTION
#define ADMIN   (LK_SR_CAT_ADMIN | LK_SR_CAT_DANGEROUS)
#define PUBSUB  (LK_SR_CAT_PUBSUB | ALWAYS)
#define SHARD   (LK_SR_SHARD | LK_SR_CHANNELS)
#define SCRIPT  (LK_SR_CAT_SCRIPTING | OUTSIDE)
#define RUN     (SCRIPT | LK_SR_WHILE_STALE | LK_SR_REPLICATES | LK_SR_SCRIPT_KEYS)
#define LOGIN   (OUTSIDE | ALWAYS | LK_SR_NO_AUTH | LK_SR_WHILE_BUSY | CONN)

const lk_sr_command lk_sr_commands[] = {
    {"get", 2, READ | STR, 1, 1, 1, lk_sr_get},
    {"set", -3, GROW | STR, 1, 1, 1, lk_sr_set},
    {"setnx", 3, GROW | STR, 1, 1, 1, lk_sr_setnx},
    {"msetnx", -3, GROW | STR, 1, -1, 2, lk_sr_msetnx},
    {"incr", 2, GROW | STR, 1, 1, 1, lk_sr_incr},
    {"incrby", 3, GROW | STR, 1, 1, 1, lk_sr_incrby},
    {"decr", 2, GROW | STR, 1, 1, 1, lk_sr_decr},
    {"decrby", 3, GROW | STR, 1, 1, 1, lk_sr_decrby},
    {"del", -2, WRITE | KEY, 1, -1, 1, lk_sr_del},
    {"unlink", -2, WRITE | KEY, 1, -1, 1, lk_sr_del},
    {"exists", -2, READ | KEY, 1, -1, 1, lk_sr_exists},
    {"type", 2, READ | KEY, 1, 1, 1, lk_sr_type},
    {"expire", -3, WRITE | KEY, 1, 1, 1, lk_sr_expire},
    {"expireat", -3, WRITE | KEY, 1, 1, 1, lk_sr_expireat},
    {"pexpire", -3, WRITE | KEY, 1, 1, 1, lk_sr_pexpire},
    {"pexpireat", -3, WRITE | KEY, 1, 1, 1, lk_sr_pexpireat},
    {"persist", 2, WRITE | KEY, 1, 1, 1, lk_sr_persist},
    {"ttl", 2, READ | KEY, 1, 1, 1, lk_sr_ttl},
    {"pttl", 2, READ | KEY, 1, 1, 1, lk_sr_pttl},
    {"pexpiretime", 2, READ | KEY, 1, 1, 1, lk_sr_pexpiretime},
    {"dbsize", 1, READ | KEY, 0, 0, 0, lk_sr_dbsize},
    {"flushall", -1, WRITE | KEY | LK_SR_CAT_DANGEROUS, 0, 0, 0, lk_sr_flushall},
    {"flushdb", -1, WRITE | KEY | LK_SR_CAT_DANGEROUS, 0, 0, 0, lk_sr_flushdb},
    {"zadd", -4, GROW | ZSET, 1, 1, 1, lk_sr_zadd},
    {"zrem", -3, WRITE | ZSET, 1, 1, 1, lk_sr_zrem},
    {"zscore", 3, READ | ZSET, 1, 1, 1, lk_sr_zscore},
    {"zrank", 3, READ | ZSET, 1, 1, 1, lk_sr_zrank},
    {"zrange", -4, READ | ZSET, 1, 1, 1, lk_sr_zrange},
    {"zcard", 2, READ | ZSET, 1, 1, 1, lk_sr_zcard},
    {"zcount", 4, READ | ZSET, 1, 1, 1, lk_sr_zcount},
    {"zrangebyscore", -4, READ | ZSET, 1, 1, 1, lk_sr_zrangebyscore},
    {"zpopmin", -2, WRITE | ZSET, 1, 1, 1, lk_sr_zpopmin},
    {"lpush", -3, GROW | LIST, 1, 1, 1, lk_sr_lpush},
    {"llen", 2, READ | LIST, 1, 1, 1, lk_sr_llen},
    {"lpop", -2, WRITE | LIST, 1, 1, 1, lk_sr_lpop},
    {"hset", -4, GROW | HASH, 1, 1, 1, lk_sr_hset},
    {"hget", 3, READ | HASH, 1, 1, 1, lk_sr_hget},
    {"hdel", -3, WRITE | HASH, 1, 1, 1, lk_sr_hdel},
    {"hlen", 2, READ | HASH, 1, 1, 1, lk_sr_hlen},
    {"hexists", 3, READ | HASH, 1, 1, 1, lk_sr_hexists},
    {"hincrby", 4, GROW | HASH, 1, 1, 1, lk_sr_hincrby},
    {"publish", 3, PUBSUB | LK_SR_REPLICATES | LK_SR_CHANNELS, 0, 0, 0, lk_sr_publish},
    {"subscribe", -2, PUBSUB | OUTSIDE | LK_SR_CHANNELS | LK_SR_IN_PUBSUB, 0, 0, 0, lk_sr_subscribe},
    {"unsubscribe", -1, PUBSUB | OUTSIDE | LK_SR_IN_PUBSUB, 0, 0, 0, lk_sr_unsubscribe},
    {"pubsub|numsub", -2, PUBSUB, 0, 0, 0, lk_sr_pubsub_numsub},
    {"spublish", 3, PUBSUB | LK_SR_REPLICATES | SHARD, 1, 1, 1, lk_sr_publish},
    {"ssubscribe", -2, PUBSUB | OUTSIDE | SHARD | LK_SR_IN_PUBSUB, 1, -1, 1, lk_sr_subscribe},
    {"sunsubscribe", -1, PUBSUB | OUTSIDE | LK_SR_SHARD | LK_SR_IN_PUBSUB, 1, -1, 1, lk_sr_unsubscribe},
    {"pubsub|shardnumsub", -2, PUBSUB | LK_SR_SHARD, 0, 0, 0, lk_sr_pubsub_numsub},
    {"eval", -3, RUN, 0, 0, 0, lk_sr_eval},
    {"evalsha", -3, RUN, 0, 0, 0, lk_sr_evalsha},
    {"script|load", 3, SCRIPT | LK_SR_WHILE_STALE, 0, 0, 0, lk_sr_script_load},
    {"script|exists", -3, SCRIPT, 0, 0, 0, lk_sr_script_exists},
    {"script|flush", -2, SCRIPT, 0, 0, 0, lk_sr_script_flush},
    {"script|kill", 2, SCRIPT | LK_SR_WHILE_BUSY, 0, 0, 0, lk_sr_script_kill},
    {"auth", -2, LOGIN, 0, 0, 0, lk_sr_auth},
    {"hello", -1, LOGIN, 0, 0, 0, lk_sr_hello},
    {"quit", -1, LOGIN | LK_SR_IN_PUBSUB, 0, 0, 0, lk_sr_quit},
    {"acl|setuser", -3, OUTSIDE | ALWAYS | ADMIN, 0, 0, 0, lk_sr_acl_setuser},
    {"acl|whoami", 2, OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_acl_whoami},
    {"select", 2, CONN | ALWAYS, 0, 0, 0, lk_sr_select},
    {"ping", -1, CONN | LK_SR_IN_PUBSUB, 0, 0, 0, lk_sr_ping},
    {"echo", 2, CONN | ALWAYS, 0, 0, 0, lk_sr_echo},
    {"wait", 3, CONN | OUTSIDE, 0, 0, 0, lk_sr_wait},
    {"client|id", 2, CONN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_id_command},
    {"client|setname", 3, CONN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_setname},
    {"client|getname", 2, CONN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_getname},
    {"client|pause", -3, CONN | ADMIN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_pause},
    {"client|unpause", 2, CONN | ADMIN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_unpause},
    {"client|kill", -3, CONN | ADMIN | OUTSIDE | ALWAYS, 0, 0, 0, lk_sr_client_kill},
    {"info", -1, ALWAYS | LK_SR_CAT_DANGEROUS, 0, 0, 0, lk_sr_info},
    {"time", 1, ALWAYS, 0, 0, 0, lk_sr_time},
    {"role", 1, OUTSIDE | ALWAYS | ADMIN, 0, 0, 0, lk_sr_role},
    {"replicaof", 3, OUTSIDE | LK_SR_WHILE_STALE | ADMIN, 0, 0, 0, lk_sr_replicaof},
    {"asking", 1, CONN, 0, 0, 0, lk_sr_asking},
    {"cluster|countkeysinslot", 3, LK_SR_WHILE_STALE, 0, 0, 0, lk_sr_cluster_countkeysinslot},
    {"cluster|keyslot", 3, LK_SR_WHILE_STALE, 0, 0, 0, lk_sr_cluster_keyslot},
    {"cluster|myid", 2, LK_SR_WHILE_STALE, 0, 0, 0, lk_sr_cluster_myid},
    {"cluster|setslot", -4, LK_SR_WHILE_STALE | ADMIN, 0, 0, 0, lk_sr_cluster_setslot},
    {"cluster|slots", 2, LK_SR_WHILE_STALE, 0, 0, 0, lk_sr_cluster_slots},
    {"config|set", -4, OUTSIDE | ALWAYS | ADMIN, 0, 0, 0, lk_sr_config_set},
};

const size_t lk_sr_command_count = sizeof lk_sr_commands / sizeof lk_sr_commands[0];
_Static_assert(sizeof lk_sr_commands / sizeof lk_sr_commands[0] <= LK_SR_COMMANDS_MAX, "of users' rights");

static lk_sr_text container_of(const lk_sr_command *command)
{
    const char *bar = strchr(command->name, '|');
    return (lk_sr_text){command->name, bar != NULL ? (size_t)(bar - command->name) : 0};
}

static bool is_same_word(lk_sr_text word, lk_sr_text known)
{
    return word.len == known.len && known.len > 0 && strncasecmp(word.data, known.data, known.len) == 0;
}

bool lk_sr_command_is_container(lk_sr_text word)
{
    for (size_t i = 0; i < lk_sr_command_count; i++) {
        if (is_same_word(word, container_of(&lk_sr_commands[i])))
            return true;
    }
    return false;
}

static bool is_meant(const lk_sr_command *command, const lk_sr_text *argv, size_t argc)
{
    if (argv[0].len == 0 ||
        (argv[0].data[0] | ('a' - 'A')) != command->name[0]) /* most are none of this letter */
        return false;
    const lk_sr_text container = container_of(command);
    if (container.len == 0)
        return lk_sr_is(argv[0], command->name);
    return argc > 1 && is_same_word(argv[0], container) &&
           lk_sr_is(argv[1], command->name + container.len + 1);
}

/* A container alone is a command without enough words. */
static const lk_sr_command bare[] = {
    {"client", -2, 0, 0, 0, 0, NULL}, {"script", -2, 0, 0, 0, 0, NULL}, {"config", -2, 0, 0, 0, 0, NULL},
    {"acl", -2, 0, 0, 0, 0, NULL},    {"pubsub", -2, 0, 0, 0, 0, NULL}, {"cluster", -2, 0, 0, 0, 0, NULL},
};

const lk_sr_command *lk_sr_command_find(const lk_sr_text *argv, size_t argc)
{
    for (size_t i = 0; i < lk_sr_command_count; i++) {
        if (is_meant(&lk_sr_commands[i], argv, argc))
            return &lk_sr_commands[i];
    }
    for (size_t i = 0; argc == 1 && i < sizeof bare / sizeof bare[0]; i++) {
        if (lk_sr_is(argv[0], bare[i].name))
            return &bare[i];
    }
    return NULL;
}

bool lk_sr_command_takes(const lk_sr_command *command, size_t argc)
{
    return command->arity < 0 ? argc >= (size_t)-command->arity : argc == (size_t)command->arity;
}
