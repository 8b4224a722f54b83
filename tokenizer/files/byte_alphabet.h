/*
 * byte_alphabet - the 256 characters that stand for bytes in a byte-level vocabulary.
 *
 *     bytes  21-7e, a1-ac, ae-ff    the character of the same number
 *     00-20, 7f-a0, ad              U+0100, U+0101, ... in this order
 *
 * Thread: any.
 */
#pragma once

#include <stddef.h>
#include <stdint.h>

#define NOT_BYTE_LEVEL SIZE_MAX

/* The byte that codepoint stands for, -1 when it stands for none. */
int byte_alphabet_byte(uint32_t codepoint);

/* Writes the bytes of valid UTF-8 text, no more than it has itself, and returns how many there
 * are; NOT_BYTE_LEVEL when a character is not of the alphabet. */
size_t byte_alphabet_read(const char *text, size_t n_bytes, uint8_t *bytes_out);

/* Writes the character of a byte as UTF-8; returns how many bytes it has. */
size_t byte_alphabet_write(uint8_t byte, char character_out[2]);
