/* serve.c: see serve.h. */
#include "serve.h"

#include <stdlib.h>

#include "watch.h"

enum { READ_AGAIN_MS = 500, EXPIRE_MS = 500, EXPIRE_AGAIN_MS = 3000 };

static const uint64_t cluster = UINT64_C(0xcdf818194e3a8c32), first_member = UINT64_C(0x8e9e05c52164694d);

void lk_simetcd_sign(const lk_simetcd_member *m, LkEtcdPb__Header *header)
{
    header->cluster_id = cluster;
    header->member_id = first_member + (uint64_t)m->id;
    header->raft_term = (uint64_t)m->applied_term;
}

static int64_t election_ns(const lk_simetcd *e)
{
    return e->setup.election_ticks * e->setup.tick_ms * LK_SIMETCD_MS;
}

/* As long as a server goes on with a request: 5 s, and two elections. */
static int64_t patience_ns(const lk_simetcd *e)
{
    return 50 * e->setup.tick_ms * LK_SIMETCD_MS + 2 * election_ns(e);
}

/* ------------------------------------------------------------------ requests ---- */

static lk_simetcd_request *find(lk_simetcd_member *m, uint64_t id)
{
    LK_EACH(lk_simetcd_request, r, link, &m->requests)
        if (r->id == id)
            return r;
    return NULL;
}

static void request_free(lk_simetcd_request *r)
{
    if (r->message != NULL)
        protobuf_c_message_free_unpacked(r->message, NULL);
    free(r);
}

static void finish(lk_simetcd_request *r, const lk_simetcd_error *error, const ProtobufCMessage *message)
{
    lk_list_remove(&r->link);
    if (r->done != NULL)
        r->done(r->context, error, message);
    request_free(r);
}

static lk_simetcd_request *request_new(lk_simetcd_member *m, lk_simetcd_kind kind, ProtobufCMessage *message)
{
    lk_simetcd_request *const r = lk_simetcd_alloc(sizeof *r);
    *r = (lk_simetcd_request){.id = ++m->e->serial,
                              .kind = kind,
                              .message = message,
                              .began = m->e->now,
                              .until = m->e->now + patience_ns(m->e)};
    lk_list_append(&m->requests, &r->link);
    return r;
}

uint64_t lk_simetcd_ask(lk_simetcd_member *m, lk_simetcd_kind kind, ProtobufCMessage *message,
                        lk_simetcd_done_fn done, void *context)
{
    lk_simetcd_request *const r = request_new(m, kind, message);
    r->done = done;
    r->context = context;
    lk_simetcd_post(m, LK_SIMETCD_ARRIVES, r->id, lk_simetcd_delay_of(m->e, LK_SIMETCD_HANDLE, m->id));
    if (done != NULL && m->e->setup.on_asked != NULL)
        m->e->setup.on_asked(m->e->setup.context, r->id);
    return r->id;
}

void lk_simetcd_forget_request(lk_simetcd_member *m, uint64_t id)
{
    lk_simetcd_request *const r = find(m, id);
    if (r != NULL)
        r->done = NULL;
}

void lk_simetcd_requests_free(lk_simetcd_member *m)
{
    for (lk_list *link; (link = lk_list_take(&m->requests)) != NULL;)
        request_free(LK_CONTAINER(link, lk_simetcd_request, link));
}

/* ------------------------------------------------------------------ proposals ---- */

static void propose(lk_simetcd_member *m, lk_simetcd_request *r)
{
    if (m->raft.lead == -1) {
        r->stage = LK_SIMETCD_BLOCKED;
        return;
    }
    lk_simetcd_entry *const entry = lk_simetcd_entry_new(r->kind, r->message, r->id);
    entry->expires = r->expires;
    r->message = NULL;
    r->stage = LK_SIMETCD_PROPOSED;
    (void)lk_simetcd_raft_propose(&m->raft, entry);
    lk_simetcd_rouse(m);
}

static const lk_simetcd_error *why_late(const lk_simetcd_member *m, const lk_simetcd_request *r)
{
    const bool led_anew = r->began < m->led_since && r->began > m->led_since - 2 * election_ns(m->e);
    return led_anew ? &lk_simetcd_leader_failed : &lk_simetcd_timed_out;
}

