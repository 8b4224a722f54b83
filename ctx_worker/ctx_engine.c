#include "ctx_worker/ctx_engine.h"

#include "base/log.h"
#include "ctx_worker/ctx_batch.h"
#include "ctx_worker/ctx_inbox.h"
#include "ctx_worker/fair_share.h"
#include "engine/block_owners.h"
#include "engine/published.h"
#include "engine/request_queue.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct ctx_engine {
    struct ctx_engine_options options;
    struct ctx_engine_ops ops;
    struct prefill_home home;
    struct engine_inbox inbox;
    struct request_queue queue;
    struct prefill *slots; /* [slots_max] */
    uint64_t last_caller;  /* whose prompt was the last to start */
    struct ctx_batch batch;
    struct block_owners owners;
    bool is_draining;
    struct ctx_engine_stats stats; /* the engine thread's */

    struct published published; /* a struct ctx_engine_stats */
};

/* ---- making ---- */

static enum status check_options(const struct ctx_engine_options *options, struct error *error)
{
    TRY(geometry_check(&options->geometry, error));
    uint32_t block_tokens = options->geometry.block_tokens;
    if (options->chunk_tokens == 0 || options->chunk_tokens % block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "chunk_tokens is %u, wanted a multiple of block_tokens (%u)",
                         options->chunk_tokens, block_tokens);
    if (options->batch_tokens < options->chunk_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "batch_tokens is %u, under chunk_tokens %u", options->batch_tokens,
                         options->chunk_tokens);
    if (options->slots_max == 0 || options->queue_max == 0 || options->calls_max == 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "slots_max, queue_max and calls_max "
                         "cannot be 0");
    if (options->caller_share == 0 || options->caller_share > 100)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "caller_share is %u, wanted 1 to 100 percent", options->caller_share);
    if (options->streams_max < options->slots_max + options->queue_max)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "streams_max is %u, under slots_max + queue_max = %u",
                         options->streams_max, options->slots_max + options->queue_max);
    if (geometry_block_bytes(&options->geometry) != block_pool_block_bytes(options->pool))
        return error_set(error, STATUS_INVALID_ARGUMENT, "the pool's blocks are of another size");
    return STATUS_OK;
}

static enum status make_slots(struct ctx_engine *engine)
{
    const struct ctx_engine_options *options = &engine->options;
    uint32_t blocks_max = geometry_blocks(&options->geometry, options->context_tokens);
    if (options->prefix_cache)
        TRY(prefix_tree_create(options->pool, &engine->home.tree));
    engine->home.digests = calloc(blocks_max, sizeof *engine->home.digests);
    engine->slots = calloc(options->slots_max, sizeof *engine->slots);
    if (!engine->home.digests || !engine->slots)
        return STATUS_NO_MEMORY;
    for (uint32_t i = 0; i < options->slots_max; i++)
        TRY(prefill_init(&engine->slots[i], &engine->home));
    return STATUS_OK;
}

static void publish_stats(struct ctx_engine *engine);

enum status ctx_engine_create(const struct ctx_engine_options *options,
                              const struct ctx_engine_ops *ops, struct error *error,
                              struct ctx_engine **engine_out)
{
    TRY(check_options(options, error));
    struct ctx_engine *engine = calloc(1, sizeof *engine);
    if (!engine)
        return STATUS_NO_MEMORY;
    engine->options = *options;
    engine->ops = *ops;
    engine->home.options = &engine->options;
    engine->home.ops = &engine->ops;

    enum status status = published_init(&engine->published, sizeof engine->stats);
    if (status != STATUS_OK)
        goto fail;
    status = engine_inbox_init(&engine->inbox, sizeof(struct ctx_message),
                               &(struct engine_inbox_bounds){.streams_max = options->streams_max,
                                                             .counted_max = options->calls_max});
    if (status != STATUS_OK)
        goto fail;
    status = request_queue_init(&engine->queue, options->queue_max, options->queue_limit_ns);
    if (status != STATUS_OK)
        goto fail;
    status = make_slots(engine);
    if (status != STATUS_OK)
        goto fail;
    status = ctx_batch_init(&engine->batch, &engine->options, error);
    if (status != STATUS_OK)
        goto fail;
    status = block_owners_init(&engine->owners, options->pool);
    if (status != STATUS_OK)
        goto fail;
    publish_stats(engine);
    *engine_out = engine;
    return STATUS_OK;

fail:
    ctx_engine_destroy(engine);
    return status;
}

