#include "kernels/kv_update.h"

#include "kernels/host_attention.h"
#include "kernels/reference/head.h"
#include "kernels/reference/reference.h"

/* One head of a row of K or V, before it is stored. */
static void load(const struct kv_update *update, const void *rows, uint64_t first, const void *bias,
                 uint32_t head, double *wide_out)
{
    uint32_t n = update->head_dim;
    head_load(update->dtype, rows, first + (uint64_t)head * n, NULL, n, wide_out);
    for (uint32_t i = 0; bias && i < n; i++)
        wide_out[i] += (double)dtype_load(update->bias_dtype, bias, (size_t)head * n + i);
}

static void store(const struct kv_update *update, const double *wide, float scale, char *slot)
{
    bool is_scaled = dtype_is_8bit(update->cache);
    for (uint32_t i = 0; i < update->head_dim; i++)
        dtype_store(update->cache, slot, i, (float)(is_scaled ? wide[i] / (double)scale : wide[i]));
}

static void write_row(const struct kv_update *update, uint32_t sequence, uint32_t token,
                      uint64_t row)
{
    const struct rotary_table *table = &update->rotary;
    uint32_t position = update->positions ? update->positions[row] : token;
    size_t angle = (size_t)position * (table->rotary_dim / 2);
    uint32_t slot = kv_slot(token, update->window, update->sink_tokens);
    const uint32_t *block_ids = update->block_ids
                                    ? update->block_ids + (size_t)sequence * update->n_blocks
                                    : &sequence;
    for (uint32_t head = 0; head < update->n_kv_heads; head++) {
        double wide[HEAD_DIM_MAX];
        char *k = host_kv_slot(&update->kv, update->layer_index, block_ids, head, slot);
        load(update, update->k, row * update->k_stride, update->k_bias, head, wide);
        if (table->rotary_dim > 0)
            head_turn(table->cos + angle, table->sin + angle, table->rotary_dim,
                      table->is_interleaved, wide);
        store(update, wide, update->k_scale, k);
        load(update, update->v, row * update->v_stride, update->v_bias, head, wide);
        store(update, wide, update->v_scale, k + update->kv.kv_stride);
    }
}

void reference_kv_update(struct thread_pool *pool, const struct kv_update *update)
{
    (void)pool;
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < update->n_sequences; s++) {
        uint64_t first = update->padded_len ? (uint64_t)s * update->padded_len : n_rows;
        for (uint32_t i = 0; i < update->lens[s]; i++)
            write_row(update, s, update->write_indices[s] + i, first + i);
        n_rows += update->lens[s];
    }
}
