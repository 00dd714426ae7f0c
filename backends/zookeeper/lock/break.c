/* break.c: breaking a lock, or of several that hold a key those who are named. Together with each deletion goes a mark into the
 * data of the key's node, by which a release whose answer was lost can tell that it didn't delete the node itself: servers
 * read nothing in the midst of a transaction. Where somebody keeps something else there, that can't be; a release that finds
 * such data does not know either. Who may delete a holder's node, and not read it, does not know what to mark, and breaks
 * nothing. */
#include <string.h>

#include "look.h"

enum { BREAK_TRIES = 4 };

static const locker_break_options anybody = LOCKER_BREAK_OPTIONS_INIT;

/* A break under way; on its caller's stack. */
typedef struct {
    lk_zk_look look;
    const locker_break_options *only;
    locker_info *broken; /* whom it has broken; or, before that, who holds the key */
    size_t count;        /* so many are broken */
    /* the greatest token that the look with the first of them has shown: who came later is left alone */
    uint64_t newest;
    int delete_rc; /* the latest answer to a deletion */
} breaking;

static void deleted_locked(lk_zk *z, void *context, const lk_zk_reply *reply) LK_REQUIRES(*z->net)
{
    breaking *const b = context;
    if (reply->rc == ZOK)
        lk_zk_confirm_locked(z->net, reply->sent);
    b->delete_rc = reply->rc;
    lk_zk_call_answered_locked(&b->look.call);
}

/* The mark never goes back, in whatever order those are broken who hold the key together. */
static lk_zk_request *send_locked(breaking *b, const char *path, const lk_zk_entry *holder)
    LK_REQUIRES(*b->look.z->net)
{
    char mark[LK_ZK_RECORD_MAX];
    if (b->look.record_version < 0)
        return lk_zk_delete_locked(b->look.z->net, path, deleted_locked, b);
    lk_zk_record record = b->look.record;
    record.broken = record.broken > holder->czxid ? record.broken : holder->czxid;
    lk_zk_record_write(&record, mark);
    return lk_zk_delete_marked_locked(b->look.z->net, path, b->look.parent, mark, b->look.record_version,
                                      deleted_locked, b);
}

/* It has been broken. */
static locker_status note(breaking *b, const lk_zk_entry *holder, locker_error *err)
{
    const locker_break_options one = {.size = sizeof one, .token = holder->czxid};
    locker_info told = LOCKER_INFO_INIT;
    lk_zk_look *const i = &b->look;
    if (i->record_version >= 0) {
        i->record.broken = i->record.broken > holder->czxid ? i->record.broken : holder->czxid;
        i->record_version++;
    }
    if (b->count++ == 0) {
        for (size_t n = 0; n < i->read; n++)
            if (i->entries[n].holds && i->entries[n].czxid > b->newest)
                b->newest = i->entries[n].czxid;
        return lk_zk_look_describe(i, &one, b->broken, err);
    }
    const locker_status status = lk_zk_look_describe(i, &one, &told, err);
    locker_holder *const more = realloc(b->broken->holders, (b->broken->holders_len + 1) * sizeof *more);
    if (more != NULL)
        b->broken->holders = more;
    if (more != NULL && status == LOCKER_OK && told.holders_len > 0) {
        more[b->broken->holders_len++] = told.holders[0];
        locker_info_settle(b->broken, told.mode, told.permits);
    }
    free(told.holders);
    return more != NULL || status != LOCKER_OK ? status : lk_out_of_memory(err);
}

/* Somebody else was faster: the lock was released meanwhile, or the key's node was written to. */
static bool is_overtaken(int rc)
{
    return rc == ZNONODE || rc == ZBADVERSION;
}

/* Sets the answer to its deletion. */
static locker_status break_one_unlocking(breaking *b, const lk_zk_entry *holder, locker_error *err)
    LK_REQUIRES(*b->look.z->net)
{
    char path[LK_ZK_PATH_MAX];
    b->delete_rc = ZCONNECTIONLOSS;
    if (lk_zk_entry_path(&b->look, holder, path))
        (void)lk_zk_look_expect_locked(&b->look, send_locked(b, path, holder));
    if (b->look.call.pending == 0 && !lk_zk_is_up_locked(b->look.z->net)) { /* nothing was sent */
        b->delete_rc = ZBADVERSION;
        return LOCKER_OK;
    }
    const locker_status status = lk_zk_look_await_unlocking(&b->look, "breaking a lock", err);
    if (status == LOCKER_OK && b->delete_rc == ZOK)
        return note(b, holder, err);
    if (status != LOCKER_OK || is_overtaken(b->delete_rc))
        return status;
    return lk_zk_error(b->delete_rc, "breaking a lock", b->look.parent, err);
}

