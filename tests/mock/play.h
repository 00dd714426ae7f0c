/* play.h: a random script and its steps; random.c runs it, play.c has the steps. */
#pragma once

#include <pthread.h>
#include <stdio.h>

#include <locker/mock.h>

#include "model.h"

enum { CALLS = 6, PATIENCE_MS = 20000, TTL_MS = 30000 };

/* A lock call on a thread of its own. */
typedef struct {
    bool used;
    pthread_t thread;
    int host, key;
    uint64_t number; /* in the order of beginning */
    bool enrolled;   /* the service surely heard of it when it began, so it has its place */
    int64_t began;
    locker *l;
    locker_lock_options options;
    /* set by the thread before `done` */
    locker_status status;
    locker_handle *held;
    _Atomic bool done;
} call;

typedef struct {
    uint64_t seed, random, numbers;
    bool verbose;
    locker_mock_options options;
    locker_mock *mock;
    locker *lockers[MODEL_HOSTS];
    locker_cancel *cancel;
    call calls[CALLS];
    int32_t permits[MODEL_KEYS]; /* how each key is used, but for a few calls; 0: as a lock */
    model model;
} script;

/* Tell what is done, when it is wanted. */
#define note(s, ...)                                                                                         \
    do {                                                                                                     \
        if ((s)->verbose) {                                                                                  \
            (void)printf("%9lld  ", (long long)play_now(s));                                                 \
            (void)printf(__VA_ARGS__);                                                                       \
            (void)putchar('\n');                                                                             \
        }                                                                                                    \
    } while (0)

/* A number from 0 up to, not including, `below`. */
uint64_t play_draw(script *s, uint64_t below);

/* The mock's time, ms. */
int64_t play_now(const script *s);

/* Open the locker of that number. */
void play_open_host(script *s, int host);

/* Wait until all calls stand waiting or have answered, and have the model look. */
void play_settle(script *s);

/* One step, chosen by the script's numbers, and the model's judgement. */
void play_step(script *s);
