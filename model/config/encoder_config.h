/*
 * encoder_config - an encoder described as a decoder is, and what else a model with an encoder reads of its files.
 *
 * The layers of both stand in one array of weights: the decoder's first, then the encoder's.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/model_config.h"
#include "model/files/json_fields.h"

static inline bool model_has_encoder(const struct model_config *config)
{
    return config->encoder.n_layers > 0;
}

/* Of both. */
static inline uint32_t model_all_layers(const struct model_config *config)
{
    return config->n_layers + config->encoder.n_layers;
}

/* The model has one. *config_out has no encoder itself: forward computes it as any stack of layers. */
void encoder_config(const struct model_config *config, struct model_config *config_out);

/* For what computes decoders alone. who: "eval and calibrate". UNSUPPORTED: the model has an encoder. */
MUST_CHECK enum status encoder_refuse(const struct model_config *config, const char *who,
                                      struct error *error);

/* The ids of encoder_shape. Nothing, if the model has no encoder. CORRUPT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status encoder_read_ids(const struct json_fields *fields,
                                        struct model_config *config);
/* The same of generation_config.json: what it does not force, nothing forces. */
MUST_CHECK enum status encoder_read_generation(const struct json_fields *fields,
                                               struct model_config *config);
/* When all files are read. CORRUPT: no token begins a reply. UNSUPPORTED: the weights are quantized. */
MUST_CHECK enum status encoder_check(const struct model_config *config, struct error *error);