/* ------------------------------------------------------------------ reads ---- */

static bool is_reading(lk_simetcd_member *m)
{
    LK_EACH(lk_simetcd_request, r, link, &m->requests)
        if (r->stage == LK_SIMETCD_READING)
            return true;
    return false;
}

static void ask_to_confirm(lk_simetcd_member *m)
{
    const unsigned most = sizeof m->reads / sizeof *m->reads;
    m->read_again = m->e->now + READ_AGAIN_MS * LK_SIMETCD_MS;
    if (m->read_count == most)
        m->read_count--;
    m->reads[m->read_count] = ++m->e->serial;
    lk_simetcd_raft_read(&m->raft, m->reads[m->read_count++]);
    lk_simetcd_rouse(m);
}

/* One at a time: those that come meanwhile are of the next. */
static void read_next(lk_simetcd_member *m)
{
    bool any = false;
    if (is_reading(m))
        return;
    LK_EACH(lk_simetcd_request, r, link, &m->requests) {
        if (r->stage != LK_SIMETCD_QUEUED)
            continue;
        r->stage = LK_SIMETCD_READING;
        any = true;
    }
    if (!any)
        return;
    m->read_count = 0;
    m->read_until = m->e->now + patience_ns(m->e);
    ask_to_confirm(m);
}

static void refuse_reads(lk_simetcd_member *m, const lk_simetcd_error *error)
{
    LK_EACH_SAFE(lk_simetcd_request, r, link, &m->requests) {
        if (r->stage == LK_SIMETCD_READING)
            finish(r, error, NULL);
    }
    read_next(m);
}

static void tell_done(const lk_simetcd_member *m, const lk_simetcd_done *done)
{
    if (m->e->setup.on_done != NULL)
        m->e->setup.on_done(m->e->setup.context, done);
}

static void read_now(lk_simetcd_member *m, lk_simetcd_request *r)
{
    lk_simetcd_arena arena = {0};
    lk_simetcd_answer answer;
    lk_simetcd_apply(&m->store, r->kind, r->message, 0, &arena, &answer);
    tell_done(m, &(lk_simetcd_done){.request = r->id,
                                    .kind = r->kind,
                                    .message = r->message,
                                    .answer = &answer,
                                    .store = &m->store,
                                    .index = m->applied,
                                    .reads = true});
    if (answer.header != NULL)
        lk_simetcd_sign(m, answer.header);
    finish(r, answer.error, answer.message);
    lk_simetcd_arena_free(&arena);
}

static void read_applied(lk_simetcd_member *m)
{
    LK_EACH_SAFE(lk_simetcd_request, r, link, &m->requests) {
        if (r->stage == LK_SIMETCD_CONFIRMED && r->index <= m->applied)
            read_now(m, r);
    }
}

static bool is_asked(const lk_simetcd_member *m, uint64_t context)
{
    for (unsigned i = 0; i < m->read_count; i++)
        if (m->reads[i] == context)
            return true;
    return false;
}

/* Of several at once the last counts, as etcd has it. */
void lk_simetcd_sees_reads(lk_simetcd_member *m)
{
    const lk_simetcd_confirm *last = NULL;
    lk_list all;
    lk_list_init(&all);
    lk_list_splice(&all, &m->raft.confirmed);
    LK_EACH(lk_simetcd_confirm, confirm, link, &all)
        last = confirm;
    if (last != NULL && is_asked(m, last->context)) {
        m->read_count = 0;
        LK_EACH(lk_simetcd_request, r, link, &m->requests) {
            if (r->stage != LK_SIMETCD_READING)
                continue;
            r->stage = LK_SIMETCD_CONFIRMED;
            r->index = last->index;
        }
        read_applied(m);
        read_next(m);
    }
    for (lk_list *link; (link = lk_list_take(&all)) != NULL;)
        free(LK_CONTAINER(link, lk_simetcd_confirm, link));
}

/* ------------------------------------------------------------------ leases ---- */

