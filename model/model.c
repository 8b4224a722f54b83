#include "model/model.h"

#include "base/hash.h"
#include "base/log/log.h"
#include "base/text.h"
#include "device/device.h"
#include "kernels/kernels.h"
#include "model/kernel_choice.h"
#include "model/placed_weights.h"
#include "model/quantized_weights.h"
#include "model/weight_digest.h"
#include "model/weights.h"

#include <assert.h>
#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 128

struct model {
    struct model_config config;
    struct kernel_choice choice;
    struct weight_files files;
    struct weights weights;
    enum dtype file_dtype; /* of the first layer's K projection, before it may be quantised */
    struct quantized_weights quantized;
    struct device *device;        /* NULL: any that reads the host's memory */
    struct placed_weights placed; /* on another: with no file and nothing quantised behind it */
    bool *is_used;                /* [files.n_entries] */
    uint64_t n_parameters;
    uint64_t weight_bytes;
    struct hash128 digest;
};

/* ---- which tensors there must be ---- */

#define WEIGHT_EMBEDDING "model.embed_tokens.weight"
#define WEIGHT_HEAD      "lm_head.weight"

/* What a table of tensors is bound to, and how much of it. */
struct weight_binding {
    const struct model_config *config;
    const struct weight_files *files;
    struct weights *weights; /* layers: [config->n_layers] */
    bool *is_used;           /* [files->n_entries] */
    uint64_t n_parameters;   /* of what was bound; so are the bytes of the files */
    uint64_t bytes;
};

enum dimension { DIM_NONE, DIM_HIDDEN, DIM_Q, DIM_KV, DIM_HEAD, DIM_FFN, DIM_VOCABULARY };
enum condition { ALWAYS, IF_QKV_BIAS, IF_O_BIAS, IF_MLP_BIAS, IF_QK_NORM };

struct tensor_row {
    const char *name;
    size_t offset; /* in layer_weights, or in weights */
    enum dimension rows, columns;
    enum condition condition;
};

#define LAYER_TENSOR(name, member, rows, columns, condition)                                       \
    {                                                                                              \
        name, offsetof(struct layer_weights, member), rows, columns, condition                     \
    }

