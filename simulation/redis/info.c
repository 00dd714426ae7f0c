/* info.c: commands that tell of the server or change what it is. INFO has the fields that somebody here reads. */

#include <inttypes.h>
#include <stdio.h>

#include "call.h"
#include "commands.h"
#include "replication.h"
#include "stream.h"

/* ------------------------------------------------------------------ INFO ---- */

static void put_server(const lk_sr_server *server, lk_sr_bytes *text)
{
    lk_sr_print(text, "# Server\r\nredis_version:" LK_SR_VERSION "\r\nredis_mode:%s\r\n",
                server->view != NULL ? "cluster" : "standalone");
    lk_sr_print(text, "run_id:%s\r\ntcp_port:%d\r\n", server->run_id, server->setup.port);
    lk_sr_print(text, "server_time_usec:%" PRId64 "\r\n", lk_sr_clock_us(server));
}

static void put_memory(const lk_sr_server *server, lk_sr_bytes *text)
{
    lk_sr_print(text, "# Memory\r\nmaxmemory:%" PRIu64 "\r\nmaxmemory_policy:noeviction\r\n",
                server->memory_most);
}

static void put_replication(const lk_sr_server *server, lk_sr_bytes *text)
{
    const bool replica = lk_sr_is_replica(server);
    lk_sr_print(text, "# Replication\r\nrole:%s\r\n", replica ? "slave" : "master");
    if (replica)
        lk_sr_print(text, "master_host:%s\r\nmaster_port:%d\r\nmaster_link_status:%s\r\n",
                    server->master.host, server->master.port, server->master.linked ? "up" : "down");
    lk_sr_print(text, "connected_slaves:%zu\r\n", lk_sr_link_count(server));
    lk_sr_print(text, "master_replid:%s\r\nmaster_repl_offset:%" PRId64 "\r\n", server->replication_id,
                server->offset);
}

static void put_cluster(const lk_sr_server *server, lk_sr_bytes *text)
{
    lk_sr_print(text, "# Cluster\r\ncluster_enabled:%d\r\n", server->view != NULL);
}

static void put_keyspace(const lk_sr_server *server, lk_sr_bytes *text)
{
    lk_sr_print(text, "# Keyspace\r\n");
    for (int i = 0; i < LK_SR_DATABASES; i++) {
        if (server->spaces[i].table.count > 0)
            lk_sr_print(text, "db%d:keys=%zu\r\n", i, server->spaces[i].table.count);
    }
}

static const struct {
    const char *name;
    void (*put)(const lk_sr_server *server, lk_sr_bytes *text);
} sections[] = {{"server", put_server},
                {"memory", put_memory},
                {"replication", put_replication},
                {"cluster", put_cluster},
                {"keyspace", put_keyspace}};

static bool is_wanted(const lk_sr_call *call, const char *section)
{
    bool wanted = call->argc == 1;
    for (size_t i = 1; i < call->argc; i++)
        wanted = wanted || lk_sr_is(call->argv[i], section) || lk_sr_is(call->argv[i], "all") ||
                 lk_sr_is(call->argv[i], "default") || lk_sr_is(call->argv[i], "everything");
    return wanted;
}

void lk_sr_info(lk_sr_call *call)
{
    lk_sr_bytes text = {NULL, 0, 0};
    for (size_t i = 0; i < sizeof sections / sizeof sections[0]; i++) {
        if (!is_wanted(call, sections[i].name))
            continue;
        if (text.len > 0)
            lk_sr_print(&text, "\r\n");
        sections[i].put(call->server, &text);
    }
    lk_sr_reply_bulk(call->out, lk_sr_view(&text));
    lk_sr_bytes_free(&text);
}

/* ------------------------------------------------------------------ TIME, ROLE, REPLICAOF ---- */

void lk_sr_time(lk_sr_call *call)
{
    const int64_t us = lk_sr_clock_us(call->server);
    lk_sr_reply_array(call->out, 2);
    lk_sr_reply_number(call->out, us / 1000000);
    lk_sr_reply_number(call->out, us % 1000000);
}

void lk_sr_role(lk_sr_call *call)
{
    const lk_sr_server *server = call->server;
    const bool replica = lk_sr_is_replica(server);
    lk_sr_reply_array(call->out, replica ? 5 : 3);
    lk_sr_reply_bulk(call->out, lk_sr_word(replica ? "slave" : "master"));
    if (!replica) {
        lk_sr_reply_integer(call->out, server->offset);
        lk_sr_stream_put_replicas(server, call->out);
        return;
    }
    lk_sr_reply_bulk(call->out, lk_sr_word(server->master.host));
    lk_sr_reply_integer(call->out, server->master.port);
    lk_sr_reply_bulk(call->out, lk_sr_word(server->master.linked ? "connected" : "connect"));
    lk_sr_reply_integer(call->out, server->master.linked ? server->offset : -1);
}

