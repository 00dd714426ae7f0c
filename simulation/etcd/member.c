/* member.c: see member.h. Writing, sending and applying go in turns, as in etcd's raft loop: what raft has to say while something is
 * being written waits until it is. So a member whose disk stands still says nothing, and sees nothing of what raft knows already. */
#include "member.h"

#include <stdlib.h>

#include "serve.h"
#include "watch.h"

enum { SYNC_MS = 100, LAG_MS = 200 };

/* ------------------------------------------------------------------ turns ---- */

static void send_all(lk_simetcd_member *m, lk_list *messages)
{
    for (lk_list *link; (link = lk_list_take(messages)) != NULL;)
        lk_simetcd_send(m->e, LK_CONTAINER(link, lk_simetcd_message, link));
}

/* One that may read late is behind for a while: what it reads shows what was before. */
static int64_t lag_ns(const lk_simetcd_member *m)
{
    return m->e->now < m->late_until ? (int64_t)lk_simetcd_draw(m->e, LAG_MS * LK_SIMETCD_MS) : 0;
}

static void hand_on(lk_simetcd_member *m, int64_t until)
{
    if (until <= m->handed)
        return;
    m->handed = until;
    lk_simetcd_post(m, LK_SIMETCD_APPLIES, (uint64_t)until,
                    lk_simetcd_delay_of(m->e, LK_SIMETCD_APPLY, m->id) + lag_ns(m));
}

static void start_write(lk_simetcd_member *m)
{
    lk_simetcd_log_truncate(&m->writing, 0);
    m->write_from = m->raft.stable;
    m->write_term = m->raft.term;
    m->write_vote = m->raft.vote;
    m->write_commit = m->raft.commit;
    for (size_t i = (size_t)m->raft.stable; i < m->raft.log.count; i++)
        lk_simetcd_log_append(&m->writing, m->raft.log.items[i]);
    m->writes = true;
    m->waits_for_disk = m->is_frozen;
    if (!m->is_frozen)
        lk_simetcd_post(m, LK_SIMETCD_WRITTEN, 0, lk_simetcd_delay_of(m->e, LK_SIMETCD_DISK, m->id));
}

static void write_it(lk_simetcd_member *m)
{
    m->disk_term = m->write_term;
    m->disk_vote = m->write_vote;
    m->disk_commit = m->write_commit;
    if (m->writing.count > 0)
        lk_simetcd_log_truncate(&m->disk, (size_t)m->write_from);
    for (size_t i = 0; i < m->writing.count; i++)
        lk_simetcd_log_append(&m->disk, m->writing.items[i]);
}

static bool has_something(const lk_simetcd_member *m)
{
    const lk_simetcd_raft *const r = &m->raft;
    return m->lead != r->lead || !lk_list_empty(&r->messages) || !lk_list_empty(&r->confirmed) ||
           r->commit > m->handed || r->stable < (int64_t)r->log.count || r->term != m->disk_term ||
           r->vote != m->disk_vote;
}

static bool has_to_write(const lk_simetcd_member *m)
{
    const lk_simetcd_raft *const r = &m->raft;
    return r->stable < (int64_t)r->log.count || r->term != m->disk_term || r->vote != m->disk_vote;
}

/* One turn. What is committed and not written yet, as where it is alone, is applied when it is written. */
static void take_turn(lk_simetcd_member *m)
{
    const bool leads = m->raft.role == LK_SIMETCD_LEADER;
    lk_simetcd_sees_leader(m);
    lk_simetcd_sees_reads(m);
    m->write_hand = m->raft.commit;
    if (m->raft.commit <= m->raft.stable)
        hand_on(m, m->raft.commit);
    lk_list_splice(&m->sends_behind, &m->raft.messages);
    if (leads)
        send_all(m, &m->sends_behind);
    if (has_to_write(m)) {
        start_write(m);
        return;
    }
    m->disk_commit = m->raft.commit; /* nobody waits for that */
    send_all(m, &m->sends_behind);
}

static void is_ready(lk_simetcd_member *m)
{
    m->is_roused = false;
    if (m->writes)
        return;
    take_turn(m);
    if (has_something(m))
        lk_simetcd_rouse(m);
}

static void written(lk_simetcd_member *m)
{
    const size_t count = m->writing.count;
    write_it(m);
    if (count > 0)
        lk_simetcd_raft_written(&m->raft, m->write_from + (int64_t)count, m->writing.items[count - 1]->term);
    lk_simetcd_log_truncate(&m->writing, 0);
    m->writes = false;
    hand_on(m, m->write_hand);
    send_all(m, &m->sends_behind);
    if (has_something(m))
        lk_simetcd_rouse(m);
}

