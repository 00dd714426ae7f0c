/* master.h: from what the configuration names to the server that grants locks. */
#pragma once

#include "handshake.h"

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
