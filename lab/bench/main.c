/* main.c: options, the list of rows, the order of a run. */
#include <errno.h>
#include <getopt.h>
#include <signal.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

#include "bench.h"

enum { EXIT_USAGE = 64, EXIT_INTERRUPTED = 130, DEFAULT_ROUNDS = 5 };

typedef struct {
    const char *name;
    bool (*run)(lk_bench *b);
    bool redis, zookeeper, etcd; /* the server that it needs */
    bool is_long;                /* only with --long, or when named */
    bool wanted;
    const char *about;
} row;

static row rows[] = {
    {"memory", lk_row_memory, false, false, false, false, false,
     "the memory driver beside a mutex and a table"},
    {"file", lk_row_file, false, false, false, false, false,
     "the file driver beside open, F_OFD_SETLK, close"},
    {"mread", lk_row_readers_memory, false, false, false, false, false,
     "readers of one key of the memory driver"},
    {"fread", lk_row_readers_file, false, false, false, false, false,
     "readers of one key of the file driver"},
    {"fcrowd", lk_row_fcrowd, false, false, false, true, false,
     "3,000 threads that wait for one key of the file driver; only with --long or by name"},
    {"fpermit", lk_row_fpermit, false, false, false, true, false,
     "one of 1,500 permits of the file driver; only with --long or by name"},
#ifdef LOCKER_BENCH_TOOL
    {"line", lk_row_line, false, false, false, false, false,
     "processes that wait for one lock, beside flock(1)"},
#endif
#ifdef LOCKER_BENCH_REDIS
    {"a", lk_row_a, true, false, false, false, false, "Redis: one thread, lock + unlock"},
    {"a1", lk_row_a1, true, false, false, false, false, "... with server and client on one processor"},
    {"b", lk_row_b, true, false, false, false, false, "64 threads with keys of their own"},
#ifdef LOCKER_BENCH_TLS
    {"tls", lk_row_tls, true, false, false, false, false, "one thread and 64 by TLS, beside plain TCP"},
#endif
    {"cluster", lk_row_cluster, true, false, false, false, false,
     "one thread and 64 at a Redis Cluster, beside one server"},
    {"read", lk_row_readers_redis, true, false, false, false, false, "readers of one key on Redis"},
    {"h", lk_row_h, true, false, false, false, false, "hand-off to a waiter in another process"},
    {"c", lk_row_c, true, false, false, false, false, "8 and 64 waiters on one key"},
    {"d", lk_row_d, true, false, false, false, false, "100 waiters asleep"},
    {"e", lk_row_e, true, false, false, false, false, "1,000 leases kept alive"},
    {"many", lk_row_many, true, false, false, false, false, "10,000 threads that wait for one key"},
    {"wait", lk_row_wait, true, false, false, true, false,
     "200 processes that wait for one key; only with --long or by name"},
    {"waitkeys", lk_row_wait_keys, true, false, false, false, false, "one process that waits for 5,000 keys"},
    {"keys", lk_row_keys, true, false, false, false, false, "50,000 keys, used once each"},
    {"held", lk_row_e_held_up, true, false, false, false, false, "lock + unlock beside 20,000 leases"},
    {"lag", lk_row_lag, true, false, false, false, false, "how soon a loss is told"},
    {"break", lk_row_break, true, false, false, false, false,
     "how soon a holder is told that its lock was broken"},
    {"net", lk_row_net, true, false, false, false, false, "10 ms added to the round trip"},
    {"crowd", lk_row_crowd, true, false, false, false, false,
     "3,000 threads that wait for one key, and a bystander"},
    {"permits", lk_row_permits, true, false, false, true, false,
     "tens of thousands of permits of one key; only with --long or by name"},
    {"several", lk_row_several, true, false, false, false, false,
     "64 keys at once, 100 ms added to the round trip"},
    {"dead", lk_row_dead, true, false, false, true, false,
     "nine waiters that are cut off; only with --long or by name"},
    {"e100k", lk_row_e_long, true, false, false, true, false,
     "100,000 leases kept alive; only with --long or by name"},
    {"keys1m", lk_row_keys_long, true, false, false, true, false,
     "1,000,000 keys, used once each; only with --long or by name"},
#endif
#ifdef LOCKER_BENCH_ZOOKEEPER
    {"za", lk_row_za, false, true, false, false, false, "ZooKeeper: one thread, lock + unlock"},
    {"za1", lk_row_za1, false, true, false, false, false, "... with server and client on one processor"},
    {"zfresh", lk_row_zfresh, false, true, false, false, false,
     "... with a key that is used for the first time"},
    {"zb", lk_row_zb, false, true, false, false, false, "64 threads with keys of their own"},
    {"zread", lk_row_readers_zookeeper, false, true, false, false, false, "readers of one key on ZooKeeper"},
    {"zh", lk_row_zh, false, true, false, false, false, "hand-off to a waiter in another process"},
    {"zhi", lk_row_zhi, false, true, false, true, false,
     "... that has waited for 30 s; only with --long or by name"},
    {"zwait", lk_row_zwait, false, true, false, true, false,
     "200 processes that wait for one key; only with --long or by name"},
    {"zc", lk_row_zc, false, true, false, false, false, "8 and 64 waiters on one key"},
    {"ze", lk_row_ze, false, true, false, false, false, "1,000 locks held"},
    {"znet", lk_row_znet, false, true, false, false, false, "10 ms added to the round trip"},
    {"zcrowd", lk_row_zcrowd, false, true, false, false, false,
     "3,000 threads that wait for one key, and a bystander"},
    {"zseveral", lk_row_zseveral, false, true, false, false, false,
     "64 keys at once, 100 ms added to the round trip"},
    {"zdoubt", lk_row_zdoubt, false, true, false, false, false, "lock + unlock beside 1,140 keys in doubt"},
#endif
#ifdef LOCKER_BENCH_ETCD
    {"ea", lk_row_ea, false, false, true, false, false, "etcd: one thread, lock + unlock"},
    {"ea1", lk_row_ea1, false, false, true, false, false, "... with server and client on one processor"},
    {"eb", lk_row_eb, false, false, true, false, false, "64 threads with keys of their own"},
    {"eh", lk_row_eh, false, false, true, false, false, "hand-off to a waiter in another process"},
    {"ehw", lk_row_ehw, false, false, true, false, false, "... while a third process writes other keys"},
    {"ec", lk_row_ec, false, false, true, false, false, "8 and 64 waiters on one key"},
    {"ee", lk_row_ee, false, false, true, false, false, "1,000 locks held"},
    {"eused", lk_row_eused, false, false, true, false, false, "one thread on a key that was locked often"},
#ifdef LOCKER_BENCH_TOOL
    {"ectl", lk_row_ectl, false, false, true, false, false, "`locker run` beside `etcdctl lock`"},
#endif
    {"ego", lk_row_ego, false, false, true, false, false,
     "beside Go's concurrency.Mutex; if the build has it"},
    {"enet", lk_row_enet, false, false, true, false, false, "10 ms added to the round trip"},
    {"ecrowd", lk_row_ecrowd, false, false, true, false, false,
     "3,000 threads that wait for one key, and a bystander"},
    {"eseveral", lk_row_eseveral, false, false, true, false, false,
     "64 keys at once, 100 ms added to the round trip"},
    {"ettls", lk_row_ettls, false, false, true, false, false, "2,000 locks with a ttl of their own"},
#endif
};

