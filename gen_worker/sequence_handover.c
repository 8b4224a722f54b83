#include "gen_worker/sequence_handover.h"

#include "base/log/log.h"
#include "gen_worker/sequence_beams.h"
#include "gen_worker/sequence_scores.h"
#include "model/sampling/beam_search.h"
#include "sampling_params/sampling_codec.h"
#include "schedule/schedule.h"

#include <assert.h>
#include <math.h>

void sequence_start_handover(struct sequence *sequence, const struct gen_home *home,
                             struct handover *handover, uint64_t id, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_RESERVED && sequence->n_kv < sequence_n_prompt(sequence));
    assert(!sequence->handover && !sequence->is_fallback && "a prompt's hand-over fails once");
    schedule_fetch(home->schedule, sequence_schedule_id(sequence));
    sequence->handover = handover;
    handover_start(handover, home,
                   &(struct handover_plan){.id = id,
                                           .job = sequence->job,
                                           .held_tokens = sequence->n_kv,
                                           .wants_scores = sequence_wants_scores(sequence),
                                           .table = &sequence->table},
                   now_ns);
    handover->sequence = sequence;
    sequence_tell_progress(sequence, home);
}

/* ---- what the context worker says ---- */

/* As many as a step needs, unless its rules leave fewer; best first, each once. */
static bool is_ranked(const struct sequence *sequence, const struct gen_home *home,
                      const struct ranked_row *row)
{
    if (!row || row->n == 0 || row->n > beam_search_n_ranked(sequence->job->search))
        return false;
    for (uint32_t i = 0; i < row->n; i++) {
        if (row->ids[i] >= home->options->vocabulary || !isfinite(row->logprobs[i]) ||
            (i > 0 && row->logprobs[i] > row->logprobs[i - 1]))
            return false;
        for (uint32_t other = 0; other < i; other++)
            if (row->ids[other] == row->ids[i])
                return false;
    }
    return true;
}

static enum status on_first_token(struct sequence *sequence, const struct gen_home *home,
                                  const struct prefill_event *event, struct error *error)
{
    uint32_t token_id = event->first_token.token_id;
    const bool searches = sequence_searches(sequence);
    bool wants_logprobs = sequence->job->request.sampling.n_logprobs > 0;
    struct handover *handover = sequence->handover;
    if (handover->state != HANDOVER_FETCHING || handover->has_first_token)
        return error_set(error, STATUS_TRANSFER_FAILED, "a first token came in the wrong order");
    if (searches && !is_ranked(sequence, home, event->first_token.ranked))
        return error_set(error, STATUS_TRANSFER_FAILED, "the first tokens are not ranked ones");
    if (token_id >= home->options->vocabulary ||
        (wants_logprobs && !event->first_token.has_logprobs))
        return error_set(error, STATUS_TRANSFER_FAILED, "first token %u is no token", token_id);
    if (handover->wants_scores && handover->n_scored < sequence_n_prompt(sequence))
        return error_set(error, STATUS_TRANSFER_FAILED,
                         "a first token came behind %u of %u prompt log-probabilities",
                         handover->n_scored, sequence_n_prompt(sequence));
    handover->has_first_token = true;
    if (searches) {
        schedule_computed(home->schedule, sequence_schedule_id(sequence), 0, 1);
        sequence_add_ranked(sequence, home, event->first_token.ranked);
        return STATUS_OK;
    }
    if (sequence_n_generated(sequence) > 0) { /* it was sent before the pause */
        bool is_equal = sequence->tokens[sequence_n_prompt(sequence)] == token_id;
        if (!is_equal && !sequence->has_other_token && !handover->has_other_numerics)
            return error_set(error, STATUS_TRANSFER_FAILED,
                             "first token %u is not that of the first KV transfer", token_id);
        return STATUS_OK;
    }
    if (sequence_judge_token(sequence, home, token_id, error) != STATUS_OK)
        return STATUS_TRANSFER_FAILED;
    sequence->has_other_token = handover->has_other_numerics;
    schedule_computed(home->schedule, sequence_schedule_id(sequence), 0, 1);
    sequence_add_token(sequence, home, token_id, &event->first_token.logprobs);
    return STATUS_OK;
}

static enum status on_sealed(struct sequence *sequence, const struct prefill_event *event,
                             struct error *error)
{
    if (!sequence->handover->has_first_token)
        return error_set(error, STATUS_TRANSFER_FAILED, "complete without a first token");
    return handover_sealed(sequence->handover, event, error);
}

