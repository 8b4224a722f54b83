#include "gen_worker/gen_engine.h"

#include "engine/cache_events.h"
#include "engine/engine_sizes.h"
#include "gen_worker/admission.h"
#include "gen_worker/gen_engine_figures.h"
#include "gen_worker/sequence_scores.h"
#include "gen_worker/trust.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static enum status check_options(const struct gen_engine_options *options, struct error *error)
{
    const struct engine_sizes sizes = {.geometry = &options->geometry,
                                       .chunk_tokens = options->chunk_tokens,
                                       .batch_tokens = options->batch_tokens,
                                       .running_max = options->sequences_max,
                                       .running_name = "sequences_max",
                                       .queue_max = options->queue_max,
                                       .streams_max = options->streams_max};
    TRY(engine_sizes_check(&sizes, error));
    if (options->prefills_max == 0 || options->events_max == 0 ||
        options->context_limit_tokens == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "prefills_max, events_max and context_limit_tokens cannot be 0");
    if (options->n_eos_ids > GEN_EOS_IDS_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT, "%u end-of-sequence ids, at most %u",
                         options->n_eos_ids, GEN_EOS_IDS_MAX);
    return STATUS_OK;
}

static enum status make_slots(struct gen_engine *engine)
{
    const struct gen_engine_options *options = &engine->options;
    engine->home.sequences = calloc(options->sequences_max, sizeof *engine->home.sequences);
    engine->home.runs_ahead = !forward_phases_differ_by(options->forward);
    engine->home.mask = calloc((options->vocabulary + 31) / 32, sizeof *engine->home.mask);
    if (!engine->home.sequences || !engine->home.mask)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < options->sequences_max; i++)
        TRY(sequence_init(&engine->home.sequences[i], &engine->home));
    return handover_set_init(&engine->handovers, &engine->home);
}

/* Prompts have batch_tokens even when all other sequences decode: each decode has one token more. */
static struct cache_step step_of(const struct gen_engine_options *options)
{
    return (struct cache_step){.n_tokens = options->batch_tokens + options->sequences_max,
                               .n_sequences = options->sequences_max,
                               .context_tokens = options->context_tokens};
}

static enum status make_manager(struct gen_engine *engine, struct error *error)
{
    const struct gen_engine_options *options = &engine->options;
    return kv_manager_create(
        &(struct kv_manager_options){.kind = options->kv_manager,
                                     .geometry = &options->geometry,
                                     .pool = options->pool,
                                     .step = step_of(options),
                                     .prefix_cache = options->prefix_cache,
                                     .snapshot_tokens = options->snapshot_tokens,
                                     .has_replies = true},
        error, &engine->home.manager);
}

static enum status make_events(struct gen_engine *engine)
{
    const struct gen_engine_options *options = &engine->options;
    return cache_events_create(
        &(struct cache_events_options){.manager = engine->home.manager,
                                       .block_tokens = options->geometry.block_tokens,
                                       .events_max = options->kv_events_max,
                                       .wipes = options->kv_scrub},
        &engine->home.events);
}

static enum status make_tier(struct gen_engine *engine)
{
    const struct gen_engine_options *options = &engine->options;
    return prefix_tier_create(
        &(struct prefix_tier_options){.manager = engine->home.manager,
                                      .tier = options->tier,
                                      .events = engine->home.events,
                                      .device = options->device,
                                      .geometry = &options->geometry,
                                      .context_tokens = options->context_tokens,
                                      .limit_ns = options->restore_limit_ns},
        &engine->home.tier);
}

