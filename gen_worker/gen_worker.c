#include "gen_worker/gen_worker.h"

#include "base/clock.h"
#include "base/random.h"
#include "engine/engine_thread.h"
#include "gen_worker/context_client.h"
#include "gen_worker/gen_config.h"
#include "gen_worker/gen_service.h"
#include "kvtransfer/transfer_thread.h"
#include "worker_common/watchdog.h"
#include "worker_common/worker.h"
#include "worker_common/worker_device.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define QUIET_LIMIT_NS (10 * NS_PER_S) /* after the drain, for transfers under way */
#define LAST_LINE_MS   1000            /* for the log, when exit may run nothing */
#define EVENTS_EACH    16u             /* events of one prefill that may wait for the engine */

struct gen_worker {
    struct gen_config config;
    const char *folder;
    struct process process;
    struct worker worker;
    struct rpc_runtime *client_runtime;
    struct rpc_client *rpc;
    struct context_client *contexts;
    struct kv_receiver *receiver;
    struct gen_engine *engine;
    struct transfer_thread *transfer_thread;
    struct engine_thread *engine_thread;
    struct gen_service service;
    struct admin_service admin;
    struct port_figures data_port; /* main's */
    char way[24];                  /* that KV comes: "am-tcp", "am-tcp, staged" */
};

static uint32_t running(const struct gen_engine_stats *stats)
{
    return stats->reserved + stats->fetching + stats->committing + stats->local_prefill +
           stats->decoding;
}

static void fill_state(void *arg, struct process_state *state_out)
{
    struct gen_worker *gen = arg;
    if (process_refuses(&gen->process) == STATUS_LOADING)
        return;
    struct gen_engine_stats stats;
    assert(gen->engine && gen->contexts && "made before the process serves");
    gen_engine_read_stats(gen->engine, &stats);
    worker_fill_state(&gen->worker, stats.blocks, state_out);
    state_out->is_ready = atomic_load(&gen->process.is_live);
    state_out->requests_running = running(&stats);
    state_out->requests_waiting = stats.queued + stats.paused;
    state_out->prefills = (struct process_prefills){
        .n = stats.prefills,
        .tokens = stats.prefill_tokens,
        .done_tokens = stats.prefill_done_tokens,
    };
    state_out->tells_room = true;
    state_out->requests_room = stats.room;
    state_out->kv_bytes_received = kv_receiver_bytes_received(gen->receiver);
    state_out->n_peers = context_client_peers(gen->contexts, state_out->peers,
                                              state_out->peers_max);
}

static void flush(void *arg, struct rpc_call *call)
{
    struct gen_worker *gen = arg;
    enum status status = gen_engine_flush(gen->engine, rpc_call_share(call));
    if (status == STATUS_OK)
        return;
    rpc_call_release(call);
    rpc_call_fail_status(call, status, "%s", status_text(status));
}

/* ---- the engine's ops ---- */

static void draw_transfer_id(void *arg, struct transfer_id *id_out)
{
    (void)arg;
    /* The kernel had bits at start (the incarnation); with none left nothing safe can go on. */
    if (random_secret(id_out->bytes, sizeof id_out->bytes, NULL) != STATUS_OK)
        abort();
}

