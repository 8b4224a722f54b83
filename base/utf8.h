/*
 * utf8 - the form of UTF-8 sequences (Unicode 15, table 3-7): no surrogates, nothing overlong.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_form {
    UTF8_WHOLE,  /* a character */
    UTF8_PART,   /* the bytes end within a character */
    UTF8_INVALID /* a maximal subpart: what one U+FFFD stands for */
};

/* Judges the sequence at the start of bytes, n_bytes > 0; length is that of what it is. */
enum utf8_form utf8_sequence(const uint8_t *bytes, size_t n_bytes, size_t *length_out);

/* Where the first ill-formed sequence begins; n_bytes when there is none. */
size_t utf8_first_invalid(const char *text, size_t n_bytes);

/* What may not reach a terminal or a log as it is: controls of ASCII and C1, line and paragraph separators, and the
 * marks, embeddings, overrides and isolates by which text is shown in another order than it has. */
bool utf8_is_control(uint32_t codepoint);

/* Copies n_bytes as a C string of at most out_bytes with its NUL, cut at a character's border;
 * controls (utf8_is_control) and bad bytes become '?'. */
void utf8_clean(const char *text, size_t n_bytes, char *out, size_t out_bytes);

/* text is valid and not at its end. Returns the length. */
size_t utf8_read(const char *text, uint32_t *codepoint_out);

/* Returns the length, 1 to 4. */
size_t utf8_write(uint32_t codepoint, char text_out[4]);

/* The start of the character that ends before text[at], at > 0, text valid. */
size_t utf8_previous(const char *text, size_t at);

bool utf8_is_white_space(uint32_t codepoint); /* the property White_Space */
