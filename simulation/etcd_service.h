/* etcd_service.h: a simulated etcd (etcd/etcd.h) on the simulated network. What its members tell each other, write and apply takes
 * times that are drawn, and may be held up. */
#pragma once

#include "etcd/etcd.h"
#include "world/network.h"

typedef struct lk_sim_etcd lk_sim_etcd;

typedef struct {
    lk_sim_etcd *of;
    int id;
    char host[32];
    bool slow; /* to write and to apply */
    lk_sim_service service;
} lk_sim_etcd_member;

struct lk_sim_etcd {
    int count;
    lk_sim_etcd_member members[LK_SIMETCD_MEMBERS_MAX];
    lk_simetcd *etcd;
    struct lk_sim_etcd_session *first;
    /** A member sends something to a client. NULL: nobody asks. */
    void (*on_answer)(lk_sim_etcd_member *member);
    /** A lock's key is about to be removed, because its lease has expired. NULL: nobody asks. */
    void (*on_ended)(uint64_t token);
    /** A request has come over the connection, and has that number. NULL: nobody asks. */
    void (*on_asked)(const lk_sim_connection *connection, uint64_t request);
    /** Something was carried out. NULL: nobody asks. */
    void (*on_done)(const lk_simetcd_done *done);
    const struct lk_sim_etcd_session *reads; /**< whose bytes are being read */
    bool answers;                            /**< some wait to be sent */
    int64_t due;                             /**< the event that is to come for it; INT64_MAX: none */
};

/** Listen at etcd1.example:2379 and so on, from now on. `reads_late`: members that stood still may read what was before. */
void lk_sim_etcd_begin(lk_sim_etcd *etcd, int members, int tick_ms, bool reads_late);
void lk_sim_etcd_end(lk_sim_etcd *etcd);

/** A member stands still, as by SIGSTOP; and goes on. */
void lk_sim_etcd_stop(lk_sim_etcd *etcd, int member);
void lk_sim_etcd_continue(lk_sim_etcd *etcd, int member);
/** Its process is killed; written: what is being written gets to its disk. Then nobody listens until it starts again. */
void lk_sim_etcd_kill(lk_sim_etcd *etcd, int member, bool written);
void lk_sim_etcd_start(lk_sim_etcd *etcd, int member, bool with_data);
/** What is on the way between two members is lost. */
void lk_sim_etcd_break(lk_sim_etcd *etcd, int one, int other);
/** What one member sends another one waits, or goes on. */
void lk_sim_etcd_clog(lk_sim_etcd *etcd, int from, int to, bool clogged);
/** A member's disk writes nothing, or does again. */
void lk_sim_etcd_freeze(lk_sim_etcd *etcd, int member, bool frozen);
/** All but the last so many revisions are forgotten. */
void lk_sim_etcd_forget(lk_sim_etcd *etcd, int64_t revisions);
/** The processes that are connected with a member; returns how many, at most `room`. */
size_t lk_sim_etcd_clients(const lk_sim_etcd *etcd, int member, lk_sim_process **clients, size_t room);
