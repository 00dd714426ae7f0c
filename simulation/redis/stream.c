/* stream.c: see stream.h and replication.h. */
#include "stream.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#include "replication.h"

struct lk_sr_link {
    lk_list link;
    lk_sr_server *master; /* NULL: it is cut */
    lk_sr_items units;    /* that have not been taken; the first ones have */
    size_t taken;
    int64_t confirmed;
    char host[LK_SR_HOST_MAX]; /* the replica's */
    int port;
};

static lk_sr_link *link_of(const lk_list *link)
{
    return LK_CONTAINER(link, lk_sr_link, link);
}

size_t lk_sr_link_count(const lk_sr_server *server)
{
    size_t count = 0;
    LK_LIST_EACH(link, &server->links)
        count++;
    return count;
}

/* ------------------------------------------------------------------ the master ---- */

void lk_sr_stream_bytes(lk_sr_server *server, unsigned database, lk_sr_text commands)
{
    if (lk_list_empty(&server->links) || server->applying)
        return;
    if (server->unit.len == 0 || server->unit_db != database) {
        char number[16];
        const int len = snprintf(number, sizeof number, "%u", database);
        lk_sr_reply_array(&server->unit, 2);
        lk_sr_reply_bulk(&server->unit, lk_sr_word("SELECT"));
        lk_sr_reply_bulk(&server->unit, (lk_sr_text){number, (size_t)len});
    }
    server->unit_db = database;
    lk_sr_put(&server->unit, commands);
}

void lk_sr_stream_put(lk_sr_bytes *out, size_t argc, const lk_sr_text *argv)
{
    lk_sr_reply_array(out, argc);
    for (size_t i = 0; i < argc; i++)
        lk_sr_reply_bulk(out, argv[i]);
}

void lk_sr_stream_command(lk_sr_server *server, unsigned database, size_t argc, const lk_sr_text *argv)
{
    if (lk_list_empty(&server->links) || server->applying)
        return;
    lk_sr_bytes bytes = {NULL, 0, 0};
    lk_sr_stream_put(&bytes, argc, argv);
    lk_sr_stream_bytes(server, database, lk_sr_view(&bytes));
    lk_sr_bytes_free(&bytes);
}

void lk_sr_stream_flush(lk_sr_server *server)
{
    if (server->unit.len == 0)
        return;
    LK_LIST_EACH(link, &server->links) {
        lk_sr_items *units = &link_of(link)->units;
        (void)lk_sr_items_insert(units, units->count, lk_sr_view(&server->unit));
    }
    server->offset += (int64_t)server->unit.len;
    server->unit.len = 0;
}

bool lk_sr_stream_lacks_replicas(const lk_sr_server *server)
{
    return !lk_sr_is_replica(server) && server->replicas_least > (int64_t)lk_sr_link_count(server);
}

int64_t lk_sr_stream_confirmed(const lk_sr_server *server, int64_t offset)
{
    int64_t count = 0;
    LK_LIST_EACH(link, &server->links)
        count += link_of(link)->confirmed >= offset;
    return count;
}

void lk_sr_stream_put_replicas(const lk_sr_server *server, lk_sr_bytes *out)
{
    lk_sr_reply_array(out, lk_sr_link_count(server));
    LK_LIST_EACH(link, &server->links) {
        lk_sr_reply_array(out, 3);
        lk_sr_reply_bulk(out, lk_sr_word(link_of(link)->host));
        lk_sr_reply_number(out, link_of(link)->port);
        lk_sr_reply_number(out, link_of(link)->confirmed);
    }
}

/* ------------------------------------------------------------------ links ---- */

lk_sr_link *lk_sr_attach(lk_sr_server *master, lk_sr_server *replica)
{
    lk_sr_link *link = lk_sr_make(sizeof *link);
    link->master = master;
    link->confirmed = replica->offset = master->offset;
    memcpy(link->host, replica->host, sizeof link->host);
    link->port = replica->setup.port;
    lk_list_append(&master->links, &link->link);
    for (int i = 0; i < LK_SR_DATABASES; i++)
        lk_sr_keyspace_copy(&replica->spaces[i], &master->spaces[i]);
    memcpy(replica->replication_id, master->replication_id, sizeof replica->replication_id);
    replica->master.linked = true;
    return link;
}

/* Those that were taken are thrown away in many at once. */
static void forget_taken(lk_sr_link *link)
{
    enum { AT_ONCE = 64 };
    if (link->taken < AT_ONCE && link->taken < link->units.count)
        return;
    for (size_t i = 0; i < link->taken; i++) {
        lk_sr_bytes_free(&link->units.at[i].name);
        lk_sr_bytes_free(&link->units.at[i].value);
    }
    link->units.count -= link->taken;
    memmove(link->units.at, link->units.at + link->taken, link->units.count * sizeof *link->units.at);
    link->taken = 0;
}

lk_sr_text lk_sr_link_unit(const lk_sr_link *link)
{
    return link->taken < link->units.count ? lk_sr_view(&link->units.at[link->taken].name)
                                           : (lk_sr_text){NULL, 0};
}

void lk_sr_link_taken(lk_sr_link *link)
{
    link->taken++;
    forget_taken(link);
}

lk_sr_server *lk_sr_stream_confirm(lk_sr_link *link, int64_t offset)
{
    if (link->master != NULL && offset > link->confirmed)
        link->confirmed = offset;
    return link->master;
}

void lk_sr_detach(lk_sr_link *link)
{
    if (link == NULL)
        return;
    if (link->master != NULL)
        lk_list_remove(&link->link);
    lk_sr_items_free(&link->units);
    free(link);
}

void lk_sr_stream_detach_all(lk_sr_server *server)
{
    LK_LIST_EACH_SAFE(link, &server->links) {
        link_of(link)->master = NULL;
        lk_list_remove(link);
    }
}

int64_t lk_sr_offset(const lk_sr_server *server)
{
    return server->offset;
}