static enum status make_schedule(struct gen_engine *engine, struct error *error)
{
    const struct gen_engine_options *options = &engine->options;
    const struct kv_manager_rule rule = kv_manager_rule_of(engine->home.manager);
    struct schedule_options schedule = {
        .policy = options->capacity_policy,
        .n_blocks = kv_manager_all(engine->home.manager),
        .blocks_fixed = rule.n_fixed,
        .blocks_beside = rule.n_beside,
        .n_groups = rule.n_groups,
        .reply_spans = rule.reply_spans,
        .block_tokens = options->geometry.block_tokens,
        .batch_tokens = step_of(options).n_tokens,
        .chunk_tokens = options->chunk_tokens,
        .step_target_ns = options->step_target_ns,
        .sequences_max = options->sequences_max,
        .waiting_max = options->queue_max,
        .headroom_blocks = options->headroom_blocks,
        .aging_ms = options->priority_aging_ms,
        .tenant_share_percent = 100,
    };
    memcpy(schedule.span_limits, rule.span_limits, sizeof schedule.span_limits);
    size_t n_jobs = (size_t)options->sequences_max + options->queue_max;
    engine->home.jobs = calloc(n_jobs, sizeof *engine->home.jobs);
    if (!engine->home.jobs)
        return STATUS_NO_MEMORY;
    return schedule_create(&schedule, error, &engine->home.schedule);
}

static enum status make_parts(struct gen_engine *engine, struct error *error)
{
    TRY(published_init(&engine->published, sizeof engine->stats));
    TRY(gen_inbox_init(&engine->inbox, &engine->options));
    TRY(request_queue_init(&engine->pending, engine->options.streams_max,
                           constraint_desk_limit_ns(engine->options.desk)));
    TRY(request_queue_init(&engine->queue, engine->options.queue_max,
                           engine->options.queue_limit_ns));
    TRY(make_manager(engine, error));
    TRY(make_events(engine));
    TRY(make_tier(engine));
    TRY(make_slots(engine));
    TRY(make_schedule(engine, error));
    TRY(block_owners_init(&engine->owners, engine->options.pool));
    return gen_batch_init(&engine->batch, &engine->options, error);
}

static const struct engine_core_ops CORE_OPS;

enum status gen_engine_create(const struct gen_engine_options *options,
                              const struct gen_engine_ops *ops, struct error *error,
                              struct gen_engine **engine_out)
{
    TRY(check_options(options, error));
    assert(options->model && options->device && options->receiver);
    struct gen_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return STATUS_NO_MEMORY;
    engine->options = *options;
    engine->ops = *ops;
    engine->home = (struct gen_home){.options = &engine->options,
                                     .ops = &engine->ops,
                                     .inbox = &engine->inbox,
                                     .queue = &engine->queue,
                                     .handovers = &engine->handovers,
                                     .pace = {.is_model = options->drafter != NULL},
                                     .stats = &engine->stats};
    engine->core = (struct engine_core){.ops = &CORE_OPS,
                                        .engine = engine,
                                        .device = options->device,
                                        .inbox = &engine->inbox,
                                        .queue = &engine->queue,
                                        .pending = &engine->pending,
                                        .desk = options->desk};
    enum status status = make_parts(engine, error);
    if (status != STATUS_OK) {
        gen_engine_destroy(engine);
        return status;
    }
    gen_engine_publish(engine, 0);
    *engine_out = engine;
    return STATUS_OK;
}

void gen_engine_destroy(struct gen_engine *engine)
{
    if (!engine)
        return;
    gen_inbox_finish(&engine->inbox);
    request_queue_finish(&engine->pending);
    request_queue_finish(&engine->queue);
    handover_set_finish(&engine->handovers, &engine->home);
    for (uint32_t i = 0; engine->home.sequences && i < engine->options.sequences_max; i++)
        sequence_finish(&engine->home.sequences[i]);
    prefix_tier_destroy(engine->home.tier);
    cache_events_destroy(engine->home.events);
    kv_manager_destroy(engine->home.manager);
    schedule_destroy(engine->home.schedule);
    free(engine->home.jobs);
    gen_batch_finish(&engine->batch);
    block_owners_finish(&engine->owners);
    free(engine->home.sequences);
    free(engine->home.mask);
    published_finish(&engine->published);
    free(engine);
}

struct span_events *gen_engine_spans(const struct gen_engine *engine)
{
    return cache_events_spans(engine->home.events);
}

/* ---- messages of clients ---- */

/* Includes paused requests, but not a request that has ended and whose transfer is closing: its id may be used again. */
static bool is_running(void *arg, const struct engine_request *request)
{
    const struct gen_engine *engine = arg;
    for (uint32_t i = 0; i < engine->options.sequences_max; i++)
        if (sequence_has_job(&engine->home.sequences[i]) &&
            engine_request_is_named(&engine->home.sequences[i].job->request, request->request_id,
                                    request->id_hash))
            return true;
    return false;
}

