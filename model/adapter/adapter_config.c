#include "model/adapter/adapter_config.h"

#include "base/regular_file.h"
#include "model/adapter/adapter_keys.h"
#include "model/adapter/module_pattern.h"
#include "model/files/json_fields.h"

#include <math.h>
#include <stdlib.h>
#include <string.h>

#define FILE_NAME      "adapter_config.json"
#define FILE_BYTES_MAX (1u << 20)
#define ALPHA_MAX      1e6
#define NAMES_MAX      4096u

static enum status refuse(const struct json_fields *fields, const char *key, const char *expected)
{
    char text[80];
    adapter_keys_print(json_object_get(fields->object, key), text, sizeof text);
    return error_set(fields->error, STATUS_UNSUPPORTED, FILE_NAME ": %s is %s, expected %s", key,
                     text, expected);
}

/* ---- modules ---- */

static enum status read_modules(const struct json_fields *fields, const char *key,
                                struct module_list *list)
{
    const json_t *value = json_fields_get(fields, key);
    if (json_is_string(value))
        return module_pattern_create(json_string_value(value), MODULE_PATTERN_WHOLE, key,
                                     fields->error, &list->pattern);
    if (value && (!json_is_array(value) || json_array_size(value) > NAMES_MAX))
        return refuse(fields, key, "a list of at most 4096 names, or a regular expression");
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_is_string(json_array_get(value, i)))
            return refuse(fields, key, "a list of names, or a regular expression");
    list->names = value;
    return STATUS_OK;
}

static bool is_named(const json_t *names, const char *module)
{
    const size_t length = strlen(module);
    for (size_t i = 0; i < json_array_size(names); i++) {
        const char *name = json_string_value(json_array_get(names, i));
        const size_t n = strlen(name);
        if (strcmp(name, module) == 0 ||
            (n < length && module[length - n - 1] == '.' && strcmp(module + length - n, name) == 0))
            return true;
    }
    return false;
}

static enum status is_in(const struct module_list *list, const char *module, struct error *error,
                         bool *is_in_out)
{
    *is_in_out = is_named(list->names, module);
    return list->pattern ? module_pattern_match(list->pattern, module, error, is_in_out)
                         : STATUS_OK;
}

/* ---- layers ---- */

static enum status read_layers(const struct json_fields *fields, struct adapter_config *config)
{
    const json_t *value = json_fields_get(fields, "layers_to_transform");
    const json_t *pattern = json_fields_get(fields, "layers_pattern");
    uint32_t number;
    for (size_t i = 0; i < json_array_size(value); i++)
        if (!json_fields_whole(json_array_get(value, i), UINT32_MAX, &number))
            return refuse(fields, "layers_to_transform", "numbers of layers");
    if (value && !json_is_array(value) && !json_fields_whole(value, UINT32_MAX, &number))
        return refuse(fields, "layers_to_transform", "numbers of layers");
    if (pattern && json_array_size(pattern) + json_string_length(pattern) > 0)
        return refuse(fields, "layers_pattern", "none: layers are numbered in one way");
    if (json_is_array(value) && json_array_size(value) == 0)
        return STATUS_OK;
    if (value && config->targets.pattern)
        return refuse(fields, "layers_to_transform",
                      "none beside target_modules that is a regular expression");
    config->layers = value;
    return STATUS_OK;
}

static bool has_layer(const json_t *layers, uint32_t layer)
{
    uint32_t number;
    if (!layers)
        return true;
    if (!json_is_array(layers))
        return json_fields_whole(layers, UINT32_MAX, &number) && number == layer;
    for (size_t i = 0; i < json_array_size(layers); i++)
        if (json_fields_whole(json_array_get(layers, i), UINT32_MAX, &number) && number == layer)
            return true;
    return false;
}

/* ---- ranks and scales ---- */

/* key: a literal. */
static enum status read_patterns(const struct json_fields *fields, const char *key, double least,
                                 double most, struct adapter_pattern **patterns_out,
                                 uint32_t *n_out)
{
    const json_t *object;
    const char *name;
    json_t *value;
    TRY(json_fields_object(fields, key, &object));
    const size_t n = json_object_size(object);
    if (n == 0)
        return STATUS_OK;
    if (n > ADAPTER_PATTERNS_MAX)
        return error_set(fields->error, STATUS_CORRUPT,
                         FILE_NAME ": %s has %zu patterns, at most %u", key, n,
                         ADAPTER_PATTERNS_MAX);
    struct adapter_pattern *patterns = calloc(n, sizeof *patterns);
    *patterns_out = patterns; /* freed with the config */
    if (!patterns)
        return STATUS_NO_MEMORY;
    json_object_foreach((json_t *)(uintptr_t)object, name, value)
    {
        const double number = json_is_number(value) ? json_number_value(value) : NAN;
        const bool is_whole = least < 1 || number == floor(number);
        if (!(number >= least && number <= most) || !is_whole) {
            char text[40];
            adapter_keys_print(value, text, sizeof text);
            return error_set(fields->error, STATUS_CORRUPT,
                             FILE_NAME ": %s of \"%.80s\" is %s, expected %g .. %g", key, name,
                             text, least, most);
        }
        patterns[*n_out].value = number;
        TRY(module_pattern_create(name, MODULE_PATTERN_END, key, fields->error,
                                  &patterns[*n_out].pattern));
        ++*n_out;
    }
    return STATUS_OK;
}

