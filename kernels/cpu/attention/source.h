/*
 * source - finds the keys of a tile in memory.
 *
 * A strip of neighbouring keys in one block is read in place. Other keys are copied to a scratch first, row by
 * row: where a cyclic cache wraps, with several beams, and staged keys of this step, whose slots still hold other
 * keys. Rows that must be changed are copied, too: StreamingLLM rotates K by its position inside the cache, and
 * MATH_FP8 rounds K and V to E4M3.
 */
#pragma once

#include "kernels/cpu/attention/attention_call.h"
#include "kernels/cpu/attention/tile.h"

#define source_init           REST(source_init)
#define source_tile           REST(source_tile)
#define source_gathered_bytes REST(source_gathered_bytes)

/* The keys of one kv head as a beam sees them. */
struct source {
    const struct attention_call *call;
    const struct row_block *block;
    const struct attention_sequence *sequence;
    const uint32_t *block_ids; /* of the beam */
    uint32_t n_keys;           /* keys from here on are not read */
    uint32_t absent, present;  /* no row sees keys absent .. present - 1; they are read as zeros */
    const char *staged;        /* K of key staged_first; V is head_bytes further on. NULL: none */
    uint32_t staged_first;
    size_t staged_stride, head_bytes;
    bool is_linear;                 /* every strip can be read in place */
    bool turns, rounds_k, rounds_v; /* rows are rotated or rounded, and become F32 */
    float k_unit, v_unit;           /* for rounding; v_unit 0: the largest of a row becomes 448 */
    char *gathered;                 /* [K, V][TILE_KEYS][head_dim] of up to 4 bytes */
};

size_t source_gathered_bytes(uint32_t head_dim);

/* staged: that of the workspace, see kv_update_step.h. gathered: source_gathered_bytes of memory, for this task only. */
void source_init(const struct attention_call *call, const struct row_block *block,
                 const char *staged, char *gathered, struct source *source_out);

/* Finds keys start .. start + TILE_KEYS - 1. tile_out is valid until the next call. */
void source_tile(const struct source *source, uint32_t start, struct tile *tile_out);
