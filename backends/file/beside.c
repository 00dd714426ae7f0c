/* beside.c: several hold one lock file. Each has a read lock of byte 0, so that nobody has the file for itself, and no older
 * release either; and a byte of its own, which says that it lives, and of a permit which slot it has: an own byte for each grant,
 * since who was broken and is stopped goes on to have its byte, while its slot is another's. Who holds or waits for a permit has
 * a read lock of the byte for their number, so this is known as long as anybody does, and no longer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>
#include <stdlib.h>

#include "beside.h"
#include "lk_time.h"
#include "lockfile.h"

enum {
    GATE = 4,
    USE = 1 << 21, /* and the number of permits */
    TOKEN_BITS = 40,
    YIELDS = 64,
    SLEEP = 200 * LK_US
};
_Static_assert(sizeof(off_t) == 8, "the bytes of holders lie beyond 32 bits: define _FILE_OFFSET_BITS as 64");
static const off_t holders_at = (off_t)1 << 61;
static const off_t slot_size = (off_t)1 << TOKEN_BITS;
static const off_t holders_size = (off_t)LOCKER_PERMITS_MAX << TOKEN_BITS;

int lk_file_gate_enter(int fd, bool patient)
{
    const int64_t until = lk_time_of(CLOCK_MONOTONIC) + (patient ? 2000 : 50) * LK_MS;
    const struct timespec pause = lk_time_spec(SLEEP);
    for (int i = 0;; i++) {
        const int code = lk_file_range_lock(fd, F_WRLCK, GATE);
        if (code != EAGAIN || lk_time_of(CLOCK_MONOTONIC) > until)
            return code;
        if (i < YIELDS)
            sched_yield();
        else
            ppoll(NULL, 0, &pause, NULL);
    }
}

void lk_file_gate_leave(int fd)
{
    (void)lk_file_range_lock(fd, F_UNLCK, GATE);
}

int32_t lk_file_use_of_others(int fd)
{
    const off_t found = lk_file_range_find(fd, USE + 1, LOCKER_PERMITS_MAX);
    if (found < 0)
        return found == LK_FILE_NOWHERE ? 0 : LK_FILE_USE_UNKNOWN;
    return (int32_t)(found - USE);
}

int lk_file_use_join(int fd, int32_t permits, int32_t *in_use)
{
    *in_use = lk_file_use_of_others(fd);
    if (*in_use == 0) {
        const short held = lk_file_range_met(fd, F_WRLCK, 0);
        const short met = held == F_UNLCK ? lk_file_range_met(fd, F_WRLCK, 1) : held;
        if (met == LK_FILE_MET_UNKNOWN)
            *in_use = LK_FILE_USE_UNKNOWN;
        if (met != F_UNLCK)
            return EBUSY;
    } else if (*in_use != permits) {
        return EBUSY;
    }
    return lk_file_range_lock(fd, F_RDLCK, USE + permits);
}

off_t lk_file_holder_byte(int32_t slot, uint64_t token)
{
    return holders_at + slot * slot_size + (off_t)(token & ((UINT64_C(1) << TOKEN_BITS) - 1));
}

/* Return true if the byte belongs to a broken holder. */
static bool is_broken_byte(const lk_file_broken *broken, off_t byte)
{
    for (size_t i = 0; i < broken->count; i++)
        if (broken->bytes[i] == byte)
            return true;
    return false;
}

/* Return a byte of this range that a holder has; NOWHERE, or SOMEWHERE. The kernel names one of several, not always the first. */
static off_t find_held(int fd, off_t start, off_t length, const lk_file_broken *broken)
{
    const off_t found = lk_file_range_find(fd, start, length);
    if (found < 0 || !is_broken_byte(broken, found))
        return found;
    const off_t before = find_held(fd, start, found - start, broken);
    return before != LK_FILE_NOWHERE ? before : find_held(fd, found + 1, start + length - found - 1, broken);
}

/* Return one of the slots from `first` to `end` - 1 that a holder has; NOWHERE; or SOMEWHERE, if that can't be told or no query is left. */
static int32_t find_taken(int fd, int32_t first, int32_t end, const lk_file_broken *broken, int32_t *queries)
{
    if (--*queries < 0)
        return LK_FILE_SOMEWHERE;
    const off_t found = find_held(fd, holders_at + first * slot_size, (end - first) * slot_size, broken);
    return found < 0 ? (int32_t)found : (int32_t)((found - holders_at) / slot_size);
}

