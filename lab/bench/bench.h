/* bench.h: what the parts of locker-bench share.
 *
 *   main.c               options, the list of rows, the order of a run
 *   report.c             figures: medians, ratios, goals; the table and the JSON lines
 *   crew.c               the processes that do the measured work, and the memory that they share
 *   threads.c            threads inside such a process
 *   machine.c            clock, processors, memory and context switches
 *   redis_server.c       the redis-server of a run, or the one that --uri names
 *   redis_bare.c         what the work costs with hiredis alone
 *   zookeeper_server.c   the ZooKeeper server of a run
 *   zookeeper_bare.c     what the work costs with ZooKeeper's C client alone
 *   etcd_server.c        the etcd server of a run
 *   etcd_bare.c          what the work costs with the etcd driver's connection alone
 *   two_sides.c          the same work in two ways of liblocker's own, such as TLS and plain TCP
 *   readers.c            readers of one key, on any service
 *   handoff.c            hands a lock from process to process
 *   bystander.c          a locker beside a load, whose calls tell what the load costs others
 *   delay_proxy.c        a proxy that makes the way to a server longer
 *   round_trips.c        counts round trips with it
 *   row_*.c              the rows, by what they measure: the same work bare and through liblocker
 *
 * The boss has one thread and never opens a locker: every measurement runs in fresh processes that it forks,
 * so that no round inherits threads, connections or memory of another. */
#pragma once

#include <semaphore.h>
#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>
#include <stdio.h>
#include <sys/types.h>

#include <locker/locker.h>

#include "servers/server.h"

#define LK_BENCH_US INT64_C(1000)
#define LK_BENCH_MS INT64_C(1000000)
#define LK_BENCH_S  INT64_C(1000000000)

enum {
    LK_ROUNDS_MAX = 99,
    LK_SAMPLES_MAX = 1 << 18,
    LK_COUNTS_MAX = 1024,
    LK_VALUES_MAX = 8,
    LK_VALUE_SECONDS = 7
};

struct redisContext;

typedef struct lk_bench lk_bench;

/* ---- machine.c */
/* CLOCK_MONOTONIC in ns: the same for all processes. */
int64_t lk_bench_now(void);
void lk_bench_sleep(int64_t ns);
/* Bind the calling thread, and what it starts later, to one processor; -1: to all. False: not possible. */
bool lk_bench_pin(int cpu);
/* Bind every thread of a process. */
bool lk_bench_pin_process(pid_t pid, int cpu);
/* User and system time of this process in ns. */
int64_t lk_bench_cpu(void);
/* For how long, in ns, the threads of this process could run and had no processor, added up. */
int64_t lk_bench_late(void);
/* How often the threads of this process went to sleep: each wake-up ends with one. */
int64_t lk_bench_switches(void);
/* Bytes that this process has resident, and bytes that malloc has handed out. */
int64_t lk_bench_resident(void);
int64_t lk_bench_allocated(void);
/* A socket that is connected to a port of 127.0.0.1. -1: not possible. */
int lk_bench_connect(int port);
int lk_bench_compare(const void *a, const void *b);
/* The part q of n sorted times. */
int64_t lk_bench_quantile(const int64_t *sorted, size_t n, double q);

/* ---- crew.c */
/* Memory that the members of a crew share with their boss. Zeroed before each run. */
typedef struct {
    sem_t go;                    /* posted once for each member when all are ready */
    sem_t halt;                  /* posted once for each member when the time is over */
    sem_t turn[2];               /* for members that take turns */
    atomic_int ready;            /* members that called lk_bench_crew_ready() */
    atomic_bool stop;            /* the time is over. Relaxed: a flag */
    _Atomic int64_t mark;        /* a moment that one member tells another */
    _Atomic size_t sample_count; /* may exceed the array: what is over is dropped */
    int64_t sample[LK_SAMPLES_MAX];
    uint64_t count[LK_COUNTS_MAX]; /* work done, one for each worker */
    int64_t asked;                 /* what the server was asked from go to halt */
    double value[LK_VALUES_MAX];   /* whatever else a member tells; the last: seconds from go to halt */
    atomic_bool failed;            /* error is set */
    char error[LOCKER_ERROR_TEXT_MAX + 64];
} lk_bench_crew;

