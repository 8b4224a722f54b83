/*
 * amx_emulated - the matrix unit's instructions of bytes in plain C, for tests on machines without one (AMX_EMULATED).
 *
 * Source: Intel's Architecture Instruction Set Extensions reference, chapter 3: TILELOADD fills what the configuration has of a tile and
 * sets the rest to zero, TDPBSUD adds four products of a signed and an unsigned byte at a time to each 32-bit sum.
 *
 * Thread: each has its own tiles.
 */
#pragma once

#include <assert.h>
#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#undef _tile_loadconfig
#undef _tile_release
#undef _tile_zero
#undef _tile_loadd
#undef _tile_stored
#undef _tile_dpbsud
#define _tile_loadconfig amx_emulated_configure
#define _tile_release    amx_emulated_release
#define _tile_zero       amx_emulated_zero
#define _tile_loadd      amx_emulated_load
#define _tile_stored     amx_emulated_store
#define _tile_dpbsud     amx_emulated_multiply

enum { AMX_TILES = 8, AMX_ROWS = 16, AMX_ROW_BYTES = 64 };

struct amx_tile {
    uint16_t row_bytes;
    uint8_t n_rows; /* 0: there is no configuration */
    uint8_t rows[AMX_ROWS][AMX_ROW_BYTES];
};

static _Thread_local struct amx_tile amx_tiles[AMX_TILES];

static inline void amx_emulated_configure(const void *config)
{
    const uint8_t *bytes = config;
    assert(bytes[0] == 1 && bytes[1] == 0);
    for (int i = 0; i < AMX_TILES; i++) {
        struct amx_tile *tile = &amx_tiles[i];
        memset(tile, 0, sizeof *tile);
        memcpy(&tile->row_bytes, bytes + 16 + 2 * i, sizeof tile->row_bytes);
        tile->n_rows = bytes[48 + i];
        assert(tile->row_bytes <= AMX_ROW_BYTES && tile->n_rows <= AMX_ROWS);
    }
}

static inline void amx_emulated_release(void)
{
    memset(amx_tiles, 0, sizeof amx_tiles);
}

static inline void amx_emulated_zero(int tile)
{
    assert(amx_tiles[tile].n_rows > 0);
    memset(amx_tiles[tile].rows, 0, sizeof amx_tiles[tile].rows);
}

static inline void amx_emulated_load(int to, const void *from, size_t stride)
{
    struct amx_tile *tile = &amx_tiles[to];
    amx_emulated_zero(to);
    for (int r = 0; r < tile->n_rows; r++)
        memcpy(tile->rows[r], (const char *)from + (size_t)r * stride, tile->row_bytes);
}

static inline void amx_emulated_store(int from, void *to, size_t stride)
{
    const struct amx_tile *tile = &amx_tiles[from];
    assert(tile->n_rows > 0);
    for (int r = 0; r < tile->n_rows; r++)
        memcpy((char *)to + (size_t)r * stride, tile->rows[r], tile->row_bytes);
}

/* sums += signed bytes * unsigned bytes. */
static inline void amx_emulated_multiply(int sums, int with_sign, int without)
{
    struct amx_tile *c = &amx_tiles[sums];
    const struct amx_tile *a = &amx_tiles[with_sign], *b = &amx_tiles[without];
    assert(c->n_rows > 0 && a->n_rows == c->n_rows && b->row_bytes == c->row_bytes &&
           a->row_bytes == 4 * b->n_rows);
    for (int m = 0; m < c->n_rows; m++)
        for (int n = 0; n < c->row_bytes / 4; n++) {
            int32_t sum;
            memcpy(&sum, c->rows[m] + 4 * (size_t)n, sizeof sum);
            for (int k = 0; k < a->row_bytes; k++)
                sum += (int8_t)a->rows[m][k] * b->rows[k / 4][4 * n + k % 4];
            memcpy(c->rows[m] + 4 * (size_t)n, &sum, sizeof sum);
        }
}
