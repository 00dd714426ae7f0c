/* words.c: the words of a line; see words.h. */
#include "words.h"

#include <errno.h>
#include <stdlib.h>
#include <string.h>

const char *lk_word(lk_words *words, char *out, size_t size)
{
    const char *from = lk_words_rest(words);
    const size_t length = strcspn(from, " ");
    words->good = words->good && length > 0 && length < size;
    out[0] = '\0';
    if (words->good) {
        memcpy(out, from, length);
        out[length] = '\0';
        words->rest = from + length;
    }
    return out;
}

int64_t lk_word_number(lk_words *words)
{
    char text[32], *end = text;
    errno = 0;
    const int64_t number = strtoll(lk_word(words, text, sizeof text), &end, 10);
    words->good = words->good && end != text && *end == '\0' && errno == 0;
    return words->good ? number : 0;
}

const char *lk_words_rest(const lk_words *words)
{
    return words->rest + strspn(words->rest, " ");
}
