/* trace.c: the trace that a model follows, from the file $TRACE: a line for each event, of numbers. Part of Spin's pan (trace.h). */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

enum { TRACE_CLOCKS = 192 };

typedef struct {
    int event, who, next, about, left, passed[TRACE_CLOCKS];
} trace_event;

static trace_event *trace;
static int trace_count, trace_most;

/* The event that nothing could be made of stands behind the most that were taken. */
static void trace_refused(void)
{
    printf("trace: refused at %d\n", trace_most);
}

static void trace_read(int clocks)
{
    const char *const name = getenv("TRACE");
    FILE *const file = name != NULL ? fopen(name, "r") : NULL;
    trace_event e;
    if (file == NULL) {
        fputs("trace: the file $TRACE can't be read\n", stderr);
        exit(66);
    }
    while (fscanf(file, "%d %d %d %d %d", &e.event, &e.who, &e.next, &e.about, &e.left) == 5) {
        for (int i = 0; i < clocks; i++)
            if (fscanf(file, "%d", &e.passed[i]) != 1)
                exit(65);
        if (trace_count % 1024 == 0)
            trace = realloc(trace, (trace_count + 1024) * sizeof *trace);
        trace[trace_count++] = e;
    }
    fclose(file);
    atexit(trace_refused);
}

/* The event at a place; behind the last one the model has taken all. */
static void trace_next(int at, int used, unsigned char *event, unsigned char *who, unsigned char *next,
                       int *about, int *left, int *passed, int clocks)
{
    if (trace == NULL)
        trace_read(clocks);
    if (at > trace_most)
        trace_most = at;
    if (at == trace_count) {
        printf("trace: accepted %u\n", (unsigned)used);
        fflush(stdout);
        _exit(0);
    }
    *event = (unsigned char)trace[at].event;
    *who = (unsigned char)trace[at].who;
    *next = (unsigned char)trace[at].next;
    *about = trace[at].about;
    *left = trace[at].left;
    memcpy(passed, trace[at].passed, clocks * sizeof *passed);
}

/* Whether one at most has time left. */
static int trace_are_alone(const int *valid, int clients)
{
    int count = 0;
    for (int i = 1; i <= clients; i++)
        count += valid[i] > 0;
    return count <= 1;
}
