#include "base/config/nearest.h"

#include <assert.h>
#include <ctype.h>
#include <stdio.h>
#include <string.h>

static char folded(char c)
{
    return c == '-' ? '_' : (char)tolower((unsigned char)c);
}

static uint32_t least(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* The distance of Damerau and Levenshtein; rows holds the last three lines of the table. */
static uint32_t distance(const char *a, const char *b)
{
    uint32_t rows[3][NEAREST_BYTES_MAX + 1];
    uint32_t *before = rows[0], *last = rows[1], *row = rows[2];
    const uint32_t n = (uint32_t)strlen(b);
    assert(n <= NEAREST_BYTES_MAX);
    for (uint32_t j = 0; j <= n; j++)
        last[j] = before[j] = j;
    for (uint32_t i = 1; a[i - 1]; i++) {
        row[0] = i;
        for (uint32_t j = 1; j <= n; j++) {
            char ca = folded(a[i - 1]), cb = folded(b[j - 1]);
            row[j] = least(least(last[j], row[j - 1]) + 1, last[j - 1] + (ca != cb));
            if (i > 1 && j > 1 && ca == folded(b[j - 2]) && cb == folded(a[i - 2]))
                row[j] = least(row[j], before[j - 2] + 1);
        }
        uint32_t *oldest = before;
        before = last;
        last = row;
        row = oldest;
    }
    return last[n];
}

void nearest_init(struct nearest *nearest, const char *text)
{
    *nearest = (struct nearest){.text = text, .distance = UINT32_MAX};
}

void nearest_offer(struct nearest *nearest, const char *word)
{
    size_t length = strlen(word);
    size_t text_length = strnlen(nearest->text, NEAREST_BYTES_MAX + 1);
    if (length > NEAREST_BYTES_MAX || text_length > NEAREST_BYTES_MAX)
        return;
    uint32_t n = distance(nearest->text, word);
    if (n < nearest->distance && 3 * n <= (length > text_length ? length : text_length)) {
        nearest->distance = n;
        nearest->word = word;
    }
}

void nearest_hint(const struct nearest *nearest, char hint_out[NEAREST_HINT_BYTES])
{
    hint_out[0] = '\0';
    if (nearest->word)
        snprintf(hint_out, NEAREST_HINT_BYTES, "; did you mean %s?", nearest->word);
}
