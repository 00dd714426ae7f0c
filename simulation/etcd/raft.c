/* raft.c: see raft.h. */
#include "raft.h"

#include <stdlib.h>

/* ------------------------------------------------------------------ entries, messages ---- */

lk_simetcd_entry *lk_simetcd_entry_new(lk_simetcd_kind kind, ProtobufCMessage *message, uint64_t id)
{
    lk_simetcd_entry *const entry = lk_simetcd_alloc(sizeof *entry);
    *entry = (lk_simetcd_entry){.refs = 1, .kind = kind, .message = message, .id = id};
    return entry;
}

static void unref(lk_simetcd_entry *entry)
{
    if (--entry->refs > 0)
        return;
    if (entry->message != NULL)
        protobuf_c_message_free_unpacked(entry->message, NULL);
    free(entry);
}

void lk_simetcd_log_append(lk_simetcd_log *log, lk_simetcd_entry *entry)
{
    log->items = lk_simetcd_grow(log->items, log->count, &log->room, sizeof(*log->items));
    log->items[log->count++] = entry;
    entry->refs++;
}

void lk_simetcd_log_truncate(lk_simetcd_log *log, size_t count)
{
    while (log->count > count)
        unref(log->items[--log->count]);
}

void lk_simetcd_log_free(lk_simetcd_log *log)
{
    lk_simetcd_log_truncate(log, 0);
    free(log->items);
    *log = (lk_simetcd_log){0};
}

void lk_simetcd_message_free(lk_simetcd_message *message)
{
    lk_simetcd_log_free(&message->entries);
    free(message);
}

static int64_t last(const lk_simetcd_raft *r)
{
    return (int64_t)r->log.count;
}

static int64_t term_at(const lk_simetcd_raft *r, int64_t index)
{
    return index > 0 && index <= last(r) ? r->log.items[index - 1]->term : 0;
}

static lk_simetcd_message *say(lk_simetcd_raft *r, int to, const lk_simetcd_message *what)
{
    lk_simetcd_message *const message = lk_simetcd_alloc(sizeof *message);
    *message = *what;
    message->from = r->id;
    message->to = to;
    if (what->word != LK_SIMETCD_PROPOSE && what->word != LK_SIMETCD_READ && what->term == 0)
        message->term = r->term;
    lk_list_append(&r->messages, &message->link);
    return message;
}

static bool is_majority(const lk_simetcd_raft *r, int count)
{
    return 2 * count > r->members;
}

/* ------------------------------------------------------------------ entries go out ---- */

static void send_append(lk_simetcd_raft *r, int to, bool if_empty)
{
    lk_simetcd_progress *const p = &r->others[to];
    if ((p->probes && p->probe_sent) || (!if_empty && p->next > last(r)))
        return;
    lk_simetcd_message *const message = say(r, to,
                                            &(lk_simetcd_message){.word = LK_SIMETCD_APPEND,
                                                                  .index = p->next - 1,
                                                                  .log_term = term_at(r, p->next - 1),
                                                                  .commit = r->commit});
    for (int64_t i = p->next; i <= last(r); i++)
        lk_simetcd_log_append(&message->entries, r->log.items[i - 1]);
    if (message->entries.count == 0)
        return;
    if (p->probes)
        p->probe_sent = true;
    else
        p->next = last(r) + 1;
}

static void send_append_all(lk_simetcd_raft *r)
{
    for (int i = 0; i < r->members; i++)
        if (i != r->id)
            send_append(r, i, true);
}

static void heartbeat(lk_simetcd_raft *r, uint64_t context)
{
    for (int i = 0; i < r->members; i++) {
        const int64_t match = r->others[i].match;
        if (i != r->id)
            say(r, i,
                &(lk_simetcd_message){.word = LK_SIMETCD_HEARTBEAT,
                                      .commit = match < r->commit ? match : r->commit,
                                      .context = context});
    }
}

/* ------------------------------------------------------------------ reads ---- */

static lk_simetcd_confirm *confirm_new(uint64_t context, int from, int64_t index)
{
    lk_simetcd_confirm *const confirm = lk_simetcd_alloc(sizeof *confirm);
    *confirm = (lk_simetcd_confirm){.context = context, .from = from, .index = index};
    return confirm;
}

static void free_confirms(lk_list *list)
{
    for (lk_list *link; (link = lk_list_take(list)) != NULL;)
        free(LK_CONTAINER(link, lk_simetcd_confirm, link));
}

static void is_readable(lk_simetcd_raft *r, uint64_t context, int from, int64_t index)
{
    if (from == r->id)
        lk_list_append(&r->confirmed, &confirm_new(context, from, index)->link);
    else
        say(r, from, &(lk_simetcd_message){.word = LK_SIMETCD_READABLE, .context = context, .index = index});
}

