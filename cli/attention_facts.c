#include "cli/attention_facts.h"

#include "model/config/layer_shape.h"
#include "model/forward/attention_check.h"

#include <assert.h>
#include <stdlib.h>
#include <string.h>

#define LAYERS_TEXT_MAX (8 * LAYERS_MAX) /* "0, 2, 4-6" */

static bool is_same(const struct model_config *config, const struct attention_answer *answers,
                    uint32_t layer, uint32_t other)
{
    return attention_check_is_alike(config, layer, other) &&
           answers[layer].status == answers[other].status &&
           strcmp(answers[layer].error.text, answers[other].error.text) == 0;
}

/* "0-4, 6-10": the layers that are as first. */
static void list_layers(const struct model_config *config, const struct attention_answer *answers,
                        uint32_t first, char *text_out)
{
    size_t at = 0;
    for (uint32_t layer = first; layer < config->n_layers; layer++) {
        uint32_t end = layer;
        while (end < config->n_layers && is_same(config, answers, first, end))
            end++;
        if (end == layer)
            continue;
        const char *between = at > 0 ? ", " : "";
        at += (size_t)(end == layer + 1
                           ? snprintf(text_out + at, LAYERS_TEXT_MAX - at, "%s%u", between, layer)
                           : snprintf(text_out + at, LAYERS_TEXT_MAX - at, "%s%u-%u", between,
                                      layer, end - 1));
        assert(at < LAYERS_TEXT_MAX);
        layer = end;
    }
}

static const char *path_name(enum attention_path path)
{
    switch (path) {
    case PATH_UNFUSED:
        return "unfused";
    case PATH_SHORT:
        return "short";
    case PATH_AUTO:
    case PATH_FLASH:
        break;
    }
    return "flash";
}

static const char *rope_name(uint8_t rope)
{
    return rope == ROPE_ABSENT ? "none" : rope == ROPE_LOCAL ? "local" : "main";
}

static const char *cache_name(enum cache_dtype dtype)
{
    static const char *const NAMES[] = {[CACHE_F32] = "f32",
                                        [CACHE_BF16] = "bf16",
                                        [CACHE_F16] = "f16",
                                        [CACHE_INT8] = "int8",
                                        [CACHE_E4M3] = "e4m3"};
    return NAMES[dtype];
}

static json_t *group_of(const struct model_config *config, const struct forward_options *options,
                        const struct attention_answer *answers, uint32_t first)
{
    char layers[LAYERS_TEXT_MAX] = "";
    const bool is_supported = answers[first].status == STATUS_OK;
    list_layers(config, answers, first, layers);
    json_t *group = json_pack(
        "{s:s, s:I, s:s, s:I, s:I, s:I, s:s, s:s, s:s, s:b}", "layers", layers, "window",
        (json_int_t)config->windows[first], "rope", rope_name(config->layer_ropes[first]), "heads",
        (json_int_t)config->n_heads, "kv_heads", (json_int_t)layer_kv_heads(config, first),
        "head_dim", (json_int_t)layer_head_dim(config, first), "path",
        path_name(options->attention.path), "math", context_math_name(options->context_math),
        "kv_dtype", cache_name(options->cache_dtype), "supported", is_supported);
    if (config->decoder.latent.dim > 0)
        json_object_set_new(group, "latent_dim", json_integer(config->decoder.latent.dim));
    if (config->kv_back[first] > 0)
        json_object_set_new(group, "reads_other_layers", json_true());
    if (!is_supported)
        json_object_set_new(group, "error", json_string(answers[first].error.text));
    return group;
}

static void add_groups(json_t *facts, const struct model_config *config,
                       const struct forward_options *options,
                       const struct attention_answer *answers)
{
    json_t *groups = json_array();
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        uint32_t first = 0;
        while (!is_same(config, answers, first, layer))
            first++;
        if (first == layer && !config->is_recurrent[layer])
            json_array_append_new(groups, group_of(config, options, answers, layer));
    }
    json_object_set_new(facts, "attention", groups);
}

enum status attention_facts_add(json_t *facts, const struct model *model,
                                const struct forward_options *options, struct error *error)
{
    const struct model_config *config = model_get_config(model);
    struct attention_answer *answers = calloc(config->n_layers, sizeof *answers);
    if (!answers)
        return STATUS_NO_MEMORY;
    enum status status = attention_check(model, options, error, answers);
    if (status == STATUS_OK) {
        add_groups(facts, config, options, answers);
        status = attention_check_join(answers, config->n_layers, error);
    }
    free(answers);
    return status;
}

static const char *text_of(const json_t *group, const char *key)
{
    return json_string_value(json_object_get(group, key));
}

static json_int_t number_of(const json_t *group, const char *key)
{
    return json_integer_value(json_object_get(group, key));
}

#define INT "%" JSON_INTEGER_FORMAT

static void print_group(const json_t *group, const char *begin, FILE *out)
{
    const char *layers = text_of(group, "layers"), *rope = text_of(group, "rope");
    fprintf(out, "%-16slayer%s %s: ", begin, strpbrk(layers, "-,") ? "s" : "", layers);
    if (number_of(group, "window") > 0)
        fprintf(out, "window " INT ", ", number_of(group, "window"));
    if (json_is_true(json_object_get(group, "reads_other_layers")))
        fputs("K and V of others, ", out);
    if (strcmp(rope, "main") != 0)
        fprintf(out, "%s RoPE, ", strcmp(rope, "none") == 0 ? "no" : rope);
    fprintf(out, INT " heads on ", number_of(group, "heads"));
    if (number_of(group, "latent_dim") > 0)
        fprintf(out, "latents of " INT, number_of(group, "latent_dim"));
    else
        fprintf(out, INT, number_of(group, "kv_heads"));
    fprintf(out, ", head_dim " INT ": %s, %s, KV %s: ", number_of(group, "head_dim"),
            text_of(group, "path"), text_of(group, "math"), text_of(group, "kv_dtype"));
    if (json_is_true(json_object_get(group, "supported")))
        fputs("supported\n", out);
    else
        fprintf(out, "not supported: %s\n", text_of(group, "error"));
}

void attention_facts_print(const json_t *facts, FILE *out)
{
    const json_t *group;
    size_t i;
    json_array_foreach(json_object_get(facts, "attention"), i, group)
        print_group(group, i == 0 ? "attention" : "", out);
}
