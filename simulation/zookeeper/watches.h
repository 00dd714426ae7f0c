/* watches.h: who is told once what happens to nodes: of one server. A connection watches a path once, however often it
 * asks (WatchManager). */
#pragma once

#include "connection.h"

typedef struct {
    uint32_t hash;
    char *path;
    lk_simzk_connection *connection;
} lk_simzk_watch;

typedef struct {
    lk_simzk_watch *items;
    size_t count, room;
} lk_simzk_watch_list;

/* All zero: none. */
typedef struct {
    lk_simzk_watch_list data; /* of a node, or of its creation */
    lk_simzk_watch_list child;
    bool tells_zxid;
} lk_simzk_watches;

void lk_simzk_watches_add(lk_simzk_watch_list *list, const char *path, lk_simzk_connection *c);
/* False: it has none. */
bool lk_simzk_watches_remove(lk_simzk_watch_list *list, const char *path, const lk_simzk_connection *c);
/* Forget a connection. */
void lk_simzk_watches_drop(lk_simzk_watches *w, const lk_simzk_connection *c);
void lk_simzk_watches_free(lk_simzk_watches *w);

/* A node of which is told, and since which transaction, and who may read it. Who may not is told nothing, and his watch is
 * used up all the same (since 3.8.4 and 3.9.2, and in Debian's 3.8.0: CVE-2024-23944). */
typedef struct {
    const char *path;
    int64_t zxid; /* -1: not known */
    lk_simzk_acl acl;
} lk_simzk_watched;

/* Tell of a node's creation, deletion or new data, as the tree does; w NULL: nobody watches. */
void lk_simzk_watches_created(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
void lk_simzk_watches_deleted(lk_simzk_watches *w, lk_simzk_watched node, lk_simzk_watched parent);
void lk_simzk_watches_changed(lk_simzk_watches *w, lk_simzk_watched node);
/* Tell one connection. */
void lk_simzk_watches_tell(lk_simzk_connection *c, int32_t type, const char *path, int64_t zxid);
