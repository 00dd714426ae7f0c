/* connect.h: from a configured host to a server that grants locks: dial.c reaches a host, handshake.c logs in, master.c finds the
 * master. */
#pragma once

#include "socket.h"

/* ---------------------------------------------------------------- dial.c ---- */

/* Say in `why` that the host's name has no address, or (LATE) was not resolved in time. */
void lk_redis_dial_unresolved(const lk_redis_target *t, const char *peer, lk_redis_resolved how, int rc,
                              lk_redis_failure *why);
/* Connect a socket, plain or TLS, to one of the host's addresses. *which: the address, which may have
 * failed; their count if none was reached. Blocks until *until at most. Then *until is when the login must
 * be done, which has an equal part of the time. */
lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const lk_redis_addresses *list,
                               size_t *which, const char *peer, int64_t *until, lk_redis_failure *why);
/* Connect a socket to the target's Unix socket. */
lk_redis_socket *lk_redis_dial_unix(const lk_redis_target *t, int64_t until, lk_redis_failure *why);

/* ---------------------------------------------------------------- handshake.c ---- */

enum { LK_REDIS_SCRIPTS_MAX = 8, LK_REDIS_HASH_LEN = 40 };

/* Scripts that the login loads into the server. */
typedef struct {
    const char *const *text;
    size_t count;
    /* the hashes by which they are called; unchanged if the server does not send them. NULL: not wanted */
    char (*hash)[LK_REDIS_HASH_LEN + 1];
} lk_redis_scripts;

/* Log in, and learn the server's state. `master`: the address of its master, if the server is a replica or
 * a Sentinel; else "". `scripts`: NULL if neither scripts nor the server's time are needed. Blocks until
 * `until` at most. */
bool lk_redis_handshake(const lk_redis_target *t, lk_redis_socket *socket, const lk_redis_scripts *scripts,
                        int64_t until, char master[LK_REDIS_PEER_MAX], lk_redis_failure *why);

/* ---------------------------------------------------------------- master.c ---- */

/* The server to which a locker was connected last. */
typedef struct {
    char peer[LK_REDIS_PEER_MAX]; /* "": there was none */
    lk_redis_server server;
    lk_redis_address
        address;  /* used if the peer's name cannot be resolved, and only for the same run of the server */
    unsigned via; /* the host in the target's list that led there, from 1 on; 0: none */
} lk_redis_last;

/* Log in to a master, following replicas to theirs, or as Sentinels say. Ends at `until`, of which each host may take an equal part,
 * so that none that hangs hides the others; so may each address at which a connection comes up. `scripts`: NULL for a
 * subscription, which needs neither them nor the server's time. `redirect`: where to try first, or "". `last`: hosts of a list
 * before the one that led to it have a moment, and then that one has its part of the time; where no Sentinel can be asked it is
 * gone back to, if it is the same run and says that it is a master. NULL: there was none. */
lk_redis_socket *lk_redis_connect_master(const lk_redis_target *t, const char *redirect,
                                         const lk_redis_last *last, const lk_redis_scripts *scripts,
                                         int64_t until, lk_redis_failure *why);
/* Log in to another master than `peer`. Most of the Sentinels that answer must name it. NULL: there is
 * none. */
lk_redis_socket *lk_redis_connect_other(const lk_redis_target *t, const char *peer,
                                        const lk_redis_scripts *scripts, int64_t until);

/* Of a cluster: log in to the master at `peer` ("": to none). If this fails, or `peer` is a replica by
 * now, ask other servers for the map of the slots: first the `count` others, then the target's hosts.
 * *map: the map, for the caller to free; NULL: none came. */
lk_redis_socket *lk_redis_connect_node(const lk_redis_target *t, const char *peer, const lk_redis_last *last,
                                       char (*others)[LK_REDIS_PEER_MAX], size_t count,
                                       const lk_redis_scripts *scripts, int64_t until, lk_redis_map **map,
                                       lk_redis_failure *why);
