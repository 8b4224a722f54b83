/*
 * attention_parameters - the argument of the attention kernels (attention.cuh), and the data of a step that they read.
 *
 * The parameters have addresses in the arena of the step, and values that decide the shape of a launch. The device reads
 * lengths, blocks and masks in the arena, so a captured launch serves every step of its shape. Sizes are in elements unless
 * they end in _bytes.
 */
#pragma once

#include "kernels/cuda/parameters.h"
#include "kernels/dtype.h"

#include <stdint.h>

#define ATTENTION_NONE       UINT32_MAX /* an offset that does not exist */
#define ATTENTION_TILE_KEYS  32u        /* keys scored at a time; tiles begin at multiples */
#define ATTENTION_RANGE_KEYS 256u       /* keys with partial sums; ranges begin at multiples */
#define ATTENTION_TILE_ROWS  16u   /* rows of attention_masked: queries times heads of a group */
#define ATTENTION_FLASH_ROWS 64u   /* rows of attention_flash: queries of a head */
#define ATTENTION_WHOLE_ROWS 4u    /* rows of attention_whole: a quarter of a tile's */
#define ATTENTION_SHORT_KEYS 1024u /* PATH_SHORT_KEYS */

enum cuda_sequence_kind { SEQUENCE_IS_CONTEXT, SEQUENCE_IS_GENERATION, SEQUENCE_IS_DUMMY };

PARAMETERS_BEGIN

/* One sequence of a step, after the common arrays in the arena. */
struct cuda_sequence {
    uint32_t kind;
    uint32_t first_token; /* of the first beam; each beam has query_len tokens */
    uint32_t query_len, n_beams;
    uint32_t kv_len;
    uint32_t first_query;  /* index in the sequence of the step's first query */
    uint32_t key_index;    /* index in the sequence of the first cached key */
    uint32_t first_block;  /* in block_ids, [n_tables][n_beams][n_blocks] */
    uint32_t n_blocks;     /* of one beam */
    uint32_t first_source; /* in sources, [n_beams][kv_len]; ATTENTION_NONE */
    uint32_t first_draft;  /* in draft_masks, [query_len]; ATTENTION_NONE */
    uint32_t first_new;    /* in the step's new keys */
};

/* The rows of one CTA: n_tokens of one beam; attention_masked computes them for a kv head, attention_flash for a head. */
struct cuda_tile {
    uint32_t sequence, first_token, n_tokens, beam;
};

struct cuda_step_counts {
    uint32_t n_sequences, n_tokens, n_kv_tokens, n_tiles;
};

struct attention_parameters {
    /* the arena of the step: attention.h has the shapes of the common arrays */
    const struct cuda_step_counts *counts;
    const struct cuda_sequence *sequences; /* [n_sequences] */
    const struct cuda_tile *tiles;         /* [n_tiles] */
    const uint32_t *block_ids;             /* of all sequences */
    const uint32_t *sources;               /* of all sequences with beams */
    const uint64_t *draft_masks;           /* of all sequences with drafts */
    const uint32_t *token_sequences, *token_rows, *indices;
    const uint32_t *kv_sequences, *kv_rows, *kv_indices, *kv_beams;
    const float *q_cos, *q_sin, *k_cos, *k_sin;

    /* tensors of the layer: attention_io */
    const void *q, *k, *v;
    void *output;
    float *lse;
    const void *mask;
    uint64_t q_stride, k_stride, v_stride, output_stride;
    uint64_t mask_sequence_stride, mask_query_stride;

    /* the layer's part of the cache */
    void *kv_base;
    uint64_t block_bytes, kv_bytes, head_bytes, token_bytes; /* strides */

    /* arrays of the layer */
    const void *qkv_bias;          /* [(n_heads + 2 n_kv_heads) head_dim] */
    const void *q_norm, *k_norm;   /* [head_dim] */
    const float *slopes, *sinks;   /* [n_heads] */
    const float *table;            /* [n_heads][table_queries][table_keys] */
    const float *buckets;          /* [n_heads][n_buckets] */
    const uint32_t *bucket_starts; /* [n_buckets of one direction] smallest distance of each */
    const float *position_cos, *position_sin; /* [kv_len_max][n_rotary / 2]: for K when read */

    /* workspace, which the layers of a step use in turn */
    float *queries; /* [n_tokens][n_heads][head_dim], ready for the products; see packs_queries */
    void *new_keys; /* [n_kv_tokens][n_kv_heads][2][head_dim] in the dtype of the cache */
    float *
        partials; /* [tokens from first_token][n_heads][n_ranges][2 + head_dim]: m, sum of p, sums of p v */
    float *scores; /* PATH_UNFUSED: [CTAs of the launch][ATTENTION_WHOLE_ROWS][score_stride] */

    uint32_t n_queries, n_keys; /* room of the grid, in tokens */
    uint32_t writes_workspace;  /* attention_update: new keys go there, not to the cache */
    uint32_t reads_workspace;   /* new keys are read in the workspace */
    uint32_t n_ranges;          /* room of partials, in ranges; 0: a CTA walks all ranges */
    uint32_t first_tile;        /* of the launch */
    uint32_t first_token;       /* of the launch that has partials */
    uint32_t tile_heads;        /* heads of a group that share the loads of a CTA */
    uint32_t n_parts;           /* CTAs for the heads of a group */
    uint32_t n_context_tiles;   /* the first ones of tiles: attention_whole */
    uint32_t score_stride;      /* of scores: keys of a sequence, whole tiles */
    /* Queries of contexts are stored for attention_flash: in 16 bits, times scale, in the first half of their rows. */
    uint32_t packs_queries;
    uint32_t n_flash_tiles; /* of tiles: attention_flash_sm90 */

    uint32_t block_tokens, is_contiguous;
    uint32_t block_table; /* of the layer */
    uint32_t n_heads, n_kv_heads, head_dim;
    uint32_t n_rotary, is_interleaved;
    uint32_t window, is_cyclic, sink_tokens;
    uint32_t is_self;                                /* KEYS_SELF */
    uint32_t mask_kind;                              /* enum attention_mask */
    uint32_t mask_input;                             /* enum attention_mask_input */
    uint32_t math;                                   /* enum attention_math, of the context phase */
    uint32_t compute, cache, bias_dtype, norm_dtype; /* enum dtype */
    uint32_t table_queries, table_keys, n_buckets, is_bidirectional;
    float norm_eps, scale, soft_cap;
    float q_scale, k_scale, v_scale, output_scale;
    uint32_t reserved;
};

PARAMETERS_END
