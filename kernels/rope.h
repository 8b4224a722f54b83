/*
 * rope - rotary position embedding (Su et al. 2021) of the first rotary_dim elements of a head.
 *
 *     half-split (NeoX)     pairs (i, i + rotary_dim / 2)       interleaved (GPT-J)  pairs (2i, 2i + 1)
 *     low'  = low * cos - high * sin
 *     high' = high * cos + low * sin                            angle = position * inv_freq[i]
 *
 * Frequencies are rounded as in Transformers: inv_freq is a float32, and the angle is a float32 product. cos and sin
 * contain the attention factor of YaRN and LongRoPE.
 *
 * Thread: any; immutable after creation.
 */
#pragma once

#include "base/status.h"

#include <stdbool.h>
#include <stdint.h>

enum rope_scaling {
    ROPE_NONE,
    ROPE_LINEAR,  /* factor */
    ROPE_DYNAMIC, /* factor, original_positions: theta grows with the length of the sequence (NTK) */
    ROPE_LLAMA3,  /* factor, low_freq_factor, high_freq_factor, original_positions */
    ROPE_YARN,    /* factor, original_positions, and the optional fields below */
    /* short_factors, long_factors (a sequence beyond original_positions), original_positions;
     * factor, 0: positions_max / original_positions */
    ROPE_LONGROPE,
    /* The first n_turning pairs turn with theta ^ (-2i / head_dim) / factor; the others do not. Of whole heads (Gemma 4). */
    ROPE_PROPORTIONAL,
};

struct rope_config {
    uint32_t head_dim;
    uint32_t rotary_dim; /* even, up to head_dim; 0: head_dim */
    bool is_interleaved;
    uint32_t positions_max; /* positions served: 0 .. positions_max - 1 */
    double theta;
    enum rope_scaling scaling;
    double factor;
    uint32_t n_turning;          /* PROPORTIONAL: pairs, up to rotary_dim / 2 */
    uint32_t original_positions; /* original_max_position_embeddings */
    double low_freq_factor, high_freq_factor;
    double attention_factor;                    /* YaRN, LongRoPE; 0: derived from factor */
    double mscale, mscale_all_dim;              /* YaRN; 0: absent. Both: its attention factor */
    double beta_fast, beta_slow;                /* YaRN; 0: 32 and 1 */
    bool no_truncate;                           /* YaRN; "truncate": false */
    const double *short_factors, *long_factors; /* LongRoPE: [rotary_dim / 2], copied */
};

#define ROPE_FACTORS_MAX 256u /* of a rotation: half of the largest head */

struct rope;

/* INVALID_ARGUMENT: a value out of range. NO_MEMORY. */
MUST_CHECK enum status rope_create(const struct rope_config *config, struct rope **rope_out,
                                   struct error *error);
void rope_destroy(struct rope *rope); /* NULL is fine */

uint32_t rope_head_dim(const struct rope *rope);
uint32_t rope_rotary_dim(const struct rope *rope);
bool rope_is_interleaved(const struct rope *rope);
uint32_t rope_positions_max(const struct rope *rope);
const float *
rope_inv_freq(const struct rope *rope); /* [rotary_dim / 2] of a short sequence, borrowed */
float rope_attention_factor(const struct rope *rope);
/* 0.1 mscale log(factor) + 1; 1 for a factor up to 1. (YaRN, arXiv 2309.00071, section 3.4; mscale as in DeepSeek-V2.) */
double rope_yarn_mscale(double factor, double mscale);
/* Whether angles change when a sequence becomes longer than original_positions. */
bool rope_depends_on_length(const struct rope *rope);

/* cos_out, sin_out: [rotary_dim / 2] of one position in a sequence of this length. For a chunk of a prompt the
 * length is that of the whole prompt. */
void rope_angles(const struct rope *rope, uint32_t position, uint32_t sequence_len, float *cos_out,
                 float *sin_out);
