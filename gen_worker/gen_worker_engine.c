#include "gen_worker/gen_worker_engine.h"

#include "base/random.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define EVENTS_EACH 32u /* events of one prefill that may wait for the engine */

/* ---- the engine's ops ---- */

static void draw_transfer_id(void *arg, struct transfer_id *id_out)
{
    (void)arg;
    /* The kernel gave random bits at start (the incarnation). Without them no transfer is safe. */
    if (random_secret(id_out->bytes, sizeof id_out->bytes, NULL) != STATUS_OK)
        abort();
}

static enum status tokens(void *arg, void *stream, const struct gen_tokens *generated)
{
    struct gen_worker *gen = arg;
    return gen_service_tokens(&gen->service, stream, generated);
}

static enum status scores(void *arg, void *stream, const struct prompt_scores *told)
{
    struct gen_worker *gen = arg;
    return gen_service_scores(&gen->service, stream, told);
}

static void progress(void *arg, void *stream, uint32_t n_done, uint32_t n_prompt)
{
    (void)arg;
    gen_service_progress(stream, n_done, n_prompt);
}

static void finish(void *arg, void *stream, const struct gen_finish *end)
{
    struct gen_worker *gen = arg;
    gen_service_finish(&gen->service, stream, end);
}

static void start_prefill(void *arg, uint64_t prefill, const char *context_worker,
                          const struct gen_prefill_request *request)
{
    struct gen_worker *gen = arg;
    context_client_start_prefill(gen->contexts, prefill, context_worker, request);
}

static void cancel_prefill(void *arg, uint64_t prefill)
{
    struct gen_worker *gen = arg;
    context_client_cancel_prefill(gen->contexts, prefill);
}

static void commit(void *arg, uint64_t prefill, const char *context_worker,
                   const struct transfer_id *id, uint64_t kv_bytes, uint64_t incarnation)
{
    struct gen_worker *gen = arg;
    context_client_commit(gen->contexts, prefill, context_worker, id, kv_bytes, incarnation);
}

static void flush_reply(void *arg, void *call, uint32_t blocks_evicted)
{
    (void)arg;
    admin_service_flushed(call, blocks_evicted);
    rpc_call_release(call);
}

/* ---- making ---- */

/* Of a transfer: those of the smallest blocks that may come. */
static uint32_t blocks_max(const struct gen_worker *gen)
{
    struct geometry geometry = gen->worker.identity.geometry;
    if (gen->config.kv_convert && !cache_groups_has_window(&geometry.groups) &&
        !geometry.has_encoder)
        geometry.block_tokens = GEOMETRY_BLOCK_TOKENS_MIN;
    return geometry_blocks(&geometry, gen->worker.context_tokens);
}

static enum status create_receiver(struct gen_worker *gen)
{
    struct worker *worker = &gen->worker;
    struct kv_receiver_options options = {
        .transfers_max = gen->config.prefills_max,
        .blocks_max = blocks_max(gen),
        .stage_bytes = worker->stage_bytes,
        .scrubs = gen->config.kv_scrub,
        .peers_max = gen->config.peers_max,
        .window_max = gen->config.pieces_max,
        .device = worker->device,
        .pool_base = block_pool_base(worker->pool),
        .block_bytes = block_pool_block_bytes(worker->pool),
        .n_blocks = worker->n_blocks,
        .quiet_limit_ns = gen->config.quiet_limit_ms * NS_PER_MS,
    };
    return kv_receiver_create(&options, worker->transport, &gen->receiver);
}

