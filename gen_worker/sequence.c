#include "gen_worker/sequence.h"

#include "base/log/log.h"
#include "model/config/suppressed_tokens.h"
#include "model/model.h"
#include "model/sampling/beam_search.h"
#include "model/sampling/draws.h"
#include "schedule/schedule.h"
#include "text/constraint/constraint.h"

#include <assert.h>
#include <string.h>

/* ---- admission ---- */

void sequence_take_job(struct sequence *sequence, const struct gen_home *home, struct job *job)
{
    assert(sequence->state == SEQUENCE_FREE && sequence->table.n_blocks == 0);
    /* Of an earlier request only the memory is kept. */
    const struct sequence empty = {.state = SEQUENCE_PAUSED,
                                   .job = job,
                                   .table = sequence->table,
                                   .hashes = sequence->hashes,
                                   .tokens = sequence->tokens,
                                   .n_tokens = job->request.n_tokens,
                                   .marks = {.arrived_ns = job->request.arrived_ns},
                                   .place = GEN_PLACE_UNKNOWN};
    *sequence = empty;
    kv_manager_set_window(home->manager, &sequence->table, job->request.sampling.reply_window);
    if (sequence_searches(sequence))
        sequence_take_beams(sequence, home);
    assert(!job->sequence && job->request.n_tokens > 0);
    job->sequence = sequence;
    memcpy(sequence->tokens, job->request.token_ids,
           job->request.n_tokens * sizeof *sequence->tokens);
    if (!kv_manager_caches(home->manager))
        return;
    sequence->n_hashed = job->request.n_tokens / sequence->table.block_tokens;
    memcpy(sequence->hashes, job->hashes, sequence->n_hashed * sizeof *sequence->hashes);
}

void sequence_leave_job(struct sequence *sequence, const struct gen_home *home)
{
    assert(sequence->state == SEQUENCE_PAUSED && sequence->n_kv_max == 0);
    assert(sequence->job->sequence == sequence && sequence->table.n_blocks == 0);
    if (sequence_searches(sequence))
        sequence_leave_beams(sequence, home);
    sequence->job->sequence = NULL;
    sequence->job = NULL;
    sequence->state = SEQUENCE_FREE;
}

void sequence_begin_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    assert(!sequence->handover && "else two would write its blocks");
    sequence_settle(sequence);
    if (sequence->marks.local_ns == 0)
        sequence->marks.local_ns = now_ns;
    sequence_tell_progress(sequence, home);
}

