#include "model/model.h"

#include "base/hash.h"
#include "base/log/log.h"
#include "device/device.h"
#include "gguf/gguf_file.h"
#include "kernels/kernels.h"
#include "model/config/attention_windows.h"
#include "model/config/config_file.h"
#include "model/config/encoder_config.h"
#include "model/config/families.h"
#include "model/config/kv_layers.h"
#include "model/config/suppressed_tokens.h"
#include "model/config/unequal_layers.h"
#include "model/kernel_choice.h"
#include "model/weights/encoder_table.h"
#include "model/weights/kv_scales.h"
#include "model/weights/leftover_tensors.h"
#include "model/weights/placed_weights.h"
#include "model/weights/quantized_weights.h"
#include "model/weights/rearranged_weights.h"
#include "model/weights/shared_embeddings.h"
#include "model/weights/weight_digest.h"
#include "model/weights/weight_table.h"
#include "model/weights/weights.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

struct model {
    struct model_config config;
    struct kernel_choice choice;
    struct weight_files files;
    struct weights weights;
    enum dtype file_dtype; /* of the first layer's K projection, before it may be quantized */
    const struct weight_entry *embedding, *head; /* in the files; head NULL: none */
    struct rearranged_weights rearranged;
    struct quantized_weights quantized;
    struct device *device;        /* NULL: any that reads the host's memory */
    struct kv_scales kv_scales;   /* of the files */
    struct error kv_scales_error; /* why they cannot be used; "": they can, or there are none */
    struct placed_weights placed; /* the copies on any other device; then no file is mapped */
    bool *is_used;                /* [files.n_entries] */
    uint64_t n_parameters;
    uint64_t weight_bytes;
    struct hash128 digest;
};

static uint32_t n_experts(const struct model *model)
{
    return model->config.experts.routing.n_experts;
}

enum { BEYOND_LLAMA = 39 };

/* What a decoder has beyond that of Llama and its norms of Q and K: all zero if it has nothing. */
static bool is_beyond_llama(const struct model_config *config, double values[BEYOND_LLAMA])
{
    const struct decoder *decoder = &config->decoder;
    const double found[BEYOND_LLAMA] = {
        decoder->norm,
        decoder->norm_place,
        decoder->norms_have_no_weights,
        decoder->norms_have_bias,
        decoder->residual,
        (double)decoder->residual_scale,
        decoder->qkv_layout,
        decoder->is_transposed,
        decoder->qk_norm == QK_NORM_ROW         ? 1
        : decoder->qk_norm == QK_NORM_EACH_HEAD ? 2
                                                : 0,
        (double)decoder->attention_scale,
        (double)decoder->attention_cap,
        (double)decoder->alibi_scale,
        decoder->has_no_gate,
        decoder->is_gate_up_fused,
        decoder->activation,
        (double)decoder->embedding_scale,
        decoder->has_embedding_norm,
        decoder->has_positions,
        decoder->position_offset,
        (double)decoder->logit_scale,
        (double)decoder->logit_cap,
        decoder->has_head_bias,
        config->rope.rotary_dim,
        config->rope.is_interleaved,
        config->rope_local.theta - config->rope.theta,
        (double)config->rope_local.scaling - (double)config->rope.scaling,
        config->has_sinks,
        config->experts.routing.n_experts,
        config->experts.routing.top_k,
        config->experts.routing.score,
        config->experts.routing.renormalise,
        config->experts.n_inner,
        config->experts.n_shared_inner,
        config->has_shared_scale,
        (double)config->experts.alpha,
        (double)config->experts.beta,
        (double)config->experts.limit,
        (double)decoder->query_growth,
        decoder->query_positions,
    };
    bool is_beyond = decoder->has_output_gate || decoder->latent.dim > 0;
    for (uint32_t i = 0; i < BEYOND_LLAMA; i++) {
        values[i] = found[i];
        is_beyond |= found[i] != 0;
    }
    for (uint32_t i = 0; i < config->n_layers; i++)
        is_beyond |= config->layer_ropes[i] != ROPE_MAIN || config->is_recurrent[i];
    return is_beyond;
}

/* The digest of a decoder without latents stays as it is. */
static struct hash128 digest_latents(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key KEY = {{0}};
    const struct latent_shape *latent = &config->decoder.latent;
    const struct moe_routing *routing = &config->experts.routing;
    if (latent->dim == 0)
        return digest;
    const double values[] = {
        latent->dim,          latent->rope_dim,           latent->nope_dim,  latent->v_dim,
        latent->q_rank,       (double)routing->scale,     routing->n_groups, routing->top_groups,
        routing->group_score, config->has_selection_bias,
    };
    return hash128_chain(&KEY, digest, values, sizeof values);
}

