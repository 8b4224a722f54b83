#include "model/weights/encoder_table.h"

#include "model/config/encoder_config.h"
#include "model/weights/tensor_names.h"
#include "model/weights/weight_table.h"

#include <stdio.h>

/* BART: final_logits_bias [1][vocabulary], zeros if the files have none. */
static enum status bind_logits_bias(struct weight_binding *binding, struct error *error)
{
    static const struct tensor_row BIAS = {
        NULL, offsetof(struct weights, head_bias), DIM_ONE, DIM_VOCABULARY, ALWAYS, PART_ALL};
    const char *name = tensor_names_of(binding->config)->logits_bias;
    if (!name || !weight_files_find(binding->files, name))
        return STATUS_OK;
    TRY(weight_table_bind_tensor(binding, name, &BIAS, binding->weights, error));
    struct tensor *bias = &binding->weights->head_bias;
    bias->n_out = bias->n_in;
    bias->n_in = 1;
    return STATUS_OK;
}

/* The encoder's layers, in their places behind the decoder's, and its ends: as those of a decoder. */
static enum status bind_layers(struct weight_binding *binding, struct error *error)
{
    const uint32_t n_before = binding->config->n_layers;
    struct weights *weights = binding->weights;
    struct model_config config;
    encoder_config(binding->config, &config);
    struct weights of_encoder = {.layers = weights->layers + n_before,
                                 .experts = weights->experts + n_before};
    struct weight_binding part = *binding;
    part.config = &config;
    part.weights = &of_encoder;
    char name[128];
    for (const struct tensor_row *row = tensor_names_of(&config)->of_model; row->name; row++) {
        snprintf(name, sizeof name, "%s%s", part.root, row->name);
        TRY(weight_table_bind_tensor(&part, name, row, &of_encoder, error));
    }
    for (uint32_t layer = 0; layer < config.n_layers; layer++)
        TRY(weight_table_bind_layer(&part, layer, error));
    weights->n_encoder_layers = config.n_layers;
    weights->encoder = (struct encoder_ends){
        .embedding_norm = of_encoder.embedding_norm,
        .embedding_norm_bias = of_encoder.embedding_norm_bias,
        .positions = of_encoder.positions,
        .norm = of_encoder.norm,
        .norm_bias = of_encoder.norm_bias,
    };
    binding->n_quantized = part.n_quantized;
    binding->n_parameters = part.n_parameters;
    binding->bytes = part.bytes;
    return STATUS_OK;
}

enum status encoder_table_bind(struct weight_binding *binding, struct error *error)
{
    if (!model_has_encoder(binding->config))
        return STATUS_OK;
    TRY(bind_logits_bias(binding, error));
    return bind_layers(binding, error);
}
