/* watch.c: watches for deletions of keys: one stream for all, opened at the first watch. Each watch gets
 * an id of ours once, so an event for an ended watch finds no watcher. The server counts watches too: in
 * each stream from 0 on, without those that it refuses. A client could send ids of its own, but etcd 3.3
 * and etcd's grpc-proxy ignore them. */
#include <string.h>

#include "state.h"

static lk_etcd_watcher *watcher_of(const lk_table_link *link)
{
    return LK_CONTAINER(link, lk_etcd_watcher, by_id);
}

static lk_etcd_watcher *find_locked(const lk_etcd_net *net, int64_t id) LK_REQUIRES(*net)
{
    LK_TABLE_EACH_OF(link, &net->watchers, (uint32_t)id)
        if (watcher_of(link)->id == id)
            return watcher_of(link);
    return NULL;
}

static void forget_locked(lk_etcd_net *net, lk_etcd_watcher *watcher) LK_REQUIRES(*net)
{
    lk_table_remove(&net->watchers, &watcher->by_id);
    watcher->id = 0;
}

static bool say_locked(lk_etcd_net *net, const LkEtcdPb__Watch *what) LK_REQUIRES(*net)
{
    if (!lk_etcd_stream_add(&net->watch, &what->base))
        return false;
    lk_etcd_stream_go_on_locked(net, &net->watch);
    return true;
}

static void cancel_locked(lk_etcd_net *net, int64_t id) LK_REQUIRES(*net)
{
    LkEtcdPb__WatchCancel cancel = LK_ETCD_PB__WATCH_CANCEL__INIT;
    LkEtcdPb__Watch what = LK_ETCD_PB__WATCH__INIT;
    cancel.watch_id = id - net->watch_base;
    what.what_case = LK_ETCD_PB__WATCH__WHAT_CANCEL;
    what.cancel = &cancel;
    if (lk_etcd_serves_locked(net) && net->watch.id != 0)
        (void)say_locked(net, &what); /* else the watch reports a deletion in vain */
}

static void gone_locked(lk_etcd_net *net, lk_etcd_watcher *watcher, int64_t revision) LK_REQUIRES(*net)
{
    forget_locked(net, watcher);
    net->owner->on_gone(net->e, watcher, revision);
}

/* Report all watchers as gone. The owner may watch again meanwhile; later watches have later ids. */
static void all_gone_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    const int64_t last = net->watch_id;
    const lk_table_link *link = NULL;
    while ((link = lk_table_after(&net->watchers, link)) != NULL) {
        if (watcher_of(link)->id > last)
            continue;
        gone_locked(net, watcher_of(link), 0);
        link = NULL;
    }
}

/* Return the revision of the deletion among these events. 0: there is none. */
static int64_t deleted_at(const LkEtcdPb__Watched *told)
{
    for (size_t i = 0; i < told->n_events; i++)
        if (told->events[i]->type == LK_ETCD_PB__EVENT__TYPE__DELETE && told->events[i]->kv != NULL)
            return told->events[i]->kv->mod_revision;
    return 0;
}

static void take_locked(lk_etcd_net *net, int64_t id, bool canceled, int64_t revision) LK_REQUIRES(*net)
{
    lk_etcd_watcher *const watcher = find_locked(net, id);
    if (watcher == NULL || (!canceled && revision == 0))
        return;
    if (!canceled)
        cancel_locked(net, id);
    gone_locked(net, watcher, revision);
}

LK_UNCHECKED static void on_message(lk_etcd_net *net, const uint8_t *bytes, size_t len)
{
    ProtobufCMessage *const message =
        lk_etcd_unpack_locked(net, &lk_etcd_pb__watched__descriptor, bytes, len);
    if (message == NULL) {
        lk_etcd_break_locked(net, LOCKER_PROTOCOL, 0, "etcd at %s sent an invalid watch event",
                             lk_etcd_here_locked(net));
        return;
    }
    const LkEtcdPb__Watched *const told = (const LkEtcdPb__Watched *)message;
    const bool is_number = told->watch_id >= 0 && told->watch_id <= net->watch_id;
    const int64_t id = is_number ? told->watch_id + net->watch_base : 0, revision = deleted_at(told);
    const bool canceled = told->canceled, created = told->created && told->header != NULL,
               refused = canceled && told->created, of_all = canceled && told->watch_id < 0;
    const int64_t now = told->header != NULL ? told->header->revision : 0;
    if (canceled)
        (void)lk_etcd_login_expired_locked(net, LK_ETCD_OK, told->cancel_reason);
    lk_etcd_unpacked_locked(net, message);
    if (refused || of_all) { /* the server does not say which watch it refuses */
        net->watch_base += refused;
        all_gone_locked(net);
        return;
    }
    if (created && !canceled && find_locked(net, id) != NULL)
        net->owner->on_watched(net->e, find_locked(net, id), now);
    take_locked(net, id, canceled, revision);
}

LK_UNCHECKED static void on_end(lk_etcd_net *net, lk_etcd_stream *stream)
{
    (void)lk_etcd_login_expired_locked(net, stream->status, stream->text);
    lk_etcd_stream_clear(stream);
    all_gone_locked(net);
}

static const lk_etcd_stream_kind watch_kind = {.on_message = on_message, .on_end = on_end};

static bool is_open_locked(lk_etcd_net *net) LK_REQUIRES(*net)
{
    if (net->watch.id != 0)
        return true;
    net->watch.kind = &watch_kind;
    net->watch.goes_on = true;
    net->watch_base = net->watch_id + 1;
    return lk_etcd_stream_open_locked(net, &net->watch, "/etcdserverpb.Watch/Watch");
}

bool lk_etcd_watch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher, ProtobufCBinaryData key,
                          ProtobufCBinaryData end, int64_t revision)
{
    LkEtcdPb__WatchCreate__Filter only_deletion[] = {LK_ETCD_PB__WATCH_CREATE__FILTER__NOPUT};
    LkEtcdPb__WatchCreate create = LK_ETCD_PB__WATCH_CREATE__INIT;
    LkEtcdPb__Watch what = LK_ETCD_PB__WATCH__INIT;
    lk_etcd_unwatch_locked(net, watcher);
    if (!lk_etcd_serves_locked(net) || !lk_table_reserve(&net->watchers) || !is_open_locked(net))
        return false;
    create.key = key;
    create.range_end = end;
    create.start_revision = revision;
    create.filters = only_deletion;
    create.n_filters = 1;
    what.what_case = LK_ETCD_PB__WATCH__WHAT_CREATE;
    what.create = &create;
    if (!say_locked(net, &what))
        return false;
    watcher->id = ++net->watch_id;
    lk_table_add(&net->watchers, &watcher->by_id, (uint32_t)watcher->id);
    return true;
}

void lk_etcd_unwatch_locked(lk_etcd_net *net, lk_etcd_watcher *watcher)
{
    const int64_t id = watcher->id;
    if (id == 0)
        return;
    forget_locked(net, watcher);
    cancel_locked(net, id);
}

/* The stream's buffers belong to the connection that has ended. */
void lk_etcd_watchers_lost_locked(lk_etcd_net *net)
{
    lk_etcd_stream_clear(&net->watch);
    all_gone_locked(net);
}