static enum status tokens(void *arg, void *stream, const struct gen_tokens *generated)
{
    struct gen_worker *gen = arg;
    return gen_service_tokens(&gen->service, stream, generated);
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

/* ---- the engine thread's loop ---- */

static uint64_t step(void *engine, uint64_t at_ns)
{
    return gen_engine_step(engine, at_ns);
}

static void wait(void *engine, uint64_t until_ns)
{
    gen_engine_wait(engine, until_ns);
}

static bool is_quiet(void *engine)
{
    struct gen_engine_stats stats;
    gen_engine_read_stats(engine, &stats);
    return stats.queued + stats.paused + running(&stats) + stats.quarantined_transfers == 0;
}

static void after_step(void *arg, uint64_t step_ns)
{
    struct gen_worker *gen = arg;
    struct gen_engine_stats stats;
    gen_engine_read_stats(gen->engine, &stats);
    gen_metrics_update(&gen->service.metrics, &stats, kv_receiver_bytes_received(gen->receiver),
                       step_ns);
}

/* ---- start ---- */

static enum status create_receiver(struct gen_worker *gen)
{
    struct worker *worker = &gen->worker;
    struct kv_receiver_options options = {
        .transfers_max = gen->config.prefills_max,
        .blocks_max = worker->context_blocks,
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
        .receiver = gen->receiver,
        .geometry = worker->identity.geometry,
        .vocabulary = worker->config->vocabulary,
        .context_tokens = worker->context_tokens,
        .chunk_tokens = config->prefill_chunk_tokens,
        .step_target_ns = config->prefill_step_ms * NS_PER_MS,
        .batch_tokens = config->prefill_batch_tokens,
        .sequences_max = config->sequences_max,
        .queue_max = config->queue_max,
        .capacity_policy = config->capacity_policy,
        .headroom_blocks = config->capacity_headroom_blocks,
        .priority_aging_ms = config->priority_aging_ms,
        .streams_max = config->queue_max + config->sequences_max,
        .prefills_max = config->prefills_max,
        .events_max = config->prefills_max * EVENTS_EACH,
        .local_prefill = config->local_prefill,
        .local_prefill_max_tokens = config->local_prefill_max_tokens,
        .prefix_cache = config->prefix_cache,
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
        .allow_numerics = gen->config.allow_numerics,
        .peers_max = gen->config.peers_max,
        .prefills_max = gen->config.prefills_max,
        .describe_limit_ns = gen->config.describe_limit_ms * NS_PER_MS,
        .commit_limit_ns = gen->config.commit_limit_ms * NS_PER_MS,
        .wants_digests = gen->config.kv_digest,
    };
    return context_client_create(&options, &gen->contexts);
}

static enum status create_engine(struct gen_worker *gen, struct error *error)
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
        .progress = progress,
        .finish = finish,
        .start_prefill = start_prefill,
        .cancel_prefill = cancel_prefill,
        .commit = commit,
        .flush_reply = flush_reply,
    };
    TRY(gen_engine_create(&options, &ops, error, &gen->engine));
    /* Each of these was made without the engine, which has to know it. */
    kv_receiver_on_event(gen->receiver, gen_engine_wake, gen->engine);
    context_client_set_engine(gen->contexts, gen->engine);
    gen->service.engine = gen->engine;
    gen->service.vocabulary = gen->worker.config->vocabulary;
    const struct transport_ops *transport = gen->worker.transport->ops;
    bool is_staged = !device_reads_host(gen->worker.device) && !transport->is_direct;
    snprintf(gen->way, sizeof gen->way, "%s%s", transport->name, is_staged ? ", staged" : "");
    gen->service.transport = gen->way;
    return STATUS_OK;
}

static void tell_metrics(struct gen_worker *gen)
{
    struct gen_metrics *metrics = &gen->service.metrics;
    gen_metrics_transport(metrics, gen->process.metrics, gen->worker.transport->ops->name);
    worker_metrics_capacity(&metrics->common, &(struct worker_capacity){
                                                  .n_blocks = gen->worker.n_blocks,
                                                  .block_tokens = gen->config.kv_block_tokens,
                                                  .sequences_max = gen->config.sequences_max,
                                                  .queue_max = gen->config.queue_max,
                                              });
    if (gen->config.metrics_compat == WORKER_COMPAT_VLLM)
        compat_metrics_init(&metrics->compat, gen->process.metrics, gen->config.kv_block_tokens,
                            gen->worker.n_blocks);
}

static enum status start_threads(struct gen_worker *gen)
{
    struct transfer_thread_options transfer = {
        .name = "transfer",
        .transport = gen->worker.transport,
        .receiver = gen->receiver,
    };
    assert(gen->receiver && gen->engine && "both are their thread's from here to its stop");
    TRY(transfer_thread_start(&transfer, &gen->transfer_thread));
    struct engine_thread_options engine = {
        .name = "engine",
        .engine = gen->engine,
        .step = step,
        .wait = wait,
        .wake = gen_engine_wake,
        .is_quiet = is_quiet,
        .after_step = after_step,
        .arg = gen,
    };
    return engine_thread_start(&engine, &gen->engine_thread);
}

static void fill_process_options(const void *values, struct process_options *options_out)
{
    const struct gen_config *config = values;
    *options_out = (struct process_options){
        .role = KVFERRY__INTERNAL__V1__ROLE__ROLE_GENERATION_WORKER,
        .peers_max = config->peers_max,
        .data_connections_max = config->kv_unproven_max,
        .is_memory_shared = config->kv_transport == KV_SHM_READ,
        PROCESS_OPTIONS(config),
    };
}

static void fill_worker_options(const struct gen_config *config, const char *folder,
                                struct worker_options *options_out)
{
    *options_out = (struct worker_options){
        .folder = folder,
        .sequences_max = config->sequences_max,
        .step_tokens_max = config->prefill_batch_tokens + config->sequences_max,
        .allow_numerics = config->allow_numerics,
        WORKER_OPTIONS(config),
    };
}

static enum status check(const void *values, const char *folder, struct error *error)
{
    const struct gen_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    TRY(worker_check(&options, config->control_address, error));
    return worker_device_probe(&options, error);
}

