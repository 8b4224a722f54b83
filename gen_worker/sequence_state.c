#include "gen_worker/sequence_state.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

enum status sequence_init(struct sequence *sequence, const struct gen_home *home)
{
    const struct gen_engine_options *options = home->options;
    const uint32_t spans_max = geometry_spans(&options->geometry, options->context_tokens);
    memset(sequence, 0, sizeof *sequence);
    TRY(kv_manager_init(home->manager, &sequence->table));
    sequence->hashes = calloc(spans_max, sizeof *sequence->hashes);
    sequence->tokens = calloc(geometry_sequence_tokens(&options->geometry, options->context_tokens),
                              sizeof *sequence->tokens);
    return sequence->hashes && sequence->tokens ? STATUS_OK : STATUS_NO_MEMORY;
}

void sequence_finish(struct sequence *sequence)
{
    job_destroy(sequence->job);
    kv_manager_finish(&sequence->table);
    free(sequence->hashes);
    free(sequence->tokens);
    memset(sequence, 0, sizeof *sequence);
}

uint32_t sequence_n_prompt(const struct sequence *sequence)
{
    return sequence->job->request.n_tokens;
}

uint32_t sequence_n_generated(const struct sequence *sequence)
{
    assert(sequence->n_tokens >= sequence_n_prompt(sequence));
    return sequence->n_tokens - sequence_n_prompt(sequence);
}

uint32_t sequence_n_of_prompt(const struct sequence *sequence, uint32_t n_tokens)
{
    return n_tokens < sequence_n_prompt(sequence) ? n_tokens : sequence_n_prompt(sequence);
}

schedule_id sequence_schedule_id(const struct sequence *sequence)
{
    return sequence->job->request.schedule_id;
}

void sequence_settle(struct sequence *sequence)
{
    assert(sequence->n_kv <= sequence->n_tokens && sequence->n_kv <= sequence->n_kv_max);
    bool is_last = sequence->n_kv >= sequence_n_prompt(sequence) &&
                   sequence->n_kv + 1 + sequence->n_ahead >= sequence->n_tokens;
    sequence->state = is_last ? SEQUENCE_DECODING : SEQUENCE_LOCAL_PREFILL;
}

bool sequence_is_runnable(const struct sequence *sequence)
{
    return sequence->state == SEQUENCE_DECODING || sequence->state == SEQUENCE_LOCAL_PREFILL;
}

bool sequence_wants_scores(const struct sequence *sequence)
{
    return sequence->job->request.sampling.scores_prompt &&
           sequence->n_scored < sequence_n_prompt(sequence);
}

uint32_t sequence_n_rowless(const struct sequence *sequence, uint32_t n_tokens)
{
    const uint32_t n = sequence->n_scored > 0 ? sequence->n_scored - 1 : 0;
    return sequence_wants_scores(sequence) && n < n_tokens ? n : n_tokens;
}
