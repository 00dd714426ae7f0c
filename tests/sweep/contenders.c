/* contenders.c: who wants the lock, and who has it; see contenders.h. */
#include "contenders.h"

#include <errno.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "expect.h"

static void take_line(lk_contender *c, const char *line)
{
    long long when = 0, deadline = 0;
    if (c->foreign && c->doing == LK_WAITS) {
        c->granted = c->until = lk_test_now_ms();
        c->doing = LK_HAS;
    } else if (strcmp(line, "open") == 0) {
        c->doing = LK_OPEN;
    } else if (sscanf(line, "held %lld %lld", &c->left, &when) == 2) {
        c->granted = when;
        c->until = INT64_MAX;
        c->doing = LK_HAS;
    } else if (sscanf(line, "lost %lld %lld", &when, &deadline) == 2) {
        c->lost = true;
        c->told = when;
        c->deadline = deadline;
        c->until = when < deadline ? when : deadline;
        c->doing = LK_OVER;
    } else if (sscanf(line, "kept %lld", &deadline) == 1) {
        c->told = c->until = c->deadline = deadline;
        c->doing = LK_OVER;
    } else {
        snprintf(c->text, sizeof c->text, "%.99s", line);
        c->doing = LK_OVER;
    }
}

static void hear(lk_contender *c)
{
    lk_child *const child = c->child;
    char *end, line[LK_LINE_MAX];
    const ssize_t got = read(child->output, child->line + child->filled, sizeof child->line - child->filled);
    if (got <= 0) {
        c->doing = LK_OVER;
        return;
    }
    child->filled += (size_t)got;
    while ((end = memchr(child->line, '\n', child->filled)) != NULL) {
        *end++ = '\0';
        snprintf(line, sizeof line, "%s", child->line);
        child->filled -= (size_t)(end - child->line);
        memmove(child->line, end, child->filled);
        take_line(c, line);
    }
}

static bool in_state(const lk_contender *c, lk_doing doing)
{
    return c->child != NULL && c->doing == doing;
}

static int count_in(const lk_scene *s, lk_doing doing)
{
    int count = 0;
    for (int i = 0; i < s->count; i++)
        count += in_state(&s->who[i], doing);
    return count;
}

static int tally(const lk_scene *s)
{
    return (count_in(s, LK_HAS) * 10 + count_in(s, LK_WAITS)) * 10 + count_in(s, LK_OVER);
}

/* What all say until then, or until something has changed where only that is waited for. */
static void listen_until(lk_scene *s, int64_t until, bool changes)
{
    for (int64_t left; (left = until - lk_test_now_ms()) > 0;) {
        struct pollfd waits[LK_CONTENDERS];
        const int before = tally(s);
        for (int i = 0; i < s->count; i++)
            waits[i] = (struct pollfd){.fd = s->who[i].doing != LK_OVER ? s->who[i].child->output : -1,
                                       .events = POLLIN};
        if (poll(waits, (nfds_t)s->count, (int)left) < 0 && errno != EINTR)
            test_fails("can't wait for children: %s", strerror(errno));
        for (int i = 0; i < s->count; i++)
            if (waits[i].revents != 0)
                hear(&s->who[i]);
        if (changes && before != tally(s))
            return;
    }
}

void lk_scene_until(lk_scene *s, int64_t until_ms)
{
    listen_until(s, until_ms, false);
}

void lk_scene_for(lk_scene *s, int ms)
{
    listen_until(s, lk_test_now_ms() + ms, false);
}

/* Until that one has left a state. */
static bool await_leaving(lk_scene *s, const lk_contender *c, lk_doing doing, int ms)
{
    const int64_t until = lk_test_now_ms() + ms;
    while (c->doing == doing && lk_test_now_ms() < until)
        listen_until(s, lk_test_now_ms() + 20 < until ? lk_test_now_ms() + 20 : until, true);
    return c->doing != doing;
}

lk_contender *lk_contender_add(lk_scene *s, const char *name, lk_child *child)
{
    lk_contender *const c = &s->who[s->count++];
    *c = (lk_contender){.name = name, .child = child};
    return c;
}

bool lk_contender_opens(lk_scene *s, const lk_contender *c, int within_ms)
{
    return await_leaving(s, c, LK_COMES, within_ms) && c->doing == LK_OPEN;
}

void lk_contender_lock(lk_contender *c)
{
    lk_child_say(c->child, "lock");
    c->doing = LK_WAITS;
}

bool lk_contender_gets(lk_scene *s, const lk_contender *c, int within_ms)
{
    return await_leaving(s, c, LK_WAITS, within_ms) && c->doing == LK_HAS;
}

void lk_scene_end(lk_scene *s)
{
    for (int i = 0; i < s->count; i++)
        lk_child_kill(s->who[i].child);
}

/* ------------------------------------------------------------------ the end ---- */

static void dismiss(lk_scene *s)
{
    for (int i = 0; i < s->count; i++) {
        lk_contender *const c = &s->who[i];
        if (!in_state(c, LK_HAS))
            continue;
        if (c->foreign)
            lk_child_signal(c->child, SIGTERM);
        else
            lk_child_say(c->child, "end");
        c->doing = c->foreign ? LK_OVER : LK_DISMISSED;
    }
}

void lk_scene_pass_on(lk_scene *s, int within_ms)
{
    const int64_t until = lk_test_now_ms() + within_ms;
    do {
        dismiss(s);
        listen_until(s, lk_test_now_ms() + 100, true);
    } while (count_in(s, LK_WAITS) + count_in(s, LK_HAS) + count_in(s, LK_DISMISSED) > 0 &&
             lk_test_now_ms() < until);
}

void lk_scene_judge(const lk_scene *s, lk_outcome *o)
{
    const int64_t now = lk_test_now_ms();
    int64_t least = INT64_MAX;
    for (int i = 0; i < s->count; i++)
        for (int j = 0; j < s->count; j++) {
            const lk_contender *const a = &s->who[i], *const b = &s->who[j];
            const int64_t until = a->until == INT64_MAX ? now : a->until; /* it goes on, and says nothing */
            if (i == j || a->foreign || a->granted == 0 || b->granted < a->granted ||
                b->granted - until >= least)
                continue;
            least = b->granted - until;
            o->granted = b->granted;
            o->deadline = until;
            o->lost = a->lost ? a->told : until;
            snprintf(o->text, sizeof o->text, "%s to %s%s", a->name, b->name,
                     a->lost && a->told < a->deadline ? ", early" : "");
        }
}
