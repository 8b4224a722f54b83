/*
 * utf8 - checks and reads UTF-8 (Unicode 15, table 3-7): no surrogates, no overlong forms.
 *
 * Thread: any.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

enum utf8_form {
    UTF8_WHOLE,  /* a character */
    UTF8_PART,   /* the bytes end inside a character */
    UTF8_INVALID /* a maximal subpart: replaced by one U+FFFD */
};

/* Classifies the sequence at the start of bytes, n_bytes > 0, and returns its length. */
enum utf8_form utf8_sequence(const uint8_t *bytes, size_t n_bytes, size_t *length_out);

/* Where the first ill-formed sequence begins; n_bytes when there is none. */
size_t utf8_first_invalid(const char *text, size_t n_bytes);

/* Characters that must not reach a terminal or a log unescaped: controls of ASCII and C1, line and paragraph
 * separators, and the marks, embeddings, overrides and isolates that change the order in which text is shown. */
bool utf8_is_control(uint32_t codepoint);

/* Copies n_bytes as a C string of at most out_bytes with its NUL, cut between two characters;
 * controls (utf8_is_control) and bad bytes become '?'. */
void utf8_clean(const char *text, size_t n_bytes, char *out, size_t out_bytes);

/* Reads one character; text is valid UTF-8 and not at its end. Returns the length. */
size_t utf8_read(const char *text, uint32_t *codepoint_out);

/* Returns the length, 1 to 4. */
size_t utf8_write(uint32_t codepoint, char text_out[4]);

/* How many characters begin in valid text. */
size_t utf8_count(const char *text, size_t n_bytes);

/* The start of the character that ends before text[at], at > 0, text valid. */
size_t utf8_previous(const char *text, size_t at);

bool utf8_is_white_space(uint32_t codepoint); /* the property White_Space */
