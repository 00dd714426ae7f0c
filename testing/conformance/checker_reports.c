/* checker_reports.c: the breaches that were seen, and the tokens of each key; see contract_checker.h and
 * checker_internal.h. */
#include "checker_internal.h"

#include <search.h>
#include <stdarg.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "child.h"
#include "expect.h"

lk_mutex lk_checker_mutex = {PTHREAD_MUTEX_INITIALIZER};
const locker_driver *lk_checker_tested;

/* After so many lines of one test the rest is only counted. */
enum { LINES_AT_MOST = 10 };

static unsigned seen LK_GUARDED; /* printed lines: breaches, and operations that were late */
static unsigned breaches LK_GUARDED;
static int64_t missed_ms LK_GUARDED; /* the greatest excess over LK_CHECKER_LATE_MS; 0: none */
static void *tokens LK_GUARDED;      /* a tree of struct token by name */

/* ------------------------------------------------------------------ reports ---- */

static void print_locked(const char *check, const char *text) LK_REQUIRES(lk_checker_mutex)
{
    if (++seen <= LINES_AT_MOST)
        fprintf(stderr, "contract: %s: %s\n", check, text);
}

void lk_checker_report(const char *check, const char *format, ...)
{
    va_list args;
    va_start(args, format);
    char text[512];
    vsnprintf(text, sizeof text, format, args);
    va_end(args);
    lk_mutex_lock(&lk_checker_mutex);
    breaches++;
    print_locked(check, text);
    lk_mutex_unlock(&lk_checker_mutex);
}

static void report_late(const char *check, const char *operation, int64_t late_ms)
{
    char text[128];
    snprintf(text, sizeof text, "%s returned %lld ms after its deadline", operation, (long long)late_ms);
    lk_mutex_lock(&lk_checker_mutex);
    if (late_ms - LK_CHECKER_LATE_MS > missed_ms)
        missed_ms = late_ms - LK_CHECKER_LATE_MS;
    print_locked(check, text);
    lk_mutex_unlock(&lk_checker_mutex);
}

void lk_checker_reports_begin(void)
{
    lk_mutex_lock(&lk_checker_mutex);
    seen = breaches = 0;
    missed_ms = 0;
    lk_mutex_unlock(&lk_checker_mutex);
}

unsigned lk_checker_breaches(void)
{
    lk_mutex_lock(&lk_checker_mutex);
    const unsigned count = breaches;
    lk_mutex_unlock(&lk_checker_mutex);
    return count;
}

int64_t lk_checker_missed_ms(void)
{
    lk_mutex_lock(&lk_checker_mutex);
    const int64_t ms = missed_ms;
    lk_mutex_unlock(&lk_checker_mutex);
    return ms;
}

int64_t lk_checker_now(const lk_checked *w)
{
    return w->core->clock->now(w->core->clock->context);
}

void lk_checker_deadline(const lk_checked *w, const char *check, const char *operation, int64_t until)
{
    const int64_t stopped_until = lk_side_stopped_until(); /* with whatever the driver was in the midst of */
    const int64_t from = stopped_until > until ? stopped_until : until;
    const int64_t late_ms = from == LOCKER_NEVER ? 0 : (lk_checker_now(w) - from) / 1000000;
    if (late_ms > LK_CHECKER_LATE_MS)
        report_late(check, operation, late_ms);
}

void lk_checker_answer(const char *operation, locker_status status, unsigned allowed, const locker_error *err)
{
    /* these are told without the driver's words */
    const unsigned plain = 1u << LOCKER_OK | 1u << LOCKER_BUSY | 1u << LOCKER_TIMEOUT |
                           1u << LOCKER_CANCELED | 1u << LOCKER_NOMEM;

    if ((unsigned)status > LOCKER_FORKED || (allowed & 1u << status) == 0)
        lk_checker_report("answer", "%s answered %s, which its contract does not allow", operation,
                          locker_status_name(status));
    else if (err == NULL || (plain & 1u << status) != 0)
        return;
    else if (err->status != status || err->text[0] == '\0')
        lk_checker_report("answer",
                          "%s answered %s and left the error struct with status %s and the text '%s'",
                          operation, locker_status_name(status), locker_status_name(err->status), err->text);
    else if (strchr(err->text, '\n') != NULL)
        lk_checker_report("answer", "%s gave an error of more than one line: %s", operation, err->text);
}

/* ------------------------------------------------------------------ tokens ---- */

struct token {
    char *name; /* namespace, newline, key */
    uint64_t last;
};

static int by_name(const void *a, const void *b)
{
    return strcmp(((const struct token *)a)->name, ((const struct token *)b)->name);
}

/* The entry of that name, made when there is none; NULL: out of memory. Takes the name over. */
static struct token *token_of_locked(char *name) LK_REQUIRES(lk_checker_mutex)
{
    struct token wanted = {name, 0};
    struct token **place = tfind(&wanted, &tokens, by_name);
    if (place != NULL) {
        free(name);
        return *place;
    }
    struct token *made = calloc(1, sizeof *made);
    if (made == NULL) {
        free(name);
        return NULL;
    }
    made->name = name;
    place = tsearch(made, &tokens, by_name);
    if (place == NULL) {
        free(name);
        free(made);
        return NULL;
    }
    return made;
}

uint64_t lk_checker_last_token_locked(const lk_checked *w, const char *key)
{
    char *name;
    if (asprintf(&name, "%s\n%s", w->name_space, key) < 0)
        return 0;
    const struct token *entry = token_of_locked(name);
    return entry != NULL ? entry->last : 0;
}

void lk_checker_token(const lk_checked *w, const char *key, uint64_t token, uint64_t last)
{
    char *name;
    if (token == 0 || asprintf(&name, "%s\n%s", w->name_space, key) < 0)
        return;
    lk_mutex_lock(&lk_checker_mutex);
    struct token *entry = token_of_locked(name);
    if (entry != NULL && token > entry->last)
        entry->last = token;
    lk_mutex_unlock(&lk_checker_mutex);
    if (token <= last)
        lk_checker_report("token",
                          "a grant of '%.60s' got token %llu, not greater than the token %llu of an earlier "
                          "grant",
                          key, (unsigned long long)token, (unsigned long long)last);
}

static void free_token(void *entry)
{
    free(((struct token *)entry)->name);
    free(entry);
}

void lk_checker_forget(void)
{
    lk_mutex_lock(&lk_checker_mutex);
    tdestroy(tokens, free_token);
    tokens = NULL;
    lk_mutex_unlock(&lk_checker_mutex);
}
