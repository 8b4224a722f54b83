#include "model/weights/weight_table.h"

#include "model/config/encoder_config.h"
#include "model/weights/quantized_files.h"
#include "model/weights/recurrent_parts.h"
#include "model/weights/shared_embeddings.h"
#include "model/weights/tensor_names.h"

#include <inttypes.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 128
#define COUNT(array)   (sizeof(array) / sizeof *(array))

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
        if (safetensors_is_blocks(entry->tensor->dtype)) {
            *dtype_out = safetensors_block_dtype(entry->tensor->dtype);
            return STATUS_OK;
        }
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.80s: tensor %.120s has dtype %s, supported are F32, BF16 and F16",
                         entry->shard->name, entry->tensor->name,
                         safetensors_dtype_name(entry->tensor->dtype));
    }
}

/* ---- where the rows of a tensor lie in the one of the files ---- */

static uint64_t size_of(const struct weight_binding *binding, enum dimension dimension)
{
    return dimension_size(binding->config, binding->layer, dimension);
}

static uint64_t rows_in_file(const struct weight_binding *binding, const struct tensor_row *row)
{
    const struct model_config *config = binding->config;
    switch (row->part) {
    case PART_Q:
    case PART_K:
    case PART_V:
        return size_of(binding, DIM_Q) + 2 * size_of(binding, DIM_KV);
    case PART_GATE:
    case PART_UP:
        return 2 * size_of(binding, row->rows);
    case PART_UK:
    case PART_UV:
        return (uint64_t)config->n_heads *
               (config->decoder.latent.nope_dim + config->decoder.latent.v_dim);
    default:
        break;
    }
    return size_of(binding, row->rows);
}

/* kv_b_proj has W_uk and W_uv of a head one after the other; the former is turned. */
static uint64_t columns_in_file(const struct weight_binding *binding, const struct tensor_row *row)
{
    return size_of(binding, row->part == PART_UK ? DIM_LATENT : row->columns);
}

static struct tensor_source source_of_latents(const struct weight_binding *binding,
                                              const struct tensor_row *row)
{
    const struct model_config *config = binding->config;
    const struct latent_shape *latent = &config->decoder.latent;
    const bool is_k = row->part == PART_UK;
    return (struct tensor_source){.first = is_k ? 0 : latent->nope_dim,
                                  .run = is_k ? latent->nope_dim : latent->v_dim,
                                  .period = latent->nope_dim + latent->v_dim,
                                  .n_rows = (uint32_t)rows_in_file(binding, row),
                                  .turned = is_k ? latent->dim : 0,
                                  .is_of_heads = true};
}

/* The bounds of model_config.h keep these numbers far below 2^32. */
struct tensor_source weight_table_source(const struct weight_binding *binding,
                                         const struct tensor_row *row)
{
    const struct model_config *config = binding->config;
    const bool is_of_layer = row->rows != DIM_VOCABULARY && row->rows != DIM_POSITIONS;
    const uint32_t q = (uint32_t)size_of(binding, DIM_Q), d = config->head_dim;
    const uint32_t kv = (uint32_t)size_of(binding, DIM_KV);
    const uint32_t heads = config->n_heads / config->n_kv_heads;
    const bool by_group = config->decoder.qkv_layout == QKV_BY_GROUP;
    const uint32_t n_out = (uint32_t)size_of(binding, row->rows);
    if (row->part == PART_UK || row->part == PART_UV)
        return source_of_latents(binding, row);
    struct tensor_source source = {
        .run = n_out,
        .period = n_out,
        .n_rows = (uint32_t)rows_in_file(binding, row),
        .is_transposed = config->decoder.is_transposed && row->columns != DIM_NONE && is_of_layer,
        .is_widened = row->condition == IF_CHOICE || row->condition == IF_BESIDE};
    if (recurrent_part_find(config, row->part, &source))
        return source;
    if (row->part == PART_UP)
        source.first = n_out;
    if (row->part == PART_K)
        source.first = by_group ? heads * d : q;
    if (row->part == PART_V)
        source.first = by_group ? (heads + 1) * d : q + kv;
    if (by_group && row->part >= PART_Q && row->part <= PART_V) {
        source.run = row->part == PART_Q ? heads * d : d;
        source.period = (heads + 2) * d;
    }
    return source;
}

