/*
 * step - what the sequences of a case do next.
 */
#pragma once

#include "tests/kernels/cases/data.h"

enum { CASE_LEN_MAX = 1024 };

struct case_step {
    struct attention_sequence sequences[CASE_SEQUENCES_MAX]; /* without blocks */
    uint32_t owners[CASE_SEQUENCES_MAX];                     /* indices into the case's */
    uint32_t first_tokens[CASE_SEQUENCES_MAX];               /* index of the first query */
    uint32_t n_sequences;
    uint32_t padded_query_len, padded_new_len;
    uint32_t positions[CASE_SEQUENCES_MAX][CASE_LEN_MAX];
    uint64_t trees[CASE_SEQUENCES_MAX][DRAFT_TOKENS_MAX];
    uint32_t sources[CASE_SEQUENCES_MAX][CASE_BEAMS_MAX * CASE_LEN_MAX];
};

/* Sequences that have come by step number and are not done, contexts first. done: tokens of each so
 * far. only: as case_options. */
void case_step_make(const struct case_data *data, uint32_t number, const uint32_t *done,
                    uint32_t only, struct case_step *step_out);