static enum status enlist(void *arg, struct engine_request *request, uint64_t now_ns,
                          const char **sentence_out)
{
    struct gen_engine *engine = arg;
    assert(job_of(request)->lookup_at == 0 && "a new job was never looked up");
    enum status status = admission_take(&engine->home, job_of(request), now_ns);
    if (status == STATUS_NO_BLOCKS)
        *sentence_out = "prompt and max_tokens are larger than this worker's pool";
    return status;
}

static void delist(void *arg, struct engine_request *request)
{
    admission_forget(&((struct gen_engine *)arg)->home, job_of(request));
}

static void end_job(void *arg, struct engine_request *request, enum status status,
                    const char *sentence)
{
    gen_home_refuse(&((struct gen_engine *)arg)->home, job_of(request), status, sentence);
}

static void end_running(void *arg, const void *stream, enum status status)
{
    struct gen_engine *engine = arg;
    for (uint32_t i = 0; i < engine->options.sequences_max; i++) {
        struct sequence *sequence = &engine->home.sequences[i];
        if (sequence_has_job(sequence) && (!stream || sequence->job->request.stream == stream))
            sequence_end(sequence, &engine->home, status, "");
    }
}

static void on_flush(struct gen_engine *engine, void *call)
{
    prefix_tier_clear(engine->home.tier);
    engine->ops.flush_reply(engine->ops.arg, call, kv_manager_flush(engine->home.manager));
}

static void on_message(struct gen_engine *engine, struct gen_message *message, uint64_t now_ns)
{
    switch (message->kind) {
    case GEN_MESSAGE_REQUEST:
        engine_core_request(&engine->core, &message->job->request, now_ns);
        return;
    case GEN_MESSAGE_STREAM_ENDED:
        engine_core_stream_ended(&engine->core, message->handle);
        break;
    case GEN_MESSAGE_DESCRIBED:
    case GEN_MESSAGE_PREFILL_EVENT:
    case GEN_MESSAGE_PREFILL_END:
    case GEN_MESSAGE_COMMIT_RESULT:
        handover_set_on_message(&engine->handovers, &engine->home, message, now_ns);
        break;
    case GEN_MESSAGE_DROP_PEER:
        kv_receiver_drop_peer(engine->options.receiver, message->incarnation);
        break;
    case GEN_MESSAGE_DISTRUST:
        trust_withdraw(&engine->home, message->incarnation, now_ns);
        break;
    case GEN_MESSAGE_FLUSH:
        on_flush(engine, message->handle);
        break;
    }
    gen_message_finish(message);
}

static bool take_message(void *arg, uint64_t now_ns)
{
    struct gen_engine *engine = arg;
    struct gen_message message;
    if (!gen_inbox_take(&engine->inbox, &message))
        return false;
    on_message(engine, &message, now_ns);
    return true;
}

static void take_events(void *arg, uint64_t now_ns)
{
    struct gen_engine *engine = arg;
    handover_set_take_events(&engine->handovers, &engine->home, now_ns);
}

/* ---- time ---- */

/* The deadline first: a fall-back after it would compute without a client. */
static void expire_sequences(void *arg, uint64_t now_ns)
{
    struct gen_engine *engine = arg;
    for (uint32_t i = 0; i < engine->options.sequences_max; i++) {
        struct sequence *sequence = &engine->home.sequences[i];
        if (!sequence_has_job(sequence))
            continue;
        if (sequence->job->request.deadline_ns <= now_ns)
            sequence_end(sequence, &engine->home, STATUS_TIMED_OUT, "");
        else if (sequence->handover && handover_limit_ns(sequence->handover) <= now_ns)
            sequence_fall_back(sequence, &engine->home, STATUS_TIMED_OUT,
                               handover_limit_sentence(sequence->handover), now_ns);
    }
}

