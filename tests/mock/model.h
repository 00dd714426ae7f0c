/*
 * model.h: what the interface promises, as states: the judge of random scripts. It is written from locker.h
 * alone and knows nothing of how the mock or core work.
 *
 * The driver of a script (random.c) tells it what it has done and what was answered; the model says what is
 * wrong. Safety is judged always: one live holder a key, or such as may hold it together, tokens that grow, LOST
 * that never revives, the answers of unlock. What must happen (a free lock is given, a renewed lease stays) is judged while the
 * script is calm, that is when nothing has gone wrong for as long as the longest lease.
 */
#pragma once

#include <locker/locker.h>
#include <stdatomic.h>

enum { MODEL_KEYS = 3, MODEL_HOSTS = 3, MODEL_HANDLES = 64, MODEL_TEXT = 400, MODEL_PERMITS = 3 };

/* Ways to hold a key: alone, shared, and each slot of each number of permits. */
enum { MODEL_WAYS = 2 + MODEL_PERMITS * MODEL_PERMITS };

/** A handle, as its user sees it. */
typedef struct {
    locker_handle *held; /* NULL: no handle yet */
    bool taken;          /* a call or a handle has this place */
    int key, host;
    locker_mode mode;
    int32_t permits, slot;
    const char *owner; /* that may enter again; NULL: none */
    uint64_t token;
    int64_t began_ms, granted_ms; /* the grant came between */
    int64_t ttl_ms;
    bool renewed;
    bool unlocked; /* unlock was called, or the locker closed */
    bool closed;   /* the locker was closed before */
    int64_t
        overtaken; /* since when a greater token is given to one that can't hold it beside, ms; 0: none is */
    bool robbed;   /* the service may have given the lock away without being able to tell */
    locker_state seen; /* when last looked at */
    _Atomic int told;  /* calls of on_lost */
} model_handle;

typedef struct {
    model_handle handles[MODEL_HANDLES];
    uint64_t last_token[MODEL_KEYS][MODEL_WAYS]; /* the greatest that was given out so */
    int64_t stranger_until[MODEL_KEYS];          /* somebody else may hold it so long, ms, */
    bool stranger_shares[MODEL_KEYS];            /* and as a reader */
    bool mixed[MODEL_KEYS];                      /* the key has been asked for in more than one way */
    bool cut[MODEL_HOSTS];
    bool open[MODEL_HOSTS];
    bool leases;            /* locks end unless they are confirmed */
    bool faults;            /* some may be pending */
    bool thieves;           /* some may take locks away */
    int64_t disturbed;      /* when something last went wrong, ms */
    char wrong[MODEL_TEXT]; /* the first thing that is wrong; empty: nothing */
} model;

/** The greatest token that was given out for the key. */
uint64_t model_last_token(const model *m, int key);

/** Something goes wrong now, on purpose. */
void model_disturb(model *m, int64_t now);

/** Whether nothing has gone wrong for long, and nothing can by itself. */
bool model_is_calm(const model *m, int64_t now);

/** The lock on a key, or with key -1 all of a host's (host -1: of all), is taken away at the service. */
void model_rob(model *m, int key, int host);

/** A token was given out for the key, to a stranger. */
void model_stranger(model *m, int key, locker_mode mode, uint64_t token, int64_t now);

/** A lock call has answered. NULL: it gave no handle, or none was left for it. `began`: when it was made; `others`: others wait
 * for the key. */
model_handle *model_lock_answered(model *m, int host, int key, const locker_lock_options *options,
                                  bool others, locker_status status, locker_handle *held, int64_t began,
                                  int64_t now);

/** An unlock has answered. Look at the handles (model_look()) before it. */
void model_unlock_answered(model *m, model_handle *h, locker_status status, int64_t now);

void model_host_closed(model *m, int host);

/** Look at all handles, at rest. */
void model_look(model *m, int64_t now);

/** Whether a handle of the key lives, or a stranger may hold it. */
bool model_is_held(const model *m, int key, int64_t now);

/** How many hold the key, of those who ride together one. */
size_t model_holders(const model *m, int key, int64_t now);

/** Whether nobody who may hold the key now keeps such a call from holding it too. */
bool model_has_room(const model *m, int key, const locker_lock_options *options, int64_t now);

/** A place for a handle; its address is the `user` of the lock call. NULL: all are taken. */
model_handle *model_place(model *m);

/** Note what is wrong, if it is the first. */
void model_wrong(model *m, const char *format, ...) __attribute__((format(printf, 2, 3)));
