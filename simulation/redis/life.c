/* life.c: see server.h: a server's life, its time and its connections. */
#include "server.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "call.h"
#include "stream.h"

static const int64_t sweep_ns = 100000000; /* Redis looks so often for keys that nobody asks for any more */
static const int64_t ms_ns = 1000000;

/* ------------------------------------------------------------------ life ---- */

lk_sr_server *lk_sr_new(const lk_sr_setup *setup)
{
    lk_sr_server *server = lk_sr_make(sizeof *server);
    server->setup = *setup;
    (void)snprintf(server->host, sizeof server->host, "%s", setup->host != NULL ? setup->host : "127.0.0.1");
    server->setup.host = server->host;
    server->random = setup->seed;
    server->clock_ns = setup->clock_ns;
    server->next_client = setup->first_client > 0 ? setup->first_client : 1;
    lk_list_init(&server->clients);
    lk_list_init(&server->waiting);
    lk_list_init(&server->paused);
    lk_list_init(&server->resumed);
    lk_list_init(&server->links);
    for (int i = 0; i < LK_SR_DATABASES; i++)
        lk_sr_keyspace_init(&server->spaces[i]);
    lk_sr_users_init(&server->users, lk_sr_commands, lk_sr_command_count);
    server->script_call = lk_sr_script_call;
    server->lua = lk_sr_lua_new(server);
    lk_sr_draw_id(server, server->run_id);
    lk_sr_draw_id(server, server->replication_id);
    return server;
}

static void forget_saved(lk_sr_server *server)
{
    for (int i = 0; server->saved != NULL && i < LK_SR_DATABASES; i++)
        lk_sr_keyspace_destroy(&server->saved[i]);
    free(server->saved);
    server->saved = NULL;
}

void lk_sr_free(lk_sr_server *server)
{
    if (server == NULL)
        return;
    LK_LIST_EACH_SAFE(link, &server->clients)
        lk_sr_disconnect(LK_CONTAINER(link, lk_sr_client, link));
    lk_sr_stream_detach_all(server);
    forget_saved(server);
    for (int i = 0; i < LK_SR_DATABASES; i++)
        lk_sr_keyspace_destroy(&server->spaces[i]);
    lk_sr_users_destroy(&server->users);
    lk_sr_lua_free(server->lua);
    lk_sr_bytes_free(&server->unit);
    free(server->view);
    free(server);
}

void lk_sr_save(lk_sr_server *server)
{
    forget_saved(server);
    server->saved = lk_sr_make(LK_SR_DATABASES * sizeof *server->saved);
    for (int i = 0; i < LK_SR_DATABASES; i++) {
        lk_sr_keyspace_init(&server->saved[i]);
        lk_sr_keyspace_copy(&server->saved[i], &server->spaces[i]);
    }
}

void lk_sr_restart(lk_sr_server *server, bool keep_data)
{
    LK_LIST_EACH(link, &server->clients)
        lk_sr_close(LK_CONTAINER(link, lk_sr_client, link));
    lk_sr_stream_detach_all(server);
    for (int i = 0; i < LK_SR_DATABASES; i++) {
        if (!keep_data)
            lk_sr_keyspace_clear(&server->spaces[i]);
        else if (server->saved != NULL)
            lk_sr_keyspace_copy(&server->spaces[i], &server->saved[i]);
    }
    lk_sr_lua_free(server->lua);
    server->lua = lk_sr_lua_new(server);
    server->master.linked = false;
    server->offset = server->paused_ms = 0;
    server->next_client = 1;
    lk_sr_draw_id(server, server->run_id);
    lk_sr_draw_id(server, server->replication_id);
}

/* ------------------------------------------------------------------ time ---- */

void lk_sr_advance(lk_sr_server *server, int64_t now_ns)
{
    server->now_ns = now_ns;
    lk_sr_clients_look(server);
    lk_sr_resume(server);
    if (now_ns - server->swept_ns < sweep_ns)
        return;
    server->swept_ns = now_ns;
    lk_sr_sweep(server);
}

void lk_sr_set_clock(lk_sr_server *server, int64_t unix_ns)
{
    server->clock_ns = unix_ns - server->now_ns;
    lk_sr_clients_look(server);
    lk_sr_resume(server);
}

int64_t lk_sr_due(const lk_sr_server *server)
{
    const int64_t due_ms = lk_sr_clients_due(server);
    return due_ms > INT64_MAX / ms_ns ? INT64_MAX : due_ms * ms_ns - server->clock_ns;
}

/* ------------------------------------------------------------------ connections ---- */

lk_sr_client *lk_sr_connect(lk_sr_server *server, const char *address, void *user)
{
    lk_sr_client *client = lk_sr_make(sizeof *client);
    const lk_sr_user *everybody = lk_sr_users_default(&server->users);
    client->server = server;
    client->user = user;
    client->id = server->next_client++;
    (void)snprintf(client->address, sizeof client->address, "%s", address);
    client->login = lk_sr_users_default(&server->users);
    client->authenticated = everybody->no_password && everybody->on;
    lk_list_append(&server->clients, &client->link);
    return client;
}

void lk_sr_disconnect(lk_sr_client *client)
{
    if (client == NULL)
        return;
    lk_sr_clients_release(client);
    lk_list_remove(&client->link);
    lk_sr_bytes_free(&client->in);
    lk_sr_bytes_free(&client->out);
    lk_sr_bytes_free(&client->name);
    lk_sr_items_free(&client->channels);
    lk_sr_items_free(&client->shard_channels);
    free(client);
}

void lk_sr_feed(lk_sr_client *client, lk_sr_text bytes)
{
    if (client->closing)
        return;
    lk_sr_put(&client->in, bytes);
    lk_sr_dispatch(client);
    lk_sr_resume(client->server);
}

lk_sr_text lk_sr_output(const lk_sr_client *client)
{
    return lk_sr_view(&client->out);
}

void lk_sr_sent(lk_sr_client *client, size_t count)
{
    lk_sr_drop(&client->out, count);
    client->gone -= count < client->gone ? count : client->gone;
}

bool lk_sr_is_closed(const lk_sr_client *client)
{
    return client->closing;
}

bool lk_sr_is_paused(const lk_sr_server *server)
{
    return server->paused_ms != 0;
}

void *lk_sr_client_user(const lk_sr_client *client)
{
    return client->user;
}

int64_t lk_sr_client_id(const lk_sr_client *client)
{
    return client->id;
}

/* ------------------------------------------------------------------ faults ---- */

void lk_sr_set_faults(lk_sr_server *server, unsigned faults)
{
    server->faults = faults;
}

void lk_sr_set_memory(lk_sr_server *server, uint64_t most)
{
    server->memory_most = most;
}
