/* serve.h: clients' requests at a member: proposals, reads that a majority confirms, and what is applied, which answers them; and
 * leases, which a leader expires by its own clock. */
#pragma once

#include "state.h"

/* A header says who answers, and of which term. */
void lk_simetcd_sign(const lk_simetcd_member *m, LkEtcdPb__Header *header);

/* A request has come; the message is the member's then. `done` is called once, unless the request is forgotten, or the member ends.
 * Returns its number. */
uint64_t lk_simetcd_ask(lk_simetcd_member *m, lk_simetcd_kind kind, ProtobufCMessage *message,
                        lk_simetcd_done_fn done, void *context);
/* Nobody waits for its answer any more. */
void lk_simetcd_forget_request(lk_simetcd_member *m, uint64_t id);

/* What happens to a member (state.h). */
void lk_simetcd_arrives(lk_simetcd_member *m, uint64_t id);
void lk_simetcd_applies(lk_simetcd_member *m, int64_t until);
/* What raft has said: who leads, and which reads are confirmed. */
void lk_simetcd_sees_leader(lk_simetcd_member *m);
void lk_simetcd_sees_reads(lk_simetcd_member *m);
/* Each tick: what has waited for too long, and what waits for a leader. */
void lk_simetcd_looks_after(lk_simetcd_member *m);
void lk_simetcd_expires(lk_simetcd_member *m);
/* About a lease, between members. */
void lk_simetcd_asked_of_lease(lk_simetcd_member *m, const lk_simetcd_message *message);
void lk_simetcd_told_of_lease(lk_simetcd_member *m, const lk_simetcd_message *message);
/* All that it was asked is lost. */
void lk_simetcd_requests_free(lk_simetcd_member *m);
