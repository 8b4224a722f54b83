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
