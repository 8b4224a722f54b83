#include "gen_worker/gen_batch.h"

#include <assert.h>
#include <stdlib.h>

enum status gen_batch_init(struct gen_batch *batch, const struct gen_engine_options *options,
                           struct error *error)
{
    const struct forward_options *forward = forward_get_options(options->forward);
    uint32_t n = options->sequences_max;
    assert(forward->tokens_max >= options->batch_tokens + n);
    assert(forward->sequences_max >= n && forward->device == options->device);
    batch->forward = options->forward;
    batch->inputs = calloc(n, sizeof *batch->inputs);
    batch->results = calloc(n, sizeof *batch->results);
    batch->logits = calloc((size_t)n * options->vocabulary, sizeof *batch->logits);
    if (!batch->inputs || !batch->results || !batch->logits)
        return STATUS_NO_MEMORY;
    TRY(sampler_create(options->vocabulary, model_host_kernels(options->model), &batch->sampler));
    if (options->capacity_policy == SCHEDULE_MAX_UTILIZATION &&
        !forward_phases_agree(batch->forward))
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "capacity_policy is max-utilization: generated tokens cannot be computed "
                         "again in chunks with %s",
                         forward->context_math != CONTEXT_MATH_COMPUTE
                             ? "any attention_math but compute"
                             : "rotation that depends on the prompt's length, as this model's");
    return STATUS_OK;
}

void gen_batch_finish(struct gen_batch *batch)
{
    sampler_destroy(batch->sampler);
    free(batch->inputs);
    free(batch->results);
    free(batch->logits);
}

/* ---- what is computed ---- */

/* Of the proposed tokens, how many go in one piece. */
static uint32_t n_in_piece(const struct sequence *sequence, uint32_t n_tokens)
{
    uint32_t n_prompt = sequence_n_prompt(sequence);
    bool is_over = sequence->n_kv < n_prompt && sequence->n_kv + n_tokens > n_prompt;
    return is_over && sequence->must_verify ? n_prompt - sequence->n_kv : n_tokens;
}

static void add(struct gen_batch *batch, struct sequence *sequence, uint32_t n_tokens)
{
    uint32_t n = batch->n++;
    uint32_t n_prompt = sequence_n_prompt(sequence), n_kv = sequence->n_kv + n_tokens;
    bool draws_again = sequence->must_verify && n_kv == n_prompt;
    bool wants_logits = n_kv == sequence->n_tokens || draws_again;
    assert(n_tokens > 0 && n_kv <= sequence->n_tokens);
    assert(n_kv <= sequence->table.n_blocks * sequence->table.block_tokens);
    assert(!draws_again || sequence->n_tokens > n_prompt);
    batch->inputs[n] = (struct forward_sequence){
        .request_id = sequence->job->request.request_number,
        /* A chunk that goes over generated tokens ends where it ends: it need not be whole blocks. */
        .prompt_len = n_kv > n_prompt ? n_kv : n_prompt,
        .token_ids = sequence->tokens + sequence->n_kv,
        .n_query = n_tokens,
        .n_past = sequence->n_kv,
        .blocks = sequence->table.blocks,
        .n_blocks = sequence->table.n_blocks,
        .wants_logits = wants_logits,
    };
    batch->results[n].sequence = sequence;
    batch->results[n].computed = (struct computed){.n_tokens = n_tokens, .has_token = wants_logits};
}

/* As the plan has them: chunks first. */
static void add_all(struct gen_batch *batch, const struct gen_home *home,
                    const struct schedule_batch *plan)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        const struct schedule_work *work = &plan->work[i];
        struct sequence *sequence = home->jobs[work->id]->sequence;
        assert(sequence_is_runnable(sequence) && work->first == sequence->n_kv);
        if (sequence_grow(sequence, work->n_blocks) != STATUS_OK) {
            batch->n_left_out++; /* asked again when the schedule has seen the true room */
            continue;
        }
        add(batch, sequence, n_in_piece(sequence, work->n_tokens));
        *(i < plan->n_chunks ? &batch->n_contexts : &batch->n_decodes) += 1;
    }
}

static void draw(struct gen_batch *batch, uint32_t index, const float *logits)
{
    const struct forward_sequence *input = &batch->inputs[index];
    struct gen_result *result = &batch->results[index];
    const struct sequence *sequence = result->sequence;
    /* One that is drawn again is drawn for as it was the first time: without what came behind it. */
    result->computed.token_id = sampler_draw(
        batch->sampler, &sequence->job->request.sampling, logits, sequence->tokens,
        sequence_n_prompt(sequence), input->n_past + input->n_query, &result->computed.logprobs);
}

enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                          const struct schedule_batch *plan)
{
    batch->n = batch->n_contexts = batch->n_decodes = batch->n_left_out = 0;
    add_all(batch, home, plan);
    assert(batch->n_contexts + batch->n_decodes == batch->n);
    assert(batch->n + batch->n_left_out == plan->n);
    if (batch->n == 0)
        return STATUS_OK;

    TRY(forward_run(batch->forward, batch->inputs, batch->n, batch->n_contexts, batch->logits));
    const float *logits = batch->logits;
    for (uint32_t i = 0; i < batch->n; i++) {
        if (!batch->results[i].computed.has_token)
            continue;
        draw(batch, i, logits);
        logits += home->options->vocabulary;
    }
    return STATUS_OK;
}
