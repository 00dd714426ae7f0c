/* cluster.c: what etcd.h offers. */
#include <stdio.h>
#include <stdlib.h>

#include "member.h"
#include "serve.h"

enum {
    THAW_NS = 500000,
    LATE_NS = 500000000
}; /* LATE_NS: how long a member reads what was before it stood still */

/* ------------------------------------------------------------------ life ---- */

lk_simetcd *lk_simetcd_new(const lk_simetcd_setup *setup)
{
    lk_simetcd *const e = lk_simetcd_alloc(sizeof *e);
    e->setup = *setup;
    e->setup.tick_ms = setup->tick_ms > 0 ? setup->tick_ms : 100;
    e->setup.election_ticks = setup->election_ticks > 0 ? setup->election_ticks : 10;
    lk_list_init(&e->events);
    for (int from = 0; from < LK_SIMETCD_MEMBERS_MAX; from++)
        for (int to = 0; to < LK_SIMETCD_MEMBERS_MAX; to++)
            lk_list_init(&e->clogged[from][to]);
    for (int i = 0; i < setup->members; i++) {
        lk_simetcd_member *const m = &e->members[i];
        *m = (lk_simetcd_member){.e = e, .id = i, .disk_vote = -1};
        lk_list_init(&m->requests);
        lk_list_init(&m->streams);
        lk_list_init(&m->held);
        lk_list_init(&m->sends_behind);
        lk_simetcd_member_start(m);
    }
    return e;
}

static void drop(lk_list *events)
{
    for (lk_list *link; (link = lk_list_take(events)) != NULL;)
        lk_simetcd_event_free(LK_CONTAINER(link, lk_simetcd_event, link));
}

void lk_simetcd_free(lk_simetcd *e)
{
    if (e == NULL)
        return;
    for (int i = 0; i < e->setup.members; i++) {
        if (e->members[i].running)
            lk_simetcd_member_end(&e->members[i], false);
        lk_simetcd_log_free(&e->members[i].disk);
        lk_simetcd_log_free(&e->members[i].writing);
    }
    drop(&e->events);
    for (int from = 0; from < LK_SIMETCD_MEMBERS_MAX; from++)
        for (int to = 0; to < LK_SIMETCD_MEMBERS_MAX; to++)
            drop(&e->clogged[from][to]);
    free(e);
}

/* ------------------------------------------------------------------ time ---- */

int64_t lk_simetcd_now(const lk_simetcd *e)
{
    return e->now;
}

int64_t lk_simetcd_due(const lk_simetcd *e)
{
    const lk_list *const first = lk_list_first(&e->events);
    return first != NULL ? LK_CONTAINER(first, lk_simetcd_event, link)->at : INT64_MAX;
}

/* What is sent to a member that has ended is lost. */
static void happens(lk_simetcd *e, lk_simetcd_event *event)
{
    lk_simetcd_member *const m = &e->members[event->member];
    const bool comes = event->what == LK_SIMETCD_COMES;
    if (comes && e->is_clogged[event->from][event->member]) {
        lk_list_append(&e->clogged[event->from][event->member], &event->link);
        return;
    }
    if (m->stopped && (comes || event->life == m->life)) {
        lk_list_append(&m->held, &event->link);
        return;
    }
    if (m->running && (comes || event->life == m->life))
        lk_simetcd_member_happens(m, event);
    lk_simetcd_event_free(event);
}

void lk_simetcd_advance(lk_simetcd *e, int64_t now_ns)
{
    while (lk_simetcd_due(e) <= now_ns) {
        lk_simetcd_event *const event = LK_CONTAINER(lk_list_take(&e->events), lk_simetcd_event, link);
        e->now = event->at > e->now ? event->at : e->now;
        happens(e, event);
    }
    e->now = now_ns > e->now ? now_ns : e->now;
}

/* ------------------------------------------------------------------ what goes wrong ---- */

void lk_simetcd_stop(lk_simetcd *e, int member)
{
    e->members[member].stopped = e->members[member].running;
}

void lk_simetcd_continue(lk_simetcd *e, int member)
{
    lk_simetcd_member *const m = &e->members[member];
    if (!m->stopped)
        return;
    m->stopped = false;
    if (e->setup.reads_late && e->setup.members > 1)
        m->late_until = e->now + LATE_NS;
    lk_simetcd_release(e, &m->held, e->setup.draw != NULL ? THAW_NS : 0);
}

