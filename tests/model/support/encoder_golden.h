/* encoder_golden - what Transformers computes from the models of tests/golden/encoders; asserts on failure. */
#pragma once

#include "tests/model/support/runner.h"

#define GOLDEN_ENCODERS     KVFERRY_SOURCE_DIR "/tests/golden/encoders"
#define ENCODER_PAIRS       3
#define ENCODER_PAIR_TOKENS 70 /* most of a text */

static const char *const encoder_models[] = {"t5_v1_0",      "t5_v1_1",     "mt5",   "umt5",
                                             "bart",         "bart_scaled", "mbart", "t5_far",
                                             "t5_far_gated", "umt5_far"};

enum { ENCODER_MODELS = sizeof encoder_models / sizeof *encoder_models };

struct encoder_pair {
    uint32_t *source, *decoder;
    uint32_t n_source, n_decoder;
    const float *cross;  /* [layer][K, V][head][n_source][dim] */
    const float *logits; /* [n_decoder][vocabulary] */
};

struct encoder_golden {
    char folder[512];
    uint32_t n_layers, n_heads, dim, vocabulary, start;
    struct encoder_pair pairs[ENCODER_PAIRS];
    double int8_error, largest_logit; /* of the second pair */
    uint32_t *greedy[2], n_greedy;    /* replies to the first two sources */
    float *floats;
};

void encoder_golden_open(struct encoder_golden *golden, const char *name);
void encoder_golden_close(struct encoder_golden *golden);

/* Logits of all tokens of a pair [n_decoder][vocabulary], in chunks of chunk_tokens (0: one; 1: each in the generation phase). */
void encoder_logits(struct runner *runner, const struct encoder_pair *pair, uint32_t chunk_tokens,
                    float *logits_out);
