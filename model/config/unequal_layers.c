#include "model/config/unequal_layers.h"

#include "kernels/attention.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* What the class of Transformers has. */
#define GLOBAL_HEAD_DIM_DEFAULT 512u

struct shape {
    uint32_t head_dim, n_kv_heads;
};

static bool sees_all(const struct model_config *config, uint32_t layer)
{
    return config->windows[layer] == 0;
}

static enum status check_shape(const struct json_fields *fields, const struct model_config *config,
                               const struct shape *shape)
{
    if (shape->head_dim > HEAD_DIM_MAX || shape->head_dim % 8 != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: head_dim of layers that see all tokens is %u, supported are "
                         "multiples of 8 up to %u",
                         fields->file, shape->head_dim, HEAD_DIM_MAX);
    if (config->n_heads % shape->n_kv_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: num_key_value_heads of layers that see all tokens is %u, which does "
                         "not divide num_attention_heads %u",
                         fields->file, shape->n_kv_heads, config->n_heads);
    return STATUS_OK;
}

/* ---- per_layer_config ---- */

/* "12": what differs in that layer. */
static enum status read_override(const struct json_fields *fields, const char *layer_name,
                                 const json_t *value, const struct model_config *config,
                                 struct shape *shapes)
{
    char file[96];
    char *end;
    const char *key;
    json_t *member;
    const unsigned long layer = strtoul(layer_name, &end, 10);
    if (*end || end == layer_name || layer >= config->n_layers || !json_is_object(value))
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: per_layer_config has \"%.40s\", expected an object for a layer below "
                         "num_hidden_layers %u",
                         fields->file, layer_name, config->n_layers);
    json_object_foreach((json_t *)(uintptr_t)value, key, member)
    {
        if (strcmp(key, "head_dim") != 0 && strcmp(key, "num_key_value_heads") != 0)
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: per_layer_config[%lu].%.60s is not supported", fields->file,
                             layer, key);
    }
    snprintf(file, sizeof file, "%s: per_layer_config[%lu]", fields->file, layer);
    const struct json_fields of_layer = {value, file, fields->error};
    TRY(json_fields_u32(&of_layer, "head_dim", 1, HIDDEN_MAX, &shapes[layer].head_dim));
    return json_fields_u32(&of_layer, "num_key_value_heads", 1, HEADS_MAX,
                           &shapes[layer].n_kv_heads);
}

static enum status read_overrides(const struct json_fields *fields, const json_t *overrides,
                                  const struct model_config *config, struct shape *shapes)
{
    const char *name;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)overrides, name, value)
        TRY(read_override(fields, name, value, config, shapes));
    return STATUS_OK;
}

/* ---- heads ---- */

/* The heads of layers that see all tokens, as Transformers' first files say them. */
static enum status read_global(const struct json_fields *fields, bool k_is_v, struct shape *shape)
{
    uint32_t n_kv_heads = 0;
    shape->head_dim = GLOBAL_HEAD_DIM_DEFAULT;
    TRY(json_fields_u32(fields, "global_head_dim", 1, HIDDEN_MAX, &shape->head_dim));
    TRY(json_fields_u32(fields, "num_global_key_value_heads", 1, HEADS_MAX, &n_kv_heads));
    if (k_is_v && n_kv_heads > 0) /* Transformers reads it with attention_k_eq_v alone */
        shape->n_kv_heads = n_kv_heads;
    return STATUS_OK;
}

/* All layers with a window are alike, and so are the others: each kind has one rotation. */
static enum status check_kinds(const struct json_fields *fields, const struct model_config *config,
                               const struct shape *shapes, const struct shape *of_all,
                               const struct shape *of_windows)
{
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        const struct shape *expected = sees_all(config, layer) ? of_all : of_windows;
        if (shapes[layer].head_dim != expected->head_dim ||
            shapes[layer].n_kv_heads != expected->n_kv_heads)
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: per_layer_config gives layer %u head_dim %u and "
                             "num_key_value_heads %u, but others of its layer_types have %u and %u",
                             fields->file, layer, shapes[layer].head_dim, shapes[layer].n_kv_heads,
                             expected->head_dim, expected->n_kv_heads);
    }
    return STATUS_OK;
}

