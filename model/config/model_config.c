#include "model/config/model_config.h"

#include "base/log/log.h"
#include "kernels/attention.h"
#include "model/config/config_keys.h"
#include "model/config/rope_parameters.h"
#include "model/files/json_fields.h"
#include "model/files/mapped_file.h"
#include "model/files/other_format.h"

#include <assert.h>
#include <math.h>
#include <string.h>
#include <strings.h>

static const char CONFIG_FILE[] = "config.json";
static const char GENERATION_FILE[] = "generation_config.json";

static const struct family_row {
    const char *architecture, *model_type;
    bool may_have_attention_bias, may_have_mlp_bias;
    bool has_qkv_bias, has_qk_norm, windows_by_layer;
    /* The default of Transformers for an absent key. */
    uint32_t head_dim; /* 0: hidden / heads */
    uint32_t context_tokens;
} FAMILIES[] = {
    [FAMILY_LLAMA] = {"LlamaForCausalLM", "llama", true, true, false, false, false, 0, 2048},
    [FAMILY_MISTRAL] = {"MistralForCausalLM", "mistral", false, false, false, false, false, 0,
                        131072},
    [FAMILY_QWEN2] = {"Qwen2ForCausalLM", "qwen2", false, false, true, false, true, 0, 32768},
    [FAMILY_QWEN3] = {"Qwen3ForCausalLM", "qwen3", true, false, false, true, true, 128, 32768},
};

enum { N_FAMILIES = sizeof FAMILIES / sizeof *FAMILIES };

#define NORM_EPS_DEFAULT 1e-6

/* The defaults of Transformers if a sliding window is on and its key is absent. */
enum { WINDOW_DEFAULT = 4096, MAX_WINDOW_LAYERS_DEFAULT = 28 };

const char *model_family_name(enum model_family family)
{
    assert((unsigned)family < N_FAMILIES);
    return FAMILIES[family].architecture;
}

/* ---- which family ---- */

static bool has_class(const char *architecture)
{
    for (size_t i = 0; i < N_FAMILIES; i++)
        if (strcasecmp(architecture, FAMILIES[i].architecture) == 0)
            return true;
    return false;
}

static enum status refuse_architectures(const struct json_fields *fields)
{
    return error_set(fields->error, STATUS_CORRUPT, "%s: architectures is not a list of strings",
                     fields->file);
}

/* The first class of the list that is known, else the first. *name_out NULL: the key is absent or empty,
 * and model_type decides. */
static enum status read_architecture(const struct json_fields *fields, const char **name_out)
{
    const json_t *list = json_fields_get(fields, "architectures");
    size_t i;
    json_t *element;
    *name_out = NULL;
    if (!list)
        return STATUS_OK;
    if (!json_is_array(list))
        return refuse_architectures(fields);
    json_array_foreach((json_t *)(uintptr_t)list, i, element)
    {
        const char *name = json_string_value(element);
        if (!name)
            return refuse_architectures(fields);
        if (!*name_out || (!has_class(*name_out) && has_class(name)))
            *name_out = name;
    }
    return STATUS_OK;
}

/* The class in architectures decides, because classes of Qwen2 for other tasks have the same model_type. The
 * first conversions of Llama wrote LLaMAForCausalLM. */
static enum status read_family(const struct json_fields *fields, enum model_family *family_out)
{
    const char *architecture, *model_type = NULL;
    TRY(read_architecture(fields, &architecture));
    TRY(json_fields_string(fields, "model_type", &model_type));
    if (!architecture && !model_type)
        return json_fields_require(fields, "architectures");
    for (size_t i = 0; i < N_FAMILIES; i++) {
        if (strcasecmp(architecture ? architecture : model_type,
                       architecture ? FAMILIES[i].architecture : FAMILIES[i].model_type) != 0)
            continue;
        if (model_type && strcmp(model_type, FAMILIES[i].model_type) != 0)
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: model_type is \"%.60s\", architectures says %s", fields->file,
                             model_type, architecture);
        *family_out = (enum model_family)i;
        return STATUS_OK;
    }
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s \"%.80s\" is not supported (Llama, Mistral, Qwen2, Qwen3 are)",
                     fields->file, architecture ? "architectures" : "model_type",
                     architecture ? architecture : model_type);
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
    SIZE("intermediate_size", ffn, FFN_MAX, true),
    SIZE("vocab_size", vocabulary, VOCABULARY_MAX, true),
    SIZE("max_position_embeddings", context_tokens, CONTEXT_TOKENS_MAX, false),
