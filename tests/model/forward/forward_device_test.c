/* forward on a device that stages, waits and fails: the host's bits, or DEVICE_LOST and nothing else. */
#include "base/clock.h"
#include "tests/device/fault_device.h"
#include "tests/model/support/runner.h"
#include "tests/runner/one_thread.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

TestSuite(forward_device, .description = ONE_THREAD);

enum { N_PROMPT = 40, CHUNK = 16, N_DECODED = 3, SEEDS = 10 };

static struct runner new_runner(struct device *device)
{
    struct runner runner;
    runner_open(&runner, DEMO_MODEL, (struct runner_options){.tokens_max = 64, .device = device});
    return runner;
}

/* A prompt in chunks, and some tokens behind it; DEVICE_LOST: logits are not to be looked at. */
static enum status run(struct runner *runner, float *logits)
{
    struct runner_sequence sequence;
    uint32_t ids[N_PROMPT + N_DECODED], n;
    enum status status = STATUS_OK;
    for (uint32_t i = 0; i < N_PROMPT + N_DECODED; i++)
        ids[i] = (i * 131 + 7) % runner->vocabulary;
    runner_begin(runner, &sequence, N_PROMPT + N_DECODED);
    sequence.prompt_len = N_PROMPT;
    for (uint32_t at = 0; at < N_PROMPT + N_DECODED && status == STATUS_OK; at += n) {
        bool is_context = at < N_PROMPT;
        n = !is_context ? 1 : N_PROMPT - at < CHUNK ? N_PROMPT - at : CHUNK;
        struct forward_sequence next = runner_next(&sequence, ids + at, n, at + n >= N_PROMPT);
        status = forward_run(runner->forward, &next, 1, is_context, logits);
    }
    runner_end(runner, &sequence);
    return status;
}

static float *host_logits(uint32_t *vocabulary_out)
{
    struct runner runner = new_runner(NULL);
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    cr_assert_eq(run(&runner, logits), STATUS_OK);
    *vocabulary_out = runner.vocabulary;
    runner_close(&runner);
    return logits;
}

Test(forward_device, bits_are_the_hosts)
{
    uint32_t vocabulary;
    float *expected = host_logits(&vocabulary);
    float *logits = calloc(vocabulary, sizeof *logits);
    for (uint64_t seed = 0; seed < SEEDS; seed++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = seed,
                                    .steps_max = 2,
                                    .computes_at_once = true,
                                    .wants_static_steps = seed % 2 == 1});
        struct runner runner = new_runner(device);
        cr_expect(device_bytes(device, DEVICE_ACTIVATIONS) > 0);
        cr_assert_eq(run(&runner, logits), STATUS_OK);
        cr_expect_eq(memcmp(logits, expected, vocabulary * sizeof *logits), 0);
        runner_close(&runner);
        device_close(device);
    }
    free(logits);
    free(expected);
}

Test(forward_device, whichever_call_fails_the_step_says_so_and_every_one_behind_it)
{
    uint32_t vocabulary;
    free(host_logits(&vocabulary));
    float *logits = calloc(vocabulary, sizeof *logits);
    for (uint64_t n = 1, n_lost = 1; n_lost > 0; n++) {
        struct device *device = fault_device_open(
            &(struct fault_options){.seed = 1, .steps_max = 2, .computes_at_once = true});
        struct runner runner = new_runner(device);
        fault_device_fail_at(device, n);
        enum status status = run(&runner, logits);
        n_lost = device_is_lost(device);
        cr_expect_eq(status, n_lost ? STATUS_DEVICE_LOST : STATUS_OK, "call %lu", (unsigned long)n);
        if (n_lost)
            cr_expect_eq(run(&runner, logits), STATUS_DEVICE_LOST);
        cr_assert(n_lost || n > 12, "a run has more calls than that");
        runner_close(&runner);
        device_close(device);
    }
    free(logits);
}

Test(forward_device, a_warm_up_says_so_too)
{
    for (uint64_t n = 1, n_lost = 1; n_lost > 0; n++) {
        struct device *device = fault_device_open(&(struct fault_options){
            .seed = 1, .steps_max = 2, .computes_at_once = true, .wants_static_steps = true});
        struct runner runner = new_runner(device);
        fault_device_fail_at(device, n);
        enum status status = forward_warm_up(runner.forward);
        n_lost = device_is_lost(device);
        cr_expect_eq(status, n_lost ? STATUS_DEVICE_LOST : STATUS_OK, "call %lu", (unsigned long)n);
        cr_expect_eq(fault_device_n_views(device), 0, "call %lu", (unsigned long)n);
        cr_assert(n_lost || n > 12, "six steps: one of each bucket, two of all");
        runner_close(&runner);
        device_close(device);
    }
}

Test(forward_device, a_warm_up_takes_nothing_touches_no_block_and_changes_no_bits)
{
    uint32_t vocabulary;
    float *expected = host_logits(&vocabulary);
    float *logits = calloc(vocabulary, sizeof *logits);
    struct runner runner = new_runner(NULL);
    uint64_t bytes = device_bytes(runner.device, DEVICE_ACTIVATIONS);
    uint8_t *blocks = block_pool_base(runner.pool);
    size_t pool_bytes = block_pool_size(runner.pool) * block_pool_block_bytes(runner.pool);
    cr_assert_eq(forward_warm_up(runner.forward), STATUS_OK);
    cr_expect_eq(device_bytes(runner.device, DEVICE_ACTIVATIONS), bytes, "it takes nothing");
    for (size_t i = 0; i < pool_bytes; i++)
        cr_assert_eq(blocks[i], 0xff, "a block was touched");
    cr_assert_eq(run(&runner, logits), STATUS_OK);
    cr_expect_eq(memcmp(logits, expected, vocabulary * sizeof *logits), 0);
    runner_close(&runner);
    free(logits);
    free(expected);
}

Test(forward_device, a_step_that_never_ends_is_a_lost_device)
{
    struct device *device = fault_device_open(
        &(struct fault_options){.steps_max = 8, .computes_at_once = true});
    struct runner runner = new_runner(device);
    float *logits = calloc(runner.vocabulary, sizeof *logits);
    fault_device_hang(device, 50 * NS_PER_MS);
    cr_expect_eq(run(&runner, logits), STATUS_DEVICE_LOST);
    free(logits);
    runner_close(&runner);
    device_close(device);
}
