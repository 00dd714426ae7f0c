/* claim.c: claims, and the keys that they are to. How long both last is modelled in models/handover.pml. */
#include <string.h>

#include "claim.h"
#include "wake.h"

/* A function of its own, or compilers turn malloc and memset into calloc, which glibc before 2.41 serves
 * without its per-thread cache: 25 ns more for each block. */
__attribute__((noinline)) static void *zero(void *memory, size_t size)
{
    return memory == NULL ? NULL : memset(memory, 0, size);
}

/* Nobody else knows it yet. */
LK_UNCHECKED lk_claim *lk_claim_new(const locker *l, const char *key, size_t key_len)
{
    const size_t start = sizeof(lk_claim) + l->driver->claim_size;
    lk_claim *claim = zero(malloc(start + key_len + 1), start);
    if (claim == NULL)
        return NULL;
    char *text = (char *)claim + start;
    memcpy(text, key, key_len);
    text[key_len] = '\0';
    claim->pub.key = text;
    claim->pub.data = claim->data;
    claim->pub.key_len = key_len;
    claim->pub.key_hash = locker_key_hash(key, key_len);
    claim->refs = 2; /* the driver's side, and the call's, which becomes its handle's */
    claim->heap_at = LK_NOT_IN_HEAP;
    atomic_init(&claim->valid_until, LOCKER_NEVER);
    atomic_init(&claim->suspect_at, LOCKER_NEVER);
    return claim;
}

void lk_claim_free(const locker *l, lk_claim *claim)
{
    if (claim->pub.owner != l->owner && claim->pub.owner != claim->owner)
        free((char *)(uintptr_t)claim->pub.owner);
    free(claim->owner);
    free(claim);
}

/* The clock is read before the deadline, and whoever extends that reads the clock once more behind it. So a LOST that is told
 * stays true: he sees that the deadline had passed by then. */
locker_state lk_claim_state(const locker *l, const lk_claim *claim)
{
    const uint8_t phase = LK_READ(claim->phase);
    if (phase == LK_LOST)
        return LOCKER_STATE_LOST;
    if (phase == LK_GONE)
        return LOCKER_STATE_UNLOCKED;
    if (LK_READ(claim->valid_until) == LOCKER_NEVER)
        return LOCKER_STATE_HELD;
    const int64_t now = lk_now(l);
    if (now >= LK_READ(claim->valid_until))
        return LOCKER_STATE_LOST;
    const bool suspect = now >= LK_READ(claim->suspect_at) || LK_READ(l->out_of_reach);
    return claim->pub.renewed && suspect ? LOCKER_STATE_SUSPECT : LOCKER_STATE_HELD;
}

const char *lk_lost_why_locked(const locker *l, const lk_claim *claim)
{
    (void)l;
    if (claim->lost_why != NULL)
        return claim->lost_why;
    return claim->pub.renewed ? "its lease could not be renewed in time"
                              : "its lease ended, and its renewal was off";
}

/* The claim that the key lives in. */
static lk_claim *home_of(lk_table_link *entry)
{
    return LK_CONTAINER(entry, lk_claim, own_key.entry);
}

lk_key *lk_key_find_locked(const locker *l, const locker_claim *of)
{
    LK_TABLE_EACH_OF(entry, &l->keys, of->key_hash) {
        const locker_claim *const home = &home_of(entry)->pub;
        if (home->key_hash == of->key_hash && home->key_len == of->key_len &&
            memcmp(home->key, of->key, of->key_len) == 0)
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
        lk_list_init(&key->sharers);
        lk_table_add(&l->keys, &key->entry, claim->pub.key_hash);
    }
    key->users++;
    claim->key = key;
}

/* One claim less. Frees the one that the key lived in, when it waited for that. */
static void drop_key_locked(locker *l, lk_claim *claim) LK_REQUIRES(l->mutex)
{
    lk_key *const key = claim->key;
    lk_claim *const home = home_of(&key->entry);
    if (--key->users > 0)
        return;
    lk_table_remove(&l->keys, &key->entry);
    if (home != claim && home->refs == 0)
        lk_claim_free(l, home);
}

void lk_promote_locked(locker *l, lk_key *key)
{
    lk_claim *const claim = lk_fifo_first_locked(l, key);
    const bool held = key->holder != NULL && (l->driver->caps & LOCKER_CAP_QUEUE) == 0;
    if (claim == NULL || claim->busy_with != LK_IDLE || held || key->contender != NULL)
        return;
    lk_list_remove(&claim->link);
    LK_WRITE(claim->phase, LK_CONTENDING);
    key->contender = claim;
    lk_wake_call_locked(l, claim->wait);
}

void lk_key_free_locked(locker *l, lk_claim *claim)
{
    lk_key *const key = claim->key;
    if (key->holder == claim)
        key->holder = NULL;
    else if (lk_list_linked(&claim->among))
        lk_list_remove(&claim->among);
    lk_promote_locked(l, key);
}

void lk_claim_unref_locked(locker *l, lk_claim *claim)
{
    if (--claim->refs > 0)
        return;
    if (claim->key != NULL)
        drop_key_locked(l, claim);
    if (claim->own_key.users == 0)
        lk_claim_free(l, claim);
}

void lk_claim_over_locked(locker *l, lk_claim *claim)
{
    if (claim->refs == 2) {
        drop_key_locked(l, claim);
        claim->key = NULL;
        if (claim->own_key.users == 0)
            atomic_store_explicit(&claim->alone, true, memory_order_release);
    }
    lk_claim_unref_locked(l, claim);
}
