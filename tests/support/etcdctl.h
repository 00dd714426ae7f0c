/*
 * etcdctl.h: etcdctl, with which tests do things behind the library's back, and see what is written. It shares nothing with the
 * driver. A server that wants to know who asks is asked as the user of ETCDCTL_USER in the environment ("root:password").
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#include "child.h"
#include "test_servers.h"

enum { LK_ETCDCTL_NAME = 320 };

/** A key. */
typedef struct {
    char name[LK_ETCDCTL_NAME];
    int64_t create, modified; /**< the revisions of its creation and of the last write */
    uint64_t lease;           /**< 0: it has none */
} lk_etcdctl_key;

/** Runs etcdctl with the words of the format, which are parted by single spaces, and copies what it says. False: it ended with
 * an error. */
bool lk_etcdctl_try(const lk_server *server, char *said, size_t size, const char *format, ...)
    __attribute__((format(printf, 4, 5)));

/** The same, failing the test when it ends with an error. */
void lk_etcdctl_do(const lk_server *server, const char *format, ...) __attribute__((format(printf, 2, 3)));

/** The keys that begin with `prefix`, the oldest first; at most `most` of them are copied. Answers how many there are. */
size_t lk_etcdctl_keys(const lk_server *server, const char *prefix, lk_etcdctl_key *keys, size_t most);

/** How many there are. */
size_t lk_etcdctl_count(const lk_server *server, const char *prefix);

/** Waits until there are that many; fails the test when there never are. */
void lk_etcdctl_require_count(const lk_server *server, const char *prefix, size_t count);

/** The nth of them, from 0; fails the test when there is none. */
lk_etcdctl_key lk_etcdctl_nth(const lk_server *server, const char *prefix, size_t nth);

/** Puts a key, of which that is the beginning and `more` times 'x' the rest, with a value of so many bytes: what a command line has no
 * room for. */
void lk_etcdctl_put_large(const lk_server *server, const char *begin, size_t more, size_t value);

/** Ends a lease, as an operator would, with all keys that have it. */
void lk_etcdctl_revoke(const lk_server *server, uint64_t lease);

/** Starts `etcdctl lock NAME`, which queues. lk_etcdctl_locked() waits until it has the lock, and answers its key's create revision;
 * lk_etcdctl_unlock() has it release, and ends it. Killed, its key stays until its lease of `ttl_s` has run out. */
lk_child *lk_etcdctl_lock(const lk_server *server, const char *name, int ttl_s);
int64_t lk_etcdctl_locked(const lk_server *server, lk_child *child);
void lk_etcdctl_unlock(lk_child *child);
