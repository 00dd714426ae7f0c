/* acl.h: who may do what with a node. A client is what it has logged in as, by digest: its id is user and password as
 * they are, of which a real server has a hash. */
#pragma once

#include "arena.h"
#include "zookeeper.h"

/* Whether a client of those ids may. No list at all: everybody. */
bool lk_simzk_acl_allows(lk_simzk_acl acl, int32_t perms, lk_simzk_acl ids);
/* What a node is given: "auth" becomes the client's ids. LK_SIMZK_INVALIDACL: it can't be. */
lk_simzk_error lk_simzk_acl_fix(lk_simzk_acl wanted, lk_simzk_acl ids, lk_simzk_arena *arena,
                                lk_simzk_acl *fixed);
lk_simzk_acl lk_simzk_acl_copy(lk_simzk_acl acl, lk_simzk_arena *arena);
