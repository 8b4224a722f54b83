#include "model/forward/attention_check.h"

#include "model/forward/forward_parts.h"

#include <stdlib.h>

static enum status ask_layers(struct forward *forward, struct attention_answer *answers)
{
    for (uint32_t layer = 0; layer < forward->config->n_layers; layer++) {
        struct attention_answer *answer = &answers[layer];
        *answer = (struct attention_answer){0};
        if (forward->config->is_recurrent[layer])
            continue; /* it has none */
        answer->status = forward_create_attention(forward, layer, &answer->error);
        if (answer->status == STATUS_NO_MEMORY)
            return STATUS_NO_MEMORY;
        forward->backend->destroy(forward->attention[layer]);
        forward->attention[layer] = NULL;
    }
    return STATUS_OK;
}

enum status attention_check(const struct model *model, const struct forward_options *options,
                            struct error *error, struct attention_answer *answers_out)
{
    struct forward *forward = calloc(1, sizeof *forward);
    if (!forward)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the forward pass");
    enum status status = forward_describe(model, options, error, forward);
    device_bind(options->device);
    if (status == STATUS_OK)
        status = forward_describe_attention(forward, error);
    if (status == STATUS_OK && ask_layers(forward, answers_out) != STATUS_OK)
        status = error_set(error, STATUS_NO_MEMORY, "no memory for the layers of attention");
    forward_destroy(forward);
    device_bind(NULL);
    return status;
}

enum status attention_check_join(const struct attention_answer *answers, uint32_t n_layers,
                                 struct error *error)
{
    for (uint32_t layer = 0; layer < n_layers; layer++)
        if (answers[layer].status != STATUS_OK)
            return error_set(error, answers[layer].status, "%s", answers[layer].error.text);
    return STATUS_OK;
}

enum status attention_check_all(const struct model *model, const struct forward_options *options,
                                struct error *error)
{
    const uint32_t n_layers = model_get_config(model)->n_layers;
    struct attention_answer *answers = calloc(n_layers, sizeof *answers);
    if (!answers)
        return error_set(error, STATUS_NO_MEMORY, "no memory for the layers of attention");
    enum status status = attention_check(model, options, error, answers);
    if (status == STATUS_OK)
        status = attention_check_join(answers, n_layers, error);
    free(answers);
    return status;
}

bool attention_check_is_alike(const struct model_config *config, uint32_t layer, uint32_t other)
{
    return config->windows[layer] == config->windows[other] &&
           config->is_wide[layer] == config->is_wide[other] &&
           (config->kv_back[layer] > 0) == (config->kv_back[other] > 0) &&
           config->layer_ropes[layer] == config->layer_ropes[other] &&
           config->is_recurrent[layer] == config->is_recurrent[other];
}