void lk_simetcd_kill(lk_simetcd *e, int member, bool written)
{
    if (e->members[member].running)
        lk_simetcd_member_end(&e->members[member], written);
}

void lk_simetcd_start(lk_simetcd *e, int member, bool with_data)
{
    lk_simetcd_member *const m = &e->members[member];
    if (m->running)
        return;
    if (!with_data) {
        lk_simetcd_log_truncate(&m->disk, 0);
        m->disk_term = m->disk_commit = 0;
        m->disk_vote = -1;
        e->ended = e->setup.members == 1 ? 0 : e->ended;
        e->done = e->setup.members == 1 ? 0 : e->done;
    }
    lk_simetcd_member_start(m);
}

void lk_simetcd_clog(lk_simetcd *e, int from, int to, bool clogged)
{
    e->is_clogged[from][to] = clogged;
    if (!clogged)
        lk_simetcd_release(e, &e->clogged[from][to], 0);
}

static void lose(lk_simetcd *e, int from, int to)
{
    drop(&e->clogged[from][to]);
    LK_EACH_SAFE(lk_simetcd_event, event, link, &e->events) {
        if (event->what != LK_SIMETCD_COMES || event->from != from || event->member != to)
            continue;
        lk_list_remove(&event->link);
        lk_simetcd_event_free(event);
    }
}

void lk_simetcd_break(lk_simetcd *e, int one, int other)
{
    lose(e, one, other);
    lose(e, other, one);
}

void lk_simetcd_freeze_disk(lk_simetcd *e, int member, bool frozen)
{
    lk_simetcd_member *const m = &e->members[member];
    m->is_frozen = frozen;
    if (!frozen && m->running)
        lk_simetcd_member_writes_on(m);
}

/* ------------------------------------------------------------------ what there is ---- */

int lk_simetcd_leader(const lk_simetcd *e)
{
    int leader = -1;
    for (int i = 0; i < e->setup.members; i++) {
        const lk_simetcd_member *const m = &e->members[i];
        if (m->running && m->raft.role == LK_SIMETCD_LEADER &&
            (leader == -1 || m->raft.term > e->members[leader].raft.term))
            leader = i;
    }
    return leader;
}

uint64_t lk_simetcd_term(const lk_simetcd *e)
{
    const int leader = lk_simetcd_leader(e);
    return leader < 0 ? 0 : (uint64_t)e->members[leader].raft.term;
}

bool lk_simetcd_serves(const lk_simetcd *e, int member)
{
    const lk_simetcd_member *const m = &e->members[member];
    return m->running && !m->stopped && m->serving && m->lead != -1 && !m->is_frozen;
}

bool lk_simetcd_forget(lk_simetcd *e, int64_t revisions)
{
    const int leader = lk_simetcd_leader(e);
    lk_simetcd_member *const m = &e->members[leader < 0 ? 0 : leader];
    uint8_t bytes[16] = {8};
    size_t count = 1;
    if (leader < 0 || m->stopped || m->store.revision - revisions <= m->store.compacted)
        return false;
    for (uint64_t left = (uint64_t)(m->store.revision - revisions); left > 0 || count == 1; left >>= 7)
        bytes[count++] = (uint8_t)((left & 127) | (left > 127 ? 128 : 0));
    (void)lk_simetcd_ask(m, LK_SIMETCD_COMPACT, lk_simetcd_unpack(LK_SIMETCD_COMPACT, bytes, count), NULL,
                         NULL);
    return true;
}

bool lk_simetcd_left(const lk_simetcd *e, char *text, size_t room)
{
    const int leader = lk_simetcd_leader(e);
    if (leader < 0) {
        (void)snprintf(text, room, "no leader");
        return true;
    }
    const lk_simetcd_store *const store = &e->members[leader].store;
    for (size_t i = 0; i < store->key_count; i++) {
        const lk_simetcd_kv *const kv = lk_simetcd_state(store->keys[i], INT64_MAX);
        if (kv == NULL)
            continue;
        (void)snprintf(text, room, "the key %.*s", (int)kv->key.len, (const char *)kv->key.bytes);
        return true;
    }
    return false;
}
