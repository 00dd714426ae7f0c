/*
 * zookeeper.c: whether a lock is LOST, by its local deadline, before another client can have it, wherever in
 * the cycle of heartbeats, touches and PINGs a server is cut off from its leader. Each trial cuts at another
 * moment; what it found is a line of JSON in a ledger, from which an interrupted sweep goes on. Without one
 * it begins at the beginning and leaves nothing.
 *
 *   locker_zookeeper_sweep [--short N] [--default N] [--only MODE] [--ensembles N] [--ledger FILE]
 *                          [--commit NAME]
 *
 * short: ticks of 200 ms and sessions of 2 to 4 s. default: ticks of 2 s and sessions of 30 s, as installed.
 * The trials of a set have fixed parameters, and belong to a commit. Several ensembles run side by side, each
 * in a process and a network of its own. Ends with 0 when every trial was kept.
 */
#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "child.h"
#include "locking.h"
#include "test_network.h"
#include "test_servers.h"

enum { ENSEMBLES_MAX = 16, TRIES = 3 };

/* ------------------------------------------------------------------ trials ---- */

enum mode { CUT, DEAF, IDLE, STOPPED, STALLED, MODES };

static const char *const mode_names[MODES] = {
    "cut",     /* holds the lock for a while; then its server and the leader are cut off from each other */
    "deaf",    /* ... and then the leader doesn't hear the server */
    "idle",    /* takes the lock after it had nothing to do for a while; then the cut */
    "stopped", /* is stopped before it takes the lock; then the cut */
    "stalled", /* the leader stands still for a moment; then the cut */
};

struct set {
    const char *name;
    int tick_ms, sync_limit;
};

static const struct set sets[] = {{"short", 200, 100}, {"default", 2000, 30}};

struct trial {
    const struct set *set;
    int number;
    enum mode mode;
    int ttl_ms;
    int before_ms; /* idle, stopped, or holding before the cut */
    int after_ms;  /* from then, or from the grant, to the cut */
};

/* Numbers that fill the interval evenly however many there are. */
static double spread(int number, double step)
{
    return fmod(number * step, 1);
}

static struct trial nth_trial(const struct set *set, int number)
{
    struct trial t = {.set = set, .number = number, .mode = (enum mode)(number % MODES)};
    const double x = spread(number / MODES, 0.6180339887), y = spread(number / MODES, 0.7548776662);
    t.ttl_ms = set->tick_ms == 200 ? 4000 - number / MODES % 5 * 500 : 30000;
    switch (t.mode) {
    case IDLE:
        t.before_ms = (int)(t.ttl_ms * (0.64 + 0.6 * x));
        t.after_ms = (int)(set->tick_ms / 2 * y * y);
        break;
    case STOPPED:
        t.before_ms = (int)(t.ttl_ms * (0.3 + 0.5 * x));
        t.after_ms = (int)(set->tick_ms / 2 * y * y);
        break;
    case STALLED:
        t.before_ms = (int)(t.ttl_ms * (1 + x / 4));
        t.after_ms = (int)(t.ttl_ms / 8 * y); /* of the stall; the cut follows it at once */
        break;
    default:
        t.before_ms = (int)(t.ttl_ms * (1 + x / 4)); /* a quarter is the longest cycle */
        t.after_ms = 0;
    }
    return t;
}

/* ------------------------------------------------------------------ the holder ---- */

/* A process that does as it is told: opens, locks, and says when it had the lock and when it lost it. */
static int play_holder(int argc, char **argv)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker *l = NULL;
    locker_error err;
    int64_t deadline = 0, now;
    char line[64];
    if (argc < 2)
        return 64;
    for (int tries = 0; tries < 60 && l == NULL; tries++)
        if (locker_open(argv[0], NULL, &l, &err) != LOCKER_OK)
            usleep(500000);
    if (l == NULL || locker_ping(l, NULL, &err) != LOCKER_OK) {
        lk_side_say("failed %s", err.text);
        return 1;
    }
    lk_side_say("open");
    if (fgets(line, sizeof line, stdin) == NULL)
        return 1;
    options.wait_ms = 0;
    if (locker_lock(l, argv[1], &options, &held, &err) != LOCKER_OK) {
        lk_side_say("failed %s", err.text);
        return 1;
    }
    lk_side_say("held %lld", (long long)locker_handle_remaining_ms(held));
    do {
        const int64_t left = locker_handle_remaining_ms(held);

        now = lk_test_now_ms();
        if (left > 0 && now + left > deadline)
            deadline = now + left;
        usleep(2000);
    } while (locker_handle_state(held) != LOCKER_STATE_LOST);
    lk_side_say("lost %lld %lld", (long long)lk_test_now_ms(), (long long)deadline);
    _exit(0);
}

