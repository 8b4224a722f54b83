/*
 * stop_strings - ends a text before the first stop string, or behind it, however the text is split into pieces.
 *
 * A text end that could become a stop string is held back: at most the longest stop string minus a
 * byte. The stop string that ends first counts, so that the result does not depend on the pieces.
 *
 * Text in and out is whole UTF-8 characters.
 *
 * Thread: one at a time (plain data).
 */
#pragma once

#include "sampling_params/stop_texts.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

struct stop_strings {
    uint32_t n;
    uint16_t bytes[STOP_STRINGS_MAX]; /* 1 .. STOP_STRING_BYTES_MAX */
    char text[STOP_STRINGS_MAX][STOP_STRING_BYTES_MAX];
    uint16_t n_held;
    char held[STOP_STRING_BYTES_MAX];
    bool is_kept; /* the found stop string is the end of the text */
    bool is_found;
    uint32_t found; /* the index of the stop string, if is_found */
};

/* Asserts on the bounds: the caller has checked them. */
void stop_strings_add(struct stop_strings *stops, const char *text, size_t bytes);

/* Writes the released text, at most n_held + bytes. After a stop string no text is released. */
size_t stop_strings_push(struct stop_strings *stops, const char *text, size_t bytes, char *out);
/* The text has ended: releases the held text. out has room for STOP_STRING_BYTES_MAX. */
size_t stop_strings_finish(struct stop_strings *stops, char *out);
