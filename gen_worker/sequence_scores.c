#include "gen_worker/sequence_scores.h"

#include "gen_worker/sequence.h"

#include <assert.h>

static struct scored_chunk chunk_of(const struct sequence *sequence, uint32_t n_tokens,
                                    uint32_t first_row)
{
    return (struct scored_chunk){.first_row = first_row,
                                 .n_past = sequence->n_kv,
                                 .n_query = n_tokens,
                                 .tokens = sequence->tokens,
                                 .n_prompt = sequence_n_prompt(sequence),
                                 .n_top = sequence->job->request.sampling.n_prompt_logprobs};
}

bool sequence_keeps_rows(const struct sequence *sequence, uint32_t n_tokens)
{
    const struct scored_chunk chunk = chunk_of(sequence, n_tokens, 0);
    return sequence_wants_scores(sequence) && scored_chunk_end(&chunk) > sequence->n_scored;
}

/* Tells what was not told yet. False: the client cannot take it, and the sequence has ended. */
static bool tell(struct sequence *sequence, const struct gen_home *home,
                 const struct prompt_scores *scores)
{
    const uint32_t end = scores->first + scores->n, n_again = sequence->n_scored - scores->first;
    assert(scores->first <= sequence->n_scored && end <= sequence_n_prompt(sequence));
    if (end <= sequence->n_scored)
        return true;
    const struct prompt_scores fresh = {.first = sequence->n_scored,
                                        .n = scores->n - n_again,
                                        .logprobs = scores->logprobs + n_again};
    sequence->n_scored = end;
    enum status status = home->ops->scores(home->ops->arg, sequence->job->request.stream, &fresh);
    if (status == STATUS_OK)
        return true;
    sequence_end(sequence, home, status, "");
    return false;
}

enum status sequence_score(struct sequence *sequence, const struct gen_home *home,
                           struct scorer *scorer, uint32_t n_tokens, uint32_t first_row)
{
    const struct scored_chunk chunk = chunk_of(sequence, n_tokens, first_row);
    struct prompt_scores scores;
    struct draw fault;
    assert(sequence_keeps_rows(sequence, n_tokens));
    while (sequence->n_scored < scored_chunk_end(&chunk)) {
        enum status status = scorer_run(scorer, &chunk, sequence->n_scored, &scores, &fault);
        if (status == STATUS_DEVICE_LOST)
            return status;
        if (status != STATUS_OK) {
            sequence_end_without_token(sequence, home, &fault);
            return STATUS_OK;
        }
        if (!tell(sequence, home, &scores))
            return STATUS_OK;
    }
    return STATUS_OK;
}

/* ---- a context worker's ---- */

static enum status check(const struct sequence *sequence, const struct gen_home *home,
                         const struct prompt_scores *scores, struct error *error)
{
    const struct sampling_params *sampling = &sequence->job->request.sampling;
    for (uint32_t i = 0; i < scores->n; i++) {
        const struct token_logprobs *score = &scores->logprobs[i];
        const uint32_t token = scores->first + i;
        if (!prompt_score_is_valid(score, token, sampling->n_prompt_logprobs))
            return error_set(error, STATUS_TRANSFER_FAILED,
                             "prompt token %u has log-probability %g and %u likeliest tokens, of "
                             "which the first has %g: that cannot be",
                             token, (double)score->logprob, score->n_top,
                             score->n_top > 0 ? (double)score->top_logprobs[0] : 0.0);
        for (uint32_t t = 0; t < score->n_top; t++)
            if (score->top_ids[t] >= home->options->vocabulary)
                return error_set(error, STATUS_TRANSFER_FAILED,
                                 "a likeliest token of prompt token %u is %u, which is none", token,
                                 score->top_ids[t]);
    }
    return STATUS_OK;
}

enum status sequence_on_scores(struct sequence *sequence, const struct gen_home *home,
                               const struct prompt_scores *scores, struct error *error)
{
    struct handover *handover = sequence->handover;
    const uint32_t n_prompt = sequence_n_prompt(sequence);
    if (handover->state != HANDOVER_FETCHING || !handover->wants_scores ||
        scores->first != handover->n_scored || scores->n > n_prompt - handover->n_scored)
        return error_set(error, STATUS_TRANSFER_FAILED,
                         "log-probabilities of prompt tokens %u + %u came, %u of %u are next",
                         scores->first, scores->n, handover->n_scored, n_prompt);
    TRY(check(sequence, home, scores, error));
    handover->n_scored += scores->n;
    (void)tell(sequence, home, scores);
    return STATUS_OK;
}