/* The first pattern counts, as in PEFT. */
static enum status find_value(const struct adapter_pattern *patterns, uint32_t n,
                              const char *module, struct error *error, double *value)
{
    for (uint32_t i = 0; i < n; i++) {
        bool matches;
        TRY(module_pattern_match(patterns[i].pattern, module, error, &matches));
        if (matches) {
            *value = patterns[i].value;
            return STATUS_OK;
        }
    }
    return STATUS_OK;
}

/* ---- the file ---- */

/* Some ways to begin change the model's own weights, too. */
static enum status check_init(const struct json_fields *fields)
{
    static const char *const ALONE[] = {"gaussian", "eva", "orthogonal"};
    const json_t *value = json_fields_get(fields, "init_lora_weights");
    if (!value || json_is_boolean(value))
        return STATUS_OK;
    for (size_t i = 0; json_is_string(value) && i < sizeof ALONE / sizeof *ALONE; i++)
        if (strcmp(json_string_value(value), ALONE[i]) == 0)
            return STATUS_OK;
    return refuse(fields, "init_lora_weights",
                  "true, false, \"gaussian\", \"eva\" or \"orthogonal\": others change the model's "
                  "own weights; convert the adapter (path_initial_model_for_weight_conversion)");
}

static enum status check_kind(const struct json_fields *fields)
{
    const char *type = "", *bias = "none";
    bool is_transposed = false, is_dora = false;
    TRY(json_fields_require(fields, "peft_type"));
    TRY(json_fields_string(fields, "peft_type", &type));
    if (strcmp(type, "LORA") != 0)
        return refuse(fields, "peft_type", "\"LORA\"");
    TRY(json_fields_bool(fields, "use_dora", &is_dora));
    if (is_dora)
        return refuse(fields, "use_dora", "false: DoRA is not supported");
    TRY(json_fields_string(fields, "bias", &bias));
    if (strcmp(bias, "none") != 0)
        return refuse(fields, "bias", "\"none\": trained biases are not supported");
    /* How PEFT turns a product when it merges; the tensors lie the same. */
    TRY(json_fields_bool(fields, "fan_in_fan_out", &is_transposed));
    return check_init(fields);
}

static enum status read_fields(const struct json_fields *fields, struct adapter_config *config)
{
    TRY(check_kind(fields));
    TRY(adapter_keys_check(fields->object, fields->error));
    TRY(json_fields_require(fields, "r"));
    TRY(json_fields_u32(fields, "r", 1, ADAPTER_RANK_MAX, &config->rank));
    config->alpha = 8; /* PEFT's default */
    TRY(json_fields_real(fields, "lora_alpha", -ALPHA_MAX, ALPHA_MAX, &config->alpha));
    TRY(json_fields_bool(fields, "use_rslora", &config->divides_by_root));
    TRY(json_fields_require(fields, "target_modules"));
    TRY(read_modules(fields, "target_modules", &config->targets));
    TRY(read_modules(fields, "exclude_modules", &config->excluded));
    TRY(read_layers(fields, config));
    TRY(read_patterns(fields, "rank_pattern", 1, ADAPTER_RANK_MAX, &config->ranks,
                      &config->n_ranks));
    return read_patterns(fields, "alpha_pattern", -ALPHA_MAX, ALPHA_MAX, &config->alphas,
                         &config->n_alphas);
}

enum status adapter_config_read(const char *folder, struct error *error,
                                struct adapter_config *config_out)
{
    struct adapter_config config = {0};
    char *text;
    size_t bytes;
    TRY(regular_file_read_in(folder, FILE_NAME, FILE_BYTES_MAX, &text, &bytes, error));
    enum status status = json_fields_parse(text, bytes, FILE_NAME, &config.root, error);
    free(text);
    TRY(status);
    const struct json_fields fields = {config.root, FILE_NAME, error};
    status = read_fields(&fields, &config);
    if (status != STATUS_OK) {
        adapter_config_finish(&config);
        return status;
    }
    *config_out = config;
    return STATUS_OK;
}

static void finish_patterns(struct adapter_pattern *patterns, uint32_t n)
{
    for (uint32_t i = 0; i < n; i++)
        module_pattern_destroy(patterns[i].pattern);
    free(patterns);
}

void adapter_config_finish(struct adapter_config *config)
{
    module_pattern_destroy(config->targets.pattern);
    module_pattern_destroy(config->excluded.pattern);
    finish_patterns(config->ranks, config->n_ranks);
    finish_patterns(config->alphas, config->n_alphas);
    json_decref(config->root);
    *config = (struct adapter_config){0};
}

enum status adapter_config_has(const struct adapter_config *config, const char *module,
                               uint32_t layer, struct error *error, bool *has_out)
{
    bool is_target, is_excluded;
    TRY(is_in(&config->excluded, module, error, &is_excluded));
    TRY(is_in(&config->targets, module, error, &is_target));
    *has_out = is_target && !is_excluded && has_layer(config->layers, layer);
    return STATUS_OK;
}

enum status adapter_config_shape(const struct adapter_config *config, const char *module,
                                 struct error *error, uint32_t *rank_out, float *scale_out)
{
    double rank = config->rank, alpha = config->alpha;
    TRY(find_value(config->ranks, config->n_ranks, module, error, &rank));
    TRY(find_value(config->alphas, config->n_alphas, module, error, &alpha));
    *rank_out = (uint32_t)rank;
    *scale_out = (float)(alpha / (config->divides_by_root ? sqrt(rank) : rank));
    return STATUS_OK;
}
