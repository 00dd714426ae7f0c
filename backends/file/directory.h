/* directory.h: the lock directory: made or checked, refused when it can't be trusted; error texts. */
#pragma once

#include "instance.h"
#include "name.h"

locker_status lk_file_directory_open(const char *path, bool shared, int *out, locker_error *err);
/* What kind of network or user-space filesystem the number of statfs stands for; NULL: a local one. */
const char *lk_file_filesystem_refused(uint64_t type);
/* Whether the directory at the path is the open one. 0: yes, as far as this process can walk the path;
 * ESTALE: it is another or none; else an errno: that can't be told now. */
int lk_file_directory_compare(const lk_file *self);
/* A name that nothing else has, for what is renamed when it is ready: whoever finds it by its own name finds it with its mode,
 * whatever the umask, and the end of its maker leaves none that others can't use. What was left goes with a sweep. */
#define LK_FILE_NEW_PREFIX ".new-"
enum { LK_FILE_NEW_NAME = 64 };
void lk_file_new_name(char out[LK_FILE_NEW_NAME]);
/* Give what was just made in a shared directory its mode, if the umask, or the lack of a default ACL, left it another. False: errno
 * says why not. */
bool lk_file_share(int fd, mode_t mode);
/* Make a directory that all who may use the lock directory can use. False: errno says why; EEXIST: it is there. */
bool lk_file_directory_make(const lk_file *self, int parent, const char *name);
/* The directory that holds the file: dir_fd itself, or one below it. -1: errno says why. */
int lk_file_parent(const lk_file *self, const lk_file_name *name, bool create);
/* errno stays what it was. */
void lk_file_parent_close(const lk_file *self, int fd);
/* UNAVAILABLE: the kernel can't tell who has which byte of the file. */
locker_status lk_file_unknown_use(const lk_file *self, const lk_file_name *name, locker_error *err);
/* Turn an errno of work on a lock file into a status and a text. */
locker_status lk_file_fail(const lk_file *self, const char *what, const lk_file_name *name, int code,
                           locker_error *err);
