/* etcd_service.h: a simulated etcd (etcd/etcd.h) on the simulated network. What its members tell each other, write and apply takes
 * times that are drawn, and may be held up. */
#pragma once

#include "etcd/etcd.h"
#include "servers.h"

typedef struct {
    int id;
    char host[32];
    bool slow; /* to write and to apply */
    lk_sim_service service;
} lk_sim_etcd_member;

typedef struct {
    int count;
    lk_sim_etcd_member members[LK_SIMETCD_MEMBERS_MAX];
    lk_simetcd *etcd;
    struct lk_sim_etcd_session *first;
    /** A member sends something to a client. NULL: nobody asks. */
    void (*on_answer)(int member, bool was_quiet);
    /** A lock's key is about to be removed, because its lease has expired. NULL: nobody asks. */
    void (*on_ended)(uint64_t token);
    /** A request has come over the connection, and has that number. NULL: nobody asks. */
    void (*on_asked)(const lk_sim_connection *connection, uint64_t request);
    /** Something was carried out. NULL: nobody asks. */
    void (*on_done)(const lk_simetcd_done *done);
    const struct lk_sim_etcd_session *reads; /**< whose bytes are being read */
    bool answers;                            /**< some wait to be sent */
    int64_t due;                             /**< the event that is to come for it; INT64_MAX: none */
} lk_sim_etcd;

extern const lk_sim_servers lk_sim_etcd_servers;

/** Listen at etcd1.example:2379 and so on, from now on. `reads_late`: members that stood still may read what was before. */
lk_sim_etcd *lk_sim_etcd_begin(int members, int tick_ms, bool reads_late);
void lk_sim_etcd_end(void);
/** All but the last so many revisions are forgotten. */
void lk_sim_etcd_forget(int64_t revisions);

/* ------------------------------------------------------------------ etcd_steps.c ---- */

/** At the beginning of a run. */
void lk_sim_etcd_steps_begin(lk_sim_etcd *etcd);
