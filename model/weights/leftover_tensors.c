#include "model/weights/leftover_tensors.h"

#include "base/log/log.h"
#include "base/text.h"

#include <stdlib.h>
#include <string.h>

/* Buffers that old versions of Transformers stored; scales of activations, which are not quantized here; scales of K and V, which
 * kv_scales.h takes; copies of an embedding (shared_embeddings.h); a bias that attention to an encoder never had; what the config of a
 * GGUF file is made of. */
static bool is_known_leftover(const char *name)
{
    static const char *const ENDINGS[] = {".rotary_emb.inv_freq",
                                          ".masked_bias",
                                          "attn.bias",
                                          ".attention.bias",
                                          ".activation_scale",
                                          ".input_scale",
                                          "rope_freqs.weight",
                                          "rope_factors_long.weight",
                                          "rope_factors_short.weight",
                                          ".k_scale",
                                          ".v_scale",
                                          ".kv_scale",
                                          ".q_scale",
                                          ".prob_scale",
                                          "encoder.embed_tokens.weight",
                                          "decoder.embed_tokens.weight",
                                          "EncDecAttention.relative_attention_bias.weight"};
    for (size_t i = 0; i < sizeof ENDINGS / sizeof *ENDINGS; i++)
        if (text_ends_with(name, ENDINGS[i]))
            return true;
    return false;
}

/* Tensors of the layers behind the last one, which predict further tokens. */
static bool is_of_skipped_layer(const struct model_config *config, const char *name)
{
    static const char LAYERS[] = "model.layers.";
    char *end;
    if (config->n_skipped_layers == 0 || strncmp(name, LAYERS, sizeof LAYERS - 1) != 0)
        return false;
    const unsigned long layer = strtoul(name + sizeof LAYERS - 1, &end, 10);
    return *end == '.' && layer >= config->n_layers &&
           layer - config->n_layers < config->n_skipped_layers;
}

/* K and V of layers that read those of others: some files have them. */
static bool is_of_sharing_layer(const struct model_config *config, const char *name)
{
    static const char LAYERS[] = "layers.";
    static const char *const PARTS[] = {".self_attn.k_proj.", ".self_attn.v_proj.",
                                        ".self_attn.k_norm.", ".self_attn.v_norm."};
    const char *at = strstr(name, LAYERS);
    char *end;
    if (!at)
        return false;
    const unsigned long layer = strtoul(at + sizeof LAYERS - 1, &end, 10);
    if (layer >= config->n_layers || config->kv_back[layer] == 0)
        return false;
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (strncmp(end, PARTS[i], strlen(PARTS[i])) == 0)
            return true;
    return false;
}

/* Of parts around the text model and behind its last layer: what they are; NULL: the tensor is of no such part. */
static const char *part_beside(const char *name)
{
    static const char *const PARTS[][2] = {{"model.visual.", "the part that sees"},
                                           {"visual.", "the part that sees"},
                                           {"model.vision_tower.", "the part that sees"},
                                           {"model.embed_vision.", "the part that sees"},
                                           {"model.vision_embedder.", "the part that sees"},
                                           {"model.audio_tower.", "the part that hears"},
                                           {"model.embed_audio.", "the part that hears"},
                                           {"mtp.", "layers that predict further tokens"}};
    for (size_t i = 0; i < sizeof PARTS / sizeof *PARTS; i++)
        if (strncmp(name, PARTS[i][0], strlen(PARTS[i][0])) == 0)
            return PARTS[i][1];
    return NULL;
}

/* One line for each part. */
static void tell_parts_beside(const struct weight_files *files, const bool *is_used)
{
    const char *told = NULL;
    for (uint32_t i = 0; i < files->n_entries; i++) { /* in the order of names */
        const char *name = files->entries[i].tensor->name, *part = part_beside(name);
        if (!is_used[i] && part && part != told)
            log_event(LOG_INFO, NULL, "tensors skipped", LOG_TEXT("of", part),
                      LOG_TEXT("first", name));
        told = part ? part : told;
    }
}

void leftover_tensors_say(const struct model_config *config, const struct weight_files *files,
                          const bool *is_used)
{
    uint32_t n = 0, n_skipped = 0, n_sharing = 0;
    const char *first = NULL;
    tell_parts_beside(files, is_used);
    for (uint32_t i = 0; i < files->n_entries; i++) {
        const char *name = files->entries[i].tensor->name;
        if (is_used[i] || is_known_leftover(name) || part_beside(name))
            continue;
        if (is_of_skipped_layer(config, name)) {
            n_skipped++;
            continue;
        }
        if (is_of_sharing_layer(config, name)) {
            n_sharing++;
            continue;
        }
        first = first ? first : name;
        n++;
    }
    if (n_skipped > 0)
        log_info("%u tensors of the %u layers behind layer %u are not used: they predict further "
                 "tokens (num_nextn_predict_layers)",
                 n_skipped, config->n_skipped_layers, config->n_layers - 1);
    if (n_sharing > 0)
        log_info("%u tensors of K and V are not used: their layers read those of others "
                 "(num_kv_shared_layers)",
                 n_sharing);
    if (n > 0)
        log_event(LOG_WARN, NULL, "tensors not used by this architecture", LOG_U64("n", n),
                  LOG_TEXT("first", first));
}
