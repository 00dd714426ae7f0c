/* checker_claims.c: the driver's copies of claims. Each lies at the end of pages of its own, with an
 * inaccessible page behind; when the driver lets go of it, its pages become inaccessible too, and are used
 * again only after all others. SIGSEGV tells then which claim was touched. */
#include "checker_internal.h"

#include <signal.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <sys/mman.h>
#include <unistd.h>

/* How many claims a driver may have at once. */
enum { SLOTS = 1 << 14 };

/* What the checker keeps in core's claim. */
struct outer {
    locker_claim *inner LK_GUARDED;
};

/* Constant after lk_checker_claims_init(). */
static char *region;
static size_t page, data_size, slot_size, own_size, claim_size; /* own_size: where the driver's bytes begin */

static lk_record *records LK_GUARDED;
static uint32_t *queue LK_GUARDED; /* of free slots, a ring */
static size_t queue_head LK_GUARDED;
static size_t queue_len LK_GUARDED;

/* ------------------------------------------------------------------ slots ---- */

/* Before any thread of a test. */
LK_UNCHECKED bool lk_checker_claims_init(void)
{
    page = (size_t)sysconf(_SC_PAGESIZE);
    own_size = (sizeof(locker_claim) + 15) / 16 * 16;
    claim_size = own_size + (lk_checker_tested->claim_size + 15) / 16 * 16;
    data_size = (claim_size + LOCKER_KEY_MAX + LOCKER_OWNER_MAX + 2 + page - 1) / page * page;
    slot_size = data_size + page;
    region = mmap(NULL, SLOTS * slot_size, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    records = calloc(SLOTS, sizeof *records);
    queue = calloc(SLOTS, sizeof *queue);
    if (region == MAP_FAILED || records == NULL || queue == NULL)
        return false;
    for (uint32_t i = 0; i < SLOTS; i++)
        queue[i] = i;
    queue_len = SLOTS;
    return true;
}

/* The slot that the address is in; SLOTS: none. */
static size_t slot_of(const void *address)
{
    size_t offset = (size_t)((const char *)address - region);
    return (const char *)address < region || offset >= SLOTS * slot_size ? SLOTS : offset / slot_size;
}

static locker_claim *claim_in(size_t slot)
{
    return (locker_claim *)(void *)(region + slot * slot_size + data_size - claim_size);
}

lk_record *lk_checker_record_locked(const locker_claim *inner)
{
    size_t slot = slot_of(inner);
    return slot == SLOTS || claim_in(slot) != inner ? NULL : &records[slot];
}

/* ------------------------------------------------------------------ copies ---- */

/* The key and the owner's label are copied too, to the slot's beginning: they go with the claim. */
static locker_claim *fill(size_t slot, const locker_claim *outer)
{
    char *key = region + slot * slot_size, *owner = key + LOCKER_KEY_MAX + 1;
    locker_claim *inner = claim_in(slot);
    *inner = *outer;
    inner->key = memcpy(key, outer->key, outer->key_len + 1);
    inner->owner = memcpy(owner, outer->owner, strlen(outer->owner) + 1);
    inner->data = (char *)inner + own_size;
    return inner;
}

static locker_claim *make_locked(lk_checked *w, locker_claim *outer) LK_REQUIRES(lk_checker_mutex)
{
    if (queue_len == 0)
        return NULL;
    const size_t slot = queue[queue_head];
    if (mprotect(region + slot * slot_size, data_size, PROT_READ | PROT_WRITE) != 0)
        return NULL;
    queue_head = (queue_head + 1) % SLOTS;
    queue_len--;
    lk_record *record = &records[slot];
    *record = (lk_record){.instance = w,
                          .outer = outer,
                          .inner = fill(slot, outer),
                          .token_before = lk_checker_last_token_locked(w, outer->key)};
    (void)strncat(record->key, outer->key, sizeof record->key - 1);
    return record->inner;
}

locker_claim *lk_checker_inner(lk_checked *w, locker_claim *outer)
{
    struct outer *ours = outer->data;
    locker_claim *inner;
    lk_mutex_lock(&lk_checker_mutex);
    if (ours->inner == NULL)
        ours->inner = make_locked(w, outer);
    inner = ours->inner;
    lk_mutex_unlock(&lk_checker_mutex);
    return inner;
}

bool lk_checker_is_seen(const locker_claim *outer)
{
    const struct outer *ours = outer->data;
    lk_mutex_lock(&lk_checker_mutex);
    const bool seen = ours->inner != NULL;
    lk_mutex_unlock(&lk_checker_mutex);
    return seen;
}

void lk_checker_each_locked(void (*look)(const lk_record *record, void *context), void *context)
{
    for (size_t i = 0; i < SLOTS; i++)
        if (records[i].instance != NULL)
            look(&records[i], context);
}

size_t lk_checker_count(const lk_checked *w)
{
    size_t count = 0;
    lk_mutex_lock(&lk_checker_mutex);
    for (size_t i = 0; i < SLOTS; i++)
        count += records[i].instance == w;
    lk_mutex_unlock(&lk_checker_mutex);
    return count;
}

void lk_checker_let_go(locker_claim *outer, const char *operation)
{
    struct outer *ours = outer->data;
    lk_mutex_lock(&lk_checker_mutex);
    const size_t slot = slot_of(ours->inner);
    ours->inner = NULL;
    lk_record *record = &records[slot];
    record->instance = NULL;
    record->let_go_by = operation;
    /* its contents are not needed, and next time they have to be zero */
    (void)madvise(region + slot * slot_size, data_size, MADV_DONTNEED);
    (void)mprotect(region + slot * slot_size, data_size, PROT_NONE);
    queue[(queue_head + queue_len++) % SLOTS] = (uint32_t)slot;
    lk_mutex_unlock(&lk_checker_mutex);
}

/* ------------------------------------------------------------------ the trap ---- */

static struct sigaction before;
static bool set;

/* On the thread that touched it, with the stack of the culprit beneath: the process ends here. The record is
 * read without the mutex, which this very thread may hold. */
LK_UNCHECKED static void touched(int number, siginfo_t *info, void *context)
{
    size_t slot = slot_of(info->si_addr);
    (void)context;
    if (slot < SLOTS) {
        const lk_record *record = &records[slot];
        char text[256];
        int length = snprintf(text, sizeof text, "contract: touched: the claim of '%s' was accessed %s%s\n",
                              record->key, record->instance != NULL ? "past claim_size" : "after ",
                              record->instance != NULL    ? ""
                              : record->let_go_by != NULL ? record->let_go_by
                                                          : "nothing");

        if (write(STDERR_FILENO, text, (size_t)length) < 0) {
            /* there is nobody to tell */
        }
    }
    (void)signal(number, SIG_DFL); /* returning repeats the access, which ends the process with a core dump */
}

void lk_checker_trap(void)
{
    struct sigaction action = {.sa_sigaction = touched, .sa_flags = SA_SIGINFO};
    set = sigaction(SIGSEGV, &action, &before) == 0;
}

void lk_checker_untrap(void)
{
    if (set)
        (void)sigaction(SIGSEGV, &before, NULL);
    set = false;
}

bool lk_checker_is_bounded(const locker_claim *claim)
{
    return lk_checker_tested->renew != NULL || !claim->renewed;
}