static void tell_ttl(lk_simetcd_member *m, lk_simetcd_request *r, int64_t ttl, int64_t granted)
{
    LkEtcdPb__LeaseTold told = LK_ETCD_PB__LEASE_TOLD__INIT;
    LkEtcdPb__Header header = LK_ETCD_PB__HEADER__INIT;
    header.revision = m->store.revision;
    lk_simetcd_sign(m, &header);
    told.header = &header;
    told.id = ((const LkEtcdPb__LeaseAsk *)(const void *)r->message)->id;
    told.ttl = ttl;
    told.granted_ttl = granted;
    finish(r, NULL, &told.base);
}

static int64_t ttl_left(const lk_simetcd_member *m, const lk_simetcd_lease *lease)
{
    if (lease == NULL)
        return -1;
    return lease->until_ns == INT64_MAX ? INT64_MAX / 1000000000
                                        : (lease->until_ns - lk_simetcd_local(m)) / (1000 * LK_SIMETCD_MS);
}

static void ask_of_lease(lk_simetcd_member *m, lk_simetcd_request *r)
{
    const int64_t id = ((const LkEtcdPb__LeaseAsk *)(const void *)r->message)->id;
    if (m->lead == m->id) {
        const lk_simetcd_lease *const lease = lk_simetcd_lease_find(&m->store, id);
        tell_ttl(m, r, ttl_left(m, lease), lease != NULL ? lease->ttl : 0);
        return;
    }
    r->stage = LK_SIMETCD_PROPOSED;
    if (m->lead == -1)
        return;
    lk_simetcd_message *const message = lk_simetcd_alloc(sizeof *message);
    *message = (lk_simetcd_message){
        .word = LK_SIMETCD_ASK_LEADER, .from = m->id, .to = m->lead, .context = r->id, .index = id};
    lk_simetcd_send(m->e, message);
}

void lk_simetcd_asked_of_lease(lk_simetcd_member *m, const lk_simetcd_message *asked)
{
    const lk_simetcd_lease *const lease = lk_simetcd_lease_find(&m->store, asked->index);
    lk_simetcd_message *const message = lk_simetcd_alloc(sizeof *message);
    *message = (lk_simetcd_message){.word = LK_SIMETCD_LEADER_SAYS,
                                    .from = m->id,
                                    .to = asked->from,
                                    .context = asked->context,
                                    .index = ttl_left(m, lease),
                                    .hint = lease != NULL ? lease->ttl : 0};
    lk_simetcd_send(m->e, message);
}

void lk_simetcd_told_of_lease(lk_simetcd_member *m, const lk_simetcd_message *told)
{
    lk_simetcd_request *const r = find(m, told->context);
    if (r != NULL)
        tell_ttl(m, r, told->index, told->hint);
}

/* By its own clock, as long as it goes by that it leads: what it proposes then may go to another leader. */
void lk_simetcd_expires(lk_simetcd_member *m)
{
    const int64_t now = lk_simetcd_local(m);
    for (size_t i = 0; m->is_primary && i < m->store.lease_count; i++) {
        lk_simetcd_lease *const lease = &m->store.leases[i];
        if (lease->until_ns > now || lease->again_ns > now)
            continue;
        LkEtcdPb__LeaseRevoke *const revoke = malloc(sizeof *revoke);
        if (revoke == NULL)
            abort();
        lk_etcd_pb__lease_revoke__init(revoke);
        revoke->id = lease->id;
        lease->again_ns = now + EXPIRE_AGAIN_MS * LK_SIMETCD_MS;
        lk_simetcd_request *const r = request_new(m, LK_SIMETCD_REVOKE, &revoke->base);
        r->expires = true;
        propose(m, r);
    }
    lk_simetcd_post(m, LK_SIMETCD_EXPIRES, 0, lk_simetcd_takes(m, EXPIRE_MS * LK_SIMETCD_MS));
}

static void refresh(const lk_simetcd_member *m, lk_simetcd_lease *lease, int64_t more_ns)
{
    lease->until_ns = lk_simetcd_local(m) + lease->ttl * 1000 * LK_SIMETCD_MS + more_ns;
    lease->again_ns = 0;
}

