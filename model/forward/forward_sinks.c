#include "model/config/kv_layers.h"
#include "model/forward/forward_parts.h"

#include <assert.h>
#include <inttypes.h>

/* A reply's keys have the positions of their places: these must be angles. */
enum status forward_check_sinks(const struct model_config *config,
                                const struct forward_options *options, uint32_t kv_tokens,
                                struct error *error)
{
    const struct sink_window *sinks = &options->sinks;
    const uint64_t places = (uint64_t)sink_window_spans_max(sinks, options->block_tokens) *
                            options->block_tokens;
    if (sinks->window == 0)
        return STATUS_OK;
    assert(sinks->sinks > 0 && sinks->sinks < sinks->window);
    if (config->decoder.has_positions || config->decoder.alibi_scale != 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sink_tokens is %u, which needs rotary positions: this model has %s",
                         sinks->sinks, config->decoder.has_positions ? "a table of them" : "ALiBi");
    if (config->decoder.latent.dim > 0)
        return error_set(error, STATUS_UNSUPPORTED,
                         "sink_tokens is %u, but this model caches latents, whose rotary part is "
                         "rotated already",
                         sinks->sinks);
    if (kv_layers_recurrent(config) > 0)
        return error_set(
            error, STATUS_UNSUPPORTED,
            "sink_tokens is %u, but %u of %u layers of this model have recurrent state "
            "in place of K and V",
            sinks->sinks, kv_layers_recurrent(config), config->n_layers);
    if (context_math_is_int8(options->context_math))
        return error_set(error, STATUS_UNSUPPORTED,
                         "sink_tokens is %u, and attention_math is %s: expected compute, bf16, "
                         "fp16 or fp8",
                         sinks->sinks, context_math_name(options->context_math));
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        if (config->windows[layer] != 0 && config->windows[layer] < config->context_tokens)
            return error_set(error, STATUS_UNSUPPORTED,
                             "sink_tokens is %u, but layer %u has its own window, %u tokens",
                             sinks->sinks, layer, config->windows[layer]);
    if (places > kv_tokens)
        return error_set(error, STATUS_INVALID_ARGUMENT,
                         "a window of %u tokens with sink_tokens %u takes up to %" PRIu64
                         " in blocks of %u, and the context has %u: lower attention_window",
                         sinks->window, sinks->sinks, places, options->block_tokens, kv_tokens);
    return STATUS_OK;
}
