#include "gen_worker/sequence_progress.h"

#include <assert.h>

/* Announced blocks count as done: their transfer is faster than their computation. */
static uint32_t n_done(const struct sequence *sequence)
{
    const uint32_t n_kv = sequence->handover ? handover_announced_tokens(sequence->handover)
                                             : sequence->n_kv;
    return sequence_n_of_prompt(sequence, n_kv);
}

void sequence_tell_progress(const struct sequence *sequence, const struct gen_home *home)
{
    const struct job *job = sequence->job;
    const uint32_t n = n_done(sequence), n_prompt = sequence_n_prompt(sequence);
    assert(sequence->n_tokens >= n_prompt && n <= n_prompt);
    if (job->wants_progress && sequence->n_tokens == n_prompt && n < n_prompt)
        home->ops->progress(home->ops->arg, job->request.stream, n, n_prompt);
}

void sequence_count_prefill(const struct sequence *sequence, struct gen_engine_stats *stats)
{
    if (!sequence->handover && sequence->state != SEQUENCE_LOCAL_PREFILL)
        return;
    assert(sequence->job && "it runs");
    stats->prefills++;
    stats->prefill_tokens += sequence_n_prompt(sequence);
    stats->prefill_done_tokens += n_done(sequence);
}
