/* plant.c: faults planted in the mock's own service; see plant.h. */
#include "plant.h"

#include <string.h>

#include "internal.h"

locker_status __real_lk_mock_attempt_locked(locker_mock *m, lk_mock_host *host, locker_claim *claim,
                                            locker_error *err) LK_REQUIRES(m->mutex);
locker_status __wrap_lk_mock_attempt_locked(locker_mock *m, lk_mock_host *host, locker_claim *claim,
                                            locker_error *err) LK_REQUIRES(m->mutex);
locker_status __real_lk_mock_end_locked(locker_mock *m, locker_claim *claim, bool arrives)
    LK_REQUIRES(m->mutex);
locker_status __wrap_lk_mock_end_locked(locker_mock *m, locker_claim *claim, bool arrives)
    LK_REQUIRES(m->mutex);
locker_status __real_lk_mock_extend_locked(locker_mock *m, locker_claim *grant, int64_t *until)
    LK_REQUIRES(m->mutex);
locker_status __wrap_lk_mock_extend_locked(locker_mock *m, locker_claim *grant, int64_t *until)
    LK_REQUIRES(m->mutex);

static const char *const names[] = {
    "",
    "two-holders",    /* a lock that is held is given to another */
    "same-token",     /* a grant has an old token */
    "same-slot",      /* a permit has a slot that another holder has */
    "reader-inside",  /* one that shares gets a key that another holds alone */
    "long-lease",     /* the holder is told of a longer lease than the service keeps */
    "blind-release",  /* a release answers OK without looking */
    "deaf-release",   /* a release does nothing, and answers OK */
    "blind-renewal"}; /* a renewal of what is another's is confirmed */
enum planted {
    NOTHING,
    TWO_HOLDERS,
    SAME_TOKEN,
    SAME_SLOT,
    READER_INSIDE,
    LONG_LEASE,
    BLIND_RELEASE,
    DEAF_RELEASE,
    BLIND_RENEWAL,
    COUNT
};

static enum planted planted;

bool plant(const char *name)
{
    for (int i = 1; i < COUNT; i++) {
        if (strcmp(name, names[i]) != 0)
            continue;
        planted = (enum planted)i;
        return true;
    }
    return false;
}

locker_status __wrap_lk_mock_attempt_locked(locker_mock *m, lk_mock_host *host, locker_claim *claim,
                                            locker_error *err)
{
    const locker_status status = __real_lk_mock_attempt_locked(m, host, claim, err);
    if ((planted == TWO_HOLDERS && status == LOCKER_BUSY && !claim->will_wait) ||
        (planted == READER_INSIDE && status == LOCKER_BUSY && claim->mode == LOCKER_SHARED)) {
        claim->token = lk_mock_token_locked(m);
        claim->valid_until = LOCKER_NEVER;
        return LOCKER_OK;
    }
    if (planted == SAME_TOKEN && status == LOCKER_OK)
        claim->token = 1;
    if (planted == SAME_SLOT && status == LOCKER_OK)
        claim->slot = 0;
    if (planted == LONG_LEASE && status == LOCKER_OK && claim->valid_until != LOCKER_NEVER)
        claim->valid_until += claim->ttl_ns;
    return status;
}

locker_status __wrap_lk_mock_end_locked(locker_mock *m, locker_claim *claim, bool arrives)
{
    const locker_status status = __real_lk_mock_end_locked(m, claim, arrives && planted != DEAF_RELEASE);
    return planted == BLIND_RELEASE || planted == DEAF_RELEASE ? LOCKER_OK : status;
}

locker_status __wrap_lk_mock_extend_locked(locker_mock *m, locker_claim *grant, int64_t *until)
{
    const locker_status status = __real_lk_mock_extend_locked(m, grant, until);
    if (planted != BLIND_RENEWAL || status == LOCKER_OK)
        return status;
    *until = lk_mock_now(m) + grant->ttl_ns;
    return LOCKER_OK;
}
