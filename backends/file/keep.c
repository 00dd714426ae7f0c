/* keep.c: keeps a grant over exec. Its locks are those of one open file description, so they live on in the program that
 * inherits the descriptor. Its ticket is inherited, too: whose ticket nobody reads is taken for dead, and what is written
 * down of it goes. Nothing else of the instance survives exec, so nobody notices a break, and nobody touches the file. */
#include <errno.h>
#include <fcntl.h>
#include <string.h>
#include <sys/stat.h>

#include "holders.h"
#include "lk_time.h"
#include "lockfile.h"
#include "watch.h"

enum { YEARS = 10, YEAR = 365 * 24 * 3600 };

/* Set the time of the last use ten years ahead: what removes files that nobody used for days (watch.c) leaves this one. Only
 * the file's owner may do that. The time of the last change, by which waiters go, stays. */
static void touch_ahead(int fd)
{
    const struct timespec times[2] = {
        {.tv_sec = (time_t)(lk_time_of(CLOCK_REALTIME) / LK_S) + (time_t)YEARS * YEAR},
        {.tv_nsec = UTIME_OMIT}};
    (void)futimens(fd, times);
}

/* Return 0 if the grant is ours, ESTALE if it is not, else an errno. */
static int look(lk_file *self, lk_file_claim *c)
{
    lk_mutex_lock(&self->mutex);
    const bool broken = lk_file_broken_locked(self, c);
    lk_mutex_unlock(&self->mutex);
    if (broken || (!locker_claim_is_plain(c->claim) && lk_file_holder_is_broken(self, c)))
        return ESTALE;
    return lk_file_look(self, c);
}

locker_status lk_file_keep_over_exec(void *self_, locker_claim *grant, locker_error *err)
{
    lk_file *const self = self_;
    lk_file_claim *const c = grant->data;
    int code = look(self, c);
    if (code == ESTALE)
        return lk_lost(err, "the lock of \"%s\" was broken, or its file in %.150s replaced, moved or removed",
                       grant->key, self->path);
    if (code == 0 &&
        (fcntl(c->fd, F_SETFD, 0) != 0 || (c->ticket_fd >= 0 && fcntl(c->ticket_fd, F_SETFD, 0) != 0)))
        code = errno;
    if (code != 0)
        return locker_error_set(err, LOCKER_UNAVAILABLE, code, "cannot keep the lock of \"%s\" over exec: %s",
                                grant->key, strerror(code));
    touch_ahead(c->fd);
    return LOCKER_OK;
}
