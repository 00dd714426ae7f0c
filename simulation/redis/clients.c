/* clients.c: clients whose requests wait, for replicas (WAIT) or for the end of a pause; and the commands CLIENT ... and WAIT. */

#include <inttypes.h>
#include <stdio.h>

#include "call.h"
#include "commands.h"
#include "stream.h"

static lk_sr_client *client_of(const lk_list *link)
{
    return LK_CONTAINER(link, lk_sr_client, link);
}

/* ------------------------------------------------------------------ those that wait ---- */

static lk_sr_client *blocked_of(const lk_list *link)
{
    return LK_CONTAINER(link, lk_sr_client, block_link);
}

void lk_sr_clients_release(lk_sr_client *client)
{
    if (client->block != LK_SR_RUNS)
        lk_list_remove(&client->block_link);
    client->block = LK_SR_RUNS;
}

void lk_sr_close(lk_sr_client *client)
{
    client->closing = true;
    lk_sr_clients_release(client);
    lk_sr_tell(client);
}

void lk_sr_clients_block(lk_sr_client *client, lk_sr_block block)
{
    lk_sr_server *server = client->server;
    lk_sr_clients_release(client);
    client->block = block;
    if (block == LK_SR_WAITS)
        lk_list_prepend(&server->waiting, &client->block_link);
    else
        lk_list_append(block == LK_SR_PAUSED ? &server->paused : &server->resumed, &client->block_link);
}

static void answer_wait(lk_sr_client *client)
{
    lk_sr_reply_integer(&client->out, lk_sr_stream_confirmed(client->server, client->wait_offset));
    lk_sr_tell(client);
    lk_sr_clients_block(client, LK_SR_RESUMES);
}

void lk_sr_clients_confirmed(lk_sr_server *server)
{
    LK_LIST_EACH_SAFE(link, &server->waiting) {
        lk_sr_client *client = blocked_of(link);
        if (lk_sr_stream_confirmed(server, client->wait_offset) >= client->wait_replicas)
            answer_wait(client);
    }
}

void lk_sr_clients_unpause(lk_sr_server *server)
{
    server->paused_ms = 0;
    LK_LIST_EACH_SAFE(link, &server->paused)
        lk_sr_clients_block(blocked_of(link), LK_SR_RESUMES);
}

/* The one whose time ends first; NULL: none has an end. */
static lk_sr_client *first_to_end(const lk_sr_server *server)
{
    lk_sr_client *first = NULL;
    LK_LIST_EACH(link, &server->waiting) {
        lk_sr_client *client = blocked_of(link);
        if (client->wait_until_ms != 0 && (first == NULL || client->wait_until_ms < first->wait_until_ms))
            first = client;
    }
    return first;
}

void lk_sr_clients_look(lk_sr_server *server)
{
    const int64_t now_ms = lk_sr_clock_ms(server);
    lk_sr_client *first;
    if (server->paused_ms != 0 && server->paused_ms < now_ms)
        lk_sr_clients_unpause(server);
    while ((first = first_to_end(server)) != NULL && first->wait_until_ms < now_ms)
        answer_wait(first);
}

int64_t lk_sr_clients_due(const lk_sr_server *server)
{
    const lk_sr_client *first = first_to_end(server);
    int64_t last = server->paused_ms != 0 ? server->paused_ms : INT64_MAX - 1;
    if (first != NULL && first->wait_until_ms < last)
        last = first->wait_until_ms;
    return last + 1;
}

void lk_sr_clients_unblock(lk_sr_server *server)
{
    LK_LIST_EACH_SAFE(link, &server->waiting) {
        lk_sr_client *client = blocked_of(link);
        lk_sr_reply_error(&client->out, "-UNBLOCKED force unblock from blocking operation, "
                                        "instance state changed (master -> replica?)");
        lk_sr_close(client);
    }
}

