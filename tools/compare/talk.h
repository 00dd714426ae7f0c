/*
 * talk.h: speaks to the servers that spawn*.c starts, behind the library's back: commands to Redis by its
 * Unix socket, four-letter words to ZooKeeper. No client library: an answer of a few bytes to a command of
 * one line.
 */
#ifndef LOCKER_TOOLS_COMPARE_TALK_H
#define LOCKER_TOOLS_COMPARE_TALK_H

#include <stdbool.h>
#include <stddef.h>

/** Send a command line to the Redis at this socket, and copy its answer: a status, a number, a string. False
 * when there is none within 2 s, or an error ("-ERR ..." is copied then). */
bool lk_talk_redis(const char *socket, const char *command, char *answer, size_t size);

/** Send a four-letter word to the ZooKeeper server at address:port, seen from the network namespace `netns`
 * (-1: ours), and copy the answer. False when there is none within 1 s. */
bool lk_talk_zookeeper(int netns, const char *address, int port, const char *word, char *answer, size_t size);

/** A TCP port of 127.0.0.1 that nobody uses, outside the range from which the kernel takes those of outgoing
 * connections, so that a client which tries a stopped server's port again never connects to itself. */
int lk_talk_free_port(void);

#endif
