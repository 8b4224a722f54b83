/*
 * attention_facts - for each group of equal layers, whether their attention can be computed as the configuration says.
 *
 *     "attention": [{"layers": "0-4, 6-10", "window": 512, "rope": "main", "heads": 4, "kv_heads": 1, "head_dim": 256,
 *                    "path": "flash", "math": "bf16", "kv_dtype": "bf16", "supported": true}, ...]
 *
 * window 0: none. rope: main, local, none. With latents also "latent_dim"; then kv_heads are those that latents stand for. Layers that read K and V of others have
 * "reads_other_layers". If it is not supported: "error" with the operator's sentence.
 *
 * Thread: main; no state.
 */
#pragma once

#include "model/forward/forward.h"

#include <jansson.h>
#include <stdio.h>

/* Returns OK only if all layers are supported; else the status and sentence of the first that is not. As attention_check. */
MUST_CHECK enum status attention_facts_add(json_t *facts, const struct model *model,
                                           const struct forward_options *options,
                                           struct error *error);
/* For people: a line for each group. */
void attention_facts_print(const json_t *facts, FILE *out);
