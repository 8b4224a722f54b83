/*
 * special_tokens - what special tokens are written like, and where marks go into a text so that nothing of it is read as one, or as
 * a part of one, when it is written into a prompt.
 *
 *     a special token that is written in the text        a mark behind its first character, wherever one begins;
                                                       two, if it has no other character
 *     the text, or what is before its last white space, ends with the beginning of one      the same
 *     the text, or what is behind its first white space, begins with the end of one         a mark before it
 *
 * So a token that begins in the text and ends behind it, or ends in it and began before, has a mark inside, too. One that began
 * before the text and ends behind it has none: templates make tokens of names ("<|" + role + "|>").
 *
 * Of tokens that are looked for in normalized text (normalized: true) it is the content as the file has it that is marked, without
 * white space and U+2581 at its ends. A text that only becomes such a token by being normalized (a Kelvin sign for a K, by NFC)
 * is not seen.
 *
 * Thread: immutable once built; calls have no state.
 */
#pragma once

#include "base/status.h"
#include "tokenizer/vocab/byte_tree.h"

#include <stdbool.h>
#include <stddef.h>

struct special_tokens {
    struct byte_tree forward, backward; /* contents, and these turned round */
    size_t longest_bytes;
};

/* A zeroed one has none. n_bytes > 0. NO_MEMORY. */
MUST_CHECK enum status special_tokens_add(struct special_tokens *special, const char *content,
                                          size_t n_bytes, bool is_normalized);
void special_tokens_finish(struct special_tokens *special);

/* Calls with each place for a mark, ascending: 0 .. n_bytes, at the border of a character. text is valid UTF-8. */
typedef void (*special_mark_call)(void *arg, size_t at);
void special_tokens_find(const struct special_tokens *special, const char *text, size_t n_bytes,
                         special_mark_call call, void *arg);
