#include "api/vllm_engine/engine_reply.h"

#include "api/vllm_engine/engine_request.h"
#include "api/vllm_engine/engine_rows.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <stdlib.h>

/* Log-probabilities of n tokens, with all that the message points to. */
struct logprobs {
    Vllm__Grpc__Engine__OutputLogProbs message;
    float *chosen; /* [n] */
    struct engine_rows rows;
};

static void logprobs_finish(struct logprobs *logprobs)
{
    free(logprobs->chosen);
    engine_rows_finish(&logprobs->rows);
}

/* ids and from: [n]. NO_MEMORY: the caller finishes logprobs_out all the same. */
static enum status logprobs_make(const uint32_t *ids, const struct token_logprobs *from, uint32_t n,
                                 uint32_t n_top, struct logprobs *logprobs_out)
{
    vllm__grpc__engine__output_log_probs__init(&logprobs_out->message);
    logprobs_out->chosen = malloc(n * sizeof *logprobs_out->chosen);
    if (!logprobs_out->chosen)
        return STATUS_NO_MEMORY;
    TRY(engine_rows_init(&logprobs_out->rows, n, n_top));
    for (uint32_t i = 0; i < n; i++) {
        engine_rows_set(&logprobs_out->rows, i, ids[i], &from[i]);
        logprobs_out->chosen[i] = from[i].logprob;
    }
    Vllm__Grpc__Engine__OutputLogProbs *message = &logprobs_out->message;
    message->n_token_logprobs = message->n_token_ids = message->n_top_logprobs = n;
    message->token_logprobs = logprobs_out->chosen;
    message->token_ids = borrow(ids);
    message->top_logprobs = logprobs_out->rows.list;
    return STATUS_OK;
}

/* Log-probabilities of a prompt. */
struct scores {
    Vllm__Grpc__Engine__InputLogProbs message;
    uint32_t *ids;                                 /* [n] */
    Vllm__Grpc__Engine__InputTokenLogProb *values; /* [n] */
    Vllm__Grpc__Engine__InputTokenLogProb **list;  /* [n] */
    struct engine_rows rows;                       /* nothing: the likeliest are not wanted */
};

static void scores_finish(struct scores *scores)
{
    free(scores->ids);
    free(scores->values);
    free(scores->list);
    engine_rows_finish(&scores->rows);
}

static enum status scores_make_room(struct scores *scores, uint32_t n, uint32_t n_top)
{
    scores->ids = malloc(n * sizeof *scores->ids);
    scores->values = malloc(n * sizeof *scores->values);
    scores->list = malloc(n * sizeof(Vllm__Grpc__Engine__InputTokenLogProb *));
    if (!scores->ids || !scores->values || !scores->list)
        return STATUS_NO_MEMORY;
    return n_top > 0 ? engine_rows_init(&scores->rows, n, n_top) : STATUS_OK;
}

static void add_score(struct scores *scores, uint32_t i, uint32_t token,
                      const struct token_logprobs *from)
{
    vllm__grpc__engine__input_token_log_prob__init(&scores->values[i]);
    scores->list[i] = &scores->values[i];
    if (token > 0) { /* the first has none */
        scores->values[i]
            .value_presence_case = VLLM__GRPC__ENGINE__INPUT_TOKEN_LOG_PROB__VALUE_PRESENCE_VALUE;
        scores->values[i].value = from->logprob;
    }
    if (scores->rows.list)
        engine_rows_set(&scores->rows, i, scores->ids[i], token > 0 ? from : NULL);
}

/* *told_out: what the first message has, or NULL. NO_MEMORY: the caller finishes scores_out all the same. */
static enum status scores_make(const struct engine_call *call, struct scores *scores_out,
                               Vllm__Grpc__Engine__InputLogProbs **told_out)
{
    const struct collected_scores *from = &call->scores;
    const uint32_t n_top = call->wants.n_scores_top;
    *scores_out = (struct scores){.message = VLLM__GRPC__ENGINE__INPUT_LOG_PROBS__INIT};
    *told_out = NULL;
    if (from->n == 0)
        return STATUS_OK;
    TRY(scores_make_room(scores_out, from->n, n_top));
    for (uint32_t i = 0; i < from->n; i++) {
        struct token_logprobs score;
        scores_out->ids[i] = collected_scores_get(from, i, &score);
        add_score(scores_out, i, from->first + i, &score);
    }
    Vllm__Grpc__Engine__InputLogProbs *message = &scores_out->message;
    message->n_token_logprobs = message->n_token_ids = from->n;
    message->n_top_logprobs = n_top > 0 ? from->n : 0;
    message->token_logprobs = scores_out->list;
    message->token_ids = scores_out->ids;
    message->top_logprobs = scores_out->rows.list;
    *told_out = message;
    return STATUS_OK;
}