enum { ROWS = sizeof rows / sizeof rows[0] };

/* ------------------------------------------------------------------ options ---- */

static void help(void)
{
    (void)puts("Usage: locker-bench [OPTION...]\n"
               "Measure liblocker beside the bare limit of each service, in turns.\n\n"
               "  --only NAME[,NAME]  these rows alone\n"
               "  --rounds N          turns of bare and ours, 1 to 99; default 5\n"
               "  --quick             tiny counts: shows that everything runs, measures nothing\n"
               "  --long              the rows that take minutes too\n"
               "  --json FILE         write the figures as JSON lines too\n"
               "  --uri URI           use this Redis, redis://[[USER]:PASSWORD@]HOST[:PORT][/DB] or\n"
               "                      redis+unix:///SOCKET, instead of starting one; its keys named\n"
               "                      bench:* and {bench:* are lost\n"
               "  --help              this text\n\n"
               "Rows:");
    for (size_t i = 0; i < ROWS; i++)
        (void)printf("  %-18s  %s\n", rows[i].name, rows[i].about);
    (void)puts("\nExit: 0 measured, whether or not the goals are reached; 1 a row failed; 64 wrong usage;\n"
               "130 interrupted.");
}

static _Noreturn void usage(const char *what, const char *text, const char *instead)
{
    (void)fprintf(stderr, "locker-bench: %s '%s': %s\n", what, text, instead);
    exit(EXIT_USAGE);
}

static void want(const char *names)
{
    const char *at = names;
    for (;;) {
        size_t length = strcspn(at, ","), i = 0;

        while (i < ROWS && (strlen(rows[i].name) != length || strncmp(rows[i].name, at, length) != 0))
            i++;
        if (i == ROWS)
            usage("--only", names, "name rows of this build, as --help lists them");
        rows[i].wanted = true;
        if (at[length] == '\0')
            return;
        at += length + 1;
    }
}

static int rounds_of(const char *text)
{
    char *end;
    const long n = strtol(text, &end, 10);
    if (end == text || *end != '\0' || n < 1 || n > LK_ROUNDS_MAX)
        usage("--rounds", text, "give a number from 1 to 99");
    return (int)n;
}

