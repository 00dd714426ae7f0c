/* redis_service.c: see redis_service.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis/replication.h"
#include "redis/state.h"
#include "redis_service.h"
#include "world/seams.h"

enum { LAG_NS = 100000 };

/* What of the server's clients is to be looked at. */
typedef struct session {
    struct session *next_ready;
    lk_sim_redis *redis;
    lk_sr_client *client;
    lk_sim_connection *connection; /* NULL: closed, by whichever side */
    bool is_ready;
} session;

static session *first_ready;

static void ready(void *context, lk_sr_client *client)
{
    session *const s = lk_sr_client_user(client);
    (void)context;
    if (s->is_ready)
        return;
    s->is_ready = true;
    s->next_ready = first_ready;
    first_ready = s;
}

/* What is on the wire, for the trace. */
static void tell_bytes(const session *s, const char *way, const char *bytes, size_t count)
{
    char text[512];
    size_t n = 0;
    if (!lk_sim_is_traced())
        return;
    for (size_t i = 0; i < count && n + 2 < sizeof text; i++) {
        const bool plain = bytes[i] >= ' ' && bytes[i] <= '~';
        if (plain || bytes[i] == '\n')
            text[n++] = plain ? bytes[i] : ' ';
    }
    text[n] = '\0';
    lk_sim_tell("%s client %lld: %s", way, (long long)lk_sr_client_id(s->client), text);
}

static bool begins_with(lk_sr_text output, const char *text)
{
    return output.len >= strlen(text) && memcmp(output.data, text, strlen(text)) == 0;
}

/* A message of Pub/Sub begins so; its text is its sixth line behind that. There are no others than ours. */
static void tell_messages(const session *s, lk_sr_text output)
{
    static const char one[] = "*3\r\n$7\r\nmessage\r\n", of_shard[] = "*3\r\n$8\r\nsmessage\r\n";
    const char *at = output.data;
    if (!begins_with(output, one) && !begins_with(output, of_shard))
        return;
    at += begins_with(output, one) ? sizeof one - 1 : sizeof of_shard - 1;
    for (int line = 0; line < 3; line++) { /* the channel, and how long the text is */
        at = memchr(at, '\n', (size_t)(output.data + output.len - at));
        if (at++ == NULL)
            return;
    }
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", (int)(output.data + output.len - at), at);
    s->redis->tells(s->connection, text);
}

static void send_output(session *s)
{
    const lk_sr_text output = lk_sr_output(s->client);
    if (output.len > 0) {
        tell_bytes(s, "to", output.data, output.len);
        tell_messages(s, output);
        lk_sim_connection_send(s->connection, output.data, output.len);
        lk_sr_sent(s->client, output.len);
    }
    if (!lk_sr_is_closed(s->client))
        return;
    lk_sim_connection_close(s->connection);
    lk_sr_disconnect(s->client);
    free(s);
}

static void due_comes(void *context);
static void carry(void *context);

/* What it has written is on its way to its replica. */
static void replicate(lk_sim_redis *redis)
{
    if (redis->replica == NULL || redis->carries || redis->halts || lk_sr_link_unit(redis->link).len == 0)
        return;
    redis->carries = true;
    lk_sim_at(lk_sim_now() + LAG_NS + (int64_t)lk_sim_draw(LAG_NS), carry, redis);
}

void lk_sim_redis_settle(lk_sim_redis *redis)
{
    while (first_ready != NULL) {
        session *const s = first_ready;
        first_ready = s->next_ready;
        s->is_ready = false;
        send_output(s);
    }
    replicate(redis);
    const int64_t due = lk_sr_due(redis->server);
    if (due == INT64_MAX || due >= redis->due)
        return;
    redis->due = due;
    lk_sim_at(lk_sim_true(&redis->machine, due), due_comes, redis);
}

void lk_sim_redis_advance(lk_sim_redis *redis)
{
    lk_sr_advance(redis->server, lk_sim_local(&redis->machine, lk_sim_now()));
}

