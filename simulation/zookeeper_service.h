/* zookeeper_service.h: a simulated ZooKeeper ensemble (zookeeper/zookeeper.h) on the simulated network. What its servers
 * tell each other, write and apply takes times that are drawn, and may be held up. */
#pragma once

#include "servers.h"
#include "zookeeper/zookeeper.h"

enum { LK_SIM_ZOOKEEPER_MOST = LK_SIM_SERVERS_MOST, LK_SIM_ZOOKEEPER_TICK_MS = 200 };

typedef struct lk_sim_zookeeper lk_sim_zookeeper;

/** What goes from one server to another; of LK_SIMZK_DISK and LK_SIMZK_APPLY: in one. */
typedef struct {
    lk_simzk_link link;
    bool clogged; /**< what is on it waits */
    bool slow;
} lk_sim_zookeeper_link;

typedef struct {
    int id;
    char host[32];
    lk_sim_service service;
} lk_sim_zookeeper_server;

struct lk_sim_zookeeper {
    int count;
    lk_sim_zookeeper_server servers[LK_SIM_ZOOKEEPER_MOST];
    lk_sim_zookeeper_link links[LK_SIMZK_CHANNELS][LK_SIM_ZOOKEEPER_MOST][LK_SIM_ZOOKEEPER_MOST];
    lk_simzk *ensemble;
    struct lk_sim_zookeeper_session *first;
    /** It sends something to a client; was_quiet: from which nothing had come for long. NULL: nobody asks. */
    void (*on_answer)(int server, bool was_quiet);
    /** A server is about to remove a lock's node, because its session has ended. NULL: nobody asks. */
    void (*on_ended)(uint64_t token);
    /** A message between two servers is late. Two such delays may keep an answer back for an eighth of a session's time-out, and then
     * the client leaves its server. May be NULL. */
    void (*on_late)(int64_t span_ns);
    /** Something may have changed at the servers; a client's request has arrived; and it is answered, by what ends behind so many bytes
     * of what is sent there next (zookeeper_steps.c). NULL, all or none: nobody asks. */
    void (*on_settled)(const lk_sim_zookeeper *zookeeper);
    void (*on_asked)(lk_sim_connection *connection, int64_t session, const lk_simzk_request *request);
    void (*on_answered)(lk_sim_connection *connection, int64_t session, const lk_simzk_answer *answer,
                        lk_simzk_kind asked, size_t end);
    bool answers;           /**< some wait to be sent */
    int64_t due;            /**< the event that is to come for it; INT64_MAX: none */
    int64_t timeless_until; /**< what is due waits: servers that stood still read first */
};

extern const lk_sim_servers lk_sim_zookeeper_servers;

/** Listen at zk1.example:2181 and so on, from now on. */
lk_sim_zookeeper *lk_sim_zookeeper_begin(int servers);
void lk_sim_zookeeper_end(void);

/* ------------------------------------------------------------------ zookeeper_steps.c ---- */

/** At the beginning of a run. */
void lk_sim_zookeeper_steps_begin(lk_sim_zookeeper *zookeeper);
