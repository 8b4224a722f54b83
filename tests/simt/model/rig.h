/*
 * rig - a model on a device whose kernels the harness runs, warmed up, and sequences for it.
 *
 * Thread: the test's.
 */
#pragma once

#include "tests/model/support/runner.h"
#include "tests/simt/simt_device.h"

enum { TOKENS_MAX = 80, BLOCK_TOKENS = 8, N_SEQUENCES = 6, N_OF_BITS = 3 };

/* Models whose bits are compared: norms of heads and biases, a window, neither. */
extern const char *const OF_BITS[N_OF_BITS];

struct rig {
    struct device *device;
    struct runner runner;
    float *logits; /* [sequences_max][vocabulary] */
};

/* name: a golden model's, or "demo". */
void rig_open(struct rig *rig, const char *name, struct runner_options options,
              const struct simt_options *simt);
void rig_close(struct rig *rig);

/* Token number at of sequence s. */
uint32_t token_of(const struct rig *rig, uint32_t s, uint32_t at);
/* N_SEQUENCES with prompts of 4 tokens and more, and room for 24. */
void prefill_all(struct rig *rig, struct runner_sequence *sequences);
void end_all(struct rig *rig, struct runner_sequence *sequences);
