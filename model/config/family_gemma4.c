/* The keys of Gemma 4, without those of unequal_layers.c: family_readers.h declares the readers. */
#include "model/config/family_readers.h"

#include <math.h>
#include <string.h>

/* Transformers reads neither key: rope_parameters has an object for each type of layers, or there is none. */
static enum status check_gemma4_ropes(const struct json_fields *fields)
{
    static const char *const KEYS[] = {"rope_scaling", "rope_theta"};
    static const char *const TYPES[] = {"full_attention", "sliding_attention"};
    const json_t *parameters;
    for (size_t i = 0; i < 2; i++)
        if (json_fields_get(fields, KEYS[i]))
            return error_set(fields->error, STATUS_UNSUPPORTED,
                             "%s: %s is not supported, expected rope_parameters", fields->file,
                             KEYS[i]);
    TRY(json_fields_object(fields, "rope_parameters", &parameters));
    for (size_t i = 0; parameters && i < 2; i++)
        if (!json_is_object(json_object_get(parameters, TYPES[i])))
            return error_set(fields->error, STATUS_CORRUPT, "%s: rope_parameters has no object %s",
                             fields->file, TYPES[i]);
    return STATUS_OK;
}

/* Texts alone are served: what is bidirectional for images changes nothing. */
static enum status check_gemma4_direction(const struct json_fields *fields)
{
    const char *direction = "vision";
    TRY(json_fields_string(fields, "use_bidirectional_attention", &direction));
    if (strcmp(direction, "vision") == 0)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: use_bidirectional_attention is \"%.40s\", only vision and null are "
                     "supported",
                     fields->file, direction);
}

static enum status read_layer_inputs(const struct json_fields *fields, struct model_config *config)
{
    struct layer_inputs *inputs = &config->decoder.layer_inputs;
    *inputs = (struct layer_inputs){256, 262144}; /* of the class */
    TRY(json_fields_u32(fields, "hidden_size_per_layer_input", 0, HIDDEN_MAX, &inputs->width));
    TRY(json_fields_u32(fields, "vocab_size_per_layer_input", 1, VOCABULARY_MAX,
                        &inputs->vocabulary));
    if (inputs->width == 0) {
        *inputs = (struct layer_inputs){0};
        return STATUS_OK;
    }
    if (inputs->vocabulary < config->vocabulary)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: vocab_size_per_layer_input is %u, supported are vocab_size %u and "
                         "more",
                         fields->file, inputs->vocabulary, config->vocabulary);
    if (inputs->width <= UINT32_MAX / LAYERS_MAX / 64)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: hidden_size_per_layer_input is %u, supported is up to %u", fields->file,
                     inputs->width, UINT32_MAX / LAYERS_MAX / 64);
}

/* Every layer has experts beside its MLP. */
static enum status read_gemma4_experts(const struct json_fields *fields,
                                       struct model_config *config)
{
    static const char *const KEYS[] = {"num_experts", "top_k_experts", "moe_intermediate_size"};
    struct moe_config *experts = &config->experts;
    *experts = (struct moe_config){
        .n_in = config->hidden,
        .activation = config->decoder.activation,
        .routing = {.score = MOE_SOFTMAX_ALL, .renormalise = true, .scale = 1}};
    for (size_t i = 0; i < sizeof KEYS / sizeof *KEYS; i++)
        TRY(json_fields_require(fields, KEYS[i]));
    TRY(json_fields_u32(fields, KEYS[0], 1, MOE_EXPERTS_MAX, &experts->routing.n_experts));
    TRY(json_fields_u32(fields, KEYS[1], 1, experts->routing.n_experts, &experts->routing.top_k));
    TRY(json_fields_u32(fields, KEYS[2], 1, FFN_MAX, &experts->n_inner));
    memset(config->has_experts, 1, config->n_layers);
    config->experts_are_beside_mlp = true;
    return STATUS_OK;
}

/* Without embeddings of layers and experts. */
enum status family_read_gemma4_unified(const struct json_fields *fields,
                                       struct model_config *config)
{
    double cap = 0;
    TRY(check_gemma4_direction(fields));
    TRY(check_gemma4_ropes(fields));
    TRY(json_fields_real(fields, "final_logit_softcapping", 1e-3, 1e6, &cap));
    config->decoder.logit_cap = (float)cap;
    config->decoder.embedding_scale = sqrtf((float)config->hidden);
    return STATUS_OK;
}

enum status family_read_gemma4(const struct json_fields *fields, struct model_config *config)
{
    bool has_experts = false;
    TRY(json_fields_bool(fields, "enable_moe_block", &has_experts));
    TRY(family_read_gemma4_unified(fields, config));
    if (has_experts)
        TRY(read_gemma4_experts(fields, config));
    return read_layer_inputs(fields, config);
}
