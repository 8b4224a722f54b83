#include "gen_worker/gen_batch.h"

#include <stdlib.h>

static enum cache_dtype cache_dtype(enum kv_dtype dtype)
{
    switch (dtype) {
    case KV_F32:
        return CACHE_F32;
    case KV_BF16:
        return CACHE_BF16;
    case KV_F16:
        return CACHE_F16;
    }
    return CACHE_F32;
}

enum status gen_batch_init(struct gen_batch *batch, const struct gen_engine_options *options,
                           struct error *error)
{
    uint32_t n = options->sequences_max;
    batch->inputs = calloc(n, sizeof *batch->inputs);
    batch->results = calloc(n, sizeof *batch->results);
    batch->logits = calloc((size_t)n * options->vocabulary, sizeof *batch->logits);
    if (!batch->inputs || !batch->results || !batch->logits)
        return STATUS_NO_MEMORY;
    TRY(sampler_create(options->vocabulary, model_kernels(options->model), &batch->sampler));
    const struct forward_options forward = {
        .block_tokens = options->geometry.block_tokens,
        .cache_dtype = cache_dtype(options->geometry.dtype),
        .tokens_max = options->batch_tokens + n,
        .sequences_max = n,
        .blocks_max = geometry_blocks(&options->geometry, options->context_tokens),
        .threads = options->threads,
        .device = options->device,
    };
    TRY(forward_create(options->model, &forward, options->pool, error, &batch->forward));
    return forward_warm_up(batch->forward);
}

void gen_batch_finish(struct gen_batch *batch)
{
    forward_destroy(batch->forward);
    sampler_destroy(batch->sampler);
    free(batch->inputs);
    free(batch->results);
    free(batch->logits);
}

static void add(struct gen_batch *batch, struct sequence *sequence, uint32_t n_query,
                bool wants_logits)
{
    uint32_t n = batch->n++;
    batch->inputs[n] = (struct forward_sequence){
        .request_id = sequence->job->request.request_number,
        .prompt_len = sequence_n_prompt(sequence),
        .token_ids = sequence->tokens + sequence->n_kv,
        .n_query = n_query,
        .n_past = sequence->n_kv,
        .blocks = sequence->table.blocks,
        .n_blocks = sequence->table.n_blocks,
        .wants_logits = wants_logits,
    };
    batch->results[n].sequence = sequence;
    batch->results[n].n_query = n_query;
    batch->results[n].has_token = wants_logits;
}

/* One chunk of each local prompt, in turn; whole blocks unless it is the prompt's last. */
static void add_chunks(struct gen_batch *batch, const struct gen_engine_options *options,
                       struct sequence *sequences)
{
    uint32_t budget = options->batch_tokens;
    uint32_t block_tokens = options->geometry.block_tokens;
    uint32_t first = batch->next_slot;
    for (uint32_t i = 0; i < options->sequences_max; i++) {
        uint32_t slot = (first + i) % options->sequences_max;
        struct sequence *sequence = &sequences[slot];
        if (sequence->state != SEQUENCE_LOCAL_PREFILL || !sequence_is_runnable(sequence))
            continue;
        uint32_t n_left = sequence_n_prompt(sequence) - sequence->n_kv;
        uint32_t n_query = n_left < options->chunk_tokens ? n_left : options->chunk_tokens;
        if (n_query > budget)
            n_query = budget / block_tokens * block_tokens;
        if (n_query == 0)
            break;
        add(batch, sequence, n_query, n_query == n_left);
        batch->next_slot = (slot + 1) % options->sequences_max;
        budget -= n_query;
    }
}

static void add_decoding(struct gen_batch *batch, const struct gen_engine_options *options,
                         struct sequence *sequences)
{
    for (uint32_t i = 0; i < options->sequences_max; i++)
        if (sequences[i].state == SEQUENCE_DECODING)
            add(batch, &sequences[i], 1, true);
}

static void draw(struct gen_batch *batch, uint32_t index, const float *logits)
{
    struct gen_result *result = &batch->results[index];
    const struct sequence *sequence = result->sequence;
    /* A prompt that a fall-back computes again is drawn for as it was the first time: without
     * the token that the context worker drew. */
    uint32_t n_tokens = index < batch->n_contexts ? sequence_n_prompt(sequence)
                                                  : sequence->n_tokens;
    result->token_id = sampler_draw(batch->sampler, &sequence->job->request.sampling, logits,
                                    sequence->tokens, sequence_n_prompt(sequence), n_tokens,
                                    &result->logprobs);
}

enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                          struct sequence *sequences)
{
    batch->n = 0;
    add_chunks(batch, home->options, sequences);
    batch->n_contexts = batch->n;
    add_decoding(batch, home->options, sequences);
    if (batch->n == 0)
        return STATUS_OK;

    TRY(forward_run(batch->forward, batch->inputs, batch->n, batch->n_contexts, batch->logits));
    const float *logits = batch->logits;
    for (uint32_t i = 0; i < batch->n; i++) {
        if (!batch->results[i].has_token)
            continue;
        draw(batch, i, logits);
        logits += home->options->vocabulary;
    }
    return STATUS_OK;
}
