/*
 * geometry - what two workers must agree on before a KV transfer.
 *
 *     block = [place][K, V][kv_head][token][dim]      elements of dtype, contiguous
 *     block = [place][token][dim]                     with latents: one row for K and V of all heads (kernels/latent.h)
 *
 * A place is a layer's in a group of layers (cache_groups.h). A model without windows has one group: its places are its
 * layers. A group whose layers have other heads has them at the same place of a block, layer by layer, and the rest is padding.
 *
 * Thread: any (plain data).
 */
#pragma once

#include "base/status.h"
#include "kvcache/cache_groups.h"
#include "kvcache/numerics.h"
#include "kvcache/sink_window.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define GEOMETRY_BLOCK_TOKENS_MIN 8u
#define GEOMETRY_BLOCK_TOKENS_MAX 128u
#define GEOMETRY_WINDOW_MAX       (1u << 30) /* of a group, or with sinks */

enum kv_dtype { KV_F32, KV_BF16, KV_F16, KV_INT8, KV_E4M3 };

struct geometry {
    uint32_t n_layers;     /* that have K and V, or latents */
    uint32_t n_kv_heads;   /* with latents 1 */
    uint32_t head_dim;     /* elements; of a whole row with latents */
    uint32_t block_tokens; /* a power of two, GEOMETRY_BLOCK_TOKENS_MIN .. _MAX */
    enum kv_dtype dtype;
    uint64_t model_digest[2];       /* of the config and the weights. Equal models have equal KV, */
    char numerics[NUMERICS_ID_MAX]; /* if this id is equal, too; "": an older worker */
    uint64_t kv_scales;             /* digest of the scales of INT8 and E4M3; 0: another dtype */
    struct cache_groups groups;     /* n 0: one group of all layers */
    uint32_t latent_dim;            /* elements of the row that are V, too; 0: K and V */
    struct sink_window sinks;       /* of replies; window 0: none */
    bool has_encoder; /* not told: whose model is equal knows it. Its texts end with a block */
};

/* Elements of the type are stored in units of a scale. */
static inline bool kv_dtype_is_8bit(enum kv_dtype dtype)
{
    return dtype == KV_INT8 || dtype == KV_E4M3;
}

size_t kv_dtype_bytes(enum kv_dtype dtype);
const char *kv_dtype_name(enum kv_dtype dtype); /* "bf16" */
MUST_CHECK enum status kv_dtype_parse(const char *name, enum kv_dtype *dtype_out);

/* INVALID_ARGUMENT: a zero, not a power of two, or a block over 1 GiB; the sentence has the field
 * and its value. */
MUST_CHECK enum status geometry_check(const struct geometry *geometry, struct error *error);
uint64_t geometry_block_bytes(const struct geometry *geometry);
uint32_t geometry_rows(const struct geometry *geometry); /* 2; with latents 1 */
/* Of the layers of a group, and how many of them a block has room for. */
struct cache_heads geometry_heads(const struct geometry *geometry, uint32_t group);
uint32_t geometry_layers_of_block(const struct geometry *geometry, uint32_t group);
uint32_t geometry_spans(const struct geometry *geometry, uint32_t n_tokens); /* rounded up */
/* Blocks of all groups that a sequence of n tokens holds between two steps. UINT32_MAX: more than can be counted. */
uint32_t geometry_blocks(const struct geometry *geometry, uint32_t n_tokens);
/* cache_groups_step_blocks; likewise. */
uint32_t geometry_step_blocks(const struct geometry *geometry, const struct cache_step *step);
/* Bytes of K and V that a sequence of n tokens holds; if_whole_out: with all its layers for all tokens, without padding. */
uint64_t geometry_sequence_bytes(const struct geometry *geometry, uint32_t n_tokens,
                                 uint64_t *if_whole_out);

/* INVALID_ARGUMENT: replies cannot have a window of their own of so many tokens; with a sentence. 0, none, is fine. */
MUST_CHECK enum status geometry_check_reply_window(const struct geometry *geometry, uint32_t window,
                                                   struct error *error);
/* Prompt and reply: the context, or more if replies have sinks. */
uint32_t geometry_sequence_tokens(const struct geometry *geometry, uint32_t context_tokens);

/* Checks that a worker with ours, which also accepts allow_numerics, can use KV of theirs.
 * GEOMETRY_MISMATCH: the sentence has the first field that differs and both values. */
MUST_CHECK enum status geometry_match(const struct geometry *ours, const struct geometry *theirs,
                                      const char *allow_numerics, struct error *error);
/* The same; converts: ours also takes blocks of another number of tokens, if no layer has a window, and elements of another
 * type, if both are of F32, BF16 and F16. */
MUST_CHECK enum status geometry_match_converting(const struct geometry *ours,
                                                 const struct geometry *theirs,
                                                 const char *allow_numerics, bool converts,
                                                 struct error *error);
/* The bytes of a block of theirs are those of ours. */
bool geometry_has_equal_blocks(const struct geometry *ours, const struct geometry *theirs);