static void lead_read(lk_simetcd_raft *r, uint64_t context, int from)
{
    if (r->members == 1) {
        is_readable(r, context, from, r->commit);
    } else if (term_at(r, r->commit) != r->term) {
        lk_list_append(&r->unready, &confirm_new(context, from, 0)->link);
    } else {
        lk_simetcd_confirm *const confirm = confirm_new(context, from, r->commit);
        confirm->acks = 1u << r->id;
        lk_list_append(&r->confirms, &confirm->link);
        heartbeat(r, context);
    }
}

/* What a majority has confirmed holds for all that was asked before. */
static void confirm_until(lk_simetcd_raft *r, uint64_t context)
{
    for (lk_list *link; (link = lk_list_take(&r->confirms)) != NULL;) {
        lk_simetcd_confirm *const confirm = LK_CONTAINER(link, lk_simetcd_confirm, link);
        const bool is_it = confirm->context == context;
        is_readable(r, confirm->context, confirm->from, confirm->index);
        free(confirm);
        if (is_it)
            break;
    }
}

static void hear_confirm(lk_simetcd_raft *r, int from, uint64_t context)
{
    LK_EACH(lk_simetcd_confirm, confirm, link, &r->confirms) {
        if (confirm->context != context)
            continue;
        confirm->acks |= 1u << from;
        if (is_majority(r, __builtin_popcount(confirm->acks)))
            confirm_until(r, context);
        return;
    }
}

static void release_unready(lk_simetcd_raft *r)
{
    lk_list held;
    lk_list_init(&held);
    lk_list_splice(&held, &r->unready);
    for (lk_list *link; (link = lk_list_take(&held)) != NULL;) {
        lk_simetcd_confirm *const confirm = LK_CONTAINER(link, lk_simetcd_confirm, link);
        lead_read(r, confirm->context, confirm->from);
        free(confirm);
    }
}

/* ------------------------------------------------------------------ roles ---- */

static void reset(lk_simetcd_raft *r, int64_t term)
{
    if (r->term != term) {
        r->term = term;
        r->vote = -1;
    }
    r->lead = -1;
    r->elapsed = 0;
    r->timeout =
        r->election_ticks + (r->draw != NULL ? (int)r->draw(r->context, (uint64_t)r->election_ticks) : 0);
    for (int i = 0; i < r->members; i++) {
        r->votes[i] = 0;
        r->others[i] = (lk_simetcd_progress){.next = last(r) + 1, .probes = true};
    }
    r->others[r->id].match = last(r);
    free_confirms(&r->confirms);
    free_confirms(&r->unready);
}

static void follow(lk_simetcd_raft *r, int64_t term, int lead)
{
    reset(r, term);
    r->lead = lead;
    r->role = LK_SIMETCD_FOLLOWER;
}

static bool try_to_commit(lk_simetcd_raft *r)
{
    int64_t index = last(r);
    for (; index > r->commit; index--) {
        int count = 0;
        for (int i = 0; i < r->members; i++)
            count += r->others[i].match >= index;
        if (is_majority(r, count))
            break;
    }
    if (index <= r->commit || term_at(r, index) != r->term)
        return false;
    r->commit = index;
    return true;
}

/* It counts for itself at once: what follows from that is done when it has been written (member.c). */
static void append(lk_simetcd_raft *r, lk_simetcd_entry *entry)
{
    entry->term = r->term;
    lk_simetcd_log_append(&r->log, entry);
    unref(entry);
    r->others[r->id].match = last(r);
    (void)try_to_commit(r);
}

static void lead(lk_simetcd_raft *r)
{
    reset(r, r->term);
    r->lead = r->id;
    r->role = LK_SIMETCD_LEADER;
    append(r, lk_simetcd_entry_new(LK_SIMETCD_NOTHING, NULL, 0));
    send_append_all(r);
}

static void hear_vote(lk_simetcd_raft *r, int from, bool against)
{
    int votes = 0, others = 0;
    if (r->votes[from] == 0)
        r->votes[from] = against ? -1 : 1;
    for (int i = 0; i < r->members; i++) {
        votes += r->votes[i] > 0;
        others += r->votes[i] < 0;
    }
    if (is_majority(r, votes))
        lead(r);
    else if (is_majority(r, others))
        follow(r, r->term, -1);
}

static void campaign(lk_simetcd_raft *r)
{
    reset(r, r->term + 1);
    r->vote = r->id;
    r->role = LK_SIMETCD_CANDIDATE;
    hear_vote(r, r->id, false);
    if (r->role != LK_SIMETCD_CANDIDATE)
        return;
    for (int i = 0; i < r->members; i++)
        if (i != r->id)
            say(r, i,
                &(lk_simetcd_message){
                    .word = LK_SIMETCD_VOTE, .index = last(r), .log_term = term_at(r, last(r))});
}

