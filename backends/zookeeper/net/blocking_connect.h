/* blocking_connect.h: the parts of connecting in which the client library may block. */
#ifndef LK_ZK_BLOCKING_CONNECT_H
#define LK_ZK_BLOCKING_CONNECT_H

#include <pthread.h>
#include <stdbool.h>
#include <stdint.h>

#include "net.h"

/* Guarded by the mutex; but what is constant while it is active its thread reads without. */
typedef struct {
    bool active; /* a thread is in it: it alone uses the client handle, and lk_zk_net.reading is set for it */
    bool joinable;
    pthread_t thread;
    int events; /* for zookeeper_process */
    int socket; /* the library's; lk_zk_net.fd is -1 meanwhile */
    int own;    /* a duplicate, whose number nobody else can get when the library closes its own; else -1 */
    int event_state; /* what the library told meanwhile, kept by the thread for when it has the mutex; 0: nothing */
    int64_t until; /* the server has until then; LOCKER_NEVER: it has had its time */
    bool ended;    /* by us */
} lk_zk_blocking;

/* Whether the library would block now. */
bool lk_zk_blocking_due_locked(const lk_zk_net *net, int events) LK_REQUIRES(*net);
/* Have a thread do it, which takes over the driving from the caller until it is done. */
void lk_zk_blocking_begin_locked(lk_zk_net *net) LK_REQUIRES(*net);
/* End one that has taken too long; returns when to look again, or LOCKER_NEVER. */
int64_t lk_zk_blocking_check_locked(lk_zk_net *net, int64_t now) LK_REQUIRES(*net);
/* End one that is under way, and its thread. Releases the mutex meanwhile; nobody else may be using the instance. */
void lk_zk_blocking_stop_unlocking(lk_zk_net *net) LK_REQUIRES(*net);

#endif