/* The figures of a sealed hand-over: the context worker has computed the prompt. */
static void take_figures(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    const struct handover *handover = sequence->handover;
    assert(handover->is_sealed && "a seal has the figures");
    struct gen_timing *timing = &sequence->timing;
    sequence->is_from_context = sequence->has_prompt = true;
    sequence->marks.first_ready_ns = handover->first_ready_ns;
    sequence->marks.received_ns = now_ns;
    sequence->place = GEN_PLACE_CONTEXT_WORKER;
    home->stats->prompts[sequence->place]++;
    sequence->n_context_cached = handover->context_cached_tokens;
    timing->queue_us += handover->context_queue_us;
    timing->prefill_us = handover->context_compute_us;
    timing->transfer_us = (now_ns - handover->first_ready_ns) / NS_PER_US;
    timing->kv_bytes_received = handover->bytes;
}

void sequence_on_event(struct sequence *sequence, const struct gen_home *home,
                       const struct prefill_event *event, uint64_t now_ns)
{
    struct error error = {""};
    enum status status = STATUS_OK;
    assert(sequence->handover && !sequence_is_runnable(sequence));
    switch (event->kind) {
    case EVENT_BACKLOG:
        status = handover_backlog(sequence->handover, home, event, &error, now_ns);
        break;
    case EVENT_ACCEPTED:
        status = handover_accepted(sequence->handover, home, event, &error, now_ns);
        if (!sequence->has_prompt)
            sequence->marks.accepted_ns = now_ns;
        break;
    case EVENT_READY:
        status = handover_ready(sequence->handover, home, event, &error, now_ns);
        if (status == STATUS_OK) {
            sequence->state = SEQUENCE_FETCHING;
            sequence_tell_progress(sequence, home);
        }
        break;
    case EVENT_SCORES:
        status = sequence_on_scores(sequence, home, &event->scores, &error);
        break;
    case EVENT_FIRST_TOKEN:
        status = on_first_token(sequence, home, event, &error);
        break;
    case EVENT_SEALED:
        status = on_sealed(sequence, event, &error);
        if (status == STATUS_OK && sequence_finish_reason(sequence, home) != GEN_FINISH_NONE) {
            take_figures(sequence, home, now_ns);
            sequence_end(sequence, home, STATUS_OK, "");
        } else if (status == STATUS_OK) {
            sequence_try_commit(sequence, home, now_ns);
        }
        break;
    }
    if (status != STATUS_OK)
        sequence_fall_back(sequence, home, status, error.text, now_ns);
}

void sequence_try_commit(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    if (!handover_is_complete(sequence->handover))
        return;
    sequence->state = SEQUENCE_COMMITTING;
    handover_commit(sequence->handover, home, now_ns);
}

/* Received tokens count each time; the figures of the request are set the first time. */
static void count_received(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    uint32_t n_received = sequence_n_prompt(sequence) - sequence->n_kv;
    home->stats->handovers_committed++;
    home->stats->kv_tokens_received += n_received;
    if (sequence->has_prompt) {
        home->stats->tokens_again += n_received;
        return;
    }
    take_figures(sequence, home, now_ns);
    sequence->timing.kv_tokens_received = n_received;
    sequence->timing.commit_us = (now_ns - sequence->handover->commit_began_ns) / NS_PER_US;
    home->stats->prompt_tokens_remote += n_received;
}

void sequence_committed(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_COMMITTING);
    struct handover *handover = sequence->handover;
    assert(handover->held_tokens == sequence->n_kv);
    assert(handover->n_arrived == handover->n_blocks && handover->is_sealed);
    sequence->has_other_kv = handover->has_other_numerics;
    count_received(sequence, home, now_ns);
    kv_manager_set_origin(home->manager, handover->blocks, handover->n_local,
                          handover->incarnation);
    handover_close(handover, home, HANDOVER_KEEP);
    sequence->handover = NULL;
    sequence->n_kv = sequence_n_prompt(sequence);
    if (sequence->n_kv > sequence->n_kv_max)
        sequence->n_kv_max = sequence->n_kv;
    schedule_fetched(home->schedule, sequence_schedule_id(sequence));
    sequence_settle(sequence);
    sequence_keep_prompt(sequence, home);
    sequence_keep_snapshot(sequence, home);
}

/* The status for the client when the prompt cannot be computed here. Statuses after which a retry may succeed, and failures of
 * the model, are passed on. Everything else is a failed hand-over. */
