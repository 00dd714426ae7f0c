/* txn.h: transactions, which a leader proposes and every server applies; and their history. One that was refused is one,
 * too: it has taken a zxid. */
#pragma once

#include "arena.h"

typedef enum {
    LK_SIMZK_TXN_CREATE_SESSION,
    LK_SIMZK_TXN_CLOSE_SESSION,
    LK_SIMZK_TXN_CREATE,
    LK_SIMZK_TXN_DELETE,
    LK_SIMZK_TXN_SET,
    LK_SIMZK_TXN_CHECK,
    LK_SIMZK_TXN_ERROR
} lk_simzk_txn_kind;

/* One change; which members count depends on its kind. */
typedef struct {
    lk_simzk_txn_kind kind;
    lk_simzk_kind asked; /* what was */
    lk_simzk_error error;
    const char *path;
    lk_simzk_data data;
    lk_simzk_acl acl;
    int64_t owner; /* of an ephemeral node; else 0 */
    bool container;
    int32_t parent_cversion, version;
    int32_t timeout_ms;
    lk_simzk_texts paths; /* of a closed session's nodes */
} lk_simzk_change;

typedef struct {
    unsigned refs;
    int64_t zxid, time_ms, session;
    int32_t xid; /* of the request */
    bool multi;
    lk_simzk_change *changes;
    size_t count;
    lk_simzk_arena arena;
} lk_simzk_txn;

/* With room for so many changes. */
lk_simzk_txn *lk_simzk_txn_new(int64_t zxid, int64_t time_ms, int64_t session, int32_t xid, size_t count);
lk_simzk_txn *lk_simzk_txn_ref(lk_simzk_txn *txn);
/* NULL is allowed. */
void lk_simzk_txn_unref(lk_simzk_txn *txn);
/* One of a multi's has been refused: all are. */
bool lk_simzk_txn_failed(const lk_simzk_txn *txn);

/* Transactions in order. All zero: none. */
typedef struct {
    lk_simzk_txn **items;
    size_t count, room;
} lk_simzk_history;

void lk_simzk_history_append(lk_simzk_history *history, lk_simzk_txn *txn);
/* How many there are up to that zxid. */
size_t lk_simzk_history_until(const lk_simzk_history *history, int64_t zxid);
void lk_simzk_history_truncate(lk_simzk_history *history, size_t count);
void lk_simzk_history_free(lk_simzk_history *history);
