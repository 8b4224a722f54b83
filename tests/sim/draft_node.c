#include "tests/sim/draft_node.h"

#include "model/forward/forward.h"

bool draft_node_guesses(const struct plan *plan)
{
    return plan->seed / 4 % 2 == 0 && plan->model != ORACLE_RECURRENT &&
           plan->model != ORACLE_SINKS_MODEL && !oracle_has_encoder(plan->model);
}

enum status draft_node_create(const struct plan *plan, const struct oracle *oracle,
                              struct device *device, uint32_t sequences_max, struct error *error,
                              struct drafter **drafter_out)
{
    const uint64_t kind = plan->seed / 8 % 3;
    const struct model *model = oracle_model(oracle, kind == 1 ? plan->model : 0);
    const uint32_t context_tokens = plan_context_tokens(plan);
    /* Of a line and a little: slots take blocks from others. */
    const uint32_t n_few = 1 + (context_tokens + 24) / plan->block_tokens;
    const size_t block_bytes = forward_block_bytes(model_get_config(model), plan->block_tokens,
                                                   CACHE_F32);
    *drafter_out = NULL;
    if (!draft_node_guesses(plan) || kind == 0)
        return STATUS_OK;
    const struct drafter_options options = {
        .model = model,
        .device = device,
        .block_tokens = plan->block_tokens,
        .context_tokens = context_tokens,
        .vocabulary = model_get_config(oracle_model(oracle, plan->model))->vocabulary,
        .sequences_max = sequences_max,
        .chunk_tokens = plan->chunk_tokens,
        .scrubs = plan->seed % 2,
        .memory_bytes = plan->seed % 5 == 0 ? n_few * block_bytes : 1 << 26,
    };
    return drafter_create(&options, error, drafter_out);
}
