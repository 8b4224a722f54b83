#include "kernels/host_view.h"

/* K and V, layers and blocks lie inside each other in some order: what lies inside takes no more room
 * than the stride around it. */
static enum status check_nesting(const struct kv_view *kv, uint64_t span, struct error *error)
{
    struct {
        const char *name;
        uint64_t stride, count;
    } outer[] = {{"kv_stride", kv->kv_stride, 2},
                 {"layer_stride", kv->layer_stride, kv->n_layers},
                 {"block_stride", kv->block_stride, kv->n_blocks}};
    bool is_done[3] = {false};
    for (int round = 0; round < 3; round++) {
        int next = -1;
        for (int i = 0; i < 3; i++)
            if (!is_done[i] && (next < 0 || outer[i].stride < outer[next].stride))
                next = i;
        is_done[next] = true;
        if (outer[next].count < 2)
            continue;
        if (outer[next].stride < span)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "kv.%s is %llu: what lies inside takes %llu bytes", outer[next].name,
                             (unsigned long long)outer[next].stride, (unsigned long long)span);
        span += outer[next].stride * (outer[next].count - 1);
    }
    return STATUS_OK;
}

enum status host_view_check(const struct kv_view *kv, uint32_t n_kv_heads, uint64_t row,
                            struct error *error)
{
    uint64_t heads = n_kv_heads - 1, tokens = kv->block_tokens - 1; /* steps */
    bool is_head_outside = (tokens == 0 || kv->token_stride >= row) &&
                           (heads == 0 || kv->head_stride >= tokens * kv->token_stride + row);
    bool is_token_outside = (heads == 0 || kv->head_stride >= row) &&
                            (tokens == 0 || kv->token_stride >= heads * kv->head_stride + row);
    if (!is_head_outside && !is_token_outside)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.head_stride %llu and kv.token_stride %llu: rows of %llu bytes overlap",
                         (unsigned long long)kv->head_stride, (unsigned long long)kv->token_stride,
                         (unsigned long long)row);
    uint64_t span = heads * kv->head_stride + tokens * kv->token_stride + row;
    return check_nesting(kv, span, error);
}
