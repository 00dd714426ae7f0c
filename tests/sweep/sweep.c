/* sweep.c: see sweep.h. */
#include "sweep.h"

#include <errno.h>
#include <fcntl.h>
#include <math.h>
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <unistd.h>

#include "holding.h"
#include "locking.h"

enum { WORKERS_MAX = 16, SETS_MAX = 4, TRIALS_MAX = 100000, TRIES = 3, WORDS_MAX = 8, SKIPPED = 77 };

double lk_spread(int number, double step)
{
    return fmod(number * step, 1);
}

/* ------------------------------------------------------------------ the holder ---- */

static bool is_told(void)
{
    struct pollfd wait = {.fd = STDIN_FILENO, .events = POLLIN};
    return poll(&wait, 1, 2) > 0;
}

/* So much longer it goes on than it may: with that a sweep must find two holders. */
static int64_t lateness(void)
{
    const char *const late = getenv("LOCKER_SWEEP_LATE_MS");
    return late != NULL ? strtoll(late, NULL, 10) : 0;
}

static int play_holder(int argc, char **argv)
{
    locker_lock_options options = LOCKER_LOCK_OPTIONS_INIT;
    locker_handle *held = NULL;
    locker *l = NULL;
    locker_error err;
    int64_t deadline = 0;
    const int64_t late = lateness();
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
    options.wait_ms = argc > 2 ? strtoll(argv[2], NULL, 10) : 0;
    if (locker_lock(l, argv[1], &options, &held, &err) != LOCKER_OK) {
        lk_side_say("failed %s", err.text);
        return 1;
    }
    const int64_t granted = lk_test_now_ms();
    lk_side_say("held %lld %lld", (long long)locker_handle_remaining_ms(held), (long long)granted);
    do { /* the time first: whoever stands still in between makes it earlier, and the next turn makes up for it */
        const int64_t now = lk_test_now_ms(), left = locker_handle_remaining_ms(held);
        if (left > 0 && now + left + late > deadline)
            deadline = now + left + late;
        if (is_told()) {
            lk_side_say("kept %lld", (long long)deadline);
            _exit(0);
        }
    } while (locker_handle_state(held) != LOCKER_STATE_LOST);
    lk_side_say("lost %lld %lld", (long long)(lk_test_now_ms() + late), (long long)deadline);
    (void)fgets(line, sizeof line, stdin); /* until nobody has anything to say to it */
    _exit(0);
}

const char *lk_child_hear_within(lk_child *child, int64_t within_ms, char line[LK_LINE_MAX])
{
    struct pollfd wait = {.fd = child->output, .events = POLLIN};
    if (child->filled == 0 && poll(&wait, 1, (int)within_ms) <= 0)
        return NULL;
    return lk_child_hear(child, line);
}

lk_outcome lk_broken_off(const char *text)
{
    lk_outcome o = {0};
    snprintf(o.text, sizeof o.text, "%.*s", (int)sizeof o.text - 1, text);
    return o;
}

bool lk_is_settled(locker *l, locker_error *err)
{
    const locker_lock_options options = lk_wait_options(30000);
    locker_handle *held = NULL;
    const locker_status status = locker_lock(l, "settled", &options, &held, err);
    locker_handle_free(held);
    return status == LOCKER_OK;
}

/* ------------------------------------------------------------------ the ledger ---- */

static const char *ledger, *commit = "unknown", *only = ""; /* modes, with commas between; "": all */

static const char *mode_of(const lk_sweep *sweep, int number)
{
    return sweep->modes[(size_t)number % sweep->mode_count];
}

static void note(const lk_sweep *sweep, int set, int number, const lk_outcome *o)
{
    char line[800], parameters[200];
    const bool held = o->granted == 0 || o->deadline == 0; /* it was not lost, or nobody had it */
    const char *result = !o->ran                             ? "void"
                         : o->in_vain                        ? "lost"
                         : held || o->granted >= o->deadline ? "kept"
                                                             : "overlap"; /* to the ms */
    const int fd = open(ledger, O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0666);
    char text[sizeof o->text];
    memcpy(text, o->text, sizeof text);
    for (char *c = text; *c != '\0'; c++)
        if (*c == '"' || *c == '\\' || (unsigned char)*c < 0x20)
            *c = '\'';
    sweep->describe(set, number, parameters, sizeof parameters);
    int len =
        snprintf(line, sizeof line,
                 "{\"set\":\"%s\",\"trial\":%d,\"commit\":\"%s\",\"mode\":\"%s\",%s,"
                 "\"result\":\"%s\",\"left_at_grant_ms\":%lld,",
                 sweep->sets[set], number, commit, mode_of(sweep, number), parameters, result, o->at_grant);
    if (o->ran && !held)
        len += snprintf(line + len, sizeof line - (size_t)len,
                        "\"deadline_to_grant_ms\":%lld,\"lost_to_grant_ms\":%lld,",
                        (long long)(o->granted - o->deadline), (long long)(o->granted - o->lost));
    len += snprintf(line + len, sizeof line - (size_t)len, "\"text\":\"%s\"}\n", text);
    if (fd < 0 || write(fd, line, (size_t)len) != len)
        test_fails("can't write %s: %s", ledger, strerror(errno));
    close(fd);
    fputs(line, stderr);
}

