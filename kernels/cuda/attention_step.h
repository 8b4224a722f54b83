/*
 * attention_step - what the kernels need of a step, behind the common arrays in its arena, and their workspace.
 *
 *     arena    common arrays | counts | sequences | tiles | flash_tiles | draft_masks | sources | block_ids
 *
 * Places depend on the limits alone. prepare packs what the sequences point to: the device never sees an address of the
 * host, and nobody reads what they point to behind prepare.
 *
 * Thread: as kernels/attention.h.
 */
#pragma once

#include "device/device.h"
#include "kernels/attention.h"
#include "kernels/cuda/attention_parameters.h"

/* The parts of an arena: the host's while it is prepared, then the device's. */
struct cuda_step_arrays {
    struct cuda_step_counts *counts;
    struct cuda_sequence *sequences; /* [n_sequences_max] */
    struct cuda_tile *tiles;         /* [n_tokens_max] */
    struct cuda_tile *flash_tiles;   /* of the contexts: attention_flash */
    uint32_t *block_ids;
    uint32_t *sources;
    uint64_t *draft_masks; /* [n_tokens_max] if there are drafts */
};

struct attention_workspace {
    struct device *device;
    struct device_memory
        memory;          /* what follows, by turns of the layers; base NULL: limits.beside has it */
    size_t shared_bytes; /* of it, in front: nothing that outlives a step */
    float *queries;      /* [n_tokens_max][n_heads][head_dim] */
    void *new_keys;      /* [n_tokens_max][n_kv_heads][2][head_dim] if the cache is cyclic */
    const float *position_cos, *position_sin;
    /* [n_split_tokens][n_heads][n_ranges][2 + head_dim] of generation sequences whose keys several CTAs share */
    float *partials;
    uint32_t n_split_tokens, n_ranges;
    /* [n_score_ctas][ATTENTION_WHOLE_ROWS][score_stride] of contexts whose scores are stored, in the place of partials: a
     * layer's generation comes behind its contexts */
    float *scores;
    uint32_t n_score_ctas, score_stride;
    bool has_arena;                    /* use_arena was called */
    struct cuda_step_arrays step;      /* in the arena */
    uint32_t n_tiles, n_context_tiles; /* of the step; contexts come first */
    uint32_t n_flash_tiles;
    uint32_t kv_len_longest; /* of the step's generation sequences */
};

/* Of partials where no layer insists on them (multi_block CHOICE_ON): longer contexts leave room for fewer rows. With 64
 * heads of 128 a row takes 4.1 MiB at 32,768 tokens and 16.3 MiB at 131,072. */
#define SPLIT_BYTES_MAX (256u << 20)

/* CTAs of a processor that leave nothing to split. */
#define SPLIT_CTAS_MAX 2u

/* The functions of attention_backend of these names. */
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
