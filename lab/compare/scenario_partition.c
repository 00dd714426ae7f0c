/* scenario_partition.c: the holder is cut off, both ways and one way. Where there is an ensemble, it is the
 * holder's server that is cut off, from its leader, while the holder's connection to it stays. */
#include <stdio.h>

#include "scenario.h"
#include "spawn.h"

enum { LEASE_MS = 2000 };

/* Which packets are lost. */
typedef struct {
    const char *name, *words;
    bool to_far, to_near;
} direction;

static const direction directions[] = {{"both", "both ways", true, true},
                                       {"unheard", "packets from the holder's side are lost", true, false},
                                       {"deaf", "packets to the holder's side are lost", false, true}};
enum { DIRECTIONS = sizeof directions / sizeof directions[0] };

static void drop(lk_cell *cell, const lk_compare_cut *cut, const direction *lost)
{
    bool good = true;
    if (lk_failed(cell))
        return;
    if (lost->to_far)
        good = lk_network_drop(cut->far, cut->near);
    if (lost->to_near)
        good = lk_network_drop(cut->near, cut->far) && good;
    if (!good)
        lk_fail(cell,
                "needs iptables to drop packets in a network namespace, and iptables cannot do so here");
}

static void mend(lk_cell *cell, const lk_compare_cut *cut)
{
    if (!lk_failed(cell) && !(lk_network_mend(cut->far) && lk_network_mend(cut->near)))
        lk_fail(cell, "the network could not be restored");
}

/* The holder is to know of its loss before the next one has the lock; the history checks that. */
static void cut_off(lk_cell *cell, const lk_compare_cut *cut, const direction *lost)
{
    char name[48];
    snprintf(name, sizeof name, "holder-%s", lost->name);
    lk_worker *holder = lk_hire_at(cell, name, cut->holder_uri, cut->holder->netns);
    snprintf(name, sizeof name, "rival-%s", lost->name);
    lk_worker *rival = lk_hire_at(cell, name, cut->rival_uri, cut->rival->netns);
    lk_compare_take(holder);
    lk_stand_in_line(rival);
    lk_tell(holder, "lost 20000");
    const int64_t began = lk_compare_fault(cell, true, "partition", lost->words);
    drop(cell, cut, lost);
    const lk_answer told = lk_hear(holder), got = lk_hear(rival);
    mend(cell, cut);
    lk_compare_fault(cell, false, "partition", lost->words);
    const lk_answer given = lk_ask(holder, "unlock");
    lk_ask(rival, "unlock");
    if (lk_failed(cell))
        return;
    if (told.state != LOCKER_STATE_LOST)
        lk_broken(cell, "%s: the holder was not notified of its loss", lost->words);
    if (got.status != LOCKER_OK)
        lk_broken(cell, "%s: the next process did not get the lock: %s", lost->words, got.text);
    if (given.status == LOCKER_OK)
        lk_broken(cell, "%s: the holder's unlock returned ok", lost->words);
    lk_measure(cell, "told", "ms", (double)(told.received - began) / 1e6);
    lk_measure(cell, "next", "ms", (double)(got.received - began) / 1e6);
}

static void run(lk_cell *cell)
{
    lk_compare_cut cut = {.kind = cell->backend->kind};
    lk_promise(cell, "%s", cell->backend->column->semantics.cut_off);
    cell->ttl_ms = LEASE_MS;
    lk_network network;
    char why[160];
    if (!lk_network_open(&network, why, sizeof why)) {
        lk_fail(cell, "%s", why);
        return;
    }
    if (cut.kind->open_cut(&cut, &network)) {
        lk_observe(cell, cut.rival_uri, cut.rival->netns);
        for (size_t i = 0; i < DIRECTIONS; i++)
            cut_off(cell, &cut, &directions[i]);
    } else {
        lk_fail(cell, "the servers in network namespaces did not start");
    }
    lk_dismiss_all(cell);
    lk_spawn_close_cut(&cut);
    lk_network_close(&network);
}

static void conclude(lk_result *result)
{
    const double overlap = lk_measured_quantile(lk_measured_of(result, "overlap"), 1);
    char told[24], next[24], twice[24], words[64] = "never two holders";
    if (overlap > 0)
        snprintf(words, sizeof words, "TWO HELD IT for %s", lk_ms_words(overlap, twice, sizeof twice));
    lk_figure(result,
              "the holder knew after %s, the next process had the lock after %s (at most; lease %d s); %s",
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "told"), 1), told, sizeof told),
              lk_ms_words(lk_measured_quantile(lk_measured_of(result, "next"), 1), next, sizeof next),
              LEASE_MS / 1000, words);
}

const lk_scenario lk_scenario_partition = {
    .name = "partition",
    .title = "The holder is cut off",
    .question = "Packets between the holder and its server (in an ensemble: between the holder's server and "
                "the leader) are dropped: in both directions, then only from the holder's side, then only to "
                "it. Does the holder know of its loss before another process has the lock?",
    .needs = LK_CAN_BE_CUT,
    .run = run,
    .conclude = conclude,
};
