/*
 * redis_pair.h: a real redis-server and the simulated one, side by side, at the same time of the same clock:
 * what is sent to both has to be answered with the same bytes, on every connection.
 */
#pragma once

#include "servers/redis.h"
#include "simulation/redis/server.h"

enum { PAIR_CONNECTIONS = 3 };

typedef struct {
    int fd;
    lk_sr_client *client;
    bool over; /* both servers have closed it */
} redis_connection;

typedef struct redis_pair {
    lk_server real;
    const struct redis_pair *beside; /* whose clock it has; NULL: it has its own */
    bool is_node;                    /* of a cluster */
    const char *options[64];
    int control;    /* a connection to the real one alone, of a user whom nothing concerns */
    int64_t *clock; /* the real one's, in us */
    char page[LK_SCRATCH_PATH + 16];
    bool is_valkey; /* the real one */
    lk_sr_server *simulated;
    int64_t base_us; /* the clock when the simulated one was made */
    redis_connection connections[PAIR_CONNECTIONS];
    char wrong[256];           /* what was found different; "": nothing yet */
    uint64_t told;             /* messages that the driver's scripts sent, of the last comparison */
    lk_sr_bytes expected, got; /* of that */
} redis_pair;

/** Starts the real one. False: pair->wrong says why. */
bool pair_start(redis_pair *pair);
void pair_stop(redis_pair *pair);

/** The same for a node of a cluster: at the clock of `beside` (NULL: the first one), which is stopped after it, and with
 * more options, static text. */
bool pair_start_node(redis_pair *pair, const redis_pair *beside, const char *const *options);

/** A command for the real one alone, by a connection of its own, and its short answer; an error fails. */
bool pair_command(redis_pair *pair, const char *line, char *answer, size_t size);

/** Whether the real one is not of the release that the simulated one answers as, in all, which it says: then
 * they are compared in what locks ask of it, which every release answers alike. */
bool pair_is_of_another_release(const redis_pair *pair);

/** Starts another real one at the same clock. */
bool pair_start_another(redis_pair *pair, lk_server *server);

/** A connection to a real one; -1: none. */
int pair_connect(const lk_server *server);

/** Whether a real one answers the same as a simulated one, on connections of the caller's. */
bool pair_answers_agree(redis_pair *pair, int fd, lk_sr_client *client, lk_sr_text request);

/** Whether the replica of the real one has all that was written. */
bool pair_is_replicated(redis_pair *pair);

/** Two servers without keys, users, scripts and faults, at that time of their clock, and fresh connections to
 * them. */
bool pair_begin(redis_pair *pair, uint64_t seed, int64_t clock_us);
void pair_end(redis_pair *pair);

/** Sends the bytes to both, to the simulated one in pieces, the first of that length; `planted` instead, when
 * that is not empty. */
bool pair_send(redis_pair *pair, int connection, lk_sr_text bytes, lk_sr_text planted, size_t piece);

/** So many us pass, but no more than until the simulated one does something by itself: of two things that
 * have become due the real one does either first. Answers how many; below 0: pair->wrong says why. */
int64_t pair_advance(redis_pair *pair, int64_t us);

/** The clock has gone on, by another pair's pair_advance(). */
bool pair_follow(redis_pair *pair);

/** Whether the simulated one's INFO tells of nothing that the real one's doesn't, and the same but for
 * ids. */
bool pair_info_agrees(redis_pair *pair);

/** Whether the real one closes and says exactly what the simulated one does; else pair->wrong says what. */
bool pair_agrees(redis_pair *pair);