void lk_sr_replicaof(lk_sr_call *call)
{
    lk_sr_server *server = call->server;
    const char *status = "OK";
    int64_t port;
    if (server->view != NULL) {
        lk_sr_reply_error(call->out, "REPLICAOF not allowed in cluster mode.");
        return;
    }
    if (lk_sr_is(call->argv[1], "no") && lk_sr_is(call->argv[2], "one")) {
        lk_sr_promote(server);
    } else if (!lk_sr_integer(call->argv[2], &port) || port < 0 || port > 65535) {
        lk_sr_reply_error(call->out, "Invalid master port");
        return;
    } else if (lk_sr_is(call->argv[1], server->master.host) && port == server->master.port) {
        status = "OK Already connected to specified master";
    } else {
        char host[LK_SR_HOST_MAX];
        (void)snprintf(host, sizeof host, "%.*s", LK_SR_SHOWN(call->argv[1]));
        lk_sr_follow(server, host, (int)port);
    }
    lk_sr_reply_status(call->out, status);
}

/* ------------------------------------------------------------------ CONFIG ---- */

/* Digits, and perhaps a unit. */
static bool read_memory(lk_sr_text text, uint64_t *bytes)
{
    static const struct {
        const char *name;
        uint64_t factor;
    } units[] = {{"", 1},        {"b", 1},        {"k", 1000},       {"kb", 1024},
                 {"m", 1000000}, {"mb", 1 << 20}, {"g", 1000000000}, {"gb", 1 << 30}};
    size_t digits = 0;
    for (*bytes = 0; digits < text.len && text.data[digits] >= '0' && text.data[digits] <= '9'; digits++)
        *bytes = *bytes * 10 + (uint64_t)(text.data[digits] - '0');
    for (size_t i = 0; i < sizeof units / sizeof units[0]; i++) {
        if (digits > 0 && lk_sr_is((lk_sr_text){text.data + digits, text.len - digits}, units[i].name)) {
            *bytes *= units[i].factor;
            return true;
        }
    }
    return false;
}

static bool set_one(lk_sr_call *call, size_t at)
{
    int64_t number = 0;
    uint64_t bytes;
    if (lk_sr_is(call->argv[at], "maxmemory")) {
        if (!read_memory(call->argv[at + 1], &bytes)) {
            lk_sr_reply_error(
                call->out,
                "CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a "
                "memory value");
            return false;
        }
        call->server->memory_most = bytes;
    } else if (lk_sr_is(call->argv[at], "min-replicas-to-write")) {
        const char *wrong = !lk_sr_integer(call->argv[at + 1], &number) ? "couldn't be parsed into an integer"
                            : number < 0 || number > INT32_MAX ? "must be between 0 and 2147483647 inclusive"
                                                               : NULL;
        if (wrong != NULL) {
            lk_sr_reply_error(
                call->out,
                "CONFIG SET failed (possibly related to argument 'min-replicas-to-write') - argument %s",
                wrong);
            return false;
        }
        call->server->replicas_least = number;
    } else if (lk_sr_is(call->argv[at], "replica-serve-stale-data")) {
        if (!lk_sr_is(call->argv[at + 1], "yes") && !lk_sr_is(call->argv[at + 1], "no")) {
            lk_sr_reply_error(
                call->out,
                "CONFIG SET failed (possibly related to argument 'replica-serve-stale-data') - argument "
                "must be 'yes' or 'no'");
            return false;
        }
        call->server->hides_stale = lk_sr_is(call->argv[at + 1], "no");
    } else if (lk_sr_is(call->argv[at], "requirepass")) {
        lk_sr_users_require(&call->server->users, call->argv[at + 1]);
    }
    return true;
}

/* Those of the last line change no answer here. */
static bool is_option(lk_sr_text name)
{
    static const char *const names[] = {"maxmemory",        "min-replicas-to-write",
                                        "requirepass",      "replica-serve-stale-data",
                                        "maxmemory-policy", "save",
                                        "appendonly",       "appendfsync",
                                        "lua-time-limit",   "masteruser",
                                        "masterauth"};
    for (size_t i = 0; i < sizeof names / sizeof names[0]; i++) {
        if (lk_sr_is(name, names[i]))
            return true;
    }
    return false;
}

void lk_sr_config_set(lk_sr_call *call)
{
    if (call->argc % 2 != 0) {
        lk_sr_reply_error(call->out, LK_SR_SYNTAX);
        return;
    }
    for (size_t i = 2; i < call->argc; i += 2) {
        if (is_option(call->argv[i]))
            continue;
        lk_sr_reply_error(call->out, "Unknown option or number of arguments for CONFIG SET - '%.*s'",
                          LK_SR_SHOWN(call->argv[i]));
        return;
    }
    for (size_t i = 2; i < call->argc; i += 2) {
        if (!set_one(call, i))
            return;
    }
    lk_sr_reply_status(call->out, "OK");
}
