/* render.h: answers as texts that are equal when a real and a simulated server have said the same: zxids
 * count from the sequence's first one, sessions have the order of their beginnings, and a time is that of its
 * zxid, or it is not. */
#pragma once

#include "simulation/zookeeper/zookeeper.h"

enum { RENDER_SESSIONS_MAX = 64, RENDER_ZXIDS_MAX = 1024, RENDER_TEXT = 8192 };

/* One side. All zero: nothing said yet. */
typedef struct {
    int64_t first; /* zxid; 0: none yet */
    int64_t sessions[RENDER_SESSIONS_MAX];
    size_t session_count;
    int64_t times[RENDER_ZXIDS_MAX]; /* by zxid; 0: not known */
} render_side;

/* Returns `text`, which has RENDER_TEXT bytes. answer NULL: the connection is closed. */
const char *render(render_side *side, const lk_simzk_answer *answer, char *text);
