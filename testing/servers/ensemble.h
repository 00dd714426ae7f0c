/* ensemble.h: three servers that agree (ZooKeeper's, etcd's), of which one leads. */
#pragma once

#include "servers/server.h"

enum { LK_ENSEMBLE = 3 };

/** Starts LK_ENSEMBLE members; they may not serve yet. `places` has one for each, or is NULL: all are here.
 * False: the error of the first that has one says why. */
bool lk_ensemble_start(lk_server *members, const lk_server_kind *kind, const lk_server_setup *setup,
                       const lk_place *places);

/** Waits until all serve. NULL; or the first that doesn't, with its error. */
const lk_server *lk_ensemble_await(lk_server *members);

/** The nth member, from 0, that is "leader" or "follower"; waits for one. NULL: none is. */
lk_server *lk_ensemble_find(lk_server *members, const char *mode, int nth);

/** The part of a URI that names all members: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3". Returns `text`. */
const char *lk_ensemble_hosts(const lk_server *members, char *text, size_t size);

/** Kills all of them and removes their directories. */
void lk_ensemble_remove(lk_server *members);
