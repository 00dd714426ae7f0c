/* tickets.c: what lies in a lock's queue, a directory ".queue-…" that is named after the lock file's device and inode. See
 * queue.c for what tickets are, and holders.c for records. An older release knows no records, and takes a ticket for one that
 * wants the lock for itself. */
#include <errno.h>
#include <fcntl.h>
#include <stdio.h>
#include <string.h>
#include <sys/ioctl.h>
#include <unistd.h>

#include "directory.h"
#include "lk_escape.h"
#include "lk_fd.h"
#include "tickets.h"

void lk_file_queue_name(char out[LK_FILE_QUEUE_NAME], const lk_file_id *id)
{
    snprintf(out, LK_FILE_QUEUE_NAME, LK_FILE_QUEUE_PREFIX "%x-%x-%llx", id->device[0], id->device[1],
             (unsigned long long)id->inode);
}

int lk_file_queue_open_name(const lk_file *self, const char *name)
{
    return lk_fd_high(openat(self->dir_fd, name, O_RDONLY | O_DIRECTORY | O_NOFOLLOW | O_CLOEXEC));
}

int lk_file_queue_open(const lk_file *self, const lk_file_id *id, bool create)
{
    char name[LK_FILE_QUEUE_NAME];
    lk_file_queue_name(name, id);
    const int fd = lk_file_queue_open_name(self, name);
    if (fd >= 0 || errno != ENOENT || !create)
        return fd;
    return lk_file_directory_make(self, self->dir_fd, name) || errno == EEXIST
               ? lk_file_queue_open_name(self, name)
               : -1;
}

/* ------------------------------------------------------------------ names ---- */

void lk_file_ticket_name(char out[LK_FILE_NAME_SIZE], const lk_file_claim *c)
{
    const locker_claim *const claim = c->claim;
    char owner[3 * LOCKER_OWNER_MAX + 1];
    *lk_escape(owner, claim->owner, strlen(claim->owner)) = '\0';
    int end = snprintf(out, LK_FILE_NAME_SIZE, ".%s", c->ticket);
    if (claim->permits > 0)
        end += snprintf(out + end, 16, "+p%d", claim->permits);
    else if (claim->mode == LOCKER_SHARED)
        end += snprintf(out + end, 16, "+s");
    if ((size_t)end + strlen("-") + strlen(owner) <= NAME_MAX)
        snprintf(out + end, (size_t)(LK_FILE_NAME_SIZE - end), "-%s", owner);
}

void lk_file_ticket_read(const char *name, locker_waiter *out)
{
    size_t n = 0;
    name += LK_FILE_TICKET_LENGTH;
    *out = (locker_waiter){.mode = LOCKER_EXCLUSIVE};
    if (name[0] == '+' && name[1] == 's')
        out->mode = LOCKER_SHARED;
    else if (name[0] == '+' && name[1] == 'p')
        out->permits = (int32_t)strtol(name + 2, NULL, 10);
    if (name[0] == '+')
        name += strcspn(name, "-");
    if (*name == '-')
        n = lk_unescape(out->owner, LOCKER_OWNER_MAX, name + 1);
    out->owner[n] = '\0';
}

bool lk_file_queue_is_name(const char *name)
{
    return lk_file_name_fits(name, LK_FILE_QUEUE_PREFIX "x-x-x");
}

static bool is_ticket(const char *name)
{
    static const char digits[] = "0123456789abcdef";
    return strspn(name, digits) == 16 && name[16] == '-' && strspn(name + 17, digits) == 8 &&
           name[25] == '-' && strspn(name + 26, digits) == 8 &&
           (name[LK_FILE_TICKET_LENGTH] == '\0' || strchr("-+", name[LK_FILE_TICKET_LENGTH]) != NULL);
}

int lk_file_ticket_compare(const char *a, const char *b)
{
    return memcmp(a, b, LK_FILE_TICKET_LENGTH);
}

