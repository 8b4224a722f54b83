#include "worker_common/worker.h"

#include "base/clock.h"
#include "base/log/log.h"
#include "engine/constraint_desk.h"
#include "kernels/kernels.h"
#include "kvtransfer/drivers/ucx/ucx_process.h"
#include "kvtransfer/revision.h"
#include "model/config/encoder_config.h"
#include "model/config/families.h"
#include "model/config/kv_layers.h"
#include "model/forward/attention_check.h"
#include "model/forward/numerics_id.h"
#include "model/kernel_choice.h"
#include "tokenizer/tokenizer.h"
#include "worker_common/load_progress.h"
#include "worker_common/worker_adapters.h"
#include "worker_common/worker_device.h"
#include "worker_common/worker_draft.h"
#include "worker_common/worker_forward.h"
#include "worker_common/worker_kernels.h"
#include "worker_common/worker_kv_scales.h"
#include "worker_common/worker_metrics.h"
#include "worker_common/worker_paper.h"
#include "worker_common/worker_pool.h"
#include "worker_common/worker_sinks.h"
#include "worker_common/worker_threads.h"
#include "worker_common/worker_tier.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <string.h>

#define MIB (1 << 20)
/* A step that is slower than the watchdog may still end. After this many times its limit, the device counts as lost. */
#define WATCHDOGS_TO_LOSS 3

struct loading {
    struct load_progress progress;
    const struct process *process;
};

/* Runs on the main thread, between two parts of the weights. */
static void on_progress(void *arg, uint64_t done, uint64_t all)
{
    struct loading *loading = arg;
    load_progress_show(&loading->progress, done, all, clock_now_ns());
    if (!process_is_told_to_stop())
        return;
    load_progress_finish(&loading->progress);
    process_end_loading(loading->process);
}

static struct model_options model_options(const struct worker *worker,
                                          const struct worker_options *options,
                                          const struct worker_kernels *kernels)
{
    return (struct model_options){
        .context_tokens = options->max_context_tokens,
        .weights = options->weights,
        .attention_window = worker_model_window(options->sink_tokens, options->attention_window),
        .force_window = options->force_window,
        .cpu_kernels = kernels->products,
        .attention_kernels = kernels->attention,
        .threads = worker->threads,
        .device = worker->device,
    };
}

static enum status load_model(struct worker *worker, const struct worker_options *options,
                              struct error *error)
{
    assert(!worker->model && worker->threads && "its weights are made by them");
    struct worker_kernels kernels;
    TRY(worker_kernels_choose(worker, options, NULL, &kernels, error));
    struct loading loading = {.process = worker->process};
    load_progress_init(&loading.progress, worker_metrics_load_progress(worker->process->metrics),
                       clock_now_ns());
    struct model_options model = model_options(worker, options, &kernels);
    model.on_progress = on_progress;
    model.arg = &loading;
    enum status status = model_load(options->folder, &model, error, &worker->model);
    load_progress_finish(&loading.progress);
    if (status != STATUS_OK)
        return status;
    gauge_set(loading.progress.ratio, 1);
    worker->config = model_get_config(worker->model);
    snprintf(worker->kernels.chosen_by, sizeof worker->kernels.chosen_by, "%s",
             worker_kernels_word(kernels.chosen));
    worker_kernels_tell(worker);
    log_info(
        "model %s parameters %.1f million weights %.1f MiB context %u vocabulary %u head %s",
        model_family_name(worker->config->family), (double)model_parameters(worker->model) / 1e6,
        (double)model_weight_bytes(worker->model) / MIB, worker->config->context_tokens,
        worker->config->vocabulary, worker->config->tied_embeddings ? "tied" : "lm_head.weight");
    return STATUS_OK;
}

enum status worker_choose_context(const struct model_config *config, uint32_t wanted,
                                  struct error *error, uint32_t *tokens_out)
{
    if (wanted > config->context_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "max_context_tokens is %u; the model supports %u", wanted,
                         config->context_tokens);
    *tokens_out = wanted ? wanted : config->context_tokens;
    /* Of an encoder's text, whose step is computed at once: of some models the limit is far beyond what they were made for. */
    if (wanted == 0 && model_has_encoder(config) && *tokens_out > ENCODER_TOKENS_DEFAULT)
        *tokens_out = ENCODER_TOKENS_DEFAULT;
    return STATUS_OK;
}

