/* inspect.c: what a key's queue looks like, breaking a lock, and a round trip. */
#include <string.h>

#include "paths.h"
#include "record.h"

enum { SHOWN_MAX = 1000, BREAK_TRIES = 4, LOOKS_MAX = 8 };

/* One contender of a queue. */
typedef struct {
    struct inspection *of;
    char *name;
    int32_t sequence;
    bool there; /* it was when it was read */
    uint64_t czxid;
    int64_t ctime;
    char owner[LOCKER_OWNER_MAX + 1];
} entry;

/* A question under way; on its caller's stack. */
typedef struct inspection {
    lk_zk *z;
    lk_zk_call call;
    char parent[LK_ZK_PARENT_MAX];
    int64_t until;
    entry *entries; /* in the queue's order */
    size_t count;
    lk_zk_record record;    /* what the key's node says */
    int32_t record_version; /* of that; -1: somebody keeps something else there, or it was not read */
    int record_rc;          /* the answer to reading it */
    int rc;                 /* of the last answer that was an error */
    bool no_memory;         /* to ask for all, or to keep it: what is missing may be there */
    int delete_rc;
} inspection;

static void begin(inspection *i, lk_zk *z, const char *key, size_t key_len, int64_t until)
    LK_ACQUIRE(*i->z->net)
{
    *i = (inspection){.z = z, .until = until};
    (void)lk_zk_parent_path(z, key, key_len, i->parent); /* core has had the key checked */
    lk_zk_enter(i->z->net);
    lk_zk_call_begin_locked(i->z->net, &i->call);
}

static void clear_entries(inspection *i)
{
    for (size_t n = 0; n < i->count; n++)
        free(i->entries[n].name);
    free(i->entries);
    i->entries = NULL;
    i->count = 0;
}

static void end(inspection *i) LK_RELEASE(*i->z->net)
{
    lk_zk_call_end_locked(i->z->net, &i->call);
    lk_zk_leave(i->z->net);
    clear_entries(i);
}

static bool expect_locked(inspection *i, lk_zk_request *request) LK_REQUIRES(*i->z->net)
{
    const bool sent = lk_zk_call_expect_locked(&i->call, request);
    i->no_memory = i->no_memory || (!sent && lk_zk_is_up_locked(i->z->net));
    return sent;
}

static locker_status await_answers_unlocking(inspection *i, const char *doing, locker_error *err)
    LK_REQUIRES(*i->z->net)
{
    if (i->call.pending == 0 && !lk_zk_is_up_locked(i->z->net)) /* sending found out */
        i->rc = ZCONNECTIONLOSS;
    const bool answered =
        i->call.pending > 0 && lk_zk_await_unlocking(i->z->net, &i->call, i->until) == LK_ZK_DONE;
    if (i->no_memory)
        return lk_out_of_memory(err);
    if (!answered)
        return lk_zk_away_locked(i->z->net, err);
    return i->rc == ZOK ? LOCKER_OK : lk_zk_error(i->rc, doing, i->parent, err);
}

static int compare(const void *a, const void *b)
{
    const entry *x = a, *y = b;
    if (x->sequence == y->sequence)
        return strcmp(x->name, y->name);
    return lk_zk_before(x->sequence, x->name, y->sequence, y->name) ? -1 : 1;
}

static void list_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    inspection *i = context;
    (void)z;
    i->rc = reply->rc == ZNONODE ? ZOK : reply->rc;
    if (reply->rc == ZOK && reply->names->count > 0) {
        i->entries = calloc((size_t)reply->names->count, sizeof *i->entries);
        i->no_memory = i->no_memory || i->entries == NULL;
        for (int32_t n = 0; n < reply->names->count && i->entries != NULL; n++) {
            entry *e = &i->entries[i->count];
            if (!lk_zk_contender(reply->names->data[n], &e->sequence))
                continue;
            e->of = i;
            e->name = strdup(reply->names->data[n]);
            if (e->name == NULL) {
                i->no_memory = true;
                break;
            }
            i->count++;
        }
        if (i->entries != NULL)
            qsort(i->entries, i->count, sizeof *i->entries, compare);
    }
    lk_zk_call_answered_locked(&i->call);
}

/* The connection was lost, as the library tells it of requests that are under way. */
static bool is_cut(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
           rc == ZRUNTIMEINCONSISTENCY || rc == ZCLOSING;
}

static void record_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    inspection *i = context;
    (void)z;
    i->record_rc = reply->rc;
    if (is_cut(reply->rc) && i->rc == ZOK)
        i->rc = reply->rc;
    if (reply->rc == ZOK && lk_zk_record_read(reply->text, reply->text_len, &i->record))
        i->record_version = reply->stat->version;
    lk_zk_call_answered_locked(&i->call);
}

