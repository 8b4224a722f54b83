#include "model/config/kv_layers.h"

#include "model/config/layer_shape.h"

#include <assert.h>

uint32_t kv_layers_count(const struct model_config *config)
{
    return kv_layers_before(config, config->n_layers);
}

uint32_t kv_layers_before(const struct model_config *config, uint32_t layer)
{
    uint32_t n = 0;
    assert(layer <= config->n_layers && config->n_layers <= LAYERS_MAX);
    for (uint32_t i = 0; i < layer; i++)
        n += layer_has_kv(config, i);
    return n;
}

uint32_t kv_layers_at(const struct model_config *config, uint32_t index)
{
    uint32_t layer = 0;
    assert(index < kv_layers_count(config));
    while (!layer_has_kv(config, layer) || kv_layers_before(config, layer) < index)
        layer++;
    return layer;
}

uint32_t kv_layers_recurrent(const struct model_config *config)
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        n += config->is_recurrent[layer];
    return n;
}

void kv_layers_describe(const struct model_config *config, struct kv_layers *layers_out)
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        if (!layer_has_kv(config, layer))
            continue;
        layers_out->windows[n] = config->windows[layer];
        layers_out->heads[n++] = (struct cache_heads){layer_kv_heads(config, layer),
                                                      layer_head_dim(config, layer)};
    }
    layers_out->layers = (struct cache_layers){
        .n = n,
        .windows = layers_out->windows,
        .heads = config->wide_head_dim > 0 ? layers_out->heads : NULL,
        .context_tokens = config->context_tokens,
    };
}

void kv_layers_divide_whole(const struct model_config *config, struct cache_groups *groups_out)
{
    struct kv_layers layers;
    kv_layers_describe(config, &layers);
    *groups_out = (struct cache_groups){0};
    if (!layers.layers.heads)
        return;
    layers.layers.context_tokens = 0; /* no window is below it */
    cache_groups_divide(&layers.layers, groups_out);
}
