/*
 * rotary - the operator of kernels/rotary.h on the CPU: widens, rotates and narrows each head.
 */
#include "kernels/rotary.h"

#include "kernels/attention.h"
#include "kernels/cpu/cpu.h"
#include "kernels/cpu/each_row.h"
#include "kernels/cpu/vector/rows.h"

static void turn_head(const struct rotary *rotary, size_t angle, const char *x, char *y)
{
    const struct rotary_table *table = &rotary->table;
    size_t bytes = dtype_bytes(rotary->dtype);
    uint32_t n = (table->rotary_dim + 7) / 8 * 8; /* for row_narrow; the rest is copied */
    float head[HEAD_DIM_MAX];
    row_widen(rotary->dtype, x, n, head);
    row_turn(table->cos + angle, table->sin + angle, table->rotary_dim, table->is_interleaved,
             head);
    row_narrow(head, n, 1, rotary->dtype, y);
    if (x != y)
        memcpy(y + n * bytes, x + n * bytes, (rotary->head_dim - n) * bytes);
}

static void turn_token(const void *op, uint32_t token)
{
    const struct rotary *rotary = op;
    size_t bytes = dtype_bytes(rotary->dtype);
    uint32_t position = rotary->positions ? rotary->positions[token] : rotary->start + token;
    size_t angle = (size_t)position * (rotary->table.rotary_dim / 2);
    const char *x = (const char *)rotary->x + token * rotary->x_token_stride * bytes;
    char *y = (char *)rotary->y + token * rotary->y_token_stride * bytes;
    for (uint32_t head = 0; head < rotary->n_heads; head++)
        turn_head(rotary, angle, x + head * rotary->x_head_stride * bytes,
                  y + head * rotary->y_head_stride * bytes);
}

void cpu_rotary(struct thread_pool *pool, const struct rotary *rotary)
{
    struct rows_task task = {rotary, rotary->n_tokens, turn_token};
    each_row(pool, &task, (uint64_t)rotary->n_heads * rotary->head_dim);
}
