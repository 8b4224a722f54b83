#include "ctx_worker/ctx_batch.h"

#include <stdlib.h>
#include <string.h>

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
    batch->is_chosen = calloc(options->slots_max, sizeof *batch->is_chosen);
    batch->logits = calloc((size_t)options->slots_max * options->vocabulary, sizeof(float));
    if (!batch->chunks || !batch->slots || !batch->is_chosen || !batch->logits)
        return STATUS_NO_MEMORY;
    TRY(sampler_create(options->vocabulary, model_kernels(options->model), &batch->sampler));
    const struct forward_options forward = {
        .block_tokens = options->geometry.block_tokens,
        .cache_dtype = cache_dtype(options->geometry.dtype),
        .context_math = options->context_math,
        .tokens_max = options->batch_tokens,
        .sequences_max = options->slots_max,
        .blocks_max = geometry_blocks(&options->geometry, options->context_tokens),
        .threads = options->threads,
        .device = options->device,
    };
    TRY(forward_create(options->model, &forward, options->pool, error, &batch->forward));
    return forward_warm_up(batch->forward);
}

void ctx_batch_finish(struct ctx_batch *batch)
{
    forward_destroy(batch->forward);
    sampler_destroy(batch->sampler);
    free(batch->chunks);
    free(batch->slots);
    free(batch->is_chosen);
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
        .request_id = prefill->prompt->request.request_number,
        .prompt_len = prefill->prompt->request.n_tokens,
        .token_ids = prefill->prompt->request.token_ids + prefill->n_computed,
        .n_query = n_query,
        .n_past = prefill->n_computed,
        .blocks = prefill->table.blocks,
        .n_blocks = prefill->table.n_blocks,
        .wants_logits = n_query == prefill_n_left(prefill),
    };
}

/* How many chunks of that caller are in the batch of n. */
static uint32_t n_chunks_of(const struct ctx_batch *batch, const struct prefill *prefills,
                            uint32_t n, uint64_t caller)
{
    uint32_t n_chunks = 0;
    for (uint32_t i = 0; i < n; i++)
        n_chunks += prefills[batch->slots[i]].caller == caller;
    return n_chunks;
}

/* The first slot in turn that computes and is not in the batch of n, of the caller that has the fewest
 * chunks there. slots_max: none. */
static uint32_t choose_slot(const struct ctx_batch *batch, uint32_t slots_max,
                            const struct prefill *prefills, uint32_t n)
{
    uint32_t chosen = slots_max, fewest = UINT32_MAX;
    for (uint32_t i = 0; i < slots_max && fewest > 0; i++) {
        uint32_t slot = (batch->next_slot + i) % slots_max;
        if (prefills[slot].state != PREFILL_COMPUTING || batch->is_chosen[slot])
            continue;
        uint32_t n_chunks = n_chunks_of(batch, prefills, n, prefills[slot].caller);
        if (n_chunks < fewest) {
            chosen = slot;
            fewest = n_chunks;
        }
    }
    return chosen;
}

/* The first in turn that found no room comes first the next time. */
static void pass_turn(struct ctx_batch *batch, uint32_t slots_max, const struct prefill *prefills)
{
    for (uint32_t i = 0; i < slots_max; i++) {
        uint32_t slot = (batch->next_slot + i) % slots_max;
        if (prefills[slot].state == PREFILL_COMPUTING && !batch->is_chosen[slot]) {
            batch->next_slot = slot;
            return;
        }
    }
}

static uint32_t fill(struct ctx_batch *batch, const struct ctx_engine_options *options,
                     const struct prefill *prefills)
{
    uint32_t n = 0;
    uint32_t budget = options->batch_tokens;
    memset(batch->is_chosen, 0, options->slots_max * sizeof *batch->is_chosen);
    for (;;) {
        uint32_t slot = choose_slot(batch, options->slots_max, prefills, n);
        uint32_t n_query = slot < options->slots_max
                               ? chunk_tokens(options, &prefills[slot], budget)
                               : 0;
        if (n_query == 0)
            break;
        batch->is_chosen[slot] = true;
        batch->slots[n] = slot;
        batch->chunks[n++] = next_chunk(&prefills[slot], n_query);
        budget -= n_query;
    }
    pass_turn(batch, options->slots_max, prefills);
    return n;
}

enum status ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                          struct prefill *prefills, struct ctx_batch_result *result_out)
{
    struct ctx_batch_result result = {0};
    uint32_t n = fill(batch, home->options, prefills);
    if (n > 0)
        TRY(forward_run(batch->forward, batch->chunks, n, n, batch->logits));

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
    return STATUS_OK;
}
