#include "ctx_worker/ctx_engine.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "ctx_worker/ctx_engine_admission.h"
#include "ctx_worker/ctx_engine_figures.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

/* ---- making ---- */

static enum status make_slots(struct ctx_engine *engine)
{
    const struct ctx_engine_options *options = &engine->options;
    uint32_t blocks_max = geometry_blocks(&options->geometry, options->context_tokens);
    engine->home.digests = calloc(blocks_max, sizeof *engine->home.digests);
    if (!engine->home.digests)
        return STATUS_NO_MEMORY;
    return prefill_set_init(&engine->slots, &engine->home);
}

static enum status make_manager(struct ctx_engine *engine, struct error *error)
{
    const struct ctx_engine_options *options = &engine->options;
    return kv_manager_create(
        &(struct kv_manager_options){
            .kind = options->kv_manager,
            .geometry = &options->geometry,
            .pool = options->pool,
            .step = {options->batch_tokens, options->slots_max, options->context_tokens},
            .prefix_cache = options->prefix_cache,
            .snapshot_tokens = options->snapshot_tokens},
        error, &engine->home.manager);
}

static enum status make_events(struct ctx_engine *engine)
{
    const struct ctx_engine_options *options = &engine->options;
    return cache_events_create(
        &(struct cache_events_options){.manager = engine->home.manager,
                                       .block_tokens = options->geometry.block_tokens,
                                       .events_max = options->kv_events_max,
                                       .wipes = options->kv_scrub},
        &engine->home.events);
}

