/*
 * attend_unseen - computes tiles with a V that is not finite and that some rows do not see.
 *
 * P V is computed for several rows together; a key that a row does not see has the weight 0. This keeps finite numbers
 * out of the sum of the row, but 0 times infinity is NaN. Then each row is multiplied alone, with zeros in place of the
 * keys that it does not see. The bits are the same as for a tile with finite V, since rows do not depend on each other.
 *
 * Only keys that one row sees and another does not are checked: the diagonal of a prompt, the edges of windows, and the
 * keys that a mask may hide. A generation step without a mask has none.
 *
 * Thread: as attend_state.h.
 */
#pragma once

#include "kernels/cpu/attention/attend_state.h"

struct unseen {
    uint64_t keys; /* bit j: V of key j of the tile is not finite, and a row may not see it */
    uint64_t hidden[ROWS_MAX]; /* those of keys that row r does not see */
};

#define unseen_find    ISA(unseen_find)
#define unseen_hide    ISA(unseen_hide)
#define unseen_outputs ISA(unseen_outputs)

/* False: there is no such key; the caller uses attend_outputs. */
bool unseen_find(const struct attend *attend, const struct seen *seen, const struct tile_rows *v,
                 struct unseen *unseen_out);
/* Called after unseen_find, while scratch->scores holds scores. */
void unseen_hide(const struct attend *attend, const struct seen *seen, struct unseen *unseen);

/* As attend_outputs, row by row. */
void unseen_outputs(const struct attend *attend, const struct unseen *unseen, uint32_t start,
                    const struct seen *seen, const float *keep, struct tile *tile,
                    struct partial *partial);
