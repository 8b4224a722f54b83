#include "gen_worker/gen_batch.h"

#include "gen_worker/sequence_scores.h"
#include "model/config/encoder_config.h"
#include "model/config/kv_layers.h"
#include "model/model.h"
#include "model/sampling/beam_search.h"
#include "model/sampling/forced_tokens.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define N_LEFT_OUT UINT32_MAX

enum status gen_batch_check_pauses(enum schedule_policy policy, const char *differ_by,
                                   struct error *error)
{
    if (policy != SCHEDULE_MAX_UTILIZATION || !differ_by)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "capacity_policy is max-utilization: generated tokens cannot be computed "
                     "again in chunks with %s",
                     differ_by);
}

enum status gen_batch_check_drafts(const char *speculate, const char *without, struct error *error)
{
    if (!speculate || !without)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "speculate is %s: tokens cannot be guessed with %s; expected off", speculate,
                     without);
}

/* Tokens of a draft are computed as a chunk is, and what was wrong is forgotten. NULL: nothing. */
static const char *drafts_go_without(const struct gen_batch *batch, const struct model *model)
{
    const struct model_config *config = model_get_config(model);
    if (kv_layers_recurrent(config) > 0)
        return "layers of recurrent state, which does not go back";
    if (model_has_encoder(config))
        return "a model with an encoder";
    if (forward_finds(batch->forward))
        return "a device that draws";
    return forward_phases_differ_by(batch->forward);
}

enum status gen_batch_init(struct gen_batch *batch, const struct gen_engine_options *options,
                           struct error *error)
{
    const struct forward_options *forward = forward_get_options(options->forward);
    const struct model_config *config = model_get_config(options->model);
    uint32_t n = options->sequences_max;
    assert(forward->tokens_max >= options->batch_tokens + n);
    assert(forward->sequences_max >= n && forward->device == options->device);
    batch->encoder = &config->encoder;
    batch->forward = options->forward;
    batch->inputs = calloc(n, sizeof *batch->inputs);
    batch->results = calloc(n, sizeof *batch->results);
    batch->wanted = calloc(n, sizeof *batch->wanted);
    batch->ranked = calloc(n, sizeof *batch->ranked);
    batch->texts = calloc(n, sizeof *batch->texts);
    batch->n_drafts = calloc(n, sizeof *batch->n_drafts);
    batch->runs = calloc(n, sizeof *batch->runs);
    batch->order = calloc(n, sizeof *batch->order);
    batch->draft_list = calloc(n + DRAFT_STEP_MAX, sizeof *batch->draft_list);
    batch->checked = calloc(n + DRAFT_STEP_MAX, sizeof *batch->checked);
    batch->lines = calloc(n, sizeof *batch->lines);
    batch->line_works = calloc(n, sizeof *batch->line_works);
    if (!batch->lines || !batch->line_works || !batch->order || !batch->inputs || !batch->results ||
        !batch->wanted || !batch->ranked || !batch->texts || !batch->runs || !batch->n_drafts ||
        !batch->draft_list || !batch->checked)
        return STATUS_NO_MEMORY;
    TRY(draws_create(batch->forward, model_host_kernels(options->model), &batch->draws));
    draws_set_ends(batch->draws, options->eos_ids, options->n_eos_ids);
    draws_set_suppressed(batch->draws, config->suppressed_ids, config->n_suppressed);
    TRY(draw_masks_create(n, options->vocabulary, forward->threads, &batch->masks));
    TRY(scorer_create(batch->forward, model_host_kernels(options->model), &batch->scorer));
    const char *speculate = options->drafter ? "model" : options->drafts ? "lookup" : NULL;
    TRY(gen_batch_check_drafts(speculate, drafts_go_without(batch, options->model), error));
    return gen_batch_check_pauses(options->capacity_policy,
                                  forward_phases_differ_by(batch->forward), error);
}

void gen_batch_finish(struct gen_batch *batch)
{
    draws_destroy(batch->draws);
    draw_masks_destroy(batch->masks);
    scorer_destroy(batch->scorer);
    free(batch->inputs);
    free(batch->results);
    free(batch->wanted);
    free(batch->ranked);
    free(batch->texts);
    free(batch->n_drafts);
    free(batch->runs);
    free(batch->order);
    free(batch->draft_list);
    free(batch->checked);
    free(batch->lines);
    free(batch->line_works);
}