void ctx_engine_destroy(struct ctx_engine *engine)
{
    if (!engine)
        return;
    ctx_inbox_finish(&engine->inbox);
    request_queue_finish(&engine->queue);
    for (uint32_t i = 0; engine->slots && i < engine->options.slots_max; i++)
        prefill_finish(&engine->slots[i], &engine->home);
    prefix_tree_destroy(engine->home.tree);
    ctx_batch_finish(&engine->batch);
    block_owners_finish(&engine->owners);
    free(engine->home.digests);
    free(engine->slots);
    published_finish(&engine->published);
    free(engine);
}

/* ---- what other threads say ---- */

enum status ctx_engine_prefill(struct ctx_engine *engine, void *stream,
                               const struct ctx_prefill_request *request, struct error *error)
{
    struct prompt *prompt;
    TRY(prompt_create(&engine->options, stream, request, error, &prompt));
    enum status status = ctx_inbox_take_prompt(&engine->inbox, prompt);
    if (status != STATUS_OK) {
        prompt_destroy(prompt);
        return error_set(error, status, "%u prefills are known to this worker",
                         engine->options.streams_max);
    }
    return STATUS_OK;
}

void ctx_engine_stream_ended(struct ctx_engine *engine, void *stream)
{
    engine_inbox_post(&engine->inbox,
                      &(struct ctx_message){.kind = CTX_MESSAGE_STREAM_ENDED, .handle = stream});
}

enum status ctx_engine_commit(struct ctx_engine *engine, void *call, const struct transfer_id *id,
                              uint64_t kv_bytes, uint64_t callee_incarnation)
{
    return engine_inbox_post_counted(
        &engine->inbox,
        &(struct ctx_message){
            .kind = CTX_MESSAGE_COMMIT,
            .handle = call,
            .commit = {.id = *id, .kv_bytes = kv_bytes, .callee_incarnation = callee_incarnation}});
}

enum status ctx_engine_abort(struct ctx_engine *engine, void *call, const char *request_id)
{
    struct ctx_message message = {.kind = CTX_MESSAGE_ABORT, .handle = call};
    /* A longer id than any request can have finds none. */
    strncpy(message.request_id, request_id, ENGINE_REQUEST_ID_MAX);
    if (strnlen(request_id, ENGINE_REQUEST_ID_MAX + 1) > ENGINE_REQUEST_ID_MAX)
        message.request_id[0] = '\0';
    return engine_inbox_post_counted(&engine->inbox, &message);
}

enum status ctx_engine_flush(struct ctx_engine *engine, void *call)
{
    return engine_inbox_post_counted(
        &engine->inbox, &(struct ctx_message){.kind = CTX_MESSAGE_FLUSH, .handle = call});
}

void ctx_engine_drain(struct ctx_engine *engine)
{
    engine_inbox_drain(&engine->inbox);
}

void ctx_engine_stop(struct ctx_engine *engine)
{
    engine_inbox_stop(&engine->inbox);
}

void ctx_engine_wait(struct ctx_engine *engine, uint64_t until_ns)
{
    engine_inbox_wait(&engine->inbox, until_ns);
}

void ctx_engine_wake(void *engine)
{
    engine_inbox_wake(&((struct ctx_engine *)engine)->inbox);
}

/* ---- ending ---- */

static void finish_stream(struct ctx_engine *engine, void *stream, enum status status,
                          const char *sentence)
{
    engine->stats.requests_finished++;
    if (status == STATUS_OK)
        engine->stats.requests_ok++;
    engine->ops.finish(engine->ops.arg, stream, status, sentence);
    engine_inbox_forget_stream(&engine->inbox);
}

static void refuse(struct ctx_engine *engine, struct prompt *prompt, enum status status,
                   const char *sentence)
{
    finish_stream(engine, prompt->request.stream, status, sentence);
    prompt_destroy(prompt);
}

static void end_prefill(struct ctx_engine *engine, struct prefill *prefill, enum status status,
                        const char *sentence)
{
    void *stream = prefill->prompt->request.stream;
    prefill_release(prefill, &engine->home);
    finish_stream(engine, stream, status, sentence);
}

static bool is_live(const struct prefill *prefill)
{
    return prefill->state == PREFILL_COMPUTING || prefill->state == PREFILL_SEALED;
}

/* ---- messages ---- */

static struct prefill *find_request(struct ctx_engine *engine, const char *request_id)
{
    for (uint32_t i = 0; i < engine->options.slots_max; i++)
        if (is_live(&engine->slots[i]) &&
            strcmp(engine->slots[i].prompt->request.request_id, request_id) == 0)
            return &engine->slots[i];
    return NULL;
}