/* Return a free slot of a range in which the slot `taken` is held; -1: there is none, or that can't be told. Each half is first
 * asked for as a whole, and each answer names another holder. So the search takes one query for each holder in the range at most,
 * and few where a large part of the range is free. */
static int32_t search(int fd, int32_t first, int32_t end, int32_t taken, const lk_file_broken *broken,
                      int32_t *queries)
{
    if (end - first < 2)
        return -1;
    const int32_t middle = first + (end - first) / 2;
    const bool low = taken < middle;
    const int32_t other =
        low ? find_taken(fd, middle, end, broken, queries) : find_taken(fd, first, middle, broken, queries);
    if (other == LK_FILE_NOWHERE)
        return low ? middle : first;
    if (other == LK_FILE_SOMEWHERE)
        return -1;
    const int32_t found = search(fd, first, middle, low ? taken : other, broken, queries);
    return found >= 0 ? found : search(fd, middle, end, low ? other : taken, broken, queries);
}

/* Return a slot from `first` to `end` - 1 that no holder has. -1: there is none, or the kernel cannot say. `*queries`: how many
 * queries of the kernel are left. */
static int32_t find_free_slot(int fd, int32_t first, int32_t end, const lk_file_broken *broken,
                              int32_t *queries)
{
    const int32_t taken = find_taken(fd, first, end, broken, queries);
    if (taken == LK_FILE_NOWHERE)
        return first;
    return taken == LK_FILE_SOMEWHERE ? -1 : search(fd, first, end, taken, broken, queries);
}

bool lk_file_is_shared(int fd, const lk_file_broken *broken)
{
    return find_held(fd, holders_at, holders_size, broken) != LK_FILE_NOWHERE;
}

/* ---- the slot of a permit ----
 *
 * The kernel knows which holder has a slot, but each query walks through all locks of the file. With 1,500 permits held, a query for
 * each slot would take about 100 ms. So the search begins with a hint, which the kernel confirms with one query. The search leaves
 * out the slots that this instance holds, and searches the other slots by halves. */

void lk_file_permit_note(lk_file *self, const lk_file_claim *c, int32_t slot)
{
    LK_WRITE(self->vacant[c->hash % LK_FILE_BUSY_NAMES], (uint64_t)c->hash << 32 | (uint32_t)slot);
}

/* Return the slot that was noted for the claim's key; -1: none was, or there are fewer slots. */
static int32_t noted(const lk_file *self, const lk_file_claim *c)
{
    const uint64_t note = LK_READ(self->vacant[c->hash % LK_FILE_BUSY_NAMES]);
    const uint32_t slot = (uint32_t)note;
    return note >> 32 == c->hash && slot < (uint32_t)c->claim->permits ? (int32_t)slot : -1;
}

/* Mark each slot in whose byte a grant of this instance is known to be. `own` has a byte for each. */
static void mark_own(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken, char *own)
{
    lk_mutex_lock(&self->mutex);
    LK_EACH(lk_file_claim, other, link, &self->claims) {
        const locker_claim *const grant = other->claim;
        if (other->state == LK_FILE_HELD && grant->permits == c->claim->permits &&
            lk_file_id_is(&other->id, &c->id) &&
            !is_broken_byte(broken, lk_file_holder_byte(grant->slot, grant->token)))
            own[grant->slot] = 1;
    }
    lk_mutex_unlock(&self->mutex);
}

int32_t lk_file_permit_find(lk_file *self, const lk_file_claim *c, const lk_file_broken *broken,
                            int32_t queries)
{
    const int32_t permits = c->claim->permits, hint = noted(self, c);
    if (hint >= 0 && find_free_slot(c->fd, hint, hint + 1, broken, &queries) == hint)
        return hint;
    char *const own = calloc((size_t)permits, 1);
    if (own == NULL)
        return find_free_slot(c->fd, 0, permits, broken, &queries);
    mark_own(self, c, broken, own);
    int32_t found = -1;
    for (int32_t first = 0, end; first < permits && found < 0; first = end + 1) {
        for (end = first; end < permits && !own[end];)
            end++;
        if (end > first)
            found = find_free_slot(c->fd, first, end, broken, &queries);
    }
    free(own);
    return found;
}
