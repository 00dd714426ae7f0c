/*
 * random.c: random scripts against a mock, judged by model.c.
 *
 *     mock_random [--scripts N] [--seed N] [--verbose] [--plant NAME]
 *
 * Runs N scripts with the seeds 1 to N, or the one script of --seed. A script is some forty steps: locks, shared
 * ones and permits taken, waited for, unlocked and lost, by up to three lockers, on this thread and on others, with
 * faults of each kind. A seed that fails is printed with the command that runs it again. --plant breaks the service on
 * purpose (plant.h).
 */
#include <sched.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "plant.h"
#include "play.h"

enum { STEPS = 40 };

/* ------------------------------------------------------------------ a script ---- */

static void begin(script *s)
{
    s->random = s->seed;
    s->options = (locker_mock_options)LOCKER_MOCK_OPTIONS_INIT;
    s->options.leases = (locker_mock_leases)play_draw(s, 3);
    s->options.queue = play_draw(s, 2) == 0;
    s->options.pass = play_draw(s, 2) == 0;
    s->options.seed = play_draw(s, 2) == 0 ? 0 : s->seed;
    s->options.patience_ms = PATIENCE_MS;
    s->cancel = locker_cancel_new();
    if (s->cancel == NULL || locker_mock_new(&s->options, &s->mock, NULL) != LOCKER_OK)
        abort();
    for (int i = 0; i < MODEL_KEYS; i++)
        s->permits[i] = play_draw(s, 3) == 0 ? 1 + (int32_t)play_draw(s, MODEL_PERMITS) : 0;
    s->model.disturbed = INT64_MIN / 2;
    s->model.leases = s->options.leases != LOCKER_MOCK_LEASES_NONE;
    note(s, "seed %llu: leases %d, queue %d, pass %d", (unsigned long long)s->seed, (int)s->options.leases,
         s->options.queue, s->options.pass);
    for (int i = 0; i < MODEL_HOSTS; i++)
        play_open_host(s, i);
}

static void print_calls(const script *s)
{
    locker_mock_call c;
    for (size_t i = 0; locker_mock_call_at(s->mock, i, &c); i++)
        (void)printf("%9lld  %s %s of %s, token %llu: %s after %lld ms%s\n", (long long)c.at_ms,
                     locker_mock_op_name(c.op), c.key != NULL ? c.key : "", c.owner,
                     (unsigned long long)c.token, locker_status_name(c.status), (long long)c.took_ms,
                     c.scripted ? ", as the script says" : "");
}

/* Nothing may be left when all have closed. */
static void end(script *s)
{
    char left[512];
    if (s->verbose)
        print_calls(s);
    locker_mock_forget(s->mock);
    for (int i = 0; i < MODEL_HOSTS; i++) {
        (void)locker_close(s->lockers[i]);
        model_host_closed(&s->model, i);
        play_settle(s);
    }
    for (int i = 0; i < MODEL_HANDLES; i++)
        locker_handle_free(s->model.handles[i].held);
    if (locker_mock_verify(s->mock, left, sizeof left) != 0)
        model_wrong(&s->model, "left behind: %s", left);
    locker_mock_free(s->mock);
    locker_cancel_free(s->cancel);
}

/* Runs the script; answers whether all was well. */
static bool run(uint64_t seed, bool verbose, const char *program, const char *planted)
{
    script *s = calloc(1, sizeof *s);
    bool well;
    if (s == NULL)
        abort();
    s->seed = seed;
    s->verbose = verbose;
    begin(s);
    for (int i = 0; i < STEPS && s->model.wrong[0] == '\0'; i++)
        play_step(s);
    end(s);
    well = s->model.wrong[0] == '\0';
    if (!well)
        (void)printf("seed %llu: %s\nrun it again: %s --seed %llu --verbose%s%s\n", (unsigned long long)seed,
                     s->model.wrong, program, (unsigned long long)seed, planted != NULL ? " --plant " : "",
                     planted != NULL ? planted : "");
    free(s);
    return well;
}

static int usage(const char *program)
{
    (void)fprintf(stderr, "usage: %s [--scripts N] [--seed N] [--verbose] [--plant NAME]\n", program);
    return 64;
}

/* The threads of a script take turns: on one processor that takes half the time. */
static void stay_on_one_processor(void)
{
    cpu_set_t here;
    CPU_ZERO(&here);
    CPU_SET((size_t)sched_getcpu(), &here);
    (void)sched_setaffinity(0, sizeof here, &here);
}

int main(int argc, char **argv)
{
    uint64_t first = 1, scripts = 1000;
    const char *planted = NULL;
    bool verbose = false;
    for (int i = 1; i < argc; i++) {
        bool more = i + 1 < argc;

        if (strcmp(argv[i], "--verbose") == 0)
            verbose = true;
        else if (more && strcmp(argv[i], "--scripts") == 0)
            scripts = strtoull(argv[++i], NULL, 10);
        else if (more && strcmp(argv[i], "--seed") == 0)
            first = strtoull(argv[++i], NULL, 10), scripts = 1;
        else if (more && strcmp(argv[i], "--plant") == 0 && plant(argv[i + 1]))
            planted = argv[++i];
        else
            return usage(argv[0]);
    }
    stay_on_one_processor();
    for (uint64_t seed = first; seed < first + scripts; seed++)
        if (!run(seed, verbose, argv[0], planted))
            return 1;
    (void)printf("%llu scripts: all is well\n", (unsigned long long)scripts);
    return 0;
}
