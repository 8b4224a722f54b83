/*
 * nearest - finds the known word that is most similar to a mistyped one, for "did you mean".
 *
 * Upper and lower case are equal, and so are - and _. Two words are similar if at most a third of
 * the letters was left out, added, changed, or swapped with the next one. The most similar word
 * counts; among equally similar ones the first.
 *
 * Bounds: words of NEAREST_BYTES_MAX; longer words are similar to nothing.
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

#define NEAREST_BYTES_MAX  80
#define NEAREST_HINT_BYTES (NEAREST_BYTES_MAX + 24)

struct nearest {
    const char *text; /* borrowed, as the words are */
    const char *word; /* NULL: no word is similar */
    uint32_t distance;
};

void nearest_init(struct nearest *nearest, const char *text);
void nearest_offer(struct nearest *nearest, const char *word);

/* Writes `; did you mean WORD?`, which follows a sentence, or nothing. */
void nearest_hint(const struct nearest *nearest, char hint_out[NEAREST_HINT_BYTES]);
