/* script_call.h: calling a script. */
#pragma once

#include "instance.h"

/* Start a call with the lock, its queue and its counter, and a fourth key (NULL: none), by EVALSHA where the hash is known; the
 * mark of `recovery` stands behind them. */
void lk_redis_script_begin(const lk_redis *r, lk_redis_command *a, lk_redis_script which, lk_redis_keys *keys,
                           const char *fourth);
/* Have the server tell the hashes of those scripts that no handshake loads, once; until it has, they are sent whole. */
void lk_redis_scripts_want(lk_redis *r);
/* Make it one by EVAL, with the text. */
void lk_redis_script_spell_out(const lk_redis *r, lk_redis_command *a, lk_redis_script which);
/* As lk_redis_ask(), with what the script has to know of the counter (fence.h), and the server's life (recovery.h), at the end;
 * deals with NOSCRIPT. */
lk_redis_outcome lk_redis_ask_script(lk_redis_node *node, lk_redis_call *call, lk_redis_script which,
                                     lk_redis_command *a, locker_error *err);