/* What one run of a crew is. */
typedef struct {
    int members;      /* processes */
    int64_t duration; /* ns from go to stop; 0: they end by themselves */
    int cpu;          /* where they run; -1: anywhere */
    void (*body)(lk_bench *b, int member, const void *arg); /* runs in each */
    const void *arg;
    int64_t (*asked)(lk_bench *b); /* what the server was asked so far; NULL: nobody wants to know */
} lk_work;

/* Run one. False: it failed, which has been told, or the user stopped us. */
bool lk_bench_crew_run(lk_bench *b, const lk_work *work);
/* For a member: ready to begin; returns when all are. */
void lk_bench_crew_ready(lk_bench *b);
/* For a member: sleep until the time is over. */
void lk_bench_crew_wait_halt(lk_bench *b);
/* For two members, 0 and 1, that take turns: sleep until the other gives us the turn; give it. */
void lk_bench_crew_wait_turn(lk_bench *b, int who);
void lk_bench_crew_give_turn(lk_bench *b, int who);
bool lk_bench_crew_stopped(const lk_bench *b);
void lk_bench_crew_sample(lk_bench *b, int64_t ns);
/* For a member: tell the boss, and end this process. */
_Noreturn void lk_bench_crew_fail(lk_bench *b, const char *format, ...) __attribute__((format(printf, 2, 3)));
/* For the boss: the part q of the samples of the last run, in us. Sorts them. */
double lk_bench_crew_quantile_us(lk_bench *b, double q);
/* For the boss: Jain's fairness index of the first n counts: 1 when all are equal, 1/n when one has all.
 * R. Jain, D. Chiu, W. Hawe, "A quantitative measure of fairness", 1984. */
double lk_bench_crew_fairness(const lk_bench *b, size_t n);
uint64_t lk_bench_crew_total(const lk_bench *b, size_t n);

/* ---- threads.c */
typedef struct lk_threads lk_threads;
/* Run `body` n times at once, with the index. Fails the crew when threads can't be made. */
lk_threads *lk_threads_start(lk_bench *b, size_t n, void (*body)(lk_bench *b, size_t index, void *arg),
                             void *arg);
void lk_threads_join(lk_threads *set);
/* As the crew's members do it, for threads: lock calls that fail end the process with the reason. */
locker *lk_open_or_fail(lk_bench *b, const char *uri);
locker_handle *lk_lock_or_fail(lk_bench *b, locker *l, const char *key, const locker_lock_options *options);
void lk_unlock_or_fail(lk_bench *b, locker_handle *held);
/* Sleep until so many calls wait in the locker. */
void lk_until_waiting(lk_bench *b, locker *l, uint64_t count);

/* ---- handoff.c */
/* The two members of a crew: one unlocks when the other has fallen asleep waiting. */
enum { LK_GIVER, LK_TAKER };
/* Long enough for that. */
extern const int64_t lk_handoff_sleep;
/* So many hand-offs, each when the taker has waited for so long; it samples the time from the unlock to its having the lock. */
void lk_handoff(lk_bench *b, int member, const char *uri, const char *key, int64_t times, int64_t sleep);

/* ---- bystander.c */
/* For one member: lock and unlock a key of its own, and sample each time, until another member says that the load is over. */
void lk_bystander(lk_bench *b, const char *uri);
void lk_bystander_end(lk_bench *b);

/* ---- readers.c */
/* Readers of one key on a service. */
typedef struct lk_readers {
    const char *row, *against;
    char uri[512];
    bool one_process; /* its locks are seen by the threads of one process */
    int cpu;          /* where they run; -1: anywhere */
    /* What `each` readers of a process do bare, until the crew is stopped; their turns are counted from `first` on. */
    void (*bare)(lk_bench *b, const struct lk_readers *on, int each, size_t first);
} lk_readers;

/* All that is measured of them. False: it failed. */
bool lk_readers_run(lk_bench *b, const lk_readers *on);
/* For a bare side: so many threads that do `cycle` until the crew is stopped. */
void lk_readers_turns(lk_bench *b, int each, size_t first,
                      void (*cycle)(lk_bench *b, size_t index, void *arg), void *arg);

/* ---- report.c */
/* One number for each round. */
typedef struct {
    double v[LK_ROUNDS_MAX];
    int n;
} lk_series;

