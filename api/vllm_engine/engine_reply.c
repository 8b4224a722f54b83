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

/* Log-probabilities of a prompt. */
struct scores {
    Vllm__Grpc__Engine__InputLogProbs message;
    uint32_t *ids;                                 /* [n] */
    Vllm__Grpc__Engine__InputTokenLogProb *values; /* [n] */
    Vllm__Grpc__Engine__InputTokenLogProb **list;  /* [n] */
    struct row *rows;                              /* [n], or NULL: the likeliest are not wanted */
    Vllm__Grpc__Engine__TopLogProbs **top;         /* the same */
};

static void scores_finish(struct scores *scores)
{
    free(scores->ids);
    free(scores->values);
    free(scores->list);
    free(scores->rows);
    free(scores->top);
}

static bool scores_have_room(struct scores *scores, uint32_t n, bool has_rows)
{
    scores->ids = malloc(n * sizeof *scores->ids);
    scores->values = malloc(n * sizeof *scores->values);
    scores->list = malloc(n * sizeof(Vllm__Grpc__Engine__InputTokenLogProb *));
    if (has_rows) {
        scores->rows = malloc(n * sizeof *scores->rows);
        scores->top = malloc(n * sizeof(Vllm__Grpc__Engine__TopLogProbs *));
    }
    return scores->ids && scores->values && scores->list &&
           (!has_rows || (scores->rows && scores->top));
}

static void add_score(struct scores *scores, uint32_t i, uint32_t token,
                      const struct token_logprobs *from, uint32_t n_top)
{
    vllm__grpc__engine__input_token_log_prob__init(&scores->values[i]);
    scores->list[i] = &scores->values[i];
    if (token > 0) { /* the first has none */
        scores->values[i]
            .value_presence_case = VLLM__GRPC__ENGINE__INPUT_TOKEN_LOG_PROB__VALUE_PRESENCE_VALUE;
        scores->values[i].value = from->logprob;
    }
    if (!scores->rows)
        return;
    fill_row(&scores->rows[i], from, scores->ids[i], n_top);
    if (token == 0)
        scores->rows[i].top.n_values = scores->rows[i].top.n_token_ids = 0;
    scores->top[i] = &scores->rows[i].top;
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
    if (!scores_have_room(scores_out, from->n, n_top > 0))
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < from->n; i++) {
        struct token_logprobs score;
        scores_out->ids[i] = collected_scores_get(from, i, &score);
        add_score(scores_out, i, from->first + i, &score, n_top);
    }
    Vllm__Grpc__Engine__InputLogProbs *message = &scores_out->message;
    message->n_token_logprobs = message->n_token_ids = from->n;
    message->n_top_logprobs = n_top > 0 ? from->n : 0;
    message->token_logprobs = scores_out->list;
    message->token_ids = scores_out->ids;
    message->top_logprobs = scores_out->top;
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
    enum status status = send(call, &response, &chunk.input_logprobs);
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
    enum status status = send(call, &response, &complete.input_logprobs);
    logprobs_destroy(logprobs);
    return status;
}

const struct engine_form engine_reply_form = {
    .fields = engine_request_fields, .piece = piece, .end = end};
