/* report.c: figures. A figure has a number for each round of both sides; what is told is the median of each
 * side, and the median of the rounds' ratios, so that a machine which slows down for a while slows down both
 * sides of a ratio. */
#include <jansson.h>
#include <math.h>
#include <stdarg.h>
#include <stdlib.h>
#include <string.h>
#include <sys/utsname.h>
#include <unistd.h>

#include "bench.h"

void lk_bench_progress(const char *format, ...)
{
    (void)fputs("locker-bench: ", stderr);
    va_list args;
    va_start(args, format);
    (void)vfprintf(stderr, format, args);
    va_end(args);
    (void)fputc('\n', stderr);
}

/* ------------------------------------------------------------------ series ---- */

void lk_series_add(lk_series *s, double value)
{
    if (s->n < LK_ROUNDS_MAX)
        s->v[s->n++] = value;
}

static int compare(const void *a, const void *b)
{
    const double x = *(const double *)a, y = *(const double *)b;
    return (x > y) - (x < y);
}

double lk_series_median(const lk_series *s)
{
    lk_series sorted = *s;
    if (s->n == 0)
        return NAN;
    qsort(sorted.v, (size_t)sorted.n, sizeof sorted.v[0], compare);
    return (sorted.v[(sorted.n - 1) / 2] + sorted.v[sorted.n / 2]) / 2;
}

static double median_ratio(const lk_series *bare, const lk_series *ours)
{
    lk_series ratios = {.n = 0};
    for (int i = 0; i < bare->n && i < ours->n; i++)
        if (bare->v[i] > 0)
            lk_series_add(&ratios, ours->v[i] / bare->v[i]);
    return lk_series_median(&ratios);
}

/* ------------------------------------------------------------------ goals ---- */

typedef struct {
    double bare, ours, ratio; /* NAN: none */
    bool reached;
} outcome;

static bool is_ratio(lk_goal_kind kind)
{
    return kind == LK_GOAL_RATIO_AT_MOST || kind == LK_GOAL_RATIO_AT_LEAST;
}

static bool is_at_most(lk_goal_kind kind)
{
    return kind == LK_GOAL_RATIO_AT_MOST || kind == LK_GOAL_AT_MOST;
}

static outcome judge(const lk_bench_figure *figure, const lk_series *bare, const lk_series *ours)
{
    outcome o = {.bare = NAN, .ours = lk_series_median(ours), .ratio = NAN};
    if (bare != NULL) {
        o.bare = lk_series_median(bare);
        o.ratio = median_ratio(bare, ours);
    }
    const double value = is_ratio(figure->goal_kind) ? o.ratio : o.ours;
    o.reached = is_at_most(figure->goal_kind) ? value <= figure->goal : value >= figure->goal;
    return o;
}

static void goal_text(const lk_bench_figure *figure, char *out, size_t size)
{
    if (figure->goal_kind == LK_GOAL_NONE)
        (void)snprintf(out, size, "-");
    else
        (void)snprintf(out, size, "%s%g%s", is_at_most(figure->goal_kind) ? "<= " : ">= ", figure->goal,
                       is_ratio(figure->goal_kind) ? " x" : "");
}

/* ------------------------------------------------------------------ output ---- */

static void number(char *out, size_t size, double value)
{
    if (isnan(value))
        (void)snprintf(out, size, "-");
    else
        (void)snprintf(out, size, "%.*f", value >= 1000 ? 0 : value >= 100 ? 1 : value >= 1 ? 2 : 3, value);
}

static json_t *json_number(double value)
{
    return isnan(value) ? json_null() : json_real(value);
}

static json_t *json_series(const lk_series *s)
{
    json_t *all = json_array();
    for (int i = 0; s != NULL && i < s->n; i++)
        (void)json_array_append_new(all, json_real(s->v[i]));
    return all;
}

static void write_json(lk_bench *b, json_t *line)
{
    if (b->json == NULL || line == NULL)
        return;
    (void)json_dumpf(line, b->json, JSON_COMPACT | JSON_REAL_PRECISION(6));
    (void)fputc('\n', b->json);
    (void)fflush(b->json);
}

