/*
 * transfer_plan - where the elements of another worker's block go in this worker's blocks, if theirs hold another number of
 * tokens or elements of another type.
 *
 *     theirs  block = [place][K, V][kv_head][token][dim]      of from_tokens tokens
 *     ours    the same                                        of to_tokens tokens
 *     with latents both have one row in place of K and V of each head; heads are those of the block's group of layers
 *
 * Both numbers are powers of two, so the tokens of a block of theirs fill a part of one of ours, or several of ours. A run is what
 * stays side by side: the rows of one place, of K or V, and of one head, for as many tokens as the smaller block has. A block of
 * theirs is a list of runs; each of its elements is in one run, once.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/geometry.h"

/* Writes n elements of one type as another; both are F32, BF16 or F16. */
typedef void (*transfer_convert)(enum kv_dtype from_dtype, const void *from, enum kv_dtype to_dtype,
                                 void *to, size_t n);

/* Of the blocks of a group. */
struct transfer_rows {
    uint32_t n; /* layers, K and V, heads; with latents layers */
    uint32_t head_dim;
};

struct transfer_plan {
    struct transfer_rows rows[CACHE_GROUPS_MAX]; /* of each group */
    uint32_t from_tokens, to_tokens, run_tokens;
    enum kv_dtype from_dtype, to_dtype;
    transfer_convert convert; /* not called where the types are equal */
};

/* geometry_match_converting has accepted them. */
struct transfer_plan transfer_plan_of(const struct geometry *theirs, const struct geometry *ours,
                                      transfer_convert convert);

/* Bytes into the block of theirs and into the span of ours, which is counted from the beginning of the sequence. */
struct transfer_run {
    uint64_t from, to;
    uint32_t span;
    uint32_t token; /* position of the first one in the sequence */
};
uint32_t transfer_plan_n_runs(const struct transfer_plan *plan, uint32_t group);
/* position: of the first token of the block of theirs. */
struct transfer_run transfer_plan_run(const struct transfer_plan *plan, uint32_t group,
                                      uint32_t position, uint32_t i);

/* Puts the elements of the tokens first .. end - 1 of the sequence into our blocks, as far as the block of theirs has them.
 * spans: our blocks of the sequence and the group, by span - first_span. */
struct transfer_target {
    uint32_t first, end;
    uint32_t first_span;
    uint8_t *const *spans;
};
void transfer_plan_put(const struct transfer_plan *plan, uint32_t group, const uint8_t *block,
                       uint32_t position, const struct transfer_target *target);