static const struct tensor_row LAYER_TENSORS[] = {
    LAYER_TENSOR("input_layernorm.weight", attention_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER_TENSOR("self_attn.q_proj.weight", q, DIM_Q, DIM_HIDDEN, ALWAYS),
    LAYER_TENSOR("self_attn.k_proj.weight", k, DIM_KV, DIM_HIDDEN, ALWAYS),
    LAYER_TENSOR("self_attn.v_proj.weight", v, DIM_KV, DIM_HIDDEN, ALWAYS),
    LAYER_TENSOR("self_attn.q_proj.bias", q_bias, DIM_Q, DIM_NONE, IF_QKV_BIAS),
    LAYER_TENSOR("self_attn.k_proj.bias", k_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS),
    LAYER_TENSOR("self_attn.v_proj.bias", v_bias, DIM_KV, DIM_NONE, IF_QKV_BIAS),
    LAYER_TENSOR("self_attn.q_norm.weight", q_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    LAYER_TENSOR("self_attn.k_norm.weight", k_norm, DIM_HEAD, DIM_NONE, IF_QK_NORM),
    LAYER_TENSOR("self_attn.o_proj.weight", o, DIM_HIDDEN, DIM_Q, ALWAYS),
    LAYER_TENSOR("self_attn.o_proj.bias", o_bias, DIM_HIDDEN, DIM_NONE, IF_O_BIAS),
    LAYER_TENSOR("post_attention_layernorm.weight", mlp_norm, DIM_HIDDEN, DIM_NONE, ALWAYS),
    LAYER_TENSOR("mlp.gate_proj.weight", gate, DIM_FFN, DIM_HIDDEN, ALWAYS),
    LAYER_TENSOR("mlp.up_proj.weight", up, DIM_FFN, DIM_HIDDEN, ALWAYS),
    LAYER_TENSOR("mlp.down_proj.weight", down, DIM_HIDDEN, DIM_FFN, ALWAYS),
    LAYER_TENSOR("mlp.gate_proj.bias", gate_bias, DIM_FFN, DIM_NONE, IF_MLP_BIAS),
    LAYER_TENSOR("mlp.up_proj.bias", up_bias, DIM_FFN, DIM_NONE, IF_MLP_BIAS),
    LAYER_TENSOR("mlp.down_proj.bias", down_bias, DIM_HIDDEN, DIM_NONE, IF_MLP_BIAS),
};

/* What the decoder's tensors begin with; a model that was saved without its head has them bare, and Transformers
 * finds them all the same. */
static const char PREFIX[] = "model.";

static const struct tensor_row MODEL_TENSORS[] = {
    {WEIGHT_EMBEDDING, offsetof(struct weights, embedding), DIM_VOCABULARY, DIM_HIDDEN, ALWAYS},
    {"model.norm.weight", offsetof(struct weights, norm), DIM_HIDDEN, DIM_NONE, ALWAYS},
};

/* Wanted unless it is tied, bound wherever it is. */
static const struct tensor_row HEAD = {WEIGHT_HEAD, offsetof(struct weights, head), DIM_VOCABULARY,
                                       DIM_HIDDEN, ALWAYS};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static uint64_t dimension_size(const struct model_config *config, enum dimension dimension)
{
    switch (dimension) {
    case DIM_HIDDEN:
        return config->hidden;
    case DIM_Q:
        return (uint64_t)config->n_heads * config->head_dim;
    case DIM_KV:
        return (uint64_t)config->n_kv_heads * config->head_dim;
    case DIM_HEAD:
        return config->head_dim;
    case DIM_FFN:
        return config->ffn;
    case DIM_VOCABULARY:
        return config->vocabulary;
    case DIM_NONE:
        break;
    }
    return 1;
}

static bool is_wanted(const struct model_config *config, enum condition condition)
{
    switch (condition) {
    case IF_QKV_BIAS:
        return config->qkv_bias;
    case IF_O_BIAS:
        return config->o_bias;
    case IF_MLP_BIAS:
        return config->mlp_bias;
    case IF_QK_NORM:
        return config->qk_norm;
    case ALWAYS:
        break;
    }
    return true;
}

/* ---- finding them ---- */

static void print_shape(char *text, size_t text_max, const uint64_t *shape, uint32_t n_dims)
{
    size_t length = 0;
    text[0] = '\0';
    for (uint32_t i = 0; i < n_dims && length < text_max; i++)
        length += (size_t)snprintf(text + length, text_max - length, "%s%" PRIu64, i ? ", " : "",
                                   shape[i]);
}

static enum status check_shape(const struct weight_entry *entry, const uint64_t *expected,
                               uint32_t n_dims, struct error *error)
{
    const struct safetensor *tensor = entry->tensor;
    bool is_equal = tensor->n_dims == n_dims;
    for (uint32_t i = 0; is_equal && i < n_dims; i++)
        is_equal = tensor->shape[i] == expected[i];
    if (is_equal)
        return STATUS_OK;
    char is[64], wanted[64];
    print_shape(is, sizeof is, tensor->shape, tensor->n_dims);
    print_shape(wanted, sizeof wanted, expected, n_dims);
    return error_set(error, STATUS_CORRUPT, "%.60s: tensor %.100s has shape [%s], expected [%s]",
                     entry->shard->name, tensor->name, is, wanted);
}

static enum status to_dtype(const struct weight_entry *entry, enum dtype *dtype_out,
                            struct error *error)
{
    switch (entry->tensor->dtype) {
    case SAFETENSORS_F32:
        *dtype_out = DTYPE_F32;
        return STATUS_OK;
    case SAFETENSORS_BF16:
        *dtype_out = DTYPE_BF16;
        return STATUS_OK;
    case SAFETENSORS_F16:
        *dtype_out = DTYPE_F16;
        return STATUS_OK;
    default:
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.80s: tensor %.120s has dtype %s, supported are F32, BF16 and F16",
                         entry->shard->name, entry->tensor->name,
                         safetensors_dtype_name(entry->tensor->dtype));
    }
}

static const struct weight_entry *find_tensor(const struct weight_binding *binding,
                                              const char *name)
{
    bool is_bare = !weight_files_find(binding->files, WEIGHT_EMBEDDING);
    bool has_prefix = strncmp(name, PREFIX, sizeof PREFIX - 1) == 0;
    return weight_files_find(binding->files,
                             is_bare && has_prefix ? name + sizeof PREFIX - 1 : name);
}

static enum status bind(struct weight_binding *binding, const char *name,
                        const struct tensor_row *row, void *place, struct error *error)
{
    struct tensor *tensor = (struct tensor *)(void *)((char *)place + row->offset);
    if (!is_wanted(binding->config, row->condition))
        return STATUS_OK;
    const struct weight_entry *entry = find_tensor(binding, name);
    uint64_t shape[2] = {dimension_size(binding->config, row->rows),
                         dimension_size(binding->config, row->columns)};
    uint32_t n_dims = row->columns == DIM_NONE ? 1 : 2;
    if (!entry) {
        char wanted[64];
        print_shape(wanted, sizeof wanted, shape, n_dims);
        return error_set(error, STATUS_CORRUPT, "tensor %s is missing, expected with shape [%s]",
                         name, wanted);
    }
    TRY(check_shape(entry, shape, n_dims, error));
    TRY(to_dtype(entry, &tensor->dtype, error));
    tensor->data = entry->tensor->data;
    tensor->n_out = (uint32_t)shape[0]; /* the bounds of model_config.h are far below 2^32 */
    tensor->n_in = (uint32_t)shape[1];
    binding->is_used[entry - binding->files->entries] = true;
    binding->n_parameters += shape[0] * shape[1];
    binding->bytes += entry->tensor->bytes;
    return STATUS_OK;
}

static enum status weight_table_bind(struct weight_binding *binding, struct error *error)
{
    char name[NAME_BYTES_MAX];
    for (size_t i = 0; i < COUNT(MODEL_TENSORS); i++)
        TRY(bind(binding, MODEL_TENSORS[i].name, &MODEL_TENSORS[i], binding->weights, error));
    if (binding->config->tied_embeddings && !weight_files_find(binding->files, WEIGHT_HEAD))
        binding->weights->head = binding->weights->embedding;
    else
        TRY(bind(binding, WEIGHT_HEAD, &HEAD, binding->weights, error));
    for (uint32_t layer = 0; layer < binding->config->n_layers; layer++) {
        for (size_t i = 0; i < COUNT(LAYER_TENSORS); i++) {
            snprintf(name, sizeof name, "model.layers.%u.%s", layer, LAYER_TENSORS[i].name);
            TRY(bind(binding, name, &LAYER_TENSORS[i], &binding->weights->layers[layer], error));
        }
        if (binding->weights->layers[layer].q_norm.dtype !=
            binding->weights->layers[layer].k_norm.dtype)
            return error_set(error, STATUS_UNSUPPORTED,
                             "tensors model.layers.%u.self_attn.q_norm.weight and k_norm.weight "
                             "differ in dtype",
                             layer);
    }
    return STATUS_OK;
}

/* ---- what is left over ---- */

/* Buffers that old versions of Transformers saved. */
static bool is_known_leftover(const char *name)
{
    return text_ends_with(name, ".rotary_emb.inv_freq") ||
           text_ends_with(name, ".self_attn.bias") ||
           text_ends_with(name, ".self_attn.masked_bias");
}

static void warn_leftovers(const struct model *model)
{
    uint32_t n = 0;
    const char *first = NULL;
    for (uint32_t i = 0; i < model->files.n_entries; i++) {
        const char *name = model->files.entries[i].tensor->name;
        if (model->is_used[i] || is_known_leftover(name))
            continue;
        first = first ? first : name;
        n++;
    }
    if (n > 0)
        log_event(LOG_WARN, NULL, "tensors not used by this architecture", LOG_U64("n", n),
                  LOG_TEXT("first", first));
}

/* ---- the model ---- */

/* Everything of the config that the results depend on. */
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
        config->qk_norm,
        config->tied_embeddings,
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
    return hash128_chain(&KEY, digest, config->windows, config->n_layers * sizeof *config->windows);
}

