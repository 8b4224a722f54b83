#include "model/config/config_file.h"

#include "base/log/log.h"
#include "gguf/gguf_file.h"
#include "kernels/attention.h"
#include "model/config/activation_name.h"
#include "model/config/config_keys.h"
#include "model/config/encoder_config.h"
#include "model/config/encoder_ids.h"
#include "model/config/families.h"
#include "model/config/layer_list.h"
#include "model/config/rope_parameters.h"
#include "model/config/suppressed_tokens.h"
#include "model/config/unequal_layers.h"
#include "model/files/json_fields.h"
#include "model/files/mapped_file.h"
#include "model/files/other_format.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char CONFIG_FILE[] = "config.json";
static const char GENERATION_FILE[] = "generation_config.json";

/* The default of Transformers if a sliding window is on and its key is absent. */
enum { MAX_WINDOW_LAYERS_DEFAULT = 28 };

enum { KEY_BYTES_MAX = 64 };

#define NORM_EPS_DEFAULT 1e-6

static const struct family *family_of(const struct model_config *config)
{
    assert(family_at(config->family));
    return family_at(config->family);
}

/* ---- sizes ---- */

static const struct size_row {
    const char *key;
    size_t offset;
    uint32_t max;
    bool is_required;
} SIZES[] = {
#define SIZE(key, member, max, is_required)                                                        \
    {                                                                                              \
        key, offsetof(struct model_config, member), max, is_required                               \
    }
    SIZE("hidden_size", hidden, HIDDEN_MAX, true),
    SIZE("num_hidden_layers", n_layers, LAYERS_MAX, true),
    SIZE("num_attention_heads", n_heads, HEADS_MAX, true),
    SIZE("num_key_value_heads", n_kv_heads, HEADS_MAX, false),
    SIZE("head_dim", head_dim, HIDDEN_MAX, false),
    SIZE("intermediate_size", ffn, FFN_MAX, false),
    SIZE("vocab_size", vocabulary, VOCABULARY_MAX, true),
    SIZE("max_position_embeddings", context_tokens, CONTEXT_TOKENS_MAX, false),
#undef SIZE
};

static enum status read_heads(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    if (config->n_kv_heads == 0 && family->needs_kv_heads)
        return json_fields_require(fields, "num_key_value_heads");
    if (config->n_kv_heads == 0)
        config->n_kv_heads = config->n_heads;
    if (config->n_heads % config->n_kv_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: num_key_value_heads is %u, which does not divide "
                         "num_attention_heads %u",
                         fields->file, config->n_kv_heads, config->n_heads);
    if (family->is_latent) /* head_dim is that of the rotary part, if the key is there */
        return STATUS_OK;
    if (config->head_dim == 0)
        config->head_dim = family->head_dim;
    if (config->head_dim == 0 && config->hidden % config->n_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: hidden_size is %u, no multiple of num_attention_heads %u",
                         fields->file, config->hidden, config->n_heads);
    if (config->head_dim == 0)
        config->head_dim = config->hidden / config->n_heads;
    if (config->head_dim > HEAD_DIM_MAX || config->head_dim % 8 != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: head_dim is %u, supported are multiples of 8 up to %u", fields->file,
                         config->head_dim, HEAD_DIM_MAX);
    return STATUS_OK;
}

static enum status read_sizes(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    char name[KEY_BYTES_MAX];
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        uint32_t *size = (uint32_t *)(void *)((char *)config + SIZES[i].offset);
        const char *key = family_key(family, fields->object, SIZES[i].key, name, sizeof name);
        if (SIZES[i].is_required && *size == 0)
            TRY(json_fields_require(fields, key));
        TRY(json_fields_u32(fields, key, 1, SIZES[i].max, size));
    }
    if (config->ffn == 0 && !family->ffn_is_four_hidden)
        TRY(json_fields_require(
            fields, family_key(family, fields->object, "intermediate_size", name, sizeof name)));
    if (config->ffn == 0)
        config->ffn = 4 * config->hidden;
    TRY(read_heads(fields, config));
    if (config->context_tokens == 0)
        config->context_tokens = family->context_tokens;

    double eps = family->norm_eps > 0 ? family->norm_eps : NORM_EPS_DEFAULT;
    const char *key = family_key(family, fields->object, "norm_eps", name, sizeof name);
    TRY(json_fields_real(fields, key == name ? name : "rms_norm_eps", 1e-30, 1, &eps));
    config->norm_eps = (float)eps;
    return STATUS_OK;
}

