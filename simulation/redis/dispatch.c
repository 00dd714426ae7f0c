/* dispatch.c: a request on its way to its command, and what may stop it. The order of the checks is Redis': it decides which of several errors is answered. */

#include <ctype.h>
#include <stdio.h>

#include "call.h"
#include "request.h"
#include "stream.h"

enum { SHOWN = 128, SERVER_BYTES = 900 * 1024 };

/* ------------------------------------------------------------------ is there such a command ---- */

static void answer_unknown(const lk_sr_call *call)
{
    const lk_sr_text name = call->argv[0];
    lk_sr_bytes text = {NULL, 0, 0};
    if (lk_sr_command_is_container(name)) {
        lk_sr_print(&text, "unknown subcommand '%.*s'. Try ",
                    call->argv[1].len < SHOWN ? (int)call->argv[1].len : SHOWN, call->argv[1].data);
        for (size_t i = 0; i < name.len; i++)
            lk_sr_print(&text, "%c", toupper((unsigned char)name.data[i]));
        lk_sr_print(&text, " HELP.");
    } else {
        lk_sr_print(&text, "unknown command '%.*s', with args beginning with: ",
                    name.len < SHOWN ? (int)name.len : SHOWN, name.data);
        const size_t from = text.len;
        for (size_t i = 1; i < call->argc && text.len - from < SHOWN; i++) {
            const size_t room = SHOWN - (text.len - from);
            lk_sr_print(&text, "'%.*s' ", call->argv[i].len < room ? (int)call->argv[i].len : (int)room,
                        call->argv[i].data);
        }
    }
    lk_sr_reply_error_text(call->out, lk_sr_view(&text));
    lk_sr_bytes_free(&text);
}

static void answer_no_right(const lk_sr_call *call, lk_sr_right right)
{
    if (right == LK_SR_NO_COMMAND)
        lk_sr_reply_error(call->out, "-NOPERM this user has no permissions to run the '%s' command",
                          call->command->name);
    else
        lk_sr_reply_error(call->out,
                          "-NOPERM this user has no permissions to access one of the %s used as arguments",
                          right == LK_SR_NO_KEY ? "keys" : "channels");
}

/* Whether the client asks for what there is, in the right form, and may. */
static bool is_allowed(lk_sr_call *call)
{
    call->command = lk_sr_command_find(call->argv, call->argc);
    const lk_sr_user *everybody = lk_sr_users_default(&call->server->users);
    if (call->command == NULL) {
        answer_unknown(call);
        return false;
    }
    if (!lk_sr_command_takes(call->command, call->argc)) {
        lk_sr_reply_error(call->out, "wrong number of arguments for '%s' command", call->command->name);
        return false;
    }
    if ((!everybody->no_password || !everybody->on) && !call->client->authenticated &&
        (call->command->flags & LK_SR_NO_AUTH) == 0) {
        lk_sr_reply_error(call->out, "-NOAUTH Authentication required.");
        return false;
    }
    const lk_sr_right right = lk_sr_user_may(call->client->login, call->command, call->argv, call->argc);
    if (right != LK_SR_ALLOWED)
        answer_no_right(call, right);
    return right == LK_SR_ALLOWED;
}

/* ------------------------------------------------------------------ can it be served ---- */

/* A replica leaves it to its master, and in a pause nobody looks. */
static void look_at_memory(lk_sr_server *server)
{
    size_t used = SERVER_BYTES;
    if (server->memory_most == 0)
        return;
    for (int i = 0; i < LK_SR_DATABASES; i++)
        used += lk_sr_keyspace_bytes(&server->spaces[i]);
    server->memory_over = used > server->memory_most && !lk_sr_is_replica(server) && server->paused_ms == 0;
}

static const char *refused_write(const lk_sr_call *call)
{
    const lk_sr_server *server = call->server;
    const unsigned flags = call->command->flags;
    const bool writes = (flags & LK_SR_WRITE) != 0;
    if (server->memory_most > 0 && server->memory_over && (flags & LK_SR_NEEDS_MEMORY) != 0)
        return LK_SR_OOM;
    if ((server->faults & LK_SR_NO_DISK) != 0 && (writes || lk_sr_is(call->argv[0], "ping")))
        return LK_SR_MISCONF;
    if (writes && lk_sr_stream_lacks_replicas(server))
        return LK_SR_FEW;
    return writes && lk_sr_is_replica(server) ? LK_SR_READONLY : NULL;
}

