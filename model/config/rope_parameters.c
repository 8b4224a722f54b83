#include "model/config/rope_parameters.h"

#include "base/log/log.h"
#include "model/config/config_keys.h"

#include <math.h>
#include <string.h>

#define THETA_MIN  2
#define THETA_MAX  1e12
#define FACTOR_MAX 1e6

static const char *const MEMBERS[] = {
    "rope_type",
    "type",
    "rope_theta",
    "factor",
    "original_max_position_embeddings",
    "low_freq_factor",
    "high_freq_factor",
    "attention_factor",
    "mscale",
    "mscale_all_dim",
    "beta_fast",
    "beta_slow",
    "truncate",
    "partial_rotary_factor",
    "short_factor",
    "long_factor",
};

static const struct type_row {
    const char *name;
    enum rope_scaling scaling;
} TYPES[] = {
    {"default", ROPE_NONE},
    {"linear", ROPE_LINEAR},
    {"dynamic", ROPE_DYNAMIC},
    {"llama3", ROPE_LLAMA3},
    {"yarn", ROPE_YARN},
    {"longrope", ROPE_LONGROPE},
    {"proportional", ROPE_PROPORTIONAL},
};

static bool is_member(const char *key, const struct family *family)
{
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++)
        if (strcmp(MEMBERS[i], key) == 0)
            return true;
    return config_keys_list(family->rope_keys, key);
}

static enum status check_members(const struct json_fields *rope, const struct family *family)
{
    const char *key;
    json_t *value;
    json_object_foreach((json_t *)(uintptr_t)rope->object, key, value)
    {
        if (!json_is_null(value) && !is_member(key, family))
            return error_set(rope->error, STATUS_UNSUPPORTED, "%s.%.80s is not supported",
                             rope->file, key);
    }
    return STATUS_OK;
}

/* The rotated elements of a head: a part of it, or a number (GPT-J). */
static enum status read_part(const struct rope_source *source, const struct json_fields *rope,
                             uint32_t *rotary_dim_out)
{
    static const char KEY[] = "partial_rotary_factor";
    const struct json_fields *fields = source->fields;
    const double usual = source->family->rope_part > 0 ? source->family->rope_part : 1;
    double part = usual;
    char name[64];
    uint32_t dim = 0;
    TRY(json_fields_real(fields, family_key(source->family, fields->object, KEY, name, sizeof name),
                         0, 1, &part));
    if (rope->object)
        TRY(json_fields_real(rope, KEY, 0, 1, &part));
    if (source->family->rope_part == 0 && part != 1)
        return error_set(fields->error, STATUS_UNSUPPORTED, "%s.%s is %g, only 1 is supported",
                         rope->file, KEY, part);
    TRY(json_fields_u32(fields, "rotary_dim", 1, source->head_dim, &dim));
    if (dim == 0)
        dim = (uint32_t)(source->head_dim * part);
    if (dim == 0 || dim % 2 != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: %u of %u elements of a head are rotated, supported are even numbers "
                         "from 2 on",
                         fields->file, dim, source->head_dim);
    *rotary_dim_out = dim == source->head_dim ? 0 : dim;
    return STATUS_OK;
}

/* A family whose layers have two rotations has no factors for both. Angles of latents do not depend on the length. */
static bool takes(const struct family *family, enum rope_scaling scaling)
{
    if (family->turns_in_part || scaling == ROPE_PROPORTIONAL)
        return family->turns_in_part && (scaling == ROPE_NONE || scaling == ROPE_PROPORTIONAL);
    if (family->is_latent)
        return scaling != ROPE_LONGROPE && scaling != ROPE_DYNAMIC;
    return scaling != ROPE_LONGROPE || family->ropes != ROPES_LOCAL_IN_WINDOWS;
}

