/* role.c: whether a server is a master or a replica; see replication.h. */
#include <stdio.h>

#include "call.h"
#include "replication.h"
#include "stream.h"

void lk_sr_follow(lk_sr_server *replica, const char *host, int port)
{
    (void)snprintf(replica->master.host, sizeof replica->master.host, "%s", host);
    replica->master.port = port;
    replica->master.linked = false;
    lk_sr_stream_detach_all(replica);
    lk_sr_clients_unblock(replica);
}

void lk_sr_lose_master(lk_sr_server *replica)
{
    replica->master.linked = false;
}

void lk_sr_promote(lk_sr_server *replica)
{
    if (!lk_sr_is_replica(replica))
        return;
    replica->master = (lk_sr_master){.port = 0};
    lk_sr_draw_id(replica, replica->replication_id);
}
