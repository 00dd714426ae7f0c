/* network.h: a small network of one's own, which can be cut: a hub, and members that each have a namespace
 * and an address on the hub's bridge. The namespaces have no names, only descriptors of our process: the
 * kernel removes them, with links and rules, when the last process in them has ended. Needs root, which may
 * be that of a user namespace. */
#pragma once

#include <stdbool.h>
#include <stddef.h>

enum { LK_NETWORK_MEMBERS = 4 };

/** A place where a process can run. */
typedef struct {
    int netns; /**< its namespace; 0: ours */
    char address[16];
} lk_place;

/** 127.0.0.1. */
extern const lk_place lk_here;

typedef struct {
    lk_place hub;
    lk_place members[LK_NETWORK_MEMBERS];
} lk_network;

/** NULL when networks can be made here, else what is missing: "needs root", ... Static text. */
const char *lk_network_missing(void);

/** Makes one. False with one line in `why`. */
bool lk_network_open(lk_network *network, char *why, size_t size);

/** Forgets it; it is gone when the processes in it have ended. */
void lk_network_close(lk_network *network);

/** Drops what comes to a place from another, until it is mended. False: it can't be done. */
bool lk_network_drop(const lk_place *to, const lk_place *from);

/** Lets everything come to a place again. */
bool lk_network_mend(const lk_place *to);

/** A TCP socket in a place; -1 with errno when it can't be had. */
int lk_network_socket(const lk_place *place);