/* What the ledger says of this commit's trials of a set, those below `count`. */
static struct {
    bool done[TRIALS_MAX];
    int kept, overlaps, in_vain, voids, lived;
    long long least;      /* from a deadline to the rival's grant */
    int words[WORDS_MAX]; /* lk_sweep.words */
} so_far;

bool lk_sweep_wants(const char *mode)
{
    const size_t length = strlen(mode);
    for (const char *at = only; (at = strstr(at, mode)) != NULL; at += length)
        if ((at == only || at[-1] == ',') && (at[length] == ',' || at[length] == '\0'))
            return true;
    return only[0] == '\0';
}

static bool is_wanted(const lk_sweep *sweep, int number)
{
    return lk_sweep_wants(mode_of(sweep, number));
}

static void read_ledger(const lk_sweep *sweep, int set, int count)
{
    char line[1024], name[32], of[64], result[32];
    FILE *file = fopen(ledger, "re");
    int number;
    memset(&so_far, 0, sizeof so_far);
    so_far.least = INT64_MAX;
    while (file != NULL && fgets(line, sizeof line, file) != NULL) {
        const char *at = strstr(line, "\"result\":"), *gap = strstr(line, "\"deadline_to_grant_ms\":");
        long long left = INT64_MAX;
        if (sscanf(line, "{\"set\":\"%31[^\"]\",\"trial\":%d,\"commit\":\"%63[^\"]\"", name, &number, of) !=
                3 ||
            at == NULL || sscanf(at, "\"result\":\"%31[^\"]\"", result) != 1 ||
            (gap != NULL && sscanf(gap, "\"deadline_to_grant_ms\":%lld", &left) != 1) ||
            strcmp(name, sweep->sets[set]) != 0 || strcmp(of, commit) != 0 || number < 0 || number >= count ||
            !is_wanted(sweep, number))
            continue;
        if (strcmp(result, "void") == 0) {
            so_far.voids++;
            continue;
        }
        so_far.done[number] = true;
        *(strcmp(result, "kept") == 0   ? &so_far.kept
          : strcmp(result, "lost") == 0 ? &so_far.in_vain
                                        : &so_far.overlaps) += 1;
        so_far.lived += gap == NULL;
        for (int i = 0; sweep->words != NULL && sweep->words[i] != NULL; i++)
            so_far.words[i] += strstr(line, sweep->words[i]) != NULL;
        if (left < so_far.least)
            so_far.least = left;
    }
    if (file != NULL)
        fclose(file);
}

/* ------------------------------------------------------------------ the workers ---- */

/* Each `step`th trial of a set from the `first` on. */
static int work(const lk_sweep *sweep, int argc, char **argv)
{
    if (argc < 7)
        return 64;
    const int set = atoi(argv[0]), first = atoi(argv[1]), step = atoi(argv[2]), count = atoi(argv[3]);
    ledger = argv[4];
    commit = argv[5];
    only = argv[6];
    read_ledger(sweep, set, count);
    for (int number = 0, nth = 0; number < count; number++) {
        lk_outcome o = {0};
        if (!is_wanted(sweep, number) || nth++ % step != first || so_far.done[number])
            continue;
        for (int tries = 0; tries < TRIES && !o.ran; tries++) {
            o = sweep->run(set, number);
            note(sweep, set, number, &o);
        }
    }
    sweep->end();
    return 0;
}

static void tell(const lk_sweep *sweep, int set, int count)
{
    printf("%s: %d of %d trials, %d kept, %d with two holders, %d broken off", sweep->sets[set],
           so_far.kept + so_far.overlaps + so_far.in_vain, count, so_far.kept, so_far.overlaps, so_far.voids);
    if (so_far.in_vain > 0)
        printf("; %d lost in vain", so_far.in_vain);
    if (so_far.lived > 0 && sweep->words == NULL)
        printf("; in %d of them the holder went on", so_far.lived);
    for (int i = 0; sweep->words != NULL && sweep->words[i] != NULL; i++)
        printf("; %d: %s", so_far.words[i], sweep->words[i]);
    if (so_far.least < INT64_MAX)
        printf("; least from a deadline to the rival's grant: %lld ms", so_far.least);
    printf("\n");
}

