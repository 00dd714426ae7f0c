/* queue.h: who waits for a lock stands in a queue, in the order of arrival over all processes. */
#pragma once

#include "instance.h"
#include "tickets.h"

/* Take a ticket, behind all that there are. One who can't have one (no FIFO, no descriptor) waits as if it were the
 * first: it gets the lock, but not in its order. */
void lk_file_queue_enter(lk_file *self, lk_file_claim *c);
/* How many stand before the claim, about. 0: it is the first. Else its predecessor's end sets c->notified and wakes it,
 * as far as c->ahead_fd is one. `fresh`: right behind its enrolment. */
size_t lk_file_queue_place(lk_file *self, lk_file_claim *c, bool fresh);
/* Whether its ticket and its predecessor's are where they were: cheaper than to look for its place. */
bool lk_file_queue_is_steady(lk_file *self, const lk_file_claim *c);
/* Take the tickets of those before the claim away: they don't take the lock though it is free. */
void lk_file_queue_overtake(lk_file *self, const lk_file_claim *c);
/* The claim waits no more, it holds; its ticket stays, for its successor to be told of its end. */
void lk_file_queue_granted(lk_file *self, lk_file_claim *c);
/* The claim's end: drop the lock, if it `had` that, its ticket and its descriptor. What fcntl says of the lock. */
int lk_file_let_go(lk_file *self, lk_file_claim *c, bool had);
/* Who held this file was broken, and there may be another: have all that wait for it look again; without any the queue goes. */
void lk_file_queue_leave(const lk_file *self, const lk_file_id *id);
/* The claim holds beside others: write that down, with a ticket if it has none. 0, or an errno. */
int lk_file_queue_hold(lk_file *self, lk_file_claim *c);
/* Tell it if it was broken. */
void lk_file_queue_look_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex);
/* Tell in info who waits, first to last, as far as that can be known. False: no memory. */
bool lk_file_queue_list(const lk_file_tickets *t, locker_info *info);
/* `entry` is a queue: remove the tickets of dead processes, with their records, and the queue if it is empty then. A record without a
 * ticket stays, because its owner may live: another program can have deleted the ticket. */
void lk_file_queue_sweep(const lk_file *self, const char *entry);
/* Remove all records of a queue. The caller has locked the whole lock file and removed its name, so there is no holder. */
void lk_file_queue_end(const lk_file *self, const lk_file_id *id);
/* Hear of predecessors' ends, and of pokes. */
void lk_file_queue_hear_locked(lk_file *self) LK_REQUIRES(self->mutex);