/* A new leader does not know how long a lease has run: it has all of its time again, and an election's. */
static void promote(lk_simetcd_member *m)
{
    m->is_primary = true;
    for (size_t i = 0; i < m->store.lease_count; i++)
        refresh(m, &m->store.leases[i], election_ns(m->e));
}

static void demote(lk_simetcd_member *m)
{
    m->is_primary = false;
    for (size_t i = 0; i < m->store.lease_count; i++)
        m->store.leases[i].until_ns = INT64_MAX;
}

static int64_t least_ttl(const lk_simetcd *e)
{
    return (3 * e->setup.election_ticks / 2 * e->setup.tick_ms + 999) / 1000;
}

/* ------------------------------------------------------------------ what comes ---- */

static void tell_status(lk_simetcd_member *m, lk_simetcd_request *r)
{
    LkEtcdPb__StatusTold told = LK_ETCD_PB__STATUS_TOLD__INIT;
    LkEtcdPb__Header header = LK_ETCD_PB__HEADER__INIT;
    header.revision = m->store.revision;
    lk_simetcd_sign(m, &header);
    told.header = &header;
    told.version = (char *)(uintptr_t)(m->e->setup.reads_late ? "3.4.23" : "3.4.42");
    told.leader = m->lead != -1 ? first_member + (uint64_t)m->lead : 0;
    finish(r, NULL, &told.base);
}

static void tell_members(lk_simetcd_member *m, lk_simetcd_request *r)
{
    LkEtcdPb__MembersTold told = LK_ETCD_PB__MEMBERS_TOLD__INIT;
    LkEtcdPb__Header header = LK_ETCD_PB__HEADER__INIT;
    LkEtcdPb__Member members[LK_SIMETCD_MEMBERS_MAX], *each[LK_SIMETCD_MEMBERS_MAX];
    lk_simetcd_sign(m, &header);
    told.header = &header;
    told.n_members = (size_t)m->e->setup.members;
    told.members = each;
    for (size_t i = 0; i < told.n_members; i++) {
        lk_etcd_pb__member__init(&members[i]);
        members[i].id = first_member + i;
        each[i] = &members[i];
    }
    finish(r, NULL, &told.base);
}

static void choose_lease(lk_simetcd_request *r)
{
    LkEtcdPb__LeaseGrant *const grant = (LkEtcdPb__LeaseGrant *)(void *)r->message;
    if (grant->id == 0)
        grant->id = INT64_C(0x694d000000000000) + (int64_t)r->id;
}

static bool is_serializable(const lk_simetcd_request *r)
{
    return r->kind == LK_SIMETCD_RANGE && ((const LkEtcdPb__Range *)(const void *)r->message)->serializable;
}

/* True if it answers by what it knew before it stood still, or little more (etcd#20418). */
static bool reads_late(const lk_simetcd_member *m, const lk_simetcd_request *r)
{
    return m->e->now < m->late_until && !lk_simetcd_writes(r->kind, r->message) &&
           lk_simetcd_draw(m->e, 2) == 0;
}

void lk_simetcd_arrives(lk_simetcd_member *m, uint64_t id)
{
    lk_simetcd_request *const r = find(m, id);
    const lk_simetcd_error *const error = lk_simetcd_check(r->kind, r->message);
    if (error != NULL) {
        finish(r, error, NULL);
    } else if (r->kind == LK_SIMETCD_STATUS) {
        tell_status(m, r);
    } else if (r->kind == LK_SIMETCD_MEMBERS) {
        tell_members(m, r);
    } else if (r->kind == LK_SIMETCD_ASK) {
        ask_of_lease(m, r);
    } else if (is_serializable(r) || reads_late(m, r)) {
        read_now(m, r);
    } else if (lk_simetcd_writes(r->kind, r->message)) {
        if (r->kind == LK_SIMETCD_GRANT)
            choose_lease(r);
        propose(m, r);
    } else {
        r->stage = LK_SIMETCD_QUEUED;
        read_next(m);
    }
}

/* ------------------------------------------------------------------ what is applied ---- */

