/* model_config: any two texts (parted by a NUL: config.json, generation_config.json) are refused or
 * give a config whose numbers keep the promises of the header. */
#include "kernels/attention.h"
#include "model/config/config_file.h"
#include "model/config/model_config.h"
#include "model/config/rope_parameters.h"

#include <assert.h>
#include <string.h>

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size);

static void check_rope(const struct rope_config *config)
{
    struct rope *rope;
    struct error error;
    enum status status = rope_create(config, &rope, &error);
    assert(status == STATUS_OK);
    rope_destroy(rope);
}

static void check(const struct model_config *config)
{
    assert(config->n_layers >= 1 && config->n_layers <= LAYERS_MAX);
    assert(config->hidden >= 1 && config->hidden <= HIDDEN_MAX);
    assert(config->n_kv_heads >= 1 && config->n_heads % config->n_kv_heads == 0);
    assert(config->head_dim % 8 == 0 && config->head_dim <= HEAD_DIM_MAX);
    assert(config->wide_head_dim % 8 == 0 && config->wide_head_dim <= HEAD_DIM_MAX);
    assert(config->wide_head_dim == 0 || config->n_heads % config->wide_kv_heads == 0);
    assert(config->ffn >= 1 && config->ffn <= FFN_MAX && config->sharing_ffn <= FFN_MAX);
    assert(config->vocabulary >= 1 && config->vocabulary <= VOCABULARY_MAX);
    assert(config->context_tokens >= 1 && config->context_tokens <= CONTEXT_TOKENS_MAX);
    assert(config->norm_eps > 0 && config->norm_eps <= 1);
    assert(config->n_eos_ids <= EOS_IDS_MAX);
    for (uint32_t i = 0; i < config->n_eos_ids; i++)
        assert(config->eos_ids[i] < config->vocabulary);
    check_rope(&config->rope); /* whatever the parser lets through, the operators take */
    check_rope(&config->rope_local);
    const struct moe_routing *routing = &config->experts.routing;
    assert(routing->n_experts <= MOE_EXPERTS_MAX && routing->top_k <= routing->n_experts);
    assert(config->experts.n_inner <= FFN_MAX && config->experts.n_shared_inner <= FFN_MAX);
    for (uint32_t i = 0; i < config->n_layers; i++)
        assert(config->kv_back[i] <= i && config->kv_back[i - config->kv_back[i]] == 0);
    for (uint32_t i = 0; i < config->n_layers; i++)
        assert(!config->has_experts[i] || (routing->top_k > 0 && config->experts.n_inner > 0));
}

int LLVMFuzzerTestOneInput(const uint8_t *data, size_t size)
{
    struct model_config config;
    struct error error;
    const uint8_t *nul = size ? memchr(data, 0, size) : NULL;
    size_t first = nul ? (size_t)(nul - data) : size;
    if (model_config_parse((const char *)data, first, nul ? (const char *)nul + 1 : NULL,
                           nul ? size - first - 1 : 0, &config, &error) == STATUS_OK)
        check(&config);
    return 0;
}
