/*
 * attention - the operator: q/k norm, RoPE, append to the paged KV cache, causal attention over it.
 *
 * A step is one packed batch, context sequences first, then generation sequences:
 *
 *     qkv     [n_tokens][(n_heads + 2 n_kv_heads) head_dim]   Q heads, K heads, V heads side by
 * side output  [n_tokens][n_heads head_dim] cache   block = [layer][K, V][kv_head][token][dim]
 * strides are data, see kv_view
 *
 * Order of calls: create (once a layer), metadata_create (once), then for each step
 * metadata_prepare and, layer by layer, forward.
 *
 * A sequence's result depends on nothing but its own tokens: not on its batch mates, the chunks it
 * came in, block_tokens, or the number of threads; and a token gives the same bits in the context
 * and in the generation phase. (The reference back end keeps this trivially, the cpu one by tiling
 * keys at absolute positions.)
 *
 * Thread: one at a time for all objects of a step; forward uses the pool given at creation.
 */
#pragma once

#include "base/status.h"
#include "kernels/dtype.h"
#include "kernels/rope.h"

#include <stdbool.h>
#include <stdint.h>

struct thread_pool;

enum attention_mask {
    MASK_CAUSAL,        /* lower right: query i of n at key kv_len - n + i */
    MASK_BIDIRECTIONAL, /* refused: no implementation yet */
};

#define HEAD_DIM_MAX     256u
#define BLOCK_TOKENS_MIN 8u
#define BLOCK_TOKENS_MAX 128u

/* Fixed when a layer is built; borrowed arrays are copied. */
struct attention_config {
    uint32_t layer_index; /* in kv_view */
    uint32_t n_heads, n_kv_heads;
    uint32_t head_dim;  /* a multiple of 8 up to HEAD_DIM_MAX */
    enum dtype compute; /* of qkv and output: F32 */
    enum dtype cache;
    float q_scaling; /* scores are divided by q_scaling * sqrt(head_dim); 0 is 1 */
    float scale;     /* explicit factor of the scores instead; 0: none given */
    float soft_cap;  /* refused unless 0 */
    enum attention_mask mask;
    uint32_t window;         /* query i sees keys i - window + 1 .. i; 0: all */
    uint32_t sink_tokens;    /* refused unless 0 */
    const struct rope *rope; /* NULL: no rotation; outlives the operator */
    const void *q_norm;      /* [head_dim] RMS-norm weights before RoPE; NULL: none */
    const void *k_norm;
    enum dtype norm_dtype;
    float norm_eps;
};

/* Where the blocks are: plain data, filled by the owner of the pool. Strides in bytes. */
struct kv_view {
    void *base;            /* block 0 */
    uint64_t block_stride; /* block to block; the pool may exceed 4 GiB */
    uint64_t layer_stride;
    uint64_t kv_stride; /* from K to V of a layer */
    uint64_t head_stride;
    uint64_t token_stride; /* at least head_dim elements */
    uint32_t n_blocks;
    uint32_t n_layers;
    uint32_t block_tokens; /* a power of two, BLOCK_TOKENS_MIN .. BLOCK_TOKENS_MAX */
};

/* The strides of the layout above without gaps. */
struct kv_view kv_view_dense(void *base, uint32_t n_blocks, uint32_t n_layers, uint32_t n_kv_heads,
                             uint32_t block_tokens, uint32_t head_dim, enum dtype cache);

enum attention_phase { PHASE_CONTEXT, PHASE_GENERATION };

/* One sequence of a step. */
struct attention_sequence {
    uint64_t request_id;
    enum attention_phase phase;
    uint32_t query_len;        /* tokens of this step; 1 in the generation phase */
    uint32_t kv_len;           /* tokens in the cache after this step: query_len of them are new */
    uint32_t prompt_len;       /* context phase: a chunk that ends before it must be whole blocks */
    const uint32_t *block_ids; /* in order of position; borrowed until the step's last forward */
    uint32_t n_blocks;         /* at least kv_len / block_tokens, rounded up */
};

struct attention_step {
    const struct attention_sequence *sequences;
    uint32_t n_sequences;
    bool is_dummy; /* takes the memory and time of a step, touches no cache */
};

/* What the largest step may hold. */
struct attention_limits {
    uint32_t n_sequences_max, n_tokens_max;
    uint32_t kv_len_max;
    uint32_t n_heads, n_kv_heads, head_dim;
    const struct rope *rope; /* that of every layer */
};

/* A prepared step: shared by all layers, sized at creation, never reallocated. */
struct attention_metadata {
    struct attention_limits limits;
    uint32_t n_sequences, n_contexts, n_generations;
    uint32_t n_tokens, n_context_tokens;
    bool is_dummy;
    struct attention_sequence *sequences; /* [n_sequences] */
    uint32_t *token_starts;               /* [n_sequences + 1] first packed token of each */
    uint32_t *positions;                  /* [n_tokens] */
    uint32_t *token_sequences;            /* [n_tokens] index into sequences */
    float *rope_cos, *rope_sin;           /* [n_tokens][head_dim / 2] */
    struct kv_view kv;
    struct attention_workspace *workspace; /* the back end's own */
};

struct attention_io {
    float *qkv;          /* consumed: Q and K are overwritten by their rotated form */
    uint64_t qkv_stride; /* floats from token to token */
    float *output;
    uint64_t output_stride;
};

struct attention;

/* reference and cpu (one table for each instruction set) implement it. */
struct attention_backend {
    const char *name;
    /* INVALID_ARGUMENT: a value out of range. UNSUPPORTED: legal, but not computed here. The
     * sentence names the field and its value. pool may be NULL: everything runs on the caller. */
    enum status (*create)(const struct attention_config *config, struct thread_pool *pool,
                          struct attention **attention_out, struct error *error);
    void (*destroy)(struct attention *attention); /* NULL is fine */

    enum status (*metadata_create)(const struct attention_limits *limits, struct thread_pool *pool,
                                   struct attention_metadata **metadata_out, struct error *error);
    void (*metadata_destroy)(struct attention_metadata *metadata); /* NULL is fine */

    /* INVALID_ARGUMENT: over the limits, context after generation, a chunk before the last that is
     * no multiple of block_tokens, a block id or count outside the view. Nothing is prepared then.
     */
    enum status (*metadata_prepare)(struct attention_metadata *metadata,
                                    const struct attention_step *step, const struct kv_view *kv,
                                    struct error *error);

    /* Norm, RoPE and append alone; forward does it first. */
    void (*kv_update)(const struct attention *attention, const struct attention_metadata *metadata,
                      const struct attention_io *io);
    enum status (*forward)(const struct attention *attention,
                           const struct attention_metadata *metadata,
                           const struct attention_io *io);
};
