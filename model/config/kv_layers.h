/*
 * kv_layers - the layers of a decoder that have K and V: all but those with recurrent state.
 *
 * Blocks have places for these alone. They are counted in their order in the model.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"

uint32_t kv_layers_count(const struct model_config *config);
/* How many of them come before the layer: its own number, if it is one of them. */
uint32_t kv_layers_before(const struct model_config *config, uint32_t layer);
/* The layer of a number below kv_layers_count. */
uint32_t kv_layers_at(const struct model_config *config, uint32_t index);
/* Their windows, for cache_groups.h. Returns how many they are. */
uint32_t kv_layers_windows(const struct model_config *config, uint32_t windows_out[LAYERS_MAX]);
