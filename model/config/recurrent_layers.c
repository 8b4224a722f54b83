#include "model/config/recurrent_layers.h"

#include "kernels/recurrent.h"
#include "model/config/kv_layers.h"
#include "model/config/layer_list.h"

#include <string.h>

/* The values that the classes of Transformers have. */
#define KEY_HEADS_DEFAULT  16u
#define HEADS_DEFAULT      32u
#define DIM_DEFAULT        128u
#define CONV_WIDTH_DEFAULT 4u
#define INTERVAL_DEFAULT   4u

#define N_OF(array) (sizeof array / sizeof array[0])

static enum status read_type(const struct json_fields *fields, const json_t *types, uint32_t layer,
                             bool *is_recurrent_out)
{
    const char *type;
    TRY(layer_list_type(fields, types, layer, &type));
    *is_recurrent_out = strcmp(type, "linear_attention") == 0;
    return *is_recurrent_out || strcmp(type, "full_attention") == 0
               ? STATUS_OK
               : layer_list_refuse_type(fields, layer, type);
}

static enum status read_kinds(const struct json_fields *fields, struct model_config *config)
{
    uint32_t interval = INTERVAL_DEFAULT;
    const json_t *types;
    TRY(json_fields_u32(fields, "full_attention_interval", 1, LAYERS_MAX, &interval));
    TRY(layer_list_get(fields, "layer_types", config->n_layers, "strings", &types));
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        bool is_recurrent = (layer + 1) % interval != 0;
        if (types)
            TRY(read_type(fields, types, layer, &is_recurrent));
        config->is_recurrent[layer] = is_recurrent;
    }
    if (kv_layers_count(config) > 0)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s: no layer has attention, which is not supported", fields->file,
                     types ? "layer_types" : "full_attention_interval");
}

static enum status read_sizes(const struct json_fields *fields, struct model_config *config)
{
    struct recurrent_sizes *sizes = &config->recurrent;
    const struct {
        const char *key;
        uint32_t min, max, usual, *size;
    } rows[] = {
        {"linear_num_key_heads", 1, HEADS_MAX, KEY_HEADS_DEFAULT, &sizes->n_key_heads},
        {"linear_num_value_heads", 1, HEADS_MAX, HEADS_DEFAULT, &sizes->n_heads},
        {"linear_key_head_dim", 1, HIDDEN_MAX, DIM_DEFAULT, &sizes->key_dim},
        {"linear_value_head_dim", 1, HIDDEN_MAX, DIM_DEFAULT, &sizes->value_dim},
        {"linear_conv_kernel_dim", 2, CONV_WIDTH_MAX, CONV_WIDTH_DEFAULT, &sizes->conv_width},
    };
    for (size_t i = 0; i < N_OF(rows); i++) {
        if (config->is_text_of_more)
            *rows[i].size = rows[i].usual;
        else
            TRY(json_fields_require(fields, rows[i].key));
        TRY(json_fields_u32(fields, rows[i].key, rows[i].min, rows[i].max, rows[i].size));
    }
    for (size_t i = 2; i < 4; i++)
        if (*rows[i].size % 8 != 0 || *rows[i].size > DELTA_DIM_MAX)
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: %s is %u, supported are multiples of 8 up to %u", fields->file,
                             rows[i].key, *rows[i].size, DELTA_DIM_MAX);
    if (sizes->n_heads % sizes->n_key_heads == 0)
        return STATUS_OK;
    return error_set(fields->error, STATUS_CORRUPT,
                     "%s: linear_num_key_heads is %u, which does not divide "
                     "linear_num_value_heads %u",
                     fields->file, sizes->n_key_heads, sizes->n_heads);
}

/* How GGUF files store what these layers have. */
static enum status read_storage(const struct json_fields *fields, struct model_config *config)
{
    bool norms_are_whole = false;
    const struct {
        const char *key;
        bool *is_set;
    } rows[] = {
        {"norms_are_whole", &norms_are_whole},
        {"heads_are_tiled", &config->recurrent.heads_are_tiled},
        {"decays_are_rates", &config->recurrent.decays_are_rates},
        {"qkvz_is_apart", &config->recurrent.qkvz_is_apart},
    };
    for (size_t i = 0; i < N_OF(rows); i++)
        TRY(json_fields_bool(fields, rows[i].key, rows[i].is_set));
    if (norms_are_whole)
        config->decoder.norm = NORM_RMS;
    return json_fields_u32(fields, "num_nextn_predict_layers", 0, LAYERS_MAX,
                           &config->n_skipped_layers);
}

enum status recurrent_layers_read(const struct json_fields *fields, struct model_config *config)
{
    TRY(read_storage(fields, config));
    TRY(read_kinds(fields, config));
    if (kv_layers_recurrent(config) == 0)
        return STATUS_OK;
    if (config->decoder.activation != ACTIVATION_SILU) /* the convolution has it, too */
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: hidden_act is not silu, the only one supported for layers with "
                         "recurrent state",
                         fields->file);
    return read_sizes(fields, config);
}