/* Blocks of one size hold K and V, and the parts of states. */
static enum status count_state(const struct model_config *config, struct geometry *geometry,
                               struct error *error)
{
    const uint64_t block_bytes = geometry_block_bytes(geometry);
    const uint32_t n = state_layout_blocks(config, block_bytes);
    if (n == UINT32_MAX)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_block_tokens is %u: a block of kv_dtype %s has %" PRIu64
                         " bytes, and a part of a layer's recurrent state has %zu",
                         geometry->block_tokens, kv_dtype_name(geometry->dtype), block_bytes,
                         state_layout_part_bytes(config));
    geometry->groups.n_state = n;
    return STATUS_OK;
}

enum status worker_geometry(const struct model *model, enum worker_kv_dtype kv_dtype,
                            const struct kv_scales *kv_scales, uint32_t block_tokens,
                            struct error *error, struct geometry *geometry_out)
{
    const struct model_config *config = model_get_config(model);
    const struct cache_shape shape = model_cache_shape(config);
    struct kv_layers layers;
    kv_layers_describe(config, &layers);
    struct geometry geometry = {
        .n_layers = layers.layers.n,
        .n_kv_heads = shape.n_heads,
        .head_dim = shape.dim,
        .latent_dim = shape.latent_dim,
        .block_tokens = block_tokens,
        .dtype = worker_kv_dtype(kv_dtype, model_weight_dtype(model)),
    };
    if (kv_dtype_is_8bit(geometry.dtype))
        geometry.kv_scales = kv_scales_digest(kv_scales, worker_element_dtype(geometry.dtype));
    cache_groups_divide(&layers.layers, &geometry.groups);
    model_digest(model, geometry.model_digest);
    TRY(geometry_check(&geometry, error));
    TRY(count_state(config, &geometry, error));
    TRY(geometry_check(&geometry, error));
    *geometry_out = geometry;
    return STATUS_OK;
}

/* With an encoder the chosen context is that of a text, and of a reply: together they are a line. */
static void set_line(struct worker *worker, uint32_t block_tokens)
{
    if (!model_has_encoder(worker->config))
        return;
    worker->line = (struct encoder_line){.text_max = worker->context_tokens,
                                         .reply_max = worker->context_tokens,
                                         .block_tokens = block_tokens,
                                         .start_id = worker->config->encoder.start_id};
    worker->context_tokens = encoder_line_context(&worker->line);
}

static enum status set_geometry(struct worker *worker, const struct worker_options *options,
                                struct error *error)
{
    struct geometry *geometry = &worker->identity.geometry;
    TRY(worker_kv_scales_find(worker->model, options->folder, options->kv_dtype, options->kv_scales,
                              &worker->kv_scales, error));
    TRY(worker_geometry(worker->model, options->kv_dtype, &worker->kv_scales,
                        options->kv_block_tokens, error, geometry));
    TRY(worker_sinks_read(options->sink_tokens, options->attention_window, &geometry->sinks,
                          error));
    TRY(geometry_check(geometry, error));
    const struct forward_options choices = {.context_math = options->context_math,
                                            .block_activations = options->block_activations,
                                            .attention = options->attention,
                                            .sinks = geometry->sinks};
    numerics_id_of_model(worker->model, &choices, options->weights, geometry->numerics);
    assert(worker->context_tokens > 0 && worker->context_tokens <= worker->config->context_tokens);
    geometry->has_encoder = model_has_encoder(worker->config);
    set_line(worker, options->kv_block_tokens);
    const struct cache_step step = worker_cache_step(worker, options);
    worker->context_blocks = geometry_blocks(geometry, worker->context_tokens);
    worker->step_blocks = geometry_step_blocks(geometry, &step);
    worker->stage_bytes = worker_stage_bytes(geometry, options->conversions_max);
    return STATUS_OK;
}

static enum status create_forward(struct worker *worker, const struct worker_options *options,
                                  struct error *error)
{
    const struct worker_step step = worker_step_of(worker, options);
    const struct forward_options forward = worker_forward_options(&worker->identity.geometry,
                                                                  &step);
    TRY(worker_device_fits(worker->device, "activations of a step",
                           forward_activation_bytes(worker->model, &forward), error));
    return worker_forward_create(worker->model, &worker->identity.geometry, &step, error,
                                 &worker->forward);
}

const char *worker_net_devices(const char *wanted, const char *control_address)
{
    struct address control;
    struct error ignored = {{0}};
    if (wanted[0])
        return wanted;
    bool is_local = address_parse_listen(control_address, &control, &ignored) == STATUS_OK &&
                    address_is_loopback(&control);
    return is_local ? "lo" : "";
}

