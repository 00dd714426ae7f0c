/* servers.h: what can be done to the servers of a service whose servers, one or three, agree with each other: ZooKeeper's
 * and etcd's. */
#pragma once

#include "world/network.h"

enum { LK_SIM_SERVERS_MOST = 3 };

/** What can be done to the servers, which count from 0. */
typedef struct {
    /** A server stands still, as by SIGSTOP; and goes on. */
    void (*stop)(int server);
    void (*go_on)(int server);
    /** Its process is killed; written: what is being written gets to its disk. Then no server listens there until it starts again. */
    void (*kill)(int server, bool written);
    void (*start)(int server, bool with_data);
    /** A server is slow to write and to apply, or is not any more. */
    void (*slow)(int server, bool slow);
    /** A server's disk writes nothing, or does again. NULL: no disk freezes. */
    void (*freeze)(int server, bool frozen);
    /** What one server sends another one waits, or goes on. */
    void (*clog)(int from, int to, bool clogged);
    /** What is on the way between two servers is lost. */
    void (*cut)(int one, int other);
    /** The processes that are connected with a server; returns how many, at most `room`. */
    size_t (*clients)(int server, lk_sim_process **clients, size_t room);
    /** NULL past the last server. */
    lk_sim_service *(*service)(unsigned server);
    /** The server that leads; -1: none. */
    int (*leader)(void);
    bool (*serves)(int server);
    /** What clients left behind, or that there is no leader; false: nothing. */
    bool (*left)(char *text, size_t room);
} lk_sim_servers;
