/* zookeeper_service.c: see zookeeper_service.h. */
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "world/seams.h"
#include "zookeeper/wire.h"
#include "zookeeper_service.h"

#define US INT64_C(1000)
#define MS INT64_C(1000000)

enum { LATE_PPM = 5000, CLOCK_PPM = 5000 };

#define QUIET_NS (250 * MS) /* longer than between any two heartbeats */

/* A client's connection. */
typedef struct lk_sim_zookeeper_session {
    struct lk_sim_zookeeper_session *next;
    lk_sim_zookeeper_server *server;
    lk_simzk_wire *wire;
    lk_sim_connection *connection;
    int64_t heard_at;
    bool was_quiet; /* before it sent what has no answer yet */
} session;

static lk_sim_zookeeper zookeeper;

/* ------------------------------------------------------------------ what is sent ---- */

/* What is on the wire, for the trace: texts, with a point for all between them. */
static void tell_bytes(const session *s, const char *way, const unsigned char *bytes, size_t count)
{
    char text[512];
    lk_sim_readable(text, sizeof text, bytes, count);
    lk_sim_tell("%s %s of session %" PRIx64 ": %s", s->server->host, way,
                (uint64_t)lk_simzk_wire_session(s->wire), text);
}

static void forget(session *s)
{
    session **at = &zookeeper.first;
    while (*at != s)
        at = &(*at)->next;
    *at = s->next;
    lk_simzk_wire_free(s->wire);
    free(s);
}

static void hang_up(session *s)
{
    lk_sim_connection_close(s->connection);
    forget(s);
}

static void send_output(session *s)
{
    size_t count;
    const void *const bytes = lk_simzk_wire_output(s->wire, &count);
    if (count == 0)
        return;
    tell_bytes(s, "to", bytes, count);
    lk_sim_connection_send(s->connection, bytes, count);
    if (zookeeper.on_answer != NULL)
        zookeeper.on_answer(s->server->id, s->was_quiet);
    s->was_quiet = false;
}

static void due_comes(void *context);

/* What the last call has made to be sent; and when it wants to be called again. */
static void settle(void)
{
    if (zookeeper.on_settled != NULL)
        zookeeper.on_settled(&zookeeper);
    while (zookeeper.answers) {
        zookeeper.answers = false;
        for (session *s = zookeeper.first, *next; s != NULL; s = next) {
            next = s->next;
            send_output(s);
            if (lk_simzk_wire_is_closed(s->wire))
                hang_up(s);
        }
    }
    int64_t due = lk_simzk_due(zookeeper.ensemble);
    if (due < zookeeper.timeless_until)
        due = zookeeper.timeless_until;
    if (due == INT64_MAX || due >= zookeeper.due)
        return;
    zookeeper.due = due;
    lk_sim_at(due, due_comes, NULL);
}

static void advance(void)
{
    if (lk_sim_now() >= zookeeper.timeless_until)
        lk_simzk_advance(zookeeper.ensemble, lk_sim_now());
}

static void due_comes(void *context)
{
    (void)context;
    zookeeper.due = INT64_MAX;
    advance();
    settle();
}

static void on_answer(void *context, lk_simzk_connection *connection)
{
    (void)context;
    (void)connection;
    zookeeper.answers = true;
}

static void on_ended(void *context, int64_t czxid)
{
    (void)context;
    if (zookeeper.on_ended != NULL)
        zookeeper.on_ended((uint64_t)czxid);
}

/* ------------------------------------------------------------------ clients ---- */

static void asked(void *context, const lk_simzk_request *request)
{
    const session *const s = context;
    zookeeper.on_asked(s->connection, lk_simzk_wire_session(s->wire), request);
}

static void answered(void *context, const lk_simzk_answer *answer, lk_simzk_kind kind, size_t end)
{
    const session *const s = context;
    zookeeper.on_answered(s->connection, lk_simzk_wire_session(s->wire), answer, kind, end);
}

