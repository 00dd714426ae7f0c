/*
 * zkclient.h: a second ZooKeeper client for tests, which does things behind the library's back. It speaks the
 * wire protocol by itself, one request at a time, and shares nothing with the client library under the
 * driver. It sends no pings: its session is long instead.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "test_servers.h"

typedef struct lk_zkc lk_zkc;

/** What requests answer: the server's numbers. */
enum { LK_ZKC_OK = 0, LK_ZKC_NONODE = -101, LK_ZKC_NOAUTH = -102, LK_ZKC_NODEEXISTS = -110 };

/** Kinds of nodes. */
enum { LK_ZKC_PLAIN = 0, LK_ZKC_EPHEMERAL = 1, LK_ZKC_EPHEMERAL_SEQUENTIAL = 3, LK_ZKC_CONTAINER = 4 };

enum { LK_ZKC_CHILDREN_MAX = 512, LK_ZKC_NAME_MAX = 320 };

typedef struct {
    int64_t czxid;
    int64_t session; /* of an ephemeral node; else 0 */
    int children;
} lk_zkc_stat;

/** The names of a node's children, sorted by the number at their end. */
typedef struct {
    size_t count;
    char names[LK_ZKC_CHILDREN_MAX][LK_ZKC_NAME_MAX];
} lk_zkc_children;

/** Connects with a session of its own. Fails the test when it can't. */
lk_zkc *lk_zkc_open(const lk_server *zk);

/** The same with a session of that time-out, which the caller has to keep alive by pings. */
lk_zkc *lk_zkc_open_for(const lk_server *zk, int session_ms);

/** A ping, as client libraries send them; false when the server has ended the session or the connection. */
bool lk_zkc_ping(lk_zkc *client);

/** Waits until some member of the ensemble has a write agreed by the majority. */
void lk_zkc_require_majority(const lk_server *members);

/** Closes the session. NULL is allowed. */
void lk_zkc_close(lk_zkc *client);

/** Closes the connection without a word; the session goes on for its minute. NULL is allowed. */
void lk_zkc_drop(lk_zkc *client);

/** Ends somebody else's session, as an operator would: a client that connects with the same id closes it. */
void lk_zkc_end_session(const lk_server *zk, int64_t session);

/** Takes somebody else's session over on another server and leaves it there: from then on the leader holds
 * that server for the session's own. */
void lk_zkc_move_session(const lk_server *zk, int64_t session);

/** Each answers LK_ZKC_OK or the server's number, and fails the test when there is no answer. */
int lk_zkc_create(lk_zkc *client, const char *path, const char *data, int kind,
                  char made[LK_ZKC_NAME_MAX]); /**< made: its path; NULL allowed */
int lk_zkc_delete(lk_zkc *client, const char *path);
int lk_zkc_set(lk_zkc *client, const char *path, const char *data);
int lk_zkc_get(lk_zkc *client, const char *path, char *data, size_t size,
               lk_zkc_stat *stat); /**< data and stat: NULL allowed */
int lk_zkc_list(lk_zkc *client, const char *path, lk_zkc_children *children);
int lk_zkc_login(lk_zkc *client, const char *user_and_password);

/** Deletes every node below that one; false when one can't be. */
bool lk_zkc_clear(lk_zkc *client, const char *path);

/** How many children the node has; 0 when there is no node. */
size_t lk_zkc_count(lk_zkc *client, const char *path);

/** Waits until the node has that many children; fails the test when it never has. */
void lk_zkc_require_count(lk_zkc *client, const char *path, size_t count);

/** The path of the nth child in order, from 0; fails the test when there is none. */
void lk_zkc_nth(lk_zkc *client, const char *path, size_t nth, char child[LK_ZKC_NAME_MAX]);