static void options(lk_bench *b, int argc, char **argv)
{
    static const struct option all[] = {
        {"only", required_argument, NULL, 'o'}, {"rounds", required_argument, NULL, 'r'},
        {"quick", no_argument, NULL, 'q'},      {"long", no_argument, NULL, 'l'},
        {"json", required_argument, NULL, 'j'}, {"uri", required_argument, NULL, 'u'},
        {"help", no_argument, NULL, 'h'},       {NULL, 0, NULL, 0},
    };
    const char *json = NULL;
    bool named = false;
    opterr = 0;
    int option;
    while ((option = getopt_long(argc, argv, ":", all, NULL)) != -1) {
        switch (option) {
        case 'o':
            want(optarg);
            named = true;
            break;
        case 'r':
            b->rounds = rounds_of(optarg);
            break;
        case 'q':
            b->quick = true;
            break;
        case 'l':
            b->full = true;
            break;
        case 'j':
            json = optarg;
            break;
        case 'u':
            b->uri = optarg;
            break;
        case 'h':
            help();
            exit(EXIT_SUCCESS);
        default:
            usage("option", argv[optind - 1],
                  option == ':' ? "it needs a value; see --help" : "there is none of that name; see --help");
        }
    }
    if (optind < argc)
        usage("argument", argv[optind], "there are none; see --help");
    for (size_t i = 0; i < ROWS && !named; i++)
        rows[i].wanted = b->full || !rows[i].is_long;
    b->json = json != NULL ? fopen(json, "we") : NULL;
    if (json != NULL && b->json == NULL)
        usage("--json", json, strerror(errno));
}

/* ------------------------------------------------------------------ the run ---- */

static void on_signal(int number)
{
    (void)number;
    lk_interrupted = true;
}

static void catch_signals(void)
{
    struct sigaction action = {.sa_handler = on_signal};
    (void)sigaction(SIGINT, &action, NULL);
    (void)sigaction(SIGTERM, &action, NULL);
    (void)signal(SIGPIPE, SIG_IGN);
    sigset_t child;
    (void)sigemptyset(&child);
    (void)sigaddset(&child, SIGCHLD);
    (void)sigprocmask(SIG_BLOCK, &child, NULL); /* the boss waits for it (crew.c) */
}

static void choose_processors(lk_bench *b)
{
    b->client_cpu = b->server_cpu = -1;
    if (sysconf(_SC_NPROCESSORS_ONLN) < 2 || !lk_bench_pin(0) || !lk_bench_pin(1)) {
        lk_bench_progress("there are no two processors to pin server and clients to: both run anywhere");
    } else {
        b->client_cpu = 0;
        b->server_cpu = 1;
    }
    (void)lk_bench_pin(-1);
}

/* Start the servers of the rows that are wanted. False: one of them can't be had. */
static bool start_servers(lk_bench *b)
{
    bool redis = false, zookeeper = false, etcd = false;
    for (size_t i = 0; i < ROWS; i++) {
        redis = redis || (rows[i].wanted && rows[i].redis);
        zookeeper = zookeeper || (rows[i].wanted && rows[i].zookeeper);
        etcd = etcd || (rows[i].wanted && rows[i].etcd);
    }
#ifdef LOCKER_BENCH_REDIS
    if (redis && !lk_bench_redis_server_need(b))
        return false;
#endif
#ifdef LOCKER_BENCH_ZOOKEEPER
    if (zookeeper && !lk_zoo_server_need(b))
        return false;
#endif
#ifdef LOCKER_BENCH_ETCD
    if (etcd && !lk_bench_etcd_server_need(b))
        return false;
#endif
    (void)b;
    return true;
}

static void stop_servers(lk_bench *b)
{
#ifdef LOCKER_BENCH_REDIS
    lk_bench_redis_server_stop(b);
#endif
#ifdef LOCKER_BENCH_ZOOKEEPER
    lk_zoo_server_stop(b);
#endif
#ifdef LOCKER_BENCH_ETCD
    lk_bench_etcd_server_stop(b);
#endif
    lk_scratch_close();
    (void)b;
}

static void run_all(lk_bench *b)
{
    for (size_t i = 0; i < ROWS && !lk_interrupted; i++) {
        if (!rows[i].wanted)
            continue;
        lk_bench_progress("row %s: %s", rows[i].name, rows[i].about);
        if (!rows[i].run(b))
            b->failed = true;
    }
}

int main(int argc, char **argv)
{
    lk_bench b = {.rounds = DEFAULT_ROUNDS};
    options(&b, argc, argv);
#ifdef LOCKER_BENCH_REDIS
    if (b.uri != NULL && !lk_bench_redis_server_parse(&b.server, b.uri))
        usage("--uri", "...", "give redis://[[USER]:PASSWORD@]HOST[:PORT][/DB] or redis+unix:///SOCKET");
#else
    if (b.uri != NULL)
        usage("--uri", "...", "this build has no Redis");
#endif
    b.crew = mmap(NULL, sizeof *b.crew, PROT_READ | PROT_WRITE, MAP_SHARED | MAP_ANONYMOUS, -1, 0);
    if (b.crew == MAP_FAILED) {
        lk_bench_progress("out of memory");
        return EXIT_FAILURE;
    }
    catch_signals();
    choose_processors(&b);
    b.failed = !start_servers(&b);
    if (!b.failed) {
        lk_bench_report_machine(&b);
        run_all(&b);
    }
    stop_servers(&b);
    if (b.json != NULL)
        (void)fclose(b.json);
    return lk_interrupted ? EXIT_INTERRUPTED : b.failed ? EXIT_FAILURE : EXIT_SUCCESS;
}