static enum status plan(const void *values, const char *folder, FILE *out, struct error *error)
{
    const struct gen_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    return worker_plan(&options, "gen-worker", config->control_address, out, error);
}

const struct role gen_worker_role = {
    .table = gen_config_table,
    .fill_options = fill_process_options,
    .check = check,
    .plan = plan,
};

static enum status listen(struct gen_worker *gen, struct error *error)
{
    struct process_options options;
    fill_process_options(&gen->config, &options);
    TRY(process_open(&gen->process, &options, error));
    gen_metrics_init(&gen->service.metrics, gen->process.metrics);
    gen->service.process = &gen->process;
    gen->admin = (struct admin_service){
        .process = &gen->process, .fill_state = fill_state, .flush = flush, .arg = gen};
    struct rpc_service services[] = {gen_service_row(&gen->service),
                                     admin_service_row(&gen->admin)};
    TRY(process_listen(&gen->process, PORT_CONTROL, services, sizeof services / sizeof *services,
                       error));
    return process_ports_write(&gen->process, error);
}

static enum status start(struct gen_worker *gen, struct error *error)
{
    TRY(listen(gen, error));
    struct worker_options options;
    fill_worker_options(&gen->config, gen->folder, &options);
    TRY(worker_load(&gen->worker, &gen->process, &options, error));
    TRY(create_engine(gen, error));
    tell_metrics(gen);
    worker_tell_memory(&gen->worker);
    TRY(start_threads(gen));
    process_serving(&gen->process);
    process_set_health(&gen->process, true, true);
    return process_ports_write(&gen->process, error);
}

/* ---- run and stop ---- */

static void run(struct gen_worker *gen)
{
    struct watchdog watchdog = {
        .engine = gen->engine_thread,
        .forward = gen->worker.forward,
        .transfer = gen->transfer_thread,
        .transport = gen->worker.transport,
        .limit_ns = gen->config.watchdog_ms * NS_PER_MS,
    };
    while (process_goes_on(&gen->process, WATCHDOG_LOOK_MS) && !worker_is_lost(&gen->worker)) {
        bool is_stuck = watchdog_is_stuck(&watchdog, clock_now_ns());
        process_set_health(&gen->process, !is_stuck, !is_stuck);
        worker_metrics_data_port(&gen->service.metrics.common, gen->worker.transport,
                                 &gen->data_port);
        if (process_is_draining(&gen->process))
            gen_engine_drain(gen->engine);
        else
            context_client_look(gen->contexts, clock_now_ns());
    }
}

static uint32_t n_live(void *arg)
{
    struct gen_worker *gen = arg;
    struct gen_engine_stats stats;
    gen_engine_read_stats(gen->engine, &stats);
    return stats.queued + stats.paused + running(&stats);
}

/* False: the device was lost, and the process has not done what it was started for. */
static bool stop(struct gen_worker *gen)
{
    if (gen->engine_thread) {
        gen_engine_drain(gen->engine);
        process_drain(&gen->process, n_live, gen);
        gen_engine_stop(gen->engine);
    }
    process_close_ports(&gen->process);
    if (!engine_thread_stop(gen->engine_thread, QUIET_LIMIT_NS)) {
        /* Memory that UCX may still write is left to the kernel. */
        log_error("KV blocks are still arriving: exit without freeing them");
        (void)log_flush(LAST_LINE_MS);
        _Exit(EXIT_FAILURE);
    }
    transfer_thread_stop(gen->transfer_thread);
    /* The runtime's end is that of the last callback: until then prefills say their end to the engine, which is
     * still there. */
    context_client_close(gen->contexts);
    rpc_client_destroy(gen->rpc);
    rpc_runtime_destroy(gen->client_runtime);
    context_client_destroy(gen->contexts);
    gen_engine_destroy(gen->engine);
    kv_receiver_destroy(gen->receiver);
    bool is_lost = worker_is_lost(&gen->worker);
    worker_unload(&gen->worker);
    process_close(&gen->process);
    return !is_lost;
}

int gen_worker_main(const struct config_input *input)
{
    struct gen_worker *gen = calloc(1, sizeof *gen);
    struct config *config = NULL;
    struct error error = {0};
    int exit_status = EXIT_FAILURE;
    if (!gen || role_begin(&gen_worker_role, input, &gen->config, &config, &exit_status)) {
        free(gen);
        return exit_status;
    }
    gen->folder = config_positional(config, 0);
    enum status status = start(gen, &error);
    if (status == STATUS_OK)
        run(gen);
    else
        process_cannot_start(status, &error);
    bool is_whole = stop(gen);
    config_destroy(config);
    free(gen);
    return status == STATUS_OK && is_whole ? EXIT_SUCCESS : EXIT_FAILURE;
}