static locker_status list_unlocking(inspection *i, locker_error *err) LK_REQUIRES(*i->z->net)
{
    clear_entries(i);
    i->record_version = -1;
    i->record_rc = ZCONNECTIONLOSS;
    if (lk_zk_await_up_unlocking(i->z->net, &i->call, i->until) != LK_ZK_DONE)
        return lk_zk_away_locked(i->z->net, err);
    if (expect_locked(i, lk_zk_list_fresh_locked(i->z->net, i->parent, list_done_locked, i)))
        (void)expect_locked(i, lk_zk_get_locked(i->z->net, i->parent, record_done_locked, i));
    return await_answers_unlocking(i, "listing a queue", err);
}

static void entry_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    entry *e = context;
    (void)z;
    if (reply->rc == ZOK) {
        int len = reply->text_len;
        e->there = true;
        e->czxid = (uint64_t)reply->stat->czxid;
        e->ctime = reply->stat->ctime;
        for (int n = 0; n < len; n++) /* a foreign client may have put anything there */
            if ((unsigned char)reply->text[n] < 0x20 || reply->text[n] == 0x7F)
                len = 0;
        if (len > 0)
            memcpy(e->owner, reply->text, (size_t)(len < LOCKER_OWNER_MAX ? len : LOCKER_OWNER_MAX));
    } else if (reply->rc == ZNOAUTH) {
        e->there = true;
    } else if (reply->rc != ZNONODE) {
        e->of->rc = reply->rc;
    }
    lk_zk_call_answered_locked(&e->of->call);
}

/* Read the first `most` of the queue, in one flight. */
static locker_status read_entries_unlocking(inspection *i, size_t most, locker_error *err)
    LK_REQUIRES(*i->z->net)
{
    char path[LK_ZK_PATH_MAX];
    bool asks = false;
    for (size_t n = 0; n < i->count && n < most; n++) {
        entry *e = &i->entries[n];
        e->there =
            !lk_zk_join(path, i->parent, e->name); /* somebody's, whose name is too long to ask for it */
        if (!e->there)
            (void)expect_locked(i, lk_zk_get_locked(i->z->net, path, entry_done_locked, e));
        asks = asks || !e->there;
    }
    return asks ? await_answers_unlocking(i, "reading a queue", err) : LOCKER_OK;
}

/* The queue and its first `most`; again where the connection was lost meanwhile, which says nothing about either. */
static locker_status look_unlocking(inspection *i, size_t most, locker_error *err) LK_REQUIRES(*i->z->net)
{
    locker_status status;
    int looks = 0;
    do {
        i->rc = ZOK;
        i->no_memory = false;
        status = list_unlocking(i, err);
        if (status == LOCKER_OK && i->count > 0)
            status = read_entries_unlocking(i, most, err);
    } while (status != LOCKER_OK && is_cut(i->rc) && i->call.pending == 0 && ++looks < LOOKS_MAX);
    return status;
}

/* One that didn't wait has the lock since its node was made. */
static int64_t since(const inspection *i, const entry *e)
{
    if (!e->there || e->czxid == 0)
        return -1;
    return i->record_version >= 0 && e->czxid == i->record.granted ? i->record.unix_ms : e->ctime;
}

static void describe(const inspection *i, const entry *e, locker_info *info)
{
    info->held = true;
    memcpy(info->owner, e->owner, sizeof(info->owner));
    info->token = e->czxid;
    info->since_unix_ms = since(i, e);
}

/* Of those that were read, so many have gone from the front since the queue was listed. */
static size_t count_gone(const inspection *i)
{
    size_t gone = 0;
    while (gone < i->count && gone < SHOWN_MAX && !i->entries[gone].there)
        gone++;
    return gone;
}

static locker_status describe_queue(const inspection *i, locker_info *info, locker_error *err)
{
    const size_t first = count_gone(i);
    if (first == i->count)
        return LOCKER_OK;
    describe(i, &i->entries[first], info);
    if (first + 1 == i->count)
        return LOCKER_OK;
    info->queue = calloc(i->count - first - 1, sizeof *info->queue);
    info->queue_stride = sizeof *info->queue;
    if (info->queue == NULL)
        return lk_out_of_memory(err);
    for (size_t n = first + 1; n < i->count; n++) {
        if (n < SHOWN_MAX && !i->entries[n].there)
            continue;
        info->waiters++;
        if (n < SHOWN_MAX)
            memcpy(info->queue[info->queue_len++].owner, i->entries[n].owner, sizeof(i->entries[n].owner));
    }
    return LOCKER_OK;
}

locker_status lk_zk_show(void *self, const char *key, size_t key_len, int64_t until, locker_info *info,
                         locker_error *err)
{
    inspection i;
    begin(&i, self, key, key_len, until);
    info->waiters = 0;
    locker_status status;
    do { /* whoever holds it may stand behind those that were read */
        status = look_unlocking(&i, SHOWN_MAX, err);
    } while (status == LOCKER_OK && count_gone(&i) < i.count && count_gone(&i) == SHOWN_MAX);
    if (status == LOCKER_OK)
        status = describe_queue(&i, info, err);
    end(&i);
    return status;
}

