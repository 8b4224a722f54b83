/*
 * eval_text - the tokens of a text file, by a model's tokenizer.
 *
 * Thread: one.
 */
#pragma once

#include "base/status.h"

#include <stddef.h>
#include <stdint.h>

struct tokenizer;

struct eval_text {
    struct tokenizer *tokenizer;
    const char *folder, *path; /* borrowed */
    char *bytes;               /* of the file */
    size_t n_bytes;
    uint32_t bos;        /* what the tokenizer puts before a text; TOKEN_NONE: nothing */
    uint32_t *ids;       /* [n_ids], without it */
    size_t n_ids, n_all; /* n_all: without tokens_max */
};

/* tokens_max 0: all. INVALID_ARGUMENT: no path, or the text has too few tokens to predict one; else as regular_file_read,
 * tokenizer_load and tokenizer_encode. The caller finishes text_out in any case. */
MUST_CHECK enum status eval_text_read(const char *folder, const char *path, uint64_t tokens_max,
                                      struct error *error, struct eval_text *text_out);
void eval_text_finish(struct eval_text *text); /* a zeroed one is fine */

/* A window of up to window_tokens, with the text's tokens from the at-th on, behind bos if there is one. Returns their number without it. */
uint32_t eval_text_window(const struct eval_text *text, size_t at, uint32_t window_tokens,
                          uint32_t *window_out);
/* INVALID_ARGUMENT: the tokenizer of another model makes other tokens of the text. */
MUST_CHECK enum status eval_text_check(const struct eval_text *text, const char *folder,
                                       struct error *error);
/* INVALID_ARGUMENT: a token is not below vocabulary. */
MUST_CHECK enum status eval_text_fits(const struct eval_text *text, uint32_t vocabulary,
                                      struct error *error);