void sequence_start_local(struct sequence *sequence, const struct gen_home *home, uint64_t now_ns)
{
    assert(sequence->state == SEQUENCE_RESERVED && !sequence->handover);
    if (sequence->place == GEN_PLACE_UNKNOWN)
        sequence_say_why_local(sequence, home);
    if (sequence->is_from_context && sequence->n_kv < sequence_n_prompt(sequence) &&
        sequence_n_generated(sequence) > 0)
        sequence->must_verify = true; /* after a pause, when no hand-over was free */
    sequence_begin_local(sequence, home, now_ns);
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

static bool is_complete(const struct sequence *sequence)
{
    const struct constraint *constraint = sequence->job->request.constraint;
    return constraint && constraint_is_done(constraint);
}

/* Of the best reply. */
static enum gen_finish_reason beams_finish_reason(const struct beam_search *search)
{
    if (!beam_search_is_over(search) || beam_search_n_results(search) == 0)
        return GEN_FINISH_NONE;
    return beam_search_result(search, 0).is_end ? GEN_FINISH_STOP : GEN_FINISH_LENGTH;
}

enum gen_finish_reason sequence_finish_reason(const struct sequence *sequence,
                                              const struct gen_home *home)
{
    if (sequence_n_generated(sequence) == 0)
        return GEN_FINISH_NONE;
    if (sequence_searches(sequence))
        return beams_finish_reason(sequence->job->search);
    if (is_stop(sequence, home, sequence->tokens[sequence->n_tokens - 1]) || is_complete(sequence))
        return GEN_FINISH_STOP;
    if (sequence_n_generated(sequence) == sequence->job->request.sampling.max_tokens)
        return GEN_FINISH_LENGTH;
    return GEN_FINISH_NONE;
}

/* Of a beam search: those of the best reply. */
static uint32_t n_told(const struct sequence *sequence)
{
    const struct beam_search *search = sequence->job->search;
    if (!search)
        return sequence_n_generated(sequence);
    return beam_search_n_results(search) > 0 ? beam_search_result(search, 0).n_tokens : 0;
}

/* A finish without status, sentence and reason. */
static struct gen_finish figures(const struct sequence *sequence)
{
    struct gen_finish figures = {
        .status = STATUS_OK,
        .sentence = "",
        .reason = GEN_FINISH_NONE,
        .prompt_tokens = engine_request_sent(&sequence->job->request, sequence_n_prompt(sequence)),
        .cached_tokens = engine_request_sent(&sequence->job->request,
                                             sequence->is_from_context ? sequence->n_context_cached
                                                                       : sequence->n_cached),
        .generated_tokens = n_told(sequence),
        .search = sequence->job->search,
        .n_best = sequence->job->request.sampling.beams.n_best,
        .draft_tokens = sequence->n_drafted,
        .accepted_tokens = sequence->n_accepted,
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

static enum status say_unmet(const struct sequence *sequence, enum status status, const char *why,
                             struct error *error)
{
    return error_set(error, status, "sampling.constraint, after %u tokens: %s", sequence->n_tokens,
                     why[0] ? why : status_text(status));
}

enum status sequence_judge_token(struct sequence *sequence, const struct gen_home *home,
                                 uint32_t token_id, struct error *error)
{
    struct constraint *constraint = sequence->job->request.constraint;
    if (!constraint)
        return STATUS_OK;
    assert(token_id < home->options->vocabulary);
    struct error why = {0};
    enum status status = constraint_mask(constraint, home->mask, &why);
    if (status == STATUS_OK && !(home->mask[token_id / 32] >> token_id % 32 & 1))
        status = error_set(&why, STATUS_CONSTRAINT_UNMET, "token %u does not fit", token_id);
    return status == STATUS_OK ? STATUS_OK : say_unmet(sequence, status, why.text, error);
}

/* Not OK: the sequence has ended. */
static enum status accept(struct sequence *sequence, const struct gen_home *home, uint32_t token_id)
{
    struct error error, why = {0};
    struct constraint *constraint = sequence->job->request.constraint;
    enum status status = constraint ? constraint_accept(constraint, token_id, &why) : STATUS_OK;
    if (status != STATUS_OK)
        sequence_end(sequence, home, say_unmet(sequence, status, why.text, &error), error.text);
    return status;
}

static void mark_token(struct sequence *sequence, uint64_t now_ns)
{
    if (sequence_n_generated(sequence) == 1) {
        sequence->marks.first_token_ns = now_ns;
        sequence->timing.first_token_us = (now_ns - sequence->job->request.arrived_ns) / NS_PER_US;
    }
    sequence->marks.last_token_ns = now_ns;
}

void sequence_add_ranked(struct sequence *sequence, const struct gen_home *home,
                         const struct ranked_row *rows)
{
    struct error error;
    home->stats->generated_tokens += sequence_n_running(sequence);
    const enum status status = sequence_advance_beams(sequence, rows, &error);
    mark_token(sequence, gen_home_now_ns(home));
    if (status != STATUS_OK)
        sequence_end(sequence, home, status, error.text);
    else if (sequence_finish_reason(sequence, home) != GEN_FINISH_NONE && !sequence->handover)
        sequence_end(sequence, home, STATUS_OK, "");
}

static void append(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                   const struct token_logprobs *logprobs)
{
    assert(sequence->n_tokens <
           geometry_sequence_tokens(&home->options->geometry, home->options->context_tokens));
    if (accept(sequence, home, token_id) != STATUS_OK)
        return;
    sequence->tokens[sequence->n_tokens++] = token_id;
    mark_token(sequence, gen_home_now_ns(home));
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
    /* During a hand-over the sequence ends with the seal, which has the figures. */
    enum status status = home->ops->tokens(home->ops->arg, sequence->job->request.stream, &tokens);
    if (status != STATUS_OK)
        sequence_end(sequence, home, status, "");
    else if (sequence_finish_reason(sequence, home) != GEN_FINISH_NONE && !sequence->handover)
        sequence_end(sequence, home, STATUS_OK, "");
}

void sequence_add_token(struct sequence *sequence, const struct gen_home *home, uint32_t token_id,
                        const struct token_logprobs *logprobs)
{
    /* Drawn behind the last known token, or the first token, from a context worker. */
    assert(sequence->handover ? sequence_n_generated(sequence) == 0
                              : sequence->n_kv == sequence->n_tokens);
    append(sequence, home, token_id, logprobs);
}

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* A draw has to say what other rules leave, and with what log-probability. */
static bool may_run_ahead(const struct sequence *sequence, const struct gen_home *home)
{
    const struct engine_request *request = &sequence->job->request;
    return request->constraint && home->runs_ahead && request->sampling.n_logprobs == 0 &&
           request->rules->n_allowed == 0 && request->rules->n_bad == 0 &&
           request->sampling.no_repeat_ngram_size == 0;
}

/* Tokens that alone can come need no draw, and no pass of their own: they are computed with the next one. */
static void run_ahead(struct sequence *sequence, const struct gen_home *home)
{
    uint32_t ids[SEQUENCE_AHEAD_MAX];
    if (sequence->state != SEQUENCE_DECODING || !may_run_ahead(sequence, home))
        return;
    const struct sampling_params *sampling = &sequence->job->request.sampling;
    const uint32_t n_left = sampling->max_tokens - sequence_n_generated(sequence);
    const uint32_t n = constraint_forced(sequence->job->request.constraint, ids,
                                         smaller(n_left, SEQUENCE_AHEAD_MAX));
    for (uint32_t i = 0; i < n && sequence->state == SEQUENCE_DECODING; i++) {
        if ((sequence_n_generated(sequence) < sampling->min_tokens &&
             is_stop(sequence, home, ids[i])) ||
            suppressed_tokens_have(model_get_config(home->options->model), ids[i]))
            return;
        schedule_run_ahead(home->schedule, sequence_schedule_id(sequence));
        sequence->n_ahead++;
        append(sequence, home, ids[i], NULL);
    }
}

/* Counts prompt tokens that are computed for the first time, and all that is computed again. */
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
    sequence->n_ahead -= smaller(n_tokens, sequence->n_ahead);
}

/* This worker has computed the KV of the prompt. */
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

void sequence_end_without_token(struct sequence *sequence, const struct gen_home *home,
                                const struct draw *fault)
{
    struct error error;
    const struct log_about about = job_about(sequence->job);
    draw_say_fault(fault, &error);
    if (fault->status == STATUS_LOGITS_NOT_FINITE) {
        log_event(LOG_WARN, &about, "logits are not finite", LOG_TEXT("why", error.text));
        sequence->has_other_kv = true;
        sequence_forget(sequence, home);
    }
    sequence_end(sequence, home, fault->status, error.text);
}

static void take_step(struct sequence *sequence, const struct gen_home *home,
                      const struct computed *computed)
{
    assert(sequence_is_runnable(sequence) && computed->n_tokens > 0);
    uint32_t n_prompt = sequence_n_prompt(sequence), first = sequence->n_kv;
    bool is_next = computed->has_token && first + computed->n_tokens == sequence->n_tokens;
    schedule_computed(home->schedule, sequence_schedule_id(sequence), computed->n_tokens, is_next);
    count_computed(sequence, home, computed->n_tokens);
    if (computed->fault) {
        sequence_end_without_token(sequence, home, computed->fault);
        return;
    }
    if (first < n_prompt && sequence->n_kv >= n_prompt)
        has_computed_prompt(sequence, home);
    sequence_settle(sequence);
    sequence_tell_progress(sequence, home);
    if (is_next && computed->ranked) {
        sequence_add_ranked(sequence, home, computed->ranked);
        return;
    }
    if (is_next) {
        sequence_add_token(sequence, home, computed->token_id, &computed->logprobs);
        run_ahead(sequence, home);
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

void sequence_computed(struct sequence *sequence, const struct gen_home *home,
                       const struct computed *computed)
{
    take_step(sequence, home, computed);
    if (!sequence_is_runnable(sequence)) /* it has ended */
        return;
    sequence_keep_snapshot(sequence, home);
    if (kv_manager_keeps_states(home->manager))
        sequence_cut(sequence, home);
    sequence_settle_blocks(sequence, home);
}

/* ---- the end ---- */

static void tell(struct sequence *sequence, const struct gen_home *home, enum status status,
                 const char *sentence)
{
    struct gen_finish finish = figures(sequence);
    finish.status = status;
    finish.sentence = sentence;
    if (status == STATUS_OK)
        finish.reason = sequence_finish_reason(sequence, home);
    finish.is_complete = finish.reason == GEN_FINISH_STOP && !finish.search &&
                         !is_stop(sequence, home, sequence->tokens[sequence->n_tokens - 1]);
    gen_home_finish_stream(home, sequence->job, &finish);
}

void sequence_end(struct sequence *sequence, const struct gen_home *home, enum status status,
                  const char *sentence)
{
    assert(sequence->state != SEQUENCE_FREE);
    assert(sequence->state != SEQUENCE_PAUSED || sequence->table.n_blocks == 0);
    schedule_id id = sequence_schedule_id(sequence);
    /* While it holds the blocks: a block that enters the cache must have a holder. */
    if (sequence->state == SEQUENCE_DECODING && !sequence->has_other_kv)
        sequence_keep_all(sequence, home);
    if (sequence->handover)
        handover_close(sequence->handover, home, HANDOVER_DISCARD);
    tell(sequence, home, status, sentence);
    if (sequence_searches(sequence))
        sequence_leave_beams(sequence, home);
    kv_manager_free(home->manager, &sequence->table);
    assert(home->jobs[id] == sequence->job);
    schedule_remove(home->schedule, id);
    home->jobs[id] = NULL;
    job_destroy(sequence->job);
    sequence->job = NULL;
    sequence->handover = NULL;
    sequence->state = SEQUENCE_FREE;
}
