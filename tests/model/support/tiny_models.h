/* tiny_models - the folders of tests/golden/models: a variant of each family. */
#pragma once

#include <stddef.h>
#include <string.h>

/* How far logits may be from those of Transformers. Products with blocks round x to 16 bits (decision 0047). */
static inline double tiny_tolerance(const char *name)
{
    return strstr(name, "mxfp4") ? 2e-3 : 1e-4;
}

static const char *const tiny_models[] = {
    "llama_t4",
    "llama_t5_bias",
    "llama_t4_bare",
    "llama_t4_linear",
    "llama_t5_dynamic",
    "llama_t4_llama3",
    "llama_t5_yarn",
    "qwen3_t4_yarn_mscale",
    "mistral_t4_window",
    "mistral_t5",
    "qwen2_t4",
    "qwen2_t4_window",
    "qwen2_t5_layer_types",
    "qwen3_t4",
    "qwen3_t5_bias",
    "gemma_t4",
    "gemma2_t4",
    "gemma2_t5",
    "gemma3_t4",
    "gemma3_t5",
    "gemma3_t4_text",
    "phi3_t4",
    "phi3_t5",
    "phi3_t4_longrope",
    "phi3_t5_longrope",
    "olmo_t4",
    "olmo2_t4",
    "olmo3_t4",
    "olmo3_t5",
    "granite_t4",
    "cohere_t4",
    "cohere_t5_qk_norm",
    "cohere2_t4",
    "smollm3_t4",
    "smollm3_t5",
    "glm4_t5",
    "stablelm_t4",
    "stablelm_t5",
    "stablelm_t4_qk_norm",
    "phi_t4",
    "gpt2_t4",
    "gpt_neox_t4",
    "gpt_neox_t5",
    "gptj_t4",
    "opt_t4",
    "bloom_t4",
    "falcon_t4_7b",
    "falcon_t4_40b",
    "falcon_t4_rw",
    "falcon_t5_11b",
    "mpt_t4",
    "mixtral_t4",
    "qwen2_moe_t4",
    "qwen3_moe_t4",
    "olmoe_t4",
    "granite_moe_t4",
    "gpt_oss_t5",
    "ministral3_t5",
    "ministral3_t5_text",
    "gpt_oss_t4_mxfp4",
    "deepseek_v2_t4",
    "deepseek_v2_t5_groups",
    "deepseek_v3_t4",
    "deepseek_v3_t5",
    "qwen3_5_t5",
    "qwen3_5_t5_text",
    "qwen3_5_moe_t5",
    "qwen3_next_t4",
};

enum { TINY_MODELS = sizeof tiny_models / sizeof *tiny_models };
