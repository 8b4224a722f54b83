#include "ctx_worker/ctx_batch.h"

#include <assert.h>
#include <stdlib.h>

enum status ctx_batch_init(struct ctx_batch *batch, const struct ctx_engine_options *options)
{
    const struct forward_options *forward = forward_get_options(options->forward);
    assert(!batch->forward && "made once");
    assert(forward->tokens_max >= options->batch_tokens);
    assert(forward->sequences_max >= options->slots_max && forward->device == options->device);
    batch->forward = options->forward;
    batch->chunks_max = options->slots_max;
    batch->chunks = calloc(options->slots_max, sizeof *batch->chunks);
    batch->prefills = calloc(options->slots_max, sizeof *batch->prefills);
    batch->logits = calloc((size_t)options->slots_max * options->vocabulary, sizeof(float));
    if (!batch->chunks || !batch->prefills || !batch->logits)
        return STATUS_NO_MEMORY;
    TRY(sampler_create(options->vocabulary, model_host_kernels(options->model), &batch->sampler));
    return STATUS_OK;
}

void ctx_batch_finish(struct ctx_batch *batch)
{
    sampler_destroy(batch->sampler);
    free(batch->chunks);
    free(batch->prefills);
    free(batch->logits);
}

/* Logits are wanted of a prompt's last token only: the first generated token is drawn from them. */
void ctx_batch_add(struct ctx_batch *batch, struct prefill *prefill, uint32_t n_query)
{
    const struct engine_request *request = &prefill->prompt->request;
    assert(batch->n < batch->chunks_max);
    assert(prefill->state == PREFILL_COMPUTING);
    assert(n_query > 0 && n_query <= prefill_n_left(prefill));
    for (uint32_t i = 0; i < batch->n; i++)
        assert(batch->prefills[i] != prefill && "a chunk rests on the KV of the one before");
    batch->prefills[batch->n] = prefill;
    batch->chunks[batch->n++] = (struct forward_sequence){
        .request_id = request->request_number,
        .prompt_len = request->n_tokens,
        .token_ids = request->token_ids + prefill->n_computed,
        .n_query = n_query,
        .n_past = prefill->n_computed,
        .blocks = prefill->table.blocks,
        .n_blocks = prefill->table.n_blocks,
        .wants_logits = n_query == prefill_n_left(prefill),
    };
}

enum status ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                          struct ctx_batch_result *result_out)
{
    struct ctx_batch_result result = {0};
    const float *logits = batch->logits;
    const uint32_t n = batch->n;
    assert(n > 0);
    batch->n = 0;
    TRY(forward_run(batch->forward, batch->chunks, n, n, batch->logits));
    for (uint32_t i = 0; i < n; i++) {
        struct prefill *prefill = batch->prefills[i];
        uint32_t n_published = prefill->n_published;
        prefill_advance(prefill, home, batch->chunks[i].n_query, logits, batch->sampler);
        result.n_tokens += batch->chunks[i].n_query;
        result.n_blocks_published += prefill->n_published - n_published;
        assert(batch->chunks[i].wants_logits == (prefill_n_left(prefill) == 0));
        if (batch->chunks[i].wants_logits)
            logits += home->options->vocabulary;
    }
    assert(result.n_tokens <= home->options->batch_tokens);
    *result_out = result;
    return STATUS_OK;
}