static void on_prefill(struct ctx_engine *engine, struct prompt *prompt, uint64_t now_ns)
{
    const struct ctx_engine_options *options = &engine->options;
    uint32_t n_blocks = geometry_blocks(&options->geometry, prompt->request.n_tokens);
    prompt->request.arrived_ns = now_ns;
    if (engine->is_draining)
        refuse(engine, prompt, STATUS_DRAINING, "");
    else if (prompt->request.deadline_ns <= now_ns)
        refuse(engine, prompt, STATUS_TIMED_OUT, "the deadline had passed on arrival");
    else if (find_request(engine, prompt->request.request_id) ||
             request_queue_has(&engine->queue, prompt->request.request_id))
        refuse(engine, prompt, STATUS_DUPLICATE_REQUEST, "");
    else if (n_blocks > block_pool_size(options->pool))
        refuse(engine, prompt, STATUS_NO_BLOCKS, "the prompt is larger than this worker's pool");
    else if (!fair_share_may_wait(options, &engine->queue, prompt->caller))
        refuse(engine, prompt, STATUS_QUEUE_FULL, "this caller has its share of the queue");
    else if (!request_queue_push(&engine->queue, &prompt->request))
        refuse(engine, prompt, STATUS_QUEUE_FULL, "");
}

static void on_stream_ended(struct ctx_engine *engine, const void *stream)
{
    struct engine_request *queued = request_queue_remove_stream(&engine->queue, stream);
    if (queued) {
        refuse(engine, prompt_of(queued), STATUS_CANCELLED, "");
        return;
    }
    for (uint32_t i = 0; i < engine->options.slots_max; i++) {
        struct prefill *prefill = &engine->slots[i];
        if (is_live(prefill) && prefill->prompt->request.stream == stream) {
            end_prefill(engine, prefill, STATUS_CANCELLED, "");
            return;
        }
    }
}

/* Why the commit cannot be granted; NULL: it can. */
static const char *commit_objection(const struct ctx_engine *engine, const struct prefill *prefill,
                                    uint64_t kv_bytes)
{
    if (!prefill)
        return "no stream holds that transfer";
    if (prefill->state != PREFILL_SEALED)
        return "the transfer is not sealed";
    if (kv_bytes != prefill_kv_bytes(prefill, &engine->home))
        return "that is not the number of bytes that cross";
    return NULL;
}

static void on_commit(struct ctx_engine *engine, const struct ctx_message *message)
{
    const struct ctx_engine_ops *ops = &engine->ops;
    if (message->commit.callee_incarnation != engine->options.incarnation) {
        engine->stats.commits_refused++;
        ops->commit_reply(ops->arg, message->handle, STATUS_STALE_PEER, "");
        return;
    }
    struct prefill *prefill = NULL;
    for (uint32_t i = 0; i < engine->options.slots_max && !prefill; i++)
        if (is_live(&engine->slots[i]) &&
            memcmp(&engine->slots[i].id, &message->commit.id, sizeof message->commit.id) == 0)
            prefill = &engine->slots[i];

    const char *objection = commit_objection(engine, prefill, message->commit.kv_bytes);
    if (objection) {
        engine->stats.commits_refused++;
        log_event(LOG_WARN, NULL, "commit refused", LOG_TEXT("why", objection),
                  LOG_U64("kv_bytes", message->commit.kv_bytes));
        ops->commit_reply(ops->arg, message->handle, STATUS_NOT_HELD, objection);
        return;
    }
    engine->stats.commits_ok++;
    ops->commit_reply(ops->arg, message->handle, STATUS_OK, "");
    end_prefill(engine, prefill, STATUS_OK, "");
}

static void on_abort(struct ctx_engine *engine, const struct ctx_message *message)
{
    enum ctx_abort_found found = CTX_FOUND_NOTHING;
    struct engine_request *queued = request_queue_remove_request(&engine->queue,
                                                                 message->request_id);
    struct prefill *prefill = find_request(engine, message->request_id);
    if (queued) {
        found = CTX_FOUND_QUEUED;
        refuse(engine, prompt_of(queued), STATUS_CANCELLED, "aborted");
    } else if (prefill) {
        found = prefill->state == PREFILL_SEALED ? CTX_FOUND_SEALED : CTX_FOUND_RUNNING;
        end_prefill(engine, prefill, STATUS_CANCELLED, "aborted");
    }
    engine->ops.abort_reply(engine->ops.arg, message->handle, found);
}