typedef enum {
    LK_GOAL_NONE,
    LK_GOAL_RATIO_AT_MOST,
    LK_GOAL_RATIO_AT_LEAST,
    LK_GOAL_AT_MOST,
    LK_GOAL_AT_LEAST
} lk_goal_kind;

/* A line of the table. */
typedef struct {
    const char *row, *what, *unit;
    const char *against; /* what bare is; NULL: there is no bare */
    lk_goal_kind goal_kind;
    double goal;
} lk_bench_figure;

void lk_series_add(lk_series *s, double value);
double lk_series_median(const lk_series *s);
/* bare NULL: there is none. Series without numbers are left out of the report. */
void lk_bench_report(lk_bench *b, const lk_bench_figure *figure, const lk_series *bare,
                     const lk_series *ours);
void lk_bench_report_machine(lk_bench *b);
void lk_bench_progress(const char *format, ...) __attribute__((format(printf, 1, 2)));

/* ---- redis_server.c */
#define LK_SERVER_TEXT 512
typedef struct {
    lk_server own;  /* its pid is 0: not ours, or none */
    char host[256]; /* a name, or with port 0 the path of a socket */
    int port;
    char user[128], password[256], database[16]; /* empty: none */
    char uri[LK_SERVER_TEXT];                    /* for locker_open(), without a query */
    char version[32];
    int cpu; /* where it is pinned */
} lk_bench_redis_server;

/* Start one, or connect to the one of `uri`; once. False: that failed, which has been told. */
bool lk_bench_redis_server_need(lk_bench *b);
/* Move our server to a processor; false when it isn't ours. */
bool lk_bench_redis_server_pin(lk_bench *b, int cpu);
void lk_bench_redis_server_stop(lk_bench *b);
/* Reads the URI into the server; false when it is none that hiredis can be told. */
bool lk_bench_redis_server_parse(lk_bench_redis_server *server, const char *uri);
/* How many commands clients have sent so far; those that scripts call and our own INFO don't count. */
int64_t lk_bench_redis_server_commands(lk_bench *b);
/* How many keys it has. */
int64_t lk_bench_redis_server_keys(lk_bench *b);
/* For the boss: forget the scripts that our server has timed so far; the longest one since then in ms, or 0.5 if none took longer. */
void lk_bench_redis_server_watch_scripts(lk_bench *b);
double lk_bench_redis_server_longest_script_ms(lk_bench *b);
/* A hiredis connection, authenticated, its database selected; NULL: `why` says what went wrong. */
struct redisContext *lk_bench_redis_server_connect(const lk_bench_redis_server *server, char *why,
                                                   size_t size);
/* The URI with a query. */
const char *lk_bench_redis_server_uri(const lk_bench *b, char out[LK_SERVER_TEXT], const char *query);

/* ---- redis_bare.c */
typedef struct lk_bare lk_bare;
/* A blocking hiredis connection with the release script loaded; ends the process when there is none. */
lk_bare *lk_bare_open(lk_bench *b);
void lk_bare_close(lk_bare *bare);
void lk_bare_lock(lk_bare *bare, const char *key);
void lk_bare_unlock(lk_bare *bare, const char *key);
/* Look at the socket for up to so long before sleeping for a reply. */
void lk_bare_spin(lk_bare *bare, int64_t ns);
void lk_bare_push(lk_bare *bare, const char *list);
/* Sleeps until there is something; false: it was the word that ends the work. */
bool lk_bare_pop(lk_bare *bare, const char *list);
void lk_bare_push_end(lk_bare *bare, const char *list);
void lk_bare_delete(lk_bare *bare, const char *key);
void lk_bare_hold(lk_bare *bare, const char *key, int64_t ttl_ms);
/* Join the members of a sorted set beside the key, unless somebody has the key, and leave them again. */
void lk_bare_share(lk_bare *bare, const char *key, int member);
/* Try for a key that another holds. */
void lk_bare_try(lk_bare *bare, const char *key);
/* Renew n keys PREFIX0.. in one flight, a script call for each. */
void lk_bare_renew(lk_bare *bare, const char *prefix, int n, int64_t ttl_ms);
/* Lock and unlock `lanes` keys on this connection with one command of each in flight, until the crew is
 * stopped; returns the cycles. */
