#include "model/config/kv_layers.h"

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
        n += !config->is_recurrent[i];
    return n;
}

uint32_t kv_layers_at(const struct model_config *config, uint32_t index)
{
    uint32_t layer = 0;
    assert(index < kv_layers_count(config));
    while (config->is_recurrent[layer] || kv_layers_before(config, layer) < index)
        layer++;
    return layer;
}

uint32_t kv_layers_windows(const struct model_config *config, uint32_t windows_out[LAYERS_MAX])
{
    uint32_t n = 0;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (!config->is_recurrent[layer])
            windows_out[n++] = config->windows[layer];
    return n;
}
