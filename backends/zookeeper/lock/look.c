/* look.c: what is known of a key at the service: lists, and what each node says. */
#include <string.h>

#include "look.h"

/* The most looks of one question: if the connection drops each time; if all listed holders are gone each time. */
enum { LOOKS_MAX = 8, OUTDATED_MAX = 32 };

void lk_zk_look_begin(lk_zk_look *i, lk_zk *z, const char *key, size_t key_len, int64_t until)
{
    *i = (lk_zk_look){.z = z, .until = until};
    (void)lk_zk_parent_path(z, key, key_len, i->parent); /* core has had the key checked */
    lk_zk_enter(i->z->net);
    lk_zk_call_begin_locked(i->z->net, &i->call);
}

static void clear_entries(lk_zk_look *i)
{
    for (size_t n = 0; n < i->count; n++)
        free(i->entries[n].name);
    free(i->entries);
    i->entries = NULL;
    i->count = 0;
}

void lk_zk_look_end(lk_zk_look *i)
{
    lk_zk_call_end_locked(i->z->net, &i->call);
    lk_zk_leave(i->z->net);
    clear_entries(i);
}

bool lk_zk_look_expect_locked(lk_zk_look *i, lk_zk_request *request)
{
    const bool sent = lk_zk_call_expect_locked(&i->call, request);
    if (!sent && lk_zk_is_up_locked(i->z->net))
        i->no_memory = true;
    else if (!sent)
        i->rc = ZCONNECTIONLOSS; /* also when the requests before it are answered by the next connection */
    return sent;
}

locker_status lk_zk_look_await_unlocking(lk_zk_look *i, const char *doing, locker_error *err)
{
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
    const lk_zk_entry *x = a, *y = b;
    if (x->holds != y->holds)
        return x->holds ? -1 : 1;
    if (x->holds || x->sequence == y->sequence)
        return strcmp(x->name, y->name);
    return lk_zk_before(x->sequence, x->name, y->sequence, y->name) ? -1 : 1;
}

/* One more of those that stand below the key's node there. */
static void add(lk_zk_look *i, const char *name, const char *below)
{
    lk_zk_entry *const e = &i->entries[i->count];
    const bool holds = below != NULL && strcmp(below, LK_ZK_LEASES) == 0;
    const lk_zk_kind kind = lk_zk_contender(name, &e->sequence);
    if (below == NULL && lk_zk_is_of_permits(name))
        i->of_permits = true;
    if (kind == LK_ZK_NO_CONTENDER && !holds)
        return;
    *e = (lk_zk_entry){
        .of = i, .name = strdup(name), .below = below, .sequence = e->sequence, .slot = -1, .holds = holds};
    e->shares = kind == LK_ZK_SHARES;
    if (below != NULL)
        (void)lk_zk_read_permit(name, &e->permits, &e->slot);
    if (e->name == NULL)
        i->no_memory = true;
    else
        i->count++;
}

static void listed_locked(lk_zk *z, lk_zk_look *i, const lk_zk_reply *reply, const char *below)
    LK_REQUIRES(*z->net)
{
    if (reply->rc != ZOK && reply->rc != ZNONODE)
        i->rc = reply->rc;
    if (reply->rc == ZOK && reply->names->count > 0) {
        const size_t room = i->count + (size_t)reply->names->count;
        lk_zk_entry *const entries = realloc(i->entries, room * sizeof *entries);
        i->no_memory = i->no_memory || entries == NULL;
        i->entries = entries != NULL ? entries : i->entries;
        for (int32_t n = 0; n < reply->names->count && entries != NULL && !i->no_memory; n++)
            add(i, reply->names->data[n], below);
    }
    lk_zk_call_answered_locked(&i->call);
    (void)z;
}

static void key_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    listed_locked(z, context, reply, NULL);
}

static void queue_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    listed_locked(z, context, reply, LK_ZK_LOCKS);
}

static void permits_listed_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    listed_locked(z, context, reply, LK_ZK_LEASES);
}

/* The connection was lost, as the library tells it of requests that are under way. */
static bool is_cut(int rc)
{
    return rc == ZCONNECTIONLOSS || rc == ZOPERATIONTIMEOUT || rc == ZSESSIONEXPIRED || rc == ZSESSIONMOVED ||
           rc == ZRUNTIMEINCONSISTENCY || rc == ZCLOSING;
}

