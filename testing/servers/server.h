/* server.h: a real server of one's own: a private port and a private directory, started, awaited, asked,
 * killed, frozen and thawed, and gone when our process is. redis.h, zookeeper.h and etcd.h are the kinds; a kind is a
 * table of what is not the same for all. What fails says why in `error`; nothing here ends the program. A
 * server dies with the thread that started it. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <sys/types.h>

#include "servers/network.h"
#include "servers/scratch.h"

typedef struct lk_server lk_server;

/** The words of a command line. */
typedef struct {
    const char *words[64];
    size_t count;
    char text[1024]; /**< what words are made in */
    size_t used;
} lk_command;

/** Adds a word as it is; all words of a list that NULL ends (NULL: none); a word in printf's form. */
void lk_command_add(lk_command *command, const char *word);
void lk_command_add_all(lk_command *command, const char *const *words);
void lk_command_print(lk_command *command, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** A kind of server. */
typedef struct {
    const char *name;    /**< what texts call it: "redis-server" */
    const char *word;    /**< of its directory */
    const char *package; /**< what is to be installed when its program is missing; NULL: as it is called */
    int port;            /**< in a network namespace; there it has the next two as well */
    int patience_ms;     /**< so long it may take to serve */
    bool (*prepare)(lk_server *server); /**< its files, in an empty directory; NULL: it needs none */
    void (*command)(const lk_server *server, lk_command *command);
    bool (*serves)(const lk_server *server);
    bool (*ask)(const lk_server *server, const char *question, char *answer, size_t size);
    void (*version)(const lk_server *server, char *text, size_t size); /**< "" before it serves */
    bool (*is)(
        const lk_server *server,
        const char *mode); /**< whether it serves as "leader" or "follower" (ensemble.h); NULL: neither */
} lk_server_kind;

/** Who may use a ZooKeeper server. */
typedef enum {
    LK_LOGIN_NONE,
    LK_LOGIN_SASL,     /**< the users of zookeeper.h may log in by SASL; ACLs are not enforced, so that a
                            client without a login sees and removes everything */
    LK_LOGIN_SASL_ONLY /**< only those are served */
} lk_server_login;

/** What it is started with. All zeros will do. */
typedef struct {
    const char *const *options; /**< of its program, ended by NULL: static text. NULL: none */
    const lk_place *place;      /**< where it runs; NULL: here. Copied. */
    int tick_ms; /**< ZooKeeper's tickTime; 0: LK_ZOOKEEPER_TICK_MS. etcd's heartbeat; 0: LK_ETCD_TICK_MS, and of
                         three LK_ETCD_ENSEMBLE_TICK_MS. Redis' cluster-node-timeout */
    int sync_limit; /**< ticks after which its leader and followers give each other up; 0: 10 */
    lk_server_login login;
    const char
        *certificates; /**< a directory with ca.crt, server.crt and server.key: a node of a Redis Cluster
                                   speaks TLS with all, an etcd server with its clients. NULL: with nobody */
} lk_server_setup;

struct lk_server {
    const lk_server_kind *kind;
    lk_server_setup setup;
    pid_t pid;      /**< 0 while it isn't running */
    bool frozen;    /**< stopped by SIGSTOP */
    bool served;    /**< at some time, so its port is known to others */
    lk_place place; /**< where it runs */
    int port; /**< the same over restarts; the two others are an ensemble's, the first of them a cluster's bus's */
    int quorum_port, election_port;
    int id;                          /**< in its ensemble, from 1; 0: it is alone */
    lk_server *members;              /**< of its ensemble; NULL: it is alone */
    char directory[LK_SCRATCH_PATH]; /**< holds the data, the configuration and the log */
    void *user;                      /**< the program's own */
    bool missing;                    /**< `error` is that something has to be installed */
    char error[256];
};

/** Starts one; it may not serve yet. */
bool lk_server_start(lk_server *server, const lk_server_kind *kind, const lk_server_setup *setup);

/** Waits until it serves. One that has never served and whose port another took meanwhile gets another. */
bool lk_server_await(lk_server *server);

/** kill -9, and wait. Its data stays in the directory. */
void lk_server_kill(lk_server *server);

/** Starts it again on the same port, after lk_server_kill(); it may not serve yet. keep_data false: with an
 * empty directory. */
bool lk_server_launch(lk_server *server, bool keep_data);

/** SIGSTOP, and wait until it has stopped; SIGCONT. */
bool lk_server_freeze(lk_server *server);
void lk_server_thaw(lk_server *server);

/** Kills it and removes its directory. What was never started is allowed. */
void lk_server_remove(lk_server *server);

/** Asks it behind the library's back: Redis by a command of a line, ZooKeeper by a four-letter one, etcd as etcd.h says. False:
 * there is no answer within seconds, or it is an error, which is copied all the same. */
bool lk_server_ask(const lk_server *server, const char *question, char *answer, size_t size);

/** What it is: "Redis 7.0.15"; "" when it doesn't say. */
void lk_server_version(const lk_server *server, char *text, size_t size);

/** The end of its log. */
void lk_server_log(const lk_server *server, char *text, size_t size);

/* ------------------------------------------------------------------ for kinds ---- */

/** Chooses its ports and makes its directory; lk_server_launch() without data is the rest of its start. */
bool lk_server_reserve(lk_server *server, const lk_server_kind *kind, const lk_server_setup *setup);

/** Writes a file into its directory, in printf's form. */
bool lk_server_write(lk_server *server, const char *name, const char *format, ...)
    __attribute__((format(printf, 3, 4)));

/** Notes why something failed; answers false. */
bool lk_server_fails(lk_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** A connection to its port, on which each wait ends after so many ms; -1: none. */
int lk_server_connect(const lk_server *server, int patience_ms);
