/* watch.h: streams of watches at a member, which is told of each event that it has applied. */
#pragma once

#include "state.h"

typedef struct {
    lk_list link; /* in its stream */
    int64_t id, from;
    lk_simetcd_span span;
    void *text; /* what the span points to */
    bool no_put, no_delete;
    bool synced;    /* it has been told of all that there is */
    bool compacted; /* it was told so, and is told nothing more */
} lk_simetcd_watcher;

typedef struct {
    lk_list link; /* in its member's; all zero: the member has ended */
    lk_simetcd_member *m;
    lk_list watchers;
    int64_t next_id;
    bool wants_leader;
    int64_t leaderless_since; /* INT64_MAX: it has one */
    void (*tell)(void *context, const LkEtcdPb__Watched *told);
    void (*end)(void *context, const lk_simetcd_error *error);
    void *context;
} lk_simetcd_stream;

void lk_simetcd_stream_init(lk_simetcd_stream *stream, lk_simetcd_member *m);
void lk_simetcd_stream_free(lk_simetcd_stream *stream);
/* A client has sent that. */
void lk_simetcd_watch(lk_simetcd_stream *stream, const LkEtcdPb__Watch *asked);
/* The store has become what it is since that place in its events. */
void lk_simetcd_notify(lk_simetcd_member *m, size_t from_event);
/* Those that are behind are told what there is. */
void lk_simetcd_sync(lk_simetcd_member *m);
/* Streams that want a leader, and have had none for long, end. */
void lk_simetcd_watch_leader(lk_simetcd_member *m);
