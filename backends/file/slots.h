/* slots.h: the descriptors of all claims, readable without a lock in a fork's child. */
#pragma once

#include <stdatomic.h>
#include <stdbool.h>
#include <stdint.h>

#include "claim.h"

/* One open lock file. Slots never move and are not freed before close. */
struct lk_file_slot {
    /* 0: none; else the inode's low 32 bits, then descriptor + 1. Atomic because a fork's child reads it
     * without the mutex; relaxed, it says nothing of other memory. */
    _Atomic uint64_t open;
    lk_file_claim *claim; /* mutex: whose */
    lk_file_slot *next;   /* mutex: the next free one */
};

enum { LK_FILE_CHUNKS = 24, LK_FILE_CHUNK_SLOTS = 64 };

typedef struct lk_file_slots {
    /* Chunk i has LK_FILE_CHUNK_SLOTS << i slots. Atomic for the child; release, so that it finds the slots
     * zeroed. */
    _Atomic(lk_file_slot *) chunk[LK_FILE_CHUNKS];
    lk_file_slot *free; /* mutex */
} lk_file_slots;

/* A slot for the claim's descriptor; NULL when memory ran out. */
lk_file_slot *lk_file_slot_take_locked(lk_file_slots *slots, lk_file_claim *c);
void lk_file_slot_give_locked(lk_file_slots *slots, lk_file_slot *slot);
/* Call `visit` for the claim of each slot in use. */
void lk_file_slots_each_locked(lk_file_slots *slots, void (*visit)(void *context, lk_file_claim *c),
                               void *context);
/* In a fork's child: close every descriptor that is certainly a lock file of ours. */
void lk_file_slots_abandon(lk_file_slots *slots);
void lk_file_slots_destroy(lk_file_slots *slots);
