/* path.c: paths of nodes. */

#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>

#include "arena.h"

/* The code point that begins at *text, which is moved behind it. Bytes that are no UTF-8 are what Java makes of them:
 * U+FFFD, which no path may have. */
static uint32_t next_point(const unsigned char **text)
{
    const unsigned char *at = *text;
    const unsigned more = *at < 0x80   ? 0
                          : *at < 0xC2 ? 4
                          : *at < 0xE0 ? 1
                          : *at < 0xF0 ? 2
                          : *at < 0xF5 ? 3
                                       : 4;
    static const unsigned char masks[] = {0x7F, 0x1F, 0x0F, 0x07};
    *text = at + 1;
    if (more > 3)
        return 0xFFFD;
    uint32_t point = *at & masks[more];
    for (unsigned i = 1; i <= more; i++) {
        if ((at[i] & 0xC0) != 0x80)
            return 0xFFFD;
        point = point << 6 | (at[i] & 0x3F);
        *text = at + i + 1;
    }
    return point;
}

/* Java sees two surrogates where there is a point above U+FFFF. */
static bool is_forbidden(uint32_t point)
{
    return (point > 0 && point <= 0x1F) || (point >= 0x7F && point <= 0x9F) ||
           (point >= 0xD800 && point <= 0xF8FF) || point >= 0xFFF0;
}

/* Empty, "." or "..". */
static bool is_bad_name(const char *name, size_t len)
{
    return len == 0 || (name[0] == '.' && (len == 1 || (len == 2 && name[1] == '.')));
}

bool lk_simzk_path_is_valid(const char *path)
{
    if (path == NULL || path[0] != '/')
        return false;
    if (path[1] == '\0')
        return true;
    for (const char *name = path; *name == '/'; name += 1 + strcspn(name + 1, "/"))
        if (is_bad_name(name + 1, strcspn(name + 1, "/")))
            return false;
    for (const unsigned char *at = (const unsigned char *)path; *at != '\0';)
        if (is_forbidden(next_point(&at)))
            return false;
    return true;
}

bool lk_simzk_path_is_special(const char *path)
{
    return strcmp(path, "/") == 0 || strcmp(path, "/zookeeper") == 0 ||
           strcmp(path, "/zookeeper/quota") == 0 || strcmp(path, "/zookeeper/config") == 0;
}

char *lk_simzk_path_parent(const char *path)
{
    const char *const slash = strrchr(path, '/');
    if (slash == NULL)
        return NULL;
    const size_t len = slash == path ? 1 : (size_t)(slash - path);
    char *const parent = lk_simzk_alloc(len + 1);
    memcpy(parent, path, len);
    return parent;
}

const char *lk_simzk_path_name(const char *path)
{
    const char *const slash = strrchr(path, '/');
    return slash == NULL ? path : slash + 1;
}
