/*
 * zkserver.h: real ZooKeeper servers of a test's own, alone or as an ensemble of three: private ports and
 * directories, short ticks, started and stopped by process id, gone when the test's process ends.
 * zkclient.h speaks to them behind the library's back.
 */
#ifndef LK_TEST_ZKSERVER_H
#define LK_TEST_ZKSERVER_H

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>
#include <sys/types.h>

enum { LK_ZKS_ENSEMBLE = 3, LK_ZKS_TICK_MS = 200 };

/** Who may use a server. */
enum lk_zks_login {
    LK_ZKS_ANYBODY,
    LK_ZKS_SASL,     /* the users of LK_ZKS_USERS may log in by SASL; ACLs are not enforced, so that a second
                        client without a login sees and removes everything */
    LK_ZKS_SASL_ONLY /* only those are served */
};

/** The users that a server with SASL knows: name, password. */
#define LK_ZKS_USER     "shop"
#define LK_ZKS_PASSWORD "sesame-4711"
#define LK_ZKS_OTHER    "other"
#define LK_ZKS_OTHERS   "other-0815"

/** One server. */
struct lk_zks {
    pid_t pid;                      /* 0 while it isn't running */
    bool frozen;                    /* stopped by SIGSTOP */
    int id;                         /* in its ensemble, from 1; 0: it is alone */
    char address[16];               /* where clients find it */
    int port;                       /* the same over restarts */
    int quorum_port, election_port; /* of an ensemble's member */
    int netns;                      /* descriptor of the network namespace that it runs in; -1: ours */
    enum lk_zks_login login;
    int tick_ms;            /* tickTime */
    int sync_limit;         /* ticks that a follower may lag behind */
    char directory[64];     /* holds the data, the configuration and the log */
    struct lk_zks *members; /* of its ensemble; NULL: it is alone */
};

/** Starts a server and waits until it serves. Fails the test when it can't. Call it from the test's main
 * thread: the server dies with the thread that started it. */
struct lk_zks *lk_zks_start(void);

/** The same, with logins by SASL. */
struct lk_zks *lk_zks_start_sasl(enum lk_zks_login login);

/** A port that nobody uses, outside the range from which the kernel takes those of outgoing connections. */
int lk_zks_free_port(void);

/** Stops it, removes its directory, frees it. NULL is allowed. */
void lk_zks_free(struct lk_zks *zk);

/** Where the members of an ensemble run; NULL instead: all here, on 127.0.0.1. */
struct lk_zks_site {
    int netns;        /* descriptor of the network namespace, which stays the caller's */
    char address[16]; /* there, reachable from here */
    int tick_ms;      /* 0: LK_ZKS_TICK_MS */
};

/** Starts an ensemble of LK_ZKS_ENSEMBLE servers and waits until each of them serves; the answer is an array.
 * sync_limit: the ticks after which leader and follower give each other up; 0: 10. `sites` has one entry for
 * each member, or is NULL. */
struct lk_zks *lk_zks_ensemble_start(int sync_limit, const struct lk_zks_site *sites);

/** Lets all members serve again, whatever a test did to them. */
void lk_zks_ensemble_heal(struct lk_zks *members);

/** Stops all of them, removes their directories, frees the array. NULL is allowed. */
void lk_zks_ensemble_free(struct lk_zks *members);

/** kill -9 and wait. Its data stays in the directory. */
void lk_zks_kill(struct lk_zks *zk);

/** Has a server that was killed count on from `number` where it gives the children of a node theirs. At least
 * one child was created there since the server was started; what it says of the last one is overwritten. */
void lk_zks_count_from(const struct lk_zks *zk, const char *parent, int32_t number);

/** Has a server that was killed listen at all addresses of this machine, those of IPv6 too, if it is in our
 * network namespace. */
void lk_zks_listen_everywhere(struct lk_zks *zk);

/** Has a server with SASL know LK_ZKS_USER by another password from its next start on. */
void lk_zks_set_password(const struct lk_zks *zk, const char *password);

/** Starts it again on the same port, after lk_zks_kill(), and waits until it serves. keep_data false: with an
 * empty directory. */
void lk_zks_launch(struct lk_zks *zk, bool keep_data);

/** As lk_zks_launch() keeping the data, without waiting: an ensemble's member may have no quorum yet. */
void lk_zks_launch_only(struct lk_zks *zk);

/** Waits until it serves; fails the test with its log when it doesn't. */
void lk_zks_await(struct lk_zks *zk);

/** SIGSTOP, and wait until it has stopped; SIGCONT. */
void lk_zks_freeze(struct lk_zks *zk);
void lk_zks_thaw(struct lk_zks *zk);

/** Sends a four-letter command and copies the answer; false when there is none. */
bool lk_zks_ask(const struct lk_zks *zk, const char *word, char *answer, size_t size);

/** Whether it serves now, as "standalone", "leader" or "follower". */
bool lk_zks_is(const struct lk_zks *zk, const char *mode);
bool lk_zks_serves(const struct lk_zks *zk);

/** The member that leads; waits for one, and fails the test when none ever does. */
struct lk_zks *lk_zks_leader(struct lk_zks *members);

/** Waits until each member has applied what the leader has applied by now; something must have been written
 * since the leader was elected. Fails the test when one never does. */
void lk_zks_require_in_step(struct lk_zks *members);

/** A member that follows, the nth of them from 0; waits as lk_zks_leader(). */
struct lk_zks *lk_zks_follower(struct lk_zks *members, int nth);

/** Writes the part of a URI that names all members: "127.0.0.1:1,127.0.0.1:2,127.0.0.1:3". */
void lk_zks_hosts(const struct lk_zks *members, char *text, size_t size);

#endif