static void vote(lk_simetcd_raft *r, const lk_simetcd_message *m)
{
    const int64_t mine = term_at(r, last(r));
    const bool may = r->vote == m->from || (r->vote == -1 && r->lead == -1);
    const bool is_new = m->log_term > mine || (m->log_term == mine && m->index >= last(r));
    say(r, m->from, &(lk_simetcd_message){.word = LK_SIMETCD_VOTED, .reject = !may || !is_new});
    if (!may || !is_new)
        return;
    r->elapsed = 0;
    r->vote = m->from;
}

/* A leader that has not heard of a majority for an election's time is none any more. */
static void check_quorum(lk_simetcd_raft *r)
{
    int active = 1;
    for (int i = 0; i < r->members; i++) {
        active += i != r->id && r->others[i].active;
        r->others[i].active = false;
    }
    if (!is_majority(r, active))
        follow(r, r->term, -1);
}

void lk_simetcd_raft_tick(lk_simetcd_raft *r)
{
    r->elapsed++;
    if (r->role != LK_SIMETCD_LEADER) {
        if (r->elapsed >= r->timeout)
            campaign(r);
        return;
    }
    if (r->elapsed >= r->election_ticks) {
        r->elapsed = 0;
        check_quorum(r);
    }
    if (r->role != LK_SIMETCD_LEADER)
        return;
    const lk_list *const latest = lk_list_empty(&r->confirms) ? NULL : r->confirms.prev;
    heartbeat(r, latest != NULL ? LK_CONTAINER(latest, lk_simetcd_confirm, link)->context : 0);
}

/* ------------------------------------------------------------------ a follower ---- */

static void commit_to(lk_simetcd_raft *r, int64_t index)
{
    if (index > r->commit)
        r->commit = index < last(r) ? index : last(r);
}

static void answer_append(lk_simetcd_raft *r, int to, int64_t index)
{
    say(r, to, &(lk_simetcd_message){.word = LK_SIMETCD_APPENDED, .index = index});
}

static void hear_append(lk_simetcd_raft *r, const lk_simetcd_message *m)
{
    const int64_t until = m->index + (int64_t)m->entries.count;
    if (m->index < r->commit) {
        answer_append(r, m->from, r->commit);
        return;
    }
    if (m->index > last(r) || term_at(r, m->index) != m->log_term) {
        say(r, m->from,
            &(lk_simetcd_message){
                .word = LK_SIMETCD_APPENDED, .index = m->index, .reject = true, .hint = last(r)});
        return;
    }
    for (size_t i = 0; i < m->entries.count; i++) {
        const int64_t index = m->index + 1 + (int64_t)i;
        if (term_at(r, index) == m->entries.items[i]->term)
            continue;
        lk_simetcd_log_truncate(&r->log, (size_t)index - 1);
        r->stable = r->stable < index - 1 ? r->stable : index - 1;
        lk_simetcd_log_append(&r->log, m->entries.items[i]);
    }
    commit_to(r, m->commit < until ? m->commit : until);
    answer_append(r, m->from, until);
}

