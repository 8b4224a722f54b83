/*
 * attention_features - the numbered features of the operator: which back ends compute them, which exclude each other.
 *
 * Creation checks configurations by this table, the tests iterate over it, and the table in kernels/README.md is
 * printed from it.
 */
#pragma once

#include "kernels/attention.h"

#define ATTENTION_FEATURE(number) (UINT64_C(1) << (number))
/* Every number. */
#define ATTENTION_FEATURES_ALL (ATTENTION_FEATURE(ATTENTION_FEATURES + 1) - ATTENTION_FEATURE(1))
/* Features that every back end computes: those of every call (A2, A5, A8, A9, A26, A28, A32), and those that a step (A1),
 * a cache (A10, A11) or a model (A15) asks for. */
#define ATTENTION_FEATURES_OF_CALLS                                                                \
    (ATTENTION_FEATURE(1) | ATTENTION_FEATURE(2) | ATTENTION_FEATURE(5) | ATTENTION_FEATURE(8) |   \
     ATTENTION_FEATURE(9) | ATTENTION_FEATURE(10) | ATTENTION_FEATURE(11) |                        \
     ATTENTION_FEATURE(15) | ATTENTION_FEATURE(26) | ATTENTION_FEATURE(28) |                       \
     ATTENTION_FEATURE(32))

/* Numbers 1 .. 33 are A1 .. A33; later ones have other names. */
enum {
    FEATURE_INT8 = 34,
    FEATURE_BIAS,
    FEATURE_PREFIX,
    FEATURE_BF16,
    FEATURE_FP16,
    ATTENTION_FEATURES = FEATURE_FP16,
};

struct attention_feature {
    const char *id; /* as in README.md */
    const char *name;
    const char *fields; /* of attention_config, attention_step or attention_io that ask for it */
    const char *test;   /* suite and name, or file, that shows it */
};

/* number: 1 .. ATTENTION_FEATURES */
const struct attention_feature *attention_feature(uint32_t number);

/* Bit n is set if a layer uses feature n. A3 is set for paths that store scores, not for PATH_FLASH and PATH_AUTO.
 * ATTENTION_FEATURES_OF_CALLS are never set: they exclude nothing. A13, A14 and A16 all use the window: only the one
 * with the highest number is set, but A16 over a cyclic cache also sets A14. */
uint64_t attention_features_used(const struct attention_config *config);

/* Two features that no implementation combines. */
struct attention_exclusion {
    uint32_t first, second;
    const char *reason;
};

uint32_t attention_exclusions(const struct attention_exclusion **exclusions_out);

/* computed: attention_backend.features.
 * INVALID_ARGUMENT with both features and the reason. UNSUPPORTED with the one that is not computed. */
MUST_CHECK enum status attention_features_check(const struct attention_config *config,
                                                uint64_t computed, struct error *error);

/* The window of each layer, from a list that is repeated up to n_layers (A15), and the group of the layer: layers with
 * the same window form a group, and groups are numbered by first appearance. Returns the number of groups.
 * n_windows > 0. */
uint32_t attention_layer_groups(const uint32_t *windows, uint32_t n_windows, uint32_t n_layers,
                                uint32_t *layer_windows_out, uint32_t *layer_groups_out);
