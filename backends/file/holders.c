/* holders.c: records of those who hold a lock beside others, in the lock's queue: symbolic links that lead nowhere, whose
 * text is the record. One is made, read, and renamed when its holder is broken, in one step each, which is what makes an
 * unlock's answer certain: the record's name can be taken away by one alone, its holder or a breaker. Who is dead the kernel
 * knows, by the holder's byte (beside.c), and not the record. */
#include <errno.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>
#include <unistd.h>

#include "holders.h"
#include "lk_time.h"
#include "lockfile.h"

enum { TEXT = 128 + LOCKER_OWNER_MAX };

int lk_file_holder_write(int queue, const lk_file_claim *c)
{
    const locker_claim *const claim = c->claim;
    char name[LK_FILE_RECORD_NAME + 1], text[TEXT];
    lk_file_ticket_record(name, LK_FILE_RECORD_HELD, c->ticket);
    snprintf(text, sizeof text, "%" PRIu64 " %" PRId64 " %" PRId32 " %" PRId32 " %s", claim->token,
             lk_time_of(CLOCK_REALTIME) / LK_MS, claim->permits, claim->permits > 0 ? claim->slot : 0,
             claim->owner);
    return symlinkat(text, queue, name) == 0 ? 0 : errno;
}

/* A number, and the blank behind it. */
static bool take_number(const char **text, uint64_t *number)
{
    char *end;
    errno = 0;
    *number = strtoull(*text, &end, 10);
    const bool good = end != *text && *end == ' ' && errno == 0;
    *text = end + 1;
    return good;
}

static bool read_record(int queue, const char *name, lk_file_holder *out)
{
    char text[TEXT];
    const ssize_t got = readlinkat(queue, name, text, sizeof text - 1);
    *out = (lk_file_holder){0};
    if (got < 0)
        return false;
    text[got] = '\0';
    const char *rest = text;
    uint64_t since, permits, slot;
    if (!take_number(&rest, &out->token) || !take_number(&rest, &since) || !take_number(&rest, &permits) ||
        !take_number(&rest, &slot) || since > INT64_MAX || permits > LOCKER_PERMITS_MAX ||
        slot >= LOCKER_PERMITS_MAX)
        return false;
    out->since_ms = (int64_t)since;
    out->permits = (int32_t)permits;
    out->slot = (int32_t)slot;
    (void)strncpy(out->owner, rest, LOCKER_OWNER_MAX);
    (void)strncpy(out->name, name, LK_FILE_RECORD_NAME);
    return true;
}

enum { PATH = LK_FILE_QUEUE_NAME + 1 + LK_FILE_RECORD_NAME + 1 };

/* Of its record, from the lock directory on. */
static void path_of(char path[PATH], char kind, const lk_file_claim *c)
{
    lk_file_queue_name(path, &c->id);
    const size_t len = strlen(path);
    path[len] = '/';
    lk_file_ticket_record(path + len + 1, kind, c->ticket);
}

bool lk_file_holder_is_broken(const lk_file *self, const lk_file_claim *c)
{
    char path[PATH], text[1];
    path_of(path, LK_FILE_RECORD_BROKEN, c);
    return readlinkat(self->dir_fd, path, text, sizeof text) >= 0;
}

int lk_file_holder_end(const lk_file *self, const lk_file_claim *c)
{
    char path[PATH];
    path_of(path, LK_FILE_RECORD_HELD, c);
    if (unlinkat(self->dir_fd, path, 0) == 0)
        return 0;
    const int code = errno;
    return lk_file_holder_is_broken(self, c) ? ESTALE : code;
}

void lk_file_holder_forget(const lk_file *self, const lk_file_claim *c)
{
    static const char kinds[] = {LK_FILE_RECORD_HELD, LK_FILE_RECORD_BROKEN};
    char path[PATH];
    for (size_t i = 0; i < sizeof kinds; i++) {
        path_of(path, kinds[i], c);
        (void)unlinkat(self->dir_fd, path, 0);
    }
}

bool lk_file_holder_break(int queue, const lk_file_holder *holder)
{
    char broken[LK_FILE_RECORD_NAME + 1];
    memcpy(broken, holder->name, sizeof broken);
    broken[0] = LK_FILE_RECORD_BROKEN;
    return renameat(queue, holder->name, queue, broken) == 0;
}

static bool shows(int fd, const lk_file_holder *holder)
{
    return lk_file_range_locked(fd, lk_file_holder_byte(holder->slot, holder->token));
}

bool lk_file_holder_lives(int queue, const char *record, int fd)
{
    lk_file_holder holder;
    return read_record(queue, record, &holder) && shows(fd, &holder);
}

bool lk_file_holders_list(const lk_file_tickets *t, char kind, int fd, lk_file_holder **all, size_t *count)
{
    *count = 0;
    *all = calloc((size_t)t->record_count + 1, sizeof **all);
    for (int i = 0; i < t->record_count && *all != NULL; i++) {
        lk_file_holder *const one = &(*all)[*count];
        if (t->record[i]->d_name[0] == kind && read_record(t->queue, t->record[i]->d_name, one) &&
            shows(fd, one))
            (*count)++;
    }
    return *all != NULL;
}

bool lk_file_holders_broken(const lk_file_tickets *t, int fd, lk_file_broken *out)
{
    lk_file_holder *all = NULL;
    *out = (lk_file_broken){0};
    if (t->record_count == 0 || t->record[0]->d_name[0] != LK_FILE_RECORD_BROKEN)
        return true; /* they come first */
    if (!lk_file_holders_list(t, LK_FILE_RECORD_BROKEN, fd, &all, &out->count))
        return false;
    out->bytes = calloc(out->count + 1, sizeof *out->bytes);
    for (size_t i = 0; i < out->count && out->bytes != NULL; i++)
        out->bytes[i] = lk_file_holder_byte(all[i].slot, all[i].token);
    free(all);
    return out->bytes != NULL;
}
