#include "api/vllm_engine/engine_rows.h"

#include "api/engine/engine_logprobs.h"

#include <stdlib.h>

static uint32_t most(uint32_t n_top)
{
    return n_top < LOGPROBS_MAX ? n_top : LOGPROBS_MAX;
}

size_t engine_rows_bytes(uint32_t n, uint32_t n_top)
{
    const size_t n_values = (size_t)n * (most(n_top) + 1);
    return n * (sizeof(Vllm__Grpc__Engine__TopLogProbs *) +
                sizeof(Vllm__Grpc__Engine__TopLogProbs)) +
           n_values * (sizeof(float) + sizeof(uint32_t));
}

enum status engine_rows_init(struct engine_rows *rows, uint32_t n, uint32_t n_top)
{
    const size_t bytes = engine_rows_bytes(n, n_top);
    *rows = (struct engine_rows){.n_top = most(n_top)};
    rows->list = malloc(bytes > 0 ? bytes : 1);
    if (!rows->list)
        return STATUS_NO_MEMORY;
    rows->messages = (void *)(rows->list + n);
    rows->values = (void *)(rows->messages + n);
    rows->ids = (void *)(rows->values + (size_t)n * (rows->n_top + 1));
    return STATUS_OK;
}

void engine_rows_set(struct engine_rows *rows, uint32_t i, uint32_t id,
                     const struct token_logprobs *from)
{
    const size_t first = (size_t)i * (rows->n_top + 1);
    struct engine_logprob told[ENGINE_LOGPROBS_MAX];
    Vllm__Grpc__Engine__TopLogProbs *message = &rows->messages[i];
    const uint32_t n = from ? engine_logprobs_first(from, id, rows->n_top, told) : 0;
    vllm__grpc__engine__top_log_probs__init(message);
    message->n_values = message->n_token_ids = n;
    message->values = rows->values + first;
    message->token_ids = rows->ids + first;
    for (uint32_t k = 0; k < n; k++) {
        message->values[k] = told[k].logprob;
        message->token_ids[k] = told[k].id;
    }
    rows->list[i] = message;
}

void engine_rows_finish(struct engine_rows *rows)
{
    free(rows->list);
    *rows = (struct engine_rows){0};
}
