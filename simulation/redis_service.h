/* redis_service.h: a simulated Redis server (redis/server.h) on the simulated network. */
#pragma once

#include "redis/server.h"
#include "world/network.h"

typedef struct lk_sim_redis lk_sim_redis;

struct lk_sim_redis {
    lk_sim_service service;
    lk_sim_process machine; /**< its clock */
    int64_t lead_ns;        /**< what its wall clock shows beyond what it would, had nobody set it */
    lk_sr_server *server;
    int64_t due;           /**< the event that is to come for it; INT64_MAX: none */
    lk_sim_redis *replica; /**< what it writes is carried there; NULL: it has none */
    struct lk_sr_link *link;
    bool carries; /**< something is on its way there */
    bool halts;   /**< nothing gets there, until it doesn't any more */
    /** Called before a message is sent there. A run sets this and the next two, and `loses`. */
    void (*tells)(lk_sim_connection *, const char *text);
    /** SET has put something there. */
    void (*puts)(const char *name);
    /** Its clock has been set, which ends that key. */
    void (*expires)(const char *name);
    /** A command that came over this connection was carried out. NULL: nobody wants to know. */
    void (*ran)(const lk_sim_redis *, const lk_sim_connection *, const lk_sr_text *argv, size_t argc,
                lk_sr_text answer);
    /** These commands of its are lost, as its replica that had not heard them is a master now. */
    void (*loses)(lk_sr_text commands);
};

/** Listens at host:6379 from now on. Its clock runs as `clock`'s; NULL: as is drawn. */
void lk_sim_redis_begin(lk_sim_redis *redis, const char *host, const lk_sim_redis *clock, uint64_t seed);
/** From now on it has a replica, which has all of its data. */
void lk_sim_redis_replicate(lk_sim_redis *master, lk_sim_redis *replica);
/** What had not got there is lost, and the replica is a master itself. */
void lk_sim_redis_promote(lk_sim_redis *master);
/** A stranger's request: what is answered, in `answer`. `is_asking`: another node of a cluster has sent the stranger here (ASK). */
void lk_sim_redis_ask(lk_sim_redis *redis, bool is_asking, unsigned argc, const char *const *argv,
                      char *answer, size_t room);
/** Its process is killed and starts again at once. */
void lk_sim_redis_restart(lk_sim_redis *redis, bool keeps_data);
/** It stood still, and goes on: what was due meanwhile is done. */
void lk_sim_redis_speaks(lk_sim_redis *redis);
/** Its wall clock, which keys expire by, is set forward by so much, or back. */
void lk_sim_redis_set_clock(lk_sim_redis *redis, int64_t by_ns);
/** Take note of the time, before it is asked for anything by hand. */
void lk_sim_redis_advance(lk_sim_redis *redis);
/** After something was done to its server by hand: what that has made to be sent is sent. */
void lk_sim_redis_settle(lk_sim_redis *redis);
/** Its replica has all of what it has written. */
void lk_sim_redis_catch_up(lk_sim_redis *master);
void lk_sim_redis_end(lk_sim_redis *redis);

/* ------------------------------------------------------------------ redis_steps.c ---- */

/** At the beginning of a run. */
void lk_sim_redis_steps_begin(lk_sim_redis *redis);
