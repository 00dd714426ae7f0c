/* view.h: what a node knows of its cluster, for the files of this folder. */
#pragma once

#include "state.h"

/** A node as another one knows it. */
typedef struct {
    char id[LK_SR_ID_LEN + 1], host[LK_SR_HOST_MAX];
    int port;
    int master; /**< whose replica it is; -1: it is a master */
} lk_sr_peer;

struct lk_sr_view {
    lk_sr_peer peers[LK_SR_NODES_MAX];
    int count, myself;
    bool down;
    int8_t owner[LK_SR_SLOTS]; /**< as the next: which node; -1: none */
    int8_t migrating[LK_SR_SLOTS], importing[LK_SR_SLOTS];
    void (*tells)(void *context, lk_sr_text channel, lk_sr_text message, bool shard);
    void *context;
};
