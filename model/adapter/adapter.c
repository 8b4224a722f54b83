#include "model/adapter/adapter.h"

#include "base/huge_memory.h"
#include "device/device.h"
#include "model/adapter/adapter_config.h"
#include "model/adapter/adapter_file.h"
#include "model/config/encoder_config.h"
#include "model/config/families.h"
#include "model/config/kv_layers.h"
#include "model/kernel_choice.h"
#include "model/model.h"
#include "model/weights/weight_digest.h"
#include "model/weights/weight_table.h"

#include <assert.h>
#include <stdatomic.h>
#include <stddef.h>
#include <stdio.h>
#include <stdlib.h>
#include <string.h>

#define NAME_BYTES_MAX 192
#define PREFIX         "base_model.model."
#define ALIGNMENT      64u /* bytes, of each matrix in memory */

struct adapter {
    atomic_uint n_holders;
    uint32_t n_layers, rank, n_matrices;
    struct low_rank (*parts)[ADAPTER_PARTS]; /* [n_layers] */
    uint8_t *memory;                         /* all matrices */
    uint64_t bytes;
    struct hash128 digest;
};

/* An adapter while it is read. */
struct loading {
    const struct model *model;
    const struct model_config *config;
    struct adapter_config settings;
    struct adapter_file file;
    struct adapter *adapter;
    struct tensor_source (
        *rows)[ADAPTER_PARTS]; /* [n_layers] where the rows of B lie in the file */
    char root[64];
    struct error *error;
};

/* ---- which models ---- */

enum status adapter_check_model(const struct model *model, struct error *error)
{
    const struct model_config *config = model_get_config(model);
    const char *why = NULL;
    if (kernel_choice_is_own(model_device(model)))
        return error_set(error, STATUS_UNSUPPORTED,
                         "adapters are computed on the CPU alone, not on %s: run it without "
                         "--device",
                         device_name(model_device(model)));
    if (config->is_gguf)
        why = "a model in a GGUF file";
    else if (model_has_encoder(config))
        why = "a model with an encoder";
    else if (config->decoder.latent.dim > 0)
        why = "attention over latents";
    else if (kv_layers_recurrent(config) > 0)
        why = "layers with recurrent state";
    else if (config->decoder.has_output_gate)
        why = "attention whose output is multiplied by a product";
    if (!why)
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED, "%s: adapters are not supported for %s",
                     model_family_name(config->family), why);
}

/* ---- the matrices of a layer ---- */

static const size_t OFFSETS[ADAPTER_PARTS] = {
    [ADAPTER_Q] = offsetof(struct layer_weights, q),
    [ADAPTER_K] = offsetof(struct layer_weights, k),
    [ADAPTER_V] = offsetof(struct layer_weights, v),
    [ADAPTER_O] = offsetof(struct layer_weights, o),
    [ADAPTER_GATE] = offsetof(struct layer_weights, gate),
    [ADAPTER_UP] = offsetof(struct layer_weights, up),
    [ADAPTER_DOWN] = offsetof(struct layer_weights, down),
};

/* ADAPTER_PARTS: none of them. */
static enum adapter_part part_of(const struct tensor_row *row)
{
    enum adapter_part part = ADAPTER_Q;
    while (part < ADAPTER_PARTS && OFFSETS[part] != row->offset)
        part++;
    return part;
}

/* The two tensors of a module. is_there_out: it has an adapter. */
static enum status find_module(struct loading *loading, const char *module, uint32_t layer,
                               const struct safetensor *found[2], bool *is_there_out)
{
    static const char *const ENDS[2] = {"lora_A", "lora_B"};
    char name[NAME_BYTES_MAX];
    bool is_target;
    TRY(adapter_config_has(&loading->settings, module, layer, loading->error, &is_target));
    for (int i = 0; i < 2; i++) {
        snprintf(name, sizeof name, PREFIX "%s.%s.weight", module, ENDS[i]);
        found[i] = adapter_file_find(&loading->file, name);
        if (is_target && !found[i])
            return error_set(loading->error, STATUS_CORRUPT,
                             ADAPTER_FILE ": tensor %s is missing, adapter_config.json has "
                                          "target_modules with %s",
                             name, module);
        if (!is_target && found[i])
            return error_set(loading->error, STATUS_CORRUPT,
                             ADAPTER_FILE ": tensor %s is of a module that target_modules of "
                                          "adapter_config.json does not have",
                             name);
    }
    *is_there_out = is_target;
    return STATUS_OK;
}

