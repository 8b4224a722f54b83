#include "api/vllm_inference/inference_reply.h"

#include "api/engine/engine_logprobs.h"
#include "api/vllm_inference/inference_request.h"
#include "api/vllm_inference/inference_rows.h"
#include "proto/vllm/inference.pb-c.h"
#include "rpc/borrow.h"

#include <stdlib.h>

/* Log-probabilities of n tokens, with all that a message points to. */
struct logprobs {
    float *chosen;              /* [n] */
    uint32_t *ranks;            /* [n] */
    struct inference_rows rows; /* nothing: no others are wanted */
};

static void logprobs_finish(struct logprobs *logprobs)
{
    free(logprobs->chosen);
    free(logprobs->ranks);
    inference_rows_finish(&logprobs->rows);
}

static enum status make_room(struct logprobs *logprobs, uint32_t n, uint32_t n_top)
{
    logprobs->chosen = malloc(n * sizeof *logprobs->chosen);
    logprobs->ranks = malloc(n * sizeof *logprobs->ranks);
    if (!logprobs->chosen || !logprobs->ranks)
        return STATUS_NO_MEMORY;
    return n_top > 0 ? inference_rows_init(&logprobs->rows, n, n_top) : STATUS_OK;
}

static void add_token(struct logprobs *logprobs, uint32_t i, uint32_t id,
                      const struct token_logprobs *from)
{
    struct engine_logprob first[ENGINE_LOGPROBS_MAX];
    (void)engine_logprobs_first(from, id, 0, first);
    logprobs->chosen[i] = first[0].logprob;
    logprobs->ranks[i] = first[0].rank;
    if (logprobs->rows.list)
        inference_rows_set(&logprobs->rows, i, from);
}

/* Of the tokens ids [n] into output, which points into logprobs_out; NO_MEMORY: the caller finishes that all the same. */
static enum status add_logprobs(const struct engine_wants *wants, const uint32_t *ids,
                                const struct token_logprobs *from, uint32_t n,
                                Vllm__SequenceOutput *output, struct logprobs *logprobs_out)
{
    *logprobs_out = (struct logprobs){0};
    if (!wants->has_logprobs || !from || n == 0)
        return STATUS_OK;
    TRY(make_room(logprobs_out, n, wants->n_top));
    for (uint32_t i = 0; i < n; i++)
        add_token(logprobs_out, i, ids[i], &from[i]);
    output->n_logprobs = output->n_ranks = n;
    output->logprobs = logprobs_out->chosen;
    output->ranks = logprobs_out->ranks;
    output->n_candidate_tokens = wants->n_top > 0 ? n : 0;
    output->candidate_tokens = logprobs_out->rows.list;
    return STATUS_OK;
}

/* The same of the prompt's tokens into prompt. */
static enum status add_scores(const struct engine_call *call, Vllm__PromptInfo *prompt,
                              struct logprobs *logprobs_out)
{
    const struct collected_scores *from = &call->scores;
    const uint32_t n_top = call->wants.n_scores_top;
    if (from->n == 0)
        return STATUS_OK;
    TRY(make_room(logprobs_out, from->n, n_top));
    for (uint32_t i = 0; i < from->n; i++) {
        struct token_logprobs score;
        const uint32_t id = collected_scores_get(from, i, &score);
        add_token(logprobs_out, i, id, &score);
    }
    prompt->n_logprobs = prompt->n_ranks = from->n;
    prompt->logprobs = logprobs_out->chosen;
    prompt->ranks = logprobs_out->ranks;
    prompt->n_candidate_tokens = n_top > 0 ? from->n : 0;
    prompt->candidate_tokens = logprobs_out->rows.list;
    return STATUS_OK;
}

/* With what only the first message has. prompt_ids may be NULL: they are not known any more. */
static enum status send(struct engine_call *call, Vllm__SequenceOutput *output,
                        const uint32_t *prompt_ids, uint32_t n_prompt)
{
    Vllm__GenerateResponse response = VLLM__GENERATE_RESPONSE__INIT;
    Vllm__PromptInfo prompt = VLLM__PROMPT_INFO__INIT;
    struct logprobs scores = {0};
    enum status status = STATUS_OK;
    response.outputs = output;
    if (!call->has_begun) {
        prompt.num_prompt_tokens = n_prompt;
        prompt.n_token_ids = call->wants.has_prompt_ids && prompt_ids ? n_prompt : 0;
        prompt.token_ids = borrow(prompt_ids);
        response.prompt_info = &prompt;
        status = add_scores(call, &prompt, &scores);
    }
    if (status == STATUS_OK)
        status = engine_call_send(call, &response.base);
    logprobs_finish(&scores);
    return status;
}

