#include "ctx_worker/ctx_worker.h"

#include "base/clock.h"
#include "ctx_worker/ctx_config.h"
#include "ctx_worker/ctx_service.h"
#include "engine/engine_thread.h"
#include "kvtransfer/transfer_thread.h"
#include "worker_common/adapter_loader.h"
#include "worker_common/kv_event_service.h"
#include "worker_common/watchdog.h"
#include "worker_common/worker.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_sinks.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdlib.h>

#define QUIET_LIMIT_NS (5 * NS_PER_S) /* after the drain, for reads under way */
#define LAST_LINE_MS   1000           /* for the log, before _Exit */
#define CALLS_MAX      4096u          /* unary calls that wait for the engine */

struct ctx_worker {
    struct ctx_config config;
    const char *folder;
    struct process process;
    struct worker worker;
    struct kv_sender *sender;
    struct ctx_engine *engine;
    struct transfer_thread *transfer_thread;
    struct engine_thread *engine_thread;
    struct ctx_service service;
    struct admin_service admin;
    struct adapter_loader *loader;
    struct kv_event_service events;
    struct port_figures data_port; /* main's */
    bool is_quiet;                 /* at the end: no block of the pool is in use */
};

static void fill_state(void *arg, struct process_state *state_out)
{
    struct ctx_worker *ctx = arg;
    if (process_refuses(&ctx->process) == STATUS_LOADING)
        return;
    struct ctx_engine_stats stats;
    assert(ctx->engine && ctx->sender && "made before process_serving");
    ctx_engine_read_stats(ctx->engine, &stats);
    worker_fill_state(&ctx->worker, stats.blocks, state_out);
    state_out->is_ready = atomic_load(&ctx->process.is_live);
    state_out->requests_running = stats.computing + stats.sealed;
    state_out->requests_waiting = stats.queued;
    state_out->prefills = (struct process_prefills){
        .n = stats.computing,
        .tokens = stats.computing_tokens,
        .done_tokens = stats.computed_tokens,
    };
    state_out->tells_room = true;
    state_out->requests_room = stats.room;
    state_out->kv_bytes_sent = kv_sender_bytes_sent(ctx->sender);
}

static void load_adapter(void *arg, struct rpc_call *call, const char *name, const char *folder)
{
    adapter_loader_load(((struct ctx_worker *)arg)->loader, call, name, folder);
}

static void unload_adapter(void *arg, struct rpc_call *call, const char *name)
{
    adapter_loader_unload(((struct ctx_worker *)arg)->loader, call, name);
}

static void flush(void *arg, struct rpc_call *call)
{
    struct ctx_worker *ctx = arg;
    enum status status = ctx_engine_flush(ctx->engine, rpc_call_share(call));
    if (status == STATUS_OK)
        return;
    rpc_call_release(call);
    rpc_call_fail_status(call, status, "%s", status_text(status));
}

/* ---- the engine thread's loop ---- */

static uint64_t step(void *engine, uint64_t now_ns)
{
    return ctx_engine_step(engine, now_ns);
}

static void wait(void *engine, uint64_t until_ns)
{
    ctx_engine_wait(engine, until_ns);
}

static bool is_quiet(void *engine)
{
    struct ctx_engine_stats stats;
    ctx_engine_read_stats(engine, &stats);
    return stats.queued + stats.computing + stats.sealed + stats.closing == 0;
}

static void after_step(void *arg, uint64_t step_ns)
{
    struct ctx_worker *ctx = arg;
    struct ctx_engine_stats stats;
    ctx_engine_read_stats(ctx->engine, &stats);
    ctx_metrics_update(&ctx->service.metrics, &stats, ctx->sender, step_ns);
    worker_tier_tell(&ctx->worker, &ctx->service.metrics.common, &stats.tier);
    kv_event_service_tell(&ctx->events);
}

/* ---- start ---- */