static void record_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_look *i = context;
    (void)z;
    i->record_rc = reply->rc;
    if (is_cut(reply->rc) && i->rc == ZOK)
        i->rc = reply->rc;
    if (reply->rc == ZOK && lk_zk_record_read(reply->text, reply->text_len, &i->record))
        i->record_version = reply->stat->version;
    lk_zk_call_answered_locked(&i->call);
}

/* Who is below the key's node; the queue first, so that who leaves it for a permit meanwhile is in both, and not in none. */
static locker_status list_permits_unlocking(lk_zk_look *i, locker_error *err) LK_REQUIRES(*i->z->net)
{
    char path[LK_ZK_PATH_MAX];
    (void)lk_zk_join(path, i->parent, LK_ZK_LOCKS);
    if (lk_zk_look_expect_locked(i, lk_zk_list_locked(i->z->net, path, queue_listed_locked, i))) {
        (void)lk_zk_join(path, i->parent, LK_ZK_LEASES);
        (void)lk_zk_look_expect_locked(i, lk_zk_list_locked(i->z->net, path, permits_listed_locked, i));
    }
    return lk_zk_look_await_unlocking(i, "listing permits", err);
}

/* True of a node that outlives its session: a plain one, a container, or one with a time to live. The number of a session is never
 * one of these. https://github.com/apache/zookeeper: EphemeralType */
static bool is_lasting(int64_t owner)
{
    return owner == 0 || owner == INT64_MIN || (uint64_t)owner >> 56 == 0xFF;
}

