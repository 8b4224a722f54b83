/*
 * key_file - the format of a cluster key file: one line, or two during a key change, each of 32
 * random bytes in base64 (44 characters). The last line may end with a newline.
 *
 *     mW1dR1sQm0cN4rQxk6Jb0q0Y0l6c8z3sXr8c1l3pQ2A=
 *
 * `kvferry key FILE` and `openssl rand -base64 32` make such a line. The first key signs, both
 * verify (docs/cluster-key.md).
 *
 * The caller wipes the keys that it has read: key_set_wipe.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

#define CLUSTER_KEY_BYTES 32u
#define CLUSTER_KEYS_MAX  2u
#define KEY_LINE_BYTES    46u /* of one key as text: base64, newline, NUL */

struct key_set {
    uint8_t keys[CLUSTER_KEYS_MAX][CLUSTER_KEY_BYTES];
    uint32_t n;
};

/* Draws one key. IO_FAILED: the kernel gives no random bits. */
MUST_CHECK enum status key_set_draw(struct key_set *keys_out, struct error *error);
void key_set_wipe(struct key_set *keys);

/* Writes the first key as a line. */
void key_line_format(const struct key_set *keys, char line_out[KEY_LINE_BYTES]);

/* name: the source of the text, for the sentence. CORRUPT: another format, or one key twice. */
MUST_CHECK enum status key_file_parse(const char *text, size_t bytes, const char *name,
                                      struct key_set *keys_out, struct error *error);
/* As key_file_parse and regular_file_read. */
MUST_CHECK enum status key_file_read(const char *path, struct key_set *keys_out,
                                     struct error *error);
/* Writes the first key into a new file of mode 0600, which no reader ever sees half written.
 * DUPLICATE_REQUEST: the path exists, and is not changed. IO_FAILED: the sentence has the path. */
MUST_CHECK enum status key_file_make(const char *path, const struct key_set *keys,
                                     struct error *error);
