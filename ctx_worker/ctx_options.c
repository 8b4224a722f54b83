#include "ctx_worker/ctx_options.h"

enum status ctx_options_check(const struct ctx_engine_options *options, struct error *error)
{
    TRY(geometry_check(&options->geometry, error));
    uint32_t block_tokens = options->geometry.block_tokens;
    if (options->chunk_tokens == 0 || options->chunk_tokens % block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "chunk_tokens is %u, wanted a multiple of block_tokens (%u)",
                         options->chunk_tokens, block_tokens);
    if (options->batch_tokens < options->chunk_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "batch_tokens is %u, under chunk_tokens %u", options->batch_tokens,
                         options->chunk_tokens);
    if (options->slots_max == 0 || options->queue_max == 0 || options->calls_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "slots_max, queue_max and calls_max cannot be 0");
    if (options->caller_share == 0 || options->caller_share > 100)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "caller_share is %u, wanted 1 to 100 percent", options->caller_share);
    if (options->streams_max < options->slots_max + options->queue_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "streams_max is %u, under slots_max + queue_max = %u",
                         options->streams_max, options->slots_max + options->queue_max);
    if (geometry_block_bytes(&options->geometry) != block_pool_block_bytes(options->pool))
        return error_set(error, STATUS_INVALID_ARGUMENT, "the pool's blocks are of another size");
    return STATUS_OK;
}
