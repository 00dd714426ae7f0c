/* watch.h: inotify: waking waiters, telling holders of a forced unlock. */
#pragma once

#include "instance.h"

int lk_file_descriptor(void *self);
int64_t lk_file_dispatch(void *self);
/* Have a forced unlock of any grant noticed. False: there is no inotify, dispatch looks by itself. */
bool lk_file_watch_directory_locked(lk_file *self) LK_REQUIRES(self->mutex);
/* Have a move of the inner ones of the directories noticed that a long name is cut into. False: it is not to be had. */
bool lk_file_watch_parts_locked(lk_file *self, const lk_file_name *name) LK_REQUIRES(self->mutex);
/* Watch the claim's file. False: inotify is not to be had. */
bool lk_file_watch_add_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex);
void lk_file_watch_drop_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex);
/* The claim neither holds nor waits any more; its descriptor is still open. */
void lk_file_detach_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex);
/* Do what the events up to this moment ask for. */
void lk_file_hear_locked(lk_file *self) LK_REQUIRES(self->mutex);
/* Whether the grant was broken, as far as events tell up to this moment. */
bool lk_file_broken_locked(lk_file *self, lk_file_claim *c) LK_REQUIRES(self->mutex);
/* Have dispatch look after the grants. True: it has to be told so, by attend. */
bool lk_file_look_later_locked(lk_file *self, bool watched) LK_REQUIRES(self->mutex);
/* Whether the lock directory isn't at its path any more. Tells all grants and waiters, if that is news. */
bool lk_file_moved(lk_file *self);
/* OK if the lock directory is at its path. One that was removed is made again when nothing is held. Else UNAVAILABLE. */
locker_status lk_file_stay(lk_file *self, locker_error *err);
/* Set when the files of grants are touched next. */
void lk_file_touch_later_locked(lk_file *self) LK_REQUIRES(self->mutex);
void lk_file_watch_warn(lk_file *self);
