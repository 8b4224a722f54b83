#include "model/config/encoder_config.h"

#include "model/config/families.h"

#include <assert.h>
#include <string.h>

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
                     "%s has an encoder of %u layers, which %s does not measure",
                     model_family_name(config->family), config->encoder.n_layers, who);
}

enum status encoder_check(const struct model_config *config, struct error *error)
{
    if (!model_has_encoder(config))
        return STATUS_OK;
    if (config->encoder.start_id == TOKEN_NONE)
        return error_set(
            error, STATUS_CORRUPT,
            "config.json: decoder_start_token_id is missing, and bos_token_id, too: no "
            "token begins a reply of %s",
            model_family_name(config->family));
    if (config->quantization.method != QUANTIZATION_NONE)
        return error_set(error, STATUS_UNSUPPORTED,
                         "config.json: quantization_config: %s is supported with weights in F32, "
                         "BF16 and F16 alone, which --weights int8 rounds",
                         model_family_name(config->family));
    return STATUS_OK;
}

struct hash128 encoder_digest(const struct model_config *config, struct hash128 digest)
{
    static const struct hash_key KEY = {{0}};
    const struct encoder_shape *encoder = &config->encoder;
    const struct relative_bias *relative = &config->decoder.relative;
    const double values[] = {
        encoder->n_layers,       encoder->n_heads,
        encoder->head_dim,       encoder->ffn,
        encoder->start_id,       encoder->forced_first_id,
        encoder->forced_last_id, relative->n_buckets,
        relative->distance_max,  relative->is_in_each_layer,
    };
    return model_has_encoder(config) ? hash128_chain(&KEY, digest, values, sizeof values) : digest;
}
