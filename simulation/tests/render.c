/* render.c: see render.h. */
#include "render.h"

#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* A text that is being made. */
typedef struct {
    render_side *side;
    char *text;
    size_t len;
} page;

static void __attribute__((format(printf, 2, 3))) add(page *p, const char *format, ...)
{
    va_list arguments;
    va_start(arguments, format);
    const int len = vsnprintf(p->text + p->len, RENDER_TEXT - p->len, format, arguments);
    va_end(arguments);
    p->len = p->len + (size_t)len < RENDER_TEXT ? p->len + (size_t)len : RENDER_TEXT - 1;
}

/* ------------------------------------------------------------------ relations ---- */

static long long count_from_first(const render_side *side, int64_t zxid)
{
    return zxid > 0 ? (long long)(zxid - side->first) : (long long)zxid;
}

static bool is_its_time(render_side *side, int64_t zxid, int64_t time)
{
    const int64_t at = zxid - side->first;
    if (at < 0 || at >= RENDER_ZXIDS_MAX || time == 0)
        return false;
    if (side->times[at] == 0)
        side->times[at] = time;
    return side->times[at] == time;
}

static int session_number(const render_side *side, int64_t session)
{
    for (size_t i = 0; i < side->session_count; i++)
        if (side->sessions[i] == session)
            return (int)i + 1;
    return session == 0 ? 0 : -1;
}

static int begin_session(render_side *side, int64_t session)
{
    if (session != 0 && session_number(side, session) < 0 && side->session_count < RENDER_SESSIONS_MAX)
        side->sessions[side->session_count++] = session;
    return session_number(side, session);
}

/* ------------------------------------------------------------------ parts ---- */

static void add_stat(page *p, const lk_simzk_stat *stat)
{
    const render_side *const side = p->side;
    add(p,
        " stat czxid %lld%s mzxid %lld%s pzxid %lld version %d cversion %d aversion %d owner %d length %d children %d",
        count_from_first(side, stat->czxid),
        is_its_time(p->side, stat->czxid, stat->ctime) ? "" : " (not its time)",
        count_from_first(side, stat->mzxid),
        is_its_time(p->side, stat->mzxid, stat->mtime) ? "" : " (not its time)",
        count_from_first(side, stat->pzxid), stat->version, stat->cversion, stat->aversion,
        session_number(side, stat->ephemeral_owner), stat->data_length, stat->num_children);
}

static int by_text(const void *one, const void *other)
{
    return strcmp(*(const char *const *)one, *(const char *const *)other);
}

/* The order of a list means nothing: it is a hash table's. */
static void add_names(page *p, lk_simzk_texts names)
{
    const char **const sorted = malloc((names.count + 1) * sizeof *sorted);
    if (sorted == NULL)
        abort();
    for (size_t i = 0; i < names.count; i++)
        sorted[i] = names.items[i];
    qsort(sorted, names.count, sizeof *sorted, by_text);
    add(p, " names");
    for (size_t i = 0; i < names.count; i++)
        add(p, " %s", sorted[i]);
    free(sorted);
}

static void add_result(page *p, const lk_simzk_result *result)
{
    add(p, " [%d error %d", (int)result->kind, (int)result->error);
    if (result->kind <= LK_SIMZK_CREATE_CONTAINER)
        add(p, " path %s", result->path);
    if (result->kind == LK_SIMZK_CREATE2 || result->kind == LK_SIMZK_CREATE_CONTAINER ||
        result->kind == LK_SIMZK_SET)
        add_stat(p, &result->stat);
    add(p, "]");
}

static void add_reply(page *p, const lk_simzk_answer *answer)
{
    add(p, "reply %d error %d zxid %lld", answer->xid, (int)answer->error,
        count_from_first(p->side, answer->zxid));
    if (answer->path != NULL)
        add(p, " path %s", answer->path);
    if (answer->data.len >= 0)
        add(p, " data %.*s", answer->data.len, (const char *)answer->data.bytes);
    if (answer->has_stat)
        add_stat(p, &answer->stat);
    if (answer->names.items != NULL)
        add_names(p, answer->names);
    for (size_t i = 0; i < answer->count; i++)
        add_result(p, &answer->results[i]);
}

const char *render(render_side *side, const lk_simzk_answer *answer, char *text)
{
    page p = {side, text, 0};
    text[0] = '\0';
    if (answer == NULL) {
        add(&p, "closed");
        return text;
    }
    if (side->first == 0 && answer->kind == LK_SIMZK_REPLY)
        side->first = answer->zxid;
    if (answer->kind == LK_SIMZK_REPLY)
        add_reply(&p, answer);
    else if (answer->kind == LK_SIMZK_EVENT)
        add(&p, "event %d %s zxid %lld", answer->type, answer->path, count_from_first(side, answer->zxid));
    else
        add(&p, "welcome session %d timeout %d", begin_session(side, answer->session), answer->timeout_ms);
    return text;
}
