/*
 * kv_update - the operator of kernels/kv_update.h: rows are shared out in runs, a head is widened,
 * turned and narrowed, or copied when its bytes do not change.
 */
#include "kernels/kv_update.h"

#include "kernels/cpu/cpu.h"
#include "kernels/cpu/parallel.h"
#include "kernels/cpu/rows.h"
#include "kernels/host_attention.h"

enum { RUN_ROWS = 16, WORK_OF_ELEMENT = 4 };

/* What K and V have of their own. */
struct side {
    const char *row; /* of the input */
    const void *bias;
    float scale;
    bool turns;
};

static void load_head(const struct kv_update *update, const struct side *side, uint32_t head,
                      float *wide_out)
{
    uint32_t n = update->head_dim;
    size_t first = (size_t)head * n;
    row_widen(update->dtype, side->row + first * dtype_bytes(update->dtype), n, wide_out);
    if (!side->bias)
        return;
    float bias[HEAD_DIM_MAX];
    row_widen(update->bias_dtype,
              (const char *)side->bias + first * dtype_bytes(update->bias_dtype), n, bias);
    for (uint32_t i = 0; i < n; i++)
        wide_out[i] += bias[i];
}

static void write_head(const struct kv_update *update, const struct side *side, uint32_t head,
                       size_t angle, char *slot)
{
    const struct rotary_table *table = &update->rotary;
    uint32_t n = update->head_dim;
    if (update->dtype == update->cache && !side->bias && !side->turns) {
        size_t bytes = n * dtype_bytes(update->dtype);
        memcpy(slot, side->row + head * bytes, bytes);
        return;
    }
    float wide[HEAD_DIM_MAX];
    load_head(update, side, head, wide);
    if (side->turns)
        row_turn(table->cos + angle, table->sin + angle, table->rotary_dim, table->is_interleaved,
                 wide);
    row_narrow(wide, n, side->scale, update->cache, slot);
}

static void write_row(const struct kv_update *update, uint32_t sequence, uint32_t token,
                      uint64_t row)
{
    size_t bytes = dtype_bytes(update->dtype);
    bool is_scaled = dtype_is_8bit(update->cache);
    const struct side k = {
        .row = (const char *)update->k + row * update->k_stride * bytes,
        .bias = update->k_bias,
        .scale = is_scaled ? update->k_scale : 1,
        .turns = update->rotary.rotary_dim > 0,
    };
    const struct side v = {
        .row = (const char *)update->v + row * update->v_stride * bytes,
        .bias = update->v_bias,
        .scale = is_scaled ? update->v_scale : 1,
    };
    uint32_t position = update->positions ? update->positions[row] : token;
    size_t angle = (size_t)position * (update->rotary.rotary_dim / 2);
    uint32_t slot = kv_slot(token, update->window, update->sink_tokens);
    const uint32_t *block_ids = update->block_ids
                                    ? update->block_ids + (size_t)sequence * update->n_blocks
                                    : &sequence;
    for (uint32_t head = 0; head < update->n_kv_heads; head++) {
        char *place = host_kv_slot(&update->kv, update->layer_index, block_ids, head, slot);
        write_head(update, &k, head, angle, place);
        write_head(update, &v, head, angle, place + update->kv.kv_stride);
    }
}

/* Rows index * RUN_ROWS and on, counted over all sequences without padding. */
static void write_run(void *arg, uint32_t index)
{
    const struct kv_update *update = arg;
    uint64_t begin = (uint64_t)index * RUN_ROWS, end = begin + RUN_ROWS;
    uint64_t first = 0; /* of the sequence */
    for (uint32_t s = 0; s < update->n_sequences && first < end; s++) {
        uint64_t stop = first + update->lens[s];
        uint64_t first_row = update->padded_len ? (uint64_t)s * update->padded_len : first;
        uint64_t last_token = (uint64_t)update->write_indices[s] + update->lens[s];
        for (uint64_t r = first > begin ? first : begin; r < stop && r < end; r++) {
            uint32_t token = (uint32_t)(update->write_indices[s] + (r - first));
            if (!kv_update_is_overwritten(update, token, last_token))
                write_row(update, s, token, first_row + (r - first));
        }
        first = stop;
    }
}

void cpu_kv_update(struct thread_pool *pool, const struct kv_update *update)
{
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < update->n_sequences; s++)
        n_rows += update->lens[s];
    uint64_t work = n_rows * update->n_kv_heads * update->head_dim * WORK_OF_ELEMENT;
    parallel_run(pool, work, (uint32_t)((n_rows + RUN_ROWS - 1) / RUN_ROWS), write_run,
                 (void *)(uintptr_t)update);
}
