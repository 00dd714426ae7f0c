/*
 * etcd.c: random sequences of requests on a real etcd and on the simulated one.
 *
 *     simulation_etcd [--sequences N] [--seed N] [--verbose]
 *
 * Runs N sequences with the seeds 1 to N, or the one of --seed. Answers have to be equal, with their revisions, and so has what
 * watches are told. A seed that fails is printed with the command that runs it again.
 */
#include <poll.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/socket.h>
#include <unistd.h>

#include "etcd_choose.h"
#include "etcd_render.h"
#include "grpc.h"
#include "orders.h"
#include "servers/etcd.h"
#include "servers/wait.h"
#include "simulation/etcd/wire.h"

enum { COMMANDS = 40, PATIENCE_MS = 5000, SYNC_MS = 150, EXPIRING = 3 };

#define MS INT64_C(1000000)

static lk_server server;
static lk_simetcd *simulated;
static orders now = {.usage = "[--sequences N] [--seed N] [--verbose]", .first = 1, .count = 300};
static uint64_t requests;

/* ------------------------------------------------------------------ the two of them ---- */

/* A connection to one of them. What watches were told is in it until it was compared. */
typedef struct {
    int fd;                /* of the real one */
    lk_simetcd_wire *wire; /* of the other */
    grpc *client;
    rendered items[EXPIRING * 64];
    int64_t ids[EXPIRING * 64];
    size_t count;
} side;

static bool real_send(void *context, const void *bytes, size_t count)
{
    const side *const s = context;
    const char *at = bytes;
    while (count > 0) {
        const ssize_t sent = send(s->fd, at, count, MSG_NOSIGNAL);
        if (sent <= 0)
            return false;
        at += sent;
        count -= (size_t)sent;
    }
    return true;
}

static bool real_receive(void *context, grpc *client)
{
    const side *const s = context;
    struct pollfd wanted = {.fd = s->fd, .events = POLLIN};
    char bytes[16384];
    if (poll(&wanted, 1, 10) <= 0)
        return true;
    const ssize_t count = recv(s->fd, bytes, sizeof bytes, 0);
    return count > 0 && grpc_feed(client, bytes, (size_t)count);
}

static bool simulated_send(void *context, const void *bytes, size_t count)
{
    const side *const s = context;
    const bool ok = lk_simetcd_wire_feed(s->wire, bytes, count);
    lk_simetcd_advance(simulated, lk_simetcd_now(simulated));
    return ok;
}

static bool simulated_receive(void *context, grpc *client)
{
    const side *const s = context;
    size_t count;
    const void *const bytes = lk_simetcd_wire_output(s->wire, &count);
    if (count == 0)
        lk_simetcd_advance(simulated, lk_simetcd_due(simulated));
    return count == 0 || grpc_feed(client, bytes, count);
}

static bool connect_both(side *real, side *other)
{
    *real = (side){.fd = lk_server_connect(&server, PATIENCE_MS)};
    *other = (side){.fd = -1, .wire = lk_simetcd_wire_new(simulated, 0)};
    real->client = grpc_new(&(grpc_carrier){real_send, real_receive, real});
    other->client = grpc_new(&(grpc_carrier){simulated_send, simulated_receive, other});
    return real->fd >= 0 && grpc_open(real->client, "/etcdserverpb.Watch/Watch") &&
           grpc_open(other->client, "/etcdserverpb.Watch/Watch");
}

static void forget_items(side *s)
{
    for (size_t i = 0; i < s->count; i++) {
        free(s->items[i].text);
        s->items[i] = (rendered){0};
    }
    s->count = 0;
}

static void disconnect(side *s)
{
    forget_items(s);
    grpc_free(s->client);
    if (s->fd >= 0)
        (void)close(s->fd);
    if (s->wire != NULL)
        lk_simetcd_wire_free(s->wire);
}

/* ------------------------------------------------------------------ what watches are told ---- */

static void add_item(side *s, int64_t id, const ProtobufCMessage *message)
{
    if (s->count == sizeof s->items / sizeof *s->items)
        abort();
    s->ids[s->count] = id;
    etcd_render(&s->items[s->count++], message);
}

