#include "ctx_worker/ctx_batch.h"

#include "base/log/log.h"
#include "ctx_worker/ctx_scores.h"
#include "model/sampling/forced_tokens.h"

#include <assert.h>
#include <stdlib.h>

enum status ctx_batch_init(struct ctx_batch *batch, const struct ctx_engine_options *options)
{
    const struct forward_options *forward = forward_get_options(options->forward);
    const struct model_config *config = model_get_config(options->model);
    assert(!batch->forward && "made once");
    assert(forward->tokens_max >= options->batch_tokens);
    assert(forward->sequences_max >= options->slots_max && forward->device == options->device);
    batch->forward = options->forward;
    batch->encoder = &config->encoder;
    batch->chunks_max = options->slots_max;
    batch->chunks = calloc(options->slots_max, sizeof *batch->chunks);
    batch->n_queries = calloc(options->slots_max, sizeof *batch->n_queries);
    batch->texts = calloc(options->slots_max, sizeof *batch->texts);
    batch->prefills = calloc(options->slots_max, sizeof *batch->prefills);
    batch->wanted = calloc(options->slots_max, sizeof *batch->wanted);
    batch->logprobs = calloc(options->slots_max, sizeof *batch->logprobs);
    batch->ranked = calloc(options->slots_max, sizeof *batch->ranked);
    batch->failed = calloc(options->slots_max, sizeof *batch->failed);
    if (!batch->chunks || !batch->n_queries || !batch->texts || !batch->prefills ||
        !batch->wanted || !batch->logprobs || !batch->ranked || !batch->failed)
        return STATUS_NO_MEMORY;
    TRY(draws_create(batch->forward, model_host_kernels(options->model), &batch->draws));
    draws_set_ends(batch->draws, options->eos_ids, options->n_eos_ids);
    draws_set_suppressed(batch->draws, config->suppressed_ids, config->n_suppressed);
    TRY(draw_masks_create(options->slots_max, options->vocabulary, forward->threads,
                          &batch->masks));
    return scorer_create(batch->forward, model_host_kernels(options->model), &batch->scorer);
}

void ctx_batch_finish(struct ctx_batch *batch)
{
    draws_destroy(batch->draws);
    draw_masks_destroy(batch->masks);
    scorer_destroy(batch->scorer);
    free(batch->chunks);
    free(batch->n_queries);
    free(batch->texts);
    free(batch->prefills);
    free(batch->wanted);
    free(batch->logprobs);
    free(batch->ranked);
    free(batch->failed);
}

/* The decoder's token, behind the cross blocks of the text. These are computed first, unless they were found. */
static struct forward_sequence of_line(struct ctx_batch *batch, const struct prefill *prefill)
{
    const struct engine_request *request = &prefill->prompt->request;
    const struct block_table *table = &prefill->table;
    const uint32_t n_cross = request->reply_at / table->block_tokens;
    assert(prefill->n_computed == 0 || prefill->n_computed == request->reply_at);
    if (prefill->n_computed == 0)
        batch->texts[batch->n_texts++] = (struct forward_text){
            .request_id = request->request_number,
            .token_ids = request->token_ids,
            .n_tokens = request->n_text,
            .cross_blocks = table->blocks,
            .n_cross_blocks = n_cross};
    return (struct forward_sequence){.request_id = request->request_number,
                                     .prompt_len = request->n_tokens - request->reply_at,
                                     .token_ids = request->token_ids + request->reply_at,
                                     .n_query = request->n_tokens - request->reply_at,
                                     .blocks = table->blocks + n_cross,
                                     .n_blocks = table->spans_max - n_cross,
                                     .cross_blocks = table->blocks,
                                     .n_cross_blocks = n_cross,
                                     .n_cross_tokens = request->n_text,
                                     .wants_logits = true};
}

