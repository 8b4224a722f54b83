#include "ctx_worker/ctx_scores.h"

#include <assert.h>

enum status ctx_scores_tell(struct scorer *scorer, const struct prefill_home *home,
                            const struct prefill *prefill, uint32_t n_query, uint32_t first_row,
                            struct draw *fault_out)
{
    const struct engine_request *request = &prefill->prompt->request;
    const struct scored_chunk chunk = {.first_row = first_row,
                                       .n_past = prefill->n_computed,
                                       .n_query = n_query,
                                       .tokens = request->token_ids,
                                       .n_prompt = request->n_tokens,
                                       .n_top = request->sampling.n_prompt_logprobs};
    uint32_t next = chunk.n_past == 0 ? 0 : chunk.n_past + 1;
    assert(prefill->state == PREFILL_COMPUTING && prefill->n_cached == 0 && "none is left out");
    while (next < scored_chunk_end(&chunk)) {
        struct prefill_event event = {.kind = EVENT_SCORES};
        TRY(scorer_run(scorer, &chunk, next, &event.scores, fault_out));
        home->ops->event(home->ops->arg, request->stream, &event);
        next += event.scores.n;
    }
    return STATUS_OK;
}
