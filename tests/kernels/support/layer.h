/*
 * layer - one small attention layer whose tokens' Q, K and V depend on a number of theirs alone, so
 * that two ways to compute the same thing can be compared.
 *
 * Everything the operator may not read starts as NaN; what it may not write is checked.
 */
#pragma once

#include "kernels/kernels.h"

enum {
    LAYER_HEADS = 4,
    LAYER_KV_HEADS = 2,
    LAYER_DIM = 16,
    LAYER_LEN_MAX = 96, /* tokens of a sequence */
    LAYER_ROWS_MAX = 256,
    LAYER_BLOCKS = 32,
    LAYER_BLOCK_TOKENS = 8,
    LAYER_TABLES = 3, /* the most */
};

/* What column 0 of every head of a token holds instead of its own; 0: its own. */
struct layer_planted {
    uint32_t token;
    float q, k, v;
};

struct layer {
    const struct attention_backend *backend;
    struct attention_config config;
    struct attention *attention;
    struct attention_metadata *metadata;
    struct kv_view kv;
    /* What is done to the inputs beforehand. */
    enum dtype kv_rounding; /* x -> scale round(x / scale); F32: as they are */
    float k_rounding_scale, v_rounding_scale;
    enum dtype rounding;
    const float *bias; /* [(heads + 2 kv_heads) dim], added */
    const void *mask;
    uint64_t mask_sequence_stride, mask_query_stride;
    bool skips_lse;
    struct layer_planted planted; /* takes a value's place */
    /* Two of the metadata's, one behind the other: a step is prepared in the first and copied to the second, where it is
     * read. NULL: the metadata's own. */
    uint8_t *arenas;
    void (*adopt)(const void *base,
                  size_t bytes); /* of the tensors of a step, for a device; NULL: nobody's */
};

struct layer_rows {
    float output[LAYER_ROWS_MAX][LAYER_HEADS * LAYER_DIM]; /* E4M3 times output_scale */
    float lse[LAYER_ROWS_MAX][LAYER_HEADS];
};

/* Shape fields are filled in. */
struct layer layer_open(const struct attention_backend *backend, struct attention_config config,
                        bool is_contiguous);
void layer_close(struct layer *layer);

/* The number of a token gives its values. kv_tokens: NULL for KEYS_SELF. Rows come back in the order
 * of the metadata's tokens. */
void layer_step(struct layer *layer, const struct attention_step *step, const uint32_t *tokens,
                const uint32_t *kv_tokens, struct layer_rows *rows_out);

/* Tables before config.table hold a block of NaN alone. One sequence: the prompt in chunks (0: whole), the rest token by token. Row i is token i. */
struct layer_run {
    const uint32_t *tokens; /* [len]; NULL: 0, 1, 2 ... */
    uint32_t len, prompt_len, chunk;
    const uint32_t *positions; /* [len] */
    uint32_t padded_query_len;
    /* Before each step: blocks that config.window hides from its queries are another one, which holds NaN. */
    bool forgets;
};
void layer_run(struct layer *layer, const struct layer_run *run, struct layer_rows *rows_out);

float layer_q(uint32_t token, uint32_t column);
float layer_k(uint32_t token, uint32_t column);
float layer_v(uint32_t token, uint32_t column);

/* Rows first .. first + n - 1 of both agree to bound, relative to the largest value. */
void layer_assert_near(const struct layer_rows *got, uint32_t got_first,
                       const struct layer_rows *expected, uint32_t expected_first, uint32_t n,
                       double bound, const char *what);