/* ---- what is computed ---- */

/* How many of the proposed tokens form one chunk. */
static uint32_t n_in_piece(const struct sequence *sequence, uint32_t n_tokens)
{
    uint32_t n_prompt = sequence_n_prompt(sequence);
    bool is_over = sequence->n_kv < n_prompt && sequence->n_kv + n_tokens > n_prompt;
    return is_over && sequence->must_verify ? n_prompt - sequence->n_kv : n_tokens;
}

static void name_fault(const struct gen_batch *batch, struct draw *draw)
{
    if (draw->mask)
        draw->mask_fault = draw_masks_fault(batch->masks, draw->mask);
}

/* Behind the first n_kv tokens, which are the sequence's or those of one of its beams. */
static struct draw draw_behind(const struct sequence *sequence, const uint32_t *tokens,
                               uint32_t n_kv, struct token_logprobs *logprobs)
{
    const struct engine_request *request = &sequence->job->request;
    return (struct draw){.params = &request->sampling,
                         .tokens = tokens + request->reply_at,
                         .n_prompt = request->n_tokens - request->reply_at,
                         .n_tokens = n_kv - request->reply_at,
                         .logprobs = logprobs};
}

static void take_draw(struct computed *computed, const struct draw *drawn)
{
    computed->token_id = drawn->token_id;
    computed->fault = drawn->status == STATUS_OK ? NULL : drawn;
}

/* A token that is drawn again must not see the tokens behind it, as in the first draw. */
static void want(struct gen_batch *batch, struct sequence *sequence, const uint32_t *tokens,
                 uint32_t n_kv, struct token_logprobs *logprobs)
{
    struct engine_request *request = &sequence->job->request;
    const uint32_t at = batch->n_wanted++;
    struct draw *draw = &batch->wanted[at];
    *draw = draw_behind(sequence, tokens, n_kv, logprobs);
    if (sequence_searches(sequence)) {
        draw->ranked = &batch->ranked[at];
        draw->n_ranked = beam_search_n_ranked(sequence->job->search);
    }
    uint32_t forced;
    if (!request->constraint && forced_token_find(batch->encoder, n_kv - request->n_tokens,
                                                  request->sampling.max_tokens, &forced))
        draw->mask = draw_masks_add_only(batch->masks, forced);
    if (request->constraint)
        draw->mask = draw_masks_add(batch->masks, request->constraint, sequence->tokens + n_kv,
                                    sequence->n_tokens - n_kv);
}

/* Of a reply with sinks: the request asked for less than the workers' window. */
static bool has_own_window(const struct gen_home *home, const struct block_table *table)
{
    return table->sinks.window != home->options->geometry.sinks.window;
}

/* Of a line the decoder computes what is behind the text, which the encoder has computed before. */
static void go_behind_text(struct gen_batch *batch, const struct sequence *sequence,
                           const struct block_table *table, struct forward_sequence *input)
{
    const struct engine_request *request = &sequence->job->request;
    const uint32_t n_cross = request->reply_at / table->block_tokens;
    if (input->n_past == 0)
        batch->texts[batch->n_texts++] = (struct forward_text){.request_id = input->request_id,
                                                               .token_ids = request->token_ids,
                                                               .n_tokens = request->n_text,
                                                               .cross_blocks = table->blocks,
                                                               .n_cross_blocks = n_cross};
    const uint32_t n_skipped = input->n_past == 0 ? request->reply_at : 0;
    assert(input->n_past == 0 || input->n_past >= request->reply_at);
    assert(input->n_query > n_skipped);
    input->token_ids += n_skipped;
    input->n_query -= n_skipped;
    input->n_past -= input->n_past == 0 ? 0 : request->reply_at;
    input->prompt_len -= request->reply_at;
    input->blocks += n_cross;
    input->n_blocks -= n_cross;
    input->cross_blocks = table->blocks;
    input->n_cross_blocks = n_cross;
    input->n_cross_tokens = request->n_text;
}

