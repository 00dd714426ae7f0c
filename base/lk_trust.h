/* lk_trust.h: whether a file may be trusted: nobody but its owner, root, its group and the owners of the directories above it can
 * change or replace it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Cut the last name off a path that begins with '/'. False: none is left. */
static inline bool lk_trust_cut_name(char *path)
{
    size_t length = strlen(path);
    while (length > 1 && path[length - 1] != '/')
        length--;
    while (length > 1 && path[length - 1] == '/')
        length--;
    const bool had_name = path[1] != '\0';
    path[length] = '\0';
    return had_name;
}

/** Write the path of a file, with '/' as its first character and none as its last, into `out`. False: it is too long. */
static inline bool lk_trust_path(char out[PATH_MAX], const char *path)
{
    size_t length = 0;
    if (path[0] != '/') {
        if (getcwd(out, PATH_MAX - 1) == NULL)
            return false;
        length = strlen(out);
        out[length++] = '/';
    }
    if (length + strlen(path) >= PATH_MAX)
        return false;
    (void)strcpy(out + length, path);
    for (length = strlen(out); length > 1 && out[length - 1] == '/';)
        out[--length] = '\0';
    return true;
}

/** Return what is wrong with the directories above a file: NULL, or a text with the remedy. `path` is absolute; it is
 * changed. In a directory with the sticky bit (/tmp) everybody may make new names, but not replace those of others, so what
 * lies in it has to be ours or root's. */
static inline const char *lk_trust_above(char *path)
{
    struct stat entry, directory;
    for (bool seen = lstat(path, &entry) == 0; lk_trust_cut_name(path); seen = lstat(path, &entry) == 0) {
        if (!seen || stat(path, &directory) != 0)
            return NULL; /* a process that can't look at it could not have opened the file */
        const bool open = (directory.st_mode & S_IWOTH) != 0;
        if (open && (directory.st_mode & S_ISVTX) == 0)
            return "every user can write to a directory above it (run chmod o-w)";
        if (open && entry.st_uid != geteuid() && entry.st_uid != 0)
            return "it belongs to another user, in a directory that every user can write to";
    }
    return NULL;
}

/** Return why the file at `path`, of which `file` is what stat() says, is not to be trusted: NULL, or a text with the remedy.
 * Devices are not judged: only root makes them. */
static inline const char *lk_trust_problem(const char *path, const struct stat *file)
{
    char above[PATH_MAX];
    if (S_ISCHR(file->st_mode) || S_ISBLK(file->st_mode))
        return NULL;
    if ((file->st_mode & S_IWOTH) != 0)
        return "every user can write to it (run chmod o-w)";
    const char *problem = realpath(path, above) != NULL ? lk_trust_above(above) : NULL;
    if (problem == NULL && lk_trust_path(above, path)) /* a link on the way may be replaced */
        problem = lk_trust_above(above);
    return problem;
}

/** True if a user may be trusted with all that this process does: its own user, root, and the owner of the root directory, as
 * whom a user namespace may show root. */
static inline bool lk_trust_user(uid_t user)
{
    struct stat root;
    return user == geteuid() || user == 0 || (stat("/", &root) == 0 && user == root.st_uid);
}

/** Return the first user who is not trusted, of those who own the file (`owner`) and what its path names; else `owner`. */
static inline uid_t lk_trust_stranger(const char *path, uid_t owner)
{
    char above[PATH_MAX];
    struct stat entry;
    if (!lk_trust_user(owner) || !lk_trust_path(above, path))
        return owner;
    do {
        if (lstat(above, &entry) == 0 && !lk_trust_user(entry.st_uid))
            return entry.st_uid;
    } while (lk_trust_cut_name(above));
    return owner;
}
