#include "gen_worker/gen_worker.h"

#include "base/clock.h"
#include "gen_worker/gen_batch.h"
#include "gen_worker/gen_worker_engine.h"
#include "worker_common/watchdog.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_sinks.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <stdio.h>
#include <stdlib.h>

#define QUIET_LIMIT_NS (10 * NS_PER_S) /* after the drain, for transfers under way */
#define LAST_LINE_MS   1000            /* for the log, before _Exit */

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

static void load_adapter(void *arg, struct rpc_call *call, const char *name, const char *folder)
{
    adapter_loader_load(((struct gen_worker *)arg)->loader, call, name, folder);
}

static void unload_adapter(void *arg, struct rpc_call *call, const char *name)
{
    adapter_loader_unload(((struct gen_worker *)arg)->loader, call, name);
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
    worker_tier_tell(&gen->worker, &gen->service.metrics.common, &stats.tier);
    kv_event_service_tell(&gen->events);
}

/* ---- start ---- */

static void tell_metrics(struct gen_worker *gen)
{
    struct gen_metrics *metrics = &gen->service.metrics;
    gen_metrics_transport(metrics, gen->process.metrics, gen->worker.transport->ops->name);
    worker_metrics_kernels(gen->process.metrics, &gen->worker.kernels, metrics->kernel_labels);
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
    assert(gen->receiver && gen->engine && "from here to its stop each belongs to its thread");
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
        .cpus = gen->worker.engine_cpus,
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
        .conversions_max = config->kv_convert ? config->prefills_max : 0,
        .draft_model = config->draft_model,
        .draft_memory = config->draft_memory,
        .draft_weights = config->draft_weights,
        WORKER_OPTIONS(config),
    };
}

/* NULL: off. */
static const char *speculation(const struct gen_config *config)
{
    static const char *const WORDS[] = {
        [GEN_SPECULATE_LOOKUP] = "lookup", [GEN_SPECULATE_MODEL] = "model"};
    return WORDS[config->speculate];
}

static enum status check_speculation(const struct gen_config *config, struct error *error)
{
    const bool has_model = config->draft_model[0] != '\0';
    const char *word = speculation(config);
    if (has_model == (config->speculate == GEN_SPECULATE_MODEL))
        return STATUS_OK;
    if (has_model)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "draft_model is \"%.200s\", and speculate is %s: expected model",
                         config->draft_model, word ? word : "off");
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "speculate is model, and draft_model is empty: expected the path of a model");
}

/* A paused reply is computed again from its tokens, as a prompt: that would see what its tokens did not see. What a model or a
 * device does not allow is known at a start. */
static enum status check_pauses(const struct gen_config *config,
                                const struct worker_options *options, struct error *error)
{
    const char *differ_by = forward_choices_differ_by(options->context_math, &options->attention);
    TRY(gen_batch_check_pauses(config->capacity_policy, differ_by, error));
    TRY(check_speculation(config, error));
    TRY(gen_batch_check_drafts(speculation(config),
                               config->sink_tokens > 0 ? "sink_tokens" : differ_by, error));
    TRY(worker_sinks_check_manager(config->sink_tokens, config->kv_manager, error));
    if (config->sink_tokens == 0 || config->capacity_policy != SCHEDULE_MAX_UTILIZATION)
        return STATUS_OK;
    return error_set(error, STATUS_INVALID_ARGUMENT,
                     "sink_tokens is %u, and capacity_policy is max-utilization, which pauses "
                     "replies: expected no-evict or static-batch",
                     config->sink_tokens);
}

static enum status check(const void *values, const char *folder, struct error *error)
{
    const struct gen_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    TRY(check_pauses(config, &options, error));
    TRY(worker_check(&options, config->control_address, error));
    return worker_device_probe(&options, error);
}

static enum status plan(const void *values, const char *folder, FILE *out, struct error *error)
{
    const struct gen_config *config = values;
    struct worker_options options;
    fill_worker_options(config, folder, &options);
    TRY(check_pauses(config, &options, error));
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
    gen->admin = (struct admin_service){.process = &gen->process,
                                        .fill_state = fill_state,
                                        .flush = flush,
                                        .load_adapter = load_adapter,
                                        .unload_adapter = unload_adapter,
                                        .arg = gen};
    gen->events.process = &gen->process;
    struct rpc_service services[] = {gen_service_row(&gen->service), admin_service_row(&gen->admin),
                                     kv_event_service_row(&gen->events)};
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
    TRY(gen_worker_create_engine(gen, error));
    TRY(kv_event_service_start(&gen->events, gen_engine_spans(gen->engine),
                               gen->config.kv_event_streams_max, &gen->service.metrics.common));
    tell_metrics(gen);
    worker_tell_memory(&gen->worker);
    TRY(start_threads(gen));
    TRY(adapter_loader_create(gen->worker.adapters, gen->config.adapter_folder, &gen->loader));
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
        .drafter = gen->worker.drafter,
        .transfer = gen->transfer_thread,
        .transport = gen->worker.transport,
        .limit_ns = gen->config.watchdog_ms * NS_PER_MS,
    };
    while (process_goes_on(&gen->process, WATCHDOG_LOOK_MS) && !worker_is_lost(&gen->worker)) {
        bool is_stuck = watchdog_is_stuck(&watchdog, clock_now_ns());
        process_set_health(&gen->process, !is_stuck, !is_stuck);
        worker_metrics_adapters(&gen->service.metrics.common, gen->worker.adapters);
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

/* False: the device was lost, so the process has failed. */
static bool stop(struct gen_worker *gen)
{
    if (gen->engine_thread) {
        gen_engine_drain(gen->engine);
        process_drain(&gen->process, n_live, gen);
        gen_engine_stop(gen->engine);
    }
    if (!adapter_loader_stop(gen->loader, clock_now_ns() + QUIET_LIMIT_NS)) {
        log_error("files of an adapter are still being read: exit without waiting for them");
        (void)log_flush(LAST_LINE_MS);
        _Exit(EXIT_FAILURE);
    }
    process_close_ports(&gen->process);
    adapter_loader_destroy(gen->loader);
    if (!engine_thread_stop(gen->engine_thread, QUIET_LIMIT_NS)) {
        /* Memory that UCX may still write is left to the kernel. */
        log_error("KV blocks are still arriving: exit without freeing them");
        (void)log_flush(LAST_LINE_MS);
        _Exit(EXIT_FAILURE);
    }
    transfer_thread_stop(gen->transfer_thread);
    /* The runtime ends after its last callback. Until then prefills report their end to the engine, which still exists. */
    context_client_close(gen->contexts);
    rpc_client_destroy(gen->rpc);
    rpc_runtime_destroy(gen->client_runtime);
    context_client_destroy(gen->contexts);
    kv_event_service_stop(&gen->events);
    worker_tier_wake(&gen->worker, NULL, NULL);
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
