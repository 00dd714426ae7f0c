/* spawn.c: what the kinds of backends that --spawn starts have in common; see spawn.h. */
#include "spawn.h"

#include <stdio.h>
#include <stdlib.h>

#include "cli.h"
#include "die.h"
#include "servers/zookeeper.h"

lk_server *lk_spawn_room(size_t count)
{
    lk_server *servers = calloc(count, sizeof *servers);
    if (!servers)
        lk_die(LK_EXIT_SYSTEM, "out of memory");
    return servers;
}

void lk_spawn_need(const lk_server *server, bool good)
{
    if (!good && server->missing)
        lk_die(LK_EXIT_UNAVAILABLE, "%s, or leave %s out of --spawn", server->error, server->kind->word);
    if (!good)
        lk_die(LK_EXIT_SYSTEM, "%s", server->error);
}

void lk_spawn_uri(const lk_kind *kind, const lk_server *server, char *uri, size_t size)
{
    char hosts[96];
    if (server->id > 0)
        lk_ensemble_hosts(server->members, hosts, sizeof hosts);
    else
        snprintf(hosts, sizeof hosts, "%s:%d", server->place.address, server->port);
    snprintf(uri, size, "%s://%s/%s", kind->scheme, hosts, kind->path);
}

/* ------------------------------------------------------------------ the backend's servers ---- */

void lk_spawn_start(lk_backend *backend)
{
    const lk_kind *kind = backend->kind;
    backend->servers = lk_spawn_room(kind->count);
    for (size_t i = 0; i < kind->count; i++)
        lk_spawn_need(&backend->servers[i],
                      lk_server_start(&backend->servers[i], kind->server, &kind->setup));
}

static bool all_serve(lk_server *servers, size_t count)
{
    bool good = true;
    for (size_t i = 0; i < count; i++)
        good = lk_server_await(&servers[i]) && good;
    return good;
}

bool lk_spawn_await(lk_backend *backend)
{
    const bool good = all_serve(backend->servers, backend->kind->count);
    lk_spawn_uri(backend->kind, backend->servers, backend->uri, sizeof backend->uri);
    lk_server_version(backend->servers, backend->column->version, sizeof backend->column->version);
    return good;
}

void lk_spawn_kill(lk_backend *backend)
{
    for (size_t i = 0; i < backend->kind->count; i++)
        lk_server_kill(&backend->servers[i]);
}

bool lk_spawn_start_again(lk_backend *backend, bool keep_data)
{
    for (size_t i = 0; i < backend->kind->count; i++) {
        lk_server *server = &backend->servers[i];

        if (server->pid == 0)
            lk_spawn_need(server, lk_server_launch(server, keep_data));
    }
    return all_serve(backend->servers, backend->kind->count);
}

bool lk_spawn_heal(lk_backend *backend)
{
    return lk_spawn_start_again(backend, false);
}

void lk_spawn_stop(lk_backend *backend)
{
    for (size_t i = 0; i < backend->kind->count; i++)
        lk_server_remove(&backend->servers[i]);
    free(backend->servers);
}

/* ------------------------------------------------------------------ copies whose networks are cut ---- */

bool lk_spawn_open_cut(lk_compare_cut *cut, const lk_network *network)
{
    lk_server_setup setup = cut->kind->cut_setup;
    setup.place = cut->far = &network->members[0];
    cut->near = cut->holder = &network->members[1];
    cut->rival = &network->hub;
    cut->what = "the holder and the server";
    cut->servers = lk_spawn_room(1);
    lk_spawn_need(cut->servers, lk_server_start(cut->servers, cut->kind->server, &setup));
    lk_spawn_uri(cut->kind, cut->servers, cut->holder_uri, sizeof cut->holder_uri);
    snprintf(cut->rival_uri, sizeof cut->rival_uri, "%s", cut->holder_uri);
    return lk_server_await(cut->servers);
}

void lk_spawn_close_cut(lk_compare_cut *cut)
{
    for (size_t i = 0; i < cut->kind->count; i++)
        lk_server_remove(&cut->servers[i]);
    free(cut->servers);
}
