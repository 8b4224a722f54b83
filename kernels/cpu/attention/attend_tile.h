/*
 * attend_tile - computes the scores and the outputs of one tile of keys, in the math of the block.
 *
 * Thread: as attend_state.h.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

#define attend_seen    ISA(attend_seen)
#define attend_scores  ISA(attend_scores)
#define attend_outputs ISA(attend_outputs)

/* The keys of the tile at start that row r sees. */
struct seen attend_seen(const struct attend *attend, uint32_t r, uint32_t start);
/* Writes the scores of the tile at start to scratch->scores, and the keys that each row sees to seen_out. The score of a
 * key that the row does not see is undefined. False: no row sees a key of the tile, and nothing was read. */
bool attend_scores(const struct attend *attend, uint32_t start, struct seen *seen_out,
                   struct tile *tile_out);
/* partial->out = partial->out * keep + P V, for the tile at start. The weights are in scratch->scores. */
void attend_outputs(const struct attend *attend, uint32_t start, const struct seen *seen,
                    const float *keep, struct tile *tile, struct partial *partial);
