#include "model/config/attention_windows.h"

#include "model/config/encoder_config.h"

#include <assert.h>
#include <errno.h>
#include <stdlib.h>
#include <string.h>

/* Reads a number up to a comma or the end, and moves on behind it. False: it is none. */
static bool read_window(const char **at, uint32_t *window_out)
{
    char *end;
    errno = 0;
    if (**at < '0' || **at > '9')
        return false;
    const unsigned long long value = strtoull(*at, &end, 10);
    if (errno != 0 || value > ATTENTION_WINDOW_MAX || (*end != ',' && *end != '\0'))
        return false;
    *at = end;
    *window_out = (uint32_t)value;
    return true;
}

static enum status read_list(const char *text, uint32_t n_layers, uint32_t *windows_out,
                             uint32_t *n_out, struct error *error)
{
    const char *at = text;
    uint32_t n = 0;
    for (;; at++) {
        if (n == n_layers)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "attention_window has more numbers than the model's %u layers",
                             n_layers);
        if (!read_window(&at, &windows_out[n++]))
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "attention_window is \"%.60s\", expected numbers of tokens up to %u "
                             "with commas between them",
                             text, ATTENTION_WINDOW_MAX);
        if (*at == '\0')
            break;
    }
    *n_out = n;
    return STATUS_OK;
}

/* No query of the model's context sees less through it. */
static bool hides_nothing(const struct model_config *config, uint32_t window)
{
    return window == 0 || window >= config->context_tokens;
}

enum status attention_windows_set(const char *text, bool is_forced, struct model_config *config,
                                  struct error *error)
{
    uint32_t windows[LAYERS_MAX], n;
    if (!text || !text[0])
        return STATUS_OK;
    assert(config->n_layers <= LAYERS_MAX);
    TRY(read_list(text, config->n_layers, windows, &n, error));
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        const uint32_t own = config->windows[layer], wanted = windows[layer % n];
        const bool is_own = own == wanted ||
                            (hides_nothing(config, own) && hides_nothing(config, wanted));
        if (!is_own && !is_forced)
            return error_set(error, STATUS_INVALID_ARGUMENT,
                             "attention_window gives layer %u a window of %u tokens; the model was "
                             "made with %u (0: all), and computes something else with another: "
                             "force_window allows it",
                             layer, wanted, own);
        if (!is_own && config->decoder.latent.dim > 0)
            return error_set(error, STATUS_UNSUPPORTED,
                             "attention_window gives layer %u a window of %u tokens, but its "
                             "attention is over latents, which has none",
                             layer, wanted);
        if (!is_own && model_has_encoder(config))
            return error_set(error, STATUS_UNSUPPORTED,
                             "attention_window gives layer %u a window of %u tokens, but the model "
                             "has an encoder, whose text each token of a reply sees",
                             layer, wanted);
    }
    for (uint32_t layer = 0; layer < config->n_layers; layer++) {
        const uint32_t source = layer - config->kv_back[layer];
        if (windows[layer % n] != windows[source % n])
            return error_set(
                error, STATUS_UNSUPPORTED,
                "attention_window gives layer %u a window of %u tokens, but it reads K "
                "and V of layer %u, which has %u",
                layer, windows[layer % n], source, windows[source % n]);
    }
    for (uint32_t layer = 0; layer < config->n_layers; layer++)
        config->windows[layer] = windows[layer % n];
    return STATUS_OK;
}
