/*
 * model_config - reads config.json and generation_config.json into a description of a decoder.
 *
 * One description serves every family, in the spellings of Transformers 4 and 5:
 *
 *     architecture        q, k, v bias     o bias           q/k norm  sliding window
 *     LlamaForCausalLM    attention_bias   attention_bias   no        no
 *     MistralForCausalLM  no               no               no        sliding_window, every layer
 *     Qwen2ForCausalLM    yes              no               no        by layer
 *     Qwen3ForCausalLM    attention_bias   attention_bias   yes       by layer
 *
 * A key that would change the result and is not computed here is refused by name (config_keys.h); an
 * unknown one is logged once. An absent key has the default of Transformers, but sizes of tensors
 * must be present. Every number has a bound, so that no product of sizes overflows.
 *
 * Plain data: copy it freely.
 * Thread: any.
 */
#pragma once

#include "base/status.h"
#include "kernels/rope.h"

#include <stdbool.h>
#include <stddef.h>
#include <stdint.h>

#define CONFIG_JSON_BYTES_MAX (1u << 20)
#define LAYERS_MAX            512u
#define HIDDEN_MAX            65536u
#define HEADS_MAX             1024u
#define FFN_MAX               (1u << 20)
#define VOCABULARY_MAX        (1u << 24)
#define EOS_IDS_MAX           256u

enum model_family { FAMILY_LLAMA, FAMILY_MISTRAL, FAMILY_QWEN2, FAMILY_QWEN3 };

struct model_config {
    enum model_family family;
    uint32_t hidden;
    uint32_t n_layers;
    uint32_t n_heads;
    uint32_t n_kv_heads; /* divides n_heads */
    uint32_t
        head_dim; /* a multiple of 8 up to HEAD_DIM_MAX; n_heads * head_dim need not be hidden */
    uint32_t ffn; /* intermediate size of the MLP */
    uint32_t vocabulary;
    /* Positions that are served: max_position_embeddings, or more with YaRN (rope_parameters.h). */
    uint32_t context_tokens;
    float norm_eps;
    bool qkv_bias, o_bias, mlp_bias;
    bool qk_norm; /* per-head RMS norm of Q and K before RoPE */
    bool
        tied_embeddings; /* the output head is the embedding; after loading: whether it really is */
    struct rope_config rope;
    uint32_t windows[LAYERS_MAX]; /* [n_layers]: query i sees keys i - window + 1 .. i; 0: all */

    uint32_t n_eos_ids;
    uint32_t eos_ids[EOS_IDS_MAX]; /* of both files, each once */
};

const char *model_family_name(enum model_family family); /* "LlamaForCausalLM" */

/* Reads folder/config.json, and folder/generation_config.json if there is one. The error sentence names file
 * and key.
 * NOT_FOUND, IO_FAILED; CORRUPT: malformed, missing or contradictory; UNSUPPORTED: kvferry cannot run it. */
MUST_CHECK enum status model_config_read(const char *folder, struct model_config *config_out,
                                         struct error *error);

/* The same from memory; generation_json may be NULL. */
MUST_CHECK enum status model_config_parse(const char *config_json, size_t config_bytes,
                                          const char *generation_json, size_t generation_bytes,
                                          struct model_config *config_out, struct error *error);