void lk_simetcd_member_writes_on(lk_simetcd_member *m)
{
    if (!m->waits_for_disk)
        return;
    m->waits_for_disk = false;
    lk_simetcd_post(m, LK_SIMETCD_WRITTEN, 0, lk_simetcd_delay_of(m->e, LK_SIMETCD_DISK, m->id));
}

/* ------------------------------------------------------------------ what happens ---- */

static void comes(lk_simetcd_member *m, lk_simetcd_message *message)
{
    if (message->word == LK_SIMETCD_ASK_LEADER)
        lk_simetcd_asked_of_lease(m, message);
    else if (message->word == LK_SIMETCD_LEADER_SAYS)
        lk_simetcd_told_of_lease(m, message);
    else
        lk_simetcd_raft_step(&m->raft, message);
}

static void ticks(lk_simetcd_member *m)
{
    lk_simetcd_raft_tick(&m->raft);
    lk_simetcd_looks_after(m);
    lk_simetcd_watch_leader(m);
    lk_simetcd_post(m, LK_SIMETCD_TICKS, 0, lk_simetcd_takes(m, m->e->setup.tick_ms * LK_SIMETCD_MS));
}

void lk_simetcd_member_happens(lk_simetcd_member *m, lk_simetcd_event *event)
{
    switch (event->what) {
    case LK_SIMETCD_TICKS:
        ticks(m);
        break;
    case LK_SIMETCD_EXPIRES:
        lk_simetcd_expires(m);
        break;
    case LK_SIMETCD_SYNCS:
        lk_simetcd_sync(m);
        lk_simetcd_post(m, LK_SIMETCD_SYNCS, 0, lk_simetcd_takes(m, SYNC_MS * LK_SIMETCD_MS));
        break;
    case LK_SIMETCD_ARRIVES:
        lk_simetcd_arrives(m, event->number);
        break;
    case LK_SIMETCD_IS_READY:
        is_ready(m);
        return;
    case LK_SIMETCD_WRITTEN:
        written(m);
        break;
    case LK_SIMETCD_APPLIES:
        lk_simetcd_applies(m, (int64_t)event->number);
        break;
    case LK_SIMETCD_COMES:
        comes(m, event->message);
        break;
    }
    if (has_something(m))
        lk_simetcd_rouse(m);
}

/* ------------------------------------------------------------------ life ---- */

void lk_simetcd_member_start(lk_simetcd_member *m)
{
    lk_simetcd *const e = m->e;
    lk_simetcd_log log = {0};
    for (size_t i = 0; i < m->disk.count; i++)
        lk_simetcd_log_append(&log, m->disk.items[i]);
    m->running = true;
    m->life++;
    m->stopped = m->serving = m->is_primary = m->is_roused = m->writes = m->waits_for_disk = false;
    m->lead = -1;
    m->applied = m->handed = 0;
    m->read_count = 0;
    m->late_until = 0;
    m->raft = (lk_simetcd_raft){.id = m->id,
                                .members = e->setup.members,
                                .election_ticks = e->setup.election_ticks,
                                .draw = e->setup.draw,
                                .context = e->setup.context};
    lk_simetcd_raft_init(&m->raft, m->disk_term, m->disk_vote, &log, m->disk_commit);
    lk_simetcd_store_init(&m->store);
    m->handed = m->disk_commit;
    lk_simetcd_applies(m, m->disk_commit);
    lk_simetcd_post(m, LK_SIMETCD_TICKS, 0,
                    (int64_t)lk_simetcd_draw(e, (uint64_t)(e->setup.tick_ms * LK_SIMETCD_MS)));
    lk_simetcd_post(m, LK_SIMETCD_EXPIRES, 0, 0);
    lk_simetcd_post(m, LK_SIMETCD_SYNCS, 0, 0);
    if (e->setup.members == 1) { /* it need not wait for anybody */
        m->raft.elapsed = m->raft.timeout;
        lk_simetcd_raft_tick(&m->raft);
        lk_simetcd_rouse(m);
    }
}

void lk_simetcd_member_end(lk_simetcd_member *m, bool is_written)
{
    if (m->writes && is_written)
        write_it(m);
    m->running = m->stopped = m->serving = m->writes = false;
    m->life++;
    lk_simetcd_requests_free(m);
    for (lk_list *link; (link = lk_list_take(&m->streams)) != NULL;) {
    }
    for (lk_list *link; (link = lk_list_take(&m->held)) != NULL;)
        lk_simetcd_event_free(LK_CONTAINER(link, lk_simetcd_event, link));
    for (lk_list *link; (link = lk_list_take(&m->sends_behind)) != NULL;)
        lk_simetcd_message_free(LK_CONTAINER(link, lk_simetcd_message, link));
    lk_simetcd_log_truncate(&m->writing, 0);
    lk_simetcd_raft_free(&m->raft);
    lk_simetcd_store_free(&m->store);
}
