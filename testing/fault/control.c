/* control.c: what a test asks of a locker that was opened with `fault+`; see fault.h. */
#include <stdio.h>
#include <string.h>

#include "internal.h"

static lk_fault_instance *faulty(const locker *l)
{
    void *self = NULL;
    return l != NULL && lk_fault_is_table(locker_driver_of(l, &self)) ? self : NULL;
}

static locker_status not_ours(locker_error *err)
{
    return locker_error_set(err, LOCKER_INVALID, 0,
                            "the locker has no faults: open it with " LK_FAULT_PREFIX "SCHEME:...");
}

locker_status locker_fault_on(locker *l, const locker_fault *fault, locker_error *err)
{
    lk_fault_instance *f = faulty(l);
    if (f == NULL)
        return not_ours(err);
    lk_mutex_lock(&f->mutex);
    const locker_status status = lk_script_add(f->script, fault, err);
    lk_mutex_unlock(&f->mutex);
    return status;
}

locker_status locker_fault_script(locker *l, const char *text, locker_error *err)
{
    lk_fault_instance *f = faulty(l);
    if (f == NULL)
        return not_ours(err);
    lk_mutex_lock(&f->mutex);
    const locker_status status = lk_script_parse(f->script, text, err);
    lk_mutex_unlock(&f->mutex);
    return status;
}

locker_status locker_fault_forget(locker *l)
{
    lk_fault_instance *f = faulty(l);
    if (f == NULL)
        return LOCKER_INVALID;
    lk_mutex_lock(&f->mutex);
    lk_script_clear(f->script);
    lk_mutex_unlock(&f->mutex);
    return LOCKER_OK;
}

locker_status locker_fault_reconnect(locker *l)
{
    lk_fault_instance *f = faulty(l);
    if (f == NULL)
        return LOCKER_INVALID;
    lk_mutex_lock(&f->mutex);
    if (f->cut) {
        f->cut = false;
        f->core->suspect(f->core, f->out_of_reach);
    }
    lk_mutex_unlock(&f->mutex);
    return LOCKER_OK;
}

int64_t locker_fault_acted(locker *l)
{
    lk_fault_instance *f = faulty(l);
    if (f == NULL)
        return -1;
    lk_mutex_lock(&f->mutex);
    const int64_t acted = f->acted;
    lk_mutex_unlock(&f->mutex);
    return acted;
}

size_t locker_fault_verify(locker *l, char *text, size_t size)
{
    lk_fault_instance *f = faulty(l);
    size_t count = 0, used = 0;
    if (size > 0)
        text[0] = '\0';
    if (f == NULL)
        return 0;
    lk_mutex_lock(&f->mutex);
    char line[LOCKER_KEY_MAX + 160];
    for (; lk_script_unused(f->script, count, line, sizeof line); count++) {
        if (used < size)
            used += (size_t)snprintf(text + used, size - used, "%sa fault was not used up: %s",
                                     count > 0 ? "\n" : "", line);
    }
    lk_mutex_unlock(&f->mutex);
    return count;
}
