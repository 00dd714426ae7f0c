/* redis_service.c: see redis_service.h. */
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "redis_service.h"
#include "world/seams.h"

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
    for (size_t i = 0; i < count && n + 2 < sizeof text; i++) {
        const bool plain = bytes[i] >= ' ' && bytes[i] <= '~';
        if (plain || bytes[i] == '\n')
            text[n++] = plain ? bytes[i] : ' ';
    }
    text[n] = '\0';
    lk_sim_tell("%s client %lld: %s", way, (long long)lk_sr_client_id(s->client), text);
}

static void send_output(session *s)
{
    const lk_sr_text output = lk_sr_output(s->client);
    if (output.len > 0) {
        tell_bytes(s, "to", output.data, output.len);
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

/* What the last call has made to be sent; and when it wants to be called again. */
static void settle(lk_sim_redis *redis)
{
    while (first_ready != NULL) {
        session *const s = first_ready;
        first_ready = s->next_ready;
        s->is_ready = false;
        send_output(s);
    }
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
    if (!redis->service.silent)
        lk_sim_redis_advance(redis);
    settle(redis);
}

static void *accepted(void *self, lk_sim_connection *connection)
{
    lk_sim_redis *const redis = self;
    static unsigned port;
    char address[64];
    session *const s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    lk_sim_redis_advance(redis);
    (void)snprintf(address, sizeof address, "10.0.1.1:%u", 20000 + port++ % 40000);
    *s = (session){.redis = redis, .connection = connection};
    s->client = lk_sr_connect(redis->server, address, s);
    settle(redis);
    return s;
}

static void received(void *context, const char *bytes, size_t count)
{
    session *const s = context;
    lk_sim_redis *const redis = s->redis;
    lk_sim_redis_advance(redis);
    tell_bytes(s, "from", bytes, count);
    lk_sr_feed(s->client, (lk_sr_text){bytes, count});
    settle(redis);
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
    settle(redis);
}

static void closed(void *context)
{
    session *const s = context;
    lk_sim_redis_advance(s->redis);
    end(s);
}

void lk_sim_redis_begin(lk_sim_redis *redis, const char *host, uint64_t seed)
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
    redis->machine.rate_ppm = (int64_t)lk_sim_draw(10001) - 5000;
    redis->server = lk_sr_new(&(lk_sr_setup){.seed = seed,
                                             .host = host,
                                             .port = 6379,
                                             .clock_ns = INT64_C(1700000000000000000),
                                             .ready = ready,
                                             .context = redis});
    lk_sim_network_add(&redis->service);
}

void lk_sim_redis_restart(lk_sim_redis *redis, bool keeps_data)
{
    lk_sim_redis_advance(redis);
    lk_sr_restart(redis->server, keeps_data);
    settle(redis);
}

void lk_sim_redis_flush(lk_sim_redis *redis)
{
    static const char flush[] = "*1\r\n$8\r\nFLUSHALL\r\n";
    lk_sim_redis_advance(redis);
    session *const s = calloc(1, sizeof *s);
    if (s == NULL)
        abort();
    s->redis = redis;
    s->client = lk_sr_connect(redis->server, "10.0.1.2:1", s);
    lk_sr_feed(s->client, (lk_sr_text){flush, sizeof flush - 1});
    end(s);
}

void lk_sim_redis_end(lk_sim_redis *redis)
{
    lk_sr_free(redis->server);
}
