#include "tests/model/support/runner.h"

#include "model/config/kv_layers.h"
#include "model/kernel_choice.h"
#include "model/weights/kv_scales.h"
#include "tests/model/support/golden.h"

#include <criterion/criterion.h>
#include <stdlib.h>
#include <string.h>

enum { STATES_MAX = 24 }; /* sequences that have one at a time */

static uint32_t blocks_of(const struct runner *runner, uint32_t n_tokens)
{
    return (n_tokens + runner->options.block_tokens - 1) / runner->options.block_tokens;
}

/* Of the files, or some. */
static const struct kv_scales *scales_of(struct runner *runner)
{
    const struct kv_scales *scales = model_kv_scales(runner->model);
    if (scales->n_layers > 0)
        return scales;
    const uint32_t n_layers = kv_layers_count(model_get_config(runner->model));
    cr_assert_eq(kv_scales_alike(n_layers, RUNNER_KV_LARGEST, &runner->kv_scales), STATUS_OK);
    return &runner->kv_scales;
}

static void set_groups(struct runner *runner, const struct model_config *config)
{
    struct kv_layers layers;
    kv_layers_describe(config, &layers);
    if (runner->options.in_groups)
        cache_groups_divide(&layers.layers, &runner->groups);
    else
        kv_layers_divide_whole(config, &runner->groups);
}

/* Blocks that hold NaN. */
static void open_pool(struct runner *runner)
{
    const struct runner_options *o = &runner->options;
    const struct model_config *config = model_get_config(runner->model);
    set_groups(runner, config);
    const size_t block_bytes = forward_group_bytes(config, &runner->groups, o->block_tokens,
                                                   o->cache_dtype);
    runner->groups.n_state = state_layout_blocks(config, block_bytes);
    cr_assert_neq(runner->groups.n_state, UINT32_MAX, "blocks of %zu bytes", block_bytes);
    const uint32_t n_all = o->n_blocks * cache_groups_count(&runner->groups) +
                           STATES_MAX * runner->groups.n_state;
    cr_assert_eq(
        device_allocate(runner->device, DEVICE_KV, n_all * block_bytes, &runner->pool_memory),
        STATUS_OK);
    cr_assert_eq(block_pool_create_in(runner->pool_memory.base, n_all, block_bytes, &runner->pool),
                 STATUS_OK);
    memset(runner->pool_memory.base, 0xff, n_all * block_bytes);
}

void runner_open(struct runner *runner, const char *folder, struct runner_options options)
{
    struct error error = {""};
    *runner = (struct runner){.options = options};
    struct runner_options *o = &runner->options;
    o->block_tokens = o->block_tokens ? o->block_tokens : 16;
    o->tokens_max = o->tokens_max ? o->tokens_max : 2048;
    o->sequences_max = o->sequences_max ? o->sequences_max : 8;
    o->n_blocks = o->n_blocks ? o->n_blocks : blocks_of(runner, o->tokens_max);

    if (o->n_threads)
        cr_assert_eq(thread_pool_create(o->n_threads, false, &runner->threads), STATUS_OK);
    runner->device = o->device;
    if (!o->device)
        cr_assert_eq(device_open("cpu", &runner->device, &error), STATUS_OK, "%s", error.text);
    cr_assert(o->is_loaded || kernel_choice_load(runner->device, &error) == STATUS_OK, "%s",
              error.text);
    struct model_options model = {.weights = o->weights,
                                  .cpu_kernels = o->cpu_kernels,
                                  .attention_kernels = o->attention_kernels,
                                  .threads = runner->threads,
                                  .device = runner->device};
    cr_assert_eq(model_load(folder, &model, &error, &runner->model), STATUS_OK, "%s", error.text);
    const struct model_config *config = model_get_config(runner->model);
    runner->vocabulary = config->vocabulary;
    open_pool(runner);
    struct forward_options forward = {
        .block_tokens = o->block_tokens,
        .cache_dtype = o->cache_dtype,
        .context_math = o->context_math,
        .block_activations = o->block_activations,
        .tokens_max = o->tokens_max,
        .sequences_max = o->sequences_max,
        .blocks_max = o->n_blocks,
        .encoder_tokens_max = o->encoder_tokens_max ? o->encoder_tokens_max : 128,
        .adapter_rank_max = o->adapter_rank_max,
        .groups = runner->groups,
        .threads = runner->threads,
        .device = runner->device,
        .kv_scales = scales_of(runner),
        .attention = o->attention,
        .sinks = o->sinks,
    };
    cr_assert_eq(forward_create(runner->model, &forward, &error, &runner->forward), STATUS_OK, "%s",
                 error.text);
    cr_assert_eq(forward_attach(runner->forward, runner->pool, &error), STATUS_OK, "%s",
                 error.text);
}

