/*
 * zklog.h: what a ZooKeeper server remembers: its log of transactions, changed while it doesn't run.
 */
#pragma once

#include <stdint.h>

#include "test_servers.h"

/** Has a server that was killed count on from `number` where it gives the children of a node theirs. At least
 * one child was created there since the server was started; what it says of the last one is overwritten. */
void lk_zklog_count_from(const lk_server *server, const char *parent, int32_t number);
