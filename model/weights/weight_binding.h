/*
 * weight_binding - what finding the tensors of a model reads and makes.
 *
 * Thread: used on one.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/weight_files.h"
#include "model/weights/weights.h"

#include <stdbool.h>
#include <stdint.h>

/* How the tensors of MXFP4 (E2M1, a scale E8M0 for each block) are called, after their name. */
#define MXFP4_BLOCKS "_blocks"
#define MXFP4_SCALES "_scales"
#define MXFP4_BLOCK  32u

/* The arguments and results of weight_table_bind. */
struct weight_binding {
    const struct model_config *config;
    uint32_t layer; /* whose tensors are being bound; 0 for those of the model */
    const struct weight_files *files;
    struct weights *weights; /* layers and experts: [config->n_layers] */
    bool *is_used;           /* [files->n_entries] */
    uint32_t n_quantized;    /* matrices that the files have quantized */
    uint64_t n_parameters;   /* of the bound tensors, as bytes is */
    uint64_t bytes;
    char root[64]; /* what the names of the decoder's tensors begin with */
    const struct weight_entry *embedding, *head; /* head NULL: the files have none */
};