static enum status create_sender(struct ctx_worker *ctx)
{
    const struct worker *worker = &ctx->worker;
    assert(worker->pool && worker->transport && "loaded");
    struct kv_sender_options sender = {
        .transfers_max = ctx->config.prompts_max,
        .blocks_max = worker->context_blocks,
        .device = worker->device,
        .pool_base = block_pool_base(worker->pool),
        .block_bytes = block_pool_block_bytes(worker->pool),
        .n_blocks = worker->n_blocks,
        .readers_max = ctx->config.peers_max,
    };
    return kv_sender_create(&sender, worker->transport, &ctx->sender);
}

static enum status create_engine(struct ctx_worker *ctx, struct error *error)
{
    struct worker *worker = &ctx->worker;
    TRY(create_sender(ctx));
    struct ctx_engine_options options = {
        .name = ctx->process.name,
        .incarnation = ctx->process.incarnation,
        .prefix_key = worker->prefix_key,
        .model = worker->model,
        .forward = worker->forward,
        .device = worker->device,
        .pool = worker->pool,
        .tier = worker->tier.tier,
        .restore_limit_ns = ctx->config.kv_restore_ms * NS_PER_MS,
        .desk = worker->desk,
        .sender = ctx->sender,
        .geometry = worker->identity.geometry,
        .vocabulary = worker->config->vocabulary,
        .n_eos_ids = worker->config->n_eos_ids,
        .eos_ids = worker->config->eos_ids,
        .context_tokens = worker->context_tokens,
        .line = worker->line,
        .chunk_tokens = worker_step_tokens(worker, ctx->config.prefill_chunk_tokens),
        .step_target_ns = worker->line.text_max > 0 ? 0 : ctx->config.prefill_step_ms * NS_PER_MS,
        .batch_tokens = worker_step_tokens(worker, ctx->config.prefill_batch_tokens),
        .slots_max = ctx->config.prompts_max,
        .queue_max = ctx->config.queue_max,
        .streams_max = ctx->config.queue_max + ctx->config.prompts_max,
        .calls_max = CALLS_MAX,
        .caller_share = ctx->config.caller_share,
        .priority_aging_ms = ctx->config.priority_aging_ms,
        .queue_limit_ns = ctx->config.queue_limit_ms * NS_PER_MS,
        .lease_limit_ns = ctx->config.lease_limit_ms * NS_PER_MS,
        .lease_limit_mib_ns = ctx->config.lease_limit_mib_ms * NS_PER_MS,
        .kv_digest = ctx->config.kv_digest,
        .kv_manager = ctx->config.kv_manager,
        .prefix_cache = ctx->config.prefix_cache,
        .snapshot_tokens = ctx->config.snapshot_tokens,
        .kv_events_max = ctx->config.kv_events_max,
        .kv_scrub = ctx->config.kv_scrub,
    };
    struct ctx_engine_ops ops = ctx_service_ops(&ctx->service);
    TRY(ctx_engine_create(&options, &ops, error, &ctx->engine));
    kv_sender_on_event(ctx->sender, ctx_engine_wake, ctx->engine);
    worker_tier_wake(worker, ctx_engine_wake, ctx->engine);
    constraint_desk_on_done(worker->desk, ctx_engine_wake, ctx->engine);
    TRY(described_lives_create(&ctx->service.lives));
    ctx->service.engine = ctx->engine;
    ctx->service.sender = ctx->sender;
    ctx->service.identity = &worker->identity;
    ctx->service.vocabulary = worker->config->vocabulary;
    ctx->service.adapters = worker->adapters;
    ctx->service.kv_digest = ctx->config.kv_digest;
    return STATUS_OK;
}

/* Before the engine's thread starts: its first step updates these. */
static void tell_metrics(struct ctx_worker *ctx)
{
    assert(!ctx->engine_thread);
    struct ctx_metrics *metrics = &ctx->service.metrics;
    ctx_metrics_transport(metrics, ctx->process.metrics, ctx->worker.transport->ops->name);
    worker_metrics_kernels(ctx->process.metrics, &ctx->worker.kernels, metrics->kernel_labels);
    worker_metrics_capacity(&metrics->common, &(struct worker_capacity){
                                                  .n_blocks = ctx->worker.n_blocks,
                                                  .block_tokens = ctx->config.kv_block_tokens,
                                                  .sequences_max = ctx->config.prompts_max,
                                                  .queue_max = ctx->config.queue_max,
                                              });
    if (ctx->config.metrics_compat == WORKER_COMPAT_VLLM)
        compat_metrics_init(&metrics->compat, ctx->process.metrics, ctx->config.kv_block_tokens,
                            ctx->worker.n_blocks);
}

