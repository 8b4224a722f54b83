/*
 * weight_table - which tensors a decoder has, by its config, and where each is among the files: names, shapes, conditions.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/model_config.h"
#include "model/weight_files.h"
#include "model/weights.h"

#include <stdbool.h>
#include <stdint.h>

#define WEIGHT_EMBEDDING "model.embed_tokens.weight"
#define WEIGHT_HEAD      "lm_head.weight"

/* What a table of tensors is bound to, and how much of it. */
struct weight_binding {
    const struct model_config *config;
    const struct weight_files *files;
    struct weights *weights; /* layers: [config->n_layers] */
    bool *is_used;           /* [files->n_entries] */
    uint64_t n_parameters;   /* of what was bound; so are the bytes of the files */
    uint64_t bytes;
};

/* Sets weights; data stays where the files are mapped. CORRUPT, UNSUPPORTED with the tensor. */
MUST_CHECK enum status weight_table_bind(struct weight_binding *binding, struct error *error);
