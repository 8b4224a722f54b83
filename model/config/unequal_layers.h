/*
 * unequal_layers - reads which layers of config.json have heads of another size, and which read K and V of others (Gemma 4):
 * global_head_dim, num_global_key_value_heads, attention_k_eq_v, per_layer_config, num_kv_shared_layers, use_double_wide_mlp.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/hash.h"
#include "model/config/model_config.h"
#include "model/files/json_fields.h"

/* Call it when windows are in the config, before rotations are. CORRUPT, UNSUPPORTED: the sentence names key and value. */
MUST_CHECK enum status unequal_layers_read(const struct json_fields *fields,
                                           struct model_config *config);
/* Adds what these families have beyond others; a decoder that has nothing of it keeps its digest. */
struct hash128 unequal_layers_digest(const struct model_config *config, struct hash128 digest);
