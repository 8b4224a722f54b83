/*
 * kv_update - an operator that writes rows of K and V into the caller's cache.
 *
 *     k, v     rows of n_kv_heads head_dim elements; packed: the rows of a sequence follow those of
 *              the sequence before; padded: sequence s begins at row s padded_len, and padding rows
 *              are not read
 *     cache    kv_view: paged through block tables, or contiguous
 *
 * Row i of sequence s is token write_indices[s] + i of that sequence. It goes to slot kv_slot(token, window,
 * sink_tokens): linear, or cyclic with a window. When several rows of a call have the same slot, the last one
 * is written.
 *
 *     stored K = round(rotate(k + k_bias) / k_scale)        stored V = round((v + v_bias) / v_scale)
 *
 * It computes in float32 (reference: float64) and rounds once. It writes nothing but the slots. Two sequences of
 * a call must not write to the same block.
 *
 * Thread: as kernel_set.h.
 */
#pragma once

#include "base/status.h"
#include "kernels/attention.h"
#include "kernels/rotary.h"

#include <stdbool.h>
#include <stdint.h>

struct kv_update {
    const void *k, *v;
    enum dtype dtype;            /* of k and v: F32, BF16, F16; any alignment */
    uint64_t k_stride, v_stride; /* elements, row to row */
    uint32_t n_kv_heads;
    uint32_t head_dim; /* a multiple of 8 up to HEAD_DIM_MAX */

    uint32_t n_sequences;
    const uint32_t *lens;          /* [n_sequences] rows; 0 is fine */
    const uint32_t *write_indices; /* [n_sequences] token index of the first row */
    uint32_t padded_len;           /* 0: packed */

    struct kv_view kv;
    uint32_t layer_index;
    enum dtype cache;       /* F32, BF16, F16, INT8, E4M3 */
    float k_scale, v_scale; /* of INT8 and E4M3; else not read */
    /* [n_sequences][n_blocks] in order of slots. Contiguous: [n_sequences], n_blocks 1; NULL there:
     * sequence s is block s. */
    const uint32_t *block_ids;
    uint32_t n_blocks;
    uint32_t window, sink_tokens; /* window 0: linear */

    const void *k_bias, *v_bias; /* [n_kv_heads head_dim]; NULL: none */
    enum dtype bias_dtype;
    struct rotary_table rotary; /* rotary_dim 0: none */
    const uint32_t *positions;  /* one for each row of k, padding included; NULL: token indices */
};

/* The caller checks once, before the operator runs. INVALID_ARGUMENT: a size, stride, dtype or scale is not
 * supported, or a token is beyond its blocks, a block outside the view, a position outside the table. */
MUST_CHECK enum status kv_update_check(const struct kv_update *update, struct error *error);

/* Whether a later row of the same sequence, whose tokens end before end, is written to the slot of this token. */
static inline bool kv_update_is_overwritten(const struct kv_update *update, uint32_t token,
                                            uint64_t end)
{
    return update->window != 0 && token >= update->sink_tokens &&
           (uint64_t)token + update->window - update->sink_tokens < end;
}
