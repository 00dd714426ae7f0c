/* call.h: what commands have in common: numbers and keys among their arguments, and what replicas hear of them. */
#pragma once

#include "state.h"

/** The argument as an integer; false: it is none, which was answered. */
bool lk_sr_call_integer(lk_sr_call *call, size_t index, int64_t *number);

/** The key, NULL when there is none of that name or its time is over. */
lk_sr_key *lk_sr_call_key(lk_sr_call *call, lk_sr_text name);

/** The same; false: it is of another kind, which was answered. */
bool lk_sr_call_typed(lk_sr_call *call, lk_sr_text name, lk_sr_kind kind, lk_sr_key **key);
/* Remove the key if it has no items any more. */
void lk_sr_call_remove_empty(lk_sr_call *call, lk_sr_key *key);
/* Carry out ZREM or HDEL: remove the items that the call names from its key, of that kind, and answer how many. */
void lk_sr_call_remove_items(lk_sr_call *call, lk_sr_kind kind);

lk_sr_keyspace *lk_sr_call_space(lk_sr_call *call);

/** Removes the key, when it is there. */
bool lk_sr_call_remove(lk_sr_call *call, lk_sr_text name);

/** Replicas hear another command instead of the one that was given. */
void lk_sr_call_instead(lk_sr_call *call, size_t argc, const lk_sr_text *argv);

/** Sets the key's end and tells replicas of it; an end that has come removes it. */
void lk_sr_call_expire(lk_sr_call *call, lk_sr_key *key, int64_t at_ms);

/** Whether the key would be over by then. */
bool lk_sr_call_is_over(const lk_sr_call *call, int64_t at_ms);

/** Runs the command, and hands on what it changed. */
void lk_sr_call_run(lk_sr_call *call);

/** Removes keys whose time is over. */
void lk_sr_sweep(lk_sr_server *server);
