/*
 * key_file - the cluster key as a file: one line, or two while it is changed, of 32 random bytes in
 * base64 (44 characters; a newline may end the last).
 *
 *     mW1dR1sQm0cN4rQxk6Jb0q0Y0l6c8z3sXr8c1l3pQ2A=
 *
 * `kvferry key FILE` and `openssl rand -base64 32` make such a line. The first signs, both verify
 * (docs/cluster-key.md).
 *
 * Who has read keys wipes them: key_set_wipe.
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

/* One key. IO_FAILED: the kernel has no random bits. */
MUST_CHECK enum status key_set_draw(struct key_set *keys_out, struct error *error);
void key_set_wipe(struct key_set *keys);

/* Its first key as a line. */
void key_line_format(const struct key_set *keys, char line_out[KEY_LINE_BYTES]);

/* name: of what the text came from, for the sentence. CORRUPT: no such text, or one key twice. */
MUST_CHECK enum status key_file_parse(const char *text, size_t bytes, const char *name,
                                      struct key_set *keys_out, struct error *error);
/* As key_file_parse and regular_file_read. */
MUST_CHECK enum status key_file_read(const char *path, struct key_set *keys_out,
                                     struct error *error);
/* Writes the first key into a new file of mode 0600, which nobody ever sees half written.
 * DUPLICATE_REQUEST: something has that name, and stays. IO_FAILED with the path. */
MUST_CHECK enum status key_file_make(const char *path, const struct key_set *keys,
                                     struct error *error);