/* That of a decoder without these stays as it is. */
static struct hash128 digest_recurrent(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key KEY = {{0}};
    const struct recurrent_sizes *sizes = &config->recurrent;
    const double values[] = {config->decoder.has_output_gate,
                             sizes->n_key_heads,
                             sizes->n_heads,
                             sizes->key_dim,
                             sizes->value_dim,
                             sizes->conv_width};
    if (!config->decoder.has_output_gate && kv_layers_recurrent(config) == 0)
        return digest;
    digest = hash128_chain(&KEY, digest, values, sizeof values);
    digest = hash128_chain(&KEY, digest, config->is_recurrent, config->n_layers);
    const bool storage[] = {sizes->heads_are_tiled, sizes->decays_are_rates, sizes->qkvz_is_apart};
    return storage[0] || storage[1] || storage[2]
               ? hash128_chain(&KEY, digest, storage, sizeof storage)
               : digest;
}

/* The digest of a decoder like Llama's stays as it is. */
static struct hash128 digest_decoder(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key KEY = {{0}};
    double values[BEYOND_LLAMA];
    if (!is_beyond_llama(config, values))
        return digest;
    digest = hash128_chain(&KEY, digest, values, sizeof values);
    digest = hash128_chain(&KEY, digest, config->has_experts, config->n_layers);
    digest = digest_latents(config, digest);
    digest = hash128_chain(&KEY, digest, config->layer_ropes, config->n_layers);
    digest = digest_recurrent(config, digest);
    return encoder_digest(config, unequal_layers_digest(config, digest));
}

/* Kernels of a device compute decoders like Llama's alone. */
static enum status check_device(const char *folder, const struct weight_binding *binding,
                                enum weight_format weights, const struct device *device,
                                struct error *error)
{
    const struct model_config *config = binding->config;
    double values[BEYOND_LLAMA];
    if (!kernel_choice_is_own(device))
        return STATUS_OK;
    if (weight_format_is_blocks(weights))
        return error_set(error, STATUS_UNSUPPORTED,
                         "weights is %s, which is computed on the CPU alone, not on %s: use int8",
                         weights == WEIGHTS_Q8 ? "q8" : "q4", device_name(device));
    if (gguf_is(folder))
        return error_set(error, STATUS_UNSUPPORTED,
                         "GGUF files are computed on the CPU alone, not on %s: run it without "
                         "--device",
                         device_name(device));
    if (config->quantization.method == QUANTIZATION_MXFP4 || binding->n_quantized > 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.200s is quantized (quantization_config): such models are computed on "
                         "the CPU alone, not on %s: run it without --device",
                         folder, device_name(device));
    if (!is_beyond_llama(config, values))
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s is computed on the CPU alone, not on %s: run it without --device",
                     model_family_name(config->family), device_name(device));
}

/* All values of the config on which the results depend. */
static struct hash128 digest_config(const struct model_config *config)
{
    static const struct hash_key KEY = {{0}};
    const struct rope_config *rope = &config->rope;
    const double values[] = {
        config->family,
        config->hidden,
        config->n_layers,
        config->n_heads,
        config->n_kv_heads,
        config->head_dim,
        config->ffn,
        config->vocabulary,
        config->context_tokens,
        (double)config->norm_eps,
        config->qkv_bias,
        config->o_bias,
        config->mlp_bias,
        config->decoder.qk_norm != QK_NORM_NONE,
        config->tied_embeddings,
        config->quantization.method,
        config->quantization.zero_is_less_one,
        rope->theta,
        rope->scaling,
        rope->factor,
        rope->original_positions,
        rope->low_freq_factor,
        rope->high_freq_factor,
        rope->attention_factor,
        rope->mscale,
        rope->mscale_all_dim,
        rope->beta_fast,
        rope->beta_slow,
        rope->no_truncate,
    };
    struct hash128 digest = hash128_of(&KEY, values, sizeof values);
    if (rope->scaling == ROPE_LONGROPE) {
        const struct rope_factors *factors = &config->rope_factors;
        digest = hash128_chain(&KEY, digest,
                               factors->is_long ? factors->long_ones : factors->short_ones,
                               factors->n * sizeof *factors->long_ones);
    }
    digest = hash128_chain(&KEY, digest, config->windows,
                           config->n_layers * sizeof *config->windows);
    return suppressed_tokens_digest(config, digest_decoder(config, digest));
}

