/* tree.c: see tree.h. */
#include "tree.h"

#include <stdlib.h>
#include <string.h>

#include "lk_table.h"

/* ------------------------------------------------------------------ nodes ---- */

lk_simzk_node *lk_simzk_tree_find(const lk_simzk_tree *tree, const char *path)
{
    const uint32_t hash = lk_hash_text(path);
    LK_TABLE_EACH_OF(link, &tree->nodes, hash)
        if (link->hash == hash && strcmp(LK_CONTAINER(link, lk_simzk_node, link)->path, path) == 0)
            return LK_CONTAINER(link, lk_simzk_node, link);
    return NULL;
}

const char *lk_simzk_tree_name(const lk_simzk_node *node)
{
    return lk_simzk_path_name(node->path);
}

lk_simzk_stat lk_simzk_tree_stat(const lk_simzk_node *node)
{
    /* Deletions aren't counted, but each node that was made and isn't there any more is one. */
    const uint32_t changes = 2 * (uint32_t)node->cversion - (uint32_t)node->count;
    return (lk_simzk_stat){.czxid = node->czxid,
                           .mzxid = node->mzxid,
                           .pzxid = node->pzxid,
                           .ctime = node->ctime,
                           .mtime = node->mtime,
                           .version = node->version,
                           .cversion = (int32_t)changes,
                           .ephemeral_owner = node->owner,
                           .data_length = node->len > 0 ? node->len : 0,
                           .num_children = (int32_t)node->count};
}

static void set_data(lk_simzk_node *node, lk_simzk_data data)
{
    free(node->data);
    node->data = NULL;
    node->len = data.len;
    if (data.len > 0)
        node->data = memcpy(lk_simzk_alloc((size_t)data.len), data.bytes, (size_t)data.len);
}

static bool is_before(const lk_simzk_node *one, const lk_simzk_node *other)
{
    const char *const name = lk_simzk_tree_name(one), *const other_name = lk_simzk_tree_name(other);
    const uint32_t hash = lk_hash_text(name), other_hash = lk_hash_text(other_name);
    return hash != other_hash ? hash < other_hash : strcmp(name, other_name) < 0;
}