/* ---- switches ---- */

static enum status read_bias(const struct json_fields *fields, const char *key, bool may_be,
                             bool *bias_out)
{
    TRY(json_fields_bool(fields, key, bias_out));
    if (*bias_out && !may_be)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: %s is true, which this architecture does not have", fields->file,
                         key);
    return STATUS_OK;
}

static enum status read_activation(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    const char *act = family->activation ? family->activation : "silu";
    char name[KEY_BYTES_MAX];
    const char *key = family_key(family, fields->object, "hidden_act", name, sizeof name);
    TRY(json_fields_string(fields, key, &act));
    return activation_name_read(fields, key, act, &config->decoder.activation);
}

/* GGUF files have the rows of Q, K and V one after the other, and a row for each output, in every family. */
static enum status read_plain_rows(const struct json_fields *fields, struct model_config *config)
{
    bool is_plain = false;
    TRY(json_fields_bool(fields, "qkv_is_plain", &is_plain));
    if (!is_plain)
        return STATUS_OK;
    if (config->decoder.qkv_layout == QKV_BY_GROUP)
        config->decoder.qkv_layout = QKV_FUSED;
    config->decoder.is_transposed = false;
    return STATUS_OK;
}

static enum status read_switches(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    bool attention_bias = false;
    TRY(read_activation(fields, config));
    TRY(read_bias(fields, "attention_bias", family->may_have_attention_bias, &attention_bias));
    TRY(read_bias(fields, "mlp_bias", family->may_have_mlp_bias, &config->mlp_bias));
    config->tied_embeddings = family->ties_embeddings;
    TRY(json_fields_bool(fields, "tie_word_embeddings", &config->tied_embeddings));
    config->qkv_bias = attention_bias || family->has_qkv_bias;
    config->o_bias = (attention_bias && !family->attention_bias_is_qkv_alone) || family->has_o_bias;
    config->mlp_bias |= family->has_mlp_bias;
    TRY(family->read ? family->read(fields, config) : STATUS_OK);
    return read_plain_rows(fields, config);
}

/* ---- sliding windows ---- */

/* The sliding window, 0 for none; and which layers have it if no layer_types say so: all but every nth from a first one. */
struct windows {
    uint32_t window, first_layer, period; /* period 0: all */
};

static enum status read_window(const struct json_fields *fields, const struct model_config *config,
                               struct windows *windows_out)
{
    const struct family *family = family_of(config);
    struct windows windows = {0, 0, 0};
    bool is_on = family->windows != WINDOWS_NONE;
    if (family->windows == WINDOWS_SWITCHED) {
        is_on = false;
        TRY(json_fields_bool(fields, "use_sliding_window", &is_on));
    }
    if (family->windows == WINDOWS_LAST) {
        is_on = false;
        windows.first_layer = MAX_WINDOW_LAYERS_DEFAULT;
        TRY(json_fields_bool(fields, "use_sliding_window", &is_on));
        TRY(json_fields_u32(fields, "max_window_layers", 0, UINT32_MAX, &windows.first_layer));
    }
    if (family->windows == WINDOWS_PERIODIC) {
        windows.period = family->window_period;
        TRY(json_fields_u32(fields, "_sliding_window_pattern", 1, LAYERS_MAX, &windows.period));
        TRY(json_fields_u32(fields, "sliding_window_pattern", 1, LAYERS_MAX, &windows.period));
    }
    if (is_on && !json_object_get(fields->object, "sliding_window"))
        windows.window = family->window;
    TRY(json_fields_u32(fields, "sliding_window", 1, UINT32_MAX, &windows.window));
    if (windows.window && family->windows == WINDOWS_NONE) /* Transformers ignores the key */
        log_warn("%s: sliding_window is %u, which %s does not have: ignored", fields->file,
                 windows.window, family->architecture);
    if (!is_on)
        windows.window = 0;
    *windows_out = windows;
    return STATUS_OK;
}