void runner_close(struct runner *runner)
{
    forward_destroy(runner->forward);
    block_pool_destroy(runner->pool);
    device_free(runner->device, &runner->pool_memory);
    thread_pool_destroy(runner->threads);
    kv_scales_finish(&runner->kv_scales);
    model_destroy(runner->model);
    if (!runner->options.device)
        device_close(runner->device);
}

static uint32_t n_rows(const struct runner_sequence *sequence)
{
    return cache_groups_count(&sequence->runner->groups);
}

void runner_begin(struct runner *runner, struct runner_sequence *sequence, uint32_t n_tokens)
{
    sequence->runner = runner;
    sequence->n_past = 0;
    sequence->adapter = runner->adapter;
    sequence->n_blocks = blocks_of(runner, n_tokens);
    const uint32_t n_all = sequence->n_blocks * n_rows(sequence);
    sequence->blocks = calloc(n_all, sizeof *sequence->blocks);
    cr_assert(sequence->blocks);
    cr_assert_eq(block_pool_acquire(runner->pool, n_all, sequence->blocks), STATUS_OK);
    const uint32_t n_state = runner->groups.n_state;
    sequence->state = calloc(n_state + 1, sizeof *sequence->state);
    cr_assert(sequence->state);
    cr_assert_eq(block_pool_acquire(runner->pool, n_state, sequence->state), STATUS_OK);
    sequence->cross_blocks = NULL;
    sequence->n_cross_blocks = sequence->n_cross_tokens = 0;
}

size_t runner_state_bytes(const struct runner *runner)
{
    return state_layout_bytes(model_get_config(runner->model));
}

void runner_read_state(const struct runner_sequence *sequence, uint8_t *bytes_out)
{
    const struct runner *runner = sequence->runner;
    struct state_layout layout;
    struct error error = {""};
    cr_assert_eq(state_layout_create(model_get_config(runner->model),
                                     block_pool_block_bytes(runner->pool), &error, &layout),
                 STATUS_OK, "%s", error.text);
    for (uint32_t layer = 0; layer < layout.n_layers; layer++)
        for (uint32_t i = 0; i < 1 + layout.n_heads; i++) {
            const struct state_part part = state_layout_part(&layout, layer, i);
            const size_t bytes = i == 0 ? layout.rows_bytes : layout.matrix_bytes;
            memcpy(bytes_out, block_pool_data(runner->pool, sequence->state[part.block]) + part.at,
                   bytes);
            bytes_out += bytes;
        }
    state_layout_finish(&layout);
}

struct forward_text runner_text(struct runner *runner, struct runner_sequence *sequence,
                                const uint32_t *token_ids, uint32_t n)
{
    sequence->n_cross_tokens = n;
    sequence->n_cross_blocks = blocks_of(runner, n);
    sequence->cross_blocks = calloc(sequence->n_cross_blocks, sizeof *sequence->cross_blocks);
    cr_assert(sequence->cross_blocks);
    cr_assert_eq(block_pool_acquire(runner->pool, sequence->n_cross_blocks, sequence->cross_blocks),
                 STATUS_OK);
    return (struct forward_text){.token_ids = token_ids,
                                 .n_tokens = n,
                                 .cross_blocks = sequence->cross_blocks,
                                 .n_cross_blocks = sequence->n_cross_blocks};
}

void runner_encode(struct runner *runner, struct runner_sequence *sequence,
                   const uint32_t *token_ids, uint32_t n)
{
    const struct forward_text text = runner_text(runner, sequence, token_ids, n);
    cr_assert_eq(forward_encode(runner->forward, &text, 1), STATUS_OK);
}