static void report_json(lk_bench *b, const lk_bench_figure *figure, const lk_series *bare,
                        const lk_series *ours, const outcome *o)
{
    static const char *const kinds[] = {"none", "ratio_at_most", "ratio_at_least", "at_most", "at_least"};
    const bool goal = figure->goal_kind != LK_GOAL_NONE;
    json_t *line = json_object();
    (void)json_object_set_new(line, "row", json_string(figure->row));
    (void)json_object_set_new(line, "what", json_string(figure->what));
    (void)json_object_set_new(line, "unit", json_string(figure->unit));
    (void)json_object_set_new(line, "against",
                              figure->against != NULL ? json_string(figure->against) : json_null());
    (void)json_object_set_new(line, "bare", json_number(o->bare));
    (void)json_object_set_new(line, "ours", json_number(o->ours));
    (void)json_object_set_new(line, "ratio", json_number(o->ratio));
    (void)json_object_set_new(line, "goal_kind", json_string(kinds[figure->goal_kind]));
    (void)json_object_set_new(line, "goal", goal ? json_real(figure->goal) : json_null());
    (void)json_object_set_new(line, "reached", goal ? json_boolean(o->reached) : json_null());
    (void)json_object_set_new(line, "bare_rounds", json_series(bare));
    (void)json_object_set_new(line, "ours_rounds", json_series(ours));
    write_json(b, line);
    json_decref(line);
}

void lk_bench_report(lk_bench *b, const lk_bench_figure *figure, const lk_series *bare, const lk_series *ours)
{
    static bool headed;
    if (ours->n == 0)
        return;
    outcome o = judge(figure, bare, ours);
    if (!headed)
        (void)printf("%-7s %-62s %10s %10s %-6s %7s %-10s %s\n", "row", "work", "bare", "ours", "unit",
                     "ratio", "goal", "reached");
    headed = true;
    char bare_text[32];
    number(bare_text, sizeof bare_text, o.bare);
    char ours_text[32];
    number(ours_text, sizeof ours_text, o.ours);
    char ratio_text[32];
    number(ratio_text, sizeof ratio_text, o.ratio);
    char goal[32];
    goal_text(figure, goal, sizeof goal);
    char what[160];
    (void)snprintf(what, sizeof what, "%s%s%s%s", figure->what, figure->against != NULL ? " (bare: " : "",
                   figure->against != NULL ? figure->against : "", figure->against != NULL ? ")" : "");
    (void)printf("%-7s %-62s %10s %10s %-6s %7s %-10s %s\n", figure->row, what, bare_text, ours_text,
                 figure->unit, ratio_text, goal,
                 figure->goal_kind == LK_GOAL_NONE ? "-"
                 : o.reached                       ? "yes"
                                                   : "NO");
    (void)fflush(stdout);
    report_json(b, figure, bare, ours, &o);
}

void lk_bench_report_machine(lk_bench *b)
{
    struct utsname system;
    json_t *line = json_object();
    (void)uname(&system);
    (void)json_object_set_new(line, "liblocker", json_string(locker_version()));
    (void)json_object_set_new(line, "kernel", json_string(system.release));
    (void)json_object_set_new(line, "processors", json_integer(sysconf(_SC_NPROCESSORS_ONLN)));
    (void)json_object_set_new(line, "redis", json_string(b->server.version));
    (void)json_object_set_new(line, "zookeeper", json_string(b->zoo.version));
    (void)json_object_set_new(line, "etcd", json_string(b->etcd.version));
    (void)json_object_set_new(line, "rounds", json_integer(b->rounds));
    (void)json_object_set_new(line, "quick", json_boolean(b->quick));
    write_json(b, line);
    json_decref(line);
    (void)printf("liblocker %s, Linux %s, %ld processors, %s, ZooKeeper %s, %s, medians of %d rounds%s\n\n",
                 locker_version(), system.release, sysconf(_SC_NPROCESSORS_ONLN),
                 b->server.version[0] != '\0' ? b->server.version : "Redis not used",
                 b->zoo.version[0] != '\0' ? b->zoo.version : "not used",
                 b->etcd.version[0] != '\0' ? b->etcd.version : "etcd not used", b->rounds,
                 b->quick ? " (--quick: the numbers mean nothing)" : "");
}