static bool lies_in_place(const struct tensor_source *source)
{
    return source->run == source->period && !source->is_transposed && !source->is_widened;
}

/* ---- binding ---- */

/* What these files call the embedding, behind the root. */
static const char *embedding_name(const struct weight_binding *binding)
{
    const char *usual = tensor_names_of(binding->config)->embedding;
    return model_has_encoder(binding->config)
               ? shared_embeddings_name(binding->files, binding->root, usual)
               : usual;
}

/* The root; nothing, if the model was saved without its head; or the place of the text model in a model that also sees, as
 * Transformers 4 and 5 write it. */
bool weight_table_root(const struct model_config *config, uint32_t form, size_t root_max,
                       char *root_out)
{
    static const char *const FORMS[] = {"%s", "%.0s", "language_model.%s",
                                        "model.language_model.%.0s"};
    if (form < COUNT(FORMS))
        snprintf(root_out, root_max, FORMS[form], tensor_names_of(config)->root);
    return form < COUNT(FORMS);
}

/* What the names of all tensors of the text model begin with in these files. */
static void find_root(struct weight_binding *binding)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    char name[NAME_BYTES_MAX];
    for (uint32_t i = 0; weight_table_root(binding->config, i, sizeof binding->root, binding->root);
         i++) {
        snprintf(name, sizeof name, "%s%s", binding->root, embedding_name(binding));
        if (weight_files_find(binding->files, name))
            return;
    }
    snprintf(binding->root, sizeof binding->root, "%s", names->root); /* for the sentence */
}

static enum status say_missing(const char *name, const uint64_t *shape, uint32_t n_dims,
                               struct error *error)
{
    char wanted[64];
    print_shape(wanted, sizeof wanted, shape, n_dims);
    return error_set(error, STATUS_CORRUPT, "tensor %s is missing, expected with shape [%s]", name,
                     wanted);
}

static void count(struct weight_binding *binding, const struct weight_entry *entry,
                  uint64_t n_elements, uint64_t bytes)
{
    binding->is_used[entry - binding->files->entries] = true;
    binding->n_parameters += n_elements;
    binding->bytes += bytes;
}

/* expert: its number in a tensor that has all of them; ALONE: the tensor is of one. */
#define ALONE UINT32_MAX

/* Not biases and convolutions, nor weights of norms, which may be some for each head. */
static bool is_matrix(const struct tensor_row *row)
{
    return row->columns != DIM_NONE && row->columns != DIM_HEAD && row->columns != DIM_CONV_WIDTH;
}

/* A matrix of its own that the files may have quantized. */
static enum status bind_quantized(struct weight_binding *binding, const char *name,
                                  const struct tensor_row *row, const struct tensor_source *source,
                                  struct tensor *tensor, bool *is_found_out, struct error *error)
{
    const uint32_t n_in = (uint32_t)size_of(binding, row->columns);
    *is_found_out = false;
    if (!is_matrix(row))
        return STATUS_OK;
    TRY(quantized_files_bind(binding, name, source, (uint32_t)size_of(binding, row->rows), n_in,
                             tensor, is_found_out, error));
    binding->n_quantized += *is_found_out;
    if (!*is_found_out || !source->is_transposed ||
        tensor->source.quantized.layout == LAYOUT_GPTQ) /* it has all matrices alike */
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "tensor %.120s is quantized: that is not supported for matrices that are "
                     "transposed in the files",
                     name);
}