void runner_copy(struct runner *runner, const struct runner_sequence *from,
                 struct runner_sequence *sequence)
{
    runner_begin(runner, sequence, from->n_blocks * runner->options.block_tokens);
    sequence->n_past = from->n_past;
    sequence->adapter = from->adapter;
    sequence->prompt_len = from->prompt_len;
    for (uint32_t i = 0; i < from->n_blocks * n_rows(from); i++)
        memcpy(block_pool_data(runner->pool, sequence->blocks[i]),
               block_pool_data(runner->pool, from->blocks[i]),
               block_pool_block_bytes(runner->pool));
    for (uint32_t i = 0; i < runner->groups.n_state; i++)
        memcpy(block_pool_data(runner->pool, sequence->state[i]),
               block_pool_data(runner->pool, from->state[i]), block_pool_block_bytes(runner->pool));
}

/* It holds NaN. */
static void give_back(const struct runner *runner, block_id *id)
{
    if (*id == BLOCK_NONE)
        return;
    memset(block_pool_data(runner->pool, *id), 0xff, block_pool_block_bytes(runner->pool));
    block_pool_release(runner->pool, id, 1);
    *id = BLOCK_NONE;
}

void runner_end(struct runner *runner, struct runner_sequence *sequence)
{
    for (uint32_t i = 0; i < sequence->n_blocks * n_rows(sequence); i++)
        give_back(runner, &sequence->blocks[i]);
    for (uint32_t i = 0; i < runner->groups.n_state; i++)
        give_back(runner, &sequence->state[i]);
    for (uint32_t i = 0; i < sequence->n_cross_blocks; i++)
        give_back(runner, &sequence->cross_blocks[i]);
    free(sequence->cross_blocks);
    free(sequence->blocks);
    free(sequence->state);
}

struct forward_sequence runner_next(struct runner_sequence *sequence, const uint32_t *token_ids,
                                    uint32_t n, bool wants_logits)
{
    const struct runner *runner = sequence->runner;
    struct forward_sequence next = {
        .token_ids = token_ids,
        .n_query = n,
        .n_past = sequence->n_past,
        .prompt_len = sequence->prompt_len,
        .blocks = sequence->blocks,
        .n_blocks = sequence->n_blocks,
        .wants_logits = wants_logits,
        .state_blocks = sequence->state,
        .adapter = sequence->adapter,
        .cross_blocks = sequence->cross_blocks,
        .n_cross_blocks = sequence->n_cross_blocks,
        .n_cross_tokens = sequence->n_cross_tokens,
    };
    for (uint32_t group = 0; group < n_rows(sequence); group++) {
        const uint32_t first = cache_group_first_span(
            &runner->groups, group, runner->options.block_tokens, sequence->n_past);
        for (uint32_t span = 0; span < first; span++)
            give_back(runner, &sequence->blocks[group * sequence->n_blocks + span]);
    }
    sequence->n_past += n;
    return next;
}

void runner_prefill(struct runner *runner, struct runner_sequence *sequence,
                    const uint32_t *token_ids, uint32_t n, uint32_t chunk_tokens, float *logits_out)
{
    sequence->prompt_len = sequence->n_past + n;
    for (uint32_t at = 0, step; at < n; at += step) {
        step = chunk_tokens && chunk_tokens < n - at ? chunk_tokens : n - at;
        struct forward_sequence next = runner_next(sequence, token_ids + at, step, at + step == n);
        cr_assert_eq(forward_run(runner->forward, &next, 1, 1, logits_out), STATUS_OK);
    }
}

void runner_decode(struct runner *runner, struct runner_sequence *sequence, uint32_t token_id,
                   float *logits_out)
{
    struct forward_sequence next = runner_next(sequence, &token_id, 1, true);
    cr_assert_eq(forward_run(runner->forward, &next, 1, 0, logits_out), STATUS_OK);
}

double runner_largest_error(struct runner *runner, const uint32_t *ids, uint32_t n,
                            const float *expected)
{
    size_t vocabulary = runner->vocabulary;
    float *logits = calloc(vocabulary, sizeof *logits);
    struct runner_sequence whole, single;
    runner_begin(runner, &whole, n);
    runner_prefill(runner, &whole, ids, n, 0, logits);
    double largest = golden_error(logits, expected + (n - 1) * vocabulary, vocabulary);
    runner_end(runner, &whole);

    runner_begin(runner, &single, n);
    for (uint32_t i = 0; i < n; i++) {
        runner_decode(runner, &single, ids[i], logits);
        double error = golden_error(logits, expected + i * vocabulary, vocabulary);
        largest = error > largest ? error : largest;
    }
    runner_end(runner, &single);
    free(logits);
    return largest;
}
