/*
 * collected - a reply that leaves in one piece: its tokens, their log-probabilities and its text until the end.
 *
 * Bounds: text_bytes_max of text; the lists grow with the tokens that came.
 *
 * Thread: one at a time.
 */
#pragma once

#include "router/requests/door.h"

struct collected {
    uint32_t *token_ids;             /* [n] */
    struct token_logprobs *logprobs; /* [n], or NULL: none came */
    uint32_t n, room;
    char *text; /* [text_bytes], and a NUL; NULL while there is none */
    size_t text_bytes, text_room;
};

/* Adds the piece. NO_MEMORY; REPLY_TOO_LONG: the text would be longer than text_bytes_max. */
MUST_CHECK enum status collected_add(struct collected *collected, const struct reply_piece *piece,
                                     size_t text_bytes_max);
/* The text that is left at the end. As collected_add. */
MUST_CHECK enum status collected_add_text(struct collected *collected, const char *text,
                                          size_t text_bytes, size_t text_bytes_max);
void collected_finish(struct collected *collected);