/* Each event by itself: how many come in one message is a matter of time. */
static void hear(side *s, int64_t patience_ms)
{
    size_t count;
    uint8_t *const bytes = grpc_hear(s->client, &count, patience_ms);
    if (bytes == NULL)
        return;
    LkEtcdPb__Watched *const told = lk_etcd_pb__watched__unpack(NULL, count, bytes);
    for (size_t i = 0; i < told->n_events; i++)
        add_item(s, told->watch_id, &told->events[i]->base);
    if (told->n_events == 0)
        add_item(s, told->watch_id, &told->base);
    lk_etcd_pb__watched__free_unpacked(told, NULL);
    free(bytes);
}

/* In the order of watches, and each one's in its own. */
static void sort_items(side *s)
{
    for (size_t i = 1; i < s->count; i++) {
        for (size_t at = i; at > 0 && s->ids[at] < s->ids[at - 1]; at--) {
            const rendered item = s->items[at];
            const int64_t id = s->ids[at];
            s->items[at] = s->items[at - 1];
            s->ids[at] = s->ids[at - 1];
            s->items[at - 1] = item;
            s->ids[at - 1] = id;
        }
    }
}

static bool compare_watches(side *real, side *other, int64_t span_ms)
{
    size_t before;
    lk_simetcd_advance(simulated, lk_simetcd_now(simulated) + span_ms * MS);
    (void)simulated_receive(other, other->client);
    do {
        before = other->count;
        hear(other, 0);
    } while (other->count > before);
    for (const int64_t until = lk_now_ns() + PATIENCE_MS * MS;
         real->count < other->count && lk_now_ns() < until;)
        hear(real, 10);
    hear(real, 0);
    sort_items(real);
    sort_items(other);
    bool equal = real->count == other->count;
    for (size_t i = 0; i < real->count || i < other->count; i++) {
        const char *const one = i < real->count ? real->items[i].text : "nothing",
                          *const two = i < other->count ? other->items[i].text : "nothing";
        equal = equal && real->ids[i] == other->ids[i] && strcmp(one, two) == 0;
        if (now.verbose || !equal)
            (void)printf("  watch %lld is told %s, and %lld, of the simulated one, %s\n",
                         (long long)real->ids[i], one, (long long)other->ids[i], two);
    }
    forget_items(real);
    forget_items(other);
    return equal;
}

/* ------------------------------------------------------------------ requests ---- */

/* How much time a lease has left is not told to the second. */
static void blur(ProtobufCMessage *message)
{
    if (message->descriptor == &lk_etcd_pb__lease_told__descriptor) {
        LkEtcdPb__LeaseTold *const told = (LkEtcdPb__LeaseTold *)(void *)message;
        told->ttl = told->ttl > 0 && told->ttl <= told->granted_ttl && told->ttl > told->granted_ttl - 100
                        ? 1
                        : told->ttl;
    }
}

static char *text_of(const grpc_answer *answer, const ProtobufCMessageDescriptor *of, int64_t *revision)
{
    rendered text = {0};
    etcd_render_text(&text, "%d %s ", answer->status, answer->text);
    ProtobufCMessage *const message =
        answer->bytes != NULL ? protobuf_c_message_unpack(of, NULL, answer->count, answer->bytes) : NULL;
    if (message != NULL) {
        /* each answer begins with its header */
        const LkEtcdPb__Header *const header = ((const LkEtcdPb__PutDone *)(const void *)message)->header;
        *revision = header->revision > *revision ? header->revision : *revision;
        blur(message);
        etcd_render(&text, message);
        protobuf_c_message_free_unpacked(message, NULL);
    }
    return text.text;
}

static bool compare_answers(side *real, side *other, etcd_chooser *c, const char *path, const void *bytes,
                            size_t count, const ProtobufCMessageDescriptor *of)
{
    const grpc_answer one = grpc_call(real->client, path, bytes, count, PATIENCE_MS),
                      two = grpc_call(other->client, path, bytes, count, PATIENCE_MS);
    char *const first = text_of(&one, of, &c->revision), *const second = text_of(&two, of, &c->revision);
    const bool equal = strcmp(first, second) == 0 && one.status >= 0;
    requests++;
    if (now.verbose || !equal)
        (void)printf("  %s\n", first);
    if (!equal)
        (void)printf("  and of the simulated one: %s\n", second);
    free(one.bytes);
    free(two.bytes);
    free(first);
    free(second);
    return equal && compare_watches(real, other, 0);
}