uint64_t lk_bare_lanes(lk_bare *bare, int lanes);

/* ---- zookeeper_server.c */
typedef struct {
    lk_server own;
    char version[32];
    int cpu; /* where it is pinned; -1: nowhere */
} lk_zoo_server;

/* Start it, and stop it (SIGSTOP) until the first row that wants it. False: that failed, which was told. */
bool lk_zoo_server_need(lk_bench *b);
/* Begin a row: wake it, bind it to a processor. False: it can't be bound. */
bool lk_zoo_server_pin(lk_bench *b, int cpu);
void lk_zoo_server_stop(lk_bench *b);
/* How many requests clients have sent so far, pings among them; our own questions don't count. */
int64_t lk_zoo_server_requests(lk_bench *b);
/* How many transactions it has logged so far. */
int64_t lk_zoo_server_transactions(lk_bench *b);
/* For locker_open(), by this port; the lock time is the session's. */
const char *lk_zoo_server_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms);

/* ---- zookeeper_bare.c */
typedef struct lk_zoo lk_zoo;
/* A session of the single-threaded C client; ends the process when there is none. */
lk_zoo *lk_zoo_open(lk_bench *b, int port, int64_t session_ms);
void lk_zoo_close(lk_zoo *zoo);
/* From now on what belongs together is sent in one piece, where the library alone would write each request in
 * two. */
void lk_zoo_send_whole(lk_zoo *zoo);
/* From now on who is next in a queue takes the lock when its predecessor goes, and doesn't look whether that
 * one had it: it is no lock any more as soon as somebody gives up. */
void lk_zoo_trust(lk_zoo *zoo);
/* The nodes under which a key's contenders stand. */
void lk_zoo_make(lk_zoo *zoo, const char *key);
/* fresh: the key's node is made in the same flight. */
void lk_zoo_lock(lk_zoo *zoo, const char *key, bool fresh);
/* Stand behind somebody, and watch it; then sleep until it has gone. */
void lk_zoo_enter(lk_zoo *zoo, const char *key);
void lk_zoo_await(lk_zoo *zoo);
void lk_zoo_unlock(lk_zoo *zoo);
/* One round trip. */
void lk_zoo_ping(lk_zoo *zoo);
/* Make n keys with a held node each; then keep the session alive until the crew is stopped. */
void lk_zoo_hold(lk_zoo *zoo, const char *prefix, int n);
void lk_zoo_idle(lk_zoo *zoo);
/* Lock and unlock without a pause, `lanes` contenders at once on this session, until the crew is stopped: for
 * one key, or for a key each. Counts the cycles from the crew's count `first` on. Make the keys before. */
void lk_zoo_lanes(lk_zoo *zoo, const char *key, bool shared, int lanes, size_t first);
/** The same on one key for all with a thread for each, which sleeps until it is its turn, and one that
 * reads. */
void lk_zoo_lane_threads(lk_zoo *zoo, const char *key, int lanes, size_t first);

/* ---- etcd_server.c */
typedef struct {
    lk_server own;
    char version[32];
    int cpu; /* where it is pinned; -1: nowhere */
} lk_bench_etcd_server;

/* Start it, and stop it (SIGSTOP) until the first row that wants it. False: that failed, which was told. */
bool lk_bench_etcd_server_need(lk_bench *b);
/* Begin a row: wake it, bind it to a processor. False: it can't be bound. */
bool lk_bench_etcd_server_pin(lk_bench *b, int cpu);
void lk_bench_etcd_server_stop(lk_bench *b);
/* How many messages clients have sent so far: requests, watches, and the ends of watches. */
int64_t lk_bench_etcd_server_requests(lk_bench *b);
/* How many transactions it has logged so far, leases that were granted or revoked among them. */
int64_t lk_bench_etcd_server_transactions(lk_bench *b);
/* For locker_open(), by this port. */
const char *lk_bench_etcd_server_uri(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms);

