/*
 * layer_shape - what layers of one decoder may have different: the number and size of their heads, the width of their MLP, and
 * whose K and V they read.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"

static inline uint32_t layer_head_dim(const struct model_config *config, uint32_t layer)
{
    return config->is_wide[layer] ? config->wide_head_dim : config->head_dim;
}

static inline uint32_t layer_kv_heads(const struct model_config *config, uint32_t layer)
{
    return config->is_wide[layer] ? config->wide_kv_heads : config->n_kv_heads;
}

/* Intermediate size of its MLP. */
static inline uint32_t layer_ffn(const struct model_config *config, uint32_t layer)
{
    return config->kv_back[layer] > 0 && config->sharing_ffn > 0 ? config->sharing_ffn
                                                                 : config->ffn;
}

/* It has a place in KV blocks: no recurrent state, and K and V of its own. */
static inline bool layer_has_kv(const struct model_config *config, uint32_t layer)
{
    return !config->is_recurrent[layer] && config->kv_back[layer] == 0;
}

/* The layer whose K and V it reads: itself, mostly. */
static inline uint32_t layer_kv_source(const struct model_config *config, uint32_t layer)
{
    return layer - config->kv_back[layer];
}

/* Of the widest layers. */
static inline uint32_t layers_head_dim_max(const struct model_config *config)
{
    return config->wide_head_dim > config->head_dim ? config->wide_head_dim : config->head_dim;
}

static inline uint32_t layers_kv_heads_max(const struct model_config *config)
{
    return config->wide_kv_heads > config->n_kv_heads ? config->wide_kv_heads : config->n_kv_heads;
}

static inline uint32_t layers_ffn_max(const struct model_config *config)
{
    return config->sharing_ffn > config->ffn ? config->sharing_ffn : config->ffn;
}