/* Only the last token of a prompt needs logits: the first generated token is sampled from them. */
void ctx_batch_add(struct ctx_batch *batch, struct prefill *prefill, uint32_t n_query)
{
    const struct engine_request *request = &prefill->prompt->request;
    assert(batch->n < batch->chunks_max);
    assert(prefill->state == PREFILL_COMPUTING);
    assert(n_query > 0 && n_query <= prefill_n_left(prefill));
    if (batch->n == 0)
        draw_masks_clear(batch->masks);
    for (uint32_t i = 0; i < batch->n; i++)
        assert(batch->prefills[i] != prefill && "a chunk needs the KV of the one before");
    const bool is_last = n_query == prefill_n_left(prefill);
    batch->prefills[batch->n] = prefill;
    batch->n_queries[batch->n] = n_query;
    batch->chunks[batch->n++] = request->n_text > 0
                                    ? of_line(batch, prefill)
                                    : (struct forward_sequence){
                                          .request_id = request->request_number,
                                          .prompt_len = request->n_tokens,
                                          .token_ids = request->token_ids + prefill->n_computed,
                                          .n_query = n_query,
                                          .n_past = prefill->n_computed,
                                          .blocks = prefill->table.blocks,
                                          .n_blocks = prefill->table.spans_max,
                                          .state_blocks = block_table_state(&prefill->table).ids,
                                          .wants_logits = is_last,
                                          .keeps_rows = prompt_wants_scores(prefill->prompt),
                                          .adapter = request->adapter.adapter,
                                      };
    if (!is_last)
        return;
    const uint32_t at = batch->n_wanted++;
    batch->wanted[at] = (struct draw){.params = &request->sampling,
                                      .tokens = request->token_ids + request->reply_at,
                                      .n_prompt = request->n_tokens - request->reply_at,
                                      .n_tokens = request->n_tokens - request->reply_at,
                                      .logprobs = &batch->logprobs[at]};
    if (prefill->prompt->n_ranked > 0) {
        batch->wanted[at].ranked = &batch->ranked[at];
        batch->wanted[at].n_ranked = prefill->prompt->n_ranked;
    }
    uint32_t forced;
    if (request->constraint)
        batch->wanted[at].mask = draw_masks_add(batch->masks, request->constraint, NULL, 0);
    else if (forced_token_find(batch->encoder, 0, request->sampling.max_tokens, &forced))
        batch->wanted[at].mask = draw_masks_add_only(batch->masks, forced);
}

static void make_masks(struct ctx_batch *batch)
{
    draw_masks_make(batch->masks);
    for (uint32_t i = 0; i < batch->n_wanted; i++)
        if (batch->wanted[i].mask)
            batch->wanted[i].mask_fault = draw_masks_fault(batch->masks, batch->wanted[i].mask);
}

/* Only this prompt ends. If it overflowed, other requests get nothing that it computed. */
static void fail(struct ctx_batch *batch, struct prefill *prefill, const struct prefill_home *home,
                 const struct draw *drawn)
{
    struct ctx_failed *failed = &batch->failed[batch->n_failed++];
    failed->prefill = prefill;
    failed->status = drawn->status;
    draw_say_fault(drawn, &failed->why);
    if (drawn->status != STATUS_LOGITS_NOT_FINITE)
        return;
    log_event(LOG_WARN, &(struct log_about){.request_id = prefill->prompt->request.request_id},
              "logits are not finite", LOG_TEXT("why", failed->why.text));
    prefill_forget(prefill, home);
}

enum status ctx_batch_run(struct ctx_batch *batch, const struct prefill_home *home,
                          struct ctx_batch_result *result_out)
{
    struct ctx_batch_result result = {0};
    const struct draw *drawn = batch->wanted;
    const uint32_t n = batch->n;
    assert(n > 0);
    make_masks(batch);
    const uint32_t n_texts = batch->n_texts;
    batch->n = batch->n_wanted = batch->n_failed = batch->n_texts = 0;
    if (n_texts > 0)
        TRY(forward_encode(batch->forward, batch->texts, n_texts));
    TRY(draws_run(batch->draws, batch->chunks, n, n, batch->wanted));
    for (uint32_t i = 0; i < n; i++) {
        struct prefill *prefill = batch->prefills[i];
        struct draw fault = {.status = STATUS_OK};
        if (batch->chunks[i].keeps_rows &&
            ctx_scores_tell(batch->scorer, home, prefill, batch->chunks[i].n_query, result.n_tokens,
                            &fault) == STATUS_DEVICE_LOST)
            return STATUS_DEVICE_LOST;
        const uint32_t n_crossed = prefill->n_crossed;
        const bool is_last = batch->chunks[i].wants_logits;
        if (fault.status != STATUS_OK)
            fail(batch, prefill, home, &fault);
        else if (is_last && drawn->status != STATUS_OK)
            fail(batch, prefill, home, drawn);
        else
            prefill_advance(prefill, home, batch->n_queries[i], drawn);
        result.n_tokens += batch->n_queries[i];
        result.n_blocks_published += prefill->n_crossed - n_crossed;
        assert(is_last || prefill_n_left(prefill) > 0);
        if (is_last)
            drawn++;
    }
    assert(result.n_tokens <= home->options->batch_tokens);
    *result_out = result;
    return STATUS_OK;
}
