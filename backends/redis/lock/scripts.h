/* scripts.h: the Lua that runs inside Redis. */
#pragma once

typedef enum {
    LK_REDIS_SCRIPT_ACQUIRE,
    LK_REDIS_SCRIPT_RELEASE,
    LK_REDIS_SCRIPT_RENEW,
    LK_REDIS_SCRIPT_WAIT,
    LK_REDIS_SCRIPT_SHOW,
    LK_REDIS_SCRIPT_BREAK,
    LK_REDIS_SCRIPTS_LOADED, /* by each handshake; the others when they are used for the first time (script_call.h) */
    LK_REDIS_SCRIPT_SHARED_ACQUIRE = LK_REDIS_SCRIPTS_LOADED,
    LK_REDIS_SCRIPT_SHARED_RELEASE,
    LK_REDIS_SCRIPT_SHARED_RENEW,
    LK_REDIS_SCRIPT_SHARED_SHOW,
    LK_REDIS_SCRIPT_SHARED_BREAK,
    LK_REDIS_SCRIPT_COUNT
} lk_redis_script;

extern const char *const lk_redis_script_text[LK_REDIS_SCRIPT_COUNT];
/* In a cluster. WAIT has one argument more there, the tag of its locks' slot. */
extern const char *const lk_redis_cluster_script_text[LK_REDIS_SCRIPT_COUNT];
extern const char *const lk_redis_note_text; /* asked for by EVAL alone */
