/*
 * static_step - steps of a small layer (layer.h) that are filled up with dummies to a number of sequences that never changes,
 * as a captured step is: kinds of layers, and what of a step's rows must be.
 */
#pragma once

#include "tests/kernels/support/layer.h"

enum {
    STATIC_PROMPT = 20,
    STATIC_SEQUENCES = 4,
    STATIC_KINDS = 17,
};

/* Features whose loops a row without keys could disturb. */
struct static_kind {
    const char *name;
    struct attention_config config; /* without rope */
    uint32_t n_query;               /* tokens of a sequence in a step of generation */
    bool is_turned, is_contiguous;
};
extern const struct static_kind static_kinds[STATIC_KINDS]; /* the first is plain */

/* What kinds point to, made between begin and end. */
extern float static_qkv_bias[(LAYER_HEADS + 2 * LAYER_KV_HEADS) * LAYER_DIM];
extern float static_norm[LAYER_DIM];
void static_step_begin(void);
void static_step_end(void);

struct attention_config static_config(const struct static_kind *kind);

/* n sequences behind kv_len tokens each, then dummies up to n_static. */
void static_step_run(struct layer *layer, const struct static_kind *kind,
                     enum attention_phase phase, uint32_t n, uint32_t kv_len, uint32_t n_static,
                     struct layer_rows *rows_out);

/* n_real rows are the expected ones, to the bit; those behind them are a dummy's. */
void static_step_assert_rows(const struct layer_rows *got, const struct layer_rows *expected,
                             uint32_t n_real, uint32_t n_all, const char *what);

/* The caches of both, to the bit. */
void static_step_assert_caches(const struct layer *got, const struct layer *expected,
                               const char *what, uint32_t n);
