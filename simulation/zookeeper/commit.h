/* commit.h: the order in which a server of an ensemble answers: each session's requests one behind the other, writes when
 * their commit has come, reads at once (CommitProcessor). */
#pragma once

#include "network.h"

void lk_simzk_commit_submit(lk_simzk_server *s, lk_simzk_call *call);
/* A transaction or a follower's sync is committed: that begins to wait until it is applied. */
void lk_simzk_commit_txn(lk_simzk_server *s, lk_simzk_txn *txn);
void lk_simzk_commit_sync(lk_simzk_server *s, int64_t session, int32_t xid);
/* ... and is. */
void lk_simzk_commit_apply(lk_simzk_server *s, const lk_simzk_message *message);