/* n_draft: tokens behind the n_tokens, which stand behind the known ones. In a pass with drafts rows are wanted, not logits.
 * beam: of a beam search, whose table and tokens; else the sequence itself. */
static void add_input(struct gen_batch *batch, const struct gen_home *home,
                      const struct sequence *sequence, const struct sequence *beam,
                      uint32_t n_tokens, uint32_t n_draft)
{
    const uint32_t n_prompt = sequence_n_prompt(sequence), n_kv = sequence->n_kv + n_tokens;
    const struct block_table *table = &beam->table;
    assert(block_table_places(table, n_kv + n_draft) <= table->n_spans * table->block_tokens);
    batch->inputs[batch->n] = (struct forward_sequence){
        .request_id = sequence->job->request.request_number,
        /* A chunk of generated tokens need not be whole blocks. */
        .prompt_len = n_kv > n_prompt ? n_kv + n_draft : n_prompt,
        .token_ids = beam->tokens + sequence->n_kv,
        .n_query = n_tokens + n_draft,
        .n_past = block_table_places(table, sequence->n_kv),
        .window = sequence->n_kv >= n_prompt && has_own_window(home, table) ? table->sinks.window
                                                                            : 0,
        .blocks = table->blocks,
        .n_blocks = table->spans_max,
        .state_blocks = block_table_state(table).ids,
        .adapter = sequence->job->request.adapter.adapter,
    };
    if (sequence->job->request.n_text > 0)
        go_behind_text(batch, sequence, table, &batch->inputs[batch->n]);
}

static void add(struct gen_batch *batch, const struct gen_home *home, struct sequence *sequence,
                uint32_t n_tokens, uint32_t n_draft)
{
    const uint32_t n = batch->n;
    uint32_t n_prompt = sequence_n_prompt(sequence), n_kv = sequence->n_kv + n_tokens;
    bool draws_again = sequence->must_verify && n_kv == n_prompt;
    const bool is_checked = batch->n_draft_rows > 0;
    bool wants_logits = !is_checked && (n_kv == sequence->n_tokens || draws_again);
    assert(n_tokens > 0 && n_kv <= sequence->n_tokens);
    assert(!draws_again || sequence->n_tokens > n_prompt);
    add_input(batch, home, sequence, sequence, n_tokens, n_draft);
    batch->inputs[n].wants_logits = wants_logits;
    batch->inputs[n].keeps_rows = is_checked || sequence_keeps_rows(sequence, n_tokens);
    batch->results[n] = (struct gen_result){
        .sequence = sequence,
        .computed = {.n_tokens = n_tokens, .has_token = wants_logits},
        .keeps_rows = !is_checked && batch->inputs[n].keeps_rows,
        .n_drafted = n_draft,
        .first_row = batch->n_rows,
    };
    batch->n_rows += batch->inputs[n].n_query;
    batch->n++;
    if (wants_logits)
        want(batch, sequence, sequence->tokens, n_kv, &batch->results[n].computed.logprobs);
}

/* A token of each running beam. Returns how many. */
static uint32_t add_beams(struct gen_batch *batch, const struct gen_home *home,
                          struct sequence *sequence)
{
    const uint32_t n_running = sequence_n_running(sequence), n_kv = sequence->n_kv + 1;
    assert(n_kv == sequence->n_tokens);
    for (uint32_t i = 0; i < n_running; i++) {
        struct gen_result *result = &batch->results[batch->n];
        const struct sequence *beam = sequence_beam(sequence, i);
        add_input(batch, home, sequence, beam, 1, 0);
        batch->inputs[batch->n].wants_logits = true;
        *result = (struct gen_result){.sequence = i == 0 ? sequence : NULL,
                                      .computed = {.n_tokens = 1, .has_token = true},
                                      .first_row = batch->n_rows++};
        batch->n++;
        want(batch, sequence, beam->tokens, n_kv, &result->computed.logprobs);
    }
    batch->n_beams_more += n_running - 1;
    return n_running;
}

static uint64_t adapter_of(const struct gen_home *home, const struct schedule_work *work)
{
    return home->jobs[work->id]->request.adapter.id.digest[0];
}