/* Digests name, type, shape and bytes of each used tensor, in the order of names: the place in the files has no effect. */
static struct hash128 digest_weights(const struct model *model, const struct hash128 *of_bytes)
{
    static const struct hash_key KEY = {{0}};
    struct hash128 digest = digest_config(&model->config);
    for (uint32_t i = 0; i < model->files.n_entries; i++) {
        if (!model->is_used[i])
            continue;
        const struct safetensor *tensor = model->files.entries[i].tensor;
        uint64_t rest[4 + TENSOR_DIMS_MAX] = {(uint64_t)tensor->dtype, tensor->n_dims,
                                              of_bytes[i].lo, of_bytes[i].hi};
        memcpy(rest + 4, tensor->shape, sizeof tensor->shape);
        digest = hash128_chain(&KEY, digest, tensor->name, strlen(tensor->name));
        digest = hash128_chain(&KEY, digest, rest, sizeof rest);
    }
    return digest;
}

/* One progress for reading, quantizing and copying. A copy counts as many bytes as were read for it. */
struct load_steps {
    const struct model_options *options;
    uint64_t bytes_before, quantized_bytes, copied_bytes, bytes_all;
};

static void show_read(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    struct load_steps *steps = arg;
    steps->bytes_before = bytes_all;
    steps->bytes_all = bytes_all + steps->quantized_bytes + steps->copied_bytes;
    steps->options->on_progress(steps->options->arg, bytes_done, steps->bytes_all);
}

static void show_quantized(void *arg, uint64_t bytes_done)
{
    const struct load_steps *steps = arg;
    steps->options->on_progress(steps->options->arg, steps->bytes_before + bytes_done,
                                steps->bytes_all);
}

static void show_copied(void *arg, uint64_t bytes_done, uint64_t bytes_all)
{
    const struct load_steps *steps = arg;
    double part = (double)bytes_done / (double)bytes_all;
    uint64_t left = steps->bytes_all - steps->copied_bytes;
    steps->options->on_progress(steps->options->arg,
                                bytes_done == bytes_all
                                    ? steps->bytes_all
                                    : left + (uint64_t)(part * (double)steps->copied_bytes),
                                steps->bytes_all);
}

/* A device with its own memory gets copies. Then the originals are freed. */
static enum status place_weights(struct model *model, struct load_steps *steps, struct error *error)
{
    const struct placed_weights_options options = {
        .device = steps->options->device,
        .on_progress = steps->copied_bytes > 0 && steps->options->on_progress ? show_copied : NULL,
        .arg = steps,
    };
    TRY(placed_weights_make(&options, &model->weights, model_all_layers(&model->config),
                            &model->placed, error));
    if (device_reads_host(options.device))
        return STATUS_OK;
    assert(model->placed.in_place_bytes == 0);
    weight_files_close(&model->files);
    quantized_weights_finish(&model->quantized);
    rearranged_weights_finish(&model->rearranged);
    return STATUS_OK;
}

/* The bytes of the weights that stay as they are in the files when the matrices are quantized. A tied embedding stays,
 * too, beside the quantized head. */
static uint64_t kept_bytes(const struct model *model, enum weight_format format)
{
    const struct tensor *embedding = &model->weights.embedding;
    uint64_t bytes = model->weight_bytes - quantized_weights_source_bytes(
                                               format, &model->weights,
                                               model_all_layers(&model->config), n_experts(model));
    if (model->config.tied_embeddings && quantized_weights_round_head(format, &model->weights))
        bytes += dtype_array_bytes(embedding->dtype, (size_t)embedding->n_out * embedding->n_in);
    return bytes;
}

static enum status quantize_weights(struct model *model, struct load_steps *steps,
                                    struct error *error)
{
    static const struct hash_key KEY = {{0}};
    const uint32_t format = steps->options->weights;
    const bool is_showing = steps->options->on_progress;
    model->weight_bytes = kept_bytes(model, steps->options->weights);
    const struct quantized_weights_options options = {
        .format = steps->options->weights,
        .kernels = model->choice.products,
        .threads = steps->options->threads,
        .on_progress = is_showing ? show_quantized : NULL,
        .arg = steps,
    };
    TRY(quantized_weights_make(&options, &model->weights, model_all_layers(&model->config),
                               n_experts(model), &model->quantized, error));
    model->weight_bytes += model->quantized.bytes;
    model->digest = hash128_chain(&KEY, model->digest, &format, sizeof format);
    return STATUS_OK;
}