/* With what only the first message has. */
static enum status send(struct engine_call *call, Vllm__Grpc__Engine__GenerateResponse *response,
                        Vllm__Grpc__Engine__InputLogProbs **place)
{
    struct scores scores;
    enum status status = scores_make(call, &scores, place);
    if (status == STATUS_OK)
        status = engine_call_send(call, &response->base);
    scores_finish(&scores);
    return status;
}

static enum status piece(struct engine_call *call, const struct reply_piece *piece)
{
    Vllm__Grpc__Engine__GenerateResponse response = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__INIT;
    Vllm__Grpc__Engine__GenerateStreamChunk chunk = VLLM__GRPC__ENGINE__GENERATE_STREAM_CHUNK__INIT;
    struct logprobs logprobs = {0};
    enum status status = STATUS_OK;
    chunk.index = piece->index;
    chunk.n_token_ids = piece->n;
    chunk.token_ids = borrow(piece->token_ids);
    chunk.prompt_tokens = piece->n_prompt;
    chunk.completion_tokens = call->choices[piece->index].n_tokens;
    if (call->wants.has_logprobs && piece->logprobs) {
        status = logprobs_make(piece->token_ids, piece->logprobs, piece->n, call->wants.n_top,
                               &logprobs);
        chunk.output_logprobs = &logprobs.message;
    }
    response.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_CHUNK;
    response.chunk = &chunk;
    if (status == STATUS_OK)
        status = send(call, &response, &chunk.input_logprobs);
    logprobs_finish(&logprobs);
    return status;
}

static void set_end(Vllm__Grpc__Engine__GenerateComplete *complete, const struct reply_end *end)
{
    static char STOP[] = "stop", LENGTH[] = "length";
    complete->finish_reason = end->reason == KVFERRY__V1__FINISH_REASON__FINISH_REASON_LENGTH
                                  ? LENGTH
                                  : STOP;
    complete->cached_tokens = end->usage.cached_tokens;
    if (end->matched == MATCHED_STRING) {
        complete->matched_stop_case =
            VLLM__GRPC__ENGINE__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_STOP_STR;
        complete->matched_stop_str = end->stop_string;
    } else if (end->matched == MATCHED_TOKEN) {
        complete->matched_stop_case =
            VLLM__GRPC__ENGINE__GENERATE_COMPLETE__MATCHED_STOP_MATCHED_TOKEN_ID;
        complete->matched_token_id = end->stop_token_id;
    }
}

static enum status end(struct engine_call *call, const struct engine_end *end)
{
    static char ABORT[] = "abort";
    Vllm__Grpc__Engine__GenerateResponse response = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__INIT;
    Vllm__Grpc__Engine__GenerateComplete complete = VLLM__GRPC__ENGINE__GENERATE_COMPLETE__INIT;
    const struct collected *all = end->collected;
    struct logprobs logprobs = {0};
    enum status status = STATUS_OK;
    complete.index = end->index;
    complete.n_output_ids = all->n;
    complete.output_ids = all->token_ids;
    complete.prompt_tokens = call->n_prompt;
    complete.completion_tokens = end->n_tokens;
    complete.finish_reason = ABORT;
    if (end->reply)
        set_end(&complete, end->reply);
    if (call->wants.has_logprobs && all->logprobs) {
        status = logprobs_make(all->token_ids, all->logprobs, all->n, call->wants.n_top, &logprobs);
        complete.output_logprobs = &logprobs.message;
    }
    response.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_COMPLETE;
    response.complete = &complete;
    if (status == STATUS_OK)
        status = send(call, &response, &complete.input_logprobs);
    logprobs_finish(&logprobs);
    return status;
}

const struct engine_form engine_reply_form = {
    .fields = engine_request_fields, .piece = piece, .end = end};
