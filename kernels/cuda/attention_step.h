/*
 * attention_step - packs the data of a step for the kernels, after the common arrays in its arena, and has their workspace.
 *
 *     arena    common arrays | counts | sequences | tiles | flash_tiles | draft_masks | sources | block_ids
 *
 * Places depend only on the limits. prepare copies the arrays to which the sequences point: the device never gets an
 * address of the host, and these arrays are not read after prepare.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "device/device.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_parameters.h"

/* The parts of an arena: in host memory while it is prepared, then on the device. */
struct cuda_step_arrays {
    struct cuda_step_counts *counts;
    struct cuda_sequence *sequences; /* [n_sequences_max] */
    struct cuda_tile *tiles;         /* [n_tokens_max] */
    struct cuda_tile *flash_tiles;   /* those of contexts, for attention_flash */
    uint32_t *block_ids;
    uint32_t *sources;
    uint64_t *draft_masks; /* [n_tokens_max] if there are drafts */
};

struct attention_workspace {
    struct device *device;
    struct device_memory
        memory;          /* all below; layers use it in turn; base NULL: that of limits.beside */
    size_t shared_bytes; /* its first part, which others may share: nothing outlives a step */
    float *queries;      /* [n_tokens_max][n_heads][head_dim] */
    void *new_keys;      /* [n_tokens_max][n_kv_heads][2][head_dim] if the cache is cyclic */
    const float *position_cos, *position_sin;
    /* [n_split_tokens][n_heads][n_ranges][2 + head_dim] for generation sequences whose keys are split over several CTAs */
    float *partials;
    uint32_t n_split_tokens, n_ranges;
    /* [n_score_ctas][ATTENTION_WHOLE_ROWS][score_stride] for contexts whose scores are stored. It uses the memory of
     * partials: the generation of a layer runs after its contexts */
    float *scores;
    uint32_t n_score_ctas, score_stride;
    bool has_arena;                    /* after use_arena */
    struct cuda_step_arrays step;      /* in the arena */
    uint32_t n_tiles, n_context_tiles; /* of the step; contexts come first */
    uint32_t n_flash_tiles;
    uint32_t kv_len_longest; /* of the step's generation sequences */
};

/* The most bytes of partials, unless a layer has multi_block CHOICE_ON: with longer contexts fewer rows fit. With 64
 * heads of 128 a row takes 4.1 MiB at 32,768 tokens and 16.3 MiB at 131,072. */
#define SPLIT_BYTES_MAX (256u << 20)

/* With this many CTAs for each processor, rows are not split. */
#define SPLIT_CTAS_MAX 2u

/* The functions of attention_backend with these names. */
MUST_CHECK enum status cuda_step_create(const struct attention_limits *limits,
                                        struct thread_pool *pool,
                                        struct attention_metadata **metadata_out,
                                        struct error *error);
void cuda_step_destroy(struct attention_metadata *metadata); /* NULL is fine */
MUST_CHECK enum status cuda_step_prepare(struct attention_metadata *metadata,
                                         const struct attention_step *step,
                                         const struct kv_view *kv, struct error *error);
size_t cuda_step_arena_bytes(const struct attention_metadata *metadata);
void cuda_step_use_arena(struct attention_metadata *metadata, void *base);
