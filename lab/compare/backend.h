/* backend.h: a lock service under comparison: one that was given by --backend, or one that --spawn starts.
 * What may be done to it is said by bits, and done by the functions of its kind; a scenario asks for bits and
 * never for a kind. spawn_redis.c, spawn_zookeeper.c and spawn_etcd.c
 * are the kinds that have servers. */
#pragma once

#include <locker/locker.h>
#include <stdbool.h>
#include <stdint.h>

#include "report.h"
#include "servers/server.h"

/** What may be done to a backend. */
enum {
    LK_CAN_BE_SHARED = 32, /**< processes exclude each other by it */
    LK_CAN_RESTART = 1,    /**< its server can be killed and started again with its data */
    LK_CAN_FORGET = 2,     /**< ... and without it */
    LK_CAN_FAIL_OVER = 4,  /**< another server takes over when the leading one is killed */
    LK_CAN_LAG = 8,        /**< the server that takes over can be made to miss the last writes */
    LK_CAN_READ = 128,     /**< several can share a key */
    LK_CAN_PERMIT = 256,   /**< a key can have permits */
    LK_CAN_RECOVER = 64,   /**< its clients bring back what it has lost, if they are told to */
    LK_CAN_BE_CUT = 16     /**< a private copy of it can be put in networks that are then cut */
};

typedef struct lk_backend lk_backend;
typedef struct lk_kind lk_kind;

/** A private copy of a backend in a network that can be cut between the holder's side and the rest. */
typedef struct {
    const lk_kind *kind;
    const lk_place *holder, *rival; /**< where they run */
    const lk_place *near, *far;     /**< the two places between which packets are dropped */
    char holder_uri[160], rival_uri[160];
    const char *what;   /**< what the cut is between, in words. Static. */
    lk_server *servers; /**< NULL before they are started */
} lk_compare_cut;

/** A kind of backend that --spawn starts. Operations that its bits don't have are NULL; spawn.h has those
 * that are the same for all. All of them end the program with one line when a server's program is missing.
 * Those that answer bool: false when it did not come to serve in time. */
struct lk_kind {
    const char *name;        /**< as in --spawn=NAME, and the column's name */
    const char *about;       /**< how it is set up, a sentence */
    const char *choose_when; /**< for whom it is: what follows "Choose it when" */
    unsigned can;
    int64_t back_ms; /**< so long it may be away when it restarts or fails over, on a slow machine too */
    bool token_is_of_data;            /**< fencing tokens start anew when its data is lost */
    int64_t slack_ms;                 /**< how much later than its lease's end a lock may be free */
    const lk_server_kind *server;     /**< of which it has so many */
    size_t count;                     /**< 0: there is no server */
    lk_server_setup setup, cut_setup; /**< for a copy whose network is cut */
    const char *scheme, *path;        /**< of its URI */
    void (*start)(lk_backend *backend);
    bool (*await)(lk_backend *backend); /**< waits until it serves, and fills uri and version */
    bool (*lag)(lk_backend *backend, bool on);
    bool (*fail_over)(lk_backend *backend);
    bool (*heal)(lk_backend *backend); /**< whatever was done to it: as it was at first */
    bool (*open_cut)(lk_compare_cut *cut, const lk_network *network);
};

struct lk_backend {
    const lk_kind *kind;              /**< NULL: it was given */
    char uri[LK_COMPARE_URI_MAX + 1]; /**< to open; may hold a password */
    lk_column *column;
    unsigned can;
    lk_server *servers; /**< those of its kind; NULL before they are started */
};

/** The most backends of one run. */
enum { LK_BACKENDS_MAX = 16 };

/** Words for what a backend lacks of `needs`, why a scenario is not run on it; NULL: it lacks nothing. */
const char *lk_backend_lacks(const lk_backend *backend, unsigned needs);

/** Ask the service what it promises, through the library. False with the library's error. */
bool lk_backend_learn(lk_backend *backend, locker_error *err);

/** A URI without its password, for people. Returns `out`. */
const char *lk_backend_public_uri(const char *uri, char *out, size_t size);

/** The kinds, ended by NULL. */
extern const lk_kind *const lk_kinds[];