/* The plan's, but decodes with the same adapter stand side by side: their small products are computed together. */
static void choose_order(struct gen_batch *batch, const struct gen_home *home,
                         const struct schedule_batch *plan)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        uint32_t at = i;
        const uint64_t adapter = adapter_of(home, &plan->work[i]);
        for (; at > plan->n_chunks; at--) {
            if (adapter_of(home, &plan->work[batch->order[at - 1]]) <= adapter)
                break;
            batch->order[at] = batch->order[at - 1];
        }
        batch->order[at] = i;
    }
}

/* In the plan's order, which says who gets the last blocks. */
static void prepare_all(struct gen_batch *batch, const struct gen_home *home,
                        const struct schedule_batch *plan)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        const struct schedule_work *work = &plan->work[i];
        struct sequence *sequence = home->jobs[work->id]->sequence;
        assert(sequence_is_runnable(sequence) && work->first == sequence->n_kv);
        const enum status status = sequence_prepare(sequence, home, work->n_tokens, work->n_known);
        batch->n_drafts[i] = status == STATUS_OK ? 0 : N_LEFT_OUT;
        batch->n_left_out += status != STATUS_OK; /* proposed again when the true room is known */
    }
}

/* Chunks first. */
static void add_all(struct gen_batch *batch, const struct gen_home *home,
                    const struct schedule_batch *plan)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        const struct schedule_work *work = &plan->work[batch->order[i]];
        struct sequence *sequence = home->jobs[work->id]->sequence;
        if (batch->n_drafts[batch->order[i]] == N_LEFT_OUT)
            continue;
        const bool is_chunk = i < plan->n_chunks;
        if (!is_chunk && sequence_searches(sequence)) {
            batch->n_decodes += add_beams(batch, home, sequence);
            continue;
        }
        add(batch, home, sequence, n_in_piece(sequence, work->n_tokens), 0);
        batch->n_contexts += is_chunk;
        batch->n_decodes += !is_chunk || sequence->n_ahead > 0;
    }
}

/* ---- drafts ---- */

static uint32_t smaller(uint32_t a, uint32_t b)
{
    return a < b ? a : b;
}

/* How many tokens behind the known ones are worth a guess, up to n_max. They stay in the block of the last known one: so a draft
 * takes no block. */
static uint32_t n_worth(const struct gen_home *home, struct sequence *sequence,
                        uint32_t n_sequences, uint32_t n_max)
{
    const struct engine_request *request = &sequence->job->request;
    const uint32_t n_tokens = sequence->n_tokens, block_tokens = sequence->table.block_tokens;
    const uint32_t n_left = request->sampling.max_tokens - sequence_n_generated(sequence);
    const uint32_t in_block = (block_tokens - n_tokens % block_tokens) % block_tokens;
    assert(sequence->n_kv + 1 == n_tokens && n_left > 0);
    if (request->constraint) /* what it allows behind a draft is not known */
        return 0;
    const uint32_t n = draft_luck_length(&sequence->luck, &home->pace, n_sequences);
    return smaller(smaller(n, n_max), smaller(in_block, n_left - 1));
}

static uint32_t look_up(struct sequence *sequence, uint32_t n_max)
{
    uint32_t n;
    const uint32_t from = draft_find(sequence->tokens, sequence->n_tokens, n_max, &n);
    memcpy(sequence->tokens + sequence->n_tokens, sequence->tokens + from,
           n * sizeof *sequence->tokens);
    return n;
}

static void add_line(struct gen_batch *batch, struct sequence *sequence, uint32_t work, uint32_t at,
                     uint32_t n_wanted)
{
    const struct engine_request *request = &sequence->job->request;
    assert(request->reply_at == 0 && "an encoder's replies have no drafts");
    batch->line_works[at] = work;
    batch->lines[at] = (struct drafter_line){.id = request->request_number,
                                             .tokens = sequence->tokens,
                                             .n_tokens = sequence->n_tokens,
                                             .n_prompt = request->n_tokens,
                                             .params = &request->sampling,
                                             .salt = request->salt,
                                             .salt_bytes = request->salt_bytes,
                                             .n_wanted = n_wanted};
}