static void entry_done_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    lk_zk_entry *e = context;
    (void)z;
    if (reply->rc == ZOK) {
        int len = reply->text_len;
        e->there = true;
        e->is_lock = !is_lasting(reply->stat->ephemeralOwner) &&
                     (e->below == NULL || strcmp(e->below, LK_ZK_LEASES) != 0 || lk_zk_is_permit(e->name));
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

bool lk_zk_entry_path(const lk_zk_look *i, const lk_zk_entry *e, char path[LK_ZK_PATH_MAX])
{
    char parent[LK_ZK_PATH_MAX];
    (void)strcpy(parent, i->parent);
    return (e->below == NULL || lk_zk_join(parent, i->parent, e->below)) && lk_zk_join(path, parent, e->name);
}

/* Return the first place of the queue for locks (below == NULL) or for permits; NULL if the list has none. */
static lk_zk_entry *first_of(const lk_zk_look *i, const char *below)
{
    lk_zk_entry *first = NULL;
    for (size_t n = 0; n < i->count; n++) {
        lk_zk_entry *const e = &i->entries[n];
        if (!e->holds && (e->below == NULL) == (below == NULL) && (first == NULL || compare(e, first) < 0))
            first = e;
    }
    return first;
}

/* Request an entry's node. Forget what an earlier answer said of the node. */
static void read_locked(lk_zk_look *i, lk_zk_entry *e, const char *path) LK_REQUIRES(*i->z->net)
{
    e->there = false;
    e->czxid = 0;
    memset(e->owner, 0, sizeof e->owner);
    (void)lk_zk_look_expect_locked(i, lk_zk_get_locked(i->z->net, path, entry_done_locked, e));
}

/* The first places of the two queues were read: `there` exists, `gone` does not. Return true if `there` is the older place:
 * an earlier look read `there`, and a list that followed had only smaller numbers than `gone` has. Without this rule, calls
 * that are refused again and again would make every look outdated. */
static bool is_older(lk_zk_look *i, const lk_zk_entry *there, const lk_zk_entry *gone)
{
    int32_t last = gone->sequence;
    if (there->czxid == 0 || there->czxid != i->stays) {
        i->stays = there->czxid;
        i->last = INT32_MAX;
        return false;
    }
    if (gone->sequence > i->last)
        return true;
    for (size_t n = 0; n < i->count; n++) {
        const lk_zk_entry *const e = &i->entries[n];
        if (!e->holds && (e->below == NULL) == (gone->below == NULL) && e->sequence > last)
            last = e->sequence;
    }
    i->last = last;
    return false;
}

/* Decide which use of the key counts if both queues have places and no permit is taken. The call with the younger place will
 * be refused (usage.c), so the older place decides. If one of the two places is gone, the list is outdated. */
static locker_status compare_uses_unlocking(lk_zk_look *i, lk_zk_entry *lock, lk_zk_entry *permit,
                                            locker_error *err) LK_REQUIRES(*i->z->net)
{
    char paths[2][LK_ZK_PATH_MAX];
    if (!lk_zk_entry_path(i, lock, paths[0]) || !lk_zk_entry_path(i, permit, paths[1])) {
        i->of_permits = false;
        return LOCKER_OK; /* a foreign client's name is too long for a request */
    }
    read_locked(i, lock, paths[0]);
    read_locked(i, permit, paths[1]);
    const locker_status status = lk_zk_look_await_unlocking(i, "reading two queues", err);
    i->outdated = status == LOCKER_OK && !(lock->there && permit->there);
    i->of_permits = permit->czxid != 0 && permit->czxid < lock->czxid;
    i->rival = i->of_permits ? 0 : permit->czxid;
    if (i->outdated && lock->there != permit->there &&
        is_older(i, lock->there ? lock : permit, lock->there ? permit : lock)) {
        i->outdated = false;
        i->of_permits = permit->there;
        i->rival = 0;
    }
    return status;
}

/* Keep the nodes of the use that counts. While permits are taken, the calls in the queue for locks will be refused. */
static locker_status keep_one_use_unlocking(lk_zk_look *i, locker_error *err) LK_REQUIRES(*i->z->net)
{
    lk_zk_entry *const lock = first_of(i, NULL), *const permit = first_of(i, LK_ZK_LOCKS);
    locker_status status = LOCKER_OK;
    bool any_taken = false;
    size_t kept = 0;
    for (size_t n = 0; n < i->count; n++)
        any_taken = any_taken || i->entries[n].holds;
    i->of_permits = any_taken || (lock == NULL && permit != NULL);
    if (!any_taken && lock != NULL && permit != NULL)
        status = compare_uses_unlocking(i, lock, permit, err);
    if (status != LOCKER_OK)
        return status;
    for (size_t n = 0; n < i->count; n++)
        if ((i->entries[n].below != NULL) == i->of_permits)
            i->entries[kept++] = i->entries[n];
        else
            free(i->entries[n].name);
    i->count = kept;
    return LOCKER_OK;
}

static locker_status list_unlocking(lk_zk_look *i, locker_error *err) LK_REQUIRES(*i->z->net)
{
    clear_entries(i);
    i->record_version = -1;
    i->record_rc = ZCONNECTIONLOSS;
    i->of_permits = false;
    i->rival = 0;
    if (lk_zk_await_up_unlocking(i->z->net, &i->call, i->until) != LK_ZK_DONE)
        return lk_zk_away_locked(i->z->net, err);
    i->session = lk_zk_session_locked(i->z->net);
    if (lk_zk_look_expect_locked(i, lk_zk_list_fresh_locked(i->z->net, i->parent, key_listed_locked, i)))
        (void)lk_zk_look_expect_locked(i, lk_zk_get_locked(i->z->net, i->parent, record_done_locked, i));
    locker_status status = lk_zk_look_await_unlocking(i, "listing a queue", err);
    if (status == LOCKER_OK && i->of_permits)
        status = list_permits_unlocking(i, err);
    if (status == LOCKER_OK)
        status = keep_one_use_unlocking(i, err);
    if (i->entries != NULL)
        qsort(i->entries, i->count, sizeof *i->entries, compare);
    return status;
}
/* All who have permits or may share the key, and of the rest `most`. */
static size_t count_wanted(const lk_zk_look *i, size_t most)
{
    size_t wanted = 0;
    while (wanted < i->count && (i->entries[wanted].holds || i->entries[wanted].shares))
        wanted++;
    return most < i->count - wanted ? wanted + most : i->count;
}

/* In one flight. */
static locker_status read_entries_unlocking(lk_zk_look *i, size_t most, locker_error *err)
    LK_REQUIRES(*i->z->net)
{
    char path[LK_ZK_PATH_MAX];
    bool asks = false;
    i->read = count_wanted(i, most);
    for (size_t n = 0; n < i->read; n++) {
        lk_zk_entry *e = &i->entries[n];
        e->there = !lk_zk_entry_path(i, e, path); /* somebody's, whose name is too long to ask for it */
        if (!e->there)
            read_locked(i, e, path);
        asks = asks || !e->there;
    }
    return asks ? lk_zk_look_await_unlocking(i, "reading a queue", err) : LOCKER_OK;
}

/* Mark the holders in a queue of locks: the first place that exists, and the readers that share the key with it. A call that
 * is younger than the first call for a permit will be refused, and is no holder. Return false if the look must begin again:
 * all places that were read are gone, or all permits that were listed. */
static bool find_holders(lk_zk_look *i)
{
    bool any = false, shared = true, taken = false;
    for (size_t n = 0; n < i->read; n++) {
        lk_zk_entry *const e = &i->entries[n];
        if (i->of_permits) {
            taken = taken || e->holds;
            if (!any && !e->holds && taken)
                return false;
        }
        if (!e->there)
            continue;
        const bool refused = !i->of_permits && i->rival != 0 && e->czxid > i->rival;
        if (refused && !any)
            return false;
        if (!i->of_permits)
            e->holds = !refused && (!any || (shared && e->shares));
        shared = shared && e->shares;
        any = true;
    }
    return any;
}

locker_status lk_zk_look_unlocking(lk_zk_look *i, size_t most, locker_error *err)
{
    locker_status status;
    bool again;
    int cut = 0, outdated = 0;
    do {
        i->rc = ZOK;
        i->no_memory = i->outdated = false;
        i->read = 0;
        status = list_unlocking(i, err);
        if (status == LOCKER_OK && i->count > 0 && !i->outdated)
            status = read_entries_unlocking(i, most, err);
        if (status == LOCKER_OK && lk_zk_session_locked(i->z->net) != i->session) {
            i->rc = ZCONNECTIONLOSS; /* the server of a new session may lag behind what was listed */
            status = lk_zk_error(i->rc, "reading a queue", i->parent, err);
        }
        again = status == LOCKER_OK ? i->outdated || (!find_holders(i) && i->count > 0)
                                    : is_cut(i->rc) && i->call.pending == 0;
    } while (again && (status == LOCKER_OK ? ++outdated < OUTDATED_MAX : ++cut < LOOKS_MAX));
    i->outdated = again && status == LOCKER_OK;
    if (i->outdated && i->count > 0) { /* the first of the latest list held the key at the time of the list */
        i->read = i->read > 0 ? i->read : 1;
        i->entries[0].there = true;
        i->entries[0].holds = i->entries[0].holds || !i->of_permits;
    }
    return status;
}

/* One that didn't wait has the lock since its node was made; of those who share a key, it is known of the latest whether it
 * waited, and nothing of those before. */
static int64_t since(const lk_zk_look *i, const lk_zk_entry *e)
{
    if (!e->there || e->czxid == 0)
        return -1;
    if (i->of_permits || i->record_version < 0)
        return e->ctime;
    if (e->czxid == i->record.granted)
        return i->record.unix_ms;
    return e->shares && e->czxid < i->record.granted ? -1 : e->ctime;
}

locker_status lk_zk_look_describe(const lk_zk_look *i, const locker_break_options *only, locker_info *info,
                                  locker_error *err)
{
    size_t count = 0;
    int32_t permits = 0;
    bool shared = false;
    for (size_t n = 0; n < i->read; n++) {
        const lk_zk_entry *const e = &i->entries[n];
        count += e->holds && e->there;
        permits =
            permits == 0 ? e->permits : permits; /* of those who have one, where they tell: they come first */
        shared = shared || (e->holds && e->shares);
    }
    free(info->holders);
    info->holders_len = 0;
    info->holders = calloc(count > 0 ? count : 1, sizeof *info->holders);
    if (info->holders == NULL)
        return lk_out_of_memory(err);
    for (size_t n = 0; n < i->read; n++) {
        const lk_zk_entry *const e = &i->entries[n];
        if (!e->holds || !e->there || !locker_break_names(only, e->owner, e->czxid))
            continue;
        locker_holder *const told = &info->holders[info->holders_len++];
        memcpy(told->owner, e->owner, sizeof told->owner);
        told->token = e->czxid;
        told->since_unix_ms = since(i, e);
        told->remaining_ms = -1;
        told->slot = e->slot;
    }
    /* of permits that foreign clients alone have, how many there are isn't known */
    locker_info_settle(info, shared ? LOCKER_SHARED : LOCKER_EXCLUSIVE,
                       i->of_permits && permits == 0 ? (int32_t)count : permits);
    return LOCKER_OK;
}