static enum status client_status(const struct sequence *sequence, enum status status)
{
    /* A context worker says so of rules that leave no token to draw. */
    if (status == STATUS_INVALID_ARGUMENT && sampling_has_rules(&sequence->job->request.sampling))
        return status;
    switch (status) {
    case STATUS_UNSUPPORTED:
    case STATUS_ADAPTER_MISMATCH:
    case STATUS_CONSTRAINT_UNMET:
    case STATUS_NO_BLOCKS:
    case STATUS_QUEUE_FULL:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_LOGITS_NOT_FINITE:
        return status;
    case STATUS_SHARE_FULL:
    case STATUS_NO_MEMORY: /* of the stage of converted blocks, now */
        return STATUS_QUEUE_FULL;
    default:
        return STATUS_TRANSFER_FAILED;
    }
}

/* The context worker refused the prompt because it is full, or its share for this worker is. The router may know another one,
 * and the client has received nothing yet. */
static bool ends_for_want_of_context(const struct sequence *sequence, enum status status)
{
    bool takes_nothing = status == STATUS_QUEUE_FULL || status == STATUS_SHARE_FULL ||
                         status == STATUS_LOADING || status == STATUS_DRAINING;
    return takes_nothing && sequence->job->ends_when_context_full &&
           !sequence->handover->is_accepted && sequence_n_generated(sequence) == 0;
}

static void log_failed(const struct sequence *sequence, const struct handover *handover,
                       enum status status, const char *sentence)
{
    const struct log_about about = job_about(sequence->job);
    log_event(LOG_WARN, &about, "KV transfer failed", LOG_TEXT("status", status_name(status)),
              LOG_TEXT("context_worker", handover->context_worker),
              LOG_U64("blocks_arrived", handover->n_arrived), LOG_U64("blocks", handover->n_blocks),
              LOG_TEXT("why", sentence));
}

static void fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                      const char *sentence, uint64_t now_ns)
{
    struct handover *handover = sequence->handover;
    assert(handover && sequence->n_kv < sequence_n_prompt(sequence));
    assert(status != STATUS_OK && !sequence_is_runnable(sequence));
    if (sequence_finish_reason(sequence, home) != GEN_FINISH_NONE) { /* no more KV is needed */
        sequence_end(sequence, home, STATUS_OK, "");
        return;
    }
    sequence_say_why_failed(sequence, status, sentence, now_ns);
    home->stats->handovers_failed++;
    home->stats->handovers_failed_by[status]++;
    log_failed(sequence, handover, status, sentence);
    if (ends_for_want_of_context(sequence, status)) {
        sequence_end(sequence, home,
                     status == STATUS_SHARE_FULL ? status : STATUS_NO_CONTEXT_WORKER, sentence);
        return;
    }
    /* The same numerics overflow here, too, and the same rules leave no token. */
    bool is_vain = (status == STATUS_LOGITS_NOT_FINITE || status == STATUS_CONSTRAINT_UNMET) &&
                   !handover->has_other_numerics;
    if (!home->options->local_prefill || is_vain) {
        sequence_end(sequence, home, client_status(sequence, status), sentence);
        return;
    }
    handover_close(handover, home, HANDOVER_DISCARD);
    sequence->handover = NULL;
    sequence->is_fallback = true;
    if (sequence_searches(sequence))
        sequence_restart_beams(sequence, home);
    sequence->must_verify = sequence_n_generated(sequence) > 0;
    home->stats->handovers_fell_back++;
    sequence_begin_local(sequence, home, now_ns);
    /* Of layers with a window it has the blocks behind the prompt, not those behind what was cached; with sinks not all. The state is
     * not that behind what was cached. */
    if (handover->n_fenced > 0 || cache_groups_has_window(&sequence->table.groups) ||
        sequence->table.n_dropped > 0 || sequence->table.groups.n_state > 0) {
        schedule_pause(home->schedule, sequence_schedule_id(sequence));
        sequence_pause(sequence, home);
    } else {
        schedule_fetch_failed(home->schedule, sequence_schedule_id(sequence));
    }
}

/* What a context worker of an earlier version does not know, and then finds no sampling. NULL: nothing. */
static const char *newest_wish(const struct engine_request *request)
{
    return request->adapter.adapter ? "an adapter" : sampling_first_rule(&request->sampling);
}

void sequence_fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                        const char *sentence, uint64_t now_ns)
{
    struct error why;
    const char *rule = newest_wish(&sequence->job->request);
    if (!rule || !sampling_is_absent(status, sentence)) {
        fall_back(sequence, home, status, sentence, now_ns);
        return;
    }
    error_write(&why, "%s is not supported by the context worker, which has an earlier version",
                rule);
    fall_back(sequence, home, STATUS_UNSUPPORTED, why.text, now_ns);
}