/* Waits for its end, and passes on what it says: why it skips all. */
static int end_worker(lk_child *worker, bool quietly)
{
    char text[512];
    for (ssize_t got; (got = read(worker->output, text, sizeof text)) > 0;)
        if (!quietly)
            fwrite(text, 1, (size_t)got, stderr);
    return lk_child_end(worker);
}

/* An exit code. */
static int sweep_set(const lk_sweep *sweep, int set, int count, int workers)
{
    lk_child *worker[WORKERS_MAX];
    char index[16], first[16], step[16], most[16];
    bool ended = true, skipped = false;
    int undone = 0;
    snprintf(index, sizeof index, "%d", set);
    snprintf(step, sizeof step, "%d", workers);
    snprintf(most, sizeof most, "%d", count);
    for (int i = 0; i < workers; i++) {
        const char *const arguments[] = {index, first, step, most, ledger, commit, only, NULL};
        snprintf(first, sizeof first, "%d", i);
        worker[i] = lk_child_start("worker", arguments);
    }
    for (int i = 0; i < workers; i++) {
        const int code = end_worker(worker[i], skipped);
        ended = code == 0 && ended;
        skipped = code == SKIPPED || skipped;
    }
    read_ledger(sweep, set, count);
    for (int number = 0; number < count; number++)
        undone += is_wanted(sweep, number) && !so_far.done[number];
    tell(sweep, set, count);
    const bool good = so_far.overlaps + so_far.in_vain == 0;
    return ended && undone == 0 && good ? 0 : skipped && good ? SKIPPED : 1;
}

static int usage(const lk_sweep *sweep, const char *program)
{
    fprintf(stderr, "usage: %s", program);
    for (int i = 0; sweep->sets[i] != NULL; i++)
        fprintf(stderr, " [--%s N]", sweep->sets[i]);
    fprintf(stderr, " [--only MODE[,MODE...]] [--workers N] [--ledger FILE] [--commit NAME]\n");
    return 64;
}

static int run(const lk_sweep *sweep, int argc, char **argv)
{
    int counts[SETS_MAX] = {0}, workers = 2, scratch = -1, all = 0;
    char path[] = "/tmp/sweep.XXXXXX";
    int code = 0;
    if (argc % 2 == 0)
        return usage(sweep, argv[0]);
    for (int i = 1; i + 1 < argc; i += 2) {
        int set = 0;
        while (sweep->sets[set] != NULL &&
               (strncmp(argv[i], "--", 2) != 0 || strcmp(argv[i] + 2, sweep->sets[set]) != 0))
            set++;
        if (sweep->sets[set] != NULL)
            counts[set] = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--workers") == 0)
            workers = atoi(argv[i + 1]);
        else if (strcmp(argv[i], "--ledger") == 0)
            ledger = argv[i + 1];
        else if (strcmp(argv[i], "--commit") == 0)
            commit = argv[i + 1];
        else if (strcmp(argv[i], "--only") == 0)
            only = argv[i + 1];
        else
            return usage(sweep, argv[0]);
    }
    for (int set = 0; sweep->sets[set] != NULL; set++) {
        if (counts[set] < 0 || counts[set] > TRIALS_MAX)
            return usage(sweep, argv[0]);
        all += counts[set];
    }
    if (workers < 1 || workers > WORKERS_MAX || all == 0)
        return usage(sweep, argv[0]);
    if (ledger == NULL && (scratch = mkstemp(path)) >= 0)
        ledger = path;
    for (int set = 0; sweep->sets[set] != NULL; set++)
        if (counts[set] > 0) {
            const int of_set = sweep_set(sweep, set, counts[set], workers);
            code = code == 1 || of_set == 0 ? code : of_set;
        }
    if (scratch >= 0) {
        close(scratch);
        unlink(path);
    }
    return code;
}

static int play_worker(int argc, char **argv)
{
    return work(&lk_swept, argc, argv);
}

int main(int argc, char **argv)
{
    const lk_role roles[] = {{"holder", play_holder},
                             {"worker", play_worker},
                             {lk_swept.other != NULL ? "other" : NULL, lk_swept.other},
                             {NULL, NULL}};
    lk_child_main(argc, argv, roles);
    return run(&lk_swept, argc, argv);
}
