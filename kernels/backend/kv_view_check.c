#include "kernels/backend/kv_view_check.h"

#include "kernels/backend/reach.h"

/* K and V, layers and blocks are nested in some order. An inner part must not be larger than the outer stride. */
static enum status check_nesting(const struct kv_view *kv, uint64_t *span_inout,
                                 struct error *error)
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
        if (outer[next].stride < *span_inout)
            return error_set(
                error, STATUS_INVALID_ARGUMENT,
                "kv.%s is %llu, must be at least %llu: the bytes that one of them contains",
                outer[next].name, (unsigned long long)outer[next].stride,
                (unsigned long long)*span_inout);
        if (!reach(outer[next].stride, outer[next].count - 1, *span_inout, span_inout))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "kv.%s is %llu: the size of %llu of them does not fit in 64 bits",
                             outer[next].name, (unsigned long long)outer[next].stride,
                             (unsigned long long)outer[next].count);
    }
    return STATUS_OK;
}

enum status kv_view_check(const struct kv_view *kv, uint32_t n_kv_heads, uint64_t row,
                          struct error *error)
{
    uint64_t heads = n_kv_heads - 1, tokens = kv->block_tokens - 1; /* steps */
    uint64_t of_tokens, of_heads, span;
    if (!kv->base)
        return error_set(error, STATUS_INVALID_ARGUMENT, "kv.base is NULL");
    if (!reach(kv->token_stride, tokens, row, &of_tokens) ||
        !reach(kv->head_stride, heads, row, &of_heads) ||
        !reach(kv->head_stride, heads, of_tokens, &span))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.head_stride %llu and kv.token_stride %llu: the size of %u heads of %u "
                         "tokens does not fit in 64 bits",
                         (unsigned long long)kv->head_stride, (unsigned long long)kv->token_stride,
                         n_kv_heads, kv->block_tokens);
    bool is_head_outside = (tokens == 0 || kv->token_stride >= row) &&
                           (heads == 0 || kv->head_stride >= of_tokens);
    bool is_token_outside = (heads == 0 || kv->head_stride >= row) &&
                            (tokens == 0 || kv->token_stride >= of_heads);
    if (!is_head_outside && !is_token_outside)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.head_stride %llu and kv.token_stride %llu: rows of %llu bytes overlap",
                         (unsigned long long)kv->head_stride, (unsigned long long)kv->token_stride,
                         (unsigned long long)row);
    TRY(check_nesting(kv, &span, error));
    if (span > UINT64_MAX - (uint64_t)(uintptr_t)kv->base)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.base is %p: the end, %llu bytes behind it, does not fit in 64 bits",
                         kv->base, (unsigned long long)span);
    return STATUS_OK;
}

enum status kv_view_check_alignment(const struct kv_view *kv, uint32_t n_kv_heads, size_t element,
                                    struct error *error)
{
    const struct {
        const char *name;
        uint64_t stride, count;
    } strides[] = {
        {"kv_stride", kv->kv_stride, 2},
        {"block_stride", kv->block_stride, kv->n_blocks},
        {"layer_stride", kv->layer_stride, kv->n_layers},
        {"head_stride", kv->head_stride, n_kv_heads},
        {"token_stride", kv->token_stride, kv->block_tokens},
    };
    if ((uintptr_t)kv->base % element != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv.base is %p, must be a multiple of a cache element's %zu bytes",
                         kv->base, element);
    for (size_t i = 0; i < sizeof strides / sizeof strides[0]; i++)
        if (strides[i].count > 1 && strides[i].stride % element != 0)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "kv.%s is %llu, must be a multiple of a cache element's %zu bytes",
                             strides[i].name, (unsigned long long)strides[i].stride, element);
    return STATUS_OK;
}
