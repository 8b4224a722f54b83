#include "model/config/encoder_ids.h"

enum status encoder_read_id(const struct json_fields *fields, const struct model_config *config,
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
    uint32_t number;
    if (!json_fields_whole(value, config->vocabulary - 1, &number))
        return error_set(fields->error, STATUS_CORRUPT, "%s: %s is not an id below vocab_size %u",
                         fields->file, key, config->vocabulary);
    *id = number;
    return STATUS_OK;
}

enum status encoder_read_ids(const struct json_fields *fields, struct model_config *config)
{
    struct encoder_shape *encoder = &config->encoder;
    if (encoder->n_layers == 0)
        return STATUS_OK;
    if (encoder->start_id == TOKEN_NONE)
        TRY(encoder_read_id(fields, config, "bos_token_id", &encoder->start_id));
    TRY(encoder_read_id(fields, config, "decoder_start_token_id", &encoder->start_id));
    TRY(encoder_read_id(fields, config, "forced_bos_token_id", &encoder->forced_first_id));
    return encoder_read_id(fields, config, "forced_eos_token_id", &encoder->forced_last_id);
}

enum status encoder_read_generation(const struct json_fields *fields, struct model_config *config)
{
    config->encoder.forced_first_id = config->encoder.forced_last_id = TOKEN_NONE;
    return encoder_read_ids(fields, config);
}