/* Its next line, but no longer than that; NULL: none came. */
static const char *hear(lk_child *child, int64_t within_ms, char line[LK_LINE_MAX])
{
    struct pollfd wait = {.fd = child->output, .events = POLLIN};
    if (child->filled == 0 && poll(&wait, 1, (int)within_ms) <= 0)
        return NULL;
    return lk_child_hear(child, line);
}

/* ------------------------------------------------------------------ one trial ---- */

struct outcome {
    bool ran;           /* false: `text` says what came in between */
    int64_t granted;    /* the rival has it */
    int64_t deadline;   /* the holder's */
    int64_t lost;       /* the holder knows */
    int64_t cut;        /* when the server was cut off */
    long long at_grant; /* what it had left at its grant */
    char text[200];
};

static struct outcome broken_off(const char *text)
{
    struct outcome o = {0};
    snprintf(o.text, sizeof o.text, "%.*s", (int)sizeof o.text - 1, text);
    return o;
}

/* A rule of a firewall takes effect after tens of ms, in which the server may have answered a PING. Where
 * that matters most the server is stopped instead. */
static bool stops_server(const struct trial *t)
{
    return t->mode == STOPPED || (t->mode == IDLE && t->number / MODES % 2 == 0);
}

static void cut(const struct trial *t, const lk_server *leader, lk_server *follower)
{
    if (stops_server(t)) {
        lk_test_freeze(follower);
        return;
    }
    lk_test_drop(&leader->place, &follower->place);
    if (t->mode != DEAF)
        lk_test_drop(&follower->place, &leader->place);
}

static void sleep_ms(int ms)
{
    usleep((useconds_t)ms * 1000);
}

/* Everything up to the cut. The rival has a place in the queue before it, or asks after it. */
static bool approach(const struct trial *t, lk_child *holder, lk_server *leader, lk_server *follower,
                     locker *rival, lk_locking *waiter, struct outcome *o)
{
    char line[LK_LINE_MAX];
    const bool late = t->mode == IDLE || t->mode == STOPPED;
    if (t->mode == STOPPED) {
        sleep_ms(t->ttl_ms / 2);
        lk_child_stop(holder);
    }
    if (late)
        sleep_ms(t->before_ms);
    lk_child_say(holder, "lock");
    if (t->mode == STOPPED)
        lk_child_signal(holder, SIGCONT);
    if (hear(holder, 2 * t->ttl_ms, line) == NULL || sscanf(line, "held %lld", &o->at_grant) != 1) {
        *o = broken_off(line);
        return false;
    }
    if (!late) {
        lk_locking_start(waiter, rival, "k", NULL);
        sleep_ms(t->before_ms);
    } else {
        sleep_ms(t->after_ms);
    }
    if (t->mode == STALLED) {
        lk_test_freeze(leader);
        sleep_ms(t->after_ms);
        lk_server_thaw(leader);
    }
    o->cut = lk_test_now_ms();
    cut(t, leader, follower);
    if (late)
        lk_locking_start(waiter, rival, "k", NULL);
    return true;
}