static void due_comes(void *context)
{
    lk_sim_redis *const redis = context;
    redis->due = INT64_MAX;
    if (redis->service.silent)
        return; /* it is done when it speaks again */
    lk_sim_redis_advance(redis);
    lk_sim_redis_settle(redis);
}

void lk_sim_redis_speaks(lk_sim_redis *redis)
{
    redis->service.silent = false;
    lk_sim_redis_advance(redis);
    lk_sim_redis_settle(redis);
}

static void *accepted(void *self, lk_sim_connection *connection)
{
    lk_sim_redis *const redis = self;
    static unsigned port;
    char address[64];
    session *const s = lk_sim_alloc(sizeof *s);
    lk_sim_redis_advance(redis);
    (void)snprintf(address, sizeof address, "10.0.1.1:%u", 20000 + port++ % 40000);
    *s = (session){.redis = redis, .connection = connection};
    s->client = lk_sr_connect(redis->server, address, s);
    lk_sim_redis_settle(redis);
    return s;
}

static void received(void *context, const char *bytes, size_t count)
{
    session *const s = context;
    lk_sim_redis *const redis = s->redis;
    lk_sim_redis_advance(redis);
    tell_bytes(s, "from", bytes, count);
    lk_sr_feed(s->client, (lk_sr_text){bytes, count});
    lk_sim_redis_settle(redis);
}

/* Nothing more is sent to it. */
static void end(session *s)
{
    lk_sim_redis *const redis = s->redis;
    session **at = &first_ready;
    while (*at != NULL && *at != s)
        at = &(*at)->next_ready;
    if (*at != NULL)
        *at = s->next_ready;
    lk_sr_disconnect(s->client);
    free(s);
    lk_sim_redis_settle(redis);
}

static void closed(void *context)
{
    session *const s = context;
    lk_sim_redis_advance(s->redis);
    end(s);
}

static void put(void *context, lk_sr_text name)
{
    const lk_sim_redis *const redis = context;
    char text[256];
    (void)snprintf(text, sizeof text, "%.*s", LK_SR_SHOWN(name));
    redis->puts(text);
}

static void ran(void *context, lk_sr_client *client, const lk_sr_text *argv, size_t argc, lk_sr_text answer)
{
    const lk_sim_redis *const redis = context;
    const session *const s = lk_sr_client_user(client);
    if (redis->ran != NULL && s->connection != NULL)
        redis->ran(redis, s->connection, argv, argc, answer);
}

void lk_sim_redis_begin(lk_sim_redis *redis, const char *host, const lk_sim_redis *clock, uint64_t seed)
{
    *redis = (lk_sim_redis){.service = {.host = host,
                                        .port = 6379,
                                        .self = redis,
                                        .accepted = accepted,
                                        .received = received,
                                        .closed = closed},
                            .machine = {.host = host},
                            .due = INT64_MAX};
    first_ready = NULL;
    redis->machine.rate_ppm = clock != NULL ? clock->machine.rate_ppm : (int64_t)lk_sim_draw(10001) - 5000;
    redis->server = lk_sr_new(&(lk_sr_setup){.seed = seed,
                                             .host = host,
                                             .port = 6379,
                                             .clock_ns = INT64_C(1700000000000000000),
                                             .ready = ready,
                                             .put = put,
                                             .ran = ran,
                                             .context = redis});
    lk_sim_network_add(&redis->service);
}

void lk_sim_redis_restart(lk_sim_redis *redis, bool keeps_data)
{
    lk_sim_redis_advance(redis);
    lk_sr_restart(redis->server, keeps_data);
    if (redis->replica != NULL) { /* which synchronises anew */
        lk_sr_detach(redis->link);
        redis->link = lk_sr_attach(redis->server, redis->replica->server);
    }
    lk_sim_redis_settle(redis);
}

