/* words.h: the words of a line, taken one after the other. When one is missing or wrong, `good` is false from
 * then on and what is taken is empty or 0; so a line is looked at once, after its last word. */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

typedef struct {
    const char *rest; /**< what was not taken yet */
    bool good;
} lk_words;

static inline lk_words lk_words_of(const char *line)
{
    return (lk_words){line, true};
}

/** Copy the next word; it has to fit. Returns `out`. */
const char *lk_word(lk_words *words, char *out, size_t size);

/** The next word as a whole number. */
int64_t lk_word_number(lk_words *words);

/** What is left of the line, without the blank before it. */
const char *lk_words_rest(const lk_words *words);
