/* keys.c: the keys in use, and the FIFO of each. */
#include <string.h>

#include "claim.h"
#include "keys.h"
#include "wake.h"

/* The claim that the key lives in. */
static lk_claim *home_of(lk_table_link *entry)
{
    return LK_CONTAINER(entry, lk_claim, own_key.entry);
}

static bool same_key(const locker_claim *a, const locker_claim *b)
{
    return a->key_hash == b->key_hash && a->key_len == b->key_len && memcmp(a->key, b->key, a->key_len) == 0;
}

lk_key *lk_key_find_locked(const locker *l, const locker_claim *of)
{
    LK_TABLE_EACH_OF(entry, &l->keys, of->key_hash) {
        if (same_key(&home_of(entry)->pub, of))
            return &home_of(entry)->own_key;
    }
    return NULL;
}

void lk_key_use_locked(locker *l, lk_claim *claim)
{
    lk_key *key = lk_key_find_locked(l, &claim->pub);
    if (key == NULL) {
        key = &claim->own_key;
        lk_list_init(&key->fifo);
        lk_table_add(&l->keys, &key->entry, claim->pub.key_hash);
    }
    key->users++;
    claim->key = key;
}

void lk_key_drop_locked(locker *l, lk_claim *claim)
{
    lk_key *const key = claim->key;
    lk_claim *const home = home_of(&key->entry);
    if (--key->users > 0)
        return;
    lk_table_remove(&l->keys, &key->entry);
    if (home != claim && home->refs == 0)
        lk_claim_free(l, home);
}

void lk_fifo_append_locked(locker *l, lk_claim *claim)
{
    (void)l;
    lk_phase_set_locked(claim, LK_QUEUED);
    lk_list_append(&claim->key->fifo, &claim->link);
}

void lk_fifo_remove_locked(locker *l, lk_claim *claim)
{
    (void)l;
    lk_list_remove(&claim->link);
}

void lk_promote_locked(locker *l, lk_key *key)
{
    lk_claim *const claim = lk_fifo_first_locked(l, key);
    if (claim == NULL || claim->busy_with != LK_IDLE || key->holder != NULL || key->contender != NULL)
        return;
    lk_fifo_remove_locked(l, claim);
    lk_phase_set_locked(claim, LK_CONTENDING);
    key->contender = claim;
    lk_wake_call_locked(l, claim->wait);
}