static uint64_t padded(uint64_t bytes)
{
    return (bytes + ALIGNMENT - 1) / ALIGNMENT * ALIGNMENT;
}

static uint64_t a_bytes(const struct low_rank *part)
{
    return dtype_array_bytes(part->a_dtype, (size_t)part->rank * part->n_in);
}

static uint64_t b_bytes(const struct low_rank *part)
{
    return dtype_array_bytes(part->b_dtype, (size_t)part->rank * part->n_out);
}

/* The part of the layer before it that has the same A, of a fused matrix. */
static const struct low_rank *same_a(const struct low_rank *parts, enum adapter_part part)
{
    for (enum adapter_part i = ADAPTER_Q; i < part; i++)
        if (parts[i].a && parts[i].a == parts[part].a)
            return &parts[i];
    return NULL;
}

/* One row of the table of names. Until matrices are copied they are those of the file. */
static enum status bind_row(struct loading *loading, uint32_t layer, const struct tensor_row *row)
{
    const enum adapter_part part = part_of(row);
    const char *end = strstr(row->name, ".weight");
    struct adapter *adapter = loading->adapter;
    if (part == ADAPTER_PARTS || !end || !tensor_is_wanted(loading->config, layer, row->condition))
        return STATUS_OK;
    char module[NAME_BYTES_MAX / 2];
    snprintf(module, sizeof module, "%s%s%u.%.*s", loading->root,
             tensor_names_of(loading->config)->layers, layer, (int)(end - row->name), row->name);
    const struct weight_binding binding = {.config = loading->config, .layer = layer};
    struct low_rank *low = &adapter->parts[layer][part];
    const struct safetensor *found[2];
    bool is_there;
    TRY(find_module(loading, module, layer, found, &is_there));
    if (!is_there)
        return STATUS_OK;
    TRY(adapter_config_shape(&loading->settings, module, loading->error, &low->rank, &low->scale));
    loading->rows[layer][part] = weight_table_source(&binding, row);
    low->n_in = (uint32_t)dimension_size(loading->config, layer, row->columns);
    low->n_out = (uint32_t)dimension_size(loading->config, layer, row->rows);
    TRY(adapter_file_check(found[0], low->rank, low->n_in, loading->error, &low->a_dtype));
    TRY(adapter_file_check(found[1], loading->rows[layer][part].n_rows, low->rank, loading->error,
                           &low->b_dtype));
    low->a = found[0]->data;
    low->b = found[1]->data;
    adapter->rank = low->rank > adapter->rank ? low->rank : adapter->rank;
    adapter->n_matrices++;
    return STATUS_OK;
}

static enum status bind_list(struct loading *loading, uint32_t layer, const struct tensor_row *list)
{
    for (const struct tensor_row *row = list; row->name; row++)
        TRY(bind_row(loading, layer, row));
    return STATUS_OK;
}

/* What the names of modules begin with in this file: as that of the weights, which may be another. */
static enum status find_root(struct loading *loading)
{
    const struct tensor_names *names = tensor_names_of(loading->config);
    char prefix[NAME_BYTES_MAX];
    for (uint32_t form = 0;
         weight_table_root(loading->config, form, sizeof loading->root, loading->root); form++) {
        snprintf(prefix, sizeof prefix, PREFIX "%s%s", loading->root, names->layers);
        if (adapter_file_has_prefix(&loading->file, prefix))
            return STATUS_OK;
    }
    return error_set(loading->error, STATUS_CORRUPT,
                     ADAPTER_FILE ": no tensor is called " PREFIX "%s%sN..., the first is %.120s",
                     names->root, names->layers,
                     loading->file.tensors.n_tensors > 0 ? loading->file.by_name[0]->name
                                                         : "not there");
}

static enum status bind(struct loading *loading)
{
    const struct tensor_names *names = tensor_names_of(loading->config);
    const struct model_config *config = loading->config;
    TRY(find_root(loading));
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        TRY(bind_list(loading, layer, names->of_layer[1]));
        if (!config->has_experts[layer] || config->experts_are_beside_mlp)
            TRY(bind_list(loading, layer, names->mlp));
    }
    return adapter_file_check_used(&loading->file, loading->error);
}

/* ---- memory ---- */

