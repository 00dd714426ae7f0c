/*
 * name.c: from a key to the name of its lock file, so that different keys never share a file.
 *
 * Letters, digits, '_', '-' and '.' stand for themselves, but for a leading '.'; every other byte becomes
 * %XX. A namespace is encoded likewise and set before the key with a '@', which no encoded text contains.
 * What is longer than LK_FILE_PART bytes is cut in parts of exactly that length: all but the last are
 * directories that end in ".d", the last is a file that ends in ".lock". Joining the parts gives the text
 * back, so the whole is injective.
 */
#include "name.h"

#include <stdlib.h>
#include <string.h>

#include "lk_hash.h"

enum { LK_FILE_PART = 240 }; /* with its suffix under NAME_MAX, 255 */

static bool stands_for_itself(unsigned char c)
{
    return (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || (c >= '0' && c <= '9') || c == '_' ||
           c == '-' || c == '.';
}

/* Append the encoded bytes at `out`, which has room; returns the end. */
static char *encode(char *out, const char *text, size_t len)
{
    static const char digits[] = "0123456789ABCDEF";
    for (size_t i = 0; i < len; i++) {
        const unsigned char c = (unsigned char)text[i];
        if (stands_for_itself(c) && !(c == '.' && i == 0)) {
            *out++ = (char)c;
        } else {
            *out++ = '%';
            *out++ = digits[c >> 4];
            *out++ = digits[c & 15];
        }
    }
    return out;
}

char *lk_file_prefix_new(const char *name_space, bool *too_long)
{
    const size_t len = strlen(name_space);
    *too_long = len > (LK_FILE_PREFIX_MAX - 2) / 3;
    if (*too_long)
        return NULL;
    char *prefix = malloc(3 * len + 2);
    if (prefix == NULL)
        return NULL;
    char *end = prefix;
    if (len > 0) {
        end = encode(end, name_space, len);
        *end++ = '@';
    }
    *end = '\0';
    return prefix;
}

void lk_file_name_set(lk_file_name *name, const char *prefix, const char *key, size_t key_len)
{
    char *end = stpcpy(name->text, prefix);
    end = encode(end, key, key_len);
    name->last = 0;
    while ((size_t)(end - name->text) - name->last > LK_FILE_PART) {
        char *cut = name->text + name->last + LK_FILE_PART;
        memmove(cut + 3, cut, (size_t)(end - cut));
        cut[0] = '.';
        cut[1] = 'd';
        cut[2] = '/';
        end += 3;
        name->last += LK_FILE_PART + 3;
    }
    memcpy(end, ".lock", 6);
    name->hash = lk_hash_text(name->text);
}
