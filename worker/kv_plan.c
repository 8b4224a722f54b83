#include "worker/kv_plan.h"

#include <inttypes.h>

enum status kv_plan_blocks(const struct geometry *geometry, const struct kv_wishes *wishes,
                           uint32_t *n_blocks_out, struct error *error)
{
    uint64_t block_bytes = geometry_block_bytes(geometry);
    uint32_t context_blocks = geometry_blocks(geometry, wishes->context_tokens);
    uint64_t n_blocks = wishes->kv_blocks;
    if (n_blocks == 0 && wishes->kv_memory > 0)
        n_blocks = wishes->kv_memory / block_bytes;
    if (n_blocks == 0 && wishes->kv_memory == 0) {
        n_blocks = (uint64_t)context_blocks * wishes->sequences_max;
        if (n_blocks * block_bytes > KV_MEMORY_DEFAULT)
            n_blocks = KV_MEMORY_DEFAULT / block_bytes;
        if (n_blocks < context_blocks)
            n_blocks = context_blocks;
    }
    if (n_blocks == 0 || n_blocks > UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_memory of %" PRIu64 " bytes makes %" PRIu64 " blocks of %" PRIu64
                         " bytes",
                         wishes->kv_memory, n_blocks, block_bytes);
    *n_blocks_out = (uint32_t)n_blocks;
    return STATUS_OK;
}

uint32_t kv_plan_context_fit(const struct geometry *geometry, uint64_t bytes, uint32_t n_pools,
                             uint32_t context_tokens)
{
    uint64_t n_blocks = bytes / n_pools / geometry_block_bytes(geometry);
    if (n_blocks >= geometry_blocks(geometry, context_tokens))
        return context_tokens;
    return (uint32_t)n_blocks * geometry->block_tokens;
}
