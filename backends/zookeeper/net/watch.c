/* watch.c: being told that nodes were deleted. Watches are set by get, because exists on a node that has gone would
 * leave a watch for ever. The client library sets them anew after a reconnection; it keeps a pointer to each while it is
 * armed, so one stays until it has fired or the handle is closed, even if it tells nobody any more. */
#include <string.h>

#include "state.h"

struct lk_zk_watch {
    lk_table_link link; /* in lk_zk_net.watches, by its path */
    lk_zk_net *net;
    lk_zk_request *get; /* under way; NULL: none */
    lk_list unasked;    /* in lk_zk_net.unasked, while it waits for another request */
    lk_list watchers;   /* whom it tells */
    bool armed;         /* the server will tell */
    char path[];
};

static lk_zk_watch *watch_of(const lk_table_link *link)
{
    return LK_CONTAINER(link, lk_zk_watch, link);
}

static lk_zk_watch *find_locked(const lk_zk_net *net, const char *path, uint32_t hash) LK_REQUIRES(*net)
{
    LK_TABLE_EACH_OF(link, &net->watches, hash)
        if (link->hash == hash && strcmp(watch_of(link)->path, path) == 0)
            return watch_of(link);
    return NULL;
}

static lk_zk_watch *use_locked(lk_zk_net *net, const char *path) LK_REQUIRES(*net)
{
    const uint32_t hash = lk_hash_text(path);
    lk_zk_watch *w = find_locked(net, path, hash);
    if (w != NULL)
        return w;
    w = lk_table_reserve(&net->watches) ? calloc(1, sizeof *w + strlen(path) + 1) : NULL;
    if (w == NULL)
        return NULL;
    w->net = net;
    lk_list_init(&w->watchers);
    (void)strcpy(w->path, path);
    lk_table_add(&net->watches, &w->link, hash);
    return w;
}

/* One of those that it tells, which are fewer then; NULL: there is none. */
static lk_zk_watcher *take_locked(lk_zk_watch *w)
{
    lk_list *const link = lk_list_take(&w->watchers);
    if (link == NULL)
        return NULL;
    lk_zk_watcher *const watcher = LK_CONTAINER(link, lk_zk_watcher, link);
    watcher->watch = NULL;
    return watcher;
}

static bool tells_somebody(const lk_zk_watch *w)
{
    return !lk_list_empty(&w->watchers);
}

/* Whether the server was asked, so that the client library may know of it. */
static bool is_asked(const lk_zk_watch *w)
{
    return w->armed || w->get != NULL;
}

static void tell_locked(lk_zk_watch *w, int rc)
{
    lk_zk_net *const net = w->net;
    lk_zk_watcher *watcher;
    while ((watcher = take_locked(w)) != NULL)
        net->owner->on_gone(net->z, watcher, rc);
}

/* Nothing more comes of it: its node is gone, or can't be watched. */
static void end_locked(lk_zk_watch *w, int rc)
{
    lk_table_remove(&w->net->watches, &w->link);
    if (lk_list_linked(&w->unasked))
        lk_list_remove(&w->unasked);
    if (w->get != NULL)
        lk_zk_request_forget_locked(w->get);
    tell_locked(w, rc);
    free(w);
}

bool lk_zk_watches_any_locked(const lk_zk_net *net)
{
    return net->watches.count > 0;
}

void lk_zk_watches_free_locked(lk_zk_net *net)
{
    for (lk_table_link *link = lk_table_after(&net->watches, NULL), *next; link != NULL; link = next) {
        next = lk_table_after(&net->watches, link);
        while (take_locked(watch_of(link)) != NULL) {
        }
        end_locked(watch_of(link), ZCLOSING);
    }
}

static void get_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    lk_zk_watch *w = context;
    w->get = NULL;
    if (reply->rc == ZOK)
        w->armed = true;
    else if (lk_zk_unknown(reply->rc) && tells_somebody(w))
        w->net->owner->on_stalled(z);
    else
        end_locked(w, reply->rc);
}

static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context) LK_UNCHECKED;

static void ask_locked(lk_zk_net *net, lk_zk_watch *w) LK_REQUIRES(*net)
{
    if (!is_asked(w))
        w->get = lk_zk_get_watched_locked(net, w->path, on_watch, w, get_done_locked, w);
}

/* Called by the library with the mutex held, by the thread that drives. */
static void on_watch(zhandle_t *zh, int type, int state, const char *path, void *context)
{
    lk_zk_watch *w = context;
    (void)zh;
    (void)state;
    (void)path;
    if (type == ZOO_SESSION_EVENT)
        return; /* every watch gets these, and stays */
    w->armed = false;
    if (type == ZOO_DELETED_EVENT)
        end_locked(w, ZNONODE);
    else if (tells_somebody(w))
        ask_locked(w->net, w);
    else if (w->get == NULL)
        end_locked(w, ZNONODE);
}