static enum status read_type(const struct json_fields *rope, const struct family *family,
                             enum rope_scaling *scaling_out)
{
    const char *type = NULL, *old = NULL;
    TRY(json_fields_string(rope, "rope_type", &type));
    TRY(json_fields_string(rope, "type", &old));
    if (type && old && strcmp(type, old) != 0)
        return error_set(rope->error, STATUS_CORRUPT,
                         "%s: rope_type is \"%.40s\", type is \"%.40s\"", rope->file, type, old);
    if (!type)
        type = old ? old : "default";
    if (strcmp(type, "su") == 0 && family->naming == NAMED_AS_PHI3)
        type = "longrope";
    for (size_t i = 0; i < sizeof TYPES / sizeof *TYPES; i++) {
        if (strcmp(TYPES[i].name, type) == 0 && takes(family, TYPES[i].scaling)) {
            *scaling_out = TYPES[i].scaling;
            return STATUS_OK;
        }
    }
    return error_set(rope->error, STATUS_UNSUPPORTED, "%s: rope_type \"%.40s\" is not supported",
                     rope->file, type);
}

/* The value may stand inside the object, beside it, or in both places: then both must agree. */
static enum status read_theta(const struct rope_source *source, const struct json_fields *rope,
                              double *theta_out)
{
    const struct json_fields *fields = source->fields;
    const struct family *family = source->family;
    const bool has_own = source->is_local && family->rope_theta_local > 0;
    const double given = has_own ? family->rope_theta_local : family->rope_theta;
    double outside = 0, inside = 0;
    char name[64];
    const char *key = has_own ? "rope_local_base_freq"
                              : family_key(family, fields->object, "rope_theta", name, sizeof name);
    TRY(json_fields_real(fields, key, THETA_MIN, THETA_MAX, &outside));
    if (rope->object)
        TRY(json_fields_real(rope, "rope_theta", THETA_MIN, THETA_MAX, &inside));
    if (outside > 0 && inside > 0 && outside != inside)
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %g beside and %g inside %s",
                         fields->file, key, outside, inside, rope->file);
    *theta_out = inside > 0 ? inside : outside > 0 ? outside : given > 0 ? given : 10000;
    return STATUS_OK;
}

static enum status read_original(const struct json_fields *fields, const struct json_fields *rope,
                                 uint32_t context_tokens, struct rope_config *config)
{
    static const char KEY[] = "original_max_position_embeddings";
    uint32_t outside = 0, inside = 0;
    TRY(json_fields_u32(fields, KEY, 1, 1u << 24, &outside));
    TRY(json_fields_u32(rope, KEY, 1, 1u << 24, &inside));
    if (outside && inside && outside != inside)
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is %u beside and %u inside %s",
                         fields->file, KEY, outside, inside, rope->file);
    uint32_t given = inside ? inside : outside;
    /* Dynamic scaling in Transformers ignores this key and begins at max_position_embeddings. */
    if (config->scaling == ROPE_DYNAMIC && given && given != context_tokens)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: dynamic scaling with %s %u beside max_position_embeddings %u",
                         rope->file, KEY, given, context_tokens);
    config->original_positions = given ? given : context_tokens;
    return STATUS_OK;
}

static enum status read_factor(const struct json_fields *rope, uint32_t context_tokens,
                               struct rope_config *config)
{
    TRY(json_fields_real(rope, "factor", 1, FACTOR_MAX, &config->factor));
    if (config->factor > 0)
        return STATUS_OK;
    if (config->scaling == ROPE_LONGROPE) /* derived from the positions */
        return STATUS_OK;
    if (config->scaling != ROPE_YARN)
        return error_set(rope->error, STATUS_CORRUPT, "%s.factor is missing", rope->file);
    config->factor = (double)context_tokens / config->original_positions;
    if (config->factor < 1)
        return error_set(rope->error, STATUS_CORRUPT,
                         "%s: factor is missing, and max_position_embeddings %u is under "
                         "original_max_position_embeddings %u",
                         rope->file, context_tokens, config->original_positions);
    return STATUS_OK;
}

