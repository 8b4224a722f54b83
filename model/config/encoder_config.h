/*
 * encoder_config - an encoder described as a decoder is, and what a model with an encoder must be.
 *
 * The layers of both stand in one array of weights: the decoder's first, then the encoder's.
 *
 * Thread: any; no state.
 */
#pragma once

#include "base/hash.h"
#include "base/status.h"
#include "model/config/model_config.h"

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

/* For what measures decoders alone. who: "eval". UNSUPPORTED: the model has an encoder. */
MUST_CHECK enum status encoder_refuse(const struct model_config *config, const char *who,
                                      struct error *error);

/* When all files are read. CORRUPT: no token begins a reply. UNSUPPORTED: the weights are quantized. */
MUST_CHECK enum status encoder_check(const struct model_config *config, struct error *error);
/* That of a model without an encoder stays as it is. */
struct hash128 encoder_digest(const struct model_config *config, struct hash128 digest);
