#include "base/log/log.h"
#include "model/config/layer_shape.h"
#include "model/forward/forward_parts.h"

#include <assert.h>

/* Lays out n sequences of one phase, each as long as the limit of tokens allows. */
static uint32_t lay_out_dummy(struct forward *forward, enum attention_phase phase, uint32_t n)
{
    uint32_t n_left = forward->options.tokens_max, i = 0;
    for (; i < n && n_left > 0; i++) {
        bool is_context = phase == PHASE_CONTEXT;
        uint32_t n_query = !is_context                       ? 1
                           : n_left < forward->kv_tokens_max ? n_left
                                                             : forward->kv_tokens_max;
        forward->sequences[i] = (struct attention_sequence){.phase = phase,
                                                            .query_len = n_query,
                                                            .kv_len = forward->kv_tokens_max,
                                                            .prompt_len = forward->kv_tokens_max};
        n_left -= n_query;
    }
    return i;
}

/* Layers share the metadata's buffers, so one layer of each kind of heads touches all memory of attention. */
static enum status touch_layer(struct forward *forward, uint32_t layer,
                               const struct attention_metadata *metadata, struct error *error)
{
    const struct attention_config shape = forward_shape_of(forward, layer);
    struct attention_io io = attention_io_fused(&shape, forward->qkv.data, forward->qkv_width,
                                                forward->attended.data,
                                                shape.n_heads * shape.head_dim);
    return forward->backend->forward(forward->attention[layer], metadata, &io, error);
}

/* The first one with K and V that is wide, or that is not. */
static uint32_t first_layer(const struct model_config *config, bool is_wide)
{
    uint32_t layer = 0;
    while (!layer_has_kv(config, layer) || config->is_wide[layer] != is_wide)
        layer++;
    return layer;
}

/* DEVICE_LOST. */
static enum status touch_attention(struct forward *forward, const struct step_layout *layout,
                                   enum attention_phase phase, uint32_t n)
{
    const struct attention_step step = {.sequences = forward->sequences,
                                        .n_sequences = lay_out_dummy(forward, phase, n),
                                        .is_dummy = true};
    const uint8_t *sent;
    uint8_t *view;
    TRY(stage_take(forward->stage, layout->bytes, &view));
    TRY(forward_send(forward, layout, &step, view, &sent));
    struct error error = {""};
    enum status status = touch_layer(forward, first_layer(forward->config, false), layout->metadata,
                                     &error);
    if (status == STATUS_OK && layout->wide)
        status = touch_layer(forward, first_layer(forward->config, true), layout->wide, &error);
    if (status != STATUS_OK)
        log_error("a step for warming up that cannot be computed: %s", error.text);
    assert(status == STATUS_OK);
    stage_keep(forward->stage, device_record(forward->options.device, DEVICE_COMPUTE));
    return status;
}

enum status forward_warm_up(struct forward *forward)
{
    struct device *device = forward->options.device;
    device_bind(device);
    device_touch(device, &forward->activations, forward->threads);
    stage_touch(forward->stage, forward->threads);
    if (forward->latent) {
        forward_latent_touch(forward);
        return device_wait(device, device_record(device, DEVICE_COMPUTE));
    }
    TRY(touch_attention(forward, &forward->layouts[0], PHASE_CONTEXT, 1));
    TRY(touch_attention(forward, &forward->layouts[0], PHASE_GENERATION,
                        forward->options.sequences_max));
    if (forward->encoder)
        forward_encoder_touch(forward);
    for (uint32_t i = 1; i < forward->n_layouts; i++)
        TRY(touch_attention(forward, &forward->layouts[i], PHASE_GENERATION,
                            forward->layouts[i].metadata->n_static));
    return device_wait(device, device_record(device, DEVICE_COMPUTE));
}