/* ---- etcd_bare.c */
typedef struct lk_bench_etcd lk_bench_etcd;
/* A connection and a lease, which lasts so long; ends the process when there is none. */
lk_bench_etcd *lk_bench_etcd_open(lk_bench *b, int port, int64_t ttl_s);
void lk_bench_etcd_close(lk_bench_etcd *etcd);
void lk_bench_etcd_lock(lk_bench_etcd *etcd, const char *key);
/* Stand behind somebody, and watch it; then sleep until it has gone. */
void lk_bench_etcd_enter(lk_bench_etcd *etcd, const char *key);
void lk_bench_etcd_await(lk_bench_etcd *etcd);
void lk_bench_etcd_unlock(lk_bench_etcd *etcd);
/* One round trip. */
void lk_bench_etcd_ping(lk_bench_etcd *etcd);
/* Lock n keys; then keep the lease alive until the crew is stopped. */
void lk_bench_etcd_hold(lk_bench_etcd *etcd, const char *prefix, int n);
void lk_bench_etcd_idle(lk_bench_etcd *etcd, int64_t every);
/* Lock and unlock without a pause, `lanes` contenders at once on this connection, until the crew is stopped: for one key, or for a
 * key each. Counts the cycles from the crew's count `first` on. */
void lk_bench_etcd_lanes(lk_bench_etcd *etcd, const char *key, bool shared, int lanes, size_t first);

/* ---- herd.c: many contenders at once */
enum { LK_HERD_BARE, LK_HERD_OURS, LK_HERD_SIDES_MAX = 4 };

/* What contends. Bare, the contenders of a process share one connection; ours are threads that share one locker. */
typedef struct lk_herd lk_herd;
struct lk_herd {
    /* Contend without the library, and count the cycles from `first` on. Calls lk_bench_crew_ready(). */
    void (*bare)(lk_bench *b, const lk_herd *h, int contenders, size_t first);
    const char *(*uri)(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms);
    int64_t (*requests)(lk_bench *b); /* that the server has received so far */
    int port;
    int sides; /* that are measured: bare, ours, and other ways of being bare */
    int side;
    int waiters, processes;
    const char *key; /* the prefix of the contenders' keys; the key itself if `shared` */
    bool shared;
};

typedef struct {
    lk_series rate[LK_HERD_SIDES_MAX], sent[LK_HERD_SIDES_MAX], fairness[LK_HERD_SIDES_MAX], disorder;
} lk_herd_outcome;

bool lk_herd_run(lk_bench *b, lk_herd h, lk_herd_outcome *o);
/* The key of a contender that has one of its own. */
const char *lk_lane_key(char out[64], const char *key, int number);

/* ---- held.c: what it costs to hold a thousand locks */
typedef struct lk_held lk_held;
struct lk_held {
    /* Hold `locks` keys without the library until the crew is stopped, and write the CPU time since lk_bench_crew_ready() to
     * crew->value[0], in ns. */
    void (*bare)(lk_bench *b, const lk_held *h);
    const char *(*uri)(char out[LK_SERVER_TEXT], int port, int64_t ttl_ms);
    int64_t (*asked)(lk_bench *b); /* what the server has done so far */
    int port;
    int locks;
    int64_t ttl_ms;
    int parts;          /* of the TTL: ours renew once in each */
    const char *prefix; /* of the keys */
};

/* Measure both, and report what was asked, asked in each part of the TTL, client CPU, heap and resident memory for each lock. */
bool lk_held_row(lk_bench *b, lk_held h, const lk_bench_figure figures[5]);

/* ---- delay_proxy.c */
/* A process that passes connections on to a port of 127.0.0.1, `ms` later in each direction. 0: told. */
pid_t lk_delay_start(lk_bench *b, int to, int64_t ms, int *port);
void lk_delay_stop(pid_t pid);

/* ---- round_trips.c */
/* How a cycle is done, bare or ours. */
typedef struct {
    const char *name;
    void *(*open)(lk_bench *b, int port);
    void (*cycle)(lk_bench *b, void *client);
    void (*request)(void *client); /* one round trip; NULL for ours */
    void (*close)(void *client);
} lk_far_side;

/* Count the round trips of both to the server of that port, and report them. */
bool lk_far_row(lk_bench *b, const char *row, int port, const lk_far_side sides[2]);

