/*
 * reply.c: what a server's error means. The codes stand at the start of the text; servers before Redis 7 wrap
 * an error inside a script as "ERR Error running script ...: -CODE ...", so the code is looked for there too.
 */
#include <string.h>

#include "internal.h"

struct code {
    const char *name;
    enum lk_fault fault;
};

static const struct code codes[] = {
    {"NOSCRIPT", LK_FAULT_NOSCRIPT},    {"LOADING", LK_FAULT_TRANSIENT},  {"BUSY", LK_FAULT_TRANSIENT},
    {"MASTERDOWN", LK_FAULT_TRANSIENT}, {"TRYAGAIN", LK_FAULT_TRANSIENT}, {"CLUSTERDOWN", LK_FAULT_TRANSIENT},
    {"READONLY", LK_FAULT_MOVED},       {"MOVED", LK_FAULT_MOVED},        {"ASK", LK_FAULT_MOVED},
    {"NOAUTH", LK_FAULT_DENIED},        {"WRONGPASS", LK_FAULT_DENIED},   {"NOPERM", LK_FAULT_DENIED},
    {"OOM", LK_FAULT_REFUSED},          {"MISCONF", LK_FAULT_REFUSED},    {"NOREPLICAS", LK_FAULT_REFUSED},
};

static bool starts_with_code(const char *text, const char *code)
{
    const size_t len = strlen(code);
    return strncmp(text, code, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

enum lk_fault lk_reply_fault(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return LK_FAULT_NONE;
    const char *text = reply->str;
    const char *inner = strstr(text, ": -");
    for (size_t i = 0; i < sizeof(codes) / sizeof(codes[0]); i++) {
        if (starts_with_code(text, codes[i].name) ||
            (inner != NULL && starts_with_code(inner + 3, codes[i].name)))
            return codes[i].fault;
    }
    /* A user without the right to a command or key that a script uses: that is said in words only. */
    if (strstr(text, "user executing the script can't") != NULL || strstr(text, "ACL failure") != NULL)
        return LK_FAULT_DENIED;
    return LK_FAULT_OTHER;
}

locker_status lk_fault_error(enum lk_fault fault, const redisReply *reply, const char *doing,
                             locker_error *err)
{
    const char *text = reply->str;
    switch (fault) {
    case LK_FAULT_TRANSIENT:
        return locker_error_set(err, LOCKER_UNAVAILABLE, 0,
                                "Redis can't serve now, while %s (%s); try again later", doing, text);
    case LK_FAULT_MOVED:
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, 0,
            "this Redis server is not the key's master, while %s (%s); name the master in the URI", doing,
            text);
    case LK_FAULT_DENIED:
        return locker_error_set(
            err, LOCKER_DENIED, 0,
            "Redis denies %s (%s); check user and password, and that the user may run GET, SET, INCR, "
            "INCRBY, "
            "DEL, PTTL, PEXPIRE, TIME, ZADD, ZREM, ZPOPMIN, PUBLISH, EVAL, EVALSHA and SCRIPT on "
            "the lock's keys",
            doing, text);
    case LK_FAULT_REFUSED:
        return locker_error_set(
            err, LOCKER_UNAVAILABLE, 0,
            "Redis refuses to write, while %s (%s); look after the server's memory, disk or replicas", doing,
            text);
    default:
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "Redis answered with an error, while %s: %s", doing,
                                reply->type == REDIS_REPLY_ERROR ? text : "a reply of an unexpected kind");
    }
}

locker_status lk_reply_nonsense(const char *doing, locker_error *err)
{
    return locker_error_set(
        err, LOCKER_PROTOCOL, 0,
        "Redis answered with something that makes no sense, while %s; is it a Redis server?", doing);
}
