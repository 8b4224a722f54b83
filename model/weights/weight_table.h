/*
 * weight_table - finds the tensors of a decoder in the files, by the names, shapes and conditions of one table.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/weight_files.h"
#include "model/weights/weights.h"

#include <stdbool.h>
#include <stdint.h>

#define WEIGHT_EMBEDDING "model.embed_tokens.weight"
#define WEIGHT_HEAD      "lm_head.weight"

/* The arguments and results of weight_table_bind. */
struct weight_binding {
    const struct model_config *config;
    const struct weight_files *files;
    struct weights *weights; /* layers: [config->n_layers] */
    bool *is_used;           /* [files->n_entries] */
    uint64_t n_parameters;   /* of the bound tensors, as bytes is */
    uint64_t bytes;
};

/* Sets weights; data points into the mapped files. CORRUPT, UNSUPPORTED: the sentence names the tensor. */
MUST_CHECK enum status weight_table_bind(struct weight_binding *binding, struct error *error);
