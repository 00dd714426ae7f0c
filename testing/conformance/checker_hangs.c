/* checker_hangs.c: what a test that hangs is waiting for, as the driver's answers tell it; see contract_checker.h. */
#include "checker_internal.h"

#include <stdio.h>
#include <string.h>

#include "expect.h"

#define SECOND INT64_C(1000000000)

/* So many lines are printed at most. */
enum { LINES_AT_MOST = 5 };

static lk_list under_way LK_GUARDED = {&under_way, &under_way}; /* of lk_operation, by link */

/* What is known of a claim that waits. */
typedef struct {
    const lk_record *waits;
    const lk_record *same;  /* a grant of its key in its namespace; NULL: none */
    const lk_record *other; /* a grant of its key in another namespace; NULL: none */
    int64_t now;
} view;

typedef struct {
    int64_t now;
    unsigned lines;
} report;

/* ------------------------------------------------------------------ operations ---- */

void lk_checker_operation_begin(lk_operation *operation, const char *name, const char *key)
{
    operation->name = name;
    operation->key[0] = '\0';
    if (key != NULL)
        (void)strncat(operation->key, key, sizeof operation->key - 1);
    operation->began = lk_test_now_ms() * 1000000;
    lk_mutex_lock(&lk_checker_mutex);
    lk_list_append(&under_way, &operation->link);
    lk_mutex_unlock(&lk_checker_mutex);
}

void lk_checker_operation_end(lk_operation *operation)
{
    lk_mutex_lock(&lk_checker_mutex);
    lk_list_remove(&operation->link);
    lk_mutex_unlock(&lk_checker_mutex);
}

static void tell_operations_locked(report *r) LK_REQUIRES(lk_checker_mutex)
{
    for (const lk_list *at = under_way.next; at != &under_way; at = at->next) {
        const lk_operation *const operation = LK_CONTAINER(at, lk_operation, link);
        if (r->now - operation->began < SECOND || r->lines++ >= LINES_AT_MOST)
            continue;
        fprintf(stderr,
                "conformance: look at `%s`: the driver was called %lld s ago%s%s%s and has not returned\n",
                operation->name, (long long)((r->now - operation->began) / SECOND),
                operation->key[0] != '\0' ? " for '" : "", operation->key,
                operation->key[0] != '\0' ? "'" : "");
    }
}

/* ------------------------------------------------------------------ claims that wait ---- */

static void find_grant(const lk_record *record, void *context)
{
    view *v = context;
    if (!record->granted || strcmp(record->key, v->waits->key) != 0)
        return;
    if (strcmp(record->instance->name_space, v->waits->instance->name_space) == 0)
        v->same = record;
    else
        v->other = record;
}

/* True if the driver left core nothing to go on: no time of a next attempt, and no `wake` since its last answer. */
static bool is_forgotten(const view *v)
{
    return v->now - v->waits->answered_at >= SECOND && v->waits->retry_at == LOCKER_NEVER && !v->waits->woken;
}

static void tell_claim(const view *v)
{
    const lk_record *const c = v->waits;
    const long long ago = (long long)((v->now - c->answered_at) / SECOND);
    char who[200];
    snprintf(who, sizeof who, "a call waits for '%s' in the namespace '%.60s'", c->key,
             c->instance->name_space);
    if (v->same == NULL && v->other != NULL)
        fprintf(stderr,
                "conformance: look at config->name_space in `open`: %s, but the test holds '%s' only in the "
                "namespace '%.60s', and that is a different lock\n",
                who, c->key, v->other->instance->name_space);
    else if (is_forgotten(v))
        fprintf(
            stderr,
            "conformance: look at `wake` and `retry_at`: %s. %lld s ago `acquire` answered BUSY without a retry_at, and the "
            "driver has not called `wake` since%s\n",
            who, ago,
            v->same != NULL ? "; the grant before it was not released: check whether it was broken or lost"
                            : "");
    else if (v->same != NULL)
        fprintf(stderr,
                "conformance: %s, and the test holds this lock without releasing it: look at what blocks the "
                "test's other threads\n",
                who);
    else
        fprintf(stderr,
                "conformance: look at `release` and `withdraw`: %s, but no claim of this process holds it. "
                "`acquire` answered %lu times without a grant, the last time %lld s ago\n",
                who, c->attempts, ago);
}

static void tell_if_waiting(const lk_record *record, void *context) LK_REQUIRES(lk_checker_mutex)
{
    report *r = context;
    view v = {.waits = record, .now = r->now};
    if (!record->enrolled || record->granted || r->lines++ >= LINES_AT_MOST)
        return;
    lk_checker_each_locked(find_grant, &v);
    tell_claim(&v);
}

bool lk_checker_tell_hang(void)
{
    report r = {.now = lk_test_now_ms() * 1000000};
    lk_mutex_lock(&lk_checker_mutex);
    tell_operations_locked(&r);
    lk_checker_each_locked(tell_if_waiting, &r);
    lk_mutex_unlock(&lk_checker_mutex);
    return r.lines > 0;
}
