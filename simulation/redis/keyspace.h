/* keyspace.h: the keys of one database and what they hold, in the order in which they came. */
#pragma once

#include <stdint.h>

#include "../lists.h"
#include <lk_table.h>

#include "items.h"

typedef enum { LK_SR_STRING, LK_SR_LIST, LK_SR_HASH, LK_SR_ZSET } lk_sr_kind;

typedef struct {
    lk_list link;
    lk_table_link place;
    lk_sr_bytes name;
    lk_sr_kind kind;
    int64_t expires_ms; /**< the last moment of it, of the server's clock; -1: none */
    lk_sr_bytes text;   /**< of a string */
    lk_sr_items items;  /**< of the others; never none, but while a command is at it */
} lk_sr_key;

typedef struct {
    lk_table table;
    lk_list keys;
} lk_sr_keyspace;

void lk_sr_keyspace_init(lk_sr_keyspace *space);

/** NULL: there is none of that name. */
lk_sr_key *lk_sr_keyspace_find(const lk_sr_keyspace *space, lk_sr_text name);

lk_sr_key *lk_sr_keyspace_add(lk_sr_keyspace *space, lk_sr_text name, lk_sr_kind kind);
void lk_sr_keyspace_remove(lk_sr_keyspace *space, lk_sr_key *key);
void lk_sr_keyspace_clear(lk_sr_keyspace *space);

/** `to` has what `from` has, and nothing else. */
void lk_sr_keyspace_copy(lk_sr_keyspace *to, const lk_sr_keyspace *from);

/** About as many as a server needs for it. */
size_t lk_sr_keyspace_bytes(const lk_sr_keyspace *space);

/** Empty, and without any memory. */
void lk_sr_keyspace_destroy(lk_sr_keyspace *space);