/* A time-out in ms, as its end on the server's clock; 0 stays 0. */
static bool read_timeout(lk_sr_call *call, lk_sr_text text, int64_t *until_ms)
{
    int64_t ms;
    if (!lk_sr_integer(text, &ms)) {
        lk_sr_reply_error(call->out, "timeout is not an integer or out of range");
        return false;
    }
    if (ms < 0) {
        lk_sr_reply_error(call->out, "timeout is negative");
        return false;
    }
    *until_ms = ms > 0 ? (int64_t)((uint64_t)ms + (uint64_t)lk_sr_clock_ms(call->server)) : 0;
    return true;
}

void lk_sr_wait(lk_sr_call *call)
{
    lk_sr_client *client = call->client;
    int64_t replicas, until_ms;
    if (lk_sr_is_replica(call->server)) {
        lk_sr_reply_error(
            call->out,
            "WAIT cannot be used with replica instances. Please also note that since Redis 4.0 if a "
            "replica is configured to be writable (which is not the default) writes to replicas are "
            "just local and are not propagated.");
        return;
    }
    if (!lk_sr_call_integer(call, 1, &replicas) || !read_timeout(call, call->argv[2], &until_ms))
        return;
    const int64_t confirmed = lk_sr_stream_confirmed(call->server, client->written);
    if (confirmed >= replicas) {
        lk_sr_reply_integer(call->out, confirmed);
        return;
    }
    lk_sr_clients_block(client, LK_SR_WAITS);
    client->wait_until_ms = until_ms;
    client->wait_offset = client->written;
    client->wait_replicas = replicas;
}

/* ------------------------------------------------------------------ CLIENT ---- */

void lk_sr_client_id_command(lk_sr_call *call)
{
    lk_sr_reply_integer(call->out, call->client->id);
}

bool lk_sr_client_take_name(lk_sr_call *call, lk_sr_text name)
{
    for (size_t i = 0; i < name.len; i++) {
        if (name.data[i] < '!' || name.data[i] > '~') {
            lk_sr_reply_error(call->out,
                              "Client names cannot contain spaces, newlines or special characters.");
            return false;
        }
    }
    lk_sr_bytes_set(&call->client->name, name);
    return true;
}

void lk_sr_client_setname(lk_sr_call *call)
{
    if (lk_sr_client_take_name(call, call->argv[2]))
        lk_sr_reply_status(call->out, "OK");
}

void lk_sr_client_getname(lk_sr_call *call)
{
    if (call->client->name.len > 0)
        lk_sr_reply_bulk(call->out, lk_sr_view(&call->client->name));
    else
        lk_sr_reply_nil(call->out);
}

void lk_sr_client_pause(lk_sr_call *call)
{
    int64_t until_ms;
    const bool writes = call->argc == 4 && lk_sr_is(call->argv[3], "write");
    if (call->argc > 4) {
        lk_sr_reply_error(call->out,
                          "unknown subcommand or wrong number of arguments for '%.*s'. Try CLIENT HELP.",
                          LK_SR_SHOWN(call->argv[1]));
    } else if (call->argc == 4 && !writes && !lk_sr_is(call->argv[3], "all")) {
        lk_sr_reply_error(call->out, "CLIENT PAUSE mode must be WRITE or ALL");
    } else if (read_timeout(call, call->argv[2], &until_ms)) {
        call->server->paused_all = !writes || (call->server->paused_ms != 0 && call->server->paused_all);
        if (until_ms > call->server->paused_ms)
            call->server->paused_ms = until_ms;
        lk_sr_reply_status(call->out, "OK");
    }
}

void lk_sr_client_unpause(lk_sr_call *call)
{
    lk_sr_reply_status(call->out, "OK");
    lk_sr_clients_unpause(call->server);
}

/* Whom CLIENT KILL means. */
typedef struct {
    const lk_sr_text *address;
    const lk_sr_user *user;
    int64_t id; /* 0: any */
    int pubsub; /* 1: of those that have subscribed, 0: of the others, -1: any */
    bool none;  /* of a type that there is none of */
    bool skip_me;
} victims;

