/* cycles.c: many turns of lock and unlock by several workers at once, gathered; see cell.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "cell.h"
#include "cli.h"
#include "die.h"
#include "servers/wait.h"

static void file_of(const lk_worker *worker, char *out, size_t size)
{
    snprintf(out, size, "%s.%s.cycles", worker->cell->history, worker->name);
}

static void gather(lk_worker *worker, lk_cycles *all)
{
    char path[400];
    file_of(worker, path, sizeof path);
    FILE *file = fopen(path, "re");
    lk_cycle turn;
    while (file && fread(&turn, sizeof turn, 1, file) == 1) {
        if (turn.locked != LOCKER_OK)
            continue;
        if ((all->len & (all->len + 1)) == 0) { /* room for one less than a power of two is full */
            lk_cycle *more = realloc(all->turns, (all->len * 2 + 1) * sizeof turn);

            if (!more)
                lk_die(LK_EXIT_SYSTEM, "out of memory");
            all->turns = more;
        }
        all->turns[all->len++] = turn;
    }
    if (file)
        fclose(file);
    remove(path);
}

static int by_grant(const void *a, const void *b)
{
    const lk_cycle *x = a, *y = b;
    return (x->got > y->got) - (x->got < y->got);
}

static bool works(const lk_worker *worker)
{
    return worker->pid > 0 && !worker->observes;
}

static void begin(lk_worker *worker, const lk_pace *pace, const lk_cycles *all)
{
    char path[400];
    file_of(worker, path, sizeof path);
    char key[160];
    snprintf(key, sizeof key, "%s%s%s", worker->cell->key, pace->own_keys ? "." : "",
             pace->own_keys ? worker->name : "");
    lk_tell(worker, "cycle %s %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %" PRId64 " %d %s",
            key, all->begin, all->end, pace->count, pace->hold_us, pace->rest_us, pace->told, pace->watched,
            path);
}

lk_cycles lk_cycle_all(lk_cell *cell, const lk_pace *pace)
{
    lk_cycles all = {0};
    all.begin = lk_now_ns() + 20000000; /* all have read their line by then */
    all.end = all.begin + pace->for_ms * 1000000;
    for (size_t i = 0; i < cell->crew_len; i++)
        if (works(cell->crew[i]))
            begin(cell->crew[i], pace, &all);
    for (size_t i = 0; i < cell->crew_len; i++) {
        if (!works(cell->crew[i]))
            continue;
        lk_answer last = lk_hear(cell->crew[i]);

        if (last.status > LOCKER_OK)
            lk_fail(cell, "%s could not lock: %s", cell->crew[i]->name, last.text);
        gather(cell->crew[i], &all);
    }
    if (all.len > 0)
        qsort(all.turns, all.len, sizeof *all.turns, by_grant);
    else
        lk_fail(cell, "no worker got the lock");
    return all;
}

size_t lk_cycles_at_once(const lk_cycles *all, bool shared)
{
    size_t most = 0;
    for (size_t i = 0; i < all->len; i++) {
        size_t now = 0;

        for (size_t other = 0; other < all->len && all->turns[i].shared == shared; other++)
            now += all->turns[other].shared == shared && all->turns[other].got <= all->turns[i].got &&
                   all->turns[other].gave > all->turns[i].got;
        most = now > most ? now : most;
    }
    return most;
}

double lk_cycles_longest_wait(const lk_cycles *all, bool shared)
{
    int64_t longest = 0;
    for (size_t i = 0; i < all->len; i++) {
        const int64_t wait = all->turns[i].got - all->turns[i].asked;

        longest = all->turns[i].shared == shared && wait > longest ? wait : longest;
    }
    return (double)longest / 1e6;
}

double lk_cycles_longest_hold(const lk_cycles *all, bool shared)
{
    int64_t longest = 0;
    for (size_t i = 0; i < all->len; i++) {
        const int64_t hold = all->turns[i].given - all->turns[i].got;

        longest = all->turns[i].shared == shared && hold > longest ? hold : longest;
    }
    return (double)longest / 1e6;
}

double lk_cycles_longest_lull(const lk_cycles *all)
{
    int64_t longest = 0;
    for (size_t i = 1; i < all->len; i++) {
        const int64_t lull = all->turns[i].got - all->turns[i - 1].got;

        longest = lull > longest ? lull : longest;
    }
    return (double)longest / 1e6;
}
