/* slots.c: lists the descriptor of every open lock file and ticket of an instance for a fork's child, which must close its copies
 * although another thread of the parent may have held the mutex when it forked.
 *
 * The child's memory is no exact snapshot: the parent's other threads ran on while it was copied. So slots
 * never move, each is one atomic number, and the child closes only what still is the slot's file. */
#include <sys/stat.h>
#include <unistd.h>

#include "slots.h"

static bool add_chunk_locked(lk_file_slots *slots)
{
    size_t i = 0;
    while (i < LK_FILE_CHUNKS && LK_READ(slots->chunk[i]) != NULL)
        i++;
    const size_t count = (size_t)LK_FILE_CHUNK_SLOTS << i;
    lk_file_slot *chunk = i < LK_FILE_CHUNKS ? calloc(count, sizeof *chunk) : NULL;
    if (chunk == NULL)
        return false;
    for (size_t k = count; k-- > 0;) {
        chunk[k].next = slots->free;
        slots->free = &chunk[k];
    }
    atomic_store_explicit(&slots->chunk[i], chunk, memory_order_release);
    return true;
}

lk_file_slot *lk_file_slot_take_locked(lk_file_slots *slots, int fd, uint64_t inode)
{
    if (slots->free == NULL && !add_chunk_locked(slots))
        return NULL;
    lk_file_slot *slot = slots->free;
    slots->free = slot->next;
    const uint64_t value = (uint64_t)(uint32_t)inode << 32 | (uint32_t)(fd + 1);
    LK_WRITE(slot->open, value);
    return slot;
}

void lk_file_slot_give_locked(lk_file_slots *slots, lk_file_slot *slot)
{
    LK_WRITE(slot->open, 0);
    slot->next = slots->free;
    slots->free = slot;
}

void lk_file_slot_abandon(lk_file_slot *slot)
{
    const uint64_t value = atomic_exchange_explicit(&slot->open, 0, memory_order_relaxed);
    const int fd = (int)(uint32_t)value - 1;
    struct stat s;
    if (value != 0 && fstat(fd, &s) == 0 && (S_ISREG(s.st_mode) || S_ISFIFO(s.st_mode)) &&
        (uint32_t)s.st_ino == value >> 32)
        close(fd);
}

void lk_file_slots_abandon(lk_file_slots *slots)
{
    for (size_t i = 0; i < LK_FILE_CHUNKS; i++) {
        lk_file_slot *chunk = atomic_load_explicit(&slots->chunk[i], memory_order_acquire);
        if (chunk == NULL)
            break;
        for (size_t k = 0; k < (size_t)LK_FILE_CHUNK_SLOTS << i; k++)
            lk_file_slot_abandon(&chunk[k]);
    }
}

void lk_file_slots_destroy(lk_file_slots *slots)
{
    for (size_t i = 0; i < LK_FILE_CHUNKS; i++)
        free(LK_READ(slots->chunk[i]));
}
