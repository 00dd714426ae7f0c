/* backend.c: what a backend promises, what may be done to it, and what it is called; see backend.h. */
#include "backend.h"

#include <stdio.h>
#include <string.h>

/* ------------------------------------------------------------------ what may be done ---- */

/* What a given service is not asked for, what a spawned one may lack, and what no network of ours can be
 * for. */
static const struct {
    unsigned bit;
    const char *given, *spawned;
} lacks[] = {
    {LK_CAN_BE_SHARED,
     "its locks are visible only to the threads of one process, and the workers are processes", NULL},
    {LK_CAN_READ, "its driver has no shared locks", "its driver has no shared locks"},
    {LK_CAN_PERMIT, "its driver has no permits", "its driver has no permits"},
    {LK_CAN_RESTART, "it would kill the server; use --spawn", "the server keeps nothing on a disk"},
    {LK_CAN_FORGET, "it would destroy the server's data; use --spawn", "see the column of the single server"},
    {LK_CAN_FAIL_OVER, "it would kill the server; use --spawn",
     "there is a single server, so no other can take over"},
    {LK_CAN_LAG, "it would kill the server; use --spawn",
     "no server can take over without the last grants, because a majority has each grant"},
    {LK_CAN_RECOVER, "it would destroy the server's data; use --spawn",
     "its clients cannot restore the locks that the server lost"},
    {LK_CAN_BE_CUT, "it would cut the server's network; use --spawn", "see the column of the single server"},
};

static const char *cant_be_harmed(const lk_backend *backend)
{
    const locker_semantics *s = &backend->column->semantics;
    return s->scope == LOCKER_SCOPE_NETWORK ? NULL : "there is no server and no network";
}

const char *lk_backend_lacks(const lk_backend *backend, unsigned needs)
{
    const unsigned missing = needs & ~backend->can;
    for (size_t i = 0; i < sizeof lacks / sizeof lacks[0]; i++) {
        if ((missing & lacks[i].bit) == 0)
            continue;
        if ((lacks[i].bit & (LK_CAN_BE_SHARED | LK_CAN_READ | LK_CAN_PERMIT)) == 0 && cant_be_harmed(backend))
            return cant_be_harmed(backend);
        return backend->kind && lacks[i].spawned ? lacks[i].spawned : lacks[i].given;
    }
    return (needs & LK_CAN_BE_CUT) != 0 ? lk_network_missing() : NULL;
}

bool lk_backend_learn(lk_backend *backend, locker_error *err)
{
    locker *l = NULL;
    locker_status status = locker_open(backend->uri, NULL, &l, err);
    if (status == LOCKER_OK)
        status = locker_ping(l, NULL, err);
    if (status != LOCKER_OK) {
        locker_close(l);
        return false;
    }
    backend->column->semantics = *locker_get_semantics(l);
    locker_close(l);
    backend->can = backend->kind ? backend->kind->can : 0;
    if (backend->column->semantics.scope != LOCKER_SCOPE_PROCESS)
        backend->can |= LK_CAN_BE_SHARED;
    if (backend->column->semantics.shared != LOCKER_ORDER_NONE)
        backend->can |= LK_CAN_READ;
    if (backend->column->semantics.permits_most > 0)
        backend->can |= LK_CAN_PERMIT;
    return true;
}

/* ------------------------------------------------------------------ names ---- */

const char *lk_backend_public_uri(const char *uri, char *out, size_t size)
{
    const char *host = strstr(uri, "://");
    const size_t scheme = host ? (size_t)(host - uri) + 3 : 0;
    const size_t authority = strcspn(uri + scheme, "/?");
    const char *at = memrchr(uri + scheme, '@', authority);
    const char *colon = at ? memchr(uri + scheme, ':', (size_t)(at - uri) - scheme) : NULL;
    if (colon)
        snprintf(out, size, "%.*s:***%s", (int)(colon - uri), uri, at);
    else
        snprintf(out, size, "%s", uri);
    return out;
}
