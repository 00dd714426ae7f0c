/* state.h: what a server consists of, for the files of this folder. */
#pragma once

#include "../lists.h"

#include "command.h"
#include "keyspace.h"
#include "server.h"
#include "users.h"

enum { LK_SR_DATABASES = 16, LK_SR_ID_LEN = 40, LK_SR_HOST_MAX = 64 };

typedef struct lk_sr_lua lk_sr_lua;
struct lk_sr_view;

/** A master that a server follows. */
typedef struct {
    char host[LK_SR_HOST_MAX]; /**< "": it is a master itself */
    int port;
    bool linked;
} lk_sr_master;

struct lk_sr_server {
    lk_sr_setup setup;
    char host[LK_SR_HOST_MAX];
    uint64_t random; /**< the state of what ids are drawn from */
    char run_id[LK_SR_ID_LEN + 1], replication_id[LK_SR_ID_LEN + 1];
    int64_t now_ns, clock_ns; /**< what passes, and what its clock shows beyond that */
    int64_t swept_ns;         /**< when keys whose time was over were last looked for */
    int64_t paused_ms;        /**< of its clock: clients are held back until then; 0: they are not */
    bool paused_all;          /**< ... not only those that write */
    unsigned faults;
    uint64_t memory_most;
    bool memory_over; /**< at the last request */
    int64_t replicas_least;
    bool hides_stale; /**< a replica without its master shows nothing */
    int64_t next_client;
    lk_list clients;
    lk_list waiting; /**< those that WAIT, the last first */
    lk_list paused;  /**< those that a pause holds back, the first first */
    lk_list resumed; /**< those that go on, in this order */
    lk_sr_keyspace spaces[LK_SR_DATABASES];
    lk_sr_keyspace *saved; /**< NULL: all there is outlasts a restart */
    lk_sr_users users;
    lk_sr_lua *lua;
    struct lk_sr_view *view;               /**< of its cluster (view.h); NULL: it is no node of one */
    void (*script_call)(lk_sr_call *call); /**< what a script's redis.call() does */
    lk_sr_master master;
    lk_list links;      /**< of replicas */
    int64_t offset;     /**< of what replicas are sent, or have been */
    lk_sr_bytes unit;   /**< what the request at work changes, for them */
    unsigned unit_db;   /**< the database that the unit is at */
    bool applying;      /**< what a master sent is at work */
    bool script_writes; /**< the script at work has changed something, or has tried to */
};

/** Why a client's requests wait. */
typedef enum { LK_SR_RUNS, LK_SR_WAITS, LK_SR_PAUSED, LK_SR_RESUMES } lk_sr_block;

struct lk_sr_client {
    lk_list link;
    lk_list block_link; /**< in the list of those that wait for the same */
    lk_sr_server *server;
    void *user;
    int64_t id;
    char address[LK_SR_HOST_MAX];
    lk_sr_bytes in, out, name;
    size_t gone;  /**< so much of `out` has left the server, whatever becomes of the connection */
    bool closing; /**< no further request is looked at */
    bool authenticated;
    lk_sr_user *login;
    unsigned database;
    lk_sr_items channels, shard_channels;
    bool asking; /**< the next command may be of a slot that is imported */
    lk_sr_block block;
    int64_t wait_until_ms; /**< of the server's clock; 0: for ever */
    int64_t wait_offset, wait_replicas;
    int64_t written; /**< the server's offset after its last request */
};

/** A command at work. */
struct lk_sr_call {
    lk_sr_server *server;
    lk_sr_client *client; /**< who asked, also by a script; NULL: a master's stream */
    const lk_sr_command *command;
    const lk_sr_text *argv;
    size_t argc;
    lk_sr_bytes *out;
    unsigned *database;
    bool script;         /**< it is a script's */
    bool untold;         /**< replicas are not to hear of it */
    bool changed;        /**< the keys have changed, and replicas have to hear of it */
    lk_sr_bytes instead; /**< the commands that they hear then; empty: the one that was given */
};

int64_t lk_sr_clock_ms(const lk_sr_server *server);
int64_t lk_sr_clock_us(const lk_sr_server *server);
bool lk_sr_is_replica(const lk_sr_server *server);

/** Whether its data are old, and it doesn't show them. */
bool lk_sr_is_stale(const lk_sr_server *server);
size_t lk_sr_link_count(const lk_sr_server *server);

/** An id as a run and a replication has one. */
void lk_sr_draw_id(lk_sr_server *server, char id[LK_SR_ID_LEN + 1]);

/** Its owner may fetch something. */
void lk_sr_tell(lk_sr_client *client);