static enum status start_threads(struct ctx_worker *ctx)
{
    struct transfer_thread_options transfer = {
        .name = "transfer",
        .transport = ctx->worker.transport,
        .sender = ctx->sender,
    };
    assert(ctx->engine && ctx->sender && "a thread starts after what it runs");
    TRY(transfer_thread_start(&transfer, &ctx->transfer_thread));
    struct engine_thread_options engine = {
        .name = "engine",
        .engine = ctx->engine,
        .step = step,
        .wait = wait,
        .wake = ctx_engine_wake,
        .is_quiet = is_quiet,
        .after_step = after_step,
        .arg = ctx,
        .cpus = ctx->worker.engine_cpus,
    };
    return engine_thread_start(&engine, &ctx->engine_thread);
}

static void fill_process_options(const void *values, struct process_options *options_out)
{
    const struct ctx_config *config = values;
    *options_out = (struct process_options){
        .role = KVFERRY__INTERNAL__V1__ROLE__ROLE_CONTEXT_WORKER,
        .peers_max = config->peers_max,
        .data_connections_max = config->kv_unproven_max,
        .is_memory_shared = config->kv_transport == KV_SHM_READ,
        PROCESS_OPTIONS(config),
    };
}

static void fill_worker_options(const struct ctx_config *config, const char *folder,
                                struct worker_options *options_out)
{
    *options_out = (struct worker_options){
        .folder = folder,
        .sequences_max = config->prompts_max,
        .step_tokens_max = ctx_options_step_tokens(config->prefill_batch_tokens,
                                                   config->kv_block_tokens),
        .is_read_from = true,
        WORKER_OPTIONS(config),
    };
}

static enum status check(const void *values, const char *folder, struct error *error)
{
    const struct ctx_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    TRY(worker_sinks_check_manager(config->sink_tokens, config->kv_manager, error));
    TRY(worker_check(&options, config->control_address, error));
    return worker_device_probe(&options, error);
}

static enum status plan(const void *values, const char *folder, FILE *out, struct error *error)
{
    const struct ctx_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    TRY(worker_sinks_check_manager(config->sink_tokens, config->kv_manager, error));
    return worker_plan(&options, "ctx-worker", config->control_address, out, error);
}

const struct role ctx_worker_role = {
    .table = ctx_config_table,
    .fill_options = fill_process_options,
    .check = check,
    .plan = plan,
};

static enum status listen(struct ctx_worker *ctx, struct error *error)
{
    struct process_options options;
    fill_process_options(&ctx->config, &options);
    TRY(process_open(&ctx->process, &options, error));
    ctx_metrics_init(&ctx->service.metrics, ctx->process.metrics);
    ctx->service.process = &ctx->process;
    ctx->admin = (struct admin_service){.process = &ctx->process,
                                        .fill_state = fill_state,
                                        .flush = flush,
                                        .load_adapter = load_adapter,
                                        .unload_adapter = unload_adapter,
                                        .arg = ctx};
    ctx->events.process = &ctx->process;
    struct rpc_service services[] = {ctx_service_row(&ctx->service), admin_service_row(&ctx->admin),
                                     kv_event_service_row(&ctx->events)};
    TRY(process_listen(&ctx->process, PORT_CONTROL, services, sizeof services / sizeof *services,
                       error));
    return process_ports_write(&ctx->process, error);
}

