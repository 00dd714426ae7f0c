/* tree.h: what one server has: nodes, sessions, and the history that made them (DataTree). */
#pragma once

#include "lk_table.h"
#include "txn.h"
#include "watches.h"

typedef struct lk_simzk_node lk_simzk_node;

struct lk_simzk_node {
    lk_table_link link;    /* in lk_simzk_tree.nodes, by its path */
    lk_list special;       /* in lk_simzk_tree.ephemerals or .containers, when it is such a node */
    lk_simzk_node *parent; /* NULL: the root */
    char *path;
    lk_simzk_arena arena; /* the ACL's */
    lk_simzk_acl acl;
    void *data;
    int32_t len; /* of it; -1: none */
    int64_t czxid, mzxid, pzxid, ctime, mtime;
    int32_t version;
    int32_t cversion; /* of creations alone */
    int64_t owner;    /* of an ephemeral node; else 0 */
    bool container;
    lk_simzk_node **children; /* by their names' hashes: an order that means nothing, as a real server's */
    size_t count, room;       /* of them */
};

/* A session of which all servers know. */
typedef struct {
    int64_t id;
    int32_t timeout_ms;
} lk_simzk_known_session;

typedef struct {
    lk_table nodes;
    lk_list ephemerals, containers; /* the oldest first */
    lk_simzk_known_session *sessions;
    size_t session_count, session_room;
    int64_t zxid; /* the last that was applied */
    lk_simzk_history history;
} lk_simzk_tree;

void lk_simzk_tree_init(lk_simzk_tree *tree);
void lk_simzk_tree_free(lk_simzk_tree *tree);

/* NULL: there is none. */
lk_simzk_node *lk_simzk_tree_find(const lk_simzk_tree *tree, const char *path);
lk_simzk_stat lk_simzk_tree_stat(const lk_simzk_node *node);
const char *lk_simzk_tree_name(const lk_simzk_node *node);

/* Make the changes of the next transaction. results: one for each change, their texts the transaction's; or NULL.
 * watches NULL: nobody is told. */
void lk_simzk_tree_apply(lk_simzk_tree *tree, lk_simzk_txn *txn, lk_simzk_result *results,
                         lk_simzk_watches *watches);
/* Keep the first `count` transactions of the history alone. */
void lk_simzk_tree_truncate(lk_simzk_tree *tree, size_t count);
