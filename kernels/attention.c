#include "kernels/attention.h"

struct kv_view kv_view_dense(void *base, uint32_t n_blocks, uint32_t n_layers, uint32_t n_kv_heads,
                             uint32_t block_tokens, uint32_t head_dim, enum dtype cache)
{
    struct kv_view kv = {
        .base = base, .n_blocks = n_blocks, .n_layers = n_layers, .block_tokens = block_tokens};
    kv.token_stride = (uint64_t)head_dim * dtype_bytes(cache);
    kv.head_stride = kv.token_stride * block_tokens;
    kv.kv_stride = kv.head_stride * n_kv_heads;
    kv.layer_stride = kv.kv_stride * 2;
    kv.block_stride = kv.layer_stride * n_layers;
    return kv;
}

struct kv_view kv_view_contiguous(void *base, uint32_t n_rows, uint32_t n_kv_heads,
                                  uint32_t max_seqlen, uint32_t head_dim, enum dtype cache)
{
    struct kv_view kv = kv_view_dense(base, n_rows, 1, n_kv_heads, max_seqlen, head_dim, cache);
    kv.is_contiguous = true;
    return kv;
}

struct attention_io attention_io_fused(const struct attention_config *config, const void *qkv,
                                       uint64_t qkv_stride, void *output, uint64_t output_stride)
{
    size_t head_bytes = config->head_dim * dtype_bytes(config->compute);
    const char *k = (const char *)qkv + config->n_heads * head_bytes;
    return (struct attention_io){
        .q = qkv,
        .k = k,
        .v = k + config->n_kv_heads * head_bytes,
        .q_stride = qkv_stride,
        .k_stride = qkv_stride,
        .v_stride = qkv_stride,
        .output = output,
        .output_stride = output_stride,
    };
}