static enum status piece(struct engine_call *call, const struct reply_piece *piece)
{
    Vllm__SequenceOutput output = VLLM__SEQUENCE_OUTPUT__INIT;
    struct logprobs logprobs;
    output.index = piece->index;
    output.num_tokens = piece->n;
    if (call->wants.has_text)
        output.text = (ProtobufCBinaryData){piece->text_bytes, borrow(piece->text)};
    output.n_token_ids = call->wants.has_ids ? piece->n : 0;
    output.token_ids = borrow(piece->token_ids);
    enum status status = add_logprobs(&call->wants, piece->token_ids, piece->logprobs, piece->n,
                                      &output, &logprobs);
    if (status == STATUS_OK)
        status = send(call, &output, piece->prompt_ids, piece->n_prompt);
    logprobs_finish(&logprobs);
    return status;
}

static void set_matched(const struct engine_call *call, const struct reply_end *end,
                        Vllm__FinishInfo *finish)
{
    const struct engine_model *facts = &call->place->facts;
    if (end->matched == MATCHED_STRING) {
        finish->stop_reason_case = VLLM__FINISH_INFO__STOP_REASON_STOP_STRING;
        finish->stop_string = end->stop_string;
    } else if (end->matched == MATCHED_TOKEN && !call->wants.ignores_eos &&
               engine_model_is_eos(facts, end->stop_token_id)) {
        finish->stop_reason_case = VLLM__FINISH_INFO__STOP_REASON_EOS_TOKEN_ID;
        finish->eos_token_id = end->stop_token_id;
    } else if (end->matched == MATCHED_TOKEN) {
        finish->stop_reason_case = VLLM__FINISH_INFO__STOP_REASON_STOP_TOKEN_ID;
        finish->stop_token_id = end->stop_token_id;
    }
}

static void set_finish(const struct engine_call *call, const struct engine_end *end,
                       Vllm__FinishInfo *finish)
{
    const struct reply_end *reply = end->reply;
    finish->num_output_tokens = end->n_tokens;
    finish->finish_reason = VLLM__FINISH_INFO__FINISH_REASON__ABORTED;
    if (!reply)
        return;
    finish->finish_reason = reply->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH
                                ? VLLM__FINISH_INFO__FINISH_REASON__LENGTH
                                : VLLM__FINISH_INFO__FINISH_REASON__STOP;
    finish->num_cached_tokens_presence_case =
        VLLM__FINISH_INFO__NUM_CACHED_TOKENS_PRESENCE_NUM_CACHED_TOKENS;
    finish->num_cached_tokens = reply->usage.cached_tokens;
    set_matched(call, reply, finish);
}

/* Of a stream the text that no piece has had; else the whole choice, whose text has it already. */
static enum status end(struct engine_call *call, const struct engine_end *end)
{
    Vllm__SequenceOutput output = VLLM__SEQUENCE_OUTPUT__INIT;
    Vllm__FinishInfo finish = VLLM__FINISH_INFO__INIT;
    const struct collected *all = end->collected;
    struct logprobs logprobs;
    output.index = end->index;
    output.finish_info = &finish;
    set_finish(call, end, &finish);
    if (call->wants.has_text && call->wants.is_stream && end->reply)
        output.text = (ProtobufCBinaryData){end->reply->text_bytes, borrow(end->reply->text)};
    else if (call->wants.has_text && all->text)
        output.text = (ProtobufCBinaryData){all->text_bytes, borrow(all->text)};
    output.num_tokens = all->n;
    output.n_token_ids = call->wants.has_ids ? all->n : 0;
    output.token_ids = all->token_ids;
    enum status status = add_logprobs(&call->wants, all->token_ids, all->logprobs, all->n, &output,
                                      &logprobs);
    if (status == STATUS_OK)
        status = send(call, &output, call->prompt_ids, call->n_prompt);
    logprobs_finish(&logprobs);
    return status;
}

const struct engine_form inference_reply_form = {
    .fields = inference_request_fields, .piece = piece, .end = end};
