#include "kernels/kv_update.h"

#include "kernels/backend/kv_view_check.h"

#include <math.h>

/* One sequence of a call that is being checked. */
struct judged {
    const struct kv_update *update;
    uint32_t sequence;
    uint64_t first_row; /* of k */
    uint64_t end;       /* one over the token index of its last row */
};

static enum status check_shape(const struct kv_update *update, struct error *error)
{
    uint32_t d = update->head_dim;
    uint64_t n = (uint64_t)update->n_kv_heads * d;
    if ((unsigned)update->dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT, "dtype is %d, must be F32, BF16 or F16",
                         (int)update->dtype);
    if (d == 0 || d % 8 != 0 || d > HEAD_DIM_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "head_dim is %u, must be a multiple of 8 up to %u", d, HEAD_DIM_MAX);
    if (update->n_kv_heads == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "n_kv_heads is 0");
    if (update->k_stride < n || update->v_stride < n)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "k_stride %llu, v_stride %llu: a row has %llu elements",
                         (unsigned long long)update->k_stride, (unsigned long long)update->v_stride,
                         (unsigned long long)n);
    if ((update->k_bias || update->v_bias) && (unsigned)update->bias_dtype > DTYPE_F16)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "bias_dtype is %d, must be F32, BF16 or F16", (int)update->bias_dtype);
    if (update->rotary.rotary_dim == 0)
        return STATUS_OK;
    return rotary_table_check(&update->rotary, d, error);
}

static enum status check_given(const struct kv_update *update, struct error *error)
{
    const struct {
        const char *name;
        const void *array;
        bool is_optional;
    } arrays[] = {
        {"k", update->k, false},
        {"v", update->v, false},
        {"lens", update->lens, false},
        {"write_indices", update->write_indices, false},
        {"kv.base", update->kv.base, false},
        {"block_ids", update->block_ids, update->kv.is_contiguous},
    };
    for (size_t i = 0; i < sizeof arrays / sizeof arrays[0]; i++)
        if (!arrays[i].array && !arrays[i].is_optional)
            return error_set(error, STATUS_INVALID_ARGUMENT, "%s is NULL", arrays[i].name);
    return STATUS_OK;
}

static enum status check_scale(const char *name, float scale, struct error *error)
{
    if (isfinite(scale) && scale > 0)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT, "%s is %g, must be positive", name,
                     (double)scale);
}

static enum status check_cache(const struct kv_update *update, struct error *error)
{
    const struct kv_view *kv = &update->kv;
    uint32_t n = kv->block_tokens;
    if ((unsigned)update->cache > DTYPE_E4M3)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "cache is %d, must be F32, BF16, F16, INT8 or E4M3", (int)update->cache);
    if (dtype_is_8bit(update->cache)) {
        TRY(check_scale("k_scale", update->k_scale, error));
        TRY(check_scale("v_scale", update->v_scale, error));
    }
    if (kv->is_contiguous ? n == 0
                          : n < BLOCK_TOKENS_MIN || n > BLOCK_TOKENS_MAX || (n & (n - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.block_tokens is %u, must be a power of two from %u to %u, or any "
                         "number but 0 of a contiguous cache",
                         n, BLOCK_TOKENS_MIN, BLOCK_TOKENS_MAX);
    if (!kv_view_has_layer(kv, update->layer_index))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "layer_index is %u, must be below kv.n_layers %u", update->layer_index,
                         kv->n_layers);
    if (kv->is_contiguous && update->block_ids && update->n_blocks != 1)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "n_blocks is %u, must be 1 with a contiguous cache", update->n_blocks);
    if (update->window == 0 && update->sink_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u, must be 0 without a window", update->sink_tokens);
    if (update->window != 0 && update->sink_tokens >= update->window)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sink_tokens is %u, must be below window %u", update->sink_tokens,
                         update->window);
    return kv_view_check(&update->kv, update->n_kv_heads,
                         update->head_dim * dtype_bytes(update->cache), error);
}

static enum status check_positions(const struct judged *judged, struct error *error)
{
    const struct kv_update *update = judged->update;
    uint32_t n_positions = update->rotary.n_positions;
    if (update->rotary.rotary_dim == 0)
        return STATUS_OK;
    if (!update->positions && judged->end > n_positions)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "sequence %u: its last token is %llu, rotary has %u positions",
                         judged->sequence, (unsigned long long)judged->end - 1, n_positions);
    for (uint32_t i = 0; update->positions && i < update->lens[judged->sequence]; i++) {
        uint32_t position = update->positions[judged->first_row + i];
        if (position >= n_positions)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: positions[%llu] is %u, rotary has %u positions",
                             judged->sequence, (unsigned long long)judged->first_row + i, position,
                             n_positions);
    }
    return STATUS_OK;
}

/* Checks the blocks of the slots that are written. */
static enum status check_blocks(const struct judged *judged, struct error *error)
{
    const struct kv_update *update = judged->update;
    uint32_t block_tokens = update->kv.block_tokens;
    uint32_t n_blocks = update->kv.is_contiguous ? 1 : update->n_blocks;
    for (uint64_t token = update->write_indices[judged->sequence]; token < judged->end; token++) {
        uint32_t slot = kv_slot((uint32_t)token, update->window, update->sink_tokens);
        uint32_t index = slot / block_tokens;
        if (index >= n_blocks)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: token %llu goes to slot %u, %u blocks hold %llu slots",
                             judged->sequence, (unsigned long long)token, slot, n_blocks,
                             (unsigned long long)n_blocks * block_tokens);
        uint32_t id = update->block_ids
                          ? update->block_ids[(size_t)judged->sequence * n_blocks + index]
                          : judged->sequence;
        if (id >= update->kv.n_blocks)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "sequence %u: block %u has id %u, the view has %u blocks",
                             judged->sequence, index, id, update->kv.n_blocks);
    }
    return STATUS_OK;
}

static enum status check_sequence(const struct judged *judged, struct error *error)
{
    const struct kv_update *update = judged->update;
    uint32_t len = update->lens[judged->sequence];
    if (update->padded_len != 0 && len > update->padded_len)
        return error_set(error, STATUS_INVALID_ARGUMENT, "lens[%u] is %u, padded_len is %u",
                         judged->sequence, len, update->padded_len);
    if (len == 0)
        return STATUS_OK;
    if (judged->end > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "write_indices[%u] is %u: with %u rows it ends above 2^32",
                         judged->sequence, update->write_indices[judged->sequence], len);
    TRY(check_blocks(judged, error));
    return check_positions(judged, error);
}

enum status kv_update_check(const struct kv_update *update, struct error *error)
{
    TRY(check_shape(update, error));
    TRY(check_cache(update, error));
    if (update->n_sequences > 0)
        TRY(check_given(update, error));
    uint64_t n_rows = 0;
    for (uint32_t s = 0; s < update->n_sequences; s++) {
        struct judged judged = {
            .update = update,
            .sequence = s,
            .first_row = update->padded_len ? (uint64_t)s * update->padded_len : n_rows,
            .end = (uint64_t)update->write_indices[s] + update->lens[s],
        };
        TRY(check_sequence(&judged, error));
        n_rows += update->lens[s];
    }
    return STATUS_OK;
}