static bool has_window(const struct windows *windows, uint32_t layer)
{
    return windows->window && layer >= windows->first_layer &&
           (windows->period == 0 || (layer + 1) % windows->period != 0);
}

static enum status read_layer_type(const struct json_fields *fields, const json_t *types,
                                   uint32_t layer, uint32_t window, bool is_recurrent,
                                   bool *slides_out)
{
    const char *type;
    TRY(layer_list_type(fields, types, layer, &type));
    bool slides = strcmp(type, "sliding_attention") == 0;
    if (!slides && !is_recurrent && strcmp(type, "full_attention") != 0)
        return layer_list_refuse_type(fields, layer, type);
    if (slides && window == 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: layer_types[%u] is sliding_attention, but no sliding_window is on",
                         fields->file, layer);
    *slides_out = slides;
    return STATUS_OK;
}

static enum status read_windows(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    const bool by_layer = family->windows == WINDOWS_LAST || family->windows == WINDOWS_PERIODIC;
    struct windows windows;
    TRY(read_window(fields, config, &windows));
    const json_t *types;
    TRY(layer_list_get(fields, "layer_types", config->n_layers, "strings", &types));
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool computed = has_window(&windows, i), slides = computed;
        if (types)
            TRY(read_layer_type(fields, types, i, windows.window, config->is_recurrent[i],
                                &slides));
        if (slides && family->last_sees_all && i + 1 == config->n_layers) {
            log_warn("%s: the last layer sees all tokens, as in Transformers", fields->file);
            slides = false;
        }
        /* Transformers reads the list only for some families; for others it must agree with the window. */
        if (slides != computed && !by_layer)
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: layer_types[%u] differs from sliding_window, which %s has in "
                             "%s layer",
                             fields->file, i, family->architecture,
                             windows.window ? "every" : "no");
        config->windows[i] = slides ? windows.window : 0;
    }
    return STATUS_OK;
}

/* ---- rotation ---- */

/* no_rope_layers has a 1 for each layer that rotates; else all but every nth do. */
static enum status read_listed_ropes(const struct json_fields *fields, struct model_config *config)
{
    uint32_t interval = 4;
    const json_t *list;
    TRY(json_fields_u32(fields, "no_rope_layer_interval", 1, LAYERS_MAX, &interval));
    TRY(layer_list_get(fields, "no_rope_layers", config->n_layers, "numbers", &list));
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool rotates = (i + 1) % interval != 0;
        const json_t *listed = list ? json_array_get(list, i) : NULL;
        uint32_t number = 0;
        if (listed && !json_fields_whole(listed, UINT32_MAX, &number))
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: no_rope_layers[%u] is not a whole number", fields->file, i);
        if (listed)
            rotates = number != 0;
        config->layer_ropes[i] = rotates ? ROPE_MAIN : ROPE_ABSENT;
    }
    return STATUS_OK;
}

static enum layer_rope rope_of_layer(enum rope_rule rule, bool slides)
{
    switch (rule) {
    case ROPES_LOCAL_IN_WINDOWS:
        return slides ? ROPE_LOCAL : ROPE_MAIN;
    case ROPES_ONLY_IN_WINDOWS:
        return slides ? ROPE_MAIN : ROPE_ABSENT;
    case ROPES_NOWHERE:
        return ROPE_ABSENT;
    case ROPES_EVERYWHERE:
    case ROPES_LISTED:
        break;
    }
    return ROPE_MAIN;
}

/* Scores times head_dim^-1/2, with YaRN times the square of what mscale_all_dim makes of its factor. */
static void scale_latents(struct model_config *config)
{
    const struct rope_config *rope = &config->rope;
    double scale = 1;
    if (rope->scaling == ROPE_YARN && rope->mscale_all_dim > 0)
        scale = rope_yarn_mscale(rope->factor, rope->mscale_all_dim);
    config->decoder.attention_scale = (float)(scale * scale / sqrt((double)config->head_dim));
}

