/*
 * nearest - which of some words a mistyped one may have meant, for "did you mean".
 *
 * Letters of both cases are equal, and so are - and _. A word resembles another when at most a third
 * of its letters was left out, put in, changed, or swapped with the next one; of several the nearest
 * counts, of equally near ones the first.
 *
 * Bounds: words of NEAREST_BYTES_MAX; longer ones resemble nothing.
 * Thread: any (plain data).
 */
#pragma once

#include <stdint.h>

#define NEAREST_BYTES_MAX  80
#define NEAREST_HINT_BYTES (NEAREST_BYTES_MAX + 24)

struct nearest {
    const char *text; /* borrowed, like the words */
    const char *word; /* NULL: none resembles it */
    uint32_t distance;
};

void nearest_init(struct nearest *nearest, const char *text);
void nearest_offer(struct nearest *nearest, const char *word);

/* `; did you mean WORD?`, or nothing: behind a sentence. */
void nearest_hint(const struct nearest *nearest, char hint_out[NEAREST_HINT_BYTES]);
