/* place.c: a place's life, its steps, and what becomes known of its key. */
#include <assert.h>
#include <stdlib.h>
#include <string.h>

#include "place.h"

/* ---------------------------------------------------------------- its step ---- */

#define STEP(name) (1u << LK_ETCD_##name)

/* The steps that may follow each step. FAILED and GONE may follow all of them. */
static const unsigned followers[LK_ETCD_STEPS] = {
    [LK_ETCD_NOTHING] = STEP(NOTHING) | STEP(ENTERED) | STEP(FIRST) | STEP(TAKEN) | STEP(OTHER),
    [LK_ETCD_ENTERED] = STEP(ENTERED) | STEP(BEHIND) | STEP(FIRST),
    [LK_ETCD_BEHIND] = STEP(BEHIND) | STEP(ENTERED),
    [LK_ETCD_FIRST] = STEP(FIRST) | STEP(ENTERED), /* the next question may show another key ahead */
};

void lk_etcd_place_step(lk_etcd_place *p, lk_etcd_step to)
{
    const bool follows = to == LK_ETCD_FAILED || to == LK_ETCD_GONE || (followers[p->step] >> to & 1) != 0;
    assert(follows);
    (void)follows;
    p->step = to;
}

/* ---------------------------------------------------------------- its name ---- */

/* Take a free name, or make one. Until it is compacted, etcd reads the names of deleted keys too, so a
 * range costs as much as the lock ever had names. So a name is used again once no late request can make
 * its key: all requests that make the key, and the delete, were answered. A client that watches an earlier
 * key of the name, or names it by its revision, does not take a later key for it. */
static uint64_t take_name_locked(lk_etcd *e) LK_REQUIRES(*e->net)
{
    return e->names_len > 0 ? e->names[--e->names_len] : ++e->last_name;
}

/* Write sixteen hexadecimal digits. snprintf() took a twentieth of an attempt. */
static void write_hex(char *out, uint64_t number)
{
    for (int i = 15; i >= 0; i--, number >>= 4)
        out[i] = "0123456789abcdef"[number & 15];
}

/* Keep the name for another place, if no late request can make its key. Without memory the name is lost. */
static void give_name_locked(lk_etcd *e, const lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    if (p->spent || p->created != 0 || lk_etcd_may_come(p->ask))
        return;
    if (e->names_len == e->names_room) {
        const size_t room = e->names_room > 0 ? 2 * e->names_room : 16;
        uint64_t *const names = realloc(e->names, room * sizeof *names);
        if (names == NULL)
            return;
        e->names = names;
        e->names_room = room;
    }
    e->names[e->names_len++] = p->number;
}

/* ---------------------------------------------------------------- its beginning ---- */

lk_etcd_place *lk_etcd_place_new_locked(lk_etcd *e, locker_claim *claim, const lk_etcd_key *base,
                                        lk_etcd_lease *lease)
{
    const size_t room = base->len + LK_ETCD_NAME_MAX;
    lk_etcd_place *p = calloc(1, sizeof *p + base->len + 1 + room + room);
    lk_etcd_key key;
    if (p == NULL)
        return NULL;
    (void)strcpy(p->base, base->text);
    p->number = take_name_locked(e);
    write_hex(p->id, e->id);
    write_hex(p->id + LK_ETCD_ID_LEN / 2, p->number);
    memcpy(p->id_end, p->id, LK_ETCD_ID_LEN);
    p->id_end[LK_ETCD_ID_LEN] = ' ' + 1;
    p->claim = claim;
    p->mode = claim->mode;
    p->permits = claim->permits;
    p->slot = -1;
    p->want = claim->will_wait ? LK_ETCD_WAIT : LK_ETCD_TRY;
    p->ahead.place = p->own.place = p;
    p->cap = LOCKER_NEVER;
    lk_etcd_record_write(p->id, lk_etcd_unix_ms(e, claim->asked_at), claim->owner, p->record);
    lk_etcd_place_key(p->base, p->mode, p->permits, p->id, &key);
    p->key.data = (uint8_t *)p->base + base->len + 1;
    lk_etcd_place_name(p, &key);
    p->predecessor.data = p->key.data + room;
    p->lease = lease;
    lk_list_append(&lease->places, &p->link);
    return p;
}

void lk_etcd_place_name(lk_etcd_place *p, const lk_etcd_key *key)
{
    memcpy(p->key.data, key->text, key->len);
    p->key.len = key->len;
}

/* ---------------------------------------------------------------- its predecessor ---- */

void lk_etcd_place_follow(lk_etcd_place *p, const ProtobufCBinaryData *key)
{
    p->predecessor.len = 0;
    if (key == NULL || key->len > strlen(p->base) + LK_ETCD_NAME_MAX)
        return;
    memcpy(p->predecessor.data, key->data, key->len);
    p->predecessor.len = key->len;
}

/* Return true if the key is that of our exclusive place with this number. */
static bool is_of(const lk_etcd *e, const lk_etcd_place *p, const ProtobufCBinaryData *key, uint64_t number)
{
    const size_t base = strlen(p->base);
    char id[LK_ETCD_ID_LEN];
    write_hex(id, e->id);
    write_hex(id + LK_ETCD_ID_LEN / 2, number);
    return key->len == base + 1 + LK_ETCD_ID_LEN && memcmp(key->data, p->base, base) == 0 &&
           key->data[base] == '/' && memcmp(key->data + base + 1, id, LK_ETCD_ID_LEN) == 0;
}

