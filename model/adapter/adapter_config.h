/*
 * adapter_config - adapter_config.json of a PEFT folder: which modules of the model have an adapter, its ranks and scales.
 *
 *     r, rank_pattern            rank: r, or that of the first pattern of the module's name
 *     lora_alpha, alpha_pattern  alpha, in the same way; scale = alpha / rank
 *     use_rslora                 scale = alpha / sqrt(rank)
 *     target_modules             a list: names, or what they end with behind a point; a text: a regular expression of the whole name
 *     exclude_modules            the same, of modules that have none
 *     layers_to_transform        with a list of modules: only of these layers
 *
 * A name of a module is that in Transformers: "model.layers.0.self_attn.q_proj".
 *
 * Thread: immutable once read.
 */
#pragma once

#include "base/status.h"

#include <jansson.h>
#include <stdbool.h>
#include <stdint.h>

#define ADAPTER_RANK_MAX     1024u
#define ADAPTER_PATTERNS_MAX 1024u /* of rank_pattern, and of alpha_pattern */

struct module_pattern;

/* target_modules or exclude_modules. */
struct module_list {
    const json_t *names;            /* a list; NULL: there is none */
    struct module_pattern *pattern; /* NULL: there is none */
};

struct adapter_pattern {
    struct module_pattern *pattern;
    double value;
};

struct adapter_config {
    json_t *root;
    uint32_t rank;
    double alpha;
    bool divides_by_root; /* use_rslora */
    struct module_list targets, excluded;
    const json_t *layers; /* a number or a list; NULL: all */
    struct adapter_pattern *ranks, *alphas;
    uint32_t n_ranks, n_alphas;
};

/* NOT_FOUND, IO_FAILED, CORRUPT, UNSUPPORTED with a sentence that names key and value; NO_MEMORY. */
MUST_CHECK enum status adapter_config_read(const char *folder, struct error *error,
                                           struct adapter_config *config_out);
void adapter_config_finish(struct adapter_config *config); /* a zeroed one is fine */

/* Whether the module, of that layer, has an adapter. CORRUPT: a pattern takes too many steps. */
MUST_CHECK enum status adapter_config_has(const struct adapter_config *config, const char *module,
                                          uint32_t layer, struct error *error, bool *has_out);
/* Of such a module. */
MUST_CHECK enum status adapter_config_shape(const struct adapter_config *config, const char *module,
                                            struct error *error, uint32_t *rank_out,
                                            float *scale_out);
