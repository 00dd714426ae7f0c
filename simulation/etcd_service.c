/* etcd_service.c: see etcd_service.h. */
#include "etcd_service.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "etcd/wire.h"
#include "world/seams.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

enum { LATE_PPM = 5000, CLOCK_PPM = 5000 };

/* A client's connection. */
typedef struct lk_sim_etcd_session {
    struct lk_sim_etcd_session *next;
    lk_sim_etcd_member *member;
    lk_simetcd_wire *wire;
    lk_sim_connection *connection;
} session;

static lk_sim_etcd etcd;

/* ------------------------------------------------------------------ what is sent ---- */

/* What is on the wire, for the trace: texts, with a point for all between them. */
static void tell_bytes(const session *s, const char *way, const unsigned char *bytes, size_t count)
{
    char text[1024];
    if (!lk_sim_is_traced())
        return;
    lk_sim_readable(text, sizeof text, bytes, count);
    const lk_sim_process *const client = lk_sim_connection_process(s->connection);
    lk_sim_tell("%s %s process %d: %s", s->member->host, way, client->pid, text);
}

static void forget(session *s)
{
    session **at = &etcd.first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    lk_simetcd_wire_free(s->wire);
    free(s);
}

static void hang_up(session *s)
{
    lk_sim_connection_close(s->connection);
    forget(s);
}

/* What had come before its member served anybody is read here. */
static void send_output(session *s)
{
    size_t count;
    etcd.reads = s;
    const void *const bytes = lk_simetcd_wire_output(s->wire, &count);
    etcd.reads = NULL;
    if (count == 0)
        return;
    tell_bytes(s, "to", bytes, count);
    lk_sim_connection_send(s->connection, bytes, count);
    if (etcd.on_answer != NULL)
        etcd.on_answer(s->member->id, false);
}

static void due_comes(void *context);

/* What the last call has made to be sent; and when it wants to be called again. */
static void settle(void)
{
    while (etcd.answers) {
        etcd.answers = false;
        for (session *s = etcd.first, *next; s != NULL; s = next) {
            next = s->next;
            send_output(s);
            if (lk_simetcd_wire_is_closed(s->wire))
                hang_up(s);
        }
    }
    const int64_t due = lk_simetcd_due(etcd.etcd);
    if (due == INT64_MAX || due >= etcd.due)
        return;
    etcd.due = due;
    lk_sim_at(due, due_comes, NULL);
}

static void advance(void)
{
    lk_simetcd_advance(etcd.etcd, lk_sim_now());
}

static void due_comes(void *context)
{
    (void)context;
    if (lk_sim_now() >= etcd.due)
        etcd.due = INT64_MAX;
    advance();
    settle();
}

static void on_answer(void *context)
{
    (void)context;
    etcd.answers = true;
}

static void on_ended(void *context, int64_t create_revision)
{
    (void)context;
    if (etcd.on_ended != NULL)
        etcd.on_ended((uint64_t)create_revision);
}

static void on_asked(void *context, uint64_t request)
{
    (void)context;
    if (etcd.on_asked != NULL && etcd.reads != NULL)
        etcd.on_asked(etcd.reads->connection, request);
}

static void on_done(void *context, const lk_simetcd_done *done)
{
    (void)context;
    if (etcd.on_done != NULL)
        etcd.on_done(done);
}

static int64_t delay(void *context, lk_simetcd_delay what, int member)
{
    (void)context;
    const bool slow = (what == LK_SIMETCD_DISK || what == LK_SIMETCD_APPLY) && etcd.members[member].slow;
    const bool is_late = slow || lk_sim_chance(LATE_PPM);
    const int64_t late = is_late ? (int64_t)lk_sim_draw((slow ? 50 : 10) * MS) : 0;
    switch (what) {
    case LK_SIMETCD_DISK:
        return late + (int64_t)lk_sim_draw(500 * US);
    case LK_SIMETCD_LINK:
        return late + 50 * US + (int64_t)lk_sim_draw(100 * US);
    case LK_SIMETCD_READY:
        return (int64_t)lk_sim_draw(20 * US);
    default:
        return late + (int64_t)lk_sim_draw(50 * US);
    }
}

static uint64_t draw(void *context, uint64_t below)
{
    (void)context;
    return lk_sim_draw(below);
}

/* ------------------------------------------------------------------ clients ---- */

static void *accepted(void *self, lk_sim_connection *connection)
{
    lk_sim_etcd_member *const member = self;
    session *const s = lk_sim_alloc(sizeof *s);
    *s = (session){.next = etcd.first,
                   .member = member,
                   .wire = lk_simetcd_wire_new(etcd.etcd, member->id),
                   .connection = connection};
    etcd.first = s;
    etcd.answers = true;
    return s;
}