static enum status bind(struct weight_binding *binding, const char *name,
                        const struct tensor_row *row, void *place, uint32_t expert,
                        struct error *error)
{
    const struct model_config *config = binding->config;
    struct tensor *tensor = (struct tensor *)(void *)((char *)place + row->offset);
    if (!tensor_is_wanted(config, binding->layer, row->condition))
        return STATUS_OK;
    struct tensor_source source = weight_table_source(binding, row);
    if (expert != ALONE && tensor_names_of(config)->experts_are_transposed)
        source.is_transposed = row->columns != DIM_NONE;
    if (expert == ALONE) {
        bool is_found;
        TRY(bind_quantized(binding, name, row, &source, tensor, &is_found, error));
        if (is_found)
            return STATUS_OK;
    }
    const struct weight_entry *entry = weight_files_find(binding->files, name);
    const uint64_t n_in = size_of(binding, row->columns);
    const uint64_t columns = columns_in_file(binding, row);
    const uint64_t shape[3] = {size_of(binding, DIM_EXPERTS),
                               source.is_transposed ? columns : source.n_rows,
                               source.is_transposed ? source.n_rows : columns};
    const uint64_t of_conv[3] = {source.n_rows, 1, n_in};
    const bool is_conv = row->columns == DIM_CONV_WIDTH;
    const uint64_t *expected = is_conv ? of_conv : expert == ALONE ? shape + 1 : shape;
    const uint32_t n_dims = is_conv ? 3u
                                    : (row->columns == DIM_NONE ? 1u : 2u) +
                                          (expert == ALONE ? 0u : 1u);
    if (!entry)
        return say_missing(name, expected, n_dims, error);
    TRY(check_shape(entry, expected, n_dims, error));
    TRY(to_dtype(entry, &tensor->dtype, error));
    if (dtype_is_blocks(tensor->dtype) && source.is_of_heads)
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.80s: tensor %.120s has type %s, and W_uk and W_uv of all heads in one: "
                         "convert the model again, with a llama.cpp that divides them",
                         entry->shard->name, entry->tensor->name, dtype_name(tensor->dtype));
    if (dtype_is_blocks(tensor->dtype) &&
        (!is_matrix(row) || source.is_transposed || source.is_widened))
        return error_set(error, STATUS_UNSUPPORTED,
                         "%.80s: tensor %.120s has type %s, which is supported for matrices alone",
                         entry->shard->name, entry->tensor->name, dtype_name(tensor->dtype));
    tensor->n_out = (uint32_t)size_of(binding, row->rows);
    tensor->n_in = (uint32_t)n_in;
    const uint8_t *data = entry->tensor->data;
    if (expert != ALONE)
        data += expert * (entry->tensor->bytes / shape[0]);
    if (lies_in_place(&source)) {
        tensor->data = data + dtype_array_bytes(tensor->dtype, source.first * n_in);
    } else {
        source.data = data;
        tensor->data = data; /* until it is rearranged */
        tensor->source = source;
    }
    const uint64_t n_elements = (uint64_t)tensor->n_out * n_in;
    count(binding, entry, n_elements, dtype_array_bytes(tensor->dtype, n_elements));
    return STATUS_OK;
}

enum status weight_table_bind_tensor(struct weight_binding *binding, const char *name,
                                     const struct tensor_row *row, void *place, struct error *error)
{
    return bind(binding, name, row, place, ALONE, error);
}

static const char *find_head(const struct weight_binding *binding, const char *usual)
{
    const char *const heads[] = {usual, TENSOR_HEAD, "language_model." TENSOR_HEAD};
    for (size_t i = 0; i < COUNT(heads); i++)
        if (weight_files_find(binding->files, heads[i]))
            return heads[i];
    return usual;
}

static enum status bind_model(struct weight_binding *binding, struct error *error)
{
    static const struct tensor_row EMBEDDING = {
        NULL, offsetof(struct weights, embedding), DIM_VOCABULARY, DIM_HIDDEN, ALWAYS, PART_ALL};
    static const struct tensor_row HEAD = {
        NULL, offsetof(struct weights, head), DIM_VOCABULARY, DIM_HIDDEN, ALWAYS, PART_ALL};
    static const struct tensor_row HEAD_BIAS = {
        NULL, offsetof(struct weights, head_bias), DIM_VOCABULARY, DIM_NONE, ALWAYS, PART_ALL};
    const struct tensor_names *names = tensor_names_of(binding->config);
    struct weights *weights = binding->weights;
    char name[NAME_BYTES_MAX];
    snprintf(name, sizeof name, "%s%s", binding->root, embedding_name(binding));
    TRY(bind(binding, name, &EMBEDDING, weights, ALONE, error));
    binding->embedding = weight_files_find(binding->files, name);
    for (const struct tensor_row *row = names->of_model; row->name; row++) {
        snprintf(name, sizeof name, "%s%s", binding->root, row->name);
        TRY(bind(binding, name, row, weights, ALONE, error));
    }
    const char *head = find_head(binding, names->head);
    binding->head = weight_files_find(binding->files, head);
    if (binding->config->tied_embeddings && !binding->head)
        weights->head = weights->embedding;
    else
        TRY(bind(binding, head, &HEAD, weights, ALONE, error));
    if (binding->config->decoder.has_head_bias)
        TRY(bind(binding, "lm_head.bias", &HEAD_BIAS, weights, ALONE, error));
    return STATUS_OK;
}