/* Layers that see all tokens have the main rotation, and may be wider. */
static uint32_t layers_with_main_rope_dim(const struct model_config *config)
{
    return config->wide_head_dim > 0 ? config->wide_head_dim : config->head_dim;
}

static enum status read_ropes(const struct json_fields *fields, struct model_config *config)
{
    const struct family *family = family_of(config);
    struct rope_source source = {
        .fields = fields,
        .family = family,
        .head_dim = family->is_latent ? config->decoder.latent.rope_dim
                                      : layers_with_main_rope_dim(config),
        .context_tokens = config->context_tokens,
        .factors = &config->rope_factors,
    };
    for (uint32_t i = 0; i < config->n_layers; i++)
        config->layer_ropes[i] = (uint8_t)rope_of_layer(family->ropes, config->windows[i] > 0);
    if (family->ropes == ROPES_LISTED)
        TRY(read_listed_ropes(fields, config));
    if (config->decoder.alibi_scale != 0)
        memset(config->layer_ropes, ROPE_ABSENT, sizeof config->layer_ropes);
    TRY(rope_parameters_read(&source, &config->rope));
    config->context_tokens = config->rope.positions_max;
    if (family->is_latent)
        scale_latents(config);
    config->rope_local = config->rope;
    source.context_tokens = config->context_tokens;
    source.is_local = true;
    source.head_dim = family->is_latent ? source.head_dim : config->head_dim;
    return family->ropes == ROPES_LOCAL_IN_WINDOWS
               ? rope_parameters_read(&source, &config->rope_local)
               : STATUS_OK;
}

/* ---- tokens that end a text ---- */

/* The ids of config.json come first; those of generation_config.json are added. */
static enum status add_eos(const struct json_fields *fields, const json_t *value,
                           struct model_config *config)
{
    uint32_t id;
    if (!json_fields_whole(value, config->vocabulary - 1, &id))
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: eos_token_id is not an id below vocab_size %u, nor a list of such",
                         fields->file, config->vocabulary);
    for (uint32_t i = 0; i < config->n_eos_ids; i++)
        if (config->eos_ids[i] == id)
            return STATUS_OK;
    if (config->n_eos_ids == EOS_IDS_MAX)
        return error_set(fields->error, STATUS_UNSUPPORTED, "%s: eos_token_id has more than %u ids",
                         fields->file, EOS_IDS_MAX);
    config->eos_ids[config->n_eos_ids++] = id;
    return STATUS_OK;
}

static enum status read_eos(const struct json_fields *fields, struct model_config *config)
{
    const json_t *eos = json_fields_get(fields, "eos_token_id");
    if (!eos)
        return STATUS_OK;
    if (!json_is_array(eos))
        return add_eos(fields, eos, config);
    for (size_t i = 0; i < json_array_size(eos); i++)
        TRY(add_eos(fields, json_array_get(eos, i), config));
    return STATUS_OK;
}

/* ---- the whole file ---- */

/* A text_config leaves out what is as in the class of its family. */
static void set_defaults_of_text(struct model_config *config)
{
    const struct family *family = family_of(config);
    config->is_text_of_more = true;
    config->n_heads = family->n_heads;
    config->n_kv_heads = family->n_kv_heads;
    config->vocabulary = family->vocabulary;
}

/* What stands around a text_config. The class of the whole ties embeddings, unless told otherwise: if the files have a
 * head that differs, it is used. */
static enum status read_around(const struct json_fields *text, const struct json_fields *whole,
                               struct model_config *config)
{
    static const char TIED[] = "tie_word_embeddings";
    if (!json_fields_get(text, TIED))
        config->tied_embeddings = true;
    TRY(json_fields_bool(whole, TIED, &config->tied_embeddings));
    return read_eos(whole, config);
}

