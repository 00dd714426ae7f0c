/*
 * test_redis.h: a redis-server of a test's own (test_servers.h), commanded as a user `admin` that keeps its
 * rights whatever is done to the default user.
 */
#pragma once

#include <stdint.h>

#include "servers/redis.h"
#include "test_servers.h"

/** Starts a server with further command line options (static text, ended by NULL; NULL: none), and waits
 * until it serves. */
lk_server *lk_test_redis(const char *const *options);

/** Stops it, removes its directory, frees it. NULL is allowed. */
void lk_test_redis_free(lk_server *server);

/** Sends a command, in hiredis' format, whose reply is of no interest. This and those below fail the test
 * when there is no reply, or when it is an error. */
void lk_server_do(lk_server *server, const char *format, ...);

/** Sends a command and answers its integer, or of a list how long it is; -1 for any other reply. */
int64_t lk_server_integer(lk_server *server, const char *format, ...);

/** Sends a command and copies its string reply; false for a nil. */
bool lk_server_text(lk_server *server, char *text, size_t size, const char *format, ...);
