/*
 * attend_tile - the scores and the outputs of one tile of keys, in the math of the block.
 *
 * Thread: as attend_state.h.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define attend_seen    ISA(attend_seen)
#define attend_scores  ISA(attend_scores)
#define attend_outputs ISA(attend_outputs)

/* What row r sees of the tile at start. */
struct seen attend_seen(const struct attend *attend, uint32_t r, uint32_t start);
/* The scores of the tile at start into scratch->scores, and what rows see of it into seen_out; what a
 * row does not see is undefined. False: no row sees any of it, and nothing was read. */
bool attend_scores(const struct attend *attend, uint32_t start, struct seen *seen_out,
                   struct tile *tile_out);
/* partial->out = partial->out * keep + P V of the tile at start, whose weights are in
 * scratch->scores. */
void attend_outputs(const struct attend *attend, uint32_t start, const struct seen *seen,
                    const float *keep, struct tile *tile, struct partial *partial);