/* What it took to catch up is no time of guesses, nor is that of guesses that came to nothing. */
static enum status run_drafter(struct gen_batch *batch, const struct gen_home *home,
                               const struct schedule_batch *plan, uint32_t n, uint32_t n_wanted)
{
    bool has_caught_up;
    _Static_assert(DRAFT_LENGTH_MAX <= DRAFTER_GUESSES_MAX && ENGINE_SALT_MAX <= DRAFTER_SALT_MAX,
                   "a draft and a salt fit");
    TRY(drafter_run(home->options->drafter, batch->lines, n, &has_caught_up));
    for (uint32_t i = 0; i < n; i++) {
        batch->n_drafts[batch->line_works[i]] = batch->lines[i].n_out;
        batch->n_draft_rows += batch->lines[i].n_out;
        if (batch->lines[i].has_failed)
            draft_luck_note(&home->jobs[plan->work[batch->line_works[i]].id]->sequence->luck, 1, 0);
    }
    if (has_caught_up || (n_wanted > 0 && batch->n_draft_rows == 0))
        batch->is_timed = false;
    return STATUS_OK;
}

static enum status guess_all(struct gen_batch *batch, const struct gen_home *home,
                             const struct schedule_batch *plan)
{
    const uint32_t n_room = forward_get_options(batch->forward)->tokens_max - plan->n_tokens;
    const uint32_t n_max = smaller(n_room, DRAFT_STEP_MAX);
    uint32_t n_wanted = 0, n_lines = 0;
    for (uint32_t i = 0; i < plan->n; i++) {
        struct sequence *sequence = home->jobs[plan->work[i].id]->sequence;
        assert(plan->work[i].n_tokens == 1);
        if (batch->n_drafts[i] == N_LEFT_OUT)
            continue;
        const uint32_t n = n_worth(home, sequence, plan->n, n_max - batch->n_draft_rows - n_wanted);
        if (home->options->drafter) {
            add_line(batch, sequence, i, n_lines++, n);
            n_wanted += n;
        } else {
            batch->n_drafts[i] = look_up(sequence, n);
            batch->n_draft_rows += batch->n_drafts[i];
        }
    }
    return n_lines > 0 ? run_drafter(batch, home, plan, n_lines, n_wanted) : STATUS_OK;
}

static void add_those(struct gen_batch *batch, const struct gen_home *home,
                      const struct schedule_batch *plan, bool with_drafts)
{
    for (uint32_t i = 0; i < plan->n; i++) {
        const uint32_t at = batch->order[i], n_draft = batch->n_drafts[at];
        if (n_draft == N_LEFT_OUT || (n_draft > 0) != with_drafts)
            continue;
        add(batch, home, home->jobs[plan->work[at].id]->sequence, 1, n_draft);
        batch->n_contexts += with_drafts;
        batch->n_decodes++;
    }
}

static enum status add_guessed(struct gen_batch *batch, const struct gen_home *home,
                               const struct schedule_batch *plan)
{
    TRY(guess_all(batch, home, plan));
    add_those(batch, home, plan, true); /* as chunks come */
    add_those(batch, home, plan, false);
    return STATUS_OK;
}

/* What is drawn behind the last known token, and behind each of the draft. */
static void list_draws(struct gen_batch *batch, uint32_t i, uint32_t first)
{
    const struct sequence *sequence = batch->results[i].sequence;
    struct constraint *constraint = sequence->job->request.constraint;
    batch->runs[i] = (struct draws_rows){.list = batch->draft_list + first,
                                         .n = batch->results[i].n_drafted + 1};
    for (uint32_t at = 0; at < batch->runs[i].n; at++)
        batch->runs[i].list[at] = draw_behind(sequence, sequence->tokens, sequence->n_tokens + at,
                                              &batch->checked[first + at].logprobs);
    if (constraint) /* its run is one token */
        batch->runs[i].list->mask = draw_masks_add(batch->masks, constraint, NULL, 0);
}

