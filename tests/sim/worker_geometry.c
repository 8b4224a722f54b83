/* The geometry of a simulated worker: see worker_node.h. */
#include "model/config/encoder_config.h"
#include "tests/sim/worker_node.h"
#include "worker_common/worker.h"

#include <assert.h>

/* Where no layer has a window or a state, and no encoder ends its texts with a block, the two kinds of workers have different blocks in some runs. */
static uint32_t block_tokens(const struct plan *plan, const struct model_config *config,
                             bool is_ctx)
{
    uint32_t n_windows = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        n_windows += config->windows[layer] != 0;
    const bool is_smaller = n_windows == 0 && !plan->has_sinks && plan->model != ORACLE_RECURRENT &&
                            !oracle_has_encoder(plan->model) && plan->seed % 6 == (is_ctx ? 1 : 4);
    return is_smaller ? GEOMETRY_BLOCK_TOKENS_MIN : plan->block_tokens;
}

struct geometry worker_node_geometry(const struct cluster *cluster, bool is_ctx)
{
    static const enum worker_kv_dtype DTYPES[] = {[CACHE_F32] = WORKER_KV_F32,
                                                  [CACHE_BF16] = WORKER_KV_BF16,
                                                  [CACHE_F16] = WORKER_KV_F16,
                                                  [CACHE_INT8] = WORKER_KV_INT8,
                                                  [CACHE_E4M3] = WORKER_KV_E4M3};
    const struct plan *plan = cluster->plan;
    const struct model *model = oracle_model(cluster->oracle, plan->model);
    struct geometry geometry = {0};
    struct error error = {""};
    enum status status = worker_geometry(
        model, DTYPES[plan->dtype], oracle_kv_scales(cluster->oracle, plan->model),
        block_tokens(plan, model_get_config(model), is_ctx), &error, &geometry);
    assert(status == STATUS_OK);
    (void)status;
    geometry.sinks = oracle_sinks(plan->model);
    geometry.has_encoder = model_has_encoder(model_get_config(model));
    return geometry;
}

uint32_t worker_node_step_tokens(const struct plan *plan, uint32_t wanted)
{
    const uint32_t n = plan_context_tokens(plan) + plan->block_tokens;
    return oracle_has_encoder(plan->model) ? wanted + (n - n % plan->block_tokens) : wanted;
}

bool worker_node_fits(const struct cluster *cluster, uint32_t n_beams, uint32_t n_prompt,
                      uint32_t n_tokens)
{
    const struct plan *plan = cluster->plan;
    const struct geometry geometry = worker_node_geometry(cluster, false);
    const uint32_t n_spans = ORACLE_CONTEXT_TOKENS / plan->block_tokens; /* as in pool_blocks */
    const uint32_t n_context = geometry_blocks(&geometry, plan_context_tokens(plan));
    const uint32_t n_of_each = geometry_spans(&geometry, n_tokens);
    uint32_t n = 0;
    for (uint32_t group = 0; group < geometry.groups.n; group++) {
        const uint32_t most = cache_group_spans_max(&geometry.groups, group, geometry.block_tokens);
        const uint32_t n_common = most == UINT32_MAX ? n_prompt / geometry.block_tokens : 0;
        n += n_common + n_beams * ((n_of_each < most ? n_of_each : most) - n_common);
    }
    return n <= (plan->gen_blocks * n_context + n_spans - 1) / n_spans;
}
