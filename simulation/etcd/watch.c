/* watch.c: see watch.h. */
#include "watch.h"

#include <stdlib.h>
#include <string.h>

#include "serve.h"

/* ------------------------------------------------------------------ telling ---- */

static LkEtcdPb__Header header(const lk_simetcd_member *m, int64_t revision)
{
    LkEtcdPb__Header made = LK_ETCD_PB__HEADER__INIT;
    made.revision = revision;
    lk_simetcd_sign(m, &made);
    return made;
}

static void tell(const lk_simetcd_stream *stream, int64_t revision, LkEtcdPb__Watched *told)
{
    LkEtcdPb__Header made = header(stream->m, revision);
    told->header = &made;
    stream->tell(stream->context, told);
}

static bool wants(const lk_simetcd_watcher *w, const lk_simetcd_kv *event)
{
    return event->mod >= w->from && !(event->version > 0 ? w->no_put : w->no_delete) &&
           lk_simetcd_in_span(&w->span, event->key);
}

static LkEtcdPb__Event *event_of(const lk_simetcd_kv *kv, lk_simetcd_arena *arena)
{
    LkEtcdPb__Event *const event = lk_simetcd_arena_alloc(arena, sizeof *event);
    lk_etcd_pb__event__init(event);
    event->type = kv->version > 0 ? LK_ETCD_PB__EVENT__TYPE__PUT : LK_ETCD_PB__EVENT__TYPE__DELETE;
    event->kv = lk_simetcd_told(kv, arena);
    return event;
}

/* All from that place on that it wants, in one answer. */
static void tell_events(const lk_simetcd_stream *stream, const lk_simetcd_watcher *w, size_t from)
{
    const lk_simetcd_store *const store = &stream->m->store;
    LkEtcdPb__Watched told = LK_ETCD_PB__WATCHED__INIT;
    lk_simetcd_arena arena = {0};
    LkEtcdPb__Event **const events =
        lk_simetcd_arena_alloc(&arena, (store->event_count - from + 1) * sizeof *events);
    for (size_t i = from; i < store->event_count; i++)
        if (wants(w, store->events[i]))
            events[told.n_events++] = event_of(store->events[i], &arena);
    told.watch_id = w->id;
    told.events = events;
    if (told.n_events > 0)
        tell(stream, store->revision, &told);
    lk_simetcd_arena_free(&arena);
}

void lk_simetcd_notify(lk_simetcd_member *m, size_t from_event)
{
    if (from_event >= m->store.event_count)
        return;
    LK_EACH(lk_simetcd_stream, stream, link, &m->streams)
        LK_EACH(lk_simetcd_watcher, w, link, &stream->watchers)
            if (w->synced)
                tell_events(stream, w, from_event);
}

static void sync(const lk_simetcd_stream *stream, lk_simetcd_watcher *w)
{
    const lk_simetcd_store *const store = &stream->m->store;
    size_t from = store->event_count;
    if (w->from < store->compacted) {
        LkEtcdPb__Watched told = LK_ETCD_PB__WATCHED__INIT;
        told.watch_id = w->id;
        told.canceled = true;
        told.compact_revision = store->compacted;
        w->compacted = true;
        tell(stream, 0, &told);
        return;
    }
    while (from > 0 && store->events[from - 1]->mod >= w->from)
        from--;
    w->synced = true;
    tell_events(stream, w, from);
}

void lk_simetcd_sync(lk_simetcd_member *m)
{
    LK_EACH(lk_simetcd_stream, stream, link, &m->streams)
        LK_EACH(lk_simetcd_watcher, w, link, &stream->watchers)
            if (!w->synced && !w->compacted)
                sync(stream, w);
}

/* ------------------------------------------------------------------ creating and cancelling ---- */

static lk_simetcd_watcher *find(const lk_simetcd_stream *stream, int64_t id)
{
    LK_EACH(lk_simetcd_watcher, w, link, &stream->watchers)
        if (w->id == id)
            return w;
    return NULL;
}

/* An id of 0 is one that the server chooses, from 0 on. */
static const char *choose_id(lk_simetcd_stream *stream, int64_t *id)
{
    if (*id != 0)
        return find(stream, *id) != NULL ? "mvcc: duplicate watch ID provided on the WatchStream" : NULL;
    while (find(stream, stream->next_id) != NULL)
        stream->next_id++;
    *id = stream->next_id++;
    return NULL;
}

