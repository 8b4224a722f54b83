/*
 * state_layout - where a sequence's recurrent state lies in its blocks.
 *
 * A state is float32. Each layer that has one has, one behind the other,
 *
 *     rows      [conv_width - 1][channels], the last ones of [q | k | v] before the convolution, the oldest first
 *     matrices  [n_heads] of [key_dim][value_dim]       (kernels/recurrent.h)
 *
 * Rows of a layer, and each matrix, are a part. Parts follow each other in the order of layers; one that does not fit into the rest
 * of a block begins the next one. What is left of a block is padding. A copy of the blocks is a snapshot, and continues as the original would.
 *
 * Thread: any; immutable after creation.
 */
#pragma once

#include "base/status.h"
#include "model/config/model_config.h"

#include <stddef.h>
#include <stdint.h>

#define STATE_PART_ALIGNMENT 64u /* bytes, in a block */

struct state_part {
    uint32_t block;
    size_t at; /* bytes into it */
};

struct state_layout {
    uint32_t n_layers, n_heads; /* layers that have a state; 0: none has */
    uint32_t n_blocks;          /* of a sequence */
    size_t rows_bytes, matrix_bytes;
    struct state_part *parts; /* [n_layers][1 + n_heads]: the rows, then the matrices */
};

/* The bytes of a sequence's state, without padding; 0: the model has none. */
size_t state_layout_bytes(const struct model_config *config);
/* Blocks of a sequence's state; 0: the model has none. UINT32_MAX: a part does not fit into a block. */
uint32_t state_layout_blocks(const struct model_config *config, size_t block_bytes);
/* The bytes of the largest part. */
size_t state_layout_part_bytes(const struct model_config *config);

/* INVALID_ARGUMENT: a part does not fit into a block; with a sentence. NO_MEMORY. */
MUST_CHECK enum status state_layout_create(const struct model_config *config, size_t block_bytes,
                                           struct error *error, struct state_layout *layout_out);
void state_layout_finish(struct state_layout *layout); /* a zeroed one is fine */

/* Of a layer among those that have a state; part 0: the rows, h + 1: the matrix of head h. */
static inline struct state_part state_layout_part(const struct state_layout *layout, uint32_t layer,
                                                  uint32_t part)
{
    return layout->parts[(size_t)layer * (1 + layout->n_heads) + part];
}