static enum status check_limits(const struct loading *loading, const struct adapter_limits *limits)
{
    const struct adapter *adapter = loading->adapter;
    if (limits->rank_max > 0 && adapter->rank > limits->rank_max)
        return error_set(loading->error, STATUS_INVALID_ARGUMENT,
                         "the adapter has rank %u, at most %u (adapter_rank_max)", adapter->rank,
                         limits->rank_max);
    if (limits->bytes_max > 0 && adapter->bytes > limits->bytes_max)
        return error_set(loading->error, STATUS_INVALID_ARGUMENT,
                         "the adapter has %llu bytes, and there is room for %llu (adapter_memory)",
                         (unsigned long long)adapter->bytes, (unsigned long long)limits->bytes_max);
    return STATUS_OK;
}

/* Of all matrices. */
static uint64_t count_bytes(const struct adapter *adapter)
{
    uint64_t bytes = 0;
    for (uint32_t layer = 0; layer < adapter->n_layers; layer++)
        for (enum adapter_part i = ADAPTER_Q; i < ADAPTER_PARTS; i++) {
            const struct low_rank *part = &adapter->parts[layer][i];
            if (part->a)
                bytes += padded(b_bytes(part)) +
                         (same_a(adapter->parts[layer], i) ? 0 : padded(a_bytes(part)));
        }
    return bytes;
}

static void copy_rows(const struct low_rank *part, const struct tensor_source *source, uint8_t *to)
{
    const size_t bytes = dtype_array_bytes(part->b_dtype, part->rank);
    for (uint32_t o = 0; o < part->n_out; o++)
        memcpy(to + o * bytes, (const uint8_t *)part->b + tensor_row_in_file(source, o) * bytes,
               bytes);
}

/* Copies the matrices of a layer to at; returns the end. */
static uint8_t *copy_layer(struct loading *loading, uint32_t layer, uint8_t *at)
{
    struct low_rank *parts = loading->adapter->parts[layer], copied[ADAPTER_PARTS];
    memcpy(copied, parts, sizeof copied);
    for (enum adapter_part i = ADAPTER_Q; i < ADAPTER_PARTS; i++) {
        if (!parts[i].a)
            continue;
        const struct low_rank *same = same_a(parts, i);
        copied[i].a = same ? copied[same - parts].a : at;
        if (!same) {
            memcpy(at, parts[i].a, a_bytes(&parts[i]));
            at += padded(a_bytes(&parts[i]));
        }
        copied[i].b = at;
        copy_rows(&parts[i], &loading->rows[layer][i], at);
        at += padded(b_bytes(&parts[i]));
    }
    memcpy(parts, copied, sizeof copied);
    return at;
}

/* Of the file, whose tensors belong to one layer each. */
static void give_back(const struct low_rank *parts, const struct tensor_source *rows)
{
    for (enum adapter_part i = ADAPTER_Q; i < ADAPTER_PARTS; i++)
        if (parts[i].a) {
            mapped_file_give_back(parts[i].a, a_bytes(&parts[i]));
            mapped_file_give_back(
                parts[i].b,
                dtype_array_bytes(parts[i].b_dtype, (size_t)rows[i].n_rows * parts[i].rank));
        }
}

/* What a layer has in the file is given back as soon as it is copied: the file and its copy are never whole at the same time. */
static enum status copy(struct loading *loading)
{
    struct adapter *adapter = loading->adapter;
    struct low_rank of_file[ADAPTER_PARTS];
    adapter->memory = huge_memory_map(adapter->bytes);
    if (!adapter->memory)
        return error_set(loading->error, STATUS_NO_MEMORY, "no memory for an adapter of %llu bytes",
                         (unsigned long long)adapter->bytes);
    uint8_t *at = adapter->memory;
    for (uint32_t layer = 0; layer < adapter->n_layers; layer++) {
        memcpy(of_file, adapter->parts[layer], sizeof of_file);
        at = copy_layer(loading, layer, at);
        give_back(of_file, loading->rows[layer]);
    }
    assert(at == adapter->memory + adapter->bytes);
    return STATUS_OK;
}

/* ---- digest ---- */