static struct outcome run_trial(const struct trial *t, lk_server *members)
{
    lk_server *leader = lk_test_leader(members), *follower = lk_test_follower(members, t->number % 2);
    struct outcome o = {0};
    char uri[128], line[LK_LINE_MAX] = "";
    const char *const arguments[] = {uri, "k", NULL};
    lk_locking waiter = {0};
    lk_child *holder;
    locker_error err;
    locker *rival;
    long long lost, deadline;
    snprintf(uri, sizeof uri, "zookeeper://%s:%d/sweep%d?ttl=%dms", follower->place.address, follower->port,
             t->number, t->ttl_ms);
    holder = lk_child_start("holder", arguments);
    if (hear(holder, 60000, line) == NULL || strcmp(line, "open") != 0) {
        lk_child_kill(holder);
        return broken_off(line);
    }
    snprintf(uri, sizeof uri, "zookeeper://%s:%d/sweep%d?ttl=%dms&command_timeout=60s", leader->place.address,
             leader->port, t->number, t->ttl_ms);
    if (locker_open(uri, NULL, &rival, &err) != LOCKER_OK) {
        lk_child_kill(holder);
        return broken_off(err.text);
    }
    if (approach(t, holder, leader, follower, rival, &waiter, &o)) {
        if (hear(holder, 3 * t->ttl_ms, line) == NULL ||
            sscanf(line, "lost %lld %lld", &lost, &deadline) != 2)
            o = broken_off("the holder did not lose the lock");
        else
            o = (struct outcome){true, 0, deadline, lost, o.cut, o.at_grant, ""};
        if (o.ran && lost < o.cut) /* a machine that is too busy */
            o = broken_off("the holder lost the lock before the cut");
        if (lk_locking_join(&waiter) != LOCKER_OK)
            o = broken_off(waiter.err.text);
        o.granted = waiter.ended_ms;
        locker_handle_free(waiter.held);
    }
    lk_child_kill(holder);
    (void)locker_close(rival);
    lk_test_mend(&leader->place);
    lk_test_mend(&follower->place);
    lk_server_thaw(follower);
    if (t->ttl_ms > 10000) { /* TCP would wait for long before it tries again */
        lk_server_kill(follower);
        lk_test_launch(follower, true);
    }
    return o;
}

/* ------------------------------------------------------------------ the ledger ---- */

static const char *ledger, *commit = "unknown", *only = ""; /* a mode; "": all */

static void note(const struct trial *t, const struct outcome *o)
{
    char line[600];
    const char *result = !o->ran ? "void" : o->granted > o->deadline ? "kept" : "overlap";
    int fd = open(ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    int len;
    for (char *c = (char *)(uintptr_t)o->text; *c != '\0'; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
            *c = '\'';
    len = snprintf(
        line, sizeof line,
        "{\"set\":\"%s\",\"trial\":%d,\"commit\":\"%s\",\"mode\":\"%s\",\"tick_ms\":%d,\"ttl_ms\":%d,"
        "\"before_ms\":%d,\"after_ms\":%d,\"result\":\"%s\",\"left_at_grant_ms\":%lld,"
        "\"deadline_to_grant_ms\":%lld,\"lost_to_grant_ms\":%lld,\"text\":\"%s\"}\n",
        t->set->name, t->number, commit, mode_names[t->mode], t->set->tick_ms, t->ttl_ms, t->before_ms,
        t->after_ms, result, o->at_grant, o->ran ? (long long)(o->granted - o->deadline) : 0,
        o->ran ? (long long)(o->granted - o->lost) : 0, o->text);
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        test_fails("can't write %s: %s", ledger, strerror(errno));
    close(fd);
    fputs(line, stderr);
}

/* What the ledger says of this commit's trials of a set, those below `count`. */
struct summary {
    bool done[100000];
    int kept, overlaps, voids;
    long long least; /* from a deadline to the rival's grant */
};

static bool is_wanted(int number)
{
    return only[0] == '\0' || strcmp(mode_names[number % MODES], only) == 0;
}

static void read_ledger(struct summary *s, const struct set *set, int count)
{
    char line[1024], name[32], of[64], result[32];
    FILE *file = fopen(ledger, "re");
    long long left;
    int number;
    memset(s, 0, sizeof *s);
    s->least = INT64_MAX;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "\"result\":"), *gap = strstr(line, "\"deadline_to_grant_ms\":");

        if (sscanf(line, "{\"set\":\"%31[^\"]\",\"trial\":%d,\"commit\":\"%63[^\"]\"", name, &number, of) !=
                3 ||
            at == NULL || gap == NULL || sscanf(at, "\"result\":\"%31[^\"]\"", result) != 1 ||
            sscanf(gap, "\"deadline_to_grant_ms\":%lld", &left) != 1 || strcmp(name, set->name) != 0 ||
            strcmp(of, commit) != 0 || number < 0 || number >= count || !is_wanted(number))
            continue;
        if (strcmp(result, "void") == 0) {
            s->voids++;
            continue;
        }
        s->done[number] = true;
        *(strcmp(result, "kept") == 0 ? &s->kept : &s->overlaps) += 1;
        if (left < s->least)
            s->least = left;
    }
    if (file != NULL)
        fclose(file);
}