enum status worker_kv_driver(const struct worker_options *options, const char *devices,
                             enum kv_driver *driver_out, struct error *error)
{
    bool may_be_clear = strcmp(devices, "lo") == 0 || options->kv_network == WORKER_NETWORK_TRUSTED;
    enum kv_driver driver = options->kv_transport;
    if (driver == KV_DRIVER_AUTO)
        driver = may_be_clear ? KV_AM_TCP : KV_TLS;
    if (driver_is_clear(driver) && !may_be_clear)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_transport %s sends KV unencrypted over network devices %s: set "
                         "kv_network to trusted, or kv_transport to tls",
                         driver_name(driver), devices[0] ? devices : "all");
    *driver_out = driver;
    return STATUS_OK;
}

static enum status open_transport(struct worker *worker, const struct worker_options *options,
                                  struct error *error)
{
    assert(!worker->transport && worker->n_blocks > 0 && "a driver may make the pool");
    size_t pool_bytes = worker_pool_bytes(worker);
    const char *devices = worker_net_devices(options->ucx_net_devices,
                                             worker->process->options.control_address);
    enum kv_driver driver;
    TRY(worker_kv_driver(options, devices, &driver, error));
    const struct driver_options wanted = {
        .driver = driver,
        .incarnation = worker->process->incarnation,
        .net_devices = devices,
        .port_range = options->ucx_port_range,
        .peers_max = 2 * options->peers_max, /* peers that are being closed count, too */
        .gets_max = options->pieces_max * options->peers_max,
        .reads_max = options->pieces_max * options->peers_max,
        .pieces_max = options->pieces_max,
        .pool_bytes = options->is_read_from ? pool_bytes : 0,
        .unproven_max = options->kv_unproven_max,
        .proof_ns = options->kv_proof_ms * NS_PER_MS,
        .device = worker->device,
    };
    TRY(driver_open(&wanted, &worker->transport, error));
    log_info("transport %s devices %s, ucx %s", worker->transport->ops->name,
             devices[0] ? devices : "all", ucx_version());
    if (!options->is_read_from)
        return worker_create_pool(worker, NULL, pool_bytes, error);
    TRY(worker_create_pool(worker, driver_pool(worker->transport, driver),
                           worker_pool_memory(options, pool_bytes), error));
    return driver_lend(worker->transport, driver, &worker->pool_memory, error);
}

static void set_identity(struct worker *worker)
{
    struct worker_identity *identity = &worker->identity;
    assert(worker->process->incarnation != 0 && "0 is nobody's life");
    worker->transport->ops->address(worker->transport, &identity->address);
    identity->address.incarnation = worker->process->incarnation;
    snprintf(identity->name, sizeof identity->name, "%s", worker->process->name);
    snprintf(identity->transport, sizeof identity->transport, "%s", worker->transport->ops->name);
    identity->revision = kv_revision();
    snprintf(identity->ucx_version, sizeof identity->ucx_version, "%s", ucx_version());
}

/* The router turns text into ids and compares this digest: with another tokenizer its ids would mean other text. */
static enum status set_tokenizer_digest(struct model_card *card, const char *folder,
                                        struct error *error)
{
    uint8_t digest[TOKENIZER_DIGEST_BYTES];
    enum status status = tokenizer_digest_read(folder, error, digest);
    if (status == STATUS_NOT_FOUND) {
        error_write(error, "%s", ""); /* the file is optional */
        return STATUS_OK;
    }
    if (status == STATUS_OK)
        tokenizer_digest_format(digest, card->tokenizer_digest);
    return status;
}

static enum status set_card(struct worker *worker, const struct worker_options *options,
                            struct error *error)
{
    struct model_card *card = &worker->card;
    assert(worker->pool && worker->identity.geometry.block_tokens > 0);
    *card = (struct model_card){
        .context_tokens = worker->context_tokens,
        .reply_tokens = worker->line.reply_max,
        .vocabulary = worker->config->vocabulary,
        .has_geometry = true,
        .geometry = worker->identity.geometry,
    };
    model_card_name(options->served_model_name, options->folder, card->name);
    snprintf(card->architecture, sizeof card->architecture, "%s",
             model_family_name(worker->config->family));
    return set_tokenizer_digest(card, options->folder, error);
}

