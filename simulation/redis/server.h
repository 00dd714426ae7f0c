/*
 * server.h: a Redis server (as 7.0 answers) that is nothing but a state: bytes of requests go in, bytes of answers come out, and
 * time is what it is told. It has no thread, no socket, no clock and no randomness of its own, so the same calls
 * give the same bytes. A restart, a replica that lags behind and a failover are calls too (replication.h).
 *
 * What it has is what the Redis driver and its rivals on the same key use, with the texts that a real server answers:
 * simulation/tests/ compares the two. It has no RESP 3, no transactions, no blocking but WAIT and CLIENT PAUSE, and
 * scripts without flags, without cjson, cmsgpack, struct and bit.
 */
#pragma once

#include <stdint.h>

#include "bytes.h"

typedef struct lk_sr_server lk_sr_server;

/** A connection, on the server's side. */
typedef struct lk_sr_client lk_sr_client;

/** What a server is made with. */
typedef struct {
    uint64_t seed;        /**< of its run id and its replication id */
    const char *host;     /**< how others are told to reach it; copied */
    int port;             /**< likewise */
    int64_t clock_ns;     /**< what its clock shows at time 0, since 1970 */
    int64_t first_client; /**< the number of its first connection; 0: 1 */

    /** Something is to be fetched from the connection, or it was closed; called in the midst of other calls, so it
     * may note that and do no more. NULL: who uses it looks by himself. */
    void (*ready)(void *context, lk_sr_client *client);
    /** SET has put something there; likewise. */
    void (*put)(void *context, lk_sr_text name);
    /** A client's command was carried out, with this answer. NULL: nobody wants to know. */
    void (*ran)(void *context, lk_sr_client *client, const lk_sr_text *argv, size_t argc, lk_sr_text answer);
    void *context;
} lk_sr_setup;

lk_sr_server *lk_sr_new(const lk_sr_setup *setup);

/** Frees it with all its connections. NULL is allowed. */
void lk_sr_free(lk_sr_server *server);

/* ------------------------------------------------------------------ time ---- */

/** It is `now`, which never goes back: the time that passes for this server, at whatever rate. */
void lk_sr_advance(lk_sr_server *server, int64_t now_ns);

/** When something happens by itself: the end of a WAIT or of a pause; INT64_MAX: nothing will. */
int64_t lk_sr_due(const lk_sr_server *server);

/** Somebody sets its clock. All of Redis goes by it: leases, TIME, the ends of WAIT and of a pause. */
void lk_sr_set_clock(lk_sr_server *server, int64_t unix_ns);

/* ------------------------------------------------------------------ connections ---- */

/** `address`: of the other end, for CLIENT KILL; copied. */
lk_sr_client *lk_sr_connect(lk_sr_server *server, const char *address, void *user);

/** The other end is gone. */
void lk_sr_disconnect(lk_sr_client *client);

/** Bytes that arrived. */
void lk_sr_feed(lk_sr_client *client, lk_sr_text bytes);

/** What is to be sent to the other end. */
lk_sr_text lk_sr_output(const lk_sr_client *client);

/** So much of it has been sent. */
void lk_sr_sent(lk_sr_client *client, size_t count);

/** The server has closed it: what is left of the output is still sent, and then it is to be disconnected. */
bool lk_sr_is_closed(const lk_sr_client *client);

/** Whether a CLIENT PAUSE is on. */
bool lk_sr_is_paused(const lk_sr_server *server);

void *lk_sr_client_user(const lk_sr_client *client);
int64_t lk_sr_client_id(const lk_sr_client *client);

/* ------------------------------------------------------------------ faults ---- */

/** States in which a server can't serve; several at once are allowed. */
enum {
    LK_SR_LOADING = 1, /**< it reads its data */
    LK_SR_NO_DISK = 2, /**< it can't write its data to the disk */
    LK_SR_BUSY = 4     /**< a script of somebody's doesn't end */
};
void lk_sr_set_faults(lk_sr_server *server, unsigned faults);

/** Refuses what needs memory beyond so many bytes; 0: no limit. As CONFIG SET maxmemory. */
void lk_sr_set_memory(lk_sr_server *server, uint64_t most);

/** Its data as they are now outlast a restart. Without this call a restart keeps whatever there is, as with
 * `appendonly yes` and `appendfsync always`. */
void lk_sr_save(lk_sr_server *server);

/** Starts it again at once: all connections are closed, scripts are forgotten, and it has another run id. With its
 * data (of the last lk_sr_save(), if there was one), or without. */
void lk_sr_restart(lk_sr_server *server, bool keep_data);
