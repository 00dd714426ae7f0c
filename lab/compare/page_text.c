/* page_text.c: text in the page, and why it can't be made; see page_parts.h. */
#include "page_parts.h"

#include <stdarg.h>

#include "cli.h"

void lk_page_fail(lk_page *page, const char *format, ...)
{
    if (page->why[0])
        return;
    va_list args;
    va_start(args, format);
    vsnprintf(page->why, page->why_size, format, args);
    va_end(args);
}

static void put_escaped(FILE *html, const char *text)
{
    for (; *text; text++) {
        switch (*text) {
        case '<':
            fputs("&lt;", html);
            break;
        case '>':
            fputs("&gt;", html);
            break;
        case '&':
            fputs("&amp;", html);
            break;
        case '"':
            fputs("&quot;", html);
            break;
        case '\'':
            fputs("&#39;", html);
            break;
        default:
            fputc((unsigned char)*text < ' ' || *text == 0x7f ? ' ' : *text, html);
        }
    }
}

void lk_page_text(lk_page *page, const char *text)
{
    json_t *clean = lk_cli_json_text(text); /* it may come from a command line, and be no UTF-8 */
    if (clean)
        put_escaped(page->html, json_string_value(clean));
    else
        lk_page_fail(page, "out of memory");
    json_decref(clean);
}
