/* name.c: from a key to the name of its lock file, so that different keys never share a file.
 *
 * The key is encoded (lk_escape.h), and so is a namespace, which is set before it with a '@', which no encoded text contains.
 * What is longer than LK_FILE_PART bytes is cut in parts of exactly that length: all but the last are
 * directories that end in ".d", the last is a file that ends in ".lock". Joined they give the text back. */
#include <string.h>

#include "lk_escape.h"
#include "lk_table.h"
#include "name.h"

char *lk_file_prefix_new(const char *name_space)
{
    const size_t len = strlen(name_space);
    char *prefix = malloc(3 * len + 2);
    if (prefix == NULL)
        return NULL;
    char *end = lk_escape(prefix, name_space, len);
    if (len > 0)
        *end++ = '@';
    *end = '\0';
    return prefix;
}

void lk_file_name_set(lk_file_name *name, const char *prefix, const char *key, size_t key_len)
{
    char *end = lk_escape(stpcpy(name->text, prefix), key, key_len);
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

bool lk_file_name_from(lk_file_name *name, const char *text)
{
    const size_t len = strlen(text);
    if (len >= sizeof name->text)
        return false;
    memcpy(name->text, text, len + 1);
    const char *slash = strrchr(name->text, '/');
    name->last = slash == NULL ? 0 : (size_t)(slash - name->text) + 1;
    name->hash = lk_hash_text(name->text);
    return true;
}

/* True if the component ends in `end`, and all before that is what lk_file_name_set() writes: no name begins with a '.', but what
 * is behind a cut may. */
static bool is_encoded(const char *text, size_t len, const char *end, bool first)
{
    const size_t end_len = strlen(end);
    if ((first && text[0] == '.') || len <= end_len || memcmp(text + len - end_len, end, end_len) != 0)
        return false;
    for (size_t i = 0; i < len - end_len; i++)
        if (!lk_escape_spares((unsigned char)text[i]) && text[i] != '%' && text[i] != '@')
            return false;
    return true;
}

bool lk_file_name_is_lock(const char *component, bool first)
{
    const size_t len = strlen(component);
    return len <= LK_FILE_PART + 5 && is_encoded(component, len, ".lock", first);
}

bool lk_file_name_is_part(const char *component, bool first)
{
    const size_t len = strlen(component);
    return len == LK_FILE_PART + 2 && is_encoded(component, len, ".d", first);
}

bool lk_file_name_fits(const char *name, const char *pattern)
{
    for (; *pattern != '\0'; pattern++) {
        const bool digits = *pattern == 'd' || *pattern == 'x';
        const size_t len = strspn(name, *pattern == 'd' ? "0123456789" : "0123456789abcdef");
        if (digits ? len == 0 || len > 16 : *name != *pattern)
            return false;
        name += digits ? len : 1;
    }
    return *name == '\0';
}