static void *accepted(void *self, lk_sim_connection *connection)
{
    lk_sim_zookeeper_server *const server = self;
    session *const s = lk_sim_alloc(sizeof *s);
    *s = (session){.next = zookeeper.first,
                   .server = server,
                   .wire = lk_simzk_wire_new(zookeeper.ensemble, server->id),
                   .connection = connection,
                   .heard_at = lk_sim_now()};
    zookeeper.first = s;
    if (zookeeper.on_asked != NULL)
        lk_simzk_wire_listen(s->wire, (lk_simzk_wire_listener){asked, answered, s});
    return s;
}

/* The client library of 3.8 sends the rest of a request that it had sent half of, when the connection was lost as it sent
 * another one, on its next connection. */
static void received(void *context, const char *bytes, size_t count)
{
    session *const s = context;
    s->was_quiet |= lk_sim_now() - s->heard_at > QUIET_NS;
    s->heard_at = lk_sim_now();
    advance();
    tell_bytes(s, "from", (const unsigned char *)bytes, count);
    if (lk_simzk_wire_feed(s->wire, bytes, count)) {
        zookeeper.answers |= lk_simzk_wire_is_closed(s->wire);
    } else { /* as a real one does */
        lk_sim_tell("%s does not understand that, and hangs up", s->server->host);
        hang_up(s);
    }
    settle();
}

static void closed(void *context)
{
    session *const s = context;
    advance();
    forget(s);
    settle();
}

static size_t clients(int server, lk_sim_process **clients, size_t room)
{
    size_t count = 0;
    for (const session *s = zookeeper.first; s != NULL && count < room; s = s->next)
        if (s->server->id == server)
            clients[count++] = lk_sim_connection_process(s->connection);
    return count;
}

/* ------------------------------------------------------------------ between servers ---- */

static int64_t drawn_delay(const lk_sim_zookeeper_link *link)
{
    const int64_t late = link->slow || lk_sim_chance(LATE_PPM) ? (int64_t)lk_sim_draw(50 * MS) : 0;
    if (late > 25 * MS && zookeeper.on_late != NULL)
        zookeeper.on_late(late);
    switch (link->link.channel) {
    case LK_SIMZK_DISK:
        return late + (int64_t)lk_sim_draw(500 * US);
    case LK_SIMZK_APPLY:
        return late + (int64_t)lk_sim_draw(50 * US);
    default:
        return late + 50 * US + (int64_t)lk_sim_draw(100 * US);
    }
}

static void message_comes(void *context)
{
    const lk_sim_zookeeper_link *const link = context;
    if (link->clogged)
        return;
    advance();
    (void)lk_simzk_deliver(zookeeper.ensemble, link->link);
    settle();
}

static void on_waiting(void *context, lk_simzk_link link)
{
    (void)context;
    lk_sim_zookeeper_link *const on = &zookeeper.links[link.channel][link.from][link.to];
    lk_sim_at(lk_sim_now() + drawn_delay(on), message_comes, on);
}

/* All that waits there comes after all. */
static void goes_on(lk_sim_zookeeper_link *link)
{
    for (size_t left = lk_simzk_waiting(zookeeper.ensemble, link->link); left > 0; left--)
        lk_sim_at(lk_sim_now() + drawn_delay(link), message_comes, link);
}

static void set_clogged(int from, int to, bool clogged)
{
    for (int channel = LK_SIMZK_VOTES; channel <= LK_SIMZK_QUORUM; channel++) {
        zookeeper.links[channel][from][to].clogged = clogged;
        if (!clogged)
            goes_on(&zookeeper.links[channel][from][to]);
    }
}

static void slow_server(int server, bool slow)
{
    zookeeper.links[LK_SIMZK_DISK][server][server].slow = slow;
    zookeeper.links[LK_SIMZK_APPLY][server][server].slow = slow;
}

static void cut(int one, int other)
{
    advance();
    lk_simzk_break(zookeeper.ensemble, one, other);
    settle();
}

/* ------------------------------------------------------------------ servers ---- */

static void stop_server(int server)
{
    advance();
    lk_simzk_stop(zookeeper.ensemble, server);
    zookeeper.servers[server].service.silent = true;
    settle();
}

