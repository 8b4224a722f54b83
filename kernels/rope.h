/*
 * rope - rotary position embedding, NeoX layout: element i of a head turns with element i + d/2.
 *
 *     y[i]       = x[i] * cos - x[i + d/2] * sin
 *     y[i + d/2] = x[i + d/2] * cos + x[i] * sin      angle = position * inv_freq[i]
 *
 * Frequencies follow Transformers to the last float32 rounding that matters: inv_freq is a float32,
 * the angle is their float32 product. YaRN's attention factor is multiplied into cos and sin.
 *
 * Thread: any; immutable after creation.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum rope_scaling {
    ROPE_NONE,
    ROPE_LINEAR,   /* factor */
    ROPE_DYNAMIC,  /* factor; only while no position reaches original_positions, else refused */
    ROPE_LLAMA3,   /* factor, low_freq_factor, high_freq_factor, original_positions */
    ROPE_YARN,     /* factor, original_positions, and the optional fields below */
    ROPE_LONGROPE, /* refused */
};

struct rope_config {
    uint32_t head_dim;
    uint32_t rotary_dim;    /* 0 or head_dim; a part of the head is refused */
    uint32_t positions_max; /* positions served: 0 .. positions_max - 1 */
    double theta;
    enum rope_scaling scaling;
    double factor;
    uint32_t original_positions; /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor;
    double attention_factor;       /* YaRN; 0: derived from factor and the two below */
    double mscale, mscale_all_dim; /* YaRN; 0: absent */
    double beta_fast, beta_slow;   /* YaRN; 0: 32 and 1 */
    bool no_truncate;              /* YaRN; "truncate": false */
};

struct rope;

/* INVALID_ARGUMENT: a value out of range. UNSUPPORTED: a scaling or rotary_dim not computed here.
 * NO_MEMORY. */
MUST_CHECK enum status rope_create(const struct rope_config *config, struct rope **rope_out,
                                   struct error *error);
void rope_destroy(struct rope *rope); /* NULL is fine */

uint32_t rope_head_dim(const struct rope *rope);
const float *rope_inv_freq(const struct rope *rope); /* [head_dim / 2], borrowed */
float rope_attention_factor(const struct rope *rope);

/* cos_out, sin_out: [head_dim / 2] of one position. */
void rope_angles(const struct rope *rope, uint32_t position, float *cos_out, float *sin_out);
