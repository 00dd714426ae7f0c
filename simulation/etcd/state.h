/* state.h: what a simulated etcd and its members are made of, and what is to happen next; shared by the files below etcd.h. */
#pragma once

#include "apply.h"
#include "raft.h"

#define LK_SIMETCD_MS INT64_C(1000000)

/* ---------------------------------------------------------------- what happens ---- */

typedef enum {
    LK_SIMETCD_TICKS,
    LK_SIMETCD_EXPIRES, /* leases are looked at */
    LK_SIMETCD_SYNCS,   /* watches that are behind are told */
    LK_SIMETCD_ARRIVES, /* number: a request */
    LK_SIMETCD_IS_READY,
    LK_SIMETCD_WRITTEN,
    LK_SIMETCD_APPLIES, /* number: until that index */
    LK_SIMETCD_COMES    /* a message */
} lk_simetcd_what;

typedef struct {
    lk_list link;
    int64_t at;
    lk_simetcd_what what;
    int member, from;
    unsigned life; /* of the member; another one's doesn't happen */
    uint64_t number;
    lk_simetcd_message *message;
} lk_simetcd_event;

/* What a member has done, and what it has then: of `index` entries of the log. */
struct lk_simetcd_done {
    uint64_t request;
    lk_simetcd_kind kind;
    const ProtobufCMessage *message;
    const lk_simetcd_answer *answer;
    const lk_simetcd_store *store;
    int64_t index;
    bool expires; /* a lease whose time is over: none has asked */
    bool reads;   /* without the log */
};

/* ---------------------------------------------------------------- members ---- */

typedef enum {
    LK_SIMETCD_ARRIVING,
    LK_SIMETCD_BLOCKED,  /* no leader is known */
    LK_SIMETCD_PROPOSED, /* or forwarded */
    LK_SIMETCD_QUEUED,   /* a read: the next that is confirmed */
    LK_SIMETCD_READING,
    LK_SIMETCD_CONFIRMED /* until what was committed then is applied */
} lk_simetcd_stage;

typedef void (*lk_simetcd_done_fn)(void *context, const lk_simetcd_error *error,
                                   const ProtobufCMessage *message);

typedef struct {
    lk_list link; /* in its member's */
    uint64_t id;
    lk_simetcd_kind kind;
    lk_simetcd_stage stage;
    ProtobufCMessage *message; /* NULL: the log has it */
    bool expires;              /* none of a client's */
    int64_t began, until, index;
    lk_simetcd_done_fn done; /* NULL: nobody waits any more */
    void *context;
} lk_simetcd_request;

typedef struct {
    lk_simetcd *e;
    int id;
    unsigned life;
    bool running, stopped, serving;
    lk_simetcd_raft raft;
    lk_simetcd_store store;
    int lead;          /* as it goes by: what raft says is seen later */
    int64_t led_since; /* when it saw that */
    bool is_primary;   /* it expires leases */
    int64_t applied, applied_term, handed;
    bool is_roused;
    lk_list requests, streams;
    lk_list held; /* events, while it is stopped */

    uint64_t reads[8]; /* contexts of the read that waits to be confirmed */
    unsigned read_count;
    int64_t read_again, read_until;
    int64_t late_until; /* what it reads until then may be of before it stood still */

    /* its disk, and what is being written */
    int64_t disk_term, disk_commit;
    int disk_vote;
    lk_simetcd_log disk;
    bool writes, is_frozen, waits_for_disk;
    int64_t write_from, write_term, write_commit, write_hand;
    int write_vote;
    lk_simetcd_log writing;
    lk_list sends_behind; /* messages that go out when it is written */
} lk_simetcd_member;

struct lk_simetcd {
    lk_simetcd_setup setup;
    int64_t now;
    uint64_t serial; /* of requests */
    int64_t ended;   /* until that index expired leases were told of */
    int64_t done;    /* until that index what was carried out was told of */
    lk_list events;  /* in their order */
    lk_list clogged[LK_SIMETCD_MEMBERS_MAX][LK_SIMETCD_MEMBERS_MAX]; /* messages that wait */
    bool is_clogged[LK_SIMETCD_MEMBERS_MAX][LK_SIMETCD_MEMBERS_MAX];
    int64_t last_at[LK_SIMETCD_MEMBERS_MAX][LK_SIMETCD_MEMBERS_MAX]; /* when the last of a link comes */
    lk_simetcd_member members[LK_SIMETCD_MEMBERS_MAX];
};

/* What the member's clock shows; and how long a span of it takes. */
int64_t lk_simetcd_local(const lk_simetcd_member *m);
int64_t lk_simetcd_takes(const lk_simetcd_member *m, int64_t local_ns);
int64_t lk_simetcd_delay_of(const lk_simetcd *e, lk_simetcd_delay what, int member);
uint64_t lk_simetcd_draw(const lk_simetcd *e, uint64_t below);

/* It happens to the member as it is now, in so many ns. */
void lk_simetcd_post(lk_simetcd_member *m, lk_simetcd_what what, uint64_t number, int64_t in_ns);
/* It is on its way. */
void lk_simetcd_send(lk_simetcd *e, lk_simetcd_message *message);
/* Those that were held come now: a link's, or a stopped member's. */
void lk_simetcd_release(lk_simetcd *e, lk_list *held, int64_t most_ns);
void lk_simetcd_event_free(lk_simetcd_event *event);
/* Raft has something to be written or sent. */
void lk_simetcd_rouse(lk_simetcd_member *m);