/* Names, types, shapes and bytes of the tensors that are used, by name: not by where they lie. */
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

/* Reading, then quantising, then copying, as one progress: copies count as what was read for them. */
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

/* A device with memory of its own has copies, and nothing looks at the originals again. */
static enum status place_weights(struct model *model, struct load_steps *steps, struct error *error)
{
    const struct placed_weights_options options = {
        .device = steps->options->device,
        .on_progress = steps->copied_bytes > 0 && steps->options->on_progress ? show_copied : NULL,
        .arg = steps,
    };
    TRY(placed_weights_make(&options, &model->weights, model->config.n_layers, &model->placed,
                            error));
    if (device_reads_host(options.device))
        return STATUS_OK;
    assert(model->placed.in_place_bytes == 0);
    weight_files_close(&model->files);
    quantized_weights_finish(&model->quantized);
    return STATUS_OK;
}

/* Of the file's, with quantised matrices in place of its own; a tied embedding is there beside. */
static uint64_t kept_bytes(const struct model *model)
{
    const struct tensor *embedding = &model->weights.embedding;
    uint64_t bytes = model->weight_bytes -
                     quantized_weights_source_bytes(&model->weights, model->config.n_layers);
    if (model->config.tied_embeddings)
        bytes += (uint64_t)embedding->n_out * embedding->n_in * dtype_bytes(embedding->dtype);
    return bytes;
}