static void take_draws(struct gen_batch *batch, uint32_t i, uint32_t first)
{
    const struct draws_rows *run = &batch->runs[i];
    struct computed *checked = batch->checked + first;
    for (uint32_t at = 0; at < run->n_drawn; at++) {
        checked[at].n_tokens = 1;
        checked[at].has_token = true;
        take_draw(&checked[at], &run->list[at]);
    }
    batch->results[i].checked = checked;
    batch->results[i].n_checked = run->n_drawn;
}

static enum status run_guessed(struct gen_batch *batch)
{
    uint32_t first = 0;
    for (uint32_t i = 0; i < batch->n; first += batch->runs[i++].n)
        list_draws(batch, i, first);
    draw_masks_make(batch->masks);
    for (uint32_t i = 0; i < batch->n; i++)
        name_fault(batch, batch->runs[i].list);
    TRY(draws_check(batch->draws, batch->inputs, batch->n, batch->n_contexts, batch->runs));
    first = 0;
    for (uint32_t i = 0; i < batch->n; first += batch->runs[i++].n)
        take_draws(batch, i, first);
    return STATUS_OK;
}

/* Of a sequence or, from its first row on, of all its beams. Those whose rules leave no token end; if all do, there is a fault. */
static void take_ranked(struct gen_batch *batch, uint32_t i, const struct draw *drawn)
{
    struct computed *computed = &batch->results[i].computed;
    uint32_t n_empty = 0, n = 1;
    while (i + n < batch->n && !batch->results[i + n].sequence)
        n++;
    computed->ranked = drawn->ranked;
    for (uint32_t at = 0; at < n; at++) {
        const bool is_empty = drawn[at].status != STATUS_OK &&
                              drawn[at].status != STATUS_LOGITS_NOT_FINITE;
        n_empty += is_empty;
        if (drawn[at].status != STATUS_OK && (!is_empty || n_empty == n))
            computed->fault = &drawn[at];
    }
}

static void take_wanted(struct gen_batch *batch)
{
    const struct draw *drawn = batch->wanted;
    for (uint32_t i = 0; i < batch->n; i++) {
        struct computed *computed = &batch->results[i].computed;
        if (!computed->has_token)
            continue;
        assert(drawn->logprobs == &computed->logprobs);
        if (!drawn->ranked)
            take_draw(computed, drawn);
        else if (batch->results[i].sequence)
            take_ranked(batch, i, drawn);
        drawn++;
    }
}

static bool has_search(const struct gen_home *home, const struct schedule_batch *plan)
{
    for (uint32_t i = 0; i < plan->n; i++)
        if (home->jobs[plan->work[i].id]->search)
            return true;
    return false;
}

static void make_masks(struct gen_batch *batch)
{
    draw_masks_make(batch->masks);
    for (uint32_t i = 0; i < batch->n_wanted; i++)
        name_fault(batch, &batch->wanted[i]);
}

enum status gen_batch_run(struct gen_batch *batch, const struct gen_home *home,
                          const struct schedule_batch *plan)
{
    batch->n = batch->n_contexts = batch->n_decodes = batch->n_left_out = batch->n_wanted = 0;
    batch->n_texts = batch->n_beams_more = 0;
    draw_masks_clear(batch->masks);
    batch->n_rows = batch->n_draft_rows = 0;
    batch->is_timed = plan->n_chunks == 0;
    choose_order(batch, home, plan);
    prepare_all(batch, home, plan);
    if (home->options->drafts && plan->n_chunks == 0 && !has_search(home, plan) &&
        !draft_pace_is_due(&home->pace, plan->n))
        TRY(add_guessed(batch, home, plan));
    else
        add_all(batch, home, plan);
    assert(batch->n_contexts + batch->n_decodes >= batch->n && batch->n_wanted <= batch->n);
    assert(batch->n - batch->n_beams_more + batch->n_left_out == plan->n);
    if (batch->n == 0)
        return STATUS_OK;

    if (batch->n_draft_rows > 0)
        return run_guessed(batch);
    make_masks(batch);
    if (batch->n_texts > 0)
        TRY(forward_encode(batch->forward, batch->texts, batch->n_texts));
    TRY(draws_run(batch->draws, batch->inputs, batch->n, batch->n_contexts, batch->wanted));
    take_wanted(batch);
    return STATUS_OK;
}
