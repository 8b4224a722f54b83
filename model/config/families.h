/*
 * families - one row for each family of models: its names in config.json, its defaults, and the decoder it is.
 *
 * A key of config.json that only some families have is in the row's own_keys: it is used there, and refused in the
 * others (config_keys.h). What a row cannot say is read by its function.
 *
 * Thread: any; no state.
 */
#pragma once

#include "model/config/decoder.h"
#include "model/files/json_fields.h"

struct model_config;

/* Which layers see a window of keys. */
enum window_rule {
    WINDOWS_NONE,       /* Transformers ignores sliding_window */
    WINDOWS_EVERYWHERE, /* sliding_window, if there is one, in every layer */
    WINDOWS_LAST, /* use_sliding_window, from max_window_layers on, or as layer_types says: Qwen */
    WINDOWS_SWITCHED, /* use_sliding_window, in every layer: Qwen3-MoE */
    WINDOWS_PERIODIC, /* all but every nth layer, or as layer_types says: Gemma 2 and 3, OLMo 3, Cohere 2 */
};

/* Which layers rotate Q and K. */
enum rope_rule {
    ROPES_EVERYWHERE,
    ROPES_LOCAL_IN_WINDOWS, /* layers with a window have a rotation of their own: Gemma 3, OLMo 3 */
    ROPES_ONLY_IN_WINDOWS,  /* Cohere 2 */
    ROPES_LISTED,           /* no_rope_layers, or all but every nth: SmolLM3 */
    ROPES_NOWHERE,
};

/* How the tensors are called: weights/tensor_names.h has a set of names for each. */
enum tensor_naming {
    NAMED_AS_LLAMA,
    NAMED_AS_MIXTRAL,
    NAMED_AS_QWEN_MOE,
    NAMED_AS_OLMOE,
    NAMED_AS_GRANITE_MOE,
    NAMED_AS_GPT_OSS,
    NAMED_AS_GPT_OSS_APART, /* no family's: gpt-oss in a GGUF file */
    NAMED_AS_COHERE,
    NAMED_AS_GEMMA2,
    NAMED_AS_OLMO2,
    NAMED_AS_PHI3,
    NAMED_AS_GLM4,
    NAMED_AS_PHI,
    NAMED_AS_GPT2,
    NAMED_AS_GPT_NEOX,
    NAMED_AS_GPTJ,
    NAMED_AS_OPT,
    NAMED_AS_BLOOM,
    NAMED_AS_FALCON,
    NAMED_AS_MPT,
    NAMED_AS_STABLELM,
    NAMED_AS_DEEPSEEK,
    NAMED_AS_DEEPSEEK_APART, /* no family's: DeepSeek in a GGUF file */
    NAMED_AS_QWEN_NEXT,
    NAMED_AS_QWEN3_5,
    NAMED_AS_GEMMA4,
    NAMED_AS_T5, /* this and the ones behind it: models with an encoder */
    NAMED_AS_BART,
    NAMED_AS_MBART,
};

struct family {
    const char *architecture, *model_type;
    const char *names;           /* "hidden_size=n_embd ...": keys that are called otherwise here */
    const char *own_keys;        /* used beside the common ones, separated by spaces */
    const char *generation_keys; /* of generation_config.json, as own_keys of config.json */
    const char *rope_keys; /* members of rope_parameters that are used beside the common ones */
    struct decoder decoder;
    enum tensor_naming naming;

    bool may_have_attention_bias, may_have_mlp_bias; /* keys attention_bias, mlp_bias */
    bool has_qkv_bias, has_o_bias, has_mlp_bias;
    bool attention_bias_is_qkv_alone; /* the key says nothing of o */
    bool ties_embeddings;             /* the default of tie_word_embeddings */
    bool needs_kv_heads;     /* num_key_value_heads has a default that this file does not say */
    bool ffn_is_four_hidden; /* the default of intermediate_size */

    enum window_rule windows;
    uint32_t window, window_period; /* defaults */
    enum rope_rule ropes;
    double rope_part; /* of a head that is rotated: the default; 0: 1, and the key is refused */
    bool rope_is_interleaved;
    double rope_theta, rope_theta_local; /* 0: 10,000 */

    bool is_unequal;    /* heads, K and V of layers may differ: unequal_layers.h */
    bool last_sees_all; /* the last layer, whatever layer_types say */
    bool turns_in_part; /* rope_type proportional, or default: no other */
    bool is_latent;     /* attention over latents: the function reads their sizes */

    uint32_t head_dim;                        /* 0: hidden / heads */
    uint32_t n_heads, n_kv_heads, vocabulary; /* defaults in a text_config alone */
    uint32_t context_tokens;
    double norm_eps;        /* 0: 1e-6 */
    const char *activation; /* of hidden_act; NULL: silu */

    /* Reads own_keys into the config. May be NULL. */
    enum status (*read)(const struct json_fields *fields, struct model_config *config);
};

/* The row of an index; NULL behind the last one. */
const struct family *family_at(uint32_t index);
const char *model_family_name(uint32_t index); /* "LlamaForCausalLM" */
/* What the family calls a key, if the object has it under that name or under none. Transformers takes either. */
const char *family_key(const struct family *family, const json_t *object, const char *key,
                       char *name_out, size_t name_max);
/* The description of the text model: config.json itself, or the text_config of a model that also sees or hears. */
MUST_CHECK enum status family_text_fields(const struct json_fields *fields,
                                          struct json_fields *text_out);
/* The first class of "architectures" that has a row, or model_type if there are no architectures. fields are those of
 * config.json. CORRUPT, UNSUPPORTED with a sentence. */
MUST_CHECK enum status family_read(const struct json_fields *fields, uint32_t *index_out);
