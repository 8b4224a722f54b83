#include "gen_worker/sequence.h"

#include "base/log/log.h"
#include "schedule/schedule.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

static schedule_id id_of(const struct sequence *sequence)
{
    return sequence->job->request.schedule_id;
}

/* ---- admission ---- */

void sequence_take_job(struct sequence *sequence, const struct gen_home *home, struct job *job)
{
    assert(sequence->state == SEQUENCE_FREE && sequence->table.n_blocks == 0);
    /* Of whoever was here before only the room is left. */
    const struct sequence empty = {.state = SEQUENCE_PAUSED,
                                   .job = job,
                                   .table = sequence->table,
                                   .hashes = sequence->hashes,
                                   .tokens = sequence->tokens,
                                   .n_tokens = job->request.n_tokens,
                                   .marks = {.arrived_ns = job->request.arrived_ns},
                                   .place = GEN_PLACE_UNKNOWN};
    *sequence = empty;
    assert(!job->sequence && job->request.n_tokens > 0);
    job->sequence = sequence;
    memcpy(sequence->tokens, job->request.token_ids,
           job->request.n_tokens * sizeof *sequence->tokens);
    if (home->tree)
        memcpy(sequence->hashes, job->hashes,
               job->request.n_tokens / sequence->table.block_tokens * sizeof *sequence->hashes);
}

void sequence_leave_job(struct sequence *sequence)
{
    assert(sequence->state == SEQUENCE_PAUSED && sequence->n_kv_max == 0);
    assert(sequence->job->sequence == sequence && sequence->table.n_blocks == 0);
    sequence->job->sequence = NULL;
    sequence->job = NULL;
    sequence->state = SEQUENCE_FREE;
}

/* By what is left to compute of what is known. */
static void settle(struct sequence *sequence)
{
    assert(sequence->n_kv <= sequence->n_tokens && sequence->n_kv <= sequence->n_kv_max);
    bool is_last = sequence->n_kv >= sequence_n_prompt(sequence) &&
                   sequence->n_kv + 1 >= sequence->n_tokens;
    sequence->state = is_last ? SEQUENCE_DECODING : SEQUENCE_LOCAL_PREFILL;
}

static void begin_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    assert(!sequence->handover && "two would write its blocks");
    settle(sequence);
    if (sequence->marks.local_ns == 0)
        sequence->marks.local_ns = now_ns;
    sequence_tell_progress(sequence, home);
}

void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_RESERVED && !sequence->handover);
    if (sequence->place == GEN_PLACE_UNKNOWN)
        sequence_say_why_local(sequence, home);
    if (sequence->is_from_context && sequence->n_kv < sequence_n_prompt(sequence))
        sequence->must_verify = true; /* after a pause, when no hand-over was free */
    begin_local(sequence, home, now_ns);
}

void sequence_start_handover(struct sequence *sequence, const struct gen_home *home,
                             struct handover *handover, uint64_t id, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_RESERVED && sequence->n_kv < sequence_n_prompt(sequence));
    assert(!sequence->handover && !sequence->is_fallback && "a prompt's hand-over fails once");
    schedule_fetch(home->schedule, id_of(sequence));
    sequence->handover = handover;
    handover_start(handover, home,
                   &(struct handover_plan){.id = id,
                                           .job = sequence->job,
                                           .held_tokens = sequence->n_kv,
                                           .blocks = sequence->table.blocks},
                   now_ns);
    handover->sequence = sequence;
    sequence_tell_progress(sequence, home);
}

/* ---- tokens ---- */

static bool is_stop(const struct sequence *sequence, const struct gen_home *home, uint32_t token_id)
{
    const struct sampling_params *sampling = &sequence->job->request.sampling;
    for (uint32_t i = 0; i < sampling->n_stop_token_ids; i++)
        if (sampling->stop_token_ids[i] == token_id)
            return true;
    for (uint32_t i = 0; !sampling->ignore_eos && i < home->options->n_eos_ids; i++)
        if (home->options->eos_ids[i] == token_id)
            return true;
    return false;
}

/* STOP or LENGTH when the last token ends the generation; STOP when it is both. */
static enum gen_finish_reason finish_reason(const struct sequence *sequence,
                                            const struct gen_home *home)
{
    if (sequence_n_generated(sequence) == 0)
        return GEN_FINISH_NONE;
    if (is_stop(sequence, home, sequence->tokens[sequence->n_tokens - 1]))
        return GEN_FINISH_STOP;
    if (sequence_n_generated(sequence) == sequence->job->request.sampling.max_tokens)
        return GEN_FINISH_LENGTH;
    return GEN_FINISH_NONE;
}

