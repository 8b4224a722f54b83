/*
 * engine_rig - what an engine under test computes with: a small model on a device, a pool of blocks, a forward pass; and the prompts
 * that it is asked to compute.
 */
#pragma once

#include "tests/model/support/overflow.h"
#include "worker_common/worker.h"
#include "worker_common/worker_forward.h"

#include <criterion/criterion.h>

#define RIG_BLOCK_TOKENS   8u
#define RIG_CONTEXT_TOKENS 128u
#define RIG_VOCABULARY     96u
#define RIG_BATCH_TOKENS   (4 * RIG_BLOCK_TOKENS)
#define RIG_AGING_MS       10u

struct engine_rig_options {
    uint32_t n_blocks, sequences_max;
    uint32_t step_tokens;  /* that a forward pass has room for */
    struct device *device; /* the test's; NULL: the host */
    bool overflows;        /* at this token, as tests/model/support/overflow.h has it */
    uint32_t overflow_token;
};

struct engine_rig {
    struct device *device, *host; /* host: NULL when the device is the test's */
    struct model *model;
    struct overflow overflow;
    struct geometry geometry;
    struct block_pool *pool;
    struct forward *forward;
};

static inline void engine_rig_open(struct engine_rig *rig, const struct engine_rig_options *options)
{
    struct error error = {""};
    *rig = (struct engine_rig){.device = options->device};
    if (!rig->device)
        cr_assert_eq(device_open("cpu", &rig->host, &error), STATUS_OK, "%s", error.text);
    if (!rig->device)
        rig->device = rig->host;
    cr_assert_eq(model_load(KVFERRY_SOURCE_DIR "/tests/golden/models/llama_t4",
                            &(struct model_options){.device = rig->device}, &error, &rig->model),
                 STATUS_OK, "%s", error.text);
    if (options->overflows)
        overflow_plant(rig->model, options->overflow_token, &rig->overflow);
    cr_assert_eq(
        worker_geometry(rig->model, WORKER_KV_F32, NULL, RIG_BLOCK_TOKENS, &error, &rig->geometry),
        STATUS_OK, "%s", error.text);
    cr_assert_eq(
        block_pool_create(options->n_blocks, geometry_block_bytes(&rig->geometry), &rig->pool),
        STATUS_OK);
    const struct worker_step step = {
        .tokens_max = options->step_tokens,
        .sequences_max = options->sequences_max,
        .context_tokens = RIG_CONTEXT_TOKENS,
        .device = rig->device,
    };
    cr_assert_eq(worker_forward_create(rig->model, &rig->geometry, &step, &error, &rig->forward),
                 STATUS_OK, "%s", error.text);
    cr_assert_eq(forward_attach(rig->forward, rig->pool, &error), STATUS_OK, "%s", error.text);
}

static inline void engine_rig_close(struct engine_rig *rig)
{
    forward_destroy(rig->forward);
    block_pool_destroy(rig->pool);
    model_destroy(rig->model);
    overflow_finish(&rig->overflow);
    device_close(rig->host);
}

/* n tokens that depend on seed: good until the next call, before which an engine copies them. */
static inline const uint32_t *engine_rig_tokens(uint32_t seed, uint32_t n)
{
    static uint32_t tokens[RIG_CONTEXT_TOKENS + 1];
    for (uint32_t i = 0; i < n && i <= RIG_CONTEXT_TOKENS; i++)
        tokens[i] = 3 + (seed * 31 + i * 7) % 90;
    return tokens;
}