static bool ask_both(side *real, side *other, etcd_chooser *c, const char *path,
                     const ProtobufCMessage *message, const ProtobufCMessageDescriptor *of)
{
    size_t size;
    uint8_t *const packed = grpc_pack(message, &size);
    rendered text = {0};
    etcd_render(&text, message);
    if (now.verbose)
        (void)printf("%s %s\n", path, text.text);
    const bool equal = compare_answers(real, other, c, path, packed, size, of);
    if (!equal)
        (void)printf("to %s %s\n", path, text.text);
    free(text.text);
    free(packed);
    return equal;
}

/* Its request is a number, which the driver's messages have as a lease's id. */
static bool compact_both(side *real, side *other, etcd_chooser *c, int64_t revision)
{
    LkEtcdPb__LeaseRevoke asked = LK_ETCD_PB__LEASE_REVOKE__INIT;
    asked.id = revision;
    return ask_both(real, other, c, "/etcdserverpb.KV/Compact", &asked.base,
                    &lk_etcd_pb__put_done__descriptor);
}

static bool watch_both(side *real, side *other, etcd_chooser *c)
{
    ProtobufCMessage *const asked = etcd_choose_watch(c);
    rendered text = {0};
    etcd_render(&text, asked);
    if (now.verbose)
        (void)printf("watch %s\n", text.text);
    requests++;
    const bool equal = grpc_say(real->client, asked) && grpc_say(other->client, asked) &&
                       compare_watches(real, other, SYNC_MS);
    if (!equal)
        (void)printf("to a watch %s\n", text.text);
    free(text.text);
    protobuf_c_message_free_unpacked(asked, NULL);
    return equal;
}

static bool command(side *real, side *other, etcd_chooser *c)
{
    const char *path;
    const ProtobufCMessageDescriptor *answer;
    int64_t revision;
    if (etcd_draw(c, 6) == 0)
        return watch_both(real, other, c);
    ProtobufCMessage *const asked = etcd_choose(c, &path, &answer, &revision);
    if (asked == NULL)
        return compact_both(real, other, c, revision);
    const bool equal = ask_both(real, other, c, path, asked, answer);
    protobuf_c_message_free_unpacked(asked, NULL);
    return equal;
}

/* No keys, and no leases of before. */
static bool clean(side *real, side *other, etcd_chooser *c)
{
    LkEtcdPb__Delete all = LK_ETCD_PB__DELETE__INIT;
    bool equal = true;
    all.key = all.range_end = (ProtobufCBinaryData){1, (uint8_t *)(uintptr_t) ""};
    for (int64_t id = 1; equal && id <= 5; id++) {
        LkEtcdPb__LeaseRevoke revoke = LK_ETCD_PB__LEASE_REVOKE__INIT;
        revoke.id = id;
        equal = ask_both(real, other, c, "/etcdserverpb.Lease/LeaseRevoke", &revoke.base,
                         &lk_etcd_pb__lease_revoked__descriptor);
    }
    return equal && ask_both(real, other, c, "/etcdserverpb.KV/DeleteRange", &all.base,
                             &lk_etcd_pb__deleted__descriptor);
}

static bool play(uint64_t seed)
{
    side real, other;
    etcd_chooser c = {.random = seed};
    bool equal = connect_both(&real, &other) && clean(&real, &other, &c);
    for (int i = 0; equal && i < COMMANDS; i++)
        equal = command(&real, &other, &c);
    disconnect(&real);
    disconnect(&other);
    return equal;
}

/* ------------------------------------------------------------------ leases end ---- */

