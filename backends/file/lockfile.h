/* lockfile.h: opening, checking and locking one file. */
#pragma once

#include "directory.h"
#include "instance.h"
#include "name.h"

/* Beyond locker.h's, and never told to core: the file was replaced, open it anew. */
#define LK_FILE_AGAIN ((locker_status)-1)
/* A break is under way, so the attempt has no answer, and the claim holds nothing. Never told to core. */
#define LK_FILE_MET_BREAKER ((locker_status)-2)

lk_file_id lk_file_id_of(const struct statx *s);
/* A descriptor; -1: errno says why. With O_CREAT, the directories on the way to it are made as well. */
int lk_file_open(const lk_file *self, const lk_file_name *name, int flags);
/* Make an empty file under a new name in that directory (directory.h), to be renamed. -1: errno says why. */
int lk_file_make(const lk_file *self, int parent, char name[LK_FILE_NEW_NAME]);
/* The same in the directory that lk_file_parent() found; what is made here has its mode less the umask. */
int lk_file_open_in(const lk_file *self, int parent, const lk_file_name *name, int flags);
/* Whether the open file may be used as a lock file; *s gets what was seen of it. */
locker_status lk_file_check(const lk_file *self, const lk_file_name *name, int fd, struct statx *s,
                            locker_error *err);
/* F_OFD_SETLK of one byte. 0, or an errno; EAGAIN when another has it. */
int lk_file_range_lock(int fd, short type, off_t byte);
/* Drop what the descriptor has: the lock, and a waiter's mark. Closing does it too, but not while a forked child has a
 * copy of the descriptor. 0, or an errno. */
int lk_file_range_unlock(int fd);
/* Whether somebody else has the byte locked, a sweep left aside, or may have. */
bool lk_file_range_locked(int fd, off_t byte);
enum { LK_FILE_MET_UNKNOWN = -1 };
/* What type of lock one of this type would meet, of somebody else, a sweep left aside; F_UNLCK: none. MET_UNKNOWN: the kernel can't
 * tell (no memory, a filter of system calls). */
short lk_file_range_met(int fd, short type, off_t byte);
/* Where in `length` bytes somebody else has one locked, a sweep left aside. SOMEWHERE: that can't be told now. */
enum { LK_FILE_NOWHERE = -1, LK_FILE_SOMEWHERE = -2 };
off_t lk_file_range_find(int fd, off_t start, off_t length);
/* A sweep's F_OFD_SETLK of the whole file. 0, or an errno; EAGAIN when another has any byte of it. */
int lk_file_whole_lock(int fd, short type);
/* Whether somebody else has any byte locked. */
bool lk_file_whole_locked(int fd);
/* Whether the file now at the path is this one. 0: yes; ESTALE: no; else an errno: that can't be told. */
int lk_file_compare_at(int dir_fd, const char *path, const lk_file_id *id);
/* Whether the file now at the name is this one. 0: yes; ESTALE: no; else an errno: that can't be told. */
int lk_file_compare(const lk_file *self, const lk_file_name *name, const lk_file_id *id);
/* The same for a claim's file. */
int lk_file_look(const lk_file *self, const lk_file_claim *c);
/* The same as a status: LK_FILE_AGAIN for ESTALE. */
locker_status lk_file_confirm(const lk_file *self, const lk_file_name *name, const lk_file_id *id,
                              locker_error *err);
/* List the claim's descriptor. False: no memory. */
bool lk_file_list(lk_file *self, lk_file_claim *c);
/* Close the claim's descriptor and, behind that, take it from the list. */
void lk_file_close(lk_file *self, lk_file_claim *c);
