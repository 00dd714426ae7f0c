/*
 * print.c: how the subcommands write what they found: text that is safe for a terminal, times in words, JSON.
 */
#include <errno.h>
#include <stdio.h>
#include <string.h>
#include <time.h>

#include "cli.h"

const char *lk_cli_clean(const char *text, char *out, size_t size)
{
    size_t i;
    for (i = 0; text[i] && i + 1 < size; i++) {
        out[i] = text[i];
        if ((unsigned char)text[i] < 0x20 || text[i] == 0x7f)
            out[i] = '?';
    }
    out[i] = '\0';
    return out;
}

json_t *lk_cli_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char ascii[1024];
    size_t i;
    for (i = 0; text[i] && i + 1 < sizeof ascii; i++) {
        ascii[i] = text[i];
        if ((unsigned char)text[i] < 0x20 || (unsigned char)text[i] > 0x7e)
            ascii[i] = '?';
    }
    ascii[i] = '\0';
    return json_string(ascii);
}

int lk_cli_print_json(json_t *value)
{
    const int failed = !value || json_dumpf(value, stdout, JSON_INDENT(2));
    json_decref(value);
    if (failed) {
        lk_cli_message("can't write JSON: out of memory, or standard output is closed");
        return LK_EXIT_SYSTEM;
    }
    putchar('\n');
    return lk_cli_finish_output(LK_EXIT_OK);
}

static json_t *known(bool is_known, int64_t value)
{
    return is_known ? json_integer(value) : json_null();
}

json_t *lk_cli_info_json(const char *key, const locker_info *info)
{
    json_t *object = json_object(), *queue = json_array();
    for (size_t i = 0; i < info->queue_len; i++) {
        const char *const owner = locker_info_waiter(info, i)->owner;
        json_array_append_new(queue, owner[0] ? lk_cli_json_text(owner) : json_null());
    }
    json_object_set_new(object, "key", lk_cli_json_text(key));
    json_object_set_new(object, "held", json_boolean(info->held));
    json_object_set_new(object, "owner",
                        info->held && info->owner[0] ? lk_cli_json_text(info->owner) : json_null());
    json_object_set_new(object, "since_unix_ms",
                        known(info->held && info->since_unix_ms >= 0, info->since_unix_ms));
    json_object_set_new(object, "remaining_ms",
                        known(info->held && info->remaining_ms >= 0, info->remaining_ms));
    json_object_set_new(object, "token", known(info->token != 0, (int64_t)info->token));
    json_object_set_new(object, "waiters", known(info->waiters >= 0, info->waiters));
    json_object_set_new(object, "queue", queue);
    return object;
}

const char *lk_cli_time_words(int64_t ms, char *out, size_t size)
{
    const int64_t second = 1000, minute = 60 * second, hour = 60 * minute, day = 24 * hour;
    if (ms < second)
        snprintf(out, size, "%lldms", (long long)ms);
    else if (ms < minute)
        snprintf(out, size, "%lld.%llds", (long long)(ms / second), (long long)(ms % second / 100));
    else if (ms < hour)
        snprintf(out, size, "%lldm %llds", (long long)(ms / minute), (long long)(ms % minute / second));
    else if (ms < day)
        snprintf(out, size, "%lldh %lldm", (long long)(ms / hour), (long long)(ms % hour / minute));
    else
        snprintf(out, size, "%lldd %lldh", (long long)(ms / day), (long long)(ms % day / hour));
    return out;
}

const char *lk_cli_since_words(int64_t since_unix_ms, char *out, size_t size)
{
    time_t seconds = (time_t)(since_unix_ms / 1000);
    const int64_t age = lk_cli_wall_ms() - since_unix_ms;
    struct tm local;
    char when[64];
    if (since_unix_ms < 0 || !localtime_r(&seconds, &local) ||
        strftime(when, sizeof when, "%Y-%m-%d %H:%M:%S %z", &local) == 0)
        return NULL;
    char words[32];
    /* The holder's clock may be ahead of ours. */
    snprintf(out, size, "%s (%s ago)", when, lk_cli_time_words(age > 0 ? age : 0, words, sizeof words));
    return out;
}

int64_t lk_cli_wall_ms(void)
{
    struct timespec now;
    clock_gettime(CLOCK_REALTIME, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
