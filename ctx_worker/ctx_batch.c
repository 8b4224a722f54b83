#include "ctx_worker/ctx_batch.h"

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

enum status ctx_batch_init(struct ctx_batch *batch, const struct ctx_engine_options *options,
                           struct error *error)
{
    batch->chunks = calloc(options->slots_max, sizeof *batch->chunks);
    batch->slots = calloc(options->slots_max, sizeof *batch->slots);
    batch->logits = calloc((size_t)options->slots_max * options->vocabulary, sizeof(float));
    if (!batch->chunks || !batch->slots || !batch->logits)
        return STATUS_NO_MEMORY;
    TRY(sampler_create(options->vocabulary, &batch->sampler, error));
    const struct forward_options forward = {
        .block_tokens = options->geometry.block_tokens,
        .cache_dtype = cache_dtype(options->geometry.dtype),
        .context_math = options->context_math,
        .tokens_max = options->batch_tokens,
        .sequences_max = options->slots_max,
        .blocks_max = geometry_blocks(&options->geometry, options->context_tokens),
        .threads = options->threads,
    };
    return forward_create(options->model, &forward, options->pool, error, &batch->forward);
}

void ctx_batch_finish(struct ctx_batch *batch)
{
    forward_destroy(batch->forward);
    sampler_destroy(batch->sampler);
    free(batch->chunks);
    free(batch->slots);
    free(batch->logits);
}

/* The tokens of the prompt's next chunk; 0: the budget has no room for one. */
static uint32_t chunk_tokens(const struct ctx_engine_options *options,
                             const struct prefill *prefill, uint32_t budget)
{
    uint32_t n = prefill_n_left(prefill);
    if (n > options->chunk_tokens)
        n = options->chunk_tokens;
    if (n > budget)
        n = budget / options->geometry.block_tokens * options->geometry.block_tokens;
    return n;
}

static struct forward_sequence next_chunk(const struct prefill *prefill, uint32_t n_query)
{
    return (struct forward_sequence){
        .token_ids = prefill->prompt->token_ids + prefill->n_computed,
        .n_query = n_query,
        .n_past = prefill->n_computed,
        .blocks = prefill->table.blocks,
        .n_blocks = prefill->table.n_blocks,
        .wants_logits = n_query == prefill_n_left(prefill),
    };
}

static uint32_t fill(struct ctx_batch *batch, const struct ctx_engine_options *options,
                     const struct prefill *prefills)
{
    uint32_t n = 0;
    uint32_t budget = options->batch_tokens;
    uint32_t first = batch->next_slot;
    for (uint32_t i = 0; i < options->slots_max; i++) {
        uint32_t slot = (first + i) % options->slots_max;
        if (prefills[slot].state != PREFILL_COMPUTING)
            continue;
        uint32_t n_query = chunk_tokens(options, &prefills[slot], budget);
        if (n_query == 0)
            break;
        batch->slots[n] = slot;
        batch->chunks[n++] = next_chunk(&prefills[slot], n_query);
        batch->next_slot = (slot + 1) % options->slots_max;
        budget -= n_query;
    }
    return n;
}

bool ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                   struct prefill *prefills, struct ctx_batch_result *result_out)
{
    uint32_t n = fill(batch, home->options, prefills);
    if (n == 0)
        return false;
    forward_run(batch->forward, batch->chunks, n, n, batch->logits);

    struct ctx_batch_result result = {0};
    const float *logits = batch->logits;
    for (uint32_t i = 0; i < n; i++) {
        struct prefill *prefill = &prefills[batch->slots[i]];
        uint32_t n_published = prefill->n_published;
        prefill_advance(prefill, home, batch->chunks[i].n_query, logits, batch->sampler);
        result.n_tokens += batch->chunks[i].n_query;
        result.n_blocks_published += prefill->n_published - n_published;
        if (batch->chunks[i].wants_logits)
            logits += home->options->vocabulary;
    }
    *result_out = result;
    return true;
}