void lk_zk_watches_resume_locked(lk_zk_net *net)
{
    const lk_table_link *link = NULL;
    while ((link = lk_table_after(&net->watches, link)) != NULL)
        if (tells_somebody(watch_of(link)))
            ask_locked(net, watch_of(link));
}

/* By the majority the node is gone: who has not told never will. The watch stays: another may tell yet. */
static void missed_locked(lk_zk_net *net, const char *path) LK_REQUIRES(*net)
{
    lk_zk_watch *w = find_locked(net, path, lk_hash_text(path));
    if (w == NULL || !w->armed || !tells_somebody(w))
        return;
    if (!lk_zk_has_one_server_locked(net))
        lk_zk_reconnect_locked(net, "a server did not report a deletion"); /* to another one */
    net->heard = 0;          /* a server that misses one may have missed others */
    tell_locked(w, ZNONODE); /* they list at the next one */
    net->svc->log(net->svc, LOCKER_LOG_WARN,
                  "zookeeper: a server of %.100s did not report that %.200s was deleted; "
                  "compare the servers' lists of nodes there, and restore a server that differs",
                  net->set.names, path);
}

/* Called as any answer is, with the mutex held. */
LK_UNCHECKED static void checked_locked(lk_zk *z, void *context, const lk_zk_reply *reply)
{
    lk_zk_checks *c = context;
    (void)z;
    c->net->asked_in_vain |=
        reply->rc == ZNONODE || lk_zk_unknown(reply->rc); /* the rest was not looked at */
    for (size_t i = 0; reply->rc == ZNONODE && i < c->count; i++)
        if (c->results[i].err == ZNONODE)
            missed_locked(c->net, c->items[i]);
    free(c);
}

/* The next one behind `w` (NULL: the first) that is armed and that tells somebody; NULL: none. */
static const lk_zk_watch *next_locked(const lk_zk_net *net, const lk_zk_watch *w) LK_REQUIRES(*net)
{
    const lk_table_link *link = w != NULL ? &w->link : NULL;
    while ((link = lk_table_after(&net->watches, link)) != NULL)
        if (watch_of(link)->armed && tells_somebody(watch_of(link)))
            return watch_of(link);
    return NULL;
}

bool lk_zk_watches_check_locked(lk_zk_net *net, bool ask)
{
    const lk_zk_watch *w = next_locked(net, NULL);
    const bool any = w != NULL;
    const bool asks = ask || net->asked_in_vain;
    lk_zk_checks *c;
    net->asked_in_vain = false;
    while (asks && w != NULL && (c = lk_zk_checks_new()) != NULL) {
        for (char *path; w != NULL && (path = lk_zk_checks_path(c)) != NULL; w = next_locked(net, w)) {
            (void)strcpy(path, w->path);
            lk_zk_checks_add(c, path);
        }
        if (!lk_zk_checks_send_locked(net, c, checked_locked))
            free(c);
    }
    return any;
}

bool lk_zk_watch_locked(lk_zk_net *net, lk_zk_watcher *watcher, const char *path, lk_zk_teller teller)
{
    lk_zk_unwatch_locked(net, watcher);
    lk_zk_watch *w = use_locked(net, path);
    if (w == NULL)
        return false;
    watcher->watch = w;
    lk_list_prepend(&w->watchers, &watcher->link);
    if (teller == LK_ZK_BY_SERVER)
        ask_locked(net, w);
    else if (teller == LK_ZK_BY_SERVER_SOON && !is_asked(w) && !lk_list_linked(&w->unasked))
        lk_list_append(&net->unasked, &w->unasked);
    return true;
}

/* Without a connection it is asked after the next reconnection, as all are. */
void lk_zk_watches_ask_locked(lk_zk_net *net)
{
    for (lk_list *link; (link = lk_list_take(&net->unasked)) != NULL;)
        ask_locked(net, LK_CONTAINER(link, lk_zk_watch, unasked));
}

void lk_zk_unwatch_locked(lk_zk_net *net, lk_zk_watcher *watcher)
{
    lk_zk_watch *w = watcher->watch;
    (void)net;
    if (w == NULL)
        return;
    lk_list_remove(&watcher->link);
    watcher->watch = NULL;
    if (!tells_somebody(w) && !is_asked(w))
        end_locked(w, ZNONODE);
}

void lk_zk_watchers_tell_locked(lk_zk_net *net, const char *path)
{
    lk_zk_watch *w = find_locked(net, path, lk_hash_text(path));
    if (w == NULL)
        return;
    const bool asked = is_asked(w);
    tell_locked(w, ZNONODE);
    if (!asked)
        end_locked(w, ZNONODE);
}
