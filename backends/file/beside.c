/* beside.c: several hold one lock file. Each has a read lock of byte 0, so that nobody has the file for itself, and no older
 * release either; and a byte of its own, which says that it lives, and of a permit which slot it has: an own byte for each grant,
 * since who was broken and is stopped goes on to have its byte, while its slot is another's. Who holds or waits for a permit has
 * a read lock of the byte for their number, so this is known as long as anybody does, and no longer. */
#include <errno.h>
#include <fcntl.h>
#include <poll.h>
#include <sched.h>

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
    const bool as_lock = *in_use == 0 && (lk_file_range_locked(fd, 0) || lk_file_range_locked(fd, 1));
    if (as_lock || (*in_use != 0 && *in_use != permits))
        return EBUSY;
    return lk_file_range_lock(fd, F_RDLCK, USE + permits);
}

off_t lk_file_holder_byte(int32_t slot, uint64_t token)
{
    return holders_at + slot * slot_size + (off_t)(token & ((UINT64_C(1) << TOKEN_BITS) - 1));
}

static bool is_broken(const lk_file_broken *broken, off_t byte)
{
    for (size_t i = 0; i < broken->count; i++)
        if (broken->bytes[i] == byte)
            return true;
    return false;
}

/* Whether one of these bytes is a holder's. The kernel tells of one of them, and not of the first. */
static bool is_held(int fd, off_t start, off_t length, const lk_file_broken *broken)
{
    const off_t found = lk_file_range_find(fd, start, length);
    if (found < 0)
        return found != LK_FILE_NOWHERE;
    return !is_broken(broken, found) || is_held(fd, start, found - start, broken) ||
           is_held(fd, found + 1, start + length - found - 1, broken);
}

int32_t lk_file_slot_find(int fd, int32_t permits, const lk_file_broken *broken)
{
    for (int32_t slot = 0; slot < permits; slot++)
        if (!is_held(fd, holders_at + slot * slot_size, slot_size, broken))
            return slot;
    return -1;
}

bool lk_file_is_shared(int fd, const lk_file_broken *broken)
{
    return is_held(fd, holders_at, holders_size, broken);
}
