/* lk_trust.h: whether a file may be trusted: nobody but its owner, root and its group can change or replace it. */
#pragma once

#include <limits.h>
#include <stdbool.h>
#include <stdlib.h>
#include <string.h>
#include <sys/stat.h>
#include <unistd.h>

/** Return what is wrong with the directories above a file: NULL, or a text with the remedy. `path` is absolute; it is
 * changed. In a directory with the sticky bit (/tmp) everybody may make new names, but not replace those of others, so what
 * lies in it has to be ours or root's. */
static inline const char *lk_trust_above(char *path)
{
    for (char *slash; (slash = strrchr(path, '/')) != NULL && slash[1] != '\0';) {
        struct stat entry, directory;
        const bool seen = lstat(path, &entry) == 0;
        slash[slash == path ? 1 : 0] = '\0';
        if (!seen || stat(path, &directory) != 0)
            return NULL; /* a process that can't look at it could not have opened the file */
        const bool open = (directory.st_mode & S_IWOTH) != 0;
        if (open && (directory.st_mode & S_ISVTX) == 0)
            return "every user may write a directory above it (chmod o-w)";
        if (open && entry.st_uid != geteuid() && entry.st_uid != 0)
            return "it lies in a directory that every user may write, and belongs to another user";
    }
    return NULL;
}

/** Return why the file at `path`, of which `file` is what stat() says, is not to be trusted: NULL, or a text with the remedy.
 * Only regular files are judged. */
static inline const char *lk_trust_problem(const char *path, const struct stat *file)
{
    char above[PATH_MAX];
    if (!S_ISREG(file->st_mode))
        return NULL;
    if ((file->st_mode & S_IWOTH) != 0)
        return "every user may write it (chmod o-w)";
    const char *problem = realpath(path, above) != NULL ? lk_trust_above(above) : NULL;
    if (problem == NULL && path[0] == '/' &&
        strlen(path) < sizeof above) /* a link on the way may be replaced */
        problem = lk_trust_above(strcpy(above, path));
    return problem;
}