static void received(void *context, const char *bytes, size_t count)
{
    session *const s = context;
    advance();
    tell_bytes(s, "from", (const unsigned char *)bytes, count);
    etcd.reads = s;
    (void)lk_simetcd_wire_feed(s->wire, bytes,
                               count); /* what it doesn't understand it is told, and then it is closed */
    etcd.reads = NULL;
    etcd.answers = true;
    settle();
}

static void closed(void *context)
{
    session *const s = context;
    advance();
    forget(s);
    settle();
}

static size_t clients(int member, lk_sim_process **clients, size_t room)
{
    size_t count = 0;
    for (const session *s = etcd.first; s != NULL && count < room; s = s->next)
        if (s->member->id == member)
            clients[count++] = lk_sim_connection_process(s->connection);
    return count;
}

/* ------------------------------------------------------------------ members ---- */

static void set_clogged(int from, int to, bool clogged)
{
    advance();
    lk_simetcd_clog(etcd.etcd, from, to, clogged);
    settle();
}

static void cut(int one, int other)
{
    advance();
    lk_simetcd_break(etcd.etcd, one, other);
    settle();
}

static void freeze_member(int member, bool frozen)
{
    advance();
    lk_simetcd_freeze_disk(etcd.etcd, member, frozen);
    settle();
}

void lk_sim_etcd_forget(int64_t revisions)
{
    advance();
    if (lk_simetcd_forget(etcd.etcd, revisions))
        lk_sim_tell("all but %lld revisions are to be forgotten", (long long)revisions);
    settle();
}

static void stop_member(int member)
{
    advance();
    lk_simetcd_stop(etcd.etcd, member);
    etcd.members[member].service.silent = true;
    settle();
}

static void continue_member(int member)
{
    advance();
    lk_simetcd_continue(etcd.etcd, member);
    etcd.members[member].service.silent = false;
    lk_sim_network_goes_on();
    settle();
}

static void kill_member(int member, bool written)
{
    lk_sim_etcd_member *const killed = &etcd.members[member];
    advance();
    lk_simetcd_kill(etcd.etcd, member, written);
    killed->service.refuses = true;
    killed->service.silent = false;
    for (session *s = etcd.first, *next; s != NULL; s = next) {
        next = s->next;
        if (s->member == killed)
            hang_up(s);
    }
    lk_sim_network_goes_on();
    settle();
}

static void start_member(int member, bool with_data)
{
    advance();
    lk_simetcd_start(etcd.etcd, member, with_data);
    etcd.members[member].service.refuses = false;
    settle();
}

/* ------------------------------------------------------------------ life ---- */

static void begin_member(int id)
{
    lk_sim_etcd_member *const member = &etcd.members[id];
    *member = (lk_sim_etcd_member){.id = id};
    (void)snprintf(member->host, sizeof member->host, "etcd%d.example", id + 1);
    member->service = (lk_sim_service){.host = member->host,
                                       .port = 2379,
                                       .self = member,
                                       .accepted = accepted,
                                       .received = received,
                                       .closed = closed};
    lk_sim_network_add(&member->service);
}

static lk_sim_service *service(unsigned member)
{
    return member < (unsigned)etcd.count ? &etcd.members[member].service : NULL;
}

static void slow_member(int member, bool slow)
{
    etcd.members[member].slow = slow;
}

static int leader(void)
{
    return lk_simetcd_leader(etcd.etcd);
}

static bool serves(int member)
{
    return lk_simetcd_serves(etcd.etcd, member);
}

static bool left(char *text, size_t room)
{
    return lk_simetcd_left(etcd.etcd, text, room);
}

const lk_sim_servers lk_sim_etcd_servers = {.stop = stop_member,
                                            .go_on = continue_member,
                                            .kill = kill_member,
                                            .start = start_member,
                                            .slow = slow_member,
                                            .freeze = freeze_member,
                                            .clog = set_clogged,
                                            .cut = cut,
                                            .clients = clients,
                                            .service = service,
                                            .leader = leader,
                                            .serves = serves,
                                            .left = left};

lk_sim_etcd *lk_sim_etcd_begin(int members, int tick_ms, bool reads_late)
{
    etcd = (lk_sim_etcd){.count = members, .due = INT64_MAX};
    lk_simetcd_setup setup = {.members = members,
                              .tick_ms = tick_ms,
                              .reads_late = reads_late,
                              .delay = delay,
                              .draw = draw,
                              .on_answer = on_answer,
                              .on_ended = on_ended,
                              .on_asked = on_asked,
                              .on_done = on_done};
    for (int i = 0; i < members; i++) {
        begin_member(i);
        setup.clocks[i] = (lk_simetcd_clock){.offset_ns = (int64_t)lk_sim_draw(1000) * MS,
                                             .ppm = (int32_t)lk_sim_draw(2 * CLOCK_PPM + 1) - CLOCK_PPM};
    }
    etcd.etcd = lk_simetcd_new(&setup);
    settle();
    return &etcd;
}

void lk_sim_etcd_end(void)
{
    while (etcd.first != NULL)
        forget(etcd.first);
    lk_simetcd_free(etcd.etcd);
}
