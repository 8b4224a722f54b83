#include "kernels/cpu/layer/kv_update_head.h"

#include "kernels/cpu/vector/rows.h"

#include <assert.h>

static void add_bias(const struct kv_head *head, float *wide)
{
    float bias[HEAD_DIM_MAX];
    row_widen(head->bias_dtype, head->bias, head->n, bias);
    for (uint32_t i = 0; i < head->n; i++)
        wide[i] += bias[i];
}

void kv_update_head(const struct kv_head *head, void *slot_out)
{
    float wide[HEAD_DIM_MAX];
    assert(head->n <= HEAD_DIM_MAX && head->n_rotary <= head->n);
    if (head->dtype == head->cache && !head->bias && !head->norm && head->n_rotary == 0) {
        memcpy(slot_out, head->row, head->n * dtype_bytes(head->dtype));
        return;
    }
    row_widen(head->dtype, head->row, head->n, wide);
    if (head->bias)
        add_bias(head, wide);
    if (head->norm)
        row_norm(wide, DTYPE_F32, head->norm, head->n, head->norm_eps, wide);
    if (head->n_rotary > 0)
        row_turn(head->cos, head->sin, head->n_rotary, head->is_interleaved, wide);
    row_narrow(wide, head->n, dtype_is_8bit(head->cache) ? head->scale : 1, head->cache, slot_out);
}
