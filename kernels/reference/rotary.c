#include "kernels/rotary.h"

#include "kernels/attention.h"
#include "kernels/reference/head.h"
#include "kernels/reference/reference.h"

static void turn(const struct rotary *rotary, uint32_t token, uint32_t head)
{
    const struct rotary_table *table = &rotary->table;
    uint64_t x = token * rotary->x_token_stride + head * rotary->x_head_stride;
    uint64_t y = token * rotary->y_token_stride + head * rotary->y_head_stride;
    uint32_t position = rotary->positions ? rotary->positions[token] : rotary->start + token;
    size_t angle = (size_t)position * (table->rotary_dim / 2);
    double wide[HEAD_DIM_MAX];
    head_load(rotary->dtype, rotary->x, x, rotary->head_dim, wide);
    head_turn(table->cos + angle, table->sin + angle, table->rotary_dim, table->is_interleaved,
              wide);
    for (uint32_t i = 0; i < rotary->head_dim; i++)
        dtype_store(rotary->dtype, rotary->y, y + i, (float)wide[i]);
}

void reference_rotary(struct thread_pool *pool, const struct rotary *rotary)
{
    (void)pool;
    for (uint32_t token = 0; token < rotary->n_tokens; token++)
        for (uint32_t head = 0; head < rotary->n_heads; head++)
            turn(rotary, token, head);
}
