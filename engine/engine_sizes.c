#include "engine/engine_sizes.h"

#include <assert.h>

enum status engine_sizes_check(const struct engine_sizes *sizes, struct error *error)
{
    assert(sizes->geometry && sizes->running_name);
    TRY(geometry_check(sizes->geometry, error));
    uint32_t block_tokens = sizes->geometry->block_tokens;
    if (sizes->chunk_tokens == 0 || sizes->chunk_tokens % block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "chunk_tokens is %u, wanted a multiple of block_tokens (%u)",
                         sizes->chunk_tokens, block_tokens);
    if (sizes->batch_tokens < sizes->chunk_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "batch_tokens is %u, under chunk_tokens %u", sizes->batch_tokens,
                         sizes->chunk_tokens);
    if (sizes->running_max == 0 || sizes->queue_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%s and queue_max cannot be 0",
                         sizes->running_name);
    uint64_t streams_min = (uint64_t)sizes->running_max + sizes->queue_max;
    if (sizes->streams_max < streams_min)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "streams_max is %u, under %s + queue_max = %llu", sizes->streams_max,
                         sizes->running_name, (unsigned long long)streams_min);
    return STATUS_OK;
}
