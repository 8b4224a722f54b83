/*
 * case - one entry of the attention case table: which features, which sizes, all from a number.
 *
 * Numbers 0 .. case_count() - 1: every feature alone, every pair of two, then random triples. The
 * features are walked by attention_features' numbers; features.c turns each of them on.
 *
 * Thread: any; a case is plain data.
 */
#pragma once

#include "kernels/attention_features.h"

enum { CASE_SEQUENCES_MAX = 6, CASE_LAYERS_MAX = 3, CASE_BEAMS_MAX = 4, CASE_PAD = 3 };

struct case_sequence {
    uint64_t id;
    uint32_t start; /* the step in which it comes */
    uint32_t prompt_len;
    uint32_t len; /* tokens behind the prompt come in the generation phase */
    uint32_t n_beams;
    uint32_t prefix_len;             /* its first tokens are sequence 0's, in the same blocks */
    uint32_t encoder_len;            /* KEYS_CROSS */
    uint32_t shard_first, shard_end; /* KEYS_SHARD: the rank's keys */
};

struct attention_case {
    uint32_t number;
    uint64_t seed;
    uint64_t features; /* bit n: feature n was asked for */

    uint32_t n_heads, n_kv_heads, head_dim;
    enum dtype compute, cache, weights;
    float q_scaling, scale, soft_cap, output_scale, alibi_scale;
    bool has_table, has_sinks, has_norm, has_bias, has_positions, wants_lse;
    uint32_t n_buckets, distance_max;
    bool has_bidirectional_buckets;
    struct rope_config rope; /* theta 0: none */
    enum attention_mask mask;
    enum attention_mask_input mask_input;
    bool shares_mask_of_sequences, shares_mask_of_queries;
    uint32_t n_layers, n_windows, windows[CASE_LAYERS_MAX];
    bool is_cyclic;
    uint32_t sink_tokens;
    enum attention_keys keys;
    uint32_t n_beams_max, n_draft_max;
    bool is_tree;
    enum attention_path path;
    enum attention_math math;
    enum attention_choice multi_block, grouped;

    bool reuses_prefix;
    bool is_contiguous, is_padded, is_separate;
    bool has_gaps;  /* in the cache and between all rows */
    bool is_static; /* from the end of the prompts on: every step is a token of each sequence */
    uint32_t block_tokens, chunk_blocks; /* chunk_blocks 0: prompts come whole */
    uint32_t n_generated;                /* tokens behind a prompt, at most */
    bool is_long, is_staggered;
    uint32_t n_sequences;
    struct case_sequence sequences[CASE_SEQUENCES_MAX];
};

uint32_t case_count(void);
struct attention_case case_make(uint32_t number);

/* Every feature alone, each pair in one of its variants, a third of the triples: 4 of 10 cases. */
bool case_is_in_short_table(uint32_t number);

/* Two features of the case that exclude each other; NULL: it must be computed. */
const struct attention_exclusion *case_exclusion(const struct attention_case *test_case);

static inline bool case_has(const struct attention_case *test_case, uint32_t feature)
{
    return test_case->features >> feature & 1;
}

/* Keys of a sequence that the cache holds at its end, and its rows of q. */
uint32_t case_keys(const struct attention_case *test_case, uint32_t s);
uint32_t case_rows(const struct attention_case *test_case, uint32_t s);

/* Turns a feature on. state: of the case's random numbers. */
void case_use_feature(uint32_t feature, struct attention_case *test_case, uint64_t *state);

/* Every field. */
void case_print(const struct attention_case *test_case);
