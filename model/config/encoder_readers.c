#include "model/config/encoder_readers.h"

#include "kernels/attention.h"
#include "model/config/activation_name.h"
#include "model/config/encoder_ids.h"

#include <math.h>
#include <stdio.h>
#include <string.h>

/* start: of the class, if no file has one; TOKEN_NONE: none. As in Transformers, a class forces nothing. */
static void set_default_ids(struct model_config *config, uint32_t start)
{
    config->encoder.start_id = start < config->vocabulary ? start : TOKEN_NONE;
    config->encoder.forced_first_id = config->encoder.forced_last_id = TOKEN_NONE;
}

/* ---- T5 ---- */

/* The keys of struct relative_bias. */
static enum status read_relative(const struct json_fields *fields, bool is_in_each_layer,
                                 struct model_config *config)
{
    struct relative_bias bias = {
        .n_buckets = 32, .distance_max = 128, .is_in_each_layer = is_in_each_layer};
    TRY(json_fields_u32(fields, "relative_attention_num_buckets", 1, RELATIVE_BUCKETS_MAX,
                        &bias.n_buckets));
    TRY(json_fields_u32(fields, "relative_attention_max_distance", 1, RELATIVE_DISTANCE_MAX,
                        &bias.distance_max));
    if (bias.n_buckets % 2 != 0 || bias.n_buckets < 4)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: relative_attention_num_buckets is %u, supported are even numbers "
                         "from 4: half of them are for keys behind the query",
                         fields->file, bias.n_buckets);
    if (bias.distance_max <= bias.n_buckets / 2)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: relative_attention_max_distance is %u, must be over the %u distances "
                         "that have a bucket each",
                         fields->file, bias.distance_max, bias.n_buckets / 2);
    config->decoder.relative = bias;
    return STATUS_OK;
}

/* "relu", or "gated-" and the name of an activation. */
static enum status read_feed_forward(const struct json_fields *fields, const char *words,
                                     struct model_config *config)
{
    static const char KEY[] = "feed_forward_proj", GATED[] = "gated-";
    struct decoder *decoder = &config->decoder;
    TRY(json_fields_string(fields, KEY, &words));
    decoder->has_no_gate = strncmp(words, GATED, sizeof GATED - 1) != 0;
    const char *name = decoder->has_no_gate ? words : words + sizeof GATED - 1;
    if (!decoder->has_no_gate && strcmp(name, "gelu") == 0) /* so is it computed */
        name = "gelu_new";
    TRY(activation_name_read(fields, KEY, name, &decoder->activation));
    const char *act = name;
    const bool is_gated = !decoder->has_no_gate;
    TRY(json_fields_string(fields, "dense_act_fn", &act));
    if (strcmp(act, name) != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: dense_act_fn is \"%.40s\", feed_forward_proj is \"%.60s\"",
                         fields->file, act, words);
    return json_fields_only(fields, "is_gated_act", is_gated);
}

static enum status read_t5(const struct json_fields *fields, const char *feed_forward,
                           struct model_config *config)
{
    TRY(json_fields_only(fields, "is_encoder_decoder", true));
    config->encoder = (struct encoder_shape){.n_layers = config->n_layers,
                                             .n_heads = config->n_heads,
                                             .head_dim = config->head_dim,
                                             .ffn = config->ffn};
    TRY(json_fields_u32(fields, "num_decoder_layers", 1, LAYERS_MAX, &config->n_layers));
    return read_feed_forward(fields, feed_forward, config);
}

/* The rows that the head reads are scaled: so are the logits. */
static void scale_logits(struct model_config *config)
{
    config->decoder.logit_scale = (float)(1 / sqrt((double)config->hidden));
}

/* As in version 5 of Transformers, a head is tied if the files have no other, and tie_word_embeddings says only whether its rows
 * are scaled; scale_decoder_outputs, where it is there, says it again. */
enum status family_read_t5(const struct json_fields *fields, struct model_config *config)
{
    bool is_scaled = true;
    TRY(read_t5(fields, "relu", config));
    TRY(json_fields_bool(fields, "tie_word_embeddings", &is_scaled));
    TRY(json_fields_bool(fields, "scale_decoder_outputs", &is_scaled));
    if (is_scaled)
        scale_logits(config);
    config->tied_embeddings = true;
    set_default_ids(config, TOKEN_NONE);
    TRY(read_relative(fields, false, config));
    return encoder_read_ids(fields, config);
}

enum status family_read_mt5(const struct json_fields *fields, struct model_config *config)
{
    TRY(read_t5(fields, "gated-gelu", config));
    config->tied_embeddings = true;
    set_default_ids(config, 0);
    TRY(read_relative(fields, false, config));
    return encoder_read_ids(fields, config);
}