/* ---- the whole */
struct lk_bench {
    int rounds;
    bool quick; /* tiny counts: to see that everything runs */
    bool full;  /* --long */
    const char *uri;
    FILE *json;
    lk_bench_crew *crew;
    lk_bench_redis_server server;
    lk_zoo_server zoo;
    lk_bench_etcd_server etcd;
    int client_cpu, server_cpu; /* -1: not pinned */
    bool failed;                /* some row could not be measured */
};

/* Set by SIGINT and SIGTERM. */
extern atomic_bool lk_interrupted;

/* A count or a time, cut down for --quick. */
int64_t lk_scale(const lk_bench *b, int64_t full);

/* ---- two_sides.c */
enum { LK_SIDE_KEYS = 64 };

/* A way of locking, and what was measured of it. */
typedef struct {
    char uri[LK_SERVER_TEXT];
    size_t keys;                   /* so many the one thread locks in turn, up to LK_SIDE_KEYS */
    int64_t (*asked)(lk_bench *b); /* what its servers were asked so far; NULL: is not told of */
    lk_series p50, cpu, rate, commands;
    int64_t cycles; /* of the one thread, and the locker that the others share */
    locker *l;
} lk_side;

/* One round of one of them. */
bool lk_side_run(lk_bench *b, lk_side *s);
/* `than`: what the other one is called. */
void lk_sides_report(lk_bench *b, const char *row, const char *than, const lk_side *other,
                     const lk_side *one);

/* ---- the rows; each reports its figures. False: it failed. */
bool lk_row_memory(lk_bench *b);
bool lk_row_file(lk_bench *b);
bool lk_row_readers_memory(lk_bench *b);
bool lk_row_readers_file(lk_bench *b);
bool lk_row_readers_redis(lk_bench *b);
bool lk_row_readers_zookeeper(lk_bench *b);
bool lk_row_line(lk_bench *b);
bool lk_row_fcrowd(lk_bench *b);
bool lk_row_fpermit(lk_bench *b);
bool lk_row_a(lk_bench *b);
bool lk_row_a1(lk_bench *b);
bool lk_row_b(lk_bench *b);
bool lk_row_tls(lk_bench *b);
bool lk_row_cluster(lk_bench *b);
bool lk_row_h(lk_bench *b);
bool lk_row_c(lk_bench *b);
bool lk_row_d(lk_bench *b);
bool lk_row_e(lk_bench *b);
bool lk_row_e_long(lk_bench *b);
bool lk_row_many(lk_bench *b);
bool lk_row_wait(lk_bench *b);
bool lk_row_wait_keys(lk_bench *b);
bool lk_row_keys(lk_bench *b);
bool lk_row_keys_long(lk_bench *b);
bool lk_row_e_held_up(lk_bench *b);
bool lk_row_lag(lk_bench *b);
bool lk_row_break(lk_bench *b);
bool lk_row_net(lk_bench *b);
bool lk_row_crowd(lk_bench *b);
bool lk_row_permits(lk_bench *b);
bool lk_row_several(lk_bench *b);
bool lk_row_dead(lk_bench *b);
bool lk_row_za(lk_bench *b);
bool lk_row_za1(lk_bench *b);
bool lk_row_zfresh(lk_bench *b);
bool lk_row_zb(lk_bench *b);
bool lk_row_zh(lk_bench *b);
bool lk_row_zhi(lk_bench *b);
bool lk_row_zwait(lk_bench *b);
bool lk_row_zc(lk_bench *b);
bool lk_row_ze(lk_bench *b);
bool lk_row_znet(lk_bench *b);
bool lk_row_zcrowd(lk_bench *b);
bool lk_row_zseveral(lk_bench *b);
bool lk_row_zdoubt(lk_bench *b);
bool lk_row_ea(lk_bench *b);
bool lk_row_ea1(lk_bench *b);
bool lk_row_eb(lk_bench *b);
bool lk_row_eh(lk_bench *b);
bool lk_row_ehw(lk_bench *b);
bool lk_row_ec(lk_bench *b);
bool lk_row_ee(lk_bench *b);
bool lk_row_enet(lk_bench *b);
bool lk_row_eused(lk_bench *b);
bool lk_row_ecrowd(lk_bench *b);
bool lk_row_eseveral(lk_bench *b);
bool lk_row_ettls(lk_bench *b);
bool lk_row_ectl(lk_bench *b);
bool lk_row_ego(lk_bench *b);
