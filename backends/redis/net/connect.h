/* connect.h: from a configured host to a server that grants locks: dial.c reaches a host, handshake.c logs in, master.c finds the
 * master. */
#pragma once

#include "socket.h"

/* ---------------------------------------------------------------- dial.c ---- */

/* The host's name could not be looked up, or (LATE) not in time. */
void lk_redis_dial_unresolved(const lk_redis_target *t, const char *peer, lk_redis_resolved how, int rc,
                              lk_redis_failure *why);
/* A socket connected to one of a host's addresses, plain or TLS. *which: the one, which may have failed; their count if none was
 * reached. Blocks until *until, which is then when this one has to have logged in: it has an equal part of the time. */
lk_redis_socket *lk_redis_dial(const lk_redis_target *t, const char *host, const lk_redis_addresses *list,
                               size_t *which, const char *peer, int64_t *until, lk_redis_failure *why);
/* One connected to the target's Unix socket. */
lk_redis_socket *lk_redis_dial_unix(const lk_redis_target *t, int64_t until, lk_redis_failure *why);

/* ---------------------------------------------------------------- handshake.c ---- */

enum { LK_REDIS_SCRIPTS_MAX = 8, LK_REDIS_HASH_LEN = 40 };

/* Scripts that the server is given with the log-in. */
typedef struct {
    const char *const *text;
    size_t count;
    /* By which each is called; untouched where the server does not tell. NULL: not wanted. */
    char (*hash)[LK_REDIS_HASH_LEN + 1];
} lk_redis_scripts;

/* Log in, and learn what the server is. `master`: where its master is, if it is a replica or a Sentinel; else "".
 * `scripts`: NULL for one that needs neither them nor the server's time. Waits until `until`. */
bool lk_redis_handshake(const lk_redis_target *t, lk_redis_socket *socket, const lk_redis_scripts *scripts,
                        int64_t until, char master[LK_REDIS_PEER_MAX], lk_redis_failure *why);

/* ---------------------------------------------------------------- master.c ---- */

/* The server that a locker was connected to last. */
typedef struct {
    char peer[LK_REDIS_PEER_MAX]; /* "": to none yet */
    lk_redis_server server;
    lk_redis_address
        address;  /* used where the peer's name can't be looked up, by the same run of the server alone */
    unsigned via; /* the host of the target's list that led there, from 1 on; 0: none did */
} lk_redis_last;

/* Log in to a master, following replicas to theirs, or as Sentinels say. Ends at `until`, of which each host may take an equal part,
 * so that none that hangs hides the others; so may each address at which a connection comes up. `scripts`: NULL for a
 * subscription, which needs neither them nor the server's time. `redirect`: where to try first, or "". `last`: hosts of a list
 * before the one that led to it have a moment, and then that one has its part of the time; where no Sentinel can be asked it is
 * gone back to, if it is the same run and says that it is a master. NULL: there was none. */
lk_redis_socket *lk_redis_connect_master(const lk_redis_target *t, const char *redirect,
                                         const lk_redis_last *last, const lk_redis_scripts *scripts,
                                         int64_t until, lk_redis_failure *why);
/* The same with another master than the one at `peer`, which most of the Sentinels that answer have to name. NULL: there is
 * none. */
lk_redis_socket *lk_redis_connect_other(const lk_redis_target *t, const char *peer,
                                        const lk_redis_scripts *scripts, int64_t until);

/* Of a cluster: log in to the master at `peer`; "": to none. Where that can't be had, or is a replica by now, the others are
 * asked who has its slots. The `count` of them are asked before the target's hosts. *map: what was told, for the caller to
 * free; NULL: nothing. */
lk_redis_socket *lk_redis_connect_node(const lk_redis_target *t, const char *peer, const lk_redis_last *last,
                                       char (*others)[LK_REDIS_PEER_MAX], size_t count,
                                       const lk_redis_scripts *scripts, int64_t until, lk_redis_map **map,
                                       lk_redis_failure *why);