/* A finish without status, sentence and reason. */
static struct gen_finish figures(const struct sequence *sequence)
{
    struct gen_finish figures = {
        .status = STATUS_OK,
        .sentence = "",
        .reason = GEN_FINISH_NONE,
        .prompt_tokens = sequence_n_prompt(sequence),
        .cached_tokens = sequence->is_from_context ? sequence->n_context_cached
                                                   : sequence->n_cached,
        .generated_tokens = sequence_n_generated(sequence),
        .timing = sequence->timing,
        .marks = sequence->marks,
        .context_worker = sequence->is_from_context ? sequence->job->context_worker : "",
        .place = sequence->place,
        .place_reason = sequence->place_reason.text,
    };
    figures.timing.decode_us = (sequence->marks.last_token_ns - sequence->marks.first_token_ns) /
                               NS_PER_US;
    return figures;
}

void sequence_add_token(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                        const struct token_logprobs *logprobs)
{
    assert(sequence->n_tokens < home->options->context_tokens);
    /* Drawn behind the last known token, or said by a context worker before any other is known. */
    assert(sequence->handover ? sequence_n_generated(sequence) == 0
                              : sequence->n_kv == sequence->n_tokens);
    uint64_t now_ns = gen_home_now_ns(home);
    sequence->tokens[sequence->n_tokens++] = token_id;
    if (sequence_n_generated(sequence) == 1) {
        sequence->marks.first_token_ns = now_ns;
        sequence->timing.first_token_us = (now_ns - sequence->job->request.arrived_ns) / NS_PER_US;
    }
    sequence->marks.last_token_ns = now_ns;
    home->stats->generated_tokens++;

    bool tells = sequence->state == SEQUENCE_DECODING && !sequence->has_told;
    const struct gen_finish so_far = figures(sequence);
    const struct gen_tokens tokens = {
        .n_tokens = 1,
        .token_ids = &token_id,
        .logprobs = sequence->job->request.sampling.n_logprobs > 0 ? logprobs : NULL,
        .so_far = tells ? &so_far : NULL,
    };
    sequence->has_told = sequence->has_told || tells;
    /* With a hand-over the end comes by its seal, which brings the figures. */
    enum status status = home->ops->tokens(home->ops->arg, sequence->job->request.stream, &tokens);
    if (status != STATUS_OK)
        sequence_end(sequence, home, status, "");
    else if (finish_reason(sequence, home) != GEN_FINISH_NONE && !sequence->handover)
        sequence_end(sequence, home, STATUS_OK, "");
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* Prompt tokens where they are computed first, everything else as work done again. */
static void count_computed(struct sequence *sequence, const struct gen_home *home,
                           uint32_t n_tokens)
{
    uint32_t first = sequence->n_kv, end = sequence->n_kv + n_tokens;
    uint32_t first_again = smaller(first, sequence->n_kv_max);
    uint32_t end_again = smaller(end, sequence->n_kv_max);
    uint32_t n_again = end_again - first_again;
    uint32_t n_new = sequence_n_of_prompt(sequence, end) - sequence_n_of_prompt(sequence, first);
    uint32_t n_prompt_again = sequence_n_of_prompt(sequence, end_again) -
                              sequence_n_of_prompt(sequence, first_again);
    assert(n_prompt_again <= n_new && n_again <= n_tokens);
    n_new -= n_prompt_again;
    sequence->timing.kv_tokens_recomputed += n_new;
    home->stats->prompt_tokens_computed += n_new;
    home->stats->tokens_again += n_again;
    if (sequence->is_fallback)
        home->stats->kv_tokens_recomputed += n_new;
    if (end > sequence->n_kv_max)
        sequence->n_kv_max = end;
    sequence->n_kv = end;
}

/* The KV of the prompt is here, computed by this worker. */
static void has_computed_prompt(struct sequence *sequence, const struct gen_home *home)
{
    sequence_keep_prompt(sequence, home);
    if (sequence->has_prompt)
        return;
    assert(sequence->place != GEN_PLACE_UNKNOWN && sequence->place != GEN_PLACE_CONTEXT_WORKER);
    sequence->has_prompt = true;
    home->stats->prompts[sequence->place]++;
    sequence->marks.computed_ns = gen_home_now_ns(home);
    sequence->timing.prefill_us = (sequence->marks.computed_ns - sequence->marks.local_ns) /
                                  NS_PER_US;
}

/* Its logits are no numbers: it ends, and nobody else. */
static void end_overflowed(struct sequence *sequence, const struct gen_home *home,
                           const struct draw *fault)
{
    struct error error;
    const struct log_about about = job_about(sequence->job);
    draw_say_fault(fault, &error);
    log_event(LOG_WARN, &about, "logits are not finite", LOG_TEXT("why", error.text));
    sequence->has_other_kv = true;
    sequence_forget(sequence, home);
    sequence_end(sequence, home, fault->status, error.text);
}

void sequence_computed(struct sequence *sequence, const struct gen_home *home,
                       const struct computed *computed)
{
    assert(sequence_is_runnable(sequence) && computed->n_tokens > 0);
    uint32_t n_prompt = sequence_n_prompt(sequence), first = sequence->n_kv;
    bool is_next = computed->has_token && first + computed->n_tokens == sequence->n_tokens;
    schedule_computed(home->schedule, id_of(sequence), computed->n_tokens, is_next);
    count_computed(sequence, home, computed->n_tokens);
    if (computed->fault) {
        end_overflowed(sequence, home, computed->fault);
        return;
    }
    if (first < n_prompt && sequence->n_kv >= n_prompt)
        has_computed_prompt(sequence, home);
    settle(sequence);
    sequence_tell_progress(sequence, home);
    if (is_next) {
        sequence_add_token(sequence, home, computed->token_id, &computed->logprobs);
        return;
    }
    if (!computed->has_token)
        return;
    assert(sequence->must_verify && sequence->n_kv == n_prompt);
    sequence->must_verify = false;
    if (sequence->tokens[n_prompt] != computed->token_id && !sequence->has_other_token)
        sequence_end(sequence, home, STATUS_TRANSFER_FAILED,
                     "the first token computed here is not the context worker's");
}

/* ---- hand-over ---- */

static enum status on_first_token(struct sequence *sequence, const struct gen_home *home,
                                  const struct gen_prefill_event *event, struct error *error)
{
    uint32_t token_id = event->first_token.token_id;
    bool wants_logprobs = sequence->job->request.sampling.n_logprobs > 0;
    struct handover *handover = sequence->handover;
    if (handover->state != HANDOVER_FETCHING || handover->has_first_token)
        return error_set(error, STATUS_TRANSFER_FAILED, "a first token came in the wrong order");
    if (token_id >= home->options->vocabulary ||
        (wants_logprobs && !event->first_token.has_logprobs))
        return error_set(error, STATUS_TRANSFER_FAILED, "first token %u is no token", token_id);
    handover->has_first_token = true;
    if (sequence_n_generated(sequence) > 0) { /* it was told before the pause */
        bool is_equal = sequence->tokens[sequence_n_prompt(sequence)] == token_id;
        if (!is_equal && !sequence->has_other_token && !handover->has_other_numerics)
            return error_set(error, STATUS_TRANSFER_FAILED,
                             "first token %u is not that of the first KV transfer", token_id);
        return STATUS_OK;
    }
    sequence->has_other_token = handover->has_other_numerics;
    schedule_computed(home->schedule, id_of(sequence), 0, 1);
    sequence_add_token(sequence, home, token_id, &event->first_token.logprobs);
    return STATUS_OK;
}

static enum status on_sealed(struct sequence *sequence, const struct gen_prefill_event *event,
                             struct error *error)
{
    if (!sequence->handover->has_first_token)
        return error_set(error, STATUS_TRANSFER_FAILED, "sealed without a first token");
    return handover_sealed(sequence->handover, event, error);
}

/* Of a hand-over that is sealed: the prompt was computed there. */
static void take_figures(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    const struct handover *handover = sequence->handover;
    assert(handover->is_sealed && "by then it has told its figures");
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
                       const struct gen_prefill_event *event, uint64_t now_ns)
{
    struct error error = {""};
    enum status status = STATUS_OK;
    assert(sequence->handover && !sequence_is_runnable(sequence));
    switch (event->kind) {
    case GEN_PREFILL_BACKLOG:
        status = handover_backlog(sequence->handover, home, event, &error, now_ns);
        break;
    case GEN_PREFILL_ACCEPTED:
        status = handover_accepted(sequence->handover, home, event, &error, now_ns);
        if (!sequence->has_prompt)
            sequence->marks.accepted_ns = now_ns;
        break;
    case GEN_PREFILL_READY:
        status = handover_ready(sequence->handover, home, event, &error, now_ns);
        if (status == STATUS_OK) {
            sequence->state = SEQUENCE_FETCHING;
            sequence_tell_progress(sequence, home);
        }
        break;
    case GEN_PREFILL_FIRST_TOKEN:
        status = on_first_token(sequence, home, event, &error);
        break;
    case GEN_PREFILL_SEALED:
        status = on_sealed(sequence, event, &error);
        if (status == STATUS_OK && finish_reason(sequence, home) != GEN_FINISH_NONE) {
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

/* What was received is counted each time, what it says of the request the first time. */
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
    assert(handover->first_block * sequence->table.block_tokens == sequence->n_kv);
    assert(handover->n_arrived == handover->n_blocks && handover->is_sealed);
    sequence->has_other_kv = handover->has_other_numerics;
    count_received(sequence, home, now_ns);
    block_pool_set_origin(home->options->pool, handover->blocks, handover->n_blocks,
                          handover->incarnation);
    handover_close(handover, home, HANDOVER_KEEP);
    sequence->handover = NULL;
    sequence->n_kv = sequence_n_prompt(sequence);
    if (sequence->n_kv > sequence->n_kv_max)
        sequence->n_kv_max = sequence->n_kv;
    schedule_fetched(home->schedule, id_of(sequence));
    settle(sequence);
    sequence_keep_prompt(sequence, home);
}

/* What a client is told when the prompt cannot be computed here: statuses that say "later" or
 * "elsewhere" are passed on, and what is the model's fault; everything else is a failed hand-over. */
static enum status client_status(enum status status)
{
    switch (status) {
    case STATUS_NO_BLOCKS:
    case STATUS_QUEUE_FULL:
    case STATUS_LOADING:
    case STATUS_DRAINING:
    case STATUS_LOGITS_NOT_FINITE:
        return status;
    case STATUS_SHARE_FULL:
        return STATUS_QUEUE_FULL;
    default:
        return STATUS_TRANSFER_FAILED;
    }
}

/* The context worker did nothing, and takes nothing now, or nothing of ours: who placed it here knows of others. A client
 * has heard nothing. */
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

void sequence_fall_back(struct sequence *sequence, const struct gen_home *home, enum status status,
                        const char *sentence, uint64_t now_ns)
{
    struct handover *handover = sequence->handover;
    assert(handover && sequence->n_kv < sequence_n_prompt(sequence));
    assert(status != STATUS_OK && !sequence_is_runnable(sequence));
    if (finish_reason(sequence, home) != GEN_FINISH_NONE) { /* nothing was wanted of it any more */
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
    /* The same numerics overflow here, too. */
    bool is_vain = status == STATUS_LOGITS_NOT_FINITE && !handover->has_other_numerics;
    if (!home->options->local_prefill || is_vain) {
        sequence_end(sequence, home, client_status(status), sentence);
        return;
    }
    handover_close(handover, home, HANDOVER_DISCARD);
    sequence->handover = NULL;
    sequence->is_fallback = true;
    sequence->must_verify = sequence_n_generated(sequence) > 0;
    home->stats->handovers_fell_back++;
    begin_local(sequence, home, now_ns);
    if (handover->n_fenced > 0) {
        schedule_pause(home->schedule, id_of(sequence));
        sequence_pause(sequence, home);
    } else {
        schedule_fetch_failed(home->schedule, id_of(sequence));
    }
}

/* ---- the end ---- */

static void tell(struct sequence *sequence, const struct gen_home *home, enum status status,
                 const char *sentence)
{
    struct gen_finish finish = figures(sequence);
    finish.status = status;
    finish.sentence = sentence;
    if (status == STATUS_OK)
        finish.reason = finish_reason(sequence, home);
    gen_home_finish_stream(home, sequence->job, &finish);
}

void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence)
{
    assert(sequence->state != SEQUENCE_FREE);
    assert(sequence->state != SEQUENCE_PAUSED || sequence->table.n_blocks == 0);
    schedule_id id = id_of(sequence);
    /* While it holds them: what enters the cache has a holder. */
    if (sequence->state == SEQUENCE_DECODING && !sequence->has_other_kv)
        sequence_keep_all(sequence, home);
    if (sequence->handover)
        handover_close(sequence->handover, home, HANDOVER_DISCARD);
    tell(sequence, home, status, sentence);
    block_table_clear(&sequence->table);
    assert(home->jobs[id] == sequence->job);
    schedule_remove(home->schedule, id);
    home->jobs[id] = NULL;
    job_destroy(sequence->job);
    sequence->job = NULL;
    sequence->handover = NULL;
    sequence->state = SEQUENCE_FREE;
}
