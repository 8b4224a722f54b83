#include "api/vllm_inference/inference_rows.h"

#include <stdlib.h>

static uint32_t most(uint32_t n_top)
{
    return n_top < LOGPROBS_MAX ? n_top : LOGPROBS_MAX;
}

size_t inference_rows_bytes(uint32_t n, uint32_t n_top)
{
    const size_t n_tokens = (size_t)n * most(n_top);
    return n * (sizeof(Vllm__CandidateTokenInfo *) + sizeof(Vllm__CandidateTokenInfo)) +
           n_tokens * (sizeof(Vllm__TokenInfo *) + sizeof(Vllm__TokenInfo));
}

enum status inference_rows_init(struct inference_rows *rows, uint32_t n, uint32_t n_top)
{
    const size_t bytes = inference_rows_bytes(n, n_top);
    *rows = (struct inference_rows){.n_top = most(n_top)};
    rows->list = malloc(bytes > 0 ? bytes : 1);
    if (!rows->list)
        return STATUS_NO_MEMORY;
    rows->token_list = (void *)(rows->list + n);
    rows->messages = (void *)(rows->token_list + (size_t)n * rows->n_top);
    rows->tokens = (void *)(rows->messages + n);
    return STATUS_OK;
}

void inference_rows_set(struct inference_rows *rows, uint32_t i, const struct token_logprobs *from)
{
    const size_t first = (size_t)i * rows->n_top;
    Vllm__CandidateTokenInfo *message = &rows->messages[i];
    vllm__candidate_token_info__init(message);
    message->tokens = rows->token_list + first;
    message->n_tokens = from->n_top < rows->n_top ? from->n_top : rows->n_top;
    for (uint32_t k = 0; k < message->n_tokens; k++) {
        Vllm__TokenInfo *token = &rows->tokens[first + k];
        vllm__token_info__init(token);
        token->id = from->top_ids[k];
        token->logprob = from->top_logprobs[k];
        token->rank = k + 1;
        message->tokens[k] = token;
    }
    rows->list[i] = message;
}

void inference_rows_finish(struct inference_rows *rows)
{
    free(rows->list);
    *rows = (struct inference_rows){0};
}