static void set_wide(const struct shape *of_all, const struct shape *of_windows, uint32_t n_windows,
                     struct model_config *config)
{
    if (n_windows == 0) { /* one kind of layers */
        config->head_dim = of_all->head_dim;
        config->n_kv_heads = of_all->n_kv_heads;
        return;
    }
    if (of_all->head_dim == of_windows->head_dim && of_all->n_kv_heads == of_windows->n_kv_heads)
        return;
    config->wide_head_dim = of_all->head_dim;
    config->wide_kv_heads = of_all->n_kv_heads;
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->is_wide[layer] = sees_all(config, layer);
}

static enum status read_heads(const struct json_fields *fields, bool k_is_v,
                              struct model_config *config)
{
    struct shape shapes[LAYERS_MAX], global = {config->head_dim, config->n_kv_heads};
    struct shape of_all = global, of_windows = global;
    uint32_t n_windows = 0;
    const json_t *overrides;
    TRY(json_fields_object(fields, "per_layer_config", &overrides));
    if (!overrides)
        TRY(read_global(fields, k_is_v, &global));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        shapes[layer] = sees_all(config, layer) ? global : of_windows;
    if (overrides)
        TRY(read_overrides(fields, overrides, config, shapes));
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        *(sees_all(config, layer) ? &of_all : &of_windows) = shapes[layer];
        n_windows += !sees_all(config, layer);
    }
    if (n_windows > 0 &&
        (of_windows.head_dim != config->head_dim || of_windows.n_kv_heads != config->n_kv_heads))
        of_windows = (struct shape){config->head_dim, config->n_kv_heads}; /* for the sentence */
    TRY(check_kinds(fields, config, shapes, &of_all, &of_windows));
    TRY(check_shape(fields, config, &of_all));
    set_wide(&of_all, &of_windows, n_windows, config);
    return STATUS_OK;
}

/* ---- K and V of other layers ---- */

/* The last layers read K and V of the last one before them of the same type. */
static enum status read_sharing(const struct json_fields *fields, struct model_config *config)
{
    uint32_t n_sharing = 0;
    bool is_double = false;
    TRY(json_fields_u32(fields, "num_kv_shared_layers", 0, config->n_layers, &n_sharing));
    TRY(json_fields_bool(fields, "use_double_wide_mlp", &is_double));
    const uint32_t first = config->n_layers - n_sharing;
    for (uint32_t layer = first; layer < config->n_layers; layer++) {
        uint32_t n_left = first;
        while (n_left > 0 && sees_all(config, n_left - 1) != sees_all(config, layer))
            n_left--;
        if (n_left == 0)
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: num_kv_shared_layers is %u: no layer before them is of the type "
                             "of layer %u",
                             fields->file, n_sharing, layer);
        config->kv_back[layer] = (uint16_t)(layer - (n_left - 1));
    }
    if (!is_double || n_sharing == 0)
        return STATUS_OK;
    if (config->ffn > FFN_MAX / 2)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: use_double_wide_mlp with intermediate_size %u makes more than %u",
                         fields->file, config->ffn, FFN_MAX);
    config->sharing_ffn = 2 * config->ffn;
    return STATUS_OK;
}

enum status unequal_layers_read(const struct json_fields *fields, struct model_config *config)
{
    bool k_is_v = false;
    TRY(json_fields_bool(fields, "attention_k_eq_v", &k_is_v));
    TRY(read_heads(fields, k_is_v, config));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->v_is_k[layer] = k_is_v && sees_all(config, layer);
    return read_sharing(fields, config);
}

struct hash128 unequal_layers_digest(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key KEY = {{0}};
    const struct decoder *decoder = &config->decoder;
    const double values[] = {decoder->has_v_norm,          decoder->has_layer_scale,
                             decoder->layer_inputs.width,  decoder->layer_inputs.vocabulary,
                             config->wide_head_dim,        config->wide_kv_heads,
                             config->sharing_ffn,          config->rope.n_turning,
                             config->rope_local.n_turning, config->rope_local.factor};
    if (!decoder->has_v_norm && !decoder->has_layer_scale && decoder->layer_inputs.width == 0 &&
        config->wide_head_dim == 0)
        return digest;
    digest = hash128_chain(&KEY, digest, values, sizeof values);
    if (config->experts_are_beside_mlp)
        digest = hash128_chain(&KEY, digest, &config->experts_are_beside_mlp, 1);
    digest = hash128_chain(&KEY, digest, config->is_wide, config->n_layers);
    digest = hash128_chain(&KEY, digest, config->v_is_k, config->n_layers);
    return hash128_chain(&KEY, digest, config->kv_back, config->n_layers * sizeof *config->kv_back);
}
