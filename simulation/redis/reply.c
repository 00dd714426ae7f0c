/* reply.c: answers in Redis' protocol, version 2. */
#include "bytes.h"

#include <inttypes.h>
#include <math.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>

/* The line that a number has to itself. */
static void put_line(lk_sr_bytes *out, char kind, int64_t number)
{
    char text[24], *at = text + sizeof text;
    uint64_t rest = number < 0 ? 0 - (uint64_t)number : (uint64_t)number;
    *--at = '\n';
    *--at = '\r';
    do
        *--at = (char)('0' + rest % 10);
    while ((rest /= 10) > 0);
    if (number < 0)
        *--at = '-';
    *--at = kind;
    lk_sr_put(out, (lk_sr_text){at, (size_t)(text + sizeof text - at)});
}

void lk_sr_reply_status(lk_sr_bytes *out, const char *status)
{
    lk_sr_print(out, "+%s\r\n", status);
}

void lk_sr_reply_error_text(lk_sr_bytes *out, lk_sr_text text)
{
    while (text.len > 0 && (text.data[text.len - 1] == '\r' || text.data[text.len - 1] == '\n'))
        text.len--;
    if (text.len == 0 || text.data[0] != '-')
        lk_sr_print(out, "-ERR ");
    const size_t from = out->len;
    lk_sr_put(out, text);
    for (size_t i = from; i < out->len; i++) {
        if (out->data[i] == '\r' || out->data[i] == '\n')
            out->data[i] = ' ';
    }
    lk_sr_print(out, "\r\n");
}

void lk_sr_reply_error(lk_sr_bytes *out, const char *format, ...)
{
    char text[1024];
    va_list args;
    va_start(args, format);
    const int len = vsnprintf(text, sizeof text, format, args);
    va_end(args);
    if (len < 0 || (size_t)len >= sizeof text)
        abort();
    lk_sr_reply_error_text(out, (lk_sr_text){text, (size_t)len});
}

void lk_sr_reply_integer(lk_sr_bytes *out, int64_t number)
{
    put_line(out, ':', number);
}

void lk_sr_reply_bulk(lk_sr_bytes *out, lk_sr_text text)
{
    put_line(out, '$', (int64_t)text.len);
    lk_sr_put(out, text);
    lk_sr_put(out, (lk_sr_text){"\r\n", 2});
}

void lk_sr_reply_number(lk_sr_bytes *out, int64_t number)
{
    char text[24];
    const int len = snprintf(text, sizeof text, "%" PRId64, number);
    lk_sr_reply_bulk(out, (lk_sr_text){text, (size_t)len});
}

void lk_sr_reply_float(lk_sr_bytes *out, double number)
{
    char text[64];
    if (isinf(number))
        (void)snprintf(text, sizeof text, number > 0 ? "inf" : "-inf");
    else
        (void)snprintf(text, sizeof text, "%.17g", number);
    lk_sr_reply_bulk(out, lk_sr_word(text));
}

void lk_sr_reply_nil(lk_sr_bytes *out)
{
    put_line(out, '$', -1);
}

void lk_sr_reply_array(lk_sr_bytes *out, size_t count)
{
    put_line(out, '*', (int64_t)count);
}