int lk_file_ticket_open(int queue, const char *name)
{
    return lk_fd_high(openat(queue, name, O_WRONLY | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
}

/* One byte shorter than a ticket's name, so that no release takes it for one. */
void lk_file_ticket_record(char out[LK_FILE_RECORD_NAME + 1], char kind, const char *ticket)
{
    size_t end = 0;
    out[end++] = kind;
    for (size_t i = 0; i < LK_FILE_TICKET_LENGTH; i++)
        if (ticket[i] != '-')
            out[end++] = ticket[i];
    out[LK_FILE_RECORD_NAME] = '\0';
}

static bool is_record(const char *name)
{
    return (name[0] == LK_FILE_RECORD_HELD || name[0] == LK_FILE_RECORD_BROKEN) &&
           strspn(name + 1, "0123456789abcdef") == LK_FILE_RECORD_NAME - 1 &&
           name[LK_FILE_RECORD_NAME] == '\0';
}

/* ------------------------------------------------------------------ all tickets ---- */

static bool is_half_made(const char *name)
{
    return name[0] == '.' && is_ticket(name + 1);
}

/* Where the filesystem does not tell the type, the name decides. */
static int is_ours(const struct dirent *e)
{
    const bool may_be_fifo = e->d_type == DT_FIFO || e->d_type == DT_UNKNOWN;
    const bool may_be_link = e->d_type == DT_LNK || e->d_type == DT_UNKNOWN;
    return (may_be_fifo && (is_ticket(e->d_name) || is_half_made(e->d_name))) ||
           (may_be_link && is_record(e->d_name));
}

static int compare_entries(const struct dirent **a, const struct dirent **b)
{
    return strncmp((*a)->d_name, (*b)->d_name, LK_FILE_TICKET_LENGTH);
}

/* What was left half made goes: its maker died before it was renamed, or is about to open it, and makes another then. One that is
 * not there any more was renamed since it was listed, most likely: it is a ticket now, and its record is no dead one's. */
static bool clean_up(int queue, const char *name)
{
    const int fd = lk_file_ticket_open(queue, name);
    if (fd >= 0)
        close(fd);
    else if (errno == ENXIO)
        return unlinkat(queue, name, 0) != 0;
    return true;
}

/* Records, which only who shares has, get an array of their own, in their order. false: out of memory. */
static bool divide(lk_file_tickets *t, int listed)
{
    bool enough = true;
    for (int i = 0; i < listed; i++) {
        struct dirent *const entry = t->all[i];
        const bool record = is_record(entry->d_name);
        if (record && t->record == NULL)
            enough = (t->record = calloc((size_t)(listed - i), sizeof(struct dirent *))) != NULL && enough;
        if (record && t->record != NULL) {
            t->record[t->record_count++] = entry;
        } else if (is_ticket(entry->d_name)) {
            t->all[t->count++] = entry;
        } else {
            t->half_made = (is_half_made(entry->d_name) && clean_up(t->queue, entry->d_name)) || t->half_made;
            free(entry);
        }
    }
    return enough;
}

static void free_all(lk_file_tickets *t)
{
    for (int i = 0; i < t->count; i++)
        free(t->all[i]);
    for (int i = 0; i < t->record_count; i++)
        free(t->record[i]);
    free(t->all);
    free(t->record);
}

lk_file_tickets lk_file_tickets_list(int queue)
{
    lk_file_tickets t = {.queue = queue, .code = errno};
    const int listed = queue >= 0 ? scandirat(queue, ".", &t.all, is_ours, compare_entries) : 0;
    if (listed < 0) { /* no descriptor, no memory: who stands there is not known, and not nobody */
        t = (lk_file_tickets){.queue = -1, .code = errno};
        close(queue);
    }
    if (listed <= 0)
        return t;
    if (!divide(&t, listed)) {
        free_all(&t);
        t = (lk_file_tickets){.queue = -1, .code = ENOMEM};
        close(queue);
    }
    return t;
}

lk_file_tickets lk_file_tickets_of(const lk_file *self, const lk_file_id *id)
{
    return lk_file_tickets_list(lk_file_queue_open(self, id, false));
}

void lk_file_tickets_close(lk_file_tickets *t)
{
    free_all(t);
    if (t->queue >= 0)
        close(t->queue);
}

int lk_file_tickets_find(const lk_file_tickets *t, const char *ticket)
{
    int low = 0, high = t->count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (lk_file_ticket_compare(t->all[middle]->d_name, ticket) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low;
}

bool lk_file_tickets_has(const lk_file_tickets *t, char kind, const char *ticket)
{
    char name[LK_FILE_RECORD_NAME + 1];
    if (t->record_count == 0)
        return false;
    lk_file_ticket_record(name, kind, ticket);
    int low = 0, high = t->record_count;
    while (low < high) {
        const int middle = low + (high - low) / 2;
        if (strcmp(t->record[middle]->d_name, name) < 0)
            low = middle + 1;
        else
            high = middle;
    }
    return low < t->record_count && strcmp(t->record[low]->d_name, name) == 0;
}

bool lk_file_tickets_poke(const lk_file_tickets *t, int i)
{
    const char *const name = t->all[i]->d_name;
    const int reached = lk_file_ticket_open(t->queue, name); /* ENXIO: its owner is dead */
    if (reached < 0)
        return false;
    /* Read as well, for a writer alone would get SIGPIPE when the owner closes it right now. */
    const int fd =
        lk_fd_high(openat(t->queue, name, O_RDWR | O_NONBLOCK | O_NOFOLLOW | O_NOCTTY | O_CLOEXEC));
    struct stat s;
    int written = 1;
    const bool pokes = fd >= 0 && fstat(fd, &s) == 0 && S_ISFIFO(s.st_mode) &&
                       ioctl(fd, FIONREAD, &written) == 0 && written == 0 && write(fd, "", 1) == 1;
    const int code = errno;
    if (fd >= 0)
        close(fd);
    close(reached);
    errno = code;
    return pokes;
}

int lk_file_tickets_tell_broken(const lk_file_tickets *t)
{
    for (int i = 0; i < t->count; i++) {
        errno = 0;
        if (lk_file_tickets_has(t, LK_FILE_RECORD_BROKEN, t->all[i]->d_name) && !lk_file_tickets_poke(t, i) &&
            (errno == EMFILE || errno == ENFILE || errno == ENOMEM))
            return errno;
    }
    return 0;
}

void lk_file_tickets_poke_behind(const lk_file_tickets *t, const char *ticket, bool beside)
{
    for (int i = lk_file_tickets_find(t, ticket); i < t->count; i++) {
        const char *const name = t->all[i]->d_name;
        if (lk_file_ticket_compare(name, ticket) == 0 || lk_file_tickets_has(t, LK_FILE_RECORD_HELD, name) ||
            lk_file_tickets_has(t, LK_FILE_RECORD_BROKEN, name))
            continue;
        if ((beside && name[LK_FILE_TICKET_LENGTH] != '+') || lk_file_tickets_poke(t, i))
            return;
    }
}

void lk_file_tickets_bury(const lk_file_tickets *t, int i)
{
    static const char kinds[] = {LK_FILE_RECORD_HELD, LK_FILE_RECORD_BROKEN};
    const char *const ticket = t->all[i]->d_name;
    char name[LK_FILE_RECORD_NAME + 1];
    (void)unlinkat(t->queue, ticket, 0);
    for (size_t k = 0; k < sizeof kinds; k++) {
        lk_file_ticket_record(name, kinds[k], ticket);
        if (lk_file_tickets_has(t, kinds[k], ticket))
            (void)unlinkat(t->queue, name, 0);
    }
}
