/* run_servers.h: the faults of a service whose servers, one or three, agree with each other: ZooKeeper's and etcd's. They strike
 * the servers and what is between them. See run.h. */
#pragma once

#include "run.h"
#include "servers.h"

typedef struct {
    const lk_sim_servers *servers;
    int count;
    bool forgets; /**< a server may lose its data: only one that is alone, because the others keep theirs */
    bool loses;   /**< half of the servers that were cut off lose what was on the way meanwhile */
    int64_t settle_ns;  /**< nothing is expected in time for so long after a server did not serve */
    int64_t session_ns; /**< the time-out of sessions; 0: there are none */
    int64_t look_ns;    /**< the time between two looks at the servers */
    void (*look)(void); /**< called by each look; NULL: nothing more to look at */
} lk_sim_servers_run;

/** To be called when the servers run. */
void lk_sim_servers_begin(const lk_sim_servers_run *of);
/** A server sends something to a client; was_quiet: from which nothing had come for long. */
void lk_sim_servers_answer(int server, bool was_quiet);

/** The functions of lk_sim_faulty. */
lk_sim_service *lk_sim_servers_service(unsigned server);
bool lk_sim_servers_make(const lk_sim_fault *fault);
void lk_sim_servers_settle(void);
const char *lk_sim_servers_left(void);