static const char *refused_state(const lk_sr_call *call)
{
    const unsigned faults = call->server->faults, flags = call->command->flags;
    if (lk_sr_is_stale(call->server) && (flags & LK_SR_WHILE_STALE) == 0)
        return LK_SR_STALE;
    if ((faults & LK_SR_LOADING) != 0 && (flags & LK_SR_WHILE_LOADING) == 0)
        return "-LOADING Redis is loading the dataset in memory";
    if ((faults & LK_SR_BUSY) != 0 && (flags & LK_SR_WHILE_BUSY) == 0)
        return "-BUSY Redis is busy running a script. You can only call SCRIPT KILL or SHUTDOWN NOSAVE.";
    return NULL;
}

static bool can_be_served(lk_sr_call *call)
{
    look_at_memory(call->server);
    const char *why = refused_write(call);
    if (why == NULL && lk_sr_has_subscribed(call->client) && (call->command->flags & LK_SR_IN_PUBSUB) == 0) {
        lk_sr_reply_error(
            call->out,
            "Can't execute '%s': only (P|S)SUBSCRIBE / (P|S)UNSUBSCRIBE / PING / QUIT / RESET are "
            "allowed in this context",
            call->command->name);
        return false;
    }
    if (why == NULL)
        why = refused_state(call);
    if (why != NULL)
        lk_sr_reply_error(call->out, "%s", why);
    return why == NULL;
}

static bool is_held_back(const lk_sr_call *call)
{
    return call->server->paused_ms != 0 &&
           (call->server->paused_all || (call->command->flags & LK_SR_REPLICATES) != 0);
}

/* ------------------------------------------------------------------ requests ---- */

/* False: it has to wait. */
static bool serve(lk_sr_client *client, const lk_sr_request *request)
{
    lk_sr_server *server = client->server;
    const size_t before = client->out.len;
    lk_sr_call call = {.server = server,
                       .client = client,
                       .argv = request->argv,
                       .argc = request->argc,
                       .out = &client->out,
                       .database = &client->database};
    if (is_allowed(&call) && lk_sr_is_served_here(&call) && can_be_served(&call)) {
        if (is_held_back(&call)) {
            lk_sr_clients_block(client, LK_SR_PAUSED);
            return false;
        }
        lk_sr_call_run(&call);
        if (server->setup.ran != NULL)
            server->setup.ran(server->setup.context, client, request->argv, request->argc,
                              (lk_sr_text){client->out.data + before, client->out.len - before});
        lk_sr_stream_flush(server);
        client->written = server->offset;
    }
    client->asking = client->asking && call.command != NULL && lk_sr_is(call.argv[0], "asking");
    if (client->out.len > before)
        lk_sr_tell(client);
    return true;
}

static bool is_strict(const lk_sr_client *client)
{
    const lk_sr_user *everybody = lk_sr_users_default(&client->server->users);
    return (!everybody->no_password || !everybody->on) && !client->authenticated;
}

void lk_sr_dispatch(lk_sr_client *client)
{
    lk_sr_request request = {.argv = NULL};
    char error[128];
    while (!client->closing && client->block == LK_SR_RUNS) {
        const lk_sr_request_state state =
            lk_sr_request_read(&request, lk_sr_view(&client->in), is_strict(client), error, sizeof error);
        if (state == LK_SR_REQUEST_WRONG) {
            lk_sr_reply_error(&client->out, "%s", error);
            lk_sr_close(client);
        }
        if (state != LK_SR_REQUEST_WHOLE || (request.argc > 0 && !serve(client, &request)))
            break;
        lk_sr_drop(&client->in, request.used);
    }
    lk_sr_request_free(&request);
}

/* As Redis writes answers when all that has come is done with: who is killed by then is not told. */
void lk_sr_resume(lk_sr_server *server)
{
    for (lk_list *link = lk_list_first(&server->resumed); link != NULL;
         link = lk_list_first(&server->resumed)) {
        lk_sr_clients_release(LK_CONTAINER(link, lk_sr_client, block_link));
        lk_sr_dispatch(LK_CONTAINER(link, lk_sr_client, block_link));
    }
    LK_LIST_EACH(link, &server->clients)
        LK_CONTAINER(link, lk_sr_client, link)->gone = LK_CONTAINER(link, lk_sr_client, link)->out.len;
}
