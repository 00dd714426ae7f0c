/* command.c: the bytes of commands, and the meaning of replies. */
#include <stdlib.h>
#include <string.h>

#include "command.h"

char *lk_redis_put_digits(char *out, uint64_t n)
{
    char digits[LK_REDIS_NUMBER_MAX];
    size_t at = sizeof digits;
    for (; n >= 10; n /= 10)
        digits[--at] = (char)('0' + n % 10);
    *out++ = (char)('0' + n);
    while (at < sizeof digits)
        *out++ = digits[at++];
    return out;
}

const char *lk_redis_number_text(char *out, uint64_t n)
{
    *lk_redis_put_digits(out, n) = '\0';
    return out;
}

static char *put_argument(char *out, const char *text, size_t len)
{
    out = lk_redis_put_line(out, '$', len);
    memcpy(out, text, len);
    return lk_redis_put_end(out + len);
}

char *lk_redis_put_text(char *out, const char *text)
{
    return put_argument(out, text, strlen(text));
}

char *lk_redis_put_number(char *out, size_t n)
{
    char text[LK_REDIS_NUMBER_MAX];
    return put_argument(out, text, (size_t)(lk_redis_put_digits(text, n) - text));
}

size_t lk_redis_command_room(const lk_redis_command *a)
{
    size_t room = 3 + LK_REDIS_NUMBER_MAX;
    for (int i = 0; i < a->argc; i++)
        room += 3 + LK_REDIS_NUMBER_MAX + a->len[i] + 2;
    return room;
}

char *lk_redis_command_put(const lk_redis_command *a, char *out)
{
    out = lk_redis_put_line(out, '*', (size_t)a->argc);
    for (int i = 0; i < a->argc; i++)
        out = put_argument(out, a->argv[i], a->len[i]);
    return out;
}

static const int64_t time_most_s = INT64_C(1) << 32; /* in us this stays below 2^53, like all numbers */

static const struct {
    const char *name;
    lk_redis_fault fault;
} codes[] = {
    {"NOSCRIPT", LK_REDIS_FAULT_NOSCRIPT},
    {"LOADING", LK_REDIS_FAULT_TRANSIENT},
    {"BUSY", LK_REDIS_FAULT_TRANSIENT},
    {"MASTERDOWN", LK_REDIS_FAULT_TRANSIENT},
    {"TRYAGAIN", LK_REDIS_FAULT_MIGRATING},
    {"CLUSTERDOWN", LK_REDIS_FAULT_TRANSIENT},
    {"READONLY", LK_REDIS_FAULT_MOVED},
    {"MOVED", LK_REDIS_FAULT_MOVED},
    {"ASK", LK_REDIS_FAULT_MIGRATING},
    {"NOAUTH", LK_REDIS_FAULT_DENIED},
    {"WRONGPASS", LK_REDIS_FAULT_DENIED},
    {"NOPERM", LK_REDIS_FAULT_DENIED},
    {"OOM", LK_REDIS_FAULT_REFUSED},
    {"MISCONF", LK_REDIS_FAULT_REFUSED},
    {"NOREPLICAS", LK_REDIS_FAULT_REFUSED},
    {"UNBLOCKED", LK_REDIS_FAULT_TRANSIENT},
    {"FORGOTTEN", LK_REDIS_FAULT_MOVED},
    {"RECOVERING", LK_REDIS_FAULT_REFUSED}, /* errors of our scripts */
    {"NOLOCK", LK_REDIS_FAULT_DATA},
};

static bool starts_with_code(const char *text, const char *code)
{
    const size_t len = strlen(code);
    return strncmp(text, code, len) == 0 && (text[len] == ' ' || text[len] == '\0');
}

lk_redis_fault lk_redis_reply_fault(const redisReply *reply)
{
    if (reply->type != REDIS_REPLY_ERROR)
        return LK_REDIS_FAULT_NONE;
    const char *text = reply->str;
    const char *inner = strstr(text, ": -");
    for (size_t i = 0; i < sizeof codes / sizeof codes[0]; i++) {
        if (starts_with_code(text, codes[i].name) ||
            (inner != NULL && starts_with_code(inner + 3, codes[i].name)))
            return codes[i].fault;
    }
    /* Redis reports these faults only in words: a key that migrated while a script ran; a server that is
     * no master any more, when replicas are waited for; ... */
    if (strstr(text, "access a non local key in a cluster node") != NULL)
        return LK_REDIS_FAULT_MIGRATING;
    if (strstr(text, "WAIT cannot be used with replica") != NULL)
        return LK_REDIS_FAULT_MOVED;
    /* ... and a user without the right to a command or key of a script. */
    if (strstr(text, "user executing the script can't") != NULL || strstr(text, "ACL failure") != NULL)
        return LK_REDIS_FAULT_DENIED;
    return LK_REDIS_FAULT_OTHER;
}

bool lk_redis_reply_is_unknown_command(const redisReply *reply)
{
    return reply->type == REDIS_REPLY_ERROR && (strstr(reply->str, "unknown command") != NULL ||
                                                strstr(reply->str, "Unknown Redis command") != NULL);
}

locker_status lk_redis_reply_error(const redisReply *reply, const char *doing, locker_error *err)
{
    const char *text = reply->str;
    switch (lk_redis_reply_fault(reply)) {
    case LK_REDIS_FAULT_NONE:
        return locker_error_set(err, LOCKER_PROTOCOL, 0,
                                "the server sent an unexpected answer, while %s; "
                                "check that it is a Redis or Valkey server",
                                doing);
    case LK_REDIS_FAULT_MIGRATING:
        return lk_unavailable(
            err, "the key's hash slot is being migrated, while %s (%s); try again when the migration is done",
            doing, text);
    case LK_REDIS_FAULT_TRANSIENT:
        return lk_unavailable(err, "the server is not ready, while %s (%s); try again later", doing, text);
    case LK_REDIS_FAULT_MOVED:
        return lk_unavailable(
            err, "this server is not the key's master, while %s (%s); name the master in the URI", doing,
            text);
    case LK_REDIS_FAULT_DENIED:
        return lk_denied(err,
                         "the server denies %s (%s); check the user and the password, and "
                         "give the user the rights that locker-uri(7) lists",
                         doing, text);
    case LK_REDIS_FAULT_REFUSED:
        return lk_unavailable(err,
                              "the server refuses writes, while %s (%s); check its memory, disk and replicas",
                              doing, text);
    default:
        if (lk_redis_reply_is_unknown_command(reply))
            return lk_misconfigured(
                err,
                "the server lacks a command that locks need, while %s (%s); remove its "
                "rename-command from redis.conf, and deny the command to other users by ACL instead",
                doing, text);
        return locker_error_set(err, LOCKER_PROTOCOL, 0, "the server answered with an error, while %s: %s",
                                doing, text);
    }
}

bool lk_redis_reply_time(const redisReply *reply, int64_t *us)
{
    if (reply->type != REDIS_REPLY_ARRAY || reply->elements != 2 ||
        reply->element[0]->type != REDIS_REPLY_STRING || reply->element[1]->type != REDIS_REPLY_STRING)
        return false;
    const long long seconds = strtoll(reply->element[0]->str, NULL, 10);
    const long long rest = strtoll(reply->element[1]->str, NULL, 10);
    if (seconds <= 0 || seconds > time_most_s || rest < 0 || rest >= 1000000)
        return false;
    *us = seconds * 1000000 + rest;
    return true;
}