static enum status read_llama3(const struct json_fields *rope, struct rope_config *config)
{
    TRY(json_fields_require(rope, "low_freq_factor"));
    TRY(json_fields_require(rope, "high_freq_factor"));
    TRY(json_fields_real(rope, "low_freq_factor", 1e-6, FACTOR_MAX, &config->low_freq_factor));
    TRY(json_fields_real(rope, "high_freq_factor", 1e-6, FACTOR_MAX, &config->high_freq_factor));
    if (config->high_freq_factor <= config->low_freq_factor)
        return error_set(rope->error, STATUS_CORRUPT,
                         "%s: high_freq_factor is %g, expected more than low_freq_factor %g",
                         rope->file, config->high_freq_factor, config->low_freq_factor);
    return STATUS_OK;
}

static enum status read_yarn(const struct json_fields *rope, struct rope_config *config)
{
    bool truncate = true;
    TRY(json_fields_real(rope, "attention_factor", 1e-6, FACTOR_MAX, &config->attention_factor));
    TRY(json_fields_real(rope, "mscale", 0, FACTOR_MAX, &config->mscale));
    TRY(json_fields_real(rope, "mscale_all_dim", 0, FACTOR_MAX, &config->mscale_all_dim));
    TRY(json_fields_real(rope, "beta_fast", 0, FACTOR_MAX, &config->beta_fast));
    TRY(json_fields_real(rope, "beta_slow", 0, FACTOR_MAX, &config->beta_slow));
    TRY(json_fields_bool(rope, "truncate", &truncate));
    config->no_truncate = !truncate;
    double fast = config->beta_fast > 0 ? config->beta_fast : 32;
    double slow = config->beta_slow > 0 ? config->beta_slow : 1;
    if (fast < slow)
        return error_set(rope->error, STATUS_CORRUPT, "%s: beta_fast is %g, under beta_slow %g",
                         rope->file, fast, slow);
    return STATUS_OK;
}

/* One factor for each pair of rotated elements. */
static enum status read_factors(const struct json_fields *rope, const char *key, uint32_t n,
                                double *factors_out)
{
    const json_t *list = json_fields_get(rope, key);
    if (!json_is_array(list) || json_array_size(list) != n)
        return error_set(rope->error, STATUS_CORRUPT,
                         "%s.%s is not a list of %u numbers, one for two rotated elements",
                         rope->file, key, n);
    for (uint32_t i = 0; i < n; i++) {
        const json_t *factor = json_array_get(list, i);
        factors_out[i] = json_number_value(factor);
        if (!json_is_number(factor) || !(factors_out[i] > 0) || factors_out[i] > FACTOR_MAX)
            return error_set(rope->error, STATUS_CORRUPT,
                             "%s.%s[%u] is not a number above 0 and up to %g", rope->file, key, i,
                             FACTOR_MAX);
    }
    return STATUS_OK;
}

static enum status read_longrope(const struct json_fields *rope, struct rope_factors *factors,
                                 struct rope_config *config)
{
    const uint32_t rotary_dim = config->rotary_dim > 0 ? config->rotary_dim : config->head_dim;
    factors->n = rotary_dim / 2;
    if (factors->n > ROPE_FACTORS_MAX || config->original_positions < 2)
        return error_set(rope->error, STATUS_UNSUPPORTED,
                         "%s: longrope of %u elements and %u original positions", rope->file,
                         rotary_dim, config->original_positions);
    TRY(json_fields_real(rope, "attention_factor", 1e-6, FACTOR_MAX, &config->attention_factor));
    TRY(read_factors(rope, "short_factor", factors->n, factors->short_ones));
    return read_factors(rope, "long_factor", factors->n, factors->long_ones);
}

static enum status refuse_factors(const struct json_fields *rope)
{
    static const char *const names[] = {"short_factor", "long_factor"};
    for (unsigned i = 0; i < 2; i++) {
        const json_t *list = json_fields_get(rope, names[i]);
        if (list && !json_is_null(list))
            return error_set(rope->error, STATUS_UNSUPPORTED,
                             "%s.%s is not supported with another type than longrope", rope->file,
                             names[i]);
    }
    return STATUS_OK;
}