static uint64_t next_limit_ns(void *arg)
{
    const struct gen_engine *engine = arg;
    uint64_t next_ns = prefix_tier_next_limit_ns(engine->home.tier);
    for (uint32_t i = 0; i < engine->options.sequences_max; i++) {
        const struct sequence *sequence = &engine->home.sequences[i];
        if (!sequence_has_job(sequence))
            continue;
        next_ns = clock_earlier(next_ns, sequence->job->request.deadline_ns);
        if (sequence->handover)
            next_ns = clock_earlier(next_ns, handover_limit_ns(sequence->handover));
    }
    return next_ns;
}

/* ---- admission and computing ---- */

static struct engine_admission admit(void *arg, uint64_t now_ns)
{
    const struct gen_engine *engine = arg;
    return admission_run(&engine->home, now_ns);
}

/* Token by token, as of so many steps; the first that ends the reply is its last. */
static void take_checked(struct gen_engine *engine, const struct gen_result *result)
{
    struct sequence *sequence = result->sequence;
    if (result->n_drafted > 0)
        draft_luck_note(&sequence->luck, result->n_drafted, result->n_checked - 1);
    sequence->n_drafted += result->n_drafted;
    engine->stats.draft_tokens += result->n_drafted;
    for (uint32_t i = 0; i < result->n_checked && sequence->state == SEQUENCE_DECODING; i++) {
        sequence->n_accepted += i > 0;
        engine->stats.draft_tokens_accepted += i > 0;
        sequence_computed(sequence, &engine->home, &result->checked[i]);
    }
}

/* DEVICE_LOST: not all were taken. */
static enum status take_results(struct gen_engine *engine)
{
    struct gen_batch *batch = &engine->batch;
    for (uint32_t i = 0; i < batch->n; i++) {
        const struct gen_result *result = &batch->results[i];
        if (!result->sequence)
            continue;
        if (result->keeps_rows)
            TRY(sequence_score(result->sequence, &engine->home, batch->scorer,
                               result->computed.n_tokens, result->first_row));
        if (result->n_checked > 0)
            take_checked(engine, result);
        else if (result->sequence->state != SEQUENCE_FREE) /* its scores could not be told */
            sequence_computed(result->sequence, &engine->home, &result->computed);
    }
    return STATUS_OK;
}

static bool compute(void *arg)
{
    struct gen_engine *engine = arg;
    struct gen_batch *batch = &engine->batch;
    struct schedule_batch plan;
    schedule_batch(engine->home.schedule, &plan);
    const enum status status = gen_batch_run(batch, &engine->home, &plan);
    assert(status == STATUS_OK || status == STATUS_DEVICE_LOST);
    if (status != STATUS_OK)
        return true; /* the next round ends all */
    assert(batch->n <= engine->options.sequences_max && "each sequence is in the batch once");
    if (batch->n == 0)
        return batch->n_left_out > 0;
    if (take_results(engine) != STATUS_OK)
        return true;
    engine->stats.steps++;
    engine->stats.batch_sequences = batch->n_decodes;
    engine->stats.rows_fetched = draws_n_fetched(batch->draws);
    engine->stats.rows_not_finite = draws_n_not_finite(batch->draws) +
                                    scorer_n_not_finite(batch->scorer);
    if (batch->n_decodes > 0)
        engine->stats.steps_decode++;
    return true;
}

static void took(void *arg, uint64_t step_ns)
{
    struct gen_engine *engine = arg;
    struct gen_home *home = &engine->home;
    if (engine->batch.is_timed && engine->batch.n > 0)
        draft_pace_took(&home->pace, engine->batch.n, engine->batch.n_draft_rows, step_ns);
    schedule_took(home->schedule, step_ns);
    home->step_ns -= home->step_ns / 8;
    if (step_ns > home->step_ns)
        home->step_ns = step_ns;
}

/* ---- a step ---- */

static const struct engine_core_ops CORE_OPS = {
    .take_events = take_events,
    .take_message = take_message,
    .expire_running = expire_sequences,
    .next_limit_ns = next_limit_ns,
    .end_running = end_running,
    .is_running = is_running,
    .enlist = enlist,
    .delist = delist,
    .end = end_job,
    .admit = admit,
    .compute = compute,
    .took = took,
    .publish = gen_engine_publish,
};

uint64_t gen_engine_step(struct gen_engine *engine, uint64_t now_ns)
{
    return engine_core_step(&engine->core, now_ns);
}