static void step_follower(lk_simetcd_raft *r, lk_simetcd_message *m)
{
    switch (m->word) {
    case LK_SIMETCD_PROPOSE:
        if (r->lead != -1)
            say(r, r->lead, &(lk_simetcd_message){.word = LK_SIMETCD_PROPOSE})->entries = m->entries;
        else
            lk_simetcd_log_free(&m->entries);
        m->entries = (lk_simetcd_log){0};
        break;
    case LK_SIMETCD_APPEND:
        r->elapsed = 0;
        r->lead = m->from;
        hear_append(r, m);
        break;
    case LK_SIMETCD_HEARTBEAT:
        r->elapsed = 0;
        r->lead = m->from;
        commit_to(r, m->commit);
        say(r, m->from, &(lk_simetcd_message){.word = LK_SIMETCD_HEARD, .context = m->context});
        break;
    case LK_SIMETCD_READ: /* forwarded to one that leads no more */
        break;
    case LK_SIMETCD_READABLE:
        is_readable(r, m->context, r->id, m->index);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ a leader ---- */

static void hear_reject(lk_simetcd_raft *r, const lk_simetcd_message *m)
{
    lk_simetcd_progress *const p = &r->others[m->from];
    if (!p->probes) {
        if (m->index <= p->match)
            return;
        p->next = p->match + 1;
        p->probes = true;
        p->probe_sent = false;
    } else {
        if (p->next - 1 != m->index)
            return;
        p->next = m->index < m->hint + 1 ? m->index : m->hint + 1;
        p->next = p->next > 1 ? p->next : 1;
        p->probe_sent = false;
    }
    send_append(r, m->from, true);
}

static void hear_appended(lk_simetcd_raft *r, const lk_simetcd_message *m)
{
    lk_simetcd_progress *const p = &r->others[m->from];
    p->active = true;
    if (m->reject) {
        hear_reject(r, m);
        return;
    }
    const bool was_paused = p->probes && p->probe_sent, is_more = m->index > p->match;
    p->next = p->next > m->index + 1 ? p->next : m->index + 1;
    if (!is_more)
        return;
    p->match = m->index;
    p->probes = p->probe_sent = false;
    if (p->next <= p->match)
        p->next = p->match + 1;
    if (try_to_commit(r)) {
        release_unready(r);
        send_append_all(r);
    } else if (was_paused) {
        send_append(r, m->from, true);
    }
    send_append(r, m->from, false);
}

static void step_leader(lk_simetcd_raft *r, lk_simetcd_message *m)
{
    lk_simetcd_progress *const p = &r->others[m->from];
    switch (m->word) {
    case LK_SIMETCD_PROPOSE:
        for (size_t i = 0; i < m->entries.count; i++) {
            m->entries.items[i]->refs++;
            append(r, m->entries.items[i]);
        }
        send_append_all(r);
        break;
    case LK_SIMETCD_APPENDED:
        hear_appended(r, m);
        break;
    case LK_SIMETCD_HEARD:
        p->active = true;
        p->probe_sent = false;
        if (p->match < last(r))
            send_append(r, m->from, true);
        hear_confirm(r, m->from, m->context);
        break;
    case LK_SIMETCD_READ:
        lead_read(r, m->context, m->from);
        break;
    default:
        break;
    }
}

/* ------------------------------------------------------------------ what comes ---- */

/* False: it is of no use any more, or not wanted. */
static bool agree_on_term(lk_simetcd_raft *r, const lk_simetcd_message *m)
{
    const bool leads = m->word == LK_SIMETCD_APPEND || m->word == LK_SIMETCD_HEARTBEAT;
    if (m->term == 0 || m->term == r->term)
        return true;
    if (m->term < r->term) {
        if (leads)
            answer_append(r, m->from, 0);
        return false;
    }
    if (m->word == LK_SIMETCD_VOTE && r->lead != -1 && r->elapsed < r->election_ticks)
        return false;
    follow(r, m->term, leads ? m->from : -1);
    return true;
}

void lk_simetcd_raft_step(lk_simetcd_raft *r, lk_simetcd_message *m)
{
    if (!agree_on_term(r, m))
        return;
    if (m->word == LK_SIMETCD_VOTE) {
        vote(r, m);
        return;
    }
    if (r->role == LK_SIMETCD_CANDIDATE) {
        if (m->word == LK_SIMETCD_VOTED)
            hear_vote(r, m->from, m->reject);
        if (m->word != LK_SIMETCD_APPEND && m->word != LK_SIMETCD_HEARTBEAT)
            return;
        follow(r, m->term, m->from);
    }
    if (r->role == LK_SIMETCD_LEADER)
        step_leader(r, m);
    else
        step_follower(r, m);
}

bool lk_simetcd_raft_propose(lk_simetcd_raft *r, lk_simetcd_entry *entry)
{
    lk_simetcd_message m = {.word = LK_SIMETCD_PROPOSE, .from = r->id};
    if (r->lead == -1)
        return false;
    lk_simetcd_log_append(&m.entries, entry);
    unref(entry);
    lk_simetcd_raft_step(r, &m);
    lk_simetcd_log_free(&m.entries);
    return true;
}

void lk_simetcd_raft_read(lk_simetcd_raft *r, uint64_t context)
{
    if (r->role == LK_SIMETCD_LEADER)
        lead_read(r, context, r->id);
    else if (r->lead != -1)
        say(r, r->lead, &(lk_simetcd_message){.word = LK_SIMETCD_READ, .context = context});
}

void lk_simetcd_raft_written(lk_simetcd_raft *r, int64_t index, int64_t term)
{
    if (index > r->stable && term_at(r, index) == term)
        r->stable = index;
}

/* ------------------------------------------------------------------ life ---- */

void lk_simetcd_raft_init(lk_simetcd_raft *r, int64_t term, int voted, const lk_simetcd_log *log,
                          int64_t commit)
{
    r->term = term;
    r->log = *log;
    r->commit = commit;
    r->stable = last(r);
    lk_list_init(&r->confirms);
    lk_list_init(&r->unready);
    lk_list_init(&r->messages);
    lk_list_init(&r->confirmed);
    follow(r, term, -1);
    r->vote = voted;
}

void lk_simetcd_raft_free(lk_simetcd_raft *r)
{
    free_confirms(&r->confirms);
    free_confirms(&r->unready);
    free_confirms(&r->confirmed);
    for (lk_list *link; (link = lk_list_take(&r->messages)) != NULL;)
        lk_simetcd_message_free(LK_CONTAINER(link, lk_simetcd_message, link));
    lk_simetcd_log_free(&r->log);
}
