#include "api/engine/engine_logprobs.h"

#include <assert.h>

uint32_t engine_logprobs_first(const struct token_logprobs *from, uint32_t id, uint32_t n_top,
                               struct engine_logprob out[ENGINE_LOGPROBS_MAX])
{
    uint32_t n = 1;
    assert(from->n_top <= LOGPROBS_MAX);
    out[0] = (struct engine_logprob){.id = id, .logprob = from->logprob};
    for (uint32_t i = 0; i < from->n_top; i++) {
        if (from->top_ids[i] == id)
            out[0].rank = i + 1;
        else if (i < n_top)
            out[n++] = (struct engine_logprob){from->top_ids[i], from->top_logprobs[i], i + 1};
    }
    return n;
}
