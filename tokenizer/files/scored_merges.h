/*
 * scored_merges - the merges that follow from the scores of a vocabulary, as Transformers derives them.
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

/* Appends [left, right] to list for each merge, the best first. tokens: [n] without those that no text can make. NO_MEMORY. */
MUST_CHECK enum status scored_merges_add(const struct scored_token *tokens, size_t n, json_t *list);
/* The same with a rank: all merges that make a token have the one that its score less is, a whole number of 0 to 2^20 - 1. */
MUST_CHECK enum status scored_merges_add_ranked(const struct scored_token *tokens, size_t n,
                                                json_t *list);
