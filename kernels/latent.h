/*
 * latent - attention over a cache of latents: multi-head latent attention of DeepSeek-V2 and V3, in its absorbed form.
 *
 * A token has one row in the cache, which all heads share: its compressed K and V, then the rotary part of K.
 *
 *     row[j]          = latent[j] | rope[j]                 [latent_dim + rope_dim]
 *     s[i][h][j]      = scale q[i][h] row[j]                token i sees the rows of tokens 0 .. i
 *     output[i][h]    = sum over j of softmax(s[i][h])[j] latent[j]
 *
 *     cache           block = [layer][token][latent_dim + rope_dim], strides are data: kv_view, whose kv_stride, head_stride and
 *                     is_contiguous are not used
 *
 * (DeepSeek-AI 2024, DeepSeek-V2, arXiv 2405.04434, section 2.1.) The rest is the caller's: q is W_uk[h]^T q_nope | q_rope,
 * an output becomes a value by W_uv[h], latents are normalised, and the rotary parts of q and of the rows are rotated, by
 * kernels/rotary.h, which has pairs of neighbours (DeepSeek) and of halves.
 *
 * A step is one packed batch: query_len rows of each sequence, its last ones, contexts or generations in any order. The bits of an output
 * depend only on the sequence's own tokens, not on how they were divided into steps, on other sequences, block_tokens or
 * threads. A row that does not see a token has the same bits whatever that token's row holds, NaN too. Slots after kv_len are not
 * read.
 *
 * Order of calls: create once for all layers of one configuration; latent_check for each step and layer; then latent_write and
 * latent_attend.
 *
 * Thread: one call of a struct latent at a time; it uses the pool given at creation. It owns a workspace that is allocated at
 * creation; nothing is allocated afterwards.
 */
#pragma once

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/kernel_set.h"

#include <stddef.h>
#include <stdint.h>

#define LATENT_HEADS_MAX    1024u
#define LATENT_DIM_MAX      512u
#define LATENT_ROPE_DIM_MAX 128u

struct latent_config {
    uint32_t n_heads;    /* of q; the cache has no heads */
    uint32_t latent_dim; /* kv_lora_rank: a multiple of 16 up to LATENT_DIM_MAX */
    uint32_t rope_dim;   /* qk_rope_head_dim: a multiple of 8 up to LATENT_ROPE_DIM_MAX */
    enum dtype cache;    /* F32, BF16, F16, INT8, E4M3 */
    float scale;         /* (qk_nope_head_dim + qk_rope_head_dim)^-1/2, with YaRN times mscale^2 */
};

/* One sequence of a step. What it points to is borrowed until the last call of the step. */
struct latent_sequence {
    uint32_t query_len;        /* new tokens; 0 is fine */
    uint32_t kv_len;           /* tokens in the cache after this step, the new ones among them */
    const uint32_t *block_ids; /* [n_blocks] in order of tokens */
    uint32_t n_blocks;         /* at least kv_len / block_tokens, rounded up */
};

struct latent_step {
    const struct latent_sequence *sequences;
    uint32_t n_sequences;
    struct kv_view
        kv; /* paged; block_tokens is a power of two, BLOCK_TOKENS_MIN .. BLOCK_TOKENS_MAX */
};

/* One layer's tensors. Rows of sequence s follow those of sequence s - 1. Strides are in elements. No two sequences of a step write to
 * the same block. */
struct latent_io {
    uint32_t layer_index; /* in kv_view */
    float cache_scale;    /* INT8 and E4M3: stored = round(x / cache_scale); else not read */
    const float *
        rows; /* [n_rows][latent_dim + rope_dim] new rows of the cache; only latent_write reads them */
    uint64_t rows_stride;
    const float *q; /* [n_rows][n_heads][latent_dim + rope_dim] */
    uint64_t q_stride;
    float *output; /* [n_rows][n_heads][latent_dim] */
    uint64_t output_stride;
};

/* Fills in the strides of the layout above, without gaps. */
struct kv_view latent_view_dense(void *base, uint32_t n_blocks, uint32_t n_layers,
                                 uint32_t block_tokens, const struct latent_config *config);

struct latent;

/* The functions of one implementation, as a member of struct kernels. */
struct latent_backend {
    size_t (*workspace_bytes)(const struct latent_config *config, uint32_t n_threads);
    void (*write)(const struct latent *latent, const struct latent_step *step,
                  const struct latent_io *io);
    void (*attend)(const struct latent *latent, const struct latent_step *step,
                   const struct latent_io *io);
};

/* kernels and pool outlive the latent; pool may be NULL: everything runs on the caller.
 * INVALID_ARGUMENT: a value is out of range. UNSUPPORTED: the kernels have no latent attention. The sentence names the
 * field and its value. NO_MEMORY. */
MUST_CHECK enum status latent_create(const struct kernels *kernels, struct thread_pool *pool,
                                     const struct latent_config *config, struct latent **latent_out,
                                     struct error *error);
void latent_destroy(struct latent *latent); /* NULL is fine */
/* Writes to all of the workspace, so that no later call waits for memory. */
void latent_touch(struct latent *latent);

/* For callers of the two functions below, which do not check again. INVALID_ARGUMENT, with a sentence: a sequence does not fit its
 * blocks, a block is outside the view, rows overlap, an array is missing, or the end of the view does not fit in 64 bits. */
MUST_CHECK enum status latent_check(const struct latent *latent, const struct latent_step *step,
                                    const struct latent_io *io, struct error *error);

/* Writes the new rows to the cache: float32, rounded once. */
void latent_write(const struct latent *latent, const struct latent_step *step,
                  const struct latent_io *io);
/* Computes output from q and the cache. */
void latent_attend(const struct latent *latent, const struct latent_step *step,
                   const struct latent_io *io);