static void engine_options(const struct gen_worker *gen, struct gen_engine_options *options_out)
{
    const struct gen_config *config = &gen->config;
    const struct worker *worker = &gen->worker;
    *options_out = (struct gen_engine_options){
        .name = gen->process.name,
        .incarnation = gen->process.incarnation,
        .prefix_key = worker->prefix_key,
        .model = worker->model,
        .forward = worker->forward,
        .device = worker->device,
        .pool = worker->pool,
        .tier = worker->tier.tier,
        .restore_limit_ns = config->kv_restore_ms * NS_PER_MS,
        .desk = worker->desk,
        .receiver = gen->receiver,
        .geometry = worker->identity.geometry,
        .vocabulary = worker->config->vocabulary,
        .context_tokens = worker->context_tokens,
        .line = worker->line,
        .chunk_tokens = worker_step_tokens(worker, config->prefill_chunk_tokens),
        .step_target_ns = worker->line.text_max > 0 ? 0 : config->prefill_step_ms * NS_PER_MS,
        .batch_tokens = worker_step_tokens(worker, config->prefill_batch_tokens),
        .sequences_max = config->sequences_max,
        .queue_max = config->queue_max,
        .capacity_policy = config->capacity_policy,
        .headroom_blocks = config->capacity_headroom_blocks,
        .drafts = config->speculate != GEN_SPECULATE_OFF,
        .drafter = worker->drafter,
        .priority_aging_ms = config->priority_aging_ms,
        .streams_max = config->queue_max + config->sequences_max,
        .prefills_max = config->prefills_max,
        .events_max = config->prefills_max * EVENTS_EACH,
        .local_prefill = config->local_prefill,
        .local_prefill_max_tokens = config->local_prefill_max_tokens,
        .kv_manager = config->kv_manager,
        .prefix_cache = config->prefix_cache,
        .snapshot_tokens = config->snapshot_tokens,
        .kv_events_max = config->kv_events_max,
        .kv_scrub = config->kv_scrub,
        .queue_limit_ns = config->queue_limit_ms * NS_PER_MS,
        .context_limit_ns = config->context_limit_ms * NS_PER_MS,
        .context_limit_tokens = config->context_limit_tokens,
        .context_limit_max_ns = config->context_limit_max_ms * NS_PER_MS,
        .transfer_limit_ns = config->transfer_limit_ms * NS_PER_MS,
        .transfer_limit_mib_ns = config->transfer_limit_mib_ms * NS_PER_MS,
        .commit_limit_ns = config->commit_limit_ms * NS_PER_MS,
    };
    _Static_assert(GEN_EOS_IDS_MAX >= EOS_IDS_MAX, "every id of a model has room");
    options_out->n_eos_ids = worker->config->n_eos_ids;
    memcpy(options_out->eos_ids, worker->config->eos_ids,
           worker->config->n_eos_ids * sizeof *options_out->eos_ids);
}

static enum status create_contexts(struct gen_worker *gen, struct error *error)
{
    struct rpc_client_options rpc;
    rpc_client_options_init(&rpc);
    rpc.message_bytes_max = (uint32_t)gen->config.message_bytes_max;
    rpc.header_bytes_max = (uint32_t)gen->config.header_bytes_max;
    rpc.keepalive_time_ms = (uint32_t)gen->config.keepalive_ms;
    rpc.keepalive_timeout_ms = (uint32_t)gen->config.keepalive_timeout_ms;
    rpc.key = gen->process.auth.key;
    rpc.tls = gen->process.tls.client;
    TRY(process_add_runtime(&gen->process, "rpc-client", error, &gen->client_runtime));
    TRY(rpc_client_create(gen->client_runtime, &rpc, &gen->rpc));
    struct context_client_options options = {
        .rpc = gen->rpc,
        .key = gen->process.auth.key,
        .identity = &gen->worker.identity,
        .adapters = gen->worker.adapters,
        .allowed = {gen->config.allow_numerics, gen->config.kv_convert},
        .peers_max = gen->config.peers_max,
        .prefills_max = gen->config.prefills_max,
        .describe_limit_ns = gen->config.describe_limit_ms * NS_PER_MS,
        .commit_limit_ns = gen->config.commit_limit_ms * NS_PER_MS,
        .wants_digests = gen->config.kv_digest,
    };
    return context_client_create(&options, &gen->contexts);
}

enum status gen_worker_create_engine(struct gen_worker *gen, struct error *error)
{
    assert(gen->worker.pool && !gen->engine && "worker_load comes first");
    TRY(create_receiver(gen));
    TRY(create_contexts(gen, error));
    struct gen_engine_options options;
    engine_options(gen, &options);
    struct gen_engine_ops ops = {
        .arg = gen,
        .now_ns = engine_thread_now_ns,
        .draw_transfer_id = draw_transfer_id,
        .tokens = tokens,
        .scores = scores,
        .progress = progress,
        .finish = finish,
        .start_prefill = start_prefill,
        .cancel_prefill = cancel_prefill,
        .commit = commit,
        .flush_reply = flush_reply,
    };
    TRY(gen_engine_create(&options, &ops, error, &gen->engine));
    /* These were made before the engine, which they need. */
    kv_receiver_on_event(gen->receiver, gen_engine_wake, gen->engine);
    worker_tier_wake(&gen->worker, gen_engine_wake, gen->engine);
    constraint_desk_on_done(gen->worker.desk, gen_engine_wake, gen->engine);
    context_client_set_engine(gen->contexts, gen->engine);
    gen->service.engine = gen->engine;
    gen->service.vocabulary = gen->worker.config->vocabulary;
    gen->service.adapters = gen->worker.adapters;
    const struct transport_ops *transport = gen->worker.transport->ops;
    bool is_staged = !device_reads_host(gen->worker.device) && !transport->is_direct;
    snprintf(gen->way, sizeof gen->way, "%s%s", transport->name, is_staged ? ", staged" : "");
    gen->service.transport = gen->way;
    return STATUS_OK;
}