/* Transformers scales the scores of latents by it with any type. */
static enum status refuse_mscale(const struct json_fields *rope)
{
    double mscale = 0;
    TRY(json_fields_real(rope, "mscale_all_dim", 0, FACTOR_MAX, &mscale));
    if (mscale == 0)
        return STATUS_OK;
    return error_set(rope->error, STATUS_UNSUPPORTED,
                     "%s.mscale_all_dim is %g, which is supported with yarn alone", rope->file,
                     mscale);
}

static enum status read_scaling(const struct rope_source *source, const struct json_fields *rope,
                                struct rope_config *config)
{
    const uint32_t context_tokens = source->context_tokens;
    TRY(check_members(rope, source->family));
    TRY(read_type(rope, source->family, &config->scaling));
    if (config->scaling != ROPE_LONGROPE)
        TRY(refuse_factors(rope));
    if (config->scaling == ROPE_NONE)
        return STATUS_OK;
    if (source->family->is_latent && config->scaling != ROPE_YARN)
        TRY(refuse_mscale(rope));
    TRY(read_original(source->fields, rope, context_tokens, config));
    TRY(read_factor(rope, context_tokens, config));
    if (config->scaling == ROPE_LONGROPE)
        return read_longrope(rope, source->factors, config);
    if (config->scaling == ROPE_LLAMA3)
        return read_llama3(rope, config);
    if (config->scaling == ROPE_YARN)
        return read_yarn(rope, config);
    return STATUS_OK;
}

/* Files with YaRN often keep the original max_position_embeddings: then it is multiplied by factor. */
static enum status extend_context(const struct json_fields *rope, bool has_factor,
                                  struct rope_config *config)
{
    if (config->scaling != ROPE_YARN || !has_factor ||
        config->positions_max > config->original_positions)
        return STATUS_OK;
    double positions = floor(config->factor * config->original_positions);
    if (positions > CONTEXT_TOKENS_MAX)
        return error_set(rope->error, STATUS_CORRUPT,
                         "%s: factor %g of original_max_position_embeddings %u makes %.15g "
                         "positions, expected up to %u",
                         rope->file, config->factor, config->original_positions, positions,
                         CONTEXT_TOKENS_MAX);
    if (positions > config->positions_max)
        log_info("config.json: max_position_embeddings %u is the length before YaRN, which makes "
                 "it %.15g",
                 config->positions_max, positions);
    if (positions > config->positions_max)
        config->positions_max = (uint32_t)positions;
    return STATUS_OK;
}

static bool is_same(const json_t *left, const json_t *right)
{
    if (!left || !right || json_is_null(left) || json_is_null(right))
        return true; /* a factor of one has no effect */
    if (json_is_number(left) && json_is_number(right))
        return json_number_value(left) == json_number_value(right);
    return json_equal(left, right);
}

static const char *type_of(const json_t *object)
{
    const char *type = json_string_value(json_object_get(object, "rope_type"));
    if (!type)
        type = json_string_value(json_object_get(object, "type"));
    return type ? type : "default";
}

/* Files that were written for Transformers 4 and 5 have both keys. Transformers then reads rope_scaling. */
static enum status check_both(const struct json_fields *fields, const json_t *scaling,
                              const json_t *parameters, double theta)
{
    const json_t *given = json_object_get(parameters, "rope_theta");
    if (strcmp(type_of(scaling), type_of(parameters)) != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: rope_scaling and rope_parameters differ: %.40s, %.40s", fields->file,
                         type_of(scaling), type_of(parameters));
    for (size_t i = 0; i < sizeof MEMBERS / sizeof *MEMBERS; i++)
        if (!is_same(json_object_get(scaling, MEMBERS[i]), json_object_get(parameters, MEMBERS[i])))
            return error_set(fields->error, STATUS_CORRUPT,
                             "%s: rope_scaling and rope_parameters differ in %s", fields->file,
                             MEMBERS[i]);
    if (json_is_number(given) && json_number_value(given) != theta)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: rope_parameters has rope_theta %g, without it it is %g", fields->file,
                         json_number_value(given), theta);
    return STATUS_OK;
}

