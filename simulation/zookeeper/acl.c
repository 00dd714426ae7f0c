/* acl.c: who may do what with a node, as PrepRequestProcessor.fixupACL and ZooKeeperServer.checkACL decide. A client is what it
 * has logged in as, by digest: its id is user and password as they are, of which a real server has a hash. */
#include "arena.h"

#include <string.h>

static bool is_same(const lk_simzk_ace *one, const lk_simzk_ace *other)
{
    return strcmp(one->scheme, other->scheme) == 0 && strcmp(one->id, other->id) == 0;
}

static bool is_anyone(const lk_simzk_ace *ace)
{
    return strcmp(ace->scheme, "world") == 0 && strcmp(ace->id, "anyone") == 0;
}

bool lk_simzk_acl_allows(lk_simzk_acl acl, int32_t perms, lk_simzk_acl ids)
{
    for (size_t i = 0; i < acl.count; i++) {
        if ((acl.entries[i].perms & perms) == 0)
            continue;
        if (is_anyone(&acl.entries[i]))
            return true;
        for (size_t k = 0; k < ids.count; k++)
            if (is_same(&acl.entries[i], &ids.entries[k]))
                return true;
    }
    return acl.count == 0;
}

static void copy_ace(lk_simzk_ace *to, const lk_simzk_ace *from, int32_t perms, lk_simzk_arena *arena)
{
    *to =
        (lk_simzk_ace){perms, lk_simzk_arena_text(arena, from->scheme), lk_simzk_arena_text(arena, from->id)};
}

lk_simzk_acl lk_simzk_acl_copy(lk_simzk_acl acl, lk_simzk_arena *arena)
{
    lk_simzk_ace *const entries = lk_simzk_arena_alloc(arena, acl.count * sizeof *entries);
    for (size_t i = 0; i < acl.count; i++)
        copy_ace(&entries[i], &acl.entries[i], acl.entries[i].perms, arena);
    return (lk_simzk_acl){entries, acl.count};
}

/* What a server takes as digest's id: user:hash. */
static bool is_digest(const lk_simzk_ace *ace)
{
    const char *const colon = strchr(ace->id, ':');
    return strcmp(ace->scheme, "digest") == 0 && colon != NULL && colon[1] != '\0' &&
           strchr(colon + 1, ':') == NULL;
}

lk_simzk_error lk_simzk_acl_fix(lk_simzk_acl wanted, lk_simzk_acl ids, lk_simzk_arena *arena,
                                lk_simzk_acl *fixed)
{
    lk_simzk_ace *const entries =
        lk_simzk_arena_alloc(arena, wanted.count * (ids.count + 1) * sizeof *entries);
    size_t count = 0;
    for (size_t i = 0; i < wanted.count; i++) {
        const lk_simzk_ace *const ace = &wanted.entries[i];
        if (is_anyone(ace) || is_digest(ace)) {
            copy_ace(&entries[count++], ace, ace->perms, arena);
        } else if (strcmp(ace->scheme, "auth") == 0 && ids.count > 0) {
            for (size_t k = 0; k < ids.count; k++)
                copy_ace(&entries[count++], &ids.entries[k], ace->perms, arena);
        } else {
            return LK_SIMZK_INVALIDACL;
        }
    }
    *fixed = (lk_simzk_acl){entries, count};
    return count > 0 ? LK_SIMZK_OK : LK_SIMZK_INVALIDACL;
}