static enum status check_norms(const struct weight_binding *binding, uint32_t layer,
                               struct error *error)
{
    struct layer_weights *weights = &binding->weights->layers[layer];
    const struct tensor_names *names = tensor_names_of(binding->config);
    if (weights->k_norm.data && weights->q_norm.dtype != weights->k_norm.dtype)
        return error_set(error, STATUS_UNSUPPORTED,
                         "tensors %s%s%u.self_attn.q_norm.weight and k_norm.weight differ in dtype",
                         binding->root, names->layers, layer);
    return STATUS_OK;
}

/* The attention operator multiplies by the weights alone. */
static void add_one(struct tensor *norm)
{
    norm->source = (struct tensor_source){.data = norm->data,
                                          .run = norm->n_out,
                                          .period = norm->n_out,
                                          .n_rows = norm->n_out,
                                          .is_widened = true,
                                          .adds_one = true};
}

/* The norms of the heads, a tensor each. prefix: what the names begin with. */
static enum status bind_rows(struct weight_binding *binding, const char *prefix, uint32_t layer,
                             const struct tensor_row *row, struct error *error)
{
    const struct model_config *config = binding->config;
    struct weights *weights = binding->weights;
    struct tensor *tensor = (struct tensor *)(void *)((char *)&weights->layers[layer] +
                                                      row->offset);
    const uint32_t n_of_layer = config->n_heads + config->n_kv_heads;
    const uint64_t width = size_of(binding, row->columns);
    char ending[NAME_BYTES_MAX], name[2 * NAME_BYTES_MAX];
    if (!tensor_is_wanted(config, binding->layer, row->condition))
        return STATUS_OK;
    if (!weights->norm_rows)
        weights->norm_rows = calloc((size_t)config->n_layers * n_of_layer,
                                    sizeof *weights->norm_rows);
    if (!weights->norm_rows)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a table of norms");
    const void **rows = weights->norm_rows + (size_t)layer * n_of_layer +
                        (row->rows == DIM_KV_HEADS ? config->n_heads : 0);
    tensor->n_out = (uint32_t)size_of(binding, row->rows);
    tensor->n_in = (uint32_t)width;
    for (uint32_t i = 0; i < tensor->n_out; i++) {
        enum dtype dtype;
        snprintf(ending, sizeof ending, row->name, i);
        snprintf(name, sizeof name, "%s%s", prefix, ending);
        const struct weight_entry *entry = weight_files_find(binding->files, name);
        if (!entry)
            return say_missing(name, &width, 1, error);
        TRY(check_shape(entry, &width, 1, error));
        TRY(to_dtype(entry, &dtype, error));
        if (dtype_is_blocks(dtype) || (i > 0 && dtype != tensor->dtype))
            return error_set(error, STATUS_UNSUPPORTED,
                             "%.80s: tensor %.120s has type %s, which is not that of the others",
                             entry->shard->name, entry->tensor->name, dtype_name(dtype));
        tensor->dtype = dtype;
        rows[i] = entry->tensor->data;
        count(binding, entry, width, dtype_array_bytes(dtype, width));
    }
    tensor->data = rows[0]; /* until they are gathered */
    tensor->source = (struct tensor_source){.data = rows[0],
                                            .rows = rows,
                                            .run = tensor->n_out,
                                            .period = tensor->n_out,
                                            .n_rows = tensor->n_out};
    return STATUS_OK;
}

