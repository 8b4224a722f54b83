/*
 * gguf_merges - the merges that follow from the scores of a SentencePiece vocabulary, as Transformers derives them.
 *
 * Each token is divided in two wherever both halves are tokens. Merges are ordered by the score of the token that they make,
 * then by the lengths of the halves, longer ones first.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stddef.h>

struct scored_token {
    const char *text; /* UTF-8, not terminated */
    size_t n_bytes;
    double score;
};

/* Appends [left, right] to list for each merge. tokens: [n] without those that no text can make. NO_MEMORY. */
MUST_CHECK enum status gguf_merges_add(const struct scored_token *tokens, size_t n, json_t *list);
