/* print.c: how the subcommands write what they found: text that is safe for a terminal, times in words,
 * JSON. */
#include <errno.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cli.h"
#include "lk_printable.h"

const char *lk_cli_clean(const char *text, char out[LK_CLI_CLEAN])
{
    lk_printable(out, LK_CLI_CLEAN, text);
    return out;
}

/* Return how wide the first bytes of a text are on a terminal: a character of UTF-8 is one column. */
static int columns_of(const char *text, size_t length)
{
    int columns = 0;
    for (size_t i = 0; i < length; i++)
        columns += ((unsigned char)text[i] & 0xc0) != 0x80;
    return columns;
}

/* Return the length of the first line of a text: as many words as fit into `room` columns, at least one. */
static size_t line_length(const char *text, int room)
{
    size_t length = strcspn(text, " "), end = length;
    while (text[end] != '\0' && columns_of(text, end) <= room) {
        length = end;
        end += strspn(text + end, " ");
        end += strcspn(text + end, " ");
    }
    return columns_of(text, end) <= room ? end : length;
}

void lk_cli_wrap(FILE *out, const char *text, int at, int width)
{
    const int least = 20;
    const int room = width - at > least ? width - at : least;
    const size_t size = 4 * strlen(text) + 1;
    char *const clean = malloc(size);
    if (clean)
        lk_printable(clean, size, text);
    for (const char *rest = clean ? clean : "(out of memory)"; *rest;) {
        const size_t length = line_length(rest, room);
        fprintf(out, "%.*s\n", (int)length, rest);
        rest += length + strspn(rest + length, " ");
        if (*rest)
            fprintf(out, "%*s", at, "");
    }
    free(clean);
}

json_t *lk_cli_json_text(const char *text)
{
    json_t *value = json_string(text);
    if (value)
        return value;
    char *const ascii = strdup(text);
    for (char *c = ascii; c && *c; c++)
        *c = (unsigned char)*c < 0x20 || (unsigned char)*c > 0x7e ? '?' : *c;
    value = ascii ? json_string(ascii) : NULL;
    free(ascii);
    return value;
}

/* Jansson escapes what is below a space. What else a terminal would act on stands in strings, where an escape means the
 * same. */
static void print_escaped(const char *json)
{
    for (const unsigned char *s = (const unsigned char *)json; *s; s += lk_utf8_length(s)) {
        const size_t n = lk_utf8_length(s);
        const uint32_t code = lk_utf8_code(s, n);
        if (code >= 0x7f && lk_is_control(code))
            printf("\\u%04x", (unsigned)code);
        else
            fwrite(s, 1, n, stdout);
    }
}

int lk_cli_print_json(json_t *value)
{
    char *const text = value ? json_dumps(value, JSON_INDENT(2)) : NULL;
    json_decref(value);
    if (!text) {
        lk_cli_message("cannot write JSON: out of memory");
        return LK_EXIT_SYSTEM;
    }
    print_escaped(text);
    free(text);
    putchar('\n');
    return lk_cli_finish_output(LK_EXIT_OK);
}

static json_t *known(bool is_known, int64_t value)
{
    return is_known ? json_integer(value) : json_null();
}

static json_t *owner_json(const char *owner)
{
    return owner[0] ? lk_cli_json_text(owner) : json_null();
}

/* Of those who share the key, or have its permits. */
static json_t *holders_json(const locker_info *info)
{
    json_t *holders = json_array();
    for (size_t i = 0; i < info->holders_len; i++) {
        const locker_holder *const h = locker_info_holder(info, i);
        json_array_append_new(holders,
                              json_pack("{s:o, s:o, s:o, s:o, s:o}", "owner", owner_json(h->owner),
                                        "since_unix_ms", known(h->since_unix_ms >= 0, h->since_unix_ms),
                                        "remaining_ms", known(h->remaining_ms >= 0, h->remaining_ms), "token",
                                        known(h->token != 0, (int64_t)h->token), "slot",
                                        known(h->slot >= 0, h->slot)));
    }
    return holders;
}

const char *lk_cli_mode_name(locker_mode mode)
{
    return mode == LOCKER_SHARED ? "shared" : "exclusive";
}

json_t *lk_cli_info_json(const char *key, const locker_info *info)
{
    json_t *queue = json_array();
    for (size_t i = 0; i < info->queue_len; i++) {
        const locker_waiter *const w = locker_info_waiter(info, i);
        json_array_append_new(
            queue, json_pack("{s:o, s:s}", "owner", owner_json(w->owner), "mode", lk_cli_mode_name(w->mode)));
    }
    return json_pack("{s:o, s:b, s:o, s:o, s:o, s:o, s:o, s:o, s:s, s:o, s:o}", "key", lk_cli_json_text(key),
                     "held", info->held, "owner", owner_json(info->held ? info->owner : ""), "since_unix_ms",
                     known(info->held && info->since_unix_ms >= 0, info->since_unix_ms), "remaining_ms",
                     known(info->held && info->remaining_ms >= 0, info->remaining_ms), "token",
                     known(info->token != 0, (int64_t)info->token), "waiters",
                     known(info->waiters >= 0, info->waiters), "queue", queue, "mode",
                     lk_cli_mode_name(info->mode), "permits", known(info->permits > 0, info->permits),
                     "holders", holders_json(info));
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
    const int64_t age = lk_cli_now_ms(CLOCK_REALTIME) - since_unix_ms;
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

int64_t lk_cli_now_ms(clockid_t clock)
{
    struct timespec now;
    clock_gettime(clock, &now);
    return (int64_t)now.tv_sec * 1000 + now.tv_nsec / 1000000;
}