static enum status start(struct ctx_worker *ctx, struct error *error)
{
    TRY(listen(ctx, error));
    struct worker_options options;
    fill_worker_options(&ctx->config, ctx->folder, &options);
    TRY(worker_load(&ctx->worker, &ctx->process, &options, error));
    TRY(create_engine(ctx, error));
    TRY(kv_event_service_start(&ctx->events, ctx_engine_spans(ctx->engine),
                               ctx->config.kv_event_streams_max, &ctx->service.metrics.common));
    tell_metrics(ctx);
    worker_tell_memory(&ctx->worker);
    TRY(start_threads(ctx));
    TRY(adapter_loader_create(ctx->worker.adapters, ctx->config.adapter_folder, &ctx->loader));
    process_serving(&ctx->process);
    process_set_health(&ctx->process, true, true);
    return process_ports_write(&ctx->process, error);
}

/* ---- run and stop ---- */

static void run(struct ctx_worker *ctx)
{
    struct watchdog watchdog = {
        .engine = ctx->engine_thread,
        .forward = ctx->worker.forward,
        .transfer = ctx->transfer_thread,
        .transport = ctx->worker.transport,
        .limit_ns = ctx->config.watchdog_ms * NS_PER_MS,
    };
    while (process_goes_on(&ctx->process, WATCHDOG_LOOK_MS) && !worker_is_lost(&ctx->worker)) {
        bool is_stuck = watchdog_is_stuck(&watchdog, clock_now_ns());
        process_set_health(&ctx->process, !is_stuck, !is_stuck);
        worker_metrics_adapters(&ctx->service.metrics.common, ctx->worker.adapters);
        worker_metrics_data_port(&ctx->service.metrics.common, ctx->worker.transport,
                                 &ctx->data_port);
        if (process_is_draining(&ctx->process))
            ctx_engine_drain(ctx->engine);
    }
}

static uint32_t n_live(void *arg)
{
    struct ctx_worker *ctx = arg;
    struct ctx_engine_stats stats;
    ctx_engine_read_stats(ctx->engine, &stats);
    return stats.queued + stats.computing + stats.sealed;
}

/* False: the device was lost, so the process has failed. */
static bool stop(struct ctx_worker *ctx)
{
    if (ctx->engine_thread) {
        ctx_engine_drain(ctx->engine);
        process_drain(&ctx->process, n_live, ctx);
        ctx_engine_stop(ctx->engine);
    }
    if (!adapter_loader_stop(ctx->loader, clock_now_ns() + QUIET_LIMIT_NS)) {
        log_error("files of an adapter are still being read: exit without waiting for them");
        (void)log_flush(LAST_LINE_MS);
        _Exit(EXIT_FAILURE);
    }
    process_close_ports(&ctx->process);
    adapter_loader_destroy(ctx->loader);
    ctx->is_quiet = engine_thread_stop(ctx->engine_thread, QUIET_LIMIT_NS);
    transfer_thread_stop(ctx->transfer_thread);
    if (!ctx->is_quiet) {
        /* Memory that UCX may still read is left to the kernel. */
        log_error("KV blocks are still being read: exit without freeing them");
        (void)log_flush(LAST_LINE_MS);
        _Exit(EXIT_FAILURE);
    }
    kv_event_service_stop(&ctx->events);
    worker_tier_wake(&ctx->worker, NULL, NULL);
    ctx_engine_destroy(ctx->engine);
    kv_sender_destroy(ctx->sender);
    described_lives_destroy(ctx->service.lives);
    bool is_lost = worker_is_lost(&ctx->worker);
    worker_unload(&ctx->worker);
    process_close(&ctx->process);
    return !is_lost;
}

int ctx_worker_main(const struct config_input *input)
{
    struct ctx_worker *ctx = calloc(1, sizeof *ctx);
    struct config *config = NULL;
    struct error error = {0};
    int exit_status = EXIT_FAILURE;
    if (!ctx || role_begin(&ctx_worker_role, input, &ctx->config, &config, &exit_status)) {
        free(ctx);
        return exit_status;
    }
    ctx->folder = config_positional(config, 0);
    enum status status = start(ctx, &error);
    if (status == STATUS_OK)
        run(ctx);
    else
        process_cannot_start(status, &error);
    bool is_whole = stop(ctx);
    config_destroy(config);
    free(ctx);
    return status == STATUS_OK && is_whole ? EXIT_SUCCESS : EXIT_FAILURE;
}
