#include "router/requests/choice_scores.h"

#include "sampling_params/sampling_codec.h"

#include <assert.h>

bool choice_asks_for_scores(const struct choice *choice)
{
    return choice->index == 0 && choice->generation->sampling.params.scores_prompt;
}

bool choice_lacks_scores(const struct choice *choice)
{
    return choice_asks_for_scores(choice) &&
           choice->generation->n_scored < choice->generation->n_tokens;
}

/* The n entries that follow those that the door has, at most REPLY_TOKENS_MAX. */
static enum status tell(struct generation *generation, Kvferry__V1__TokenLogprobs *const *entries,
                        uint32_t n, struct token_logprobs *scratch)
{
    const struct prompt_scores scores = {
        .first = generation->n_scored, .n = n, .logprobs = scratch};
    assert(n <= REPLY_TOKENS_MAX);
    for (uint32_t i = 0; i < n; i++) {
        if (token_logprobs_decode(entries[i], &scratch[i]) != STATUS_OK ||
            !prompt_score_is_valid(&scratch[i], scores.first + i,
                                   generation->sampling.params.n_prompt_logprobs))
            return STATUS_BUG;
    }
    generation->n_scored += n;
    return generation->call->ops->scores(generation->call, generation->token_ids + scores.first,
                                         &scores);
}

enum status choice_scores(struct choice *choice, uint32_t first,
                          Kvferry__V1__TokenLogprobs *const *entries, size_t n,
                          struct token_logprobs *scratch)
{
    struct generation *generation = choice->generation;
    if (!choice_asks_for_scores(choice) || first > generation->n_scored ||
        n > generation->n_tokens - first)
        return STATUS_BUG;
    const uint32_t end = first + (uint32_t)n;
    while (generation->n_scored < end) {
        const uint32_t n_left = end - generation->n_scored;
        TRY(tell(generation, entries + (generation->n_scored - first),
                 n_left < REPLY_TOKENS_MAX ? n_left : REPLY_TOKENS_MAX, scratch));
    }
    return STATUS_OK;
}