#undef SIZE
};

static enum status read_heads(const struct json_fields *fields, struct model_config *config)
{
    const struct family_row *family = &FAMILIES[config->family];
    /* Only for Llama the default, n_heads, follows from this file alone. */
    if (config->n_kv_heads == 0 && config->family != FAMILY_LLAMA)
        return json_fields_require(fields, "num_key_value_heads");
    if (config->n_kv_heads == 0)
        config->n_kv_heads = config->n_heads;
    if (config->n_heads % config->n_kv_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: num_key_value_heads is %u, which does not divide "
                         "num_attention_heads %u",
                         fields->file, config->n_kv_heads, config->n_heads);
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
    for (size_t i = 0; i < sizeof SIZES / sizeof *SIZES; i++) {
        uint32_t *size = (uint32_t *)(void *)((char *)config + SIZES[i].offset);
        if (SIZES[i].is_required)
            TRY(json_fields_require(fields, SIZES[i].key));
        TRY(json_fields_u32(fields, SIZES[i].key, 1, SIZES[i].max, size));
    }
    TRY(read_heads(fields, config));
    if (config->context_tokens == 0)
        config->context_tokens = FAMILIES[config->family].context_tokens;

    double eps = NORM_EPS_DEFAULT;
    TRY(json_fields_real(fields, "rms_norm_eps", 1e-30, 1, &eps));
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

static enum status read_switches(const struct json_fields *fields, struct model_config *config)
{
    const struct family_row *family = &FAMILIES[config->family];
    const char *act = "silu";
    TRY(json_fields_string(fields, "hidden_act", &act));
    if (strcmp(act, "silu") != 0 && strcmp(act, "swish") != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: hidden_act \"%.40s\" is not supported, only silu is", fields->file,
                         act);

    bool attention_bias = false;
    TRY(read_bias(fields, "attention_bias", family->may_have_attention_bias, &attention_bias));
    TRY(read_bias(fields, "mlp_bias", family->may_have_mlp_bias, &config->mlp_bias));
    TRY(json_fields_bool(fields, "tie_word_embeddings", &config->tied_embeddings));
    config->qkv_bias = attention_bias || family->has_qkv_bias;
    config->o_bias = attention_bias;
    config->qk_norm = family->has_qk_norm;
    return STATUS_OK;
}

/* ---- sliding windows ---- */

/* Reads the sliding window, 0 for none, and the first layer that has it. */
static enum status read_window(const struct json_fields *fields, const struct model_config *config,
                               uint32_t *window_out, uint32_t *first_layer_out)
{
    uint32_t window = 0, first_layer = 0;
    bool is_on = config->family == FAMILY_MISTRAL;
    if (FAMILIES[config->family].windows_by_layer) {
        first_layer = MAX_WINDOW_LAYERS_DEFAULT;
        TRY(json_fields_bool(fields, "use_sliding_window", &is_on));
        TRY(json_fields_u32(fields, "max_window_layers", 0, UINT32_MAX, &first_layer));
    }
    if (is_on && !json_object_get(fields->object, "sliding_window"))
        window = WINDOW_DEFAULT;
    TRY(json_fields_u32(fields, "sliding_window", 1, UINT32_MAX, &window));
    if (window && config->family == FAMILY_LLAMA) /* Transformers ignores the key */
        log_warn("%s: sliding_window is %u, which LlamaForCausalLM does not have: ignored",
                 fields->file, window);
    *window_out = is_on ? window : 0;
    *first_layer_out = first_layer;
    return STATUS_OK;
}

static enum status read_layer_type(const struct json_fields *fields, const json_t *types,
                                   uint32_t layer, uint32_t window, bool *slides_out)
{
    const char *type = json_string_value(json_array_get(types, layer));
    if (!type)
        return error_set(fields->error, STATUS_CORRUPT, "%s: layer_types[%u] is not a string",
                         fields->file, layer);
    bool slides = strcmp(type, "sliding_attention") == 0;
    if (!slides && strcmp(type, "full_attention") != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: layer_types[%u] is \"%.60s\", which is not supported", fields->file,
                         layer, type);
    if (slides && window == 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: layer_types[%u] is sliding_attention, but no sliding_window is on",
                         fields->file, layer);
    *slides_out = slides;
    return STATUS_OK;
}

static enum status read_windows(const struct json_fields *fields, struct model_config *config)
{
    uint32_t window, first_layer;
    TRY(read_window(fields, config, &window, &first_layer));
    const json_t *types = json_fields_get(fields, "layer_types");
    if (types && (!json_is_array(types) || json_array_size(types) != config->n_layers))
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: layer_types is not a list of num_hidden_layers %u strings",
                         fields->file, config->n_layers);
    for (uint32_t i = 0; i < config->n_layers; i++) {
        bool slides = window && i >= first_layer;
        bool computed = slides;
        if (types)
            TRY(read_layer_type(fields, types, i, window, &slides));
        /* Transformers reads the list only for Qwen; for other families it must agree with the window. */
        if (slides != computed && !FAMILIES[config->family].windows_by_layer)
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: layer_types[%u] differs from sliding_window, which %s has in "
                             "every layer",
                             fields->file, i, FAMILIES[config->family].architecture);
        config->windows[i] = slides ? window : 0;
    }
    return STATUS_OK;
}

