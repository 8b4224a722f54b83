#include "tests/model/support/settings.h"

struct sampling_params settings_random(struct random *random, uint32_t vocabulary)
{
    static const float TEMPERATURES[] = {0, 0.2f, 1, 1, 3, 30},
                       TOP_P[] = {0.3f, 0.9f, 0.99f, 1, 1, 1}, MIN_P[] = {0, 0, 0, 0.01f, 0.5f},
                       REPETITION[] = {1, 1, 1.2f, 0.5f}, PRESENCE[] = {0, 0, 0.7f, -1.3f},
                       FREQUENCY[] = {0, 0, 0.4f, -2};
    static const float TYPICAL_P[] = {1, 1, 1, 1, 0.9f, 0.3f},
                       CUTOFFS[] = {0, 0, 0, 0.0005f, 0.02f};
    static const uint32_t NO_REPEAT[] = {0, 0, 0, 1, 2, 5};
    static const uint32_t LOGPROBS[] = {0, 1, 5, LOGPROBS_MAX};
    const uint32_t top_k[] = {0, 0, 1, 40, 255, 256, 257, 400, vocabulary};
    struct sampling_params params = SAMPLING_GREEDY;
    params.temperature = TEMPERATURES[random_below(random, 6)];
    params.seed = random_u64(random);
    params.top_k = top_k[random_below(random, 9)];
    params.top_p = TOP_P[random_below(random, 6)];
    params.min_p = MIN_P[random_below(random, 5)];
    params.repetition_penalty = REPETITION[random_below(random, 4)];
    params.presence_penalty = PRESENCE[random_below(random, 4)];
    params.frequency_penalty = FREQUENCY[random_below(random, 4)];
    params.typical_p = TYPICAL_P[random_below(random, 6)];
    params.epsilon_cutoff = CUTOFFS[random_below(random, 5)];
    params.eta_cutoff = CUTOFFS[random_below(random, 5)];
    params.no_repeat_ngram_size = NO_REPEAT[random_below(random, 6)];
    params.n_logprobs = LOGPROBS[random_below(random, 4)];
    return params;
}
