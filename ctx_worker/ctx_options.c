#include "ctx_worker/ctx_options.h"

#include "engine/engine_sizes.h"

/* A schedule wants room for one token beside a block, for decodes. A context worker has none. */
uint32_t ctx_options_step_tokens(uint32_t batch_tokens, uint32_t block_tokens)
{
    return batch_tokens == block_tokens ? batch_tokens + 1 : batch_tokens;
}

enum status ctx_options_check(const struct ctx_engine_options *options, struct error *error)
{
    const struct engine_sizes sizes = {.geometry = &options->geometry,
                                       .chunk_tokens = options->chunk_tokens,
                                       .batch_tokens = options->batch_tokens,
                                       .running_max = options->slots_max,
                                       .running_name = "slots_max",
                                       .queue_max = options->queue_max,
                                       .streams_max = options->streams_max};
    TRY(engine_sizes_check(&sizes, error));
    if (options->calls_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT, "calls_max cannot be 0");
    if (options->caller_share == 0 || options->caller_share > 100)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "caller_share is %u, wanted 1 to 100 percent", options->caller_share);
    return STATUS_OK;
}