static bool read_type(lk_sr_call *call, lk_sr_text type, victims *v)
{
    if (lk_sr_is(type, "normal") || lk_sr_is(type, "pubsub")) {
        v->pubsub = lk_sr_is(type, "pubsub");
        return true;
    }
    v->none = true;
    if (lk_sr_is(type, "master") || lk_sr_is(type, "replica") || lk_sr_is(type, "slave"))
        return true;
    lk_sr_reply_error(call->out, "Unknown client type '%.*s'", LK_SR_SHOWN(type));
    return false;
}

static bool read_id(lk_sr_call *call, lk_sr_text text, victims *v)
{
    if (lk_sr_integer(text, &v->id) && v->id > 0)
        return true;
    lk_sr_reply_error(call->out, "client-id should be greater than 0");
    return false;
}

static bool read_user(lk_sr_call *call, lk_sr_text name, victims *v)
{
    v->user = lk_sr_users_find(&call->server->users, name);
    if (v->user != NULL)
        return true;
    lk_sr_reply_error(call->out, "No such user '%.*s'", LK_SR_SHOWN(name));
    return false;
}

/* One option; false: it was answered what is wrong. */
static bool read_option(lk_sr_call *call, size_t at, victims *v)
{
    const lk_sr_text option = call->argv[at];
    const bool more = at + 1 < call->argc;
    const lk_sr_text *value = &call->argv[more ? at + 1 : at];
    if (more && lk_sr_is(option, "id"))
        return read_id(call, *value, v);
    if (more && lk_sr_is(option, "type"))
        return read_type(call, *value, v);
    if (more && lk_sr_is(option, "user"))
        return read_user(call, *value, v);
    if (more && lk_sr_is(option, "addr")) {
        v->address = value;
        return true;
    }
    if (more && lk_sr_is(option, "skipme") && (lk_sr_is(*value, "yes") || lk_sr_is(*value, "no"))) {
        v->skip_me = lk_sr_is(*value, "yes");
        return true;
    }
    lk_sr_reply_error(call->out, LK_SR_SYNTAX);
    return false;
}

/* One that is to be closed when its answers have left is there until then. */
static bool is_victim(const lk_sr_client *client, const victims *v)
{
    return (!client->closing || client->out.len > client->gone) && !v->none &&
           (v->id == 0 || v->id == client->id) &&
           (v->address == NULL || lk_sr_same(*v->address, lk_sr_word(client->address))) &&
           (v->user == NULL || v->user == client->login) &&
           (v->pubsub < 0 || v->pubsub == lk_sr_has_subscribed(client));
}

void lk_sr_clients_kill(lk_sr_call *call, lk_sr_client *client)
{
    if (client != call->client)
        client->out.len = client->gone;
    lk_sr_close(client);
}

static int64_t kill_all(lk_sr_call *call, const victims *v)
{
    int64_t killed = 0;
    LK_LIST_EACH_SAFE(link, &call->server->clients) {
        lk_sr_client *client = client_of(link);
        if (!is_victim(client, v) || (client == call->client && v->skip_me))
            continue;
        killed++;
        lk_sr_clients_kill(call, client);
    }
    return killed;
}

void lk_sr_client_kill(lk_sr_call *call)
{
    victims v = {.pubsub = -1, .skip_me = true};
    if (call->argc == 3) {
        v.address = &call->argv[2];
        v.skip_me = false;
    }
    for (size_t i = 2; call->argc > 3 && i < call->argc; i += 2) {
        if (!read_option(call, i, &v))
            return;
    }
    const int64_t killed = kill_all(call, &v);
    if (call->argc > 3)
        lk_sr_reply_integer(call->out, killed);
    else if (killed > 0)
        lk_sr_reply_status(call->out, "OK");
    else
        lk_sr_reply_error(call->out, "No such client");
}