static void broken_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    inspection *i = context;
    if (reply->rc == ZOK)
        lk_zk_confirm_locked(z->net, reply->sent);
    i->delete_rc = reply->rc;
    lk_zk_call_answered_locked(&i->call);
}

/* Together with the deletion goes a mark into the data of the key's node, by which a release whose answer was
 * lost can tell that it didn't delete the node itself: servers read nothing in the midst of a transaction.
 * Where somebody keeps something else there, that can't be; a release that finds such data does not know
 * either. Who may delete the holder's node, and not read it, does not know what to mark, and breaks nothing. */
static lk_zk_request *send_break_locked(inspection *i, const char *path, const entry *first)
    LK_REQUIRES(*i->z->net)
{
    char mark[LK_ZK_RECORD_MAX];
    if (i->record_version < 0)
        return lk_zk_delete_locked(i->z->net, path, broken_done_locked, i);
    i->record.broken = first->czxid;
    lk_zk_record_write(&i->record, mark);
    return lk_zk_delete_marked_locked(i->z->net, path, i->parent, mark, i->record_version, broken_done_locked,
                                      i);
}

/* Somebody else was faster: the lock was released meanwhile, or the key's node was written to. */
static bool is_overtaken(int rc)
{
    return rc == ZNONODE || rc == ZBADVERSION;
}

static locker_status break_first_unlocking(inspection *i, const locker_break_options *only,
                                           locker_info *broken, locker_error *err) LK_REQUIRES(*i->z->net)
{
    char path[LK_ZK_PATH_MAX];
    const entry *first = &i->entries[0];
    if (!first->there || i->record_rc == ZNONODE)
        return LOCKER_OK;
    if (first->czxid == 0) /* all has to be known that the mark is about */
        return lk_zk_error(ZNOAUTH, "reading who is to be broken", i->parent, err);
    if (i->record_rc != ZOK)
        return lk_zk_error(i->record_rc, "reading a record", i->parent, err);
    describe(i, first, broken);
    locker_status status = locker_break_check(only, broken, err);
    if (status != LOCKER_OK)
        return status;
    i->delete_rc = ZCONNECTIONLOSS;
    if (lk_zk_join(path, i->parent, first->name))
        (void)expect_locked(i, send_break_locked(i, path, first));
    if (i->call.pending == 0 && !lk_zk_is_up_locked(i->z->net)) { /* nothing was sent */
        i->delete_rc = ZNONODE;
        return LOCKER_OK;
    }
    status = await_answers_unlocking(i, "breaking a lock", err);
    if (status != LOCKER_OK || i->delete_rc == ZOK || is_overtaken(i->delete_rc))
        return status;
    return lk_zk_error(i->delete_rc, "breaking a lock", i->parent, err);
}

locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err)
{
    inspection i;
    locker_status status;
    begin(&i, self, key, key_len, until);
    i.delete_rc = ZNONODE;
    /* who overtook is to be told of, so one holder at least has to be seen */
    for (int tries = 0; (tries < BREAK_TRIES || !broken->held) && is_overtaken(i.delete_rc); tries++) {
        status = look_unlocking(&i, 1, err);
        if (status != LOCKER_OK || i.count == 0)
            break;
        status = break_first_unlocking(&i, only, broken, err);
        if (status != LOCKER_OK)
            break;
    }
    if (status == LOCKER_OK && i.count == 0)
        status = lk_invalid(err, "nobody holds '%s'", key);
    else if (status == LOCKER_OK && i.delete_rc != ZOK)
        status = locker_error_set(err, LOCKER_BUSY, 0,
                                  "'%s' changed hands each time it was to be broken; look again", key);
    end(&i);
    return status;
}

static void ping_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    inspection *i = context;
    if (!lk_zk_unknown(reply->rc))
        lk_zk_confirm_locked(z->net, reply->sent);
    /* What a check answers when it was ordered: where there is no such root, or it isn't ours to read, too. A
     * refused login, and what the client library says on its own, is no answer. */
    i->rc = reply->rc == ZNONODE || reply->rc == ZNOAUTH ? ZOK : reply->rc;
    lk_zk_call_answered_locked(&i->call);
}

/* A request that the leader has to order: a server that is cut off from it doesn't answer. */
locker_status lk_zk_ping(void *self, int64_t until, locker_error *err)
{
    inspection i;
    locker_status status;
    begin(&i, self, "", 0, until);
    if (lk_zk_await_up_unlocking(i.z->net, &i.call, until) == LK_ZK_DONE)
        (void)lk_zk_call_expect_locked(&i.call, lk_zk_check_locked(i.z->net, "/", ping_done_locked, &i));
    status = await_answers_unlocking(&i, "waiting for an answer", err);
    end(&i);
    return status;
}