static enum status make_tier(struct ctx_engine *engine)
{
    const struct ctx_engine_options *options = &engine->options;
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

/* Shares go by caller, whatever the caller says. Turns go by the tenant that the router named; a caller that names no
 * tenant is its own tenant. */
static enum status make_schedule(struct ctx_engine *engine, struct error *error)
{
    const struct ctx_engine_options *options = &engine->options;
    const struct kv_manager_rule rule = kv_manager_rule_of(engine->home.manager);
    struct schedule_options schedule = {
        .policy = SCHEDULE_NO_EVICT,
        .n_blocks = kv_manager_all(engine->home.manager),
        .blocks_fixed = rule.n_fixed,
        .blocks_beside = rule.n_beside,
        .n_groups = rule.n_groups,
        .reply_spans = rule.reply_spans,
        .block_tokens = options->geometry.block_tokens,
        .batch_tokens = options->batch_tokens,
        .chunk_tokens = options->chunk_tokens,
        .step_target_ns = options->step_target_ns,
        .sequences_max = options->slots_max,
        .waiting_max = options->queue_max,
        .aging_ms = options->priority_aging_ms,
        .tenant_share_percent = options->caller_share,
    };
    memcpy(schedule.span_limits, rule.span_limits, sizeof schedule.span_limits);
    return schedule_create(&schedule, error, &engine->schedule);
}

static enum status make_parts(struct ctx_engine *engine, struct error *error)
{
    const struct ctx_engine_options *options = &engine->options;
    const struct engine_inbox_bounds bounds = {.streams_max = options->streams_max,
                                               .counted_max = options->calls_max,
                                               .others_max = options->slots_max};
    TRY(published_init(&engine->published, sizeof engine->stats));
    TRY(engine_inbox_init(&engine->inbox, sizeof(struct ctx_message), &bounds));
    TRY(request_queue_init(&engine->pending, options->streams_max,
                           constraint_desk_limit_ns(options->desk)));
    TRY(request_queue_init(&engine->queue, options->queue_max, options->queue_limit_ns));
    TRY(make_manager(engine, error));
    TRY(make_events(engine));
    TRY(make_tier(engine));
    TRY(make_schedule(engine, error));
    TRY(held_transfers_init(&engine->held, options->incarnation, options->slots_max));
    TRY(make_slots(engine));
    TRY(block_owners_init(&engine->owners, options->pool));
    return ctx_batch_init(&engine->batch, &engine->options);
}

static const struct engine_core_ops CORE_OPS;
static void layer_done(void *arg);

enum status ctx_engine_create(const struct ctx_engine_options *options,
                              const struct ctx_engine_ops *ops, struct error *error,
                              struct ctx_engine **engine_out)
{
    TRY(ctx_options_check(options, error));
    struct ctx_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return STATUS_NO_MEMORY;
    assert(options->model && options->forward && options->pool && options->sender);
    engine->options = *options;
    engine->options.batch_tokens = ctx_options_step_tokens(options->batch_tokens,
                                                           options->geometry.block_tokens);
    engine->ops = *ops;
    engine->home.options = &engine->options;
    engine->home.ops = &engine->ops;
    engine->home.held = &engine->held;
    engine->backlog = (struct ctx_backlog){.queue = &engine->queue,
                                           .pending = &engine->pending,
                                           .slots = &engine->slots,
                                           .inbox = &engine->inbox,
                                           .n_layers = model_get_config(options->model)->n_layers};
    engine->core = (struct engine_core){.ops = &CORE_OPS,
                                        .engine = engine,
                                        .device = options->device,
                                        .inbox = &engine->inbox,
                                        .queue = &engine->queue,
                                        .pending = &engine->pending,
                                        .desk = options->desk};
    enum status status = make_parts(engine, error);
    if (status != STATUS_OK) {
        ctx_engine_destroy(engine);
        return status;
    }
    forward_on_layer(options->forward, layer_done, engine);
    ctx_engine_publish(engine, 0);
    *engine_out = engine;
    return STATUS_OK;
}

struct span_events *ctx_engine_spans(const struct ctx_engine *engine)
{
    return cache_events_spans(engine->home.events);
}

void ctx_engine_destroy(struct ctx_engine *engine)
{
    if (!engine)
        return;
    forward_on_layer(engine->options.forward, NULL, NULL);
    ctx_inbox_finish(&engine->inbox);
    request_queue_finish(&engine->pending);
    request_queue_finish(&engine->queue);
    schedule_destroy(engine->schedule);
    prefill_set_finish(&engine->slots, &engine->home);
    held_transfers_finish(&engine->held);
    prefix_tier_destroy(engine->home.tier);
    cache_events_destroy(engine->home.events);
    kv_manager_destroy(engine->home.manager);
    ctx_batch_finish(&engine->batch);
    block_owners_finish(&engine->owners);
    free(engine->home.digests);
    published_finish(&engine->published);
    free(engine);
}

/* ---- ending ---- */

static void finish_stream(struct ctx_engine *engine, void *stream, enum status status,
                          const char *sentence)
{
    assert(stream && sentence);
    engine->stats.requests_finished++;
    if (status == STATUS_OK)
        engine->stats.requests_ok++;
    assert(engine->stats.requests_ok <= engine->stats.requests_finished);
    engine->ops.finish(engine->ops.arg, stream, status, sentence);
    engine_inbox_forget_stream(&engine->inbox);
}

static void end_prompt(void *arg, struct engine_request *request, enum status status,
                       const char *sentence)
{
    finish_stream(arg, request->stream, status, sentence);
    prompt_destroy(prompt_of(request));
}

/* It keeps its slot, and with that its entry in the schedule, until the sender is quiet. */
static void end_prefill(struct ctx_engine *engine, struct prefill *prefill, enum status status,
                        const char *sentence)
{
    assert(prefill_is_live(prefill) && "each stream is finished once");
    void *stream = prefill->prompt->request.stream;
    prefill_release(prefill, &engine->home);
    schedule_close(engine->schedule, prefill->schedule_id);
    finish_stream(engine, stream, status, sentence);
}

static void end_running(void *arg, const void *stream, enum status status)
{
    struct ctx_engine *engine = arg;
    struct prefill *prefill = stream ? prefill_set_find_stream(&engine->slots, stream) : NULL;
    if (prefill)
        end_prefill(engine, prefill, status, "");
    for (uint32_t i = 0; !stream && i < engine->slots.n; i++)
        if (prefill_is_live(&engine->slots.prefills[i]))
            end_prefill(engine, &engine->slots.prefills[i], status, "");
}

/* ---- messages ---- */

static bool is_running(void *arg, const struct engine_request *request)
{
    const struct ctx_engine *engine = arg;
    return prefill_set_find_request(&engine->slots, request->request_id);
}

/* Within the share of its caller. */
static enum status enlist(void *arg, struct engine_request *request, uint64_t now_ns,
                          const char **sentence_out)
{
    struct ctx_engine *engine = arg;
    const struct standing *standing = &request->standing;
    const uint64_t caller = prompt_of(request)->caller;
    if (kv_manager_needs(engine->home.manager, request->n_tokens) >
        kv_manager_all(engine->home.manager)) {
        *sentence_out = "the prompt is larger than this worker's pool";
        return STATUS_NO_BLOCKS;
    }
    const struct schedule_request scheduled = {
        .tenant = standing->tenant ? standing->tenant : caller,
        .sharer = caller,
        .weight = standing->weight,
        .priority = standing->priority,
        .prompt_tokens = request->n_tokens,
        .is_whole = request->n_text > 0,
    };
    return schedule_add(engine->schedule, &scheduled, now_ns / NS_PER_MS, NULL,
                        &request->schedule_id);
}

static void delist(void *arg, struct engine_request *request)
{
    const struct ctx_engine *engine = arg;
    prefix_tier_leave(engine->home.tier, request);
    schedule_remove(engine->schedule, request->schedule_id);
}

/* It may have ended in another way since the commit was granted. */
static void on_committed(struct ctx_engine *engine, uint64_t held_number)
{
    struct prefill *prefill = prefill_set_find_held(&engine->slots, held_number);
    if (!prefill || prefill->state != PREFILL_SEALED)
        return;
    assert(prefill->n_published == prefill->crossing.end &&
           "all blocks to transfer were published");
    end_prefill(engine, prefill, STATUS_OK, "");
}

static void on_abort(struct ctx_engine *engine, const struct ctx_message *message)
{
    enum ctx_abort_found found = CTX_FOUND_NOTHING;
    struct prefill *prefill = prefill_set_find_request(&engine->slots, message->request_id);
    if (engine_core_abort(&engine->core, message->request_id, STATUS_CANCELLED, "aborted")) {
        found = CTX_FOUND_QUEUED;
        assert(!prefill && "a request id is unique while its request lives");
    } else if (prefill) {
        found = prefill->state == PREFILL_SEALED ? CTX_FOUND_SEALED : CTX_FOUND_RUNNING;
        end_prefill(engine, prefill, STATUS_CANCELLED, "aborted");
    }
    engine->ops.abort_reply(engine->ops.arg, message->handle, found);
}

static void on_flush(struct ctx_engine *engine, void *call)
{
    prefix_tier_clear(engine->home.tier);
    engine->ops.flush_reply(engine->ops.arg, call, kv_manager_flush(engine->home.manager));
}

static bool take_message(void *arg, uint64_t now_ns)
{
    struct ctx_engine *engine = arg;
    struct ctx_message message;
    if (!ctx_inbox_take(&engine->inbox, &message))
        return false;
    switch (message.kind) {
    case CTX_MESSAGE_PREFILL:
        engine_core_request(&engine->core, &message.prompt->request, now_ns);
        break;
    case CTX_MESSAGE_STREAM_ENDED:
        engine_core_stream_ended(&engine->core, message.handle);
        break;
    case CTX_MESSAGE_COMMITTED:
        on_committed(engine, message.held_number);
        break;
    case CTX_MESSAGE_ABORT:
        on_abort(engine, &message);
        break;
    case CTX_MESSAGE_FLUSH:
        on_flush(engine, message.handle);
        break;
    }
    return true;
}

/* The sender is quiet: the blocks of the lease and its slot are free. */
static void take_events(void *arg, uint64_t now_ns)
{
    struct ctx_engine *engine = arg;
    struct kv_sender_event event;
    (void)now_ns;
    while (kv_sender_next_event(engine->options.sender, &event)) {
        struct prefill *prefill = prefill_set_find_closing(&engine->slots, &event.id);
        assert(prefill && "only a closed transfer becomes quiet, and only once");
        prefill_quiet(prefill, &engine->home);
        schedule_remove(engine->schedule, prefill->schedule_id);
    }
}

/* ---- time ---- */

static void expire_leases(void *arg, uint64_t now_ns)
{
    struct ctx_engine *engine = arg;
    for (uint32_t i = 0; i < engine->slots.n; i++) {
        struct prefill *prefill = &engine->slots.prefills[i];
        if (!prefill_is_live(prefill) || prefill->lease_limit_ns > now_ns)
            continue;
        bool is_late = prefill->prompt->request.deadline_ns <= now_ns;
        engine->stats.leases_expired++;
        log_event(LOG_WARN, &(struct log_about){.request_id = prefill->prompt->request.request_id},
                  "KV reservation timed out", LOG_U64("blocks", prefill->table.n_blocks),
                  LOG_TEXT("why", is_late ? "deadline" : "no commit"));
        end_prefill(engine, prefill, is_late ? STATUS_TIMED_OUT : STATUS_SLOW_READER,
                    is_late ? "the deadline passed" : "the commit did not come in time");
    }
}

static uint64_t next_lease_limit_ns(void *arg)
{
    const struct ctx_engine *engine = arg;
    return clock_earlier(prefill_set_next_limit_ns(&engine->slots),
                         prefix_tier_next_limit_ns(engine->home.tier));
}

/* ---- computing ---- */

static void layer_done(void *arg)
{
    struct ctx_engine *engine = arg;
    ctx_backlog_layer(&engine->backlog, &engine->home, schedule_token_ns(engine->schedule),
                      engine->ops.now_ns(engine->ops.arg));
}

static bool compute(void *arg)
{
    struct ctx_engine *engine = arg;
    struct ctx_batch_result result;
    struct schedule_batch plan;
    schedule_batch(engine->schedule, &plan);
    if (plan.n == 0)
        return false;
    for (uint32_t i = 0; i < plan.n; i++) {
        struct prefill *prefill = prefill_set_find_scheduled(&engine->slots, plan.work[i].id);
        assert(prefill && "a closed prefill computes nothing");
        assert(plan.work[i].first == prefill->n_computed);
        prefill_prepare(prefill, &engine->home, plan.work[i].n_tokens);
        ctx_batch_add(&engine->batch, prefill, plan.work[i].n_tokens);
    }
    ctx_backlog_step(&engine->backlog, plan.n_tokens, engine->core.began_ns);
    const enum status status = ctx_batch_run(&engine->batch, &engine->home, &result);
    assert(status == STATUS_OK || status == STATUS_DEVICE_LOST);
    if (status != STATUS_OK)
        return true; /* the next round ends all */
    assert(result.n_tokens == plan.n_tokens);
    for (uint32_t i = 0; i < plan.n; i++) {
        struct prefill *prefill = prefill_set_find_scheduled(&engine->slots, plan.work[i].id);
        schedule_computed(engine->schedule, plan.work[i].id, plan.work[i].n_tokens, 0);
        schedule_set_cut(engine->schedule, plan.work[i].id, prefill_cut(prefill, &engine->home));
    }
    for (uint32_t i = 0; i < engine->batch.n_failed; i++) {
        const struct ctx_failed *failed = &engine->batch.failed[i];
        engine->stats.rows_not_finite += failed->status == STATUS_LOGITS_NOT_FINITE;
        end_prefill(engine, failed->prefill, failed->status, failed->why.text);
    }
    engine->stats.prompt_tokens_computed += result.n_tokens;
    engine->stats.blocks_published += result.n_blocks_published;
    engine->stats.steps++;
    return true;
}

static void took(void *arg, uint64_t step_ns)
{
    schedule_took(((const struct ctx_engine *)arg)->schedule, step_ns);
}

/* ---- a step ---- */

static const struct engine_core_ops CORE_OPS = {
    .take_events = take_events,
    .take_message = take_message,
    .expire_running = expire_leases,
    .next_limit_ns = next_lease_limit_ns,
    .end_running = end_running,
    .is_running = is_running,
    .enlist = enlist,
    .delist = delist,
    .end = end_prompt,
    .admit = ctx_engine_admit,
    .compute = compute,
    .took = took,
    .publish = ctx_engine_publish,
};

uint64_t ctx_engine_step(struct ctx_engine *engine, uint64_t now_ns)
{
    return engine_core_step(&engine->core, now_ns);
}