/* What it was sent meanwhile is there, and so is what was due: whichever it sees first. */
static void continue_server(int server)
{
    advance();
    lk_simzk_continue(zookeeper.ensemble, server);
    zookeeper.servers[server].service.silent = false;
    if (lk_sim_draw(2) == 0)
        zookeeper.timeless_until = lk_sim_now() + (int64_t)lk_sim_draw(2 * MS);
    for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++)
        for (int from = 0; from < zookeeper.count; from++)
            goes_on(&zookeeper.links[channel][from][server]);
    lk_sim_network_goes_on();
    settle();
}

static void kill_server(int server, bool written)
{
    lk_sim_zookeeper_server *const killed = &zookeeper.servers[server];
    advance();
    lk_simzk_crash(zookeeper.ensemble, server, written);
    killed->service.refuses = true;
    killed->service.silent = false;
    for (session *s = zookeeper.first, *next; s != NULL; s = next) {
        next = s->next;
        if (s->server == killed)
            hang_up(s);
    }
    lk_sim_network_goes_on();
    settle();
}

static void start_server(int server, bool with_data)
{
    advance();
    lk_simzk_start(zookeeper.ensemble, server, with_data);
    zookeeper.servers[server].service.refuses = false;
    settle();
}

/* ------------------------------------------------------------------ life ---- */

static void begin_server(int id)
{
    lk_sim_zookeeper_server *const server = &zookeeper.servers[id];
    *server = (lk_sim_zookeeper_server){.id = id};
    (void)snprintf(server->host, sizeof server->host, "zk%d.example", id + 1);
    server->service = (lk_sim_service){.host = server->host,
                                       .port = 2181,
                                       .self = server,
                                       .accepted = accepted,
                                       .received = received,
                                       .closed = closed};
    lk_sim_network_add(&server->service);
}

static void begin_links(void)
{
    for (int channel = 0; channel < LK_SIMZK_CHANNELS; channel++)
        for (int from = 0; from < zookeeper.count; from++)
            for (int to = 0; to < zookeeper.count; to++)
                zookeeper.links[channel][from][to] =
                    (lk_sim_zookeeper_link){.link = {(lk_simzk_channel)channel, from, to}};
}

static lk_sim_service *service(unsigned server)
{
    return server < (unsigned)zookeeper.count ? &zookeeper.servers[server].service : NULL;
}

static int leader(void)
{
    return lk_simzk_leader(zookeeper.ensemble);
}

static bool serves(int server)
{
    return lk_simzk_serves(zookeeper.ensemble, server);
}

static bool left(char *text, size_t room)
{
    return lk_simzk_left(zookeeper.ensemble, text, room);
}

const lk_sim_servers lk_sim_zookeeper_servers = {.stop = stop_server,
                                                 .go_on = continue_server,
                                                 .kill = kill_server,
                                                 .start = start_server,
                                                 .slow = slow_server,
                                                 .clog = set_clogged,
                                                 .cut = cut,
                                                 .clients = clients,
                                                 .service = service,
                                                 .leader = leader,
                                                 .serves = serves,
                                                 .left = left};

lk_sim_zookeeper *lk_sim_zookeeper_begin(int servers)
{
    zookeeper = (lk_sim_zookeeper){.count = servers, .due = INT64_MAX};
    lk_simzk_setup setup = {.servers = servers,
                            .is_3_9 = lk_sim_draw(2) == 0,
                            .tick_ms = LK_SIM_ZOOKEEPER_TICK_MS,
                            .container_check_ms = 1000,
                            .on_waiting = on_waiting,
                            .on_answer = on_answer,
                            .on_ended = on_ended};
    for (int i = 0; i < servers; i++) {
        begin_server(i);
        setup.clocks[i] = (lk_simzk_clock){.offset_ns = (int64_t)lk_sim_draw(1000) * MS,
                                           .ppm = (int32_t)lk_sim_draw(2 * CLOCK_PPM + 1) - CLOCK_PPM};
    }
    begin_links();
    zookeeper.ensemble = lk_simzk_new(&setup);
    settle();
    return &zookeeper;
}

void lk_sim_zookeeper_end(void)
{
    while (zookeeper.first != NULL)
        forget(zookeeper.first);
    lk_simzk_free(zookeeper.ensemble);
}
