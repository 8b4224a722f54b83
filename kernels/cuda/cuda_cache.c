/*
 * cuda_cache - launches the operators rotary and kv_update.
 */
#include "kernels/backend/kv_view_check.h"
#include "kernels/cuda/cuda_ops.h"
#include "kernels/cuda/launch.h"
#include "kernels/kv_update.h"

#include <assert.h>

/* The CTAs that take the rows of a sequence in turn: only the device knows the number of rows. */
#define UPDATE_PARTS 16u

void cuda_rotary(struct thread_pool *pool, const struct rotary *rotary)
{
    (void)pool;
    const struct rotary_parameters parameters = {
        .x = rotary->x,
        .y = rotary->y,
        .cos = rotary->table.cos,
        .sin = rotary->table.sin,
        .positions = rotary->positions,
        .x_token_stride = rotary->x_token_stride,
        .x_head_stride = rotary->x_head_stride,
        .y_token_stride = rotary->y_token_stride,
        .y_head_stride = rotary->y_head_stride,
        .n_slots = (uint64_t)rotary->n_tokens * rotary->n_heads * (rotary->head_dim / 2),
        .n_heads = rotary->n_heads,
        .head_dim = rotary->head_dim,
        .rotary_dim = rotary->table.rotary_dim,
        .is_interleaved = rotary->table.is_interleaved,
        .dtype = rotary->dtype,
        .start = rotary->start,
    };
    assert(rotary->dtype <= DTYPE_F16 && rotary->head_dim % 2 == 0);
    assert(rotary->table.rotary_dim <= rotary->head_dim);
    assert((uintptr_t)rotary->y % dtype_bytes(rotary->dtype) == 0);
    const struct device_shape shape = {
        {cuda_divide_up(parameters.n_slots, LAYER_THREADS), 1, 1}, LAYER_THREADS, 0};
    if (parameters.n_slots > 0)
        cuda_launch(CUDA_rotary, &shape, &parameters);
}

static struct kv_update_parameters parameters_of(const struct kv_update *update)
{
    const struct kv_view *kv = &update->kv;
    const bool has_scales = dtype_is_8bit(update->cache);
    return (struct kv_update_parameters){
        .k = update->k,
        .v = update->v,
        .k_bias = update->k_bias,
        .v_bias = update->v_bias,
        .lens = update->lens,
        .write_indices = update->write_indices,
        .block_ids = update->block_ids,
        .positions = update->positions,
        .cos = update->rotary.cos,
        .sin = update->rotary.sin,
        .base = (uint8_t *)kv->base + update->layer_index * kv->layer_stride,
        .k_stride = update->k_stride,
        .v_stride = update->v_stride,
        .block_stride = kv->block_stride,
        .kv_stride = kv->kv_stride,
        .head_stride = kv->head_stride,
        .token_stride = kv->token_stride,
        .n_blocks = kv->is_contiguous ? 1 : update->n_blocks,
        .block_tokens = kv->block_tokens,
        .is_contiguous = kv->is_contiguous,
        .window = update->window,
        .sink_tokens = update->sink_tokens,
        .padded_len = update->padded_len,
        .dtype = update->dtype,
        .bias_dtype = update->bias_dtype,
        .cache = update->cache,
        .n_kv_heads = update->n_kv_heads,
        .head_dim = update->head_dim,
        .rotary_dim = update->rotary.rotary_dim,
        .is_interleaved = update->rotary.is_interleaved,
        .k_scale = has_scales ? update->k_scale : 1,
        .v_scale = has_scales ? update->v_scale : 1,
    };
}

/* lens, write_indices, block_ids and positions are on the device. kv_update_check needs them on the host, so it is not called. */
void cuda_kv_update(struct thread_pool *pool, const struct kv_update *update)
{
    (void)pool;
    const struct kv_update_parameters parameters = parameters_of(update);
    const struct device_shape shape = {{update->n_sequences, UPDATE_PARTS, 1}, LAYER_THREADS, 0};
    assert(update->dtype <= DTYPE_F16 && update->cache <= DTYPE_E4M3);
    assert(update->head_dim % 8 == 0 && update->rotary.rotary_dim <= update->head_dim);
    assert(kv_view_check_alignment(&update->kv, update->n_kv_heads, dtype_bytes(update->cache),
                                   NULL) == STATUS_OK);
    if (update->n_sequences > 0)
        cuda_launch(CUDA_kv_update, &shape, &parameters);
}
