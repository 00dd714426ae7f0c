/* rules.c: which request a fault meets, and which requests there were; see rules.h. */
#include "proxy/rules.h"

#include <stdlib.h>
#include <string.h>

static void note_locked(lk_rules *r, const lk_message *request) LK_REQUIRES(r->mutex)
{
    lk_seen *seen = malloc(sizeof *seen + request->length);
    if (seen == NULL)
        abort();
    memcpy(seen + 1, request->bytes, request->length);
    *seen = (lk_seen){r->seen, {(const char *)(seen + 1), request->length, request->nth}};
    r->seen = seen;
}

lk_fault lk_rules_meet_locked(lk_rules *r, const lk_message *request)
{
    note_locked(r, request);
    if (r->nth == 0 || !r->protocol->is(request, r->kind) || --r->nth > 0)
        return (lk_fault){0};
    if (r->fault.goes_on)
        r->nth = 1;
    if (r->fault.harm == LK_PROXY_WITHHOLD) {
        r->withheld = r->seen;
        r->harmed++;
    }
    return r->fault;
}

lk_forge *lk_rules_answer_locked(const lk_rules *r, const lk_message *request)
{
    for (size_t i = 0; i < LK_ANSWERS; i++)
        if (r->answers[i].forge != NULL && r->protocol->is(request, r->answers[i].kind))
            return r->answers[i].forge;
    return NULL;
}

unsigned lk_rules_count_locked(const lk_rules *r, const char *kind)
{
    unsigned count = 0;
    for (const lk_seen *seen = r->seen; seen != NULL; seen = seen->next)
        count += r->protocol->is(&seen->message, kind) ? 1 : 0;
    return count;
}

void lk_rules_clear(lk_rules *r)
{
    while (r->seen != NULL) {
        lk_seen *seen = r->seen;

        r->seen = seen->next;
        free(seen);
    }
}
