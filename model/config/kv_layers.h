/*
 * kv_layers - the layers of a decoder that have K and V: all but those with recurrent state and those that read K and V of others.
 *
 * Blocks have places for these alone. They are counted in their order in the model.
 *
 * Thread: any; no state.
 */
#pragma once

#include "kvcache/cache_groups.h"
#include "model/config/model_config.h"

uint32_t kv_layers_count(const struct model_config *config);
/* How many of them come before the layer: its own number, if it is one of them. */
uint32_t kv_layers_before(const struct model_config *config, uint32_t layer);
/* The layer of a number below kv_layers_count. */
uint32_t kv_layers_at(const struct model_config *config, uint32_t index);
/* Layers with recurrent state. */
uint32_t kv_layers_recurrent(const struct model_config *config);

/* What cache_groups.h must know of them. */
struct kv_layers {
    struct cache_layers layers; /* points into the rest */
    uint32_t windows[LAYERS_MAX];
    struct cache_heads heads[LAYERS_MAX];
};
void kv_layers_describe(const struct model_config *config, struct kv_layers *layers_out);
/* The groups of a sequence that keeps all that it computes: n 0, if all layers are alike. */
void kv_layers_divide_whole(const struct model_config *config, struct cache_groups *groups_out);
