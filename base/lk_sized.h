/* lk_sized.h: structs of programs that were compiled with another release's headers. Such a struct tells its size.
 * Members are only ever appended, and zero in one means its default: so what a smaller one lacks is zero, and what a
 * larger one has behind ours must be. */
#pragma once

#include <string.h>

#include "lk_error.h"

/** What no struct of a later release is larger than: beyond it the size is garbage. */
enum { LK_SIZE_MOST = 4096 };

/** Whether a release's struct has this size. `least` is where the first member stands that need not be there. */
static inline bool lk_sized_is(size_t size, size_t least)
{
    return size >= least && size <= LK_SIZE_MOST && size % sizeof(void *) == 0;
}

/** The size that a public struct has had since 0.1, in a part's sizes.c. `last` is its last member. On 64-bit systems;
 * elsewhere the sizes follow from the same members. */
#if UINTPTR_MAX == UINT64_MAX
#define LK_SIZED_PIN(type, last, since_0_1)                                                                  \
    _Static_assert(sizeof(type) == (since_0_1), #type " has a size that is not in sizes.c");                 \
    _Static_assert(sizeof(type) % 8 == 0 &&                                                                  \
                       offsetof(type, last) + sizeof(((const type *)0)->last) == sizeof(type),               \
                   #type " doesn't end on 8 bytes without padding")
#else
#define LK_SIZED_PIN(type, last, since_0_1) _Static_assert(sizeof(type) > 0, #type)
#endif

/** Copy a caller's struct into `own`. CONFIG: a member is set that we lack. INVALID: a size of no release. */
static inline locker_status lk_sized_take(void *own, size_t own_size, const void *given, size_t size,
                                          size_t least, const char *type, locker_error *err)
{
    if (!lk_sized_is(size, least)) {
        (void)lk_invalid(err,
                         "the size of %s is %zu, a size of no release (of this release: %zu); set it "
                         "to sizeof(%s), as its _INIT does",
                         type, size, own_size, type);
        return LOCKER_INVALID; /* said here, so that static analysis knows that own is not set */
    }
    for (size_t i = own_size; i < size; i++) {
        if (((const char *)given)[i] != 0) {
            (void)lk_misconfigured(err,
                                   "%s sets a member that liblocker %s does not have (byte %zu); "
                                   "install the version that the program was compiled with",
                                   type, LOCKER_VERSION_STRING, i);
            return LOCKER_CONFIG;
        }
    }
    memset(own, 0, own_size);
    memcpy(own, given, size < own_size ? size : own_size);
    return LOCKER_OK;
}

/** For those whose first member is `size`, from `optional` on with members that need not be there. */
#define LK_SIZED_TAKE(type, own, given, optional, err)                                                       \
    lk_sized_take(own, sizeof(type), given, *(const size_t *)(const void *)(given),                          \
                  offsetof(type, optional), #type, err)

/** Write an answer to a caller's struct: what it has room for, zeros behind ours, its own size in front. */
static inline void lk_sized_give(void *to, size_t size, const void *own, size_t own_size)
{
    memset(to, 0, size);
    memcpy(to, own, size < own_size ? size : own_size);
    memcpy(to, &size, sizeof size);
}
