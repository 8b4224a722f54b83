/*
 * amx - the matrix unit: eight tiles of 16 rows x 64 bytes. Each thread configures it before a use and releases it after.
 *
 * Tiles 0 .. 3 are sums, 4 and 5 first operands (rows of 16 tokens or weight rows), 6 and 7 second operands. The
 * process must ask Linux for the unit first: kernels.c does.
 */
#pragma once

#include "kernels/cpu/vector/vec.h"
#ifdef AMX_EMULATED
#include "kernels/cpu/vector/amx_emulated.h"
#endif

/* gcc does not know that loads of tiles read memory. This makes the stores before them happen first. */
static inline void amx_settle(const void *memory)
{
    __asm__ volatile("" : : "r"(memory) : "memory");
}

/* k_bytes: bytes of a row of the first operands, at most 64; the second operands have k_bytes / 4 rows.
 * columns: those of the second operands and the sums, at most 16; with fewer than 16, tile 5 is a second operand. */
static inline void amx_start(uint8_t k_bytes, uint8_t columns)
{
    struct {
        uint8_t palette, start_row, reserved[14];
        uint16_t row_bytes[16];
        uint8_t rows[16];
    } config = {.palette = 1};
    for (int i = 0; i < 8; i++) {
        config.row_bytes[i] = i == 4 || (i == 5 && columns == 16) ? k_bytes : 4 * columns;
        config.rows[i] = i >= 6 ? k_bytes / 4 : 16;
    }
    amx_settle(&config);
    _tile_loadconfig(&config);
}

static inline void amx_finish(void)
{
    _tile_release();
}
