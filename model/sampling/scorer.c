#include "model/sampling/scorer.h"

#include "kernels/kernels.h"
#include "model/sampling/logprobs.h"

#include <assert.h>
#include <stdlib.h>

/* Enough for the product of the head to read its weights seldom. */
#define ROWS_MAX 32u

struct scorer {
    struct forward *forward;
    const struct kernels *kernels;
    uint32_t vocabulary, rows_max;
    uint64_t n_not_finite;
    float *rows;                                       /* [rows_max][vocabulary] */
    struct token_logprobs logprobs[PROMPT_SCORES_MAX]; /* of the last call */
};

enum status scorer_create(struct forward *forward, const struct kernels *kernels,
                          struct scorer **scorer_out)
{
    const uint32_t sequences_max = forward_get_options(forward)->sequences_max;
    struct scorer *scorer = calloc(1, sizeof *scorer);
    if (!scorer)
        return STATUS_NO_MEMORY;
    scorer->forward = forward;
    scorer->kernels = kernels;
    scorer->vocabulary = forward_vocabulary(forward);
    scorer->rows_max = sequences_max < ROWS_MAX ? sequences_max : ROWS_MAX;
    scorer->rows = calloc((size_t)scorer->rows_max * scorer->vocabulary, sizeof *scorer->rows);
    if (!scorer->rows) {
        scorer_destroy(scorer);
        return STATUS_NO_MEMORY;
    }
    *scorer_out = scorer;
    return STATUS_OK;
}

void scorer_destroy(struct scorer *scorer)
{
    if (!scorer)
        return;
    free(scorer->rows);
    free(scorer);
}

uint64_t scorer_n_not_finite(const struct scorer *scorer)
{
    return scorer->n_not_finite;
}

uint32_t scored_chunk_end(const struct scored_chunk *chunk)
{
    const uint32_t end = chunk->n_past + chunk->n_query + 1;
    return end < chunk->n_prompt ? end : chunk->n_prompt;
}

/* Of the token by the row of the one before it. */
static enum status score(struct scorer *scorer, const struct scored_chunk *chunk, uint32_t token,
                         const float *logits, struct token_logprobs *out, struct draw *fault_out)
{
    const uint32_t id = logprobs_find_fault(logits, scorer->vocabulary);
    if (id < scorer->vocabulary) {
        scorer->n_not_finite++;
        *fault_out = (struct draw){.status = STATUS_LOGITS_NOT_FINITE,
                                   .n_tokens = token,
                                   .token_id = id,
                                   .logit = logits[id]};
        return STATUS_LOGITS_NOT_FINITE;
    }
    logprobs_fill(scorer->kernels, logits, scorer->vocabulary, chunk->n_top, chunk->tokens[token],
                  out);
    return STATUS_OK;
}

/* Tokens first .. first + n - 1, of which none is token 0; n is at most rows_max. */
static enum status score_some(struct scorer *scorer, const struct scored_chunk *chunk,
                              uint32_t first, uint32_t n, struct token_logprobs *out,
                              struct draw *fault_out)
{
    assert(first > chunk->n_past && n >= 1 && n <= scorer->rows_max);
    TRY(forward_rows(scorer->forward, chunk->first_row + first - 1 - chunk->n_past, n,
                     scorer->rows));
    for (uint32_t i = 0; i < n; i++)
        TRY(score(scorer, chunk, first + i, scorer->rows + (size_t)i * scorer->vocabulary, &out[i],
                  fault_out));
    return STATUS_OK;
}

enum status scorer_run(struct scorer *scorer, const struct scored_chunk *chunk, uint32_t first,
                       struct prompt_scores *scores_out, struct draw *fault_out)
{
    const uint32_t n_left = scored_chunk_end(chunk) - first;
    const uint32_t n = n_left < PROMPT_SCORES_MAX ? n_left : PROMPT_SCORES_MAX;
    uint32_t done = 0;
    assert(first < scored_chunk_end(chunk) && (first > chunk->n_past || first == 0));
    if (first == 0)
        scorer->logprobs[done++] = (struct token_logprobs){0};
    while (done < n) {
        uint32_t step = n - done < scorer->rows_max ? n - done : scorer->rows_max;
        TRY(score_some(scorer, chunk, first + done, step, scorer->logprobs + done, fault_out));
        done += step;
    }
    *scores_out = (struct prompt_scores){.first = first, .n = n, .logprobs = scorer->logprobs};
    return STATUS_OK;
}
