/*
 * netns.h: a small network of one's own for the scenarios that cut one: a hub, and members that each have a
 * namespace and an address on the hub's bridge. The namespaces have no names, only descriptors of our
 * process: the kernel removes them, with links and rules, when the last process in them has ended. Needs
 * root.
 */
#ifndef LOCKER_TOOLS_COMPARE_NETNS_H
#define LOCKER_TOOLS_COMPARE_NETNS_H

#include <stdbool.h>
#include <stddef.h>

enum { LK_NET_MEMBERS = 4 };

/** A place where a process can run. */
typedef struct lk_place {
    int netns; /**< its namespace; -1: ours */
    char address[16];
} lk_place;

typedef struct lk_network {
    lk_place hub;
    lk_place members[LK_NET_MEMBERS];
} lk_network;

/** NULL when networks can be made here, else what is missing: "needs root", ... Static text. */
const char *lk_network_missing(void);

/** Make one. False with one line in `why`. */
bool lk_network_open(lk_network *network, char *why, size_t size);

/** Forget it; it is gone when the processes in it have ended. */
void lk_network_close(lk_network *network);

/** Drop (on) what comes to `to` from `from`, or let it pass again. False when it can't be done. */
bool lk_network_drop(const lk_place *to, const lk_place *from, bool on);

/** A TCP socket in a namespace (-1: ours); -1 with errno when it can't be had. */
int lk_netns_socket(int netns);

#endif
