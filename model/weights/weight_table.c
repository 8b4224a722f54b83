#include "model/weights/weight_table.h"

#include <inttypes.h>
#include <stddef.h>
#include <stdio.h>
#include <string.h>

#define NAME_BYTES_MAX 128

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

/* The names of the decoder's tensors begin with this. A model that was saved without its head has names without it;
 * Transformers accepts both. */
static const char PREFIX[] = "model.";

static const struct tensor_row MODEL_TENSORS[] = {
    {WEIGHT_EMBEDDING, offsetof(struct weights, embedding), DIM_VOCABULARY, DIM_HIDDEN, ALWAYS},
    {"model.norm.weight", offsetof(struct weights, norm), DIM_HIDDEN, DIM_NONE, ALWAYS},
};

/* Required unless the head is tied; bound if it is in the files. */
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

/* ---- finding tensors ---- */

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

enum status weight_table_bind(struct weight_binding *binding, struct error *error)
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