/* The tensors of a list, of one layer. */
static enum status bind_list(struct weight_binding *binding, uint32_t layer,
                             const struct tensor_row *list, struct error *error)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    char name[NAME_BYTES_MAX];
    for (const struct tensor_row *row = list; row->name; row++) {
        const bool is_of_rows = strchr(row->name, '%');
        snprintf(name, sizeof name, "%s%s%u.%s", binding->root, names->layers, layer,
                 is_of_rows ? "" : row->name);
        if (is_of_rows)
            TRY(bind_rows(binding, name, layer, row, error));
        else
            TRY(bind(binding, name, row, &binding->weights->layers[layer], ALONE, error));
    }
    return STATUS_OK;
}

/* MXFP4 of all experts: name_blocks [n_experts][n_out][n_in / 32][16 bytes], and a scale of each block in name_scales. */
static enum status bind_mxfp4(struct weight_binding *binding, const char *name,
                              const struct tensor_row *row, struct tensor *tensor, uint32_t expert,
                              struct error *error)
{
    const uint64_t n_in = size_of(binding, row->columns);
    const uint64_t shape[4] = {size_of(binding, DIM_EXPERTS), size_of(binding, row->rows),
                               n_in / MXFP4_BLOCK, MXFP4_BLOCK / 2};
    const struct weight_entry *entries[2];
    char part[NAME_BYTES_MAX + sizeof MXFP4_BLOCKS];
    if (n_in % MXFP4_BLOCK != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "tensor %s%s has rows of %" PRIu64 " elements, no multiple of %u", name,
                         MXFP4_BLOCKS, n_in, MXFP4_BLOCK);
    for (uint32_t i = 0; i < 2; i++) {
        snprintf(part, sizeof part, "%s%s", name, i == 0 ? MXFP4_BLOCKS : MXFP4_SCALES);
        entries[i] = weight_files_find(binding->files, part);
        if (!entries[i])
            return say_missing(part, shape, 4 - i, error);
        TRY(check_shape(entries[i], shape, 4 - i, error));
        if (entries[i]->tensor->dtype != SAFETENSORS_U8)
            return error_set(error, STATUS_UNSUPPORTED, "tensor %s has dtype %s, expected U8", part,
                             safetensors_dtype_name(entries[i]->tensor->dtype));
    }
    const uint64_t n_elements = shape[1] * n_in, n_blocks = n_elements / MXFP4_BLOCK;
    const uint8_t *bytes = entries[0]->tensor->data + expert * n_elements / 2;
    *tensor = (struct tensor){
        .data = bytes, /* until it is made */
        .dtype = DTYPE_MXFP4,
        .n_out = (uint32_t)shape[1],
        .n_in = (uint32_t)n_in,
        .source = {.data = bytes,
                   .run = (uint32_t)shape[1],
                   .period = (uint32_t)shape[1],
                   .n_rows = (uint32_t)shape[1],
                   .quantized = {.layout = LAYOUT_MXFP4,
                                 .bits = 4,
                                 .group = MXFP4_BLOCK,
                                 .scales = entries[1]->tensor->data + expert * n_blocks}}};
    count(binding, entries[0], n_elements, n_elements / 2);
    count(binding, entries[1], 0, n_blocks);
    return STATUS_OK;
}

/* A tensor of all experts. */
static enum status bind_of_all(struct weight_binding *binding, const char *name,
                               const struct tensor_row *row, struct expert_weights *place,
                               uint32_t expert, struct error *error)
{
    char blocks[NAME_BYTES_MAX + sizeof MXFP4_BLOCKS];
    snprintf(blocks, sizeof blocks, "%s%s", name, MXFP4_BLOCKS);
    if (row->columns == DIM_NONE || !weight_files_find(binding->files, blocks))
        return bind(binding, name, row, place, expert, error);
    return bind_mxfp4(binding, name, row, (struct tensor *)(void *)((char *)place + row->offset),
                      expert, error);
}

/* Of a family whose files have the experts of a layer apart or joined: the rows of joined ones, if these files have them. */
static const struct tensor_row *find_joined(const struct weight_binding *binding, uint32_t layer)
{
    const struct tensor_row *rows = tensor_names_of_joined_experts(binding->config);
    char name[NAME_BYTES_MAX];
    if (!rows)
        return NULL;
    snprintf(name, sizeof name, "%s%s%u.%s", binding->root,
             tensor_names_of(binding->config)->layers, layer, rows->name);
    return weight_files_find(binding->files, name) ? rows : NULL;
}