/* The config ties the head to the embeddings, but the files have a head, too. As in Transformers 5, the head of the
 * files is used if it differs. If both are equal, the embeddings are used, which saves memory. */
static void choose_head(struct model *model, const struct hash128 *of_bytes)
{
    struct weights *weights = &model->weights;
    const struct weight_entry *head = model->head, *embedding = model->embedding;
    if (!model->config.tied_embeddings || !head)
        return;
    const size_t at = (size_t)(head - model->files.entries);
    if (weights->head.dtype != weights->embedding.dtype ||
        !hash128_equal(of_bytes[at], of_bytes[embedding - model->files.entries])) {
        log_info(
            "config.json ties the head to the embeddings; %s of the files differs from them and "
            "is the head",
            head->tensor->name);
        model->config.tied_embeddings = false;
        return;
    }
    weights->head = weights->embedding;
    model->is_used[at] = false;
    model->n_parameters -= (uint64_t)weights->head.n_out * weights->head.n_in;
    model->weight_bytes -= head->tensor->bytes;
    mapped_file_give_back(head->tensor->data, head->tensor->bytes);
}

static enum status read_weights(struct model *model, struct load_steps *steps, struct error *error)
{
    const struct weight_digest_options options = {
        .threads = steps->options->threads,
        .on_progress = steps->options->on_progress ? show_read : NULL,
        .arg = steps,
    };
    struct hash128 *of_bytes = calloc(model->files.n_entries + 1, sizeof *of_bytes);
    enum status status = STATUS_NO_MEMORY;
    if (of_bytes)
        status = weight_digest_read(&model->files, model->is_used, &options, of_bytes, error);
    if (status == STATUS_OK) {
        choose_head(model, of_bytes);
        model->digest = digest_weights(model, of_bytes);
    }
    free(of_bytes);
    return status;
}

static enum status load_weights(struct model *model, const struct model_options *options,
                                struct error *error)
{
    struct load_steps steps = {.options = options};
    if (options->device && !device_reads_host(options->device))
        steps.copied_bytes = model->weight_bytes;
    if (options->weights != WEIGHTS_AUTO)
        steps.quantized_bytes = quantized_weights_source_bytes(
            options->weights, &model->weights, model_all_layers(&model->config), n_experts(model));
    TRY(shared_embeddings_check(&model->config, &model->files, &model->weights.embedding, error));
    TRY(read_weights(model, &steps, error));
    TRY(rearranged_weights_make(options->threads, &model->weights, model_all_layers(&model->config),
                                n_experts(model), &model->rearranged, error));
    if (options->weights != WEIGHTS_AUTO)
        TRY(quantize_weights(model, &steps, error));
    return options->device ? place_weights(model, &steps, error) : STATUS_OK;
}

/* LongRoPE's factors, by the positions that are served. */
static void choose_rope(struct model_config *config, uint32_t context_tokens, bool is_quiet)
{
    const uint32_t served = context_tokens > 0 && context_tokens < config->context_tokens
                                ? context_tokens
                                : config->context_tokens;
    if (config->rope.scaling != ROPE_LONGROPE)
        return;
    config->rope_factors.is_long = served > config->rope.original_positions;
    if (config->rope_factors.is_long && !is_quiet)
        log_info("LongRoPE: %u tokens are served, so all prompts are rotated by long_factor; "
                 "with --max-context-tokens %u they are by short_factor",
                 served, config->rope.original_positions);
}