static enum status check_rows(const struct worker_options *options, struct error *error)
{
    TRY(worker_device_check(options, error));
    TRY(worker_tier_check(options, error));
    if (options->allow_numerics)
        TRY(numerics_allow_check(options->allow_numerics, error));
    if ((options->kv_block_tokens & (options->kv_block_tokens - 1)) != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "kv_block_tokens is %u, not a power of two from %u to %u",
                         options->kv_block_tokens, GEOMETRY_BLOCK_TOKENS_MIN,
                         GEOMETRY_BLOCK_TOKENS_MAX);
    if (options->prefill_chunk_tokens % options->kv_block_tokens != 0)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "prefill_chunk_tokens is %u; it must be a multiple of kv_block_tokens, %u",
                         options->prefill_chunk_tokens, options->kv_block_tokens);
    if (options->prefill_batch_tokens < options->prefill_chunk_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "prefill_batch_tokens is %u; it must be at least prefill_chunk_tokens, %u",
                         options->prefill_batch_tokens, options->prefill_chunk_tokens);
    return STATUS_OK;
}

static enum status create_desk(struct worker *worker, const struct worker_options *options)
{
    const struct constraint_desk_options desk = {
        .folder = options->folder,
        .vocabulary = worker->config->vocabulary,
        .ends = worker->config->eos_ids,
        .n_ends = worker->config->n_eos_ids,
        .limits = options->constraints,
        .waiting_max = options->constraint_queue_max,
    };
    return constraint_desk_create(&desk, &worker->desk);
}

/* In the order of the steps. */
static void copy_on_device(void *arg, uint8_t *to, const uint8_t *from, size_t n_bytes)
{
    device_copy(arg, DEVICE_COMPUTE, to, from, n_bytes);
}

static void set_to_zero(void *bytes, size_t n_bytes)
{
    memset(bytes, 0, n_bytes);
}

