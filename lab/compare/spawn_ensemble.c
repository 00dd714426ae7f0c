/* spawn_ensemble.c: three servers that agree, of a kind's sort; see spawn.h. */
#include <stdio.h>

#include "servers/ensemble.h"
#include "spawn.h"

static lk_server *start(const lk_kind *kind, const lk_server_setup *setup, const lk_place *places)
{
    lk_server *members = lk_spawn_room(LK_ENSEMBLE);
    if (!lk_ensemble_start(members, kind->server, setup, places))
        for (int i = 0; i < LK_ENSEMBLE; i++)
            lk_spawn_need(&members[i], members[i].error[0] == '\0');
    return members;
}

void lk_spawn_ensemble_start(lk_backend *backend)
{
    backend->servers = start(backend->kind, &backend->kind->setup, NULL);
}

bool lk_spawn_ensemble_fail_over(lk_backend *backend)
{
    lk_server *leader = lk_ensemble_find(backend->servers, "leader", 0);
    if (!leader)
        return false;
    lk_server_kill(leader);
    return lk_ensemble_find(backend->servers, "leader", 0) != NULL;
}

bool lk_spawn_ensemble_heal(lk_backend *backend)
{
    return lk_spawn_start_again(backend, true);
}

static void write_uri(const lk_kind *kind, const lk_server *member, char *uri, size_t size)
{
    snprintf(uri, size, "%s://%s:%d/%s", kind->scheme, member->place.address, member->port, kind->path);
}

bool lk_spawn_ensemble_open_cut(lk_compare_cut *cut, const lk_network *network)
{
    lk_server *members = cut->servers = start(cut->kind, &cut->kind->cut_setup, network->members);
    lk_server *leader = lk_ensemble_await(members) == NULL ? lk_ensemble_find(members, "leader", 0) : NULL;
    if (!leader)
        return false;
    lk_server *follower = leader == &members[0] ? &members[1] : &members[0];
    cut->holder = cut->rival = &network->hub;
    cut->near = &network->members[follower - members];
    cut->far = &network->members[leader - members];
    cut->what = "the holder's server and the leader";
    write_uri(cut->kind, follower, cut->holder_uri, sizeof cut->holder_uri);
    write_uri(cut->kind, leader, cut->rival_uri, sizeof cut->rival_uri);
    return true;
}