/* Report which keys end when the clock is set forward by so much. A replica's are its master's, by whose clock they end. */
static void tell_expired(const lk_sim_redis *redis, int64_t by_ns)
{
    const int64_t before_ms = lk_sr_clock_ms(redis->server), now_ms = before_ms + by_ns / 1000000;
    if (lk_sr_is_replica(redis->server))
        return;
    LK_LIST_EACH(link, &redis->server->spaces[0].keys) {
        const lk_sr_key *const key = LK_CONTAINER(link, lk_sr_key, link);
        char text[256];
        (void)snprintf(text, sizeof text, "%.*s", LK_SR_SHOWN(lk_sr_view(&key->name)));
        if (key->expires_ms >= before_ms && key->expires_ms <= now_ms)
            redis->expires(text);
    }
}

void lk_sim_redis_set_clock(lk_sim_redis *redis, int64_t by_ns)
{
    lk_sim_redis_advance(redis);
    tell_expired(redis, by_ns);
    redis->lead_ns += by_ns;
    lk_sr_set_clock(redis->server, redis->server->now_ns + redis->server->clock_ns + by_ns);
    lk_sim_redis_settle(redis);
}

/* ------------------------------------------------------------------ replicas ---- */

static void take_units(lk_sim_redis *redis)
{
    lk_sim_redis *const replica = redis->replica;
    lk_sim_redis_advance(replica);
    for (lk_sr_text unit; (unit = lk_sr_link_unit(redis->link)).len > 0;) {
        lk_sr_apply(replica->server, unit);
        lk_sr_link_taken(redis->link);
    }
    lk_sr_acknowledge(redis->link, lk_sr_offset(replica->server));
    lk_sim_redis_settle(replica);
}

static void carry(void *context)
{
    lk_sim_redis *const redis = context;
    redis->carries = false;
    if (redis->replica == NULL || redis->halts)
        return;
    take_units(redis);
    lk_sim_redis_settle(redis);
}

void lk_sim_redis_replicate(lk_sim_redis *master, lk_sim_redis *replica)
{
    lk_sim_redis_advance(master);
    lk_sim_redis_advance(replica);
    lk_sr_follow(replica->server, master->service.host, master->service.port);
    master->link = lk_sr_attach(master->server, replica->server);
    master->replica = replica;
    lk_sim_redis_settle(replica);
}

void lk_sim_redis_catch_up(lk_sim_redis *master)
{
    if (master->replica != NULL)
        take_units(master);
    lk_sim_redis_settle(master);
}

void lk_sim_redis_promote(lk_sim_redis *master)
{
    lk_sim_redis *const replica = master->replica;
    for (lk_sr_text unit; (unit = lk_sr_link_unit(master->link)).len > 0; lk_sr_link_taken(master->link))
        master->loses(unit);
    lk_sim_redis_advance(replica);
    lk_sr_detach(master->link);
    master->link = NULL;
    master->replica = NULL;
    lk_sr_lose_master(replica->server);
    lk_sr_promote(replica->server);
    lk_sim_redis_settle(replica);
}

/* ------------------------------------------------------------------ strangers ---- */

void lk_sim_redis_ask(lk_sim_redis *redis, bool is_asking, unsigned argc, const char *const *argv,
                      char *answer, size_t room)
{
    char request[512];
    const char *const before = is_asking ? "*1\r\n$6\r\nASKING\r\n" : "";
    size_t n = (size_t)snprintf(request, sizeof request, "%s*%u\r\n", before, argc);
    for (unsigned i = 0; i < argc; i++)
        n += (size_t)snprintf(request + n, sizeof request - n, "$%zu\r\n%s\r\n", strlen(argv[i]), argv[i]);
    lk_sim_redis_advance(redis);
    session *const s = lk_sim_alloc(sizeof *s);
    s->redis = redis;
    s->client = lk_sr_connect(redis->server, "10.0.1.2:1", s);
    lk_sr_feed(s->client, (lk_sr_text){request, n});
    const lk_sr_text told = lk_sr_output(s->client);
    const size_t skipped = is_asking && told.len > 5 ? 5 : 0; /* "+OK" */
    (void)snprintf(answer, room, "%.*s",
                   LK_SR_SHOWN(((lk_sr_text){told.data + skipped, told.len - skipped})));
    end(s);
}

void lk_sim_redis_end(lk_sim_redis *redis)
{
    lk_sr_free(redis->server);
}
