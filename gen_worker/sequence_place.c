#include "gen_worker/sequence_place.h"

#include <assert.h>

static uint32_t n_unknown(const struct sequence *sequence)
{
    assert(sequence->n_kv < sequence_n_prompt(sequence) && "its last token is computed");
    return sequence_n_prompt(sequence) - sequence->n_kv;
}

bool sequence_wants_context(const struct sequence *sequence, const struct gen_home *home)
{
    if (sequence->n_kv >= sequence_n_prompt(sequence) || sequence->is_fallback)
        return false;
    /* After a pause the prompt is computed where it was computed first: the bits of a context worker may differ. */
    if (sequence->place != GEN_PLACE_UNKNOWN)
        return sequence->is_from_context;
    return sequence->job->context_worker[0] != '\0' &&
           n_unknown(sequence) > home->options->local_prefill_max_tokens;
}

static void say_why_none_was_named(struct sequence *sequence)
{
    struct error *reason = &sequence->place_reason;
    sequence->place = sequence->job->why_local;
    if (sequence->place == GEN_PLACE_PAIR_UNFIT)
        error_write(reason, "no ready context worker is compatible with this generation worker: "
                            "`kvferry ps` says why");
    else if (sequence->place == GEN_PLACE_CONTEXT_WORKERS_FULL)
        error_write(reason, "all ready context workers were full");
    else if (sequence->place == GEN_PLACE_PREFIX_CACHED)
        error_write(reason, "another choice of the same request has the prompt here");
    else if (sequence->place == GEN_PLACE_HAND_OVER_FAILED)
        error_write(reason, "all context workers were tried in earlier attempts");
    else
        error_write(reason, "no context worker was ready");
}

void sequence_say_why_local(struct sequence *sequence, const struct gen_home *home)
{
    const struct gen_engine_options *options = home->options;
    struct error *reason = &sequence->place_reason;
    uint32_t n_prompt = sequence_n_prompt(sequence);
    uint32_t limit = options->local_prefill_max_tokens;
    if (!sequence->job->context_worker[0]) {
        say_why_none_was_named(sequence);
    } else if (n_prompt <= limit) {
        sequence->place = GEN_PLACE_SHORT_PROMPT;
        error_write(reason,
                    "the prompt has %u tokens, and up to %u are computed locally "
                    "(local_prefill_max_tokens)",
                    n_prompt, limit);
    } else if (n_unknown(sequence) <= limit) {
        sequence->place = GEN_PLACE_PREFIX_CACHED;
        error_write(reason,
                    "all but %u of the prompt's %u tokens were cached, and up to %u are computed "
                    "locally (local_prefill_max_tokens)",
                    n_unknown(sequence), n_prompt, limit);
    } else {
        sequence->place = GEN_PLACE_HAND_OVERS_FULL;
        error_write(reason, "%u KV transfers were running already (prefills_max)",
                    options->prefills_max);
    }
}

void sequence_say_why_failed(struct sequence *sequence, enum status status, const char *sentence,
                             uint64_t now_ns)
{
    if (sequence->has_prompt) /* by an earlier hand-over */
        return;
    sequence->place = GEN_PLACE_HAND_OVER_FAILED;
    sequence->marks.first_ready_ns = sequence->handover->first_ready_ns;
    sequence->marks.failed_ns = now_ns;
    error_write(&sequence->place_reason, "%s%s%s", status_name(status), sentence[0] ? ": " : "",
                sentence);
}
