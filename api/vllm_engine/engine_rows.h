/*
 * engine_rows - the likeliest tokens at each of n places as messages, the place's own first, in the room that so many need.
 *
 * Bounds: one allocation of engine_rows_bytes. Of a prompt it is about twice what the reply counts for (api/reply/collected_scores.h).
 *
 * Thread: one at a time.
 */
#pragma once

#include "base/status.h"
#include "proto/vllm/grpc/engine/vllm_engine.pb-c.h"
#include "sampling_params/sampling_params.h"

#include <stddef.h>
#include <stdint.h>

struct engine_rows {
    uint32_t n_top; /* asked for at each place: with its own token one more */
    /* [n], for a message that has them; where the allocation begins */
    Vllm__Grpc__Engine__TopLogProbs **list;
    Vllm__Grpc__Engine__TopLogProbs *messages; /* [n] */
    float *values;                             /* [n][n_top + 1] */
    uint32_t *ids;                             /* [n][n_top + 1] */
};

size_t engine_rows_bytes(uint32_t n, uint32_t n_top);
/* NO_MEMORY: there is nothing to finish, and finish is fine. More than LOGPROBS_MAX are not known anywhere. */
MUST_CHECK enum status engine_rows_init(struct engine_rows *rows, uint32_t n, uint32_t n_top);
/* The i-th place, whose token is id, once before the list is used. from NULL: nothing is known of it. */
void engine_rows_set(struct engine_rows *rows, uint32_t i, uint32_t id,
                     const struct token_logprobs *from);
void engine_rows_finish(struct engine_rows *rows);
