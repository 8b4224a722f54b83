/* Which family config.json is of: families.h declares it. */
#include "model/config/families.h"

#include <stdio.h>
#include <string.h>
#include <strings.h>

static bool has_class(const char *architecture)
{
    for (uint32_t i = 0; family_at(i); i++)
        if (strcasecmp(architecture, family_at(i)->architecture) == 0)
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

/* "llama, mistral ... mpt", for the sentence that refuses another. */
static void list_families(char *list, size_t list_max)
{
    size_t length = 0;
    for (uint32_t i = 0; family_at(i) && length < list_max; i++)
        length += (size_t)snprintf(list + length, list_max - length, "%s%s", i ? ", " : "",
                                   family_at(i)->model_type);
}

/* Models whose text_config describes a model of text that has a row. */
static const char *const WRAPPERS[] = {
    "Gemma3ForConditionalGeneration",  "Mistral3ForConditionalGeneration",
    "Qwen3_5ForConditionalGeneration", "Qwen3_5MoeForConditionalGeneration",
    "Gemma4ForConditionalGeneration",  "Gemma4UnifiedForConditionalGeneration",
};

enum status family_text_fields(const struct json_fields *fields, struct json_fields *text_out)
{
    const char *architecture;
    const json_t *text;
    *text_out = *fields;
    TRY(read_architecture(fields, &architecture));
    for (size_t i = 0; i < sizeof WRAPPERS / sizeof *WRAPPERS; i++) {
        if (!architecture || strcasecmp(architecture, WRAPPERS[i]) != 0)
            continue;
        TRY(json_fields_require(fields, "text_config"));
        TRY(json_fields_object(fields, "text_config", &text));
        text_out->object = text;
        text_out->file = "config.json: text_config";
    }
    return STATUS_OK;
}

/* The class in architectures decides, because classes of Qwen2 for other tasks have the same model_type. The
 * first conversions of Llama wrote LLaMAForCausalLM. */
enum status family_read(const struct json_fields *fields, uint32_t *index_out)
{
    const char *architecture, *model_type = NULL;
    char known[512];
    TRY(read_architecture(fields, &architecture));
    TRY(json_fields_string(fields, "model_type", &model_type));
    if (!architecture && !model_type)
        return json_fields_require(fields, "architectures");
    for (uint32_t i = 0; family_at(i); i++) {
        const struct family *family = family_at(i);
        if (strcasecmp(architecture ? architecture : model_type,
                       architecture ? family->architecture : family->model_type) != 0)
            continue;
        if (model_type && strcmp(model_type, family->model_type) != 0)
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: model_type is \"%.60s\", architectures says %s", fields->file,
                             model_type, architecture);
        *index_out = i;
        return STATUS_OK;
    }
    list_families(known, sizeof known);
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: %s \"%.80s\" is not supported; model types that are: %s", fields->file,
                     architecture ? "architectures" : "model_type",
                     architecture ? architecture : model_type, known);
}