/* Families with two rotations may have an object for each kind of layer inside rope_parameters. */
static const json_t *parameters_of_layers(const struct rope_source *source,
                                          const json_t *parameters, bool *is_nested_out)
{
    const json_t *full = json_object_get(parameters, "full_attention");
    const json_t *sliding = json_object_get(parameters, "sliding_attention");
    *is_nested_out = source->family->ropes == ROPES_LOCAL_IN_WINDOWS && (full || sliding);
    if (!*is_nested_out)
        return parameters;
    return source->is_local ? sliding : full;
}

/* Rotation of whole heads, of which the first pairs alone may turn. Without rope_parameters a quarter of them does in the layers
 * that see all tokens. */
static enum status read_turning(const struct rope_source *source, const struct json_fields *rope,
                                struct rope_config *config)
{
    static const char PART[] = "partial_rotary_factor";
    double part = 1;
    if (!rope->object && !source->is_local) {
        config->scaling = ROPE_PROPORTIONAL;
        part = 0.25;
    }
    if (rope->object) {
        TRY(check_members(rope, source->family));
        TRY(read_type(rope, source->family, &config->scaling));
        TRY(refuse_factors(rope));
        TRY(json_fields_real(rope, PART, 0, 1, &part));
    }
    if (config->scaling == ROPE_NONE && part != 1)
        return error_set(rope->error, STATUS_UNSUPPORTED,
                         "%s.%s is %g, only 1 is supported with rope_type default", rope->file,
                         PART, part);
    if (config->scaling == ROPE_NONE)
        return STATUS_OK;
    config->factor = 1;
    config->n_turning = (uint32_t)(part * source->head_dim / 2);
    return rope->object ? json_fields_real(rope, "factor", 1, FACTOR_MAX, &config->factor)
                        : STATUS_OK;
}

enum status rope_parameters_read(const struct rope_source *source, struct rope_config *rope_out)
{
    const struct json_fields *fields = source->fields;
    const json_t *scaling, *parameters;
    bool is_nested;
    TRY(json_fields_object(fields, "rope_scaling", &scaling));
    TRY(json_fields_object(fields, "rope_parameters", &parameters));
    parameters = parameters_of_layers(source, parameters, &is_nested);
    if (json_is_null(parameters))
        parameters = NULL; /* as if it were missing: the defaults */
    if (parameters && !json_is_object(parameters))
        return error_set(fields->error, STATUS_CORRUPT, "%s: rope_parameters.%s is no object",
                         fields->file, source->is_local ? "sliding_attention" : "full_attention");
    if (parameters && json_object_size(scaling) == 0)
        scaling = NULL;
    struct json_fields rope = {
        .object = scaling ? scaling : parameters,
        .file = scaling ? "config.json: rope_scaling" : "config.json: rope_parameters",
        .error = fields->error,
    };
    struct rope_config config = {.head_dim = source->head_dim,
                                 .positions_max = source->context_tokens,
                                 .is_interleaved = source->family->rope_is_interleaved};
    if (config_keys_list(source->family->own_keys, "rope_interleaved"))
        TRY(json_fields_bool(fields, "rope_interleaved", &config.is_interleaved));
    if (source->family->is_latent) {
        TRY(json_fields_bool(fields, "rope_interleave", &config.is_interleaved));
        if (json_is_null(json_object_get(fields->object, "rope_interleave")))
            config.is_interleaved = false; /* as in Transformers */
    }
    TRY(read_theta(source, &rope, &config.theta));
    if (source->family->turns_in_part) {
        TRY(read_turning(source, &rope, &config));
        *rope_out = config;
        return STATUS_OK;
    }
    TRY(read_part(source, &rope, &config.rotary_dim));
    if (scaling && parameters)
        TRY(check_both(fields, scaling, parameters, config.theta));
    /* What is not nested scales the layers that see all keys. */
    if (rope.object && (!source->is_local || is_nested))
        TRY(read_scaling(source, &rope, &config));
    TRY(extend_context(&rope, json_fields_get(&rope, "factor"), &config));
    *rope_out = config;
    return STATUS_OK;
}
