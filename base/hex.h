/*
 * hex - bytes as pairs of lower-case hexadecimal digits, the high half first.
 *
 * Thread: any; no state.
 */
#pragma once

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

/* text_out [2 * n_bytes + 1], NUL included */
void hex_format(const uint8_t *bytes, size_t n_bytes, char *text_out);
/* False: not exactly 2 * n_bytes lower-case digits; bytes_out then has no useful content. */
bool hex_parse(const char *text, size_t length, uint8_t *bytes_out, size_t n_bytes);