static bool put_on_lease(side *s, int64_t id)
{
    LkEtcdPb__LeaseGrant grant = LK_ETCD_PB__LEASE_GRANT__INIT;
    LkEtcdPb__Put put = LK_ETCD_PB__PUT__INIT;
    char key[16];
    grant.id = put.lease = id;
    grant.ttl = 1;
    put.key.len = (size_t)snprintf(key, sizeof key, "ends/%lld", (long long)id);
    put.key.data = (uint8_t *)key;
    const grpc_answer one = grpc_ask(s->client, "/etcdserverpb.Lease/LeaseGrant", &grant.base, PATIENCE_MS),
                      two = grpc_ask(s->client, "/etcdserverpb.KV/Put", &put.base, PATIENCE_MS);
    free(one.bytes);
    free(two.bytes);
    return one.status == 0 && two.status == 0;
}

/* How long it takes until all of them are told to have ended; -1: they aren't. */
static int64_t ends(side *s, int64_t (*clock_ns)(void))
{
    LkEtcdPb__Watch asked = LK_ETCD_PB__WATCH__INIT;
    LkEtcdPb__WatchCreate create = LK_ETCD_PB__WATCH_CREATE__INIT;
    LkEtcdPb__WatchCreate__Filter filter = LK_ETCD_PB__WATCH_CREATE__FILTER__NOPUT;
    const int64_t began = clock_ns();
    create.key = (ProtobufCBinaryData){5, (uint8_t *)(uintptr_t) "ends/"};
    create.range_end = (ProtobufCBinaryData){5, (uint8_t *)(uintptr_t) "ends0"};
    create.n_filters = 1;
    create.filters = &filter;
    asked.what_case = LK_ETCD_PB__WATCH__WHAT_CREATE;
    asked.create = &create;
    bool ok = grpc_say(s->client, &asked.base);
    for (int64_t id = 101; id < 101 + EXPIRING; id++)
        ok = ok && put_on_lease(s, id);
    for (const int64_t until = lk_now_ns() + PATIENCE_MS * MS;
         s->count < EXPIRING + 1 && lk_now_ns() < until;)
        hear(s, 10);
    return ok && s->count == EXPIRING + 1 ? clock_ns() - began : -1;
}

static int64_t simulated_ns(void)
{
    return lk_simetcd_now(simulated);
}

/* After a second at least, and within the half second in which it is looked for, and a little. */
static bool leases_end(void)
{
    side real, other;
    int64_t first = -1, second = -1;
    if (connect_both(&real, &other)) {
        second = ends(&other, simulated_ns);
        first = ends(&real, lk_now_ns);
    }
    disconnect(&real);
    disconnect(&other);
    (void)printf("leases of 1 s have ended after %lld ms, and of the simulated one after %lld ms\n",
                 (long long)(first / MS), (long long)(second / MS));
    return first >= 1000 * MS && second >= 1000 * MS && second <= 1550 * MS;
}

/* ------------------------------------------------------------------ the program ---- */

static int run(const char *program)
{
    const int64_t began = lk_now_ns();
    if (!leases_end())
        return 1;
    for (uint64_t seed = now.first; seed < now.first + now.count; seed++) {
        if (now.verbose)
            (void)printf("seed %llu\n", (unsigned long long)seed);
        if (play(seed))
            continue;
        (void)printf(
            "seed %llu: the simulated server is not as the real one\nrun it again: %s --seed %llu --verbose\n",
            (unsigned long long)seed, program, (unsigned long long)seed);
        return 1;
    }
    (void)printf("%llu sequences with %llu requests in %.1f s: equal\n", (unsigned long long)now.count,
                 (unsigned long long)requests, (double)(lk_now_ns() - began) / 1e9);
    return 0;
}

int main(int argc, char **argv)
{
    const lk_server_setup setup = {.tick_ms = LK_ETCD_TICK_MS};
    const lk_simetcd_setup simulated_setup = {.members = 1, .tick_ms = LK_ETCD_TICK_MS};
    int status = 1;
    if (!read_orders(&now, argc, argv))
        return usage(&now, argv[0]);
    simulated = lk_simetcd_new(&simulated_setup);
    lk_simetcd_advance(simulated, 0);
    if (lk_server_start(&server, &lk_server_etcd, &setup) && lk_server_await(&server))
        status = run(argv[0]);
    else
        (void)fprintf(stderr, "%s\n", server.error);
    lk_server_remove(&server);
    lk_simetcd_free(simulated);
    return status;
}