static void tell_ended(lk_simetcd_member *m, const lk_simetcd_entry *entry, int64_t index)
{
    const int64_t lease = ((const LkEtcdPb__LeaseRevoke *)(const void *)entry->message)->id;
    if (!entry->expires || index <= m->e->ended || m->e->setup.on_ended == NULL)
        return;
    m->e->ended = index;
    for (size_t i = 0; i < m->store.key_count; i++) {
        const lk_simetcd_kv *const kv = lk_simetcd_state(m->store.keys[i], INT64_MAX);
        if (kv != NULL && kv->lease == lease)
            m->e->setup.on_ended(m->e->setup.context, kv->create);
    }
}

static void apply_entry(lk_simetcd_member *m, const lk_simetcd_entry *entry, int64_t index)
{
    const size_t events = m->store.event_count;
    lk_simetcd_request *const r = find(m, entry->id);
    lk_simetcd_arena arena = {0};
    lk_simetcd_answer answer;
    if (entry->kind == LK_SIMETCD_REVOKE)
        tell_ended(m, entry, index);
    lk_simetcd_apply(&m->store, entry->kind, entry->message, least_ttl(m->e), &arena, &answer);
    if (entry->kind == LK_SIMETCD_GRANT && answer.error == NULL && m->is_primary)
        refresh(m,
                lk_simetcd_lease_find(&m->store,
                                      ((const LkEtcdPb__LeaseGrant *)(const void *)entry->message)->id),
                0);
    if (index > m->e->done) {
        m->e->done = index;
        tell_done(m, &(lk_simetcd_done){.request = entry->id,
                                        .kind = entry->kind,
                                        .message = entry->message,
                                        .answer = &answer,
                                        .store = &m->store,
                                        .index = index,
                                        .expires = entry->expires});
    }
    if (entry->kind != LK_SIMETCD_COMPACT)
        lk_simetcd_notify(m, events);
    if (answer.header != NULL)
        lk_simetcd_sign(m, answer.header);
    if (r != NULL && entry->id != 0)
        finish(r, answer.error, answer.message);
    lk_simetcd_arena_free(&arena);
}

static void apply_nothing(lk_simetcd_member *m)
{
    if (m->lead == m->id)
        promote(m);
    if (is_reading(m))
        ask_to_confirm(m);
}

void lk_simetcd_applies(lk_simetcd_member *m, int64_t until)
{
    while (m->applied < until) {
        const lk_simetcd_entry *const entry = m->raft.log.items[m->applied++];
        m->applied_term = entry->term;
        if (entry->kind == LK_SIMETCD_NOTHING)
            apply_nothing(m);
        else
            apply_entry(m, entry, m->applied);
    }
    read_applied(m);
}

/* ------------------------------------------------------------------ leaders, time ---- */

static void propose_blocked(lk_simetcd_member *m)
{
    LK_EACH_SAFE(lk_simetcd_request, r, link, &m->requests) {
        if (r->stage == LK_SIMETCD_BLOCKED)
            propose(m, r);
    }
}

void lk_simetcd_sees_leader(lk_simetcd_member *m)
{
    propose_blocked(m);
    if (m->lead == m->raft.lead)
        return;
    m->lead = m->raft.lead;
    if (m->lead != m->id && m->is_primary)
        demote(m);
    if (m->lead == -1)
        return;
    m->led_since = m->e->now;
    if (!m->serving && m->e->setup.on_answer != NULL)
        m->e->setup.on_answer(m->e->setup.context); /* clients that have waited for that (wire.c) */
    m->serving = true;
    refuse_reads(m, &lk_simetcd_leader_changed);
}

void lk_simetcd_looks_after(lk_simetcd_member *m)
{
    propose_blocked(m);
    LK_EACH_SAFE(lk_simetcd_request, r, link, &m->requests) {
        const bool waits = r->stage == LK_SIMETCD_BLOCKED || r->stage == LK_SIMETCD_PROPOSED;
        if (waits && m->e->now >= r->until)
            finish(r, why_late(m, r), NULL);
    }
    if (!is_reading(m))
        return;
    if (m->e->now >= m->read_until)
        refuse_reads(m, &lk_simetcd_timed_out);
    else if (m->e->now >= m->read_again)
        ask_to_confirm(m);
}
