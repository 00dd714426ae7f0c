/* call.h: requests on their way through servers. */
#pragma once

#include "connection.h"
#include "txn.h"

/* A request as it was sent, and by whom; shared by the servers that it passes. */
typedef struct {
    unsigned refs;
    lk_simzk_request request;
    lk_simzk_acl ids; /* what its client had logged in as when it was read */
    lk_simzk_arena arena;
} lk_simzk_body;

/* What a server asks itself or the leader, beside what clients do. */
typedef enum {
    LK_SIMZK_CALL_CLIENT, /* the body says what */
    LK_SIMZK_CALL_CREATE_SESSION,
    LK_SIMZK_CALL_CLOSE_SESSION,
    LK_SIMZK_CALL_DELETE_CONTAINER
} lk_simzk_call_kind;

/* A request in one server. */
typedef struct {
    lk_list link;
    lk_simzk_call_kind kind;
    lk_simzk_connection *connection; /* NULL: nobody here waits for the answer */
    int64_t session;
    int32_t timeout_ms; /* of a session that is created */
    uint64_t
        owner; /* whose session it is: the leader itself, or one connection of a follower. 0: nobody says */
    lk_simzk_body *body;  /* NULL: it has none */
    const char *path;     /* of a container; the transaction's memory, or the tree's while it is prepared */
    lk_simzk_error error; /* that a read was refused with */
    lk_simzk_txn *txn;    /* what became of it; NULL: nothing, yet */
    bool waits;           /* for a commit */
} lk_simzk_call;

lk_simzk_body *lk_simzk_body_new(const lk_simzk_request *request);
void lk_simzk_body_unref(lk_simzk_body *body);

lk_simzk_call *lk_simzk_call_new(lk_simzk_call_kind kind, lk_simzk_connection *c, int64_t session,
                                 lk_simzk_body *body);
void lk_simzk_call_free(lk_simzk_call *call);
/* Those of a list. */
void lk_simzk_calls_free(lk_list *calls);
/* What a client asks for; for a session that is closed alike, whoever wants that. */
lk_simzk_kind lk_simzk_call_asks(const lk_simzk_call *call);
/* The number of the request; 0: it has none. */
int32_t lk_simzk_call_xid(const lk_simzk_call *call);
/* Whether the leader has to order it, and it becomes a transaction. */
bool lk_simzk_call_writes(const lk_simzk_call *call);
