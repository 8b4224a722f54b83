#include "tests/simt/model/rig.h"

#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

const char *const OF_BITS[N_OF_BITS] = {"qwen3_t5_bias", "mistral_t4_window", "llama_t4"};
void rig_open(struct rig *rig, const char *name, struct runner_options options,
              const struct simt_options *simt)
{
    char folder[512];
    snprintf(folder, sizeof folder, "%s/%s", GOLDEN_MODELS, name);
    if (strcmp(name, "demo") == 0)
        snprintf(folder, sizeof folder, "%s", DEMO_MODEL);
    rig->device = simt_device_open(simt);
    options.device = rig->device;
    options.block_tokens = BLOCK_TOKENS;
    options.tokens_max = TOKENS_MAX;
    options.n_blocks = options.n_blocks ? options.n_blocks : 32;
    runner_open(&rig->runner, folder, options);
    rig->logits = calloc((size_t)8 * rig->runner.vocabulary, sizeof *rig->logits);
    cr_assert(rig->logits);
    cr_assert_eq(forward_warm_up(rig->runner.forward), STATUS_OK);
}

void rig_close(struct rig *rig)
{
    free(rig->logits);
    runner_close(&rig->runner);
    device_close(rig->device);
}

uint32_t token_of(const struct rig *rig, uint32_t s, uint32_t at)
{
    return (s * 977 + at * 131 + 7) % rig->runner.vocabulary;
}

void prefill_all(struct rig *rig, struct runner_sequence *sequences)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++) {
        uint32_t ids[4 + N_SEQUENCES];
        for (uint32_t i = 0; i < 4 + s; i++)
            ids[i] = token_of(rig, s, i);
        runner_begin(&rig->runner, &sequences[s], 24);
        runner_prefill(&rig->runner, &sequences[s], ids, 4 + s, 0, rig->logits);
    }
}

void end_all(struct rig *rig, struct runner_sequence *sequences)
{
    for (uint32_t s = 0; s < N_SEQUENCES; s++)
        runner_end(&rig->runner, &sequences[s]);
}