/* ------------------------------------------------------------------ the workers ---- */

static struct summary so_far;

/* One ensemble, for each `step`th trial of a set from the `first` on. */
static int play_worker(int argc, char **argv)
{
    lk_server *members = NULL;
    if (argc < 7)
        return 64;
    const struct set *set = &sets[atoi(argv[0])];
    const int first = atoi(argv[1]), step = atoi(argv[2]), count = atoi(argv[3]);
    ledger = argv[4];
    commit = argv[5];
    only = argv[6];
    read_ledger(&so_far, set, count);
    for (int number = 0, nth = 0; number < count; number++) {
        const struct trial t = nth_trial(set, number);
        struct outcome o = {0};

        if (!is_wanted(number) || nth++ % step != first || so_far.done[number])
            continue;
        if (members == NULL)
            members = lk_test_ensemble(set->tick_ms, set->sync_limit, lk_test_network()->members);
        for (int tries = 0; tries < TRIES && !o.ran; tries++) {
            o = run_trial(&t, members);
            note(&t, &o);
        }
    }
    lk_test_ensemble_free(members);
    return 0;
}

static bool sweep(int which, int count, int ensembles)
{
    lk_child *workers[ENSEMBLES_MAX];
    char index[16], first[16], step[16], most[16];
    bool ended = true;
    int undone = 0;
    snprintf(index, sizeof index, "%d", which);
    snprintf(step, sizeof step, "%d", ensembles);
    snprintf(most, sizeof most, "%d", count);
    for (int i = 0; i < ensembles; i++) {
        const char *const arguments[] = {index, first, step, most, ledger, commit, only, NULL};

        snprintf(first, sizeof first, "%d", i);
        workers[i] = lk_child_start("worker", arguments);
    }
    for (int i = 0; i < ensembles; i++)
        ended = lk_child_end(workers[i]) == 0 && ended;
    read_ledger(&so_far, &sets[which], count);
    for (int number = 0; number < count; number++)
        undone += is_wanted(number) && !so_far.done[number];
    printf("%s: %d of %d trials, %d kept, %d with two holders, %d broken off", sets[which].name,
           so_far.kept + so_far.overlaps, count, so_far.kept, so_far.overlaps, so_far.voids);
    if (so_far.kept + so_far.overlaps > 0)
        printf("; least from a deadline to the rival's grant: %lld ms", so_far.least);
    printf("\n");
    return ended && undone == 0 && so_far.overlaps == 0;
}

static const lk_role roles[] = {{"holder", play_holder}, {"worker", play_worker}, {NULL, NULL}};

int main(int argc, char **argv)
{
    int counts[2] = {0, 0}, ensembles = 2, scratch = -1;
    char path[] = "/tmp/sweep-zookeeper.XXXXXX";
    bool kept = true;
    lk_child_main(argc, argv, roles);
    for (int i = 1; i + 1 < argc; i += 2) {
        if (strcmp(argv[i], "--short") == 0)
            counts[0] = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--default") == 0)
            counts[1] = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--ensembles") == 0)
            ensembles = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--ledger") == 0)
            ledger = argv[i + 1];
        else if (strcmp(argv[i], "--commit") == 0)
            commit = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else
            argc = 0;
    }
    if (argc % 2 == 0 || ensembles < 1 || ensembles > ENSEMBLES_MAX || counts[0] + counts[1] <= 0 ||
        counts[0] > 100000 || counts[1] > 100000) {
        fprintf(stderr,
                "usage: locker_zookeeper_sweep [--short N] [--default N] [--only MODE] [--ensembles N] "
                "[--ledger FILE] [--commit NAME]\n");
        return 64;
    }
    if (ledger == NULL && (scratch = mkstemp(path)) >= 0)
        ledger = path;
    for (int which = 0; which < 2; which++)
        if (counts[which] > 0)
            kept = sweep(which, counts[which], ensembles) && kept;
    if (scratch >= 0) {
        close(scratch);
        unlink(path);
    }
    return kept ? 0 : 1;
}
