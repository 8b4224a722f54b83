#include "model/config/encoder_config.h"

#include "model/config/families.h"

#include <assert.h>
#include <math.h>
#include <string.h>

static const char START[] = "decoder_start_token_id";

void encoder_config(const struct model_config *config, struct model_config *config_out)
{
    const struct encoder_shape *encoder = &config->encoder;
    assert(model_has_encoder(config));
    *config_out = *config;
    config_out->decoder.is_encoder = true;
    config_out->n_layers = encoder->n_layers;
    config_out->n_heads = config_out->n_kv_heads = encoder->n_heads;
    config_out->head_dim = encoder->head_dim;
    config_out->ffn = encoder->ffn;
    config_out->encoder = (struct encoder_shape){.n_layers = 0};
    memset(config_out->layer_ropes, ROPE_ABSENT, sizeof config_out->layer_ropes);
    memset(config_out->windows, 0, sizeof config_out->windows);
}

enum status encoder_refuse(const struct model_config *config, const char *who, struct error *error)
{
    if (!model_has_encoder(config))
        return STATUS_OK;
    return error_set(error, STATUS_UNSUPPORTED,
                     "%s has an encoder of %u layers, which %s do not compute yet",
                     model_family_name(config->family), config->encoder.n_layers, who);
}

/* One id, or a list of one. Absent and null: stays as it is. */
static enum status read_id(const struct json_fields *fields, const struct model_config *config,
                           const char *key, uint32_t *id)
{
    const json_t *value = json_fields_get(fields, key);
    if (!value)
        return STATUS_OK;
    if (json_is_array(value) && json_array_size(value) > 1)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: %s has %zu ids, only one is supported", fields->file, key,
                         json_array_size(value));
    if (json_is_array(value))
        value = json_array_get(value, 0);
    const double number = json_is_number(value) ? json_number_value(value) : -1;
    if (number < 0 || number >= config->vocabulary || number != floor(number))
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is not an id below vocab_size %u",
                         fields->file, key, config->vocabulary);
    *id = (uint32_t)number;
    return STATUS_OK;
}

enum status encoder_read_ids(const struct json_fields *fields, struct model_config *config)
{
    struct encoder_shape *encoder = &config->encoder;
    if (!model_has_encoder(config))
        return STATUS_OK;
    if (encoder->start_id == TOKEN_NONE)
        TRY(read_id(fields, config, "bos_token_id", &encoder->start_id));
    TRY(read_id(fields, config, START, &encoder->start_id));
    TRY(read_id(fields, config, "forced_bos_token_id", &encoder->forced_first_id));
    return read_id(fields, config, "forced_eos_token_id", &encoder->forced_last_id);
}

enum status encoder_read_generation(const struct json_fields *fields, struct model_config *config)
{
    config->encoder.forced_first_id = config->encoder.forced_last_id = TOKEN_NONE;
    return encoder_read_ids(fields, config);
}

enum status encoder_check(const struct model_config *config, struct error *error)
{
    if (!model_has_encoder(config))
        return STATUS_OK;
    if (config->encoder.start_id == TOKEN_NONE)
        return error_set(error, STATUS_CORRUPT,
                         "config.json: %s is missing, and bos_token_id, too: no token begins a "
                         "reply of %s",
                         START, model_family_name(config->family));
    if (config->quantization.method != QUANTIZATION_NONE)
        return error_set(error, STATUS_UNSUPPORTED,
                         "config.json: quantization_config: %s is supported with weights in F32, "
                         "BF16 and F16 alone, which --weights int8 rounds",
                         model_family_name(config->family));
    return STATUS_OK;
}