/* ---- tokens that end a text ---- */

/* The ids of config.json come first; those of generation_config.json are added. */
static enum status add_eos(const struct json_fields *fields, const json_t *value,
                           struct model_config *config)
{
    double id = json_is_number(value) ? json_number_value(value) : -1;
    if (id < 0 || id >= config->vocabulary || id != floor(id))
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: eos_token_id is not an id below vocab_size %u, nor a list of such",
                         fields->file, config->vocabulary);
    for (uint32_t i = 0; i < config->n_eos_ids; i++)
        if (config->eos_ids[i] == (uint32_t)id)
            return STATUS_OK;
    if (config->n_eos_ids == EOS_IDS_MAX)
        return error_set(fields->error, STATUS_UNSUPPORTED, "%s: eos_token_id has more than %u ids",
                         fields->file, EOS_IDS_MAX);
    config->eos_ids[config->n_eos_ids++] = (uint32_t)id;
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

static enum status read_config(const struct json_fields *fields, bool is_alone,
                               struct model_config *config)
{
    TRY(read_family(fields, &config->family));
    TRY(config_keys_check(is_alone ? KEYS_CONFIG_ALONE : KEYS_CONFIG, fields));
    TRY(read_sizes(fields, config));
    TRY(read_switches(fields, config));
    TRY(read_windows(fields, config));
    TRY(rope_parameters_read(fields, config->head_dim, config->context_tokens, &config->rope));
    config->context_tokens = config->rope.positions_max;
    return read_eos(fields, config);
}

enum status model_config_parse(const char *config_json, size_t config_bytes,
                               const char *generation_json, size_t generation_bytes,
                               struct model_config *config_out, struct error *error)
{
    struct model_config config = {0};
    struct json_fields fields = {.file = CONFIG_FILE, .error = error};
    json_t *root;
    TRY(json_fields_parse(config_json, config_bytes, CONFIG_FILE, &root, error));
    fields.object = root;
    enum status status = read_config(&fields, !generation_json, &config);
    json_decref(root);
    if (status == STATUS_OK && generation_json) {
        TRY(json_fields_parse(generation_json, generation_bytes, GENERATION_FILE, &root, error));
        fields = (struct json_fields){root, GENERATION_FILE, error};
        status = config_keys_check(KEYS_GENERATION, &fields);
        if (status == STATUS_OK)
            status = read_eos(&fields, &config);
        json_decref(root);
    }
    if (status == STATUS_OK)
        *config_out = config;
    return status;
}

/* Adds the reason why the file is missing, if the folder shows one. */
static enum status explain(const char *folder, enum status status, struct error *error)
{
    const char *advice = status == STATUS_NOT_FOUND ? other_format_advice(folder) : "";
    if (!advice[0])
        return status;
    return error_set(error, STATUS_UNSUPPORTED, "%.100s has no %s%s", folder, CONFIG_FILE, advice);
}

enum status model_config_read(const char *folder, struct model_config *config_out,
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
        status = model_config_parse(
            (const char *)config.data, config.bytes,
            has_generation && !generation.data ? "" : (const char *)generation.data,
            generation.bytes, config_out, error);
    mapped_file_close(&generation);
    mapped_file_close(&config);
    return status;
}