/* Of what the file has: before it is given back. */
static struct hash128 digest(const struct loading *loading)
{
    static const struct hash_key KEY = {{0}};
    const struct adapter *adapter = loading->adapter;
    uint64_t of_model[2];
    model_digest(loading->model, of_model);
    struct hash128 digest = {of_model[0], of_model[1]};
    for (uint32_t i = 0; i < loading->file.tensors.n_tensors; i++) {
        const struct safetensor *tensor = loading->file.by_name[i];
        const struct hash128 bytes = weight_digest_bytes(tensor->data, tensor->bytes);
        const uint64_t rest[] = {(uint64_t)tensor->dtype, tensor->shape[0], tensor->shape[1],
                                 bytes.lo, bytes.hi};
        digest = hash128_chain(&KEY, digest, tensor->name, strlen(tensor->name));
        digest = hash128_chain(&KEY, digest, rest, sizeof rest);
    }
    for (uint32_t layer = 0; layer < adapter->n_layers; layer++)
        for (enum adapter_part i = ADAPTER_Q; i < ADAPTER_PARTS; i++) {
            const struct low_rank *part = &adapter->parts[layer][i];
            const double values[] = {layer, i, part->rank, (double)part->scale};
            if (part->a)
                digest = hash128_chain(&KEY, digest, values, sizeof values);
        }
    return digest;
}

/* ---- the object ---- */

/* All of the file but its header is matrices. */
static uint64_t file_bytes_max(const struct adapter_limits *limits)
{
    const uint64_t header = SAFETENSORS_HEADER_BYTES_MAX + sizeof(uint64_t);
    return limits->bytes_max > 0 && limits->bytes_max < UINT64_MAX - header
               ? limits->bytes_max + header
               : UINT64_MAX;
}

static enum status load(struct loading *loading, const char *folder,
                        const struct adapter_limits *limits)
{
    const uint32_t n_layers = loading->config->n_layers;
    struct adapter *adapter = loading->adapter;
    TRY(adapter_check_model(loading->model, loading->error));
    adapter->n_layers = n_layers;
    adapter->parts = calloc(n_layers, sizeof *adapter->parts);
    loading->rows = calloc(n_layers, sizeof *loading->rows);
    if (!adapter->parts || !loading->rows)
        return STATUS_NO_MEMORY;
    TRY(adapter_config_read(folder, loading->error, &loading->settings));
    TRY(adapter_file_open(folder, file_bytes_max(limits), loading->error, &loading->file));
    TRY(bind(loading));
    adapter->bytes = count_bytes(adapter);
    TRY(check_limits(loading, limits));
    adapter->digest = digest(loading);
    return copy(loading);
}

enum status adapter_load(const char *folder, const struct model *model,
                         const struct adapter_limits *limits, struct error *error,
                         struct adapter **adapter_out)
{
    static const struct adapter_limits NONE = {0};
    struct error cause = {""};
    struct loading loading = {.model = model,
                              .config = model_get_config(model),
                              .adapter = calloc(1, sizeof(struct adapter)),
                              .error = &cause};
    if (!loading.adapter)
        return error_set(error, STATUS_NO_MEMORY, "no memory for an adapter");
    atomic_init(&loading.adapter->n_holders, 1);
    const enum status status = load(&loading, folder, limits ? limits : &NONE);
    adapter_config_finish(&loading.settings);
    adapter_file_close(&loading.file);
    free(loading.rows);
    if (status != STATUS_OK) {
        adapter_release(loading.adapter);
        return error_set(error, status, "adapter %.200s: %s", folder,
                         cause.text[0] ? cause.text : status_text(status));
    }
    *adapter_out = loading.adapter;
    return STATUS_OK;
}

struct adapter *adapter_share(struct adapter *adapter)
{
    if (adapter)
        atomic_fetch_add_explicit(&adapter->n_holders, 1, memory_order_relaxed);
    return adapter;
}

void adapter_release(struct adapter *adapter)
{
    if (!adapter || atomic_fetch_sub_explicit(&adapter->n_holders, 1, memory_order_acq_rel) > 1)
        return;
    free(adapter->parts);
    if (adapter->memory)
        huge_memory_unmap(adapter->memory, adapter->bytes);
    free(adapter);
}

bool adapter_is_shared(const struct adapter *adapter)
{
    return atomic_load_explicit(&adapter->n_holders, memory_order_acquire) > 1;
}

const struct low_rank *adapter_part(const struct adapter *adapter, uint32_t layer,
                                    enum adapter_part part)
{
    assert(layer < adapter->n_layers && part < ADAPTER_PARTS);
    const struct low_rank *low = &adapter->parts[layer][part];
    return low->a ? low : NULL;
}

uint32_t adapter_rank(const struct adapter *adapter)
{
    return adapter->rank;
}

uint64_t adapter_bytes(const struct adapter *adapter)
{
    return adapter->bytes;
}

uint32_t adapter_matrices(const struct adapter *adapter)
{
    return adapter->n_matrices;
}

struct hash128 adapter_digest(const struct adapter *adapter)
{
    return adapter->digest;
}
