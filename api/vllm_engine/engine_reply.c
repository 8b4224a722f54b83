#include "api/vllm_engine/engine_reply.h"

#include "api/engine/engine_logprobs.h"
#include "api/vllm_engine/engine_request.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "rpc/borrow.h"

#include <assert.h>
#include <stdlib.h>

/* Log-probabilities of n tokens, with all that the message points to, in one allocation. */
struct row {
    Vllm__Grpc__Engine__TopLogProbs top;
    float values[ENGINE_LOGPROBS_MAX];
    uint32_t ids[ENGINE_LOGPROBS_MAX];
};

struct logprobs {
    Vllm__Grpc__Engine__OutputLogProbs message;
    float *chosen;                          /* [n] */
    Vllm__Grpc__Engine__TopLogProbs **list; /* [n] */
    struct row rows[];                      /* [n] */
};

static void fill_row(struct row *row, const struct token_logprobs *from, uint32_t id,
                     uint32_t n_top)
{
    struct engine_logprob told[ENGINE_LOGPROBS_MAX];
    vllm__grpc__engine__top_log_probs__init(&row->top);
    row->top.n_values = row->top.n_token_ids = engine_logprobs_first(from, id, n_top, told);
    row->top.values = row->values;
    row->top.token_ids = row->ids;
    for (size_t i = 0; i < row->top.n_values; i++) {
        row->values[i] = told[i].logprob;
        row->ids[i] = told[i].id;
    }
}

static void logprobs_destroy(struct logprobs *logprobs)
{
    if (!logprobs)
        return;
    free(logprobs->chosen);
    free(logprobs->list);
    free(logprobs);
}

/* ids and from: [n]. NULL: no memory. */
static struct logprobs *logprobs_create(const uint32_t *ids, const struct token_logprobs *from,
                                        uint32_t n, uint32_t n_top)
{
    struct logprobs *logprobs = malloc(sizeof *logprobs + n * sizeof *logprobs->rows);
    if (!logprobs)
        return NULL;
    logprobs->chosen = malloc(n * sizeof *logprobs->chosen);
    logprobs->list = malloc(n * sizeof(Vllm__Grpc__Engine__TopLogProbs *));
    if (!logprobs->chosen || !logprobs->list) {
        logprobs_destroy(logprobs);
        return NULL;
    }
    vllm__grpc__engine__output_log_probs__init(&logprobs->message);
    logprobs->message.n_token_logprobs = logprobs->message.n_token_ids = n;
    logprobs->message.n_top_logprobs = n;
    logprobs->message.token_logprobs = logprobs->chosen;
    logprobs->message.token_ids = borrow(ids);
    logprobs->message.top_logprobs = logprobs->list;
    for (uint32_t i = 0; i < n; i++) {
        fill_row(&logprobs->rows[i], &from[i], ids[i], n_top);
        logprobs->chosen[i] = from[i].logprob;
        logprobs->list[i] = &logprobs->rows[i].top;
    }
    return logprobs;
}

static enum status piece(struct engine_call *call, const struct reply_piece *piece)
{
    Vllm__Grpc__Engine__GenerateResponse response = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__INIT;
    Vllm__Grpc__Engine__GenerateStreamChunk chunk = VLLM__GRPC__ENGINE__GENERATE_STREAM_CHUNK__INIT;
    struct logprobs *logprobs = NULL;
    chunk.index = piece->index;
    chunk.n_token_ids = piece->n;
    chunk.token_ids = borrow(piece->token_ids);
    chunk.prompt_tokens = piece->n_prompt;
    chunk.completion_tokens = call->choices[piece->index].n_tokens;
    if (call->wants.has_logprobs && piece->logprobs) {
        logprobs = logprobs_create(piece->token_ids, piece->logprobs, piece->n, call->wants.n_top);
        if (!logprobs)
            return STATUS_NO_MEMORY;
        chunk.output_logprobs = &logprobs->message;
    }
    response.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_CHUNK;
    response.chunk = &chunk;
    enum status status = engine_call_send(call, &response.base);
    logprobs_destroy(logprobs);
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
    struct logprobs *logprobs = NULL;
    complete.index = end->index;
    complete.n_output_ids = all->n;
    complete.output_ids = all->token_ids;
    complete.prompt_tokens = call->n_prompt;
    complete.completion_tokens = end->n_tokens;
    complete.finish_reason = ABORT;
    if (end->reply)
        set_end(&complete, end->reply);
    if (call->wants.has_logprobs && all->logprobs) {
        logprobs = logprobs_create(all->token_ids, all->logprobs, all->n, call->wants.n_top);
        if (!logprobs)
            return STATUS_NO_MEMORY;
        complete.output_logprobs = &logprobs->message;
    }
    response.response_case = VLLM__GRPC__ENGINE__GENERATE_RESPONSE__RESPONSE_COMPLETE;
    response.complete = &complete;
    enum status status = engine_call_send(call, &response.base);
    logprobs_destroy(logprobs);
    return status;
}

const struct engine_form engine_reply_form = {
    .fields = engine_request_fields, .piece = piece, .end = end};