static bool is_named(const breaking *b, const lk_zk_entry *e)
{
    return e->holds && e->there && (b->count == 0 || e->czxid <= b->newest) &&
           locker_break_names(b->only, e->owner, e->czxid);
}

/* All has to be known that a mark is about; and who isn't named may be the one, where that can't be read. */
static locker_status check_known(const breaking *b, locker_error *err)
{
    const lk_zk_look *const i = &b->look;
    bool named = false, unread = false;
    for (size_t n = 0; n < i->read; n++) {
        const lk_zk_entry *const e = &i->entries[n];
        named = named || (is_named(b, e) && e->czxid != 0);
        unread = unread || (e->holds && e->there && e->czxid == 0 && (!named || is_named(b, e)));
    }
    if (unread)
        return lk_zk_error(ZNOAUTH, "reading a holder", i->parent, err);
    return i->record_rc == ZOK ? LOCKER_OK
                               : lk_zk_error(i->record_rc, "reading a lock's record", i->parent, err);
}

/* Nothing is deleted that may be an application's data. */
static locker_status check_force(const breaking *b, locker_error *err)
{
    const lk_zk_look *const i = &b->look;
    for (size_t n = 0; n < i->read && !b->only->force; n++)
        if (is_named(b, &i->entries[n]) && !i->entries[n].is_lock)
            return lk_misconfigured(
                err,
                "'%.120s' below '%.120s' is not a lock's node: it is not ephemeral or has another name, and "
                "may be an application's data; check it, then use force (locker break --force) to delete it",
                i->entries[n].name, i->parent);
    return LOCKER_OK;
}

/* Whom the look has shown. */
static locker_status break_named_unlocking(breaking *b, locker_error *err) LK_REQUIRES(*b->look.z->net)
{
    lk_zk_look *const i = &b->look;
    if (i->record_rc == ZNONODE)
        return LOCKER_OK;
    locker_status status = check_known(b, err);
    if (status == LOCKER_OK && b->count == 0)
        status = lk_zk_look_describe(i, &anybody, b->broken, err);
    if (status == LOCKER_OK && b->count == 0 && b->broken->held)
        status = locker_break_check(b->only, b->broken, err);
    if (status == LOCKER_OK)
        status = check_force(b, err);
    for (size_t n = 0; n < i->read && status == LOCKER_OK; n++) {
        if (!is_named(b, &i->entries[n]))
            continue;
        status = break_one_unlocking(b, &i->entries[n], err);
        if (status != LOCKER_OK || b->delete_rc == ZBADVERSION)
            break;
    }
    return status;
}

static bool is_held(const lk_zk_look *i)
{
    for (size_t n = 0; n < i->read; n++)
        if (i->entries[n].holds && i->entries[n].there)
            return true;
    return false;
}

/* Look, and break, until nobody was faster. */
static locker_status look_and_break_unlocking(breaking *b, locker_error *err) LK_REQUIRES(*b->look.z->net)
{
    locker_status status;
    int tries = 0;
    do {
        b->delete_rc = ZNONODE;
        status = lk_zk_look_unlocking(&b->look, 1, err);
        if (status != LOCKER_OK || !is_held(&b->look))
            break;
        if (b->look.outdated) {
            b->delete_rc = ZBADVERSION;
            return b->count > 0 ? status : lk_zk_look_describe(&b->look, &anybody, b->broken, err);
        }
        status = break_named_unlocking(b, err);
        tries++;
        /* who overtook is to be told of, so one holder at least has to be seen */
    } while (status == LOCKER_OK && is_overtaken(b->delete_rc) &&
             (b->count == 0 || b->delete_rc == ZBADVERSION) && (tries < BREAK_TRIES || !b->broken->held));
    return status;
}

locker_status lk_zk_break(void *self, const char *key, size_t key_len, const locker_break_options *only,
                          int64_t until, locker_info *broken, locker_error *err)
{
    breaking b = {.only = only, .broken = broken};
    lk_zk_look_begin(&b.look, self, key, key_len, until);
    locker_status status = look_and_break_unlocking(&b, err);
    if (status == LOCKER_OK && !is_held(&b.look) && b.count == 0)
        status = lk_invalid(err, "nobody holds '%s'", key);
    else if (status == LOCKER_OK && (b.count == 0 || b.delete_rc == ZBADVERSION))
        status = locker_error_set(
            err, LOCKER_BUSY, 0,
            "'%s' got a new holder during each attempt to break it; run show, then break again", key);
    lk_zk_look_end(&b.look);
    return status;
}