enum status worker_load(struct worker *worker, struct process *process,
                        const struct worker_options *options, struct error *error)
{
    *worker = (struct worker){.process = process,
                              .allow_numerics = options->allow_numerics,
                              .kv_convert = options->conversions_max > 0};
    TRY(check_rows(options, error));
    TRY(worker_note_room(worker, options, error));
    TRY(worker_device_open(options, &worker->device, error));
    if (options->conversions_max > 0 && !device_reads_host(worker->device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "kv_convert is for KV blocks in the memory of the host, not on %s",
                         device_name(worker->device));
    if (options->kv_scrub && !device_reads_host(worker->device))
        return error_set(error, STATUS_UNSUPPORTED,
                         "kv_scrub is for KV blocks in the memory of the host, not on %s",
                         device_name(worker->device));
    device_set_wait_limit(worker->device,
                          WATCHDOGS_TO_LOSS * process->options.watchdog_ms * NS_PER_MS);
    TRY(worker_create_threads(worker, options, error)); /* checks the configured kernels */
    if (options->device_math == WORKER_MATH_FAST)
        TRY(worker_device_advise(device_open_products(worker->device, error), worker->device,
                                 ADVICE_EXACT_MATH, error));
    TRY(worker_device_advise(load_model(worker, options, error), worker->device,
                             ADVICE_LESS_WEIGHTS, error));
    TRY(worker_choose_context(worker->config, options->max_context_tokens, error,
                              &worker->context_tokens));
    TRY(set_geometry(worker, options, error));
    assert(numerics_is_id(worker->identity.geometry.numerics));
    log_info("numerics %s", worker->identity.geometry.numerics);
    TRY(worker_adapters_load(worker, options, error));
    TRY(worker_tier_open(worker, options, error));
    TRY(worker_device_advise(create_forward(worker, options, error), worker->device,
                             worker_device_less_work(options), error));
    TRY(worker_draft_load(worker, options, error));
    const struct kv_taken taken = worker_measured_bytes(worker, options);
    TRY(worker_plan_blocks(worker, options, &taken, error));
    TRY(worker_device_advise(open_transport(worker, options, error), worker->device, ADVICE_LESS_KV,
                             error));
    block_pool_scrub(worker->pool, options->kv_scrub ? set_to_zero : NULL);
    block_pool_copy_by(worker->pool, copy_on_device, worker->device);
    TRY(worker_device_advise(forward_attach(worker->forward, worker->pool, error), worker->device,
                             worker_device_less_work(options), error));
    set_identity(worker);
    TRY(create_desk(worker, options));
    return set_card(worker, options, error);
}

enum status worker_load_shape(struct worker *worker, const struct worker_options *options,
                              struct error *error)
{
    const struct worker_kernels kernels = worker_kernels_configured(worker, options);
    struct model_options model = model_options(worker, options, &kernels);
    TRY(worker_note_room(worker, options, error));
    model.without_weights = true;
    if (!worker->device && strcmp(worker_device_name(options), "cpu") != 0)
        model.attention_kernels = ""; /* worker_device_check has checked them as far as possible */
    TRY(model_load(options->folder, &model, error, &worker->model));
    worker->config = model_get_config(worker->model);
    TRY(worker_choose_context(worker->config, options->max_context_tokens, error,
                              &worker->context_tokens));
    TRY(set_geometry(worker, options, error));
    TRY(worker_adapters_load(worker, options, error));
    TRY(worker_tier_fits(worker, options, error));
    TRY(worker_draft_check(worker, options, error));
    const struct worker_step step = worker_step_of(worker, options);
    const struct forward_options forward = worker_forward_options(&worker->identity.geometry,
                                                                  &step);
    TRY(attention_check_all(worker->model, &forward, error));
    struct kv_taken taken = worker_computed_bytes(worker, options);
    if (worker_device_memory(worker->device) > 0) {
        TRY(worker_paper_take(worker, options, &step, error));
        taken.device_bytes = device_bytes_taken(worker->device);
    }
    TRY(worker_plan_blocks(worker, options, &taken, error));
    return set_tokenizer_digest(&worker->card, options->folder, error);
}

enum status worker_check(const struct worker_options *options, const char *control_address,
                         struct error *error)
{
    struct worker worker = {0};
    struct driver_options wanted = {
        .net_devices = worker_net_devices(options->ucx_net_devices, control_address),
        .port_range = options->ucx_port_range,
    };
    TRY(check_rows(options, error));
    TRY(worker_kv_driver(options, wanted.net_devices, &wanted.driver, error));
    TRY(driver_check(&wanted, error));
    enum status status = worker_load_shape(&worker, options, error);
    kv_scales_finish(&worker.kv_scales);
    adapter_set_destroy(worker.adapters);
    worker_draft_unload(&worker);
    model_destroy(worker.model);
    return status;
}

void worker_tell_memory(const struct worker *worker)
{
    const struct device *device = worker->device;
    log_event(LOG_INFO, NULL, "device memory", LOG_TEXT("device", device_name(device)),
              LOG_U64("kv_bytes", device_bytes(device, DEVICE_KV)),
              LOG_U64("activation_bytes", device_bytes(device, DEVICE_ACTIVATIONS)),
              LOG_U64("staging_bytes", device_bytes(device, DEVICE_STAGING)),
              LOG_U64("weight_bytes", device_bytes(device, DEVICE_WEIGHTS)),
              LOG_U64("workspace_bytes", device_bytes(device, DEVICE_WORKSPACE)),
              LOG_U64("mapped_weight_bytes", model_mapped_bytes(worker->model)));
}

bool worker_is_lost(const struct worker *worker)
{
    return worker->device && device_is_lost(worker->device);
}

void worker_unload(struct worker *worker)
{
    constraint_desk_destroy(worker->desk);
    worker_tier_close(worker);
    worker_draft_unload(worker);
    forward_destroy(worker->forward);
    block_pool_destroy(worker->pool);
    if (worker->transport) /* first: until then other processes may have the pool mapped */
        worker->transport->ops->close(worker->transport);
    if (worker->device)
        device_free(worker->device, &worker->pool_memory);
    thread_pool_destroy(worker->threads);
    kv_scales_finish(&worker->kv_scales);
    adapter_set_destroy(worker->adapters);
    model_destroy(worker->model);
    if (worker->device)
        device_close_products(worker->device);
    device_close(worker->device);
    *worker = (struct worker){0};
}

void worker_fill_state(const struct worker *worker, const uint32_t blocks[BLOCK_STATES],
                       struct process_state *state_out)
{
    state_out->blocks = (struct process_blocks){
        .all = worker->n_blocks,
        .free = blocks[BLOCK_FREE],
        .active = blocks[BLOCK_ACTIVE],
        .cached = blocks[BLOCK_CACHED],
        .pinned = blocks[BLOCK_PINNED],
        .inbound = blocks[BLOCK_INBOUND],
        .quarantined = blocks[BLOCK_QUARANTINED],
    };
    uint32_t n_blocks = 0;
    for (enum block_state state = 0; state < BLOCK_STATES; state++)
        n_blocks += blocks[state];
    assert(n_blocks == worker->n_blocks && "each block is in one state");
    state_out->model = worker->card;
    state_out->model.n_adapters = adapter_set_list(worker->adapters, state_out->model.adapters);
    state_out->kernels = worker->kernels;
    state_out->streams_per_connection = worker->process->options.streams_per_connection_max;
    snprintf(state_out->transport, sizeof state_out->transport, "%s", worker->identity.transport);
    state_out->kv_convert = worker->kv_convert;
    if (worker->allow_numerics)
        snprintf(state_out->allow_numerics, sizeof state_out->allow_numerics, "%s",
                 worker->allow_numerics);
}