static enum status quantize_weights(struct model *model, struct load_steps *steps,
                                    struct error *error)
{
    static const struct hash_key KEY = {{0}};
    const uint32_t format = steps->options->weights;
    const bool is_showing = steps->options->on_progress;
    model->weight_bytes = kept_bytes(model);
    const struct quantized_weights_options options = {
        .format = steps->options->weights,
        .kernels = model->choice.products,
        .threads = steps->options->threads,
        .on_progress = is_showing ? show_quantized : NULL,
        .arg = steps,
    };
    TRY(quantized_weights_make(&options, &model->weights, model->config.n_layers, &model->quantized,
                               error));
    model->weight_bytes += model->quantized.bytes;
    model->digest = hash128_chain(&KEY, model->digest, &format, sizeof format);
    return STATUS_OK;
}

/* A head of the file's own beside embeddings that the config ties it to: as in Transformers 5 it is the
 * head, unless it is the same, which needs no memory of its own. */
static void choose_head(struct model *model, const struct hash128 *of_bytes)
{
    struct weights *weights = &model->weights;
    const struct weight_entry *head = weight_files_find(&model->files, WEIGHT_HEAD);
    if (!model->config.tied_embeddings || !head)
        return;
    const struct weight_entry *embedding = weight_files_find(&model->files, WEIGHT_EMBEDDING);
    const size_t at = (size_t)(head - model->files.entries);
    if (weights->head.dtype != weights->embedding.dtype ||
        !hash128_equal(of_bytes[at], of_bytes[embedding - model->files.entries])) {
        log_warn(
            "config.json ties the head to the embeddings; %s of the files differs from them and "
            "is the head",
            WEIGHT_HEAD);
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
        steps.quantized_bytes = quantized_weights_source_bytes(&model->weights,
                                                               model->config.n_layers);
    TRY(read_weights(model, &steps, error));
    if (options->weights != WEIGHTS_AUTO)
        TRY(quantize_weights(model, &steps, error));
    return options->device ? place_weights(model, &steps, error) : STATUS_OK;
}

static enum status load(struct model *model, const char *folder,
                        const struct model_options *options, struct error *error)
{
    static const struct model_options DEFAULTS = {0};
    if (!options)
        options = &DEFAULTS;
    TRY(kernel_choice_make(kernel_choice_is_own(options->device), options->cpu_kernels,
                           options->attention_kernels, error, &model->choice));
    TRY(model_config_read(folder, &model->config, error));
    TRY(weight_files_open(folder, &model->files, error));
    model->is_used = calloc(model->files.n_entries + 1, sizeof *model->is_used);
    model->weights.layers = calloc(model->config.n_layers, sizeof *model->weights.layers);
    if (!model->is_used || !model->weights.layers)
        return STATUS_NO_MEMORY;
    struct weight_binding binding = {.config = &model->config,
                                     .files = &model->files,
                                     .weights = &model->weights,
                                     .is_used = model->is_used};
    TRY(weight_table_bind(&binding, error));
    model->n_parameters = binding.n_parameters;
    model->weight_bytes = binding.bytes;
    model->device = options->device;
    model->file_dtype = model->weights.layers[0].k.dtype; /* n_layers >= 1: model_config.h */
    warn_leftovers(model);
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
    free(model->weights.layers);
    free(model->is_used);
    placed_weights_finish(&model->placed);
    quantized_weights_finish(&model->quantized);
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
    TRY(quantized_weights_bytes(weights, &model->weights, model->config.n_layers, &bytes, error));
    *bytes_out = kept_bytes(model) + bytes;
    return STATUS_OK;
}

uint64_t model_mapped_bytes(const struct model *model)
{
    bool is_copied = model->device && !device_reads_host(model->device);
    return is_copied ? 0 : model->weight_bytes - model->quantized.bytes;
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