static lk_simetcd_watcher *watcher_new(const LkEtcdPb__WatchCreate *asked)
{
    static const char zero[] = "";
    lk_simetcd_watcher *const w = lk_simetcd_alloc(sizeof *w);
    char *const text = lk_simetcd_alloc(asked->key.len + asked->range_end.len + 1);
    lk_simetcd_data key = {text, asked->key.len}, end = {text + asked->key.len, asked->range_end.len};
    if (key.len > 0)
        memcpy(text, asked->key.data, key.len);
    else
        key = (lk_simetcd_data){zero, 1};
    if (end.len > 0)
        memcpy(text + asked->key.len, asked->range_end.data, end.len);
    w->text = text;
    w->span = lk_simetcd_span_of(key, end);
    for (size_t i = 0; i < asked->n_filters; i++) {
        w->no_put |= asked->filters[i] == LK_ETCD_PB__WATCH_CREATE__FILTER__NOPUT;
        w->no_delete |= asked->filters[i] == LK_ETCD_PB__WATCH_CREATE__FILTER__NODELETE;
    }
    return w;
}

static void watcher_free(lk_simetcd_watcher *w)
{
    free(w->text);
    free(w);
}

static void create(lk_simetcd_stream *stream, const LkEtcdPb__WatchCreate *asked)
{
    const int64_t revision = stream->m->store.revision;
    LkEtcdPb__Watched told = LK_ETCD_PB__WATCHED__INIT;
    lk_simetcd_watcher *const w = watcher_new(asked);
    const char *why = w->span.end.len > 0 && lk_simetcd_compare(w->span.from, w->span.end) >= 0
                          ? "mvcc: watcher range is empty"
                          : NULL;
    w->id = asked->watch_id;
    if (why == NULL)
        why = choose_id(stream, &w->id);
    told.created = true;
    told.canceled = why != NULL;
    told.watch_id = why != NULL ? -1 : w->id;
    if (why != NULL)
        told.cancel_reason = (char *)(uintptr_t)why;
    w->synced = asked->start_revision > revision || asked->start_revision == 0;
    w->from = asked->start_revision > 0 ? asked->start_revision : w->synced ? revision + 1 : 0;
    if (why == NULL)
        lk_list_append(&stream->watchers, &w->link);
    else
        watcher_free(w);
    tell(stream, revision, &told);
}

static void cancel(const lk_simetcd_stream *stream, const LkEtcdPb__WatchCancel *asked)
{
    lk_simetcd_watcher *const w = find(stream, asked->watch_id);
    LkEtcdPb__Watched told = LK_ETCD_PB__WATCHED__INIT;
    if (w == NULL)
        return;
    lk_list_remove(&w->link);
    watcher_free(w);
    told.watch_id = asked->watch_id;
    told.canceled = true;
    tell(stream, stream->m->store.revision, &told);
}

void lk_simetcd_watch(lk_simetcd_stream *stream, const LkEtcdPb__Watch *asked)
{
    if (asked->what_case == LK_ETCD_PB__WATCH__WHAT_CREATE)
        create(stream, asked->create);
    else if (asked->what_case == LK_ETCD_PB__WATCH__WHAT_CANCEL)
        cancel(stream, asked->cancel);
}

/* ------------------------------------------------------------------ life ---- */

void lk_simetcd_watch_leader(lk_simetcd_member *m)
{
    const int64_t patience = 3 * m->e->setup.election_ticks * m->e->setup.tick_ms * LK_SIMETCD_MS;
    LK_EACH_SAFE(lk_simetcd_stream, stream, link, &m->streams) {
        if (m->lead != -1)
            stream->leaderless_since = INT64_MAX;
        else if (stream->leaderless_since == INT64_MAX)
            stream->leaderless_since = m->e->now;
        else if (stream->wants_leader && m->e->now - stream->leaderless_since >= patience)
            stream->end(stream->context, &lk_simetcd_no_leader);
    }
}

void lk_simetcd_stream_init(lk_simetcd_stream *stream, lk_simetcd_member *m)
{
    stream->m = m;
    stream->leaderless_since = INT64_MAX;
    lk_list_init(&stream->watchers);
    lk_list_append(&m->streams, &stream->link);
}

void lk_simetcd_stream_free(lk_simetcd_stream *stream)
{
    if (lk_list_linked(&stream->link))
        lk_list_remove(&stream->link);
    for (lk_list *link; (link = lk_list_take(&stream->watchers)) != NULL;)
        watcher_free(LK_CONTAINER(link, lk_simetcd_watcher, link));
}