static enum status load(struct model *model, const char *folder,
                        const struct model_options *options, struct error *error)
{
    static const struct model_options DEFAULTS = {0};
    if (!options)
        options = &DEFAULTS;
    TRY(kernel_choice_make(kernel_choice_is_own(options->device), options->cpu_kernels,
                           options->attention_kernels, error, &model->choice));
    TRY(model_config_read(folder, options->is_quiet, &model->config, error));
    TRY(attention_windows_set(options->attention_window, options->force_window, &model->config,
                              error));
    choose_rope(&model->config, options->context_tokens, options->is_quiet);
    TRY(weight_files_open(folder, &model->files, error));
    model->is_used = calloc(model->files.n_entries + 1, sizeof *model->is_used);
    const uint32_t n_layers = model_all_layers(&model->config);
    model->weights.layers = calloc(n_layers, sizeof *model->weights.layers);
    model->weights.experts = calloc(n_layers, sizeof *model->weights.experts);
    if (!model->is_used || !model->weights.layers || !model->weights.experts)
        return STATUS_NO_MEMORY;
    struct weight_binding binding = {.config = &model->config,
                                     .files = &model->files,
                                     .weights = &model->weights,
                                     .is_used = model->is_used};
    TRY(weight_table_bind(&binding, error));
    TRY(encoder_table_bind(&binding, error));
    TRY(check_device(folder, &binding, options->weights, options->device, error));
    /* Only a cache of 8 bits needs them: then the worker says what is wrong. */
    const enum status scales = kv_scales_bind(&binding, &model->kv_scales, &model->kv_scales_error);
    if (scales != STATUS_OK && scales != STATUS_CORRUPT)
        return scales;
    model->n_parameters = binding.n_parameters;
    model->weight_bytes = binding.bytes;
    model->embedding = binding.embedding;
    model->head = binding.head;
    model->device = options->device;
    model->file_dtype = model->weights.layers[0].k.dtype; /* n_layers >= 1: model_config.h */
    if (model->file_dtype >
        DTYPE_F16) /* quantized: the type of the other tensors, or of the scales of blocks */
        model->file_dtype = model->weights.embedding.dtype <= DTYPE_F16
                                ? model->weights.embedding.dtype
                                : DTYPE_F16;
    if (!options->is_quiet)
        leftover_tensors_say(&model->config, &model->files, model->is_used);
    return options->without_weights ? STATUS_OK : load_weights(model, options, error);
}

enum status model_load(const char *folder, const struct model_options *options, struct error *error,
                       struct model **model_out)
{
    assert(folder && model_out);
    struct model *model = calloc(1, sizeof *model);
    if (!model)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a model");
    struct error cause = {""};
    enum status status = load(model, folder, options, &cause);
    if (status != STATUS_OK) {
        if (cause.text[0])
            error_set(error, status, "%s", cause.text);
        else if (status == STATUS_NO_MEMORY)
            error_set(error, status, "no memory for the tables of %.200s", folder);
        model_destroy(model);
        return status;
    }
    *model_out = model;
    return STATUS_OK;
}

void model_destroy(struct model *model)
{
    if (!model)
        return;
    for (uint32_t layer = 0; model->weights.experts && layer < model_all_layers(&model->config);
         layer++)
        free(model->weights.experts[layer]);
    free(model->weights.experts);
    free(model->weights.norm_rows);
    free(model->weights.layers);
    free(model->is_used);
    kv_scales_finish(&model->kv_scales);
    placed_weights_finish(&model->placed);
    quantized_weights_finish(&model->quantized);
    rearranged_weights_finish(&model->rearranged);
    weight_files_close(&model->files);
    free(model);
}

const struct kernels *model_kernels(const struct model *model)
{
    return model->choice.products;
}

const struct kernels *model_host_kernels(const struct model *model)
{
    return model->choice.host;
}

const struct attention_backend *model_attention(const struct model *model)
{
    return model->choice.attention;
}

struct device *model_device(const struct model *model)
{
    return model->device;
}

const struct model_config *model_get_config(const struct model *model)
{
    assert(model);
    return &model->config;
}

const struct weights *model_weights(const struct model *model)
{
    assert(model);
    return &model->weights;
}

const struct kv_scales *model_kv_scales(const struct model *model)
{
    assert(model);
    return &model->kv_scales;
}

const char *model_kv_scales_error(const struct model *model)
{
    assert(model);
    return model->kv_scales_error.text;
}

uint64_t model_parameters(const struct model *model)
{
    return model->n_parameters;
}

uint64_t model_weight_bytes(const struct model *model)
{
    return model->weight_bytes;
}

enum status model_planned_bytes(const struct model *model, enum weight_format weights,
                                uint64_t *bytes_out, struct error *error)
{
    uint64_t bytes = 0;
    if (weights == WEIGHTS_AUTO) {
        *bytes_out = model->weight_bytes;
        return STATUS_OK;
    }
    TRY(quantized_weights_bytes(weights, &model->weights, model_all_layers(&model->config),
                                n_experts(model), &bytes, error));
    *bytes_out = kept_bytes(model, weights) + bytes;
    return STATUS_OK;
}

uint64_t model_mapped_bytes(const struct model *model)
{
    bool is_copied = model->device && !device_reads_host(model->device);
    const uint64_t made = model->quantized.bytes > 0 ? model->quantized.bytes
                                                     : model->rearranged.bytes;
    return is_copied || made > model->weight_bytes ? 0 : model->weight_bytes - made;
}

enum dtype model_weight_dtype(const struct model *model)
{
    return model->file_dtype;
}

void model_digest(const struct model *model, uint64_t digest_out[2])
{
    digest_out[0] = model->digest.lo;
    digest_out[1] = model->digest.hi;
}