static enum status read_config(const struct json_fields *whole, bool is_alone, bool is_quiet,
                               struct model_config *config)
{
    struct json_fields text;
    TRY(family_text_fields(whole, &text));
    const struct json_fields *fields = &text;
    TRY(family_read(fields, &config->family));
    if (fields->object != whole->object)
        set_defaults_of_text(config);
    config->decoder = family_of(config)->decoder;
    TRY(quantization_read(whole, &config->quantization));
    if (config->quantization.method == QUANTIZATION_MXFP4 &&
        family_of(config)->naming != NAMED_AS_GPT_OSS)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "config.json: quantization_config: quant_method is mxfp4, which is "
                         "supported for gpt_oss alone");
    TRY(config_keys_check(is_alone ? KEYS_CONFIG_ALONE : KEYS_CONFIG, family_of(config)->own_keys,
                          fields, is_quiet));
    TRY(read_sizes(fields, config));
    TRY(read_switches(fields, config));
    TRY(read_windows(fields, config));
    if (family_of(config)->is_unequal)
        TRY(unequal_layers_read(fields, config));
    TRY(read_ropes(fields, config));
    TRY(read_eos(fields, config));
    if (is_alone)
        TRY(suppressed_tokens_read(whole, config));
    return config->is_text_of_more ? read_around(fields, whole, config) : STATUS_OK;
}

static enum status parse(const char *config_json, size_t config_bytes, const char *generation_json,
                         size_t generation_bytes, bool is_quiet, struct model_config *config_out,
                         struct error *error)
{
    struct model_config config = {0};
    struct json_fields fields = {.file = CONFIG_FILE, .error = error};
    json_t *root;
    TRY(json_fields_parse(config_json, config_bytes, CONFIG_FILE, &root, error));
    fields.object = root;
    enum status status = read_config(&fields, !generation_json, is_quiet, &config);
    json_decref(root);
    if (status == STATUS_OK && generation_json) {
        TRY(json_fields_parse(generation_json, generation_bytes, GENERATION_FILE, &root, error));
        fields = (struct json_fields){root, GENERATION_FILE, error};
        status = config_keys_check(KEYS_GENERATION, family_of(&config)->generation_keys, &fields,
                                   is_quiet);
        if (status == STATUS_OK)
            status = read_eos(&fields, &config);
        if (status == STATUS_OK)
            status = encoder_read_generation(&fields, &config);
        if (status == STATUS_OK)
            status = suppressed_tokens_read(&fields, &config);
        json_decref(root);
    }
    if (status == STATUS_OK)
        status = encoder_check(&config, error);
    if (status == STATUS_OK)
        *config_out = config;
    return status;
}

enum status model_config_parse(const char *config_json, size_t config_bytes,
                               const char *generation_json, size_t generation_bytes,
                               struct model_config *config_out, struct error *error)
{
    return parse(config_json, config_bytes, generation_json, generation_bytes, false, config_out,
                 error);
}

/* Adds the reason why the file is missing, if the folder shows one. */
static enum status explain(const char *folder, enum status status, struct error *error)
{
    const char *advice = status == STATUS_NOT_FOUND ? other_format_advice(folder) : "";
    if (!advice[0])
        return status;
    return error_set(error, STATUS_UNSUPPORTED, "%.100s has no %s%s", folder, CONFIG_FILE, advice);
}

enum status model_config_read(const char *folder, bool is_quiet, struct model_config *config_out,
                              struct error *error)
{
    struct mapped_file config = {0}, generation = {0};
    enum status status = mapped_file_open(folder, CONFIG_FILE, CONFIG_JSON_BYTES_MAX, &config,
                                          error);
    if (status != STATUS_OK)
        return explain(folder, status, error);
    status = mapped_file_open(folder, GENERATION_FILE, CONFIG_JSON_BYTES_MAX, &generation, error);
    bool has_generation = status == STATUS_OK;
    if (status == STATUS_NOT_FOUND)
        error_write(error, "%s", ""); /* the file is optional */
    if (has_generation || status == STATUS_NOT_FOUND)
        status = parse((const char *)config.data, config.bytes,
                       has_generation && !generation.data ? "" : (const char *)generation.data,
                       generation.bytes, is_quiet, config_out, error);
    if (status == STATUS_OK)
        config_out->is_gguf = gguf_is(folder);
    mapped_file_close(&generation);
    mapped_file_close(&config);
    return status;
}
