/* name.h: from a key to a file's name. */
#pragma once

#include <locker/locker.h>

enum {
    LK_FILE_PREFIX_MAX = 1024, /* the encoded namespace with its '@', in bytes */
    LK_FILE_NAMESPACE_MAX = (LK_FILE_PREFIX_MAX - 2) / 3,
    LK_FILE_PART = 240, /* bytes of a component without its suffix, at most: with that under NAME_MAX, 255 */
    LK_FILE_PATH_MAX = LK_FILE_PREFIX_MAX + 3 * LOCKER_KEY_MAX + 64
};

/* A lock file's path, relative to the lock directory. */
typedef struct {
    char text[LK_FILE_PATH_MAX]; /* NUL-terminated */
    size_t last;   /* where the last component starts; 0: the file is in the lock directory itself */
    uint32_t hash; /* of text: the same in every process */
} lk_file_name;

/* Encode a namespace of at most LK_FILE_NAMESPACE_MAX bytes as the names' prefix: malloc'ed; NULL: no memory. */
char *lk_file_prefix_new(const char *name_space);
void lk_file_name_set(lk_file_name *name, const char *prefix, const char *key, size_t key_len);
/* The name of a file that was found at this path below the lock directory. False: it is too long to be one. */
bool lk_file_name_from(lk_file_name *name, const char *text);
/* Whether what has this name in a directory can be a lock file, or a directory that a long name is cut into. `first`: in the lock
 * directory itself. */
bool lk_file_name_is_lock(const char *component, bool first);
bool lk_file_name_is_part(const char *component, bool first);
/* True if the name is the pattern, in which each 'd' stands for a decimal number, and each 'x' for a hexadecimal one, of 1 to 16
 * digits. */
bool lk_file_name_fits(const char *name, const char *pattern);