static void on_flush(struct ctx_engine *engine, void *call)
{
    uint32_t n_evicted = 0;
    if (engine->home.tree)
        n_evicted = prefix_tree_evict(engine->home.tree, block_pool_size(engine->options.pool));
    engine->ops.flush_reply(engine->ops.arg, call, n_evicted);
}

static void take_messages(struct ctx_engine *engine, uint64_t now_ns)
{
    struct ctx_message message;
    while (ctx_inbox_take(&engine->inbox, &message)) {
        switch (message.kind) {
        case CTX_MESSAGE_PREFILL:
            on_prefill(engine, message.prompt, now_ns);
            break;
        case CTX_MESSAGE_STREAM_ENDED:
            on_stream_ended(engine, message.handle);
            break;
        case CTX_MESSAGE_COMMIT:
            on_commit(engine, &message);
            break;
        case CTX_MESSAGE_ABORT:
            on_abort(engine, &message);
            break;
        case CTX_MESSAGE_FLUSH:
            on_flush(engine, message.handle);
            break;
        }
    }
}

static void end_all(struct ctx_engine *engine, enum status status)
{
    struct engine_request *queued;
    while ((queued = request_queue_pop(&engine->queue)))
        refuse(engine, prompt_of(queued), status, "");
    for (uint32_t i = 0; i < engine->options.slots_max; i++)
        if (is_live(&engine->slots[i]))
            end_prefill(engine, &engine->slots[i], status, "");
}

static void take_flags(struct ctx_engine *engine)
{
    if (engine_inbox_wants_drain(&engine->inbox))
        engine->is_draining = true;
    if (device_is_lost(engine->options.device)) /* again in each step: requests still come */
        end_all(engine, STATUS_DEVICE_LOST);
    else if (engine_inbox_wants_stop(&engine->inbox))
        end_all(engine, STATUS_DRAINING);
}

static void take_sender_events(struct ctx_engine *engine)
{
    struct kv_sender_event event;
    while (kv_sender_next_event(engine->options.sender, &event)) {
        bool is_known = false;
        for (uint32_t i = 0; i < engine->options.slots_max && !is_known; i++) {
            struct prefill *prefill = &engine->slots[i];
            if (prefill->state == PREFILL_CLOSING &&
                memcmp(&prefill->id, &event.id, sizeof event.id) == 0) {
                prefill_quiet(prefill, &engine->home);
                is_known = true;
            }
        }
        assert(is_known);
    }
}

/* ---- time ---- */

static void expire_leases(struct ctx_engine *engine, uint64_t now_ns)
{
    for (uint32_t i = 0; i < engine->options.slots_max; i++) {
        struct prefill *prefill = &engine->slots[i];
        if (!is_live(prefill) || prefill->lease_limit_ns > now_ns)
            continue;
        bool is_late = prefill->prompt->request.deadline_ns <= now_ns;
        engine->stats.leases_expired++;
        log_event(LOG_WARN, &(struct log_about){.request_id = prefill->prompt->request.request_id},
                  "lease expired", LOG_U64("blocks", prefill->table.n_blocks),
                  LOG_TEXT("why", is_late ? "deadline" : "no commit"));
        end_prefill(engine, prefill, is_late ? STATUS_TIMED_OUT : STATUS_SLOW_READER,
                    is_late ? "the deadline passed" : "the commit did not come in time");
    }
}

/* True: the queue has another head, which may start. */
static bool expire_queue(struct ctx_engine *engine, uint64_t now_ns)
{
    struct engine_request *request;
    bool has_expired = false;
    while ((request = request_queue_remove_expired(&engine->queue, now_ns))) {
        bool is_late = request->deadline_ns <= now_ns;
        refuse(engine, prompt_of(request), is_late ? STATUS_TIMED_OUT : STATUS_NO_BLOCKS,
               is_late ? "the deadline passed in the queue" : "no blocks within the queue limit");
        has_expired = true;
    }
    return has_expired;
}

static uint64_t next_timer_ns(const struct ctx_engine *engine)
{
    uint64_t next_ns = request_queue_next_expiry_ns(&engine->queue);
    for (uint32_t i = 0; i < engine->options.slots_max; i++)
        if (is_live(&engine->slots[i]) && engine->slots[i].lease_limit_ns < next_ns)
            next_ns = engine->slots[i].lease_limit_ns;
    return next_ns;
}

/* ---- computing ---- */