static enum status bind_expert(struct weight_binding *binding, uint32_t layer, uint32_t expert,
                               struct error *error)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    const struct tensor_row *joined = find_joined(binding, layer);
    struct expert_weights *place = &binding->weights->experts[layer][expert];
    char name[NAME_BYTES_MAX];
    for (const struct tensor_row *row = joined ? joined : names->of_expert; row->name; row++) {
        int n = snprintf(name, sizeof name, "%s%s%u.", binding->root, names->layers, layer);
        char *rest = name + n;
        const size_t room = sizeof name - (size_t)n;
        if (names->expert_prefix && !joined) {
            snprintf(rest, room, "%s%u.%s", names->expert_prefix, expert, row->name);
            TRY(bind(binding, name, row, place, ALONE, error));
        } else {
            snprintf(rest, room, "%s", row->name);
            TRY(bind_of_all(binding, name, row, place, expert, error));
        }
    }
    return STATUS_OK;
}

static enum status bind_experts(struct weight_binding *binding, uint32_t layer, struct error *error)
{
    const uint32_t n_experts = binding->config->experts.routing.n_experts;
    struct expert_weights *experts = calloc(n_experts, sizeof *experts);
    binding->weights->experts[layer] = experts; /* the model frees it */
    if (!experts)
        return error_set(error, STATUS_NO_MEMORY, "no memory for a table of %u experts", n_experts);
    TRY(bind_list(binding, layer, tensor_names_of(binding->config)->of_experts, error));
    for (uint32_t expert = 0; expert < n_experts; expert++)
        TRY(bind_expert(binding, layer, expert, error));
    return STATUS_OK;
}

/* What a decoder behind an encoder has beside, and a bias by distances. */
static enum status bind_cross(struct weight_binding *binding, uint32_t layer, struct error *error)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    const struct relative_bias *relative = &binding->config->decoder.relative;
    if (names->cross)
        TRY(bind_list(binding, layer, names->cross, error));
    if (relative->n_buckets > 0 && (layer == 0 || relative->is_in_each_layer))
        TRY(bind_list(binding, layer, names->relative, error));
    return STATUS_OK;
}

enum status weight_table_bind_layer(struct weight_binding *binding, uint32_t layer,
                                    struct error *error)
{
    const struct tensor_names *names = tensor_names_of(binding->config);
    struct layer_weights *weights = &binding->weights->layers[layer];
    binding->layer = layer;
    TRY(bind_list(binding, layer, names->of_layer[0], error));
    TRY(bind_list(binding, layer,
                  binding->config->is_recurrent[layer] ? tensor_names_of_recurrent(binding->config)
                                                       : names->of_layer[1],
                  error));
    if (binding->config->has_experts[layer])
        TRY(bind_experts(binding, layer, error));
    if (!binding->config->has_experts[layer] || binding->config->experts_are_beside_mlp)
        TRY(bind_list(binding, layer, names->mlp, error));
    TRY(bind_cross(binding, layer, error));
    if (binding->config->decoder.norm == NORM_RMS_PLUS_ONE && weights->q_norm.data) {
        add_one(&weights->q_norm);
        add_one(&weights->k_norm);
    }
    return check_norms(binding, layer, error);
}

enum status weight_table_bind(struct weight_binding *binding, struct error *error)
{
    find_root(binding);
    TRY(bind_model(binding, error));
    for (uint32_t layer = 0; layer < binding->config->n_layers; layer++)
        TRY(weight_table_bind_layer(binding, layer, error));
    if (binding->config->quantization.method > QUANTIZATION_MXFP4 && binding->n_quantized == 0 &&
        binding->config->quantization.kv_scheme ==
            KV_SCHEME_NONE) /* K and V alone may be quantized */
        return error_set(error, STATUS_CORRUPT,
                         "config.json has a quantization_config, but no matrix of the files is "
                         "quantized");
    return STATUS_OK;
}