/* Versions 4 and 5 of Transformers differ if tie_word_embeddings is false, as in the published models: 5 scales their logits, which
 * changes the order of no tokens; 4, as here, does not. */
enum status family_read_umt5(const struct json_fields *fields, struct model_config *config)
{
    bool is_scaled = true;
    TRY(read_t5(fields, "gated-gelu", config));
    TRY(json_fields_bool(fields, "tie_word_embeddings", &is_scaled));
    if (is_scaled)
        scale_logits(config);
    config->tied_embeddings = true;
    set_default_ids(config, 0);
    TRY(read_relative(fields, true, config));
    return encoder_read_ids(fields, config);
}

/* ---- BART ---- */

static enum status read_encoder_heads(const struct json_fields *fields, struct model_config *config)
{
    struct encoder_shape *encoder = &config->encoder;
    TRY(json_fields_u32(fields, "encoder_attention_heads", 1, HEADS_MAX, &encoder->n_heads));
    if (config->hidden % encoder->n_heads != 0)
        return error_set(fields->error, STATUS_CORRUPT,
                         "%s: d_model is %u, no multiple of encoder_attention_heads %u",
                         fields->file, config->hidden, encoder->n_heads);
    encoder->head_dim = config->hidden / encoder->n_heads;
    if (encoder->head_dim > HEAD_DIM_MAX || encoder->head_dim % 8 != 0)
        return error_set(fields->error, STATUS_UNSUPPORTED,
                         "%s: d_model / encoder_attention_heads is %u, supported are multiples of "
                         "8 up to %u",
                         fields->file, encoder->head_dim, HEAD_DIM_MAX);
    return STATUS_OK;
}

/* Keys of the first files, which Transformers does not read: the class is as they say. */
static enum status check_old_keys(const struct json_fields *fields, bool is_before)
{
    uint32_t offset = 2;
    TRY(json_fields_only(fields, "normalize_before", is_before));
    TRY(json_fields_only(fields, "add_final_layer_norm", is_before));
    TRY(json_fields_only(fields, "normalize_embedding", true));
    TRY(json_fields_only(fields, "add_bias_logits", false));
    TRY(json_fields_only(fields, "static_position_embeddings", false));
    TRY(json_fields_u32(fields, "extra_pos_embeddings", 0, UINT32_MAX, &offset));
    if (offset == 2)
        return STATUS_OK;
    return error_set(fields->error, STATUS_UNSUPPORTED,
                     "%s: extra_pos_embeddings is %u, only 2 is supported", fields->file, offset);
}

/* The first files have this in place of forced_bos_token_id: bos_token_id, which is 0 in the class, begins each reply. If both are
 * there, this one is of no effect, as in Transformers 4. */
static enum status read_force_bos(const struct json_fields *fields, struct model_config *config)
{
    struct encoder_shape *encoder = &config->encoder;
    bool is_forced = false;
    TRY(json_fields_bool(fields, "force_bos_token_to_be_generated", &is_forced));
    if (!is_forced || encoder->forced_first_id != TOKEN_NONE)
        return STATUS_OK;
    if (!json_object_get(fields->object, "bos_token_id"))
        encoder->forced_first_id = 0;
    return encoder_read_id(fields, config, "bos_token_id", &encoder->forced_first_id);
}

/* start: as in set_default_ids. */
static enum status read_bart_ids(const struct json_fields *fields, uint32_t start,
                                 struct model_config *config)
{
    set_default_ids(config, start);
    TRY(encoder_read_ids(fields, config));
    return read_force_bos(fields, config);
}

static enum status read_bart(const struct json_fields *fields, bool is_before,
                             struct model_config *config)
{
    bool is_scaled = false;
    struct encoder_shape *encoder = &config->encoder;
    TRY(json_fields_only(fields, "is_encoder_decoder", true));
    TRY(check_old_keys(fields, is_before));
    TRY(json_fields_require(fields, "encoder_layers"));
    TRY(json_fields_u32(fields, "encoder_layers", 1, LAYERS_MAX, &encoder->n_layers));
    encoder->ffn = config->ffn;
    encoder->n_heads = config->n_heads;
    TRY(json_fields_u32(fields, "encoder_ffn_dim", 1, FFN_MAX, &encoder->ffn));
    TRY(read_encoder_heads(fields, config));
    TRY(json_fields_bool(fields, "scale_embedding", &is_scaled));
    if (is_scaled)
        config->decoder.embedding_scale = sqrtf((float)config->hidden);
    return STATUS_OK;
}

enum status family_read_bart(const struct json_fields *fields, struct model_config *config)
{
    TRY(read_bart(fields, false, config));
    return read_bart_ids(fields, 2, config);
}

enum status family_read_mbart(const struct json_fields *fields, struct model_config *config)
{
    TRY(read_bart(fields, true, config));
    return read_bart_ids(fields, TOKEN_NONE, config);
}
