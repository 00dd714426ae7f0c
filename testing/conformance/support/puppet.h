/* puppet.h: another process that takes and releases locks as the test tells it, line by line. A puppet has
 * one locker and, at a time, one lock.
 *
 * What a puppet understands, and what it answers (STATUS is a status' name):
 *   lock KEY WAIT_MS TTL_MS RENEW(0/1) MODE PERMITS   STATUS TOKEN
 *   wait KEY WAIT_MS TTL_MS RENEW(0/1) MODE PERMITS   "waiting" once the call waits, and then, at the grant, STATUS TOKEN
 *   unlock                               STATUS
 *   state                                the state's name
 *   stop                                 nothing: it stops until SIGCONT
 *   count KEY FILE TIMES                 STATUS GREATEST-TOKEN, after raising the number in FILE under the
 * lock forget                               "ok": frees the handle */
#pragma once

#include "child.h"
#include "expect.h"

/** The puppet's work, on a locker that was opened for it: says "open", does as it is told until its input
 * ends, closes the locker. Answers the exit code. */
int lk_puppet_serve(locker *l);

/** The puppet's role on a driver that is built in, for the table given to lk_child_main(). */
int lk_puppet_play(int argc, char **argv);
#define LK_PUPPET_ROLE                                                                                       \
    {                                                                                                        \
        "puppet", lk_puppet_play                                                                             \
    }

/** Starts a puppet with its locker open. */
lk_child *lk_puppet_start(const char *uri);

/** Has it lock and answers the status; *token (NULL allowed) gets the fencing token. */
locker_status lk_puppet_lock(lk_child *puppet, const char *key, int64_t wait_ms, int64_t ttl_ms, bool renew,
                             uint64_t *token);

/** The same with all that the options say of that, and of mode and permits. */
locker_status lk_puppet_take(lk_child *puppet, const char *key, const locker_lock_options *options);

/** Has it begin to lock and returns when it waits; lk_puppet_granted() gets the answer. */
void lk_puppet_wait(lk_child *puppet, const char *key, int64_t wait_ms, int64_t ttl_ms, bool renew);

/** The same with options. */
void lk_puppet_await(lk_child *puppet, const char *key, const locker_lock_options *options);

/** Reads "STATUS TOKEN" as the answer to lock, wait and count. */
locker_status lk_puppet_granted(lk_child *puppet, uint64_t *token);

/** Has it unlock and answers what unlock did. */
locker_status lk_puppet_unlock(lk_child *puppet);

/** Has it stop, and waits until it has; SIGCONT by lk_child_signal() lets it go on. One that is waiting for a
 * lock can't hear: lk_child_stop(). */
void lk_puppet_stop(lk_child *puppet);

/** Fails the test unless its handle has that state. */
void lk_puppet_expect_state(lk_child *puppet, locker_state state);
