/*
 * inference_rows - the likeliest tokens at each of n places as messages, in the room that so many need.
 *
 * Bounds: one allocation of inference_rows_bytes. Of a prompt it is about twice what the reply counts for (api/reply/collected_scores.h).
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "proto/vllm/inference.pb-c.h"
#include "sampling_params/sampling_params.h"

#include <stddef.h>
#include <stdint.h>

struct inference_rows {
    uint32_t n_top; /* at each place, at most */
    Vllm__CandidateTokenInfo *
        *list; /* [n], for a message that has them; where the allocation begins */
    Vllm__CandidateTokenInfo *messages; /* [n] */
    Vllm__TokenInfo **token_list;       /* [n][n_top] */
    Vllm__TokenInfo *tokens;            /* [n][n_top] */
};

size_t inference_rows_bytes(uint32_t n, uint32_t n_top);
/* NO_MEMORY: there is nothing to finish, and finish is fine. More than LOGPROBS_MAX are not known anywhere. */
MUST_CHECK enum status inference_rows_init(struct inference_rows *rows, uint32_t n, uint32_t n_top);
/* The i-th place, once before the list is used. */
void inference_rows_set(struct inference_rows *rows, uint32_t i, const struct token_logprobs *from);
void inference_rows_finish(struct inference_rows *rows);
