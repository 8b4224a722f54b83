#include "worker_common/worker_forward.h"

#include <assert.h>

enum kv_dtype worker_kv_dtype(enum worker_kv_dtype wanted, enum dtype weights)
{
    switch (wanted) {
    case WORKER_KV_F32:
        return KV_F32;
    case WORKER_KV_BF16:
        return KV_BF16;
    case WORKER_KV_F16:
        return KV_F16;
    case WORKER_KV_INT8:
        return KV_INT8;
    case WORKER_KV_E4M3:
        return KV_E4M3;
    case WORKER_KV_AUTO:
        break;
    }
    switch (weights) {
    case DTYPE_F32:
        return KV_F32;
    case DTYPE_BF16:
        return KV_BF16;
    case DTYPE_F16:
        return KV_F16;
    case DTYPE_INT8:
    case DTYPE_E4M3:
    case DTYPE_E2M1:
        break;
    default: /* blocks of GGML */
        break;
    }
    assert(false && "a folder's weights have one of three");
    return KV_F32;
}

enum dtype worker_element_dtype(enum kv_dtype dtype)
{
    static const enum dtype DTYPES[] = {[KV_F32] = DTYPE_F32,
                                        [KV_BF16] = DTYPE_BF16,
                                        [KV_F16] = DTYPE_F16,
                                        [KV_INT8] = DTYPE_INT8,
                                        [KV_E4M3] = DTYPE_E4M3};
    assert((unsigned)dtype < sizeof DTYPES / sizeof *DTYPES);
    return DTYPES[dtype];
}

enum cache_dtype worker_cache_dtype(enum kv_dtype dtype)
{
    switch (dtype) {
    case KV_F32:
        return CACHE_F32;
    case KV_BF16:
        return CACHE_BF16;
    case KV_F16:
        return CACHE_F16;
    case KV_INT8:
        return CACHE_INT8;
    case KV_E4M3:
        return CACHE_E4M3;
    }
    assert(false && "geometry_check has seen it");
    return CACHE_F32;
}

struct forward_options worker_forward_options(const struct geometry *geometry,
                                              const struct worker_step *step)
{
    return (struct forward_options){
        .block_tokens = geometry->block_tokens,
        .cache_dtype = worker_cache_dtype(geometry->dtype),
        .kv_scales = step->kv_scales,
        .context_math = step->context_math,
        .block_activations = step->block_activations,
        .attention = step->attention,
        .tokens_max = step->tokens_max,
        .encoder_tokens_max = step->tokens_max,
        .sequences_max = step->sequences_max,
        .adapter_rank_max = step->adapter_rank_max,
        .blocks_max = geometry_spans(geometry, step->context_tokens),
        .groups = geometry->groups,
        .sinks = geometry->sinks,
        .threads = step->threads,
        .device = step->device,
    };
}

enum status worker_forward_create(const struct model *model, const struct geometry *geometry,
                                  const struct worker_step *step, struct error *error,
                                  struct forward **forward_out)
{
    const struct forward_options options = worker_forward_options(geometry, step);
    struct forward *forward;
    TRY(forward_create(model, &options, error, &forward));
    enum status status = forward_warm_up(forward);
    if (status != STATUS_OK)
        (void)error_set(error, status, "the device was lost in the warm-up");
    else
        status = forward_plan_products(forward, error);
    if (status == STATUS_OK)
        status = forward_measure_graphs(forward, error);
    if (status != STATUS_OK) {
        forward_destroy(forward);
        return status;
    }
    *forward_out = forward;
    return STATUS_OK;
}