static struct prefill *free_slot(struct ctx_engine *engine)
{
    for (uint32_t i = 0; i < engine->options.slots_max; i++)
        if (engine->slots[i].state == PREFILL_FREE)
            return &engine->slots[i];
    return NULL;
}

/* When the one that is next cannot start, nobody does. */
static void admit(struct ctx_engine *engine, uint64_t now_ns)
{
    struct prefill *slot;
    while (request_queue_count(&engine->queue) > 0 && (slot = free_slot(engine))) {
        uint32_t next = fair_share_next(&engine->options, &engine->queue, engine->slots,
                                        engine->last_caller);
        if (next == NO_PROMPT)
            return;
        struct prompt *prompt = prompt_of(request_queue_at(&engine->queue, next));
        enum status status = prompt->request.deadline_ns <= now_ns
                                 ? STATUS_TIMED_OUT
                                 : prefill_take_prompt(slot, &engine->home, prompt, now_ns);
        if (status == STATUS_NO_BLOCKS)
            return;
        request_queue_remove_at(&engine->queue, next);
        engine->last_caller = prompt->caller;
        if (status != STATUS_OK) {
            refuse(engine, prompt, status, "");
            continue;
        }
        engine->stats.prompt_tokens_cached += slot->n_cached;
        engine->stats.prefix_query_tokens += prompt->request.n_tokens;
    }
}

static bool compute(struct ctx_engine *engine)
{
    struct ctx_batch_result result;
    if (ctx_batch_run(&engine->batch, &engine->home, engine->slots, &result) != STATUS_OK)
        return true; /* the next step ends all: the device is lost */
    if (result.n_tokens == 0)
        return false;
    engine->stats.prompt_tokens_computed += result.n_tokens;
    engine->stats.blocks_published += result.n_blocks_published;
    engine->stats.steps++;
    return true;
}

static void count_prompts(struct ctx_engine *engine)
{
    struct ctx_engine_stats *stats = &engine->stats;
    stats->queued = request_queue_count(&engine->queue);
    stats->computing = stats->sealed = stats->closing = 0;
    stats->waiting_tokens = request_queue_tokens(&engine->queue);
    for (uint32_t i = 0; i < engine->options.slots_max; i++) {
        const struct prefill *slot = &engine->slots[i];
        stats->computing += slot->state == PREFILL_COMPUTING;
        stats->sealed += slot->state == PREFILL_SEALED;
        stats->closing += slot->state == PREFILL_CLOSING;
        stats->waiting_tokens += slot->state == PREFILL_COMPUTING ? prefill_n_left(slot) : 0;
    }
}

static void look_for_lost_blocks(struct ctx_engine *engine, uint64_t now_ns)
{
    struct ctx_engine_stats *stats = &engine->stats;
    bool is_idle = stats->computing + stats->sealed + stats->closing == 0;
    if (!block_owners_begin(&engine->owners, is_idle, now_ns))
        return;
    for (uint32_t i = 0; i < engine->options.slots_max; i++) {
        const struct prefill *slot = &engine->slots[i];
        block_owners_add(&engine->owners, slot->table.blocks, slot->table.n_blocks);
        block_owners_add(&engine->owners, slot->fenced, slot->n_fenced);
    }
    stats->blocks_unowned = block_owners_count(&engine->owners);
}

static void publish_stats(struct ctx_engine *engine)
{
    struct ctx_engine_stats *stats = &engine->stats;
    const struct block_pool *pool = engine->options.pool;
    count_prompts(engine);
    look_for_lost_blocks(engine, stats->last_progress_ns);
    for (enum block_state state = 0; state < BLOCK_STATES; state++)
        stats->blocks[state] = block_pool_count(pool, state);
    stats->n_blocks = block_pool_size(pool);
    stats->is_draining = engine->is_draining;
    published_put(&engine->published, stats, sizeof *stats);
}

void ctx_engine_read_stats(struct ctx_engine *engine, struct ctx_engine_stats *stats_out)
{
    published_get(&engine->published, stats_out, sizeof *stats_out);
}

uint64_t ctx_engine_step(struct ctx_engine *engine, uint64_t now_ns)
{
    take_sender_events(engine);
    take_messages(engine, now_ns);
    take_flags(engine);
    expire_leases(engine, now_ns);
    admit(engine, now_ns);
    bool has_expired = expire_queue(engine, now_ns);
    bool has_computed = compute(engine);
    engine->stats.last_progress_ns = now_ns;
    publish_stats(engine);
    bool has_more = has_expired || has_computed || !engine_inbox_is_empty(&engine->inbox);
    return has_more ? now_ns : next_timer_ns(engine);
}