/* No key gets a smaller create revision than an existing key has. So if both keys are those that the
 * answers showed, no key is between them, and none was ahead of the predecessor. Revisions repeat if
 * servers lose their data. So the predecessor must have our name too, and no unanswered request may make
 * the place's own key again. */
bool lk_etcd_place_is_second_locked(lk_etcd *e, const lk_etcd_place *p)
{
    const lk_etcd_first *const first = lk_etcd_first_at(e, p->behind);
    return p->predecessor.len > 0 && p->permits == 0 && !p->spent && first->created == p->behind &&
           is_of(e, p, &p->predecessor, first->number);
}

/* ---------------------------------------------------------------- waking ---- */

void lk_etcd_place_tell_locked(lk_etcd *e, const lk_etcd_place *p)
{
    if (p->call != NULL)
        lk_etcd_call_done_locked(e->net, p->call);
    else if (p->claim != NULL && p->enrolled)
        e->svc->wake(e->svc, p->claim);
}

void lk_etcd_place_rest_locked(lk_etcd *e, lk_etcd_place *p)
{
    if (lk_list_linked(&p->turn))
        lk_list_remove(&p->turn);
    if (p->line == NULL || lk_etcd_in_flight(p->ask))
        return;
    const bool was_let_in = p->admission == LK_ETCD_LET_IN;
    p->line->inside -= was_let_in;
    if (was_let_in && !lk_list_empty(&p->line->waiting)) {
        e->line_stands = true;
        lk_etcd_keeper_by_locked(e->net, 0);
    }
    lk_line_settle(&e->lines, p->line);
    p->line = NULL;
    p->admission = LK_ETCD_NO_LINE;
}

void lk_etcd_place_vanish_locked(lk_etcd *e, lk_etcd_place *p, const char *why)
{
    const bool granted = p->granted_at != 0;
    lk_etcd_place_step(p, LK_ETCD_GONE);
    p->spent = true;
    p->created = 0;
    lk_etcd_flight_settled(&p->ask);
    lk_etcd_flight_settled(&p->move);
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    lk_etcd_place_rest_locked(e, p);
    p->granted_at = 0;
    if (granted && p->claim != NULL) {
        lk_list_remove(&p->more);
        e->svc->lease_lost(e->svc, p->claim, why);
    }
    lk_etcd_place_tell_locked(e, p);
}

/* Record the revision of the key's latest change. An unanswered move does nothing to a key that has
 * changed since. */
static void changed_at(lk_etcd_place *p, int64_t modified)
{
    if (modified != p->modified)
        lk_etcd_flight_settled(&p->move);
    p->modified = modified;
}

void lk_etcd_place_on_lease_locked(lk_etcd *e, lk_etcd_place *p, lk_etcd_lease *lease, int64_t modified)
{
    changed_at(p, modified);
    p->unsure = false;
    if (p->lease == lease)
        return;
    lk_list_remove(&p->link);
    p->lease = lease;
    lk_list_append(&lease->places, &p->link);
    if (p->granted_at != 0 && lk_etcd_lease_lasts(lease))
        e->svc->lease_extended(e->svc, p->claim, lk_time_earlier(lk_etcd_lease_until(lease), p->cap));
}

void lk_etcd_place_is_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__KeyValue *kv)
{
    if (p->created != kv->create_revision)
        lk_etcd_first_at(e, kv->create_revision)->created = 0;
    p->created = kv->create_revision;
    lk_etcd_flight_settled(&p->ask);
    LK_EACH(lk_etcd_lease, lease, link, &e->leases) {
        if (lease->id == kv->lease) {
            lk_etcd_place_on_lease_locked(e, p, lease, kv->mod_revision);
            return;
        }
    }
    changed_at(p, kv->mod_revision);
    p->unsure = e->remake = true; /* it is on a lease that we have forgotten: move it to another one */
    lk_etcd_keeper_by_locked(e->net, 0);
}

bool lk_etcd_place_owns(const lk_etcd_place *p, const LkEtcdPb__KeyValue *kv)
{
    return kv->create_revision == p->created &&
           (p->slot < 0 ||
            (kv->value.len > LK_ETCD_ID_LEN && memcmp(kv->value.data, p->id, LK_ETCD_ID_LEN) == 0));
}

void lk_etcd_place_shown_locked(lk_etcd *e, lk_etcd_place *p, const LkEtcdPb__Ranged *ranged)
{
    const LkEtcdPb__KeyValue *kv = ranged != NULL && ranged->n_kvs > 0 ? ranged->kvs[0] : NULL;
    if (kv != NULL && lk_etcd_place_owns(p, kv))
        lk_etcd_place_is_locked(e, p, kv);
    else
        lk_etcd_place_vanish_locked(e, p, "its key was deleted, or its lease has ended");
}

/* ---------------------------------------------------------------- its end ---- */

static bool is_wanted(const lk_etcd_place *p)
{
    return p->claim != NULL || p->requests > 0 || lk_list_linked(&p->more);
}

static void reap_locked(lk_etcd *e, lk_etcd_place *p) LK_REQUIRES(*e->net)
{
    if (is_wanted(p))
        return;
    lk_etcd_place_rest_locked(e, p);
    lk_etcd_unwatch_locked(e->net, &p->ahead.watcher);
    lk_etcd_unwatch_locked(e->net, &p->own.watcher);
    lk_list_remove(&p->link);
    give_name_locked(e, p);
    free(p);
    if (e->closer != NULL && lk_list_empty(&e->left))
        lk_etcd_call_done_locked(e->net, e->closer);
}

void lk_etcd_place_unref_locked(lk_etcd *e, lk_etcd_place *p)
{
    p->requests--;
    reap_locked(e, p);
}
