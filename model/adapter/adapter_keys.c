#include "model/adapter/adapter_keys.h"

#include <stdio.h>
#include <stdlib.h>
#include <string.h>

/* By adapter_config.c. */
static const char *const READ[] = {"peft_type",
                                   "r",
                                   "lora_alpha",
                                   "use_rslora",
                                   "rank_pattern",
                                   "alpha_pattern",
                                   "target_modules",
                                   "exclude_modules",
                                   "bias",
                                   "fan_in_fan_out",
                                   "layers_to_transform",
                                   "layers_pattern",
                                   "use_dora",
                                   "init_lora_weights"};

/* About training, where the adapter comes from, and how weights were begun with. */
static const char *const WITHOUT_EFFECT[] = {
    "task_type",          "auto_mapping",    "base_model_name_or_path",
    "revision",           "peft_version",    "inference_mode",
    "lora_dropout",       "megatron_config", "megatron_core",
    "loftq_config",       "eva_config",      "corda_config",
    "lora_ga_config",     "runtime_config",  "qalora_group_size",
    "ensure_weight_tying"};

static const struct reason {
    const char *key, *what;
} REASONS[] = {
    {"modules_to_save", "whole matrices beside the adapter"},
    {"use_qalora", "QALoRA"},
    {"use_bdlora", "BD-LoRA"},
    {"lora_bias", "a bias of B"},
    {"target_parameters", "adapters of parameters, such as experts"},
    {"trainable_token_indices", "rows of the embedding"},
    {"layer_replication", "layers that come twice"},
    {"alora_invocation_tokens", "an adapter that begins at a token"},
    {"arrow_config", "routing between adapters"},
    {"velora_config", "VeLoRA"},
    {"monteclora_config", "MonteCLoRA"},
    {"kasa_config", "KaSA"},
};

#define COUNT(array) (sizeof(array) / sizeof *(array))

static bool is_in(const char *key, const char *const *list, size_t n)
{
    for (size_t i = 0; i < n; i++)
        if (strcmp(list[i], key) == 0)
            return true;
    return false;
}

static bool is_empty(const json_t *value)
{
    switch (json_typeof(value)) {
    case JSON_NULL:
    case JSON_FALSE:
        return true;
    case JSON_OBJECT:
        return json_object_size(value) == 0;
    case JSON_ARRAY:
        return json_array_size(value) == 0;
    case JSON_STRING:
        return json_string_length(value) == 0;
    case JSON_INTEGER:
    case JSON_REAL:
        return json_number_value(value) == 0;
    case JSON_TRUE:
        break;
    }
    return false;
}

void adapter_keys_print(const json_t *value, char *text, size_t text_max)
{
    char *dumped = json_dumps(value, JSON_COMPACT | JSON_ENCODE_ANY | JSON_SORT_KEYS);
    snprintf(text, text_max, "%s", dumped ? dumped : "?");
    free(dumped);
}

enum status adapter_keys_check(const json_t *config, struct error *error)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)config, key, value)
    {
        char text[60];
        const char *what = "a key that is not known";
        if (is_in(key, READ, COUNT(READ)) || is_in(key, WITHOUT_EFFECT, COUNT(WITHOUT_EFFECT)) ||
            is_empty(value))
            continue;
        for (size_t i = 0; i < COUNT(REASONS); i++)
            if (strcmp(REASONS[i].key, key) == 0)
                what = REASONS[i].what;
        adapter_keys_print(value, text, sizeof text);
        return error_set(error, STATUS_UNSUPPORTED,
                         "adapter_config.json: %.80s is %s: %s; not supported", key, text, what);
    }
    return STATUS_OK;
}