/* Where the child stands, or would. */
static size_t place_of(const lk_simzk_node *parent, const lk_simzk_node *child)
{
    size_t low = 0, high = parent->count;
    while (low < high) {
        const size_t middle = (low + high) / 2;
        if (is_before(parent->children[middle], child))
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

static void add_child(lk_simzk_node *parent, lk_simzk_node *child)
{
    if (parent->count == parent->room) {
        parent->room = parent->room > 0 ? 2 * parent->room : 4;
        parent->children = realloc(parent->children, parent->room * sizeof(lk_simzk_node *));
        if (parent->children == NULL)
            abort();
    }
    const size_t at = place_of(parent, child);
    memmove(&parent->children[at + 1], &parent->children[at], (parent->count - at) * sizeof(lk_simzk_node *));
    parent->children[at] = child;
    parent->count++;
}

static void remove_child(lk_simzk_node *parent, const lk_simzk_node *child)
{
    const size_t at = place_of(parent, child);
    parent->count--;
    memmove(&parent->children[at], &parent->children[at + 1], (parent->count - at) * sizeof(lk_simzk_node *));
}

static void free_node(lk_simzk_node *node)
{
    lk_simzk_arena_free(&node->arena);
    free(node->children);
    free(node->data);
    free(node->path);
    free(node);
}

static lk_simzk_node *add_node(lk_simzk_tree *tree, lk_simzk_node *parent, const char *path)
{
    lk_simzk_node *const node = lk_simzk_alloc(sizeof *node);
    node->path = strdup(path);
    if (node->path == NULL || !lk_table_reserve(&tree->nodes))
        abort();
    node->parent = parent;
    node->len = -1;
    lk_table_add(&tree->nodes, &node->link, lk_hash_text(path));
    if (parent != NULL)
        add_child(parent, node);
    return node;
}

/* ------------------------------------------------------------------ sessions ---- */

static void add_session(lk_simzk_tree *tree, int64_t id, int32_t timeout_ms)
{
    if (tree->session_count == tree->session_room) {
        tree->session_room = tree->session_room > 0 ? 2 * tree->session_room : 16;
        tree->sessions = realloc(tree->sessions, tree->session_room * sizeof *tree->sessions);
        if (tree->sessions == NULL)
            abort();
    }
    tree->sessions[tree->session_count++] = (lk_simzk_known_session){id, timeout_ms};
}

static void remove_session(lk_simzk_tree *tree, int64_t id)
{
    size_t kept = 0;
    for (size_t i = 0; i < tree->session_count; i++)
        if (tree->sessions[i].id != id)
            tree->sessions[kept++] = tree->sessions[i];
    tree->session_count = kept;
}

/* ------------------------------------------------------------------ changes ---- */

static lk_simzk_watched watched(const lk_simzk_node *node, const lk_simzk_txn *txn)
{
    return (lk_simzk_watched){node->path, txn->zxid, node->acl};
}

static lk_simzk_error create(lk_simzk_tree *tree, const lk_simzk_txn *txn, const lk_simzk_change *change,
                             lk_simzk_result *result, lk_simzk_watches *watches)
{
    char *const parent_path = lk_simzk_path_parent(change->path);
    lk_simzk_node *const parent = lk_simzk_tree_find(tree, parent_path);
    free(parent_path);
    if (parent == NULL)
        return LK_SIMZK_NONODE;
    if (lk_simzk_tree_find(tree, change->path) != NULL)
        return LK_SIMZK_NODEEXISTS;
    if (change->parent_cversion > parent->cversion) { /* not once the numbers have ended */
        parent->cversion = change->parent_cversion;
        parent->pzxid = txn->zxid;
    }
    lk_simzk_node *const node = add_node(tree, parent, change->path);
    node->czxid = node->mzxid = node->pzxid = txn->zxid;
    node->ctime = node->mtime = txn->time_ms;
    node->owner = change->owner;
    node->container = change->container;
    node->acl = lk_simzk_acl_copy(change->acl, &node->arena);
    set_data(node, change->data);
    if (node->container)
        lk_list_append(&tree->containers, &node->special);
    else if (node->owner != 0)
        lk_list_append(&tree->ephemerals, &node->special);
    result->stat = lk_simzk_tree_stat(node);
    lk_simzk_watches_created(watches, watched(node, txn), watched(parent, txn));
    return LK_SIMZK_OK;
}

static lk_simzk_error delete_node(lk_simzk_tree *tree, const lk_simzk_txn *txn, const char *path,
                                  lk_simzk_watches *watches)
{
    lk_simzk_node *const node = lk_simzk_tree_find(tree, path);
    if (node == NULL)
        return LK_SIMZK_NONODE;
    lk_simzk_node *const parent = node->parent;
    remove_child(parent, node);
    if (txn->zxid > parent->pzxid)
        parent->pzxid = txn->zxid;
    lk_table_remove(&tree->nodes, &node->link);
    if (lk_list_linked(&node->special))
        lk_list_remove(&node->special);
    lk_simzk_watches_deleted(watches, watched(node, txn), watched(parent, txn));
    free_node(node);
    return LK_SIMZK_OK;
}

static lk_simzk_error set(lk_simzk_tree *tree, const lk_simzk_txn *txn, const lk_simzk_change *change,
                          lk_simzk_result *result, lk_simzk_watches *watches)
{
    lk_simzk_node *const node = lk_simzk_tree_find(tree, change->path);
    if (node == NULL)
        return LK_SIMZK_NONODE;
    set_data(node, change->data);
    node->mtime = txn->time_ms;
    node->mzxid = txn->zxid;
    node->version = change->version;
    result->stat = lk_simzk_tree_stat(node);
    lk_simzk_watches_changed(watches, watched(node, txn));
    return LK_SIMZK_OK;
}

static lk_simzk_error make(lk_simzk_tree *tree, const lk_simzk_txn *txn, const lk_simzk_change *change,
                           lk_simzk_result *result, lk_simzk_watches *watches)
{
    switch (change->kind) {
    case LK_SIMZK_TXN_CREATE_SESSION:
        add_session(tree, txn->session, change->timeout_ms);
        return LK_SIMZK_OK;
    case LK_SIMZK_TXN_CLOSE_SESSION:
        remove_session(tree, txn->session);
        for (size_t i = 0; i < change->paths.count; i++)
            (void)delete_node(tree, txn, change->paths.items[i], watches);
        return LK_SIMZK_OK;
    case LK_SIMZK_TXN_CREATE:
        return create(tree, txn, change, result, watches);
    case LK_SIMZK_TXN_DELETE:
        return delete_node(tree, txn, change->path, watches);
    case LK_SIMZK_TXN_SET:
        return set(tree, txn, change, result, watches);
    case LK_SIMZK_TXN_CHECK:
        return LK_SIMZK_OK;
    case LK_SIMZK_TXN_ERROR:
        return change->error;
    }
    return LK_SIMZK_OK;
}

/* Of a multi that was refused, those before the one to blame answer OK, though nothing was done. */
static void refuse(const lk_simzk_txn *txn, lk_simzk_result *results)
{
    for (size_t i = 0; i < txn->count; i++)
        results[i] = (lk_simzk_result){LK_SIMZK_ERROR, txn->changes[i].error, NULL, {0}};
}

void lk_simzk_tree_apply(lk_simzk_tree *tree, lk_simzk_txn *txn, lk_simzk_result *results,
                         lk_simzk_watches *watches)
{
    lk_simzk_result unwanted;
    if (lk_simzk_txn_failed(txn)) {
        if (results != NULL)
            refuse(txn, results);
    } else {
        for (size_t i = 0; i < txn->count; i++) {
            const lk_simzk_change *const change = &txn->changes[i];
            lk_simzk_result *const result = results != NULL ? &results[i] : &unwanted;
            *result = (lk_simzk_result){change->asked, LK_SIMZK_OK, change->path, {0}};
            result->error = make(tree, txn, change, result, watches);
        }
    }
    tree->zxid = txn->zxid;
    lk_simzk_history_append(&tree->history, txn);
}

/* ------------------------------------------------------------------ the whole ---- */

/* What a server has that was never used. */
static void begin(lk_simzk_tree *tree)
{
    static const lk_simzk_ace anyone = {LK_SIMZK_READ, "world", "anyone"};
    lk_list_init(&tree->ephemerals);
    lk_list_init(&tree->containers);
    lk_simzk_node *const root = add_node(tree, NULL, "/");
    lk_simzk_node *const own = add_node(tree, root, "/zookeeper");
    (void)add_node(tree, own, "/zookeeper/quota");
    lk_simzk_node *const config = add_node(tree, own, "/zookeeper/config");
    root->len = 0;
    config->acl = lk_simzk_acl_copy((lk_simzk_acl){&anyone, 1}, &config->arena);
}

static void clear(lk_simzk_tree *tree)
{
    for (lk_table_link *link = lk_table_after(&tree->nodes, NULL), *next; link != NULL; link = next) {
        next = lk_table_after(&tree->nodes, link);
        lk_table_remove(&tree->nodes, link);
        free_node(LK_CONTAINER(link, lk_simzk_node, link));
    }
    lk_table_destroy(&tree->nodes);
    free(tree->sessions);
    tree->sessions = NULL;
    tree->session_count = tree->session_room = 0;
}

void lk_simzk_tree_init(lk_simzk_tree *tree)
{
    memset(tree, 0, sizeof *tree);
    begin(tree);
}

void lk_simzk_tree_free(lk_simzk_tree *tree)
{
    clear(tree);
    lk_simzk_history_free(&tree->history);
}

void lk_simzk_tree_truncate(lk_simzk_tree *tree, size_t count)
{
    lk_simzk_history kept = tree->history;
    lk_simzk_history_truncate(&kept, count);
    clear(tree);
    lk_simzk_tree_init(tree);
    for (size_t i = 0; i < count; i++)
        lk_simzk_tree_apply(tree, kept.items[i], NULL, NULL);
    lk_simzk_history_free(&kept);
}
