/* ensemble.c: servers that agree; see ensemble.h. */
#include "servers/ensemble.h"

#include <stdio.h>

#include "servers/wait.h"

enum { ROLE_PATIENCE_MS = 30000 };

/* All ports are chosen before the first configuration is written. */
bool lk_ensemble_start(lk_server *members, const lk_server_kind *kind, const lk_server_setup *setup,
                       const lk_place *places)
{
    bool good = true;
    for (int i = 0; i < LK_ENSEMBLE; i++) {
        lk_server_setup of_member = *setup;

        of_member.place = places != NULL ? &places[i] : NULL;
        good = lk_server_reserve(&members[i], kind, &of_member) && good;
        members[i].id = i + 1;
        members[i].members = members;
    }
    for (int i = 0; good && i < LK_ENSEMBLE; i++)
        good = lk_server_launch(&members[i], false);
    return good;
}

const lk_server *lk_ensemble_await(lk_server *members)
{
    const lk_server *missing = NULL;
    for (int i = 0; i < LK_ENSEMBLE; i++)
        if (!lk_server_await(&members[i]) && missing == NULL)
            missing = &members[i];
    return missing;
}

/* What lk_until() is to wait for. */
typedef struct {
    lk_server *members, *found;
    const char *mode;
    int nth;
} search;

static bool is(const lk_server *member, const char *mode)
{
    return member->pid > 0 && !member->frozen && member->kind->is(member, mode);
}

static bool find_member(void *context)
{
    search *wanted = context;
    int left = wanted->nth;
    for (int i = 0; i < LK_ENSEMBLE && wanted->found == NULL; i++)
        if (is(&wanted->members[i], wanted->mode) && left-- == 0)
            wanted->found = &wanted->members[i];
    return wanted->found != NULL;
}

lk_server *lk_ensemble_find(lk_server *members, const char *mode, int nth)
{
    search wanted = {members, NULL, mode, nth};
    return lk_until(find_member, &wanted, ROLE_PATIENCE_MS) ? wanted.found : NULL;
}

const char *lk_ensemble_hosts(const lk_server *members, char *text, size_t size)
{
    size_t at = 0;
    for (int i = 0; i < LK_ENSEMBLE && at < size; i++)
        at += (size_t)snprintf(text + at, size - at, "%s%s:%d", i > 0 ? "," : "", members[i].place.address,
                               members[i].port);
    return text;
}

void lk_ensemble_remove(lk_server *members)
{
    for (int i = 0; i < LK_ENSEMBLE; i++)
        lk_server_remove(&members[i]);
}
