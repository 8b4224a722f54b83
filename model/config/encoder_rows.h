/* encoder_rows - how the rows of families.c for models with an encoder are written: macros for its struct family. */
#pragma once

#define ENCODER_KEYS                                                                               \
    "is_encoder_decoder decoder_start_token_id bos_token_id forced_bos_token_id "                  \
    "forced_eos_token_id "
#define ENCODER_GENERATION_KEYS                                                                    \
    "decoder_start_token_id bos_token_id forced_bos_token_id forced_eos_token_id"
#define T5_NAMES                                                                                   \
    "hidden_size=d_model num_hidden_layers=num_layers num_attention_heads=num_heads "              \
    "head_dim=d_kv intermediate_size=d_ff norm_eps=layer_norm_epsilon"
#define T5_KEYS                                                                                    \
    ENCODER_KEYS                                                                                   \
    "d_model d_kv d_ff num_layers num_decoder_layers num_heads layer_norm_epsilon "                \
    "relative_attention_num_buckets relative_attention_max_distance feed_forward_proj "            \
    "dense_act_fn is_gated_act"
#define BART_NAMES                                                                                 \
    "hidden_size=d_model num_hidden_layers=decoder_layers "                                        \
    "num_attention_heads=decoder_attention_heads intermediate_size=decoder_ffn_dim "               \
    "hidden_act=activation_function"
#define BART_KEYS                                                                                  \
    ENCODER_KEYS                                                                                   \
    "d_model decoder_layers decoder_attention_heads decoder_ffn_dim encoder_layers "               \
    "encoder_attention_heads encoder_ffn_dim activation_function scale_embedding "                 \
    "normalize_before normalize_embedding add_final_layer_norm add_bias_logits "                   \
    "static_position_embeddings extra_pos_embeddings force_bos_token_to_be_generated"

/* Distances have no end: so many positions are served, whatever n_positions says, which Transformers does not read, either. */
#define T5_TOKENS 16384

#define T5_FAMILY(name, type, keys, reader)                                                        \
    {                                                                                              \
        .architecture = name, .model_type = type, .names = T5_NAMES, .own_keys = keys,             \
        .generation_keys = ENCODER_GENERATION_KEYS, .decoder = {.attention_scale = 1},             \
        .naming = NAMED_AS_T5, .ropes = ROPES_NOWHERE, .head_dim = 64,                             \
        .context_tokens = T5_TOKENS, .activation = "relu", .read = reader                          \
    }

#define BART_FAMILY(name, type, place, naming_as, reader)                                          \
    {                                                                                              \
        .architecture = name, .model_type = type, .names = BART_NAMES, .own_keys = BART_KEYS,      \
        .generation_keys = ENCODER_GENERATION_KEYS,                                                \
        .decoder = {.norm = NORM_LAYER,                                                            \
                    .norm_place = place,                                                           \
                    .norms_have_bias = true,                                                       \
                    .has_no_gate = true,                                                           \
                    .has_embedding_norm = true,                                                    \
                    .has_positions = true,                                                         \
                    .position_offset = 2},                                                         \
        .naming = naming_as, .has_qkv_bias = true, .has_o_bias = true, .has_mlp_bias = true,       \
        .ties_embeddings = true, .ropes = ROPES_NOWHERE, .context_tokens = 1024, .norm_eps = 1e-5, \
        .activation = "gelu", .read = reader                                                       \
    }
