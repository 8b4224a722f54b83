/* families: a key that only a family has, with a value that it must not have, is refused with its name and the value. */
#include "model/model.h"
#include "tests/model/support/broken_folder.h"
#include "tests/model/support/runner.h"

#include <criterion/criterion.h>
#include <string.h>

#define GEMMA              GOLDEN_MODELS "/gemma_t4"
#define GEMMA2             GOLDEN_MODELS "/gemma2_t4"
#define GEMMA3             GOLDEN_MODELS "/gemma3_t5"
#define PHI3               GOLDEN_MODELS "/phi3_t5"
#define OLMO               GOLDEN_MODELS "/olmo_t4"
#define GRANITE            GOLDEN_MODELS "/granite_t4"
#define COHERE2            GOLDEN_MODELS "/cohere2_t4"
#define SMOLLM3            GOLDEN_MODELS "/smollm3_t4"
#define GLM4               GOLDEN_MODELS "/glm4_t5"
#define STABLELM           GOLDEN_MODELS "/stablelm_t5"
#define MINISTRAL3         GOLDEN_MODELS "/ministral3_t5"
#define PHI                GOLDEN_MODELS "/phi_t4"
#define GPT2               GOLDEN_MODELS "/gpt2_t4"
#define NEOX               GOLDEN_MODELS "/gpt_neox_t4"
#define GPTJ               GOLDEN_MODELS "/gptj_t4"
#define OPT                GOLDEN_MODELS "/opt_t4"
#define BLOOM              GOLDEN_MODELS "/bloom_t4"
#define FALCON             GOLDEN_MODELS "/falcon_t4_40b"
#define MPT                GOLDEN_MODELS "/mpt_t4"
#define MIXTRAL            GOLDEN_MODELS "/mixtral_t4"
#define QWEN2_MOE          GOLDEN_MODELS "/qwen2_moe_t4"
#define QWEN3_MOE          GOLDEN_MODELS "/qwen3_moe_t4"
#define GPT_OSS            GOLDEN_MODELS "/gpt_oss_t4_mxfp4"
#define DEEPSEEK_V2        GOLDEN_MODELS "/deepseek_v2_t4"
#define DEEPSEEK_V2_GROUPS GOLDEN_MODELS "/deepseek_v2_t5_groups"
#define DEEPSEEK_V3        GOLDEN_MODELS "/deepseek_v3_t4"
#define QWEN3_5            GOLDEN_MODELS "/qwen3_5_t5"
#define QWEN_NEXT          GOLDEN_MODELS "/qwen3_next_t4"
#define QWEN_MOE           GOLDEN_MODELS "/qwen3_5_moe_t5"

struct bad_config {
    const char *original, *set;
    enum status status;
    const char *words; /* in the sentence */
};

static const struct bad_config CASES[] = {
    {GEMMA2, "{\"attn_logit_softcapping\": -1}", STATUS_CORRUPT, "attn_logit_softcapping is -1"},
    {GEMMA2, "{\"final_logit_softcapping\": \"30\"}", STATUS_CORRUPT, "final_logit_softcapping is"},
    {GEMMA2, "{\"query_pre_attn_scalar\": 0}", STATUS_CORRUPT, "query_pre_attn_scalar is 0"},
    {GEMMA2, "{\"use_bidirectional_attention\": true}", STATUS_UNSUPPORTED,
     "use_bidirectional_attention is true"},
    {GEMMA2, "{\"hidden_activation\": \"quick_gelu\"}", STATUS_UNSUPPORTED,
     "hidden_activation \"quick_gelu\""},
    {GEMMA2, "{\"layer_types\": [\"full_attention\"]}", STATUS_CORRUPT,
     "layer_types is not a list of num_hidden_layers 3"},
    {GEMMA2, "{\"num_key_value_heads\": null}", STATUS_CORRUPT, "num_key_value_heads is missing"},
    {GEMMA2, "{\"logits_scaling\": 8}", STATUS_UNSUPPORTED, "logits_scaling is 8"},
    {GEMMA3, "{\"rope_parameters\": {\"sliding_attention\": 7}}", STATUS_CORRUPT,
     "rope_parameters.sliding_attention is no object"},
    {GEMMA3, "{\"rope_parameters\": {\"full_attention\": 3, \"sliding_attention\": {}}}",
     STATUS_CORRUPT, "rope_parameters.full_attention is no object"},
    {GEMMA3,
     "{\"rope_parameters\": {\"full_attention\": {\"rope_type\": \"longrope\"}, "
     "\"sliding_attention\": {}}}",
     STATUS_UNSUPPORTED, "rope_type \"longrope\""},
    {GEMMA3, "{\"sliding_window_pattern\": 0}", STATUS_CORRUPT, "sliding_window_pattern is 0"},
    {GEMMA3, "{\"rope_local_base_freq\": -3, \"rope_parameters\": null}", STATUS_CORRUPT,
     "rope_local_base_freq is -3"},
    {PHI3,
     "{\"rope_scaling\": {\"type\": \"longrope\", \"long_factor\": [1], \"short_factor\": [1]}, "
     "\"rope_parameters\": null}",
     STATUS_CORRUPT, "rope_scaling.short_factor is not a list of 8 numbers"},
    {PHI3,
     "{\"rope_scaling\": {\"type\": \"su\", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, 1], "
     "\"long_factor\": [1, 1, 1, 1, 1, 0, 1, 1]}, \"rope_parameters\": null}",
     STATUS_CORRUPT, "rope_scaling.long_factor[5] is not a number above 0 and up to 1e+06"},
    {PHI3,
     "{\"rope_scaling\": {\"type\": \"longrope\", \"short_factor\": [1, 1, 1, 1, 1, 1, 1, \"1\"], "
     "\"long_factor\": [1, 1, 1, 1, 1, 1, 1, 1]}, \"rope_parameters\": null}",
     STATUS_CORRUPT, "rope_scaling.short_factor[7] is not a number"},
    {PHI3,
     "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"long_factor\": [1]}, "
     "\"rope_parameters\": null}",
     STATUS_UNSUPPORTED,
     "rope_scaling.long_factor is not supported with another type than longrope"},
    {PHI3, "{\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 1.5}}",
     STATUS_CORRUPT, "partial_rotary_factor is 1.5"},
    {PHI3, "{\"rope_parameters\": {\"rope_type\": \"default\", \"partial_rotary_factor\": 0.07}}",
     STATUS_UNSUPPORTED, "1 of 16 elements of a head are rotated"},
    {OLMO, "{\"clip_qkv\": 8.0}", STATUS_UNSUPPORTED, "clip_qkv is 8"},
    {OLMO, "{\"clip_qkv\": \"8\"}", STATUS_CORRUPT, "clip_qkv is"},
    {GRANITE, "{\"embedding_multiplier\": 0}", STATUS_CORRUPT, "embedding_multiplier is 0"},
    {GRANITE, "{\"residual_multiplier\": -1}", STATUS_CORRUPT, "residual_multiplier is -1"},
    {GRANITE, "{\"attention_multiplier\": \"1\"}", STATUS_CORRUPT, "attention_multiplier is"},
    {GRANITE, "{\"logits_scaling\": 0}", STATUS_CORRUPT, "logits_scaling is 0"},
    {COHERE2, "{\"use_qk_norm\": true}", STATUS_UNSUPPORTED, "use_qk_norm is true"},
    {COHERE2, "{\"logit_scale\": 0}", STATUS_CORRUPT, "logit_scale is 0"},
    {COHERE2, "{\"sliding_window_pattern\": 1.5}", STATUS_CORRUPT, "sliding_window_pattern is 1.5"},
    {SMOLLM3, "{\"no_rope_layers\": [1, 0]}", STATUS_CORRUPT,
     "no_rope_layers is not a list of num_hidden_layers 4"},
    {SMOLLM3, "{\"no_rope_layers\": [1, 0, 1, \"1\"]}", STATUS_CORRUPT,
     "no_rope_layers[3] is not a whole number"},
    {SMOLLM3, "{\"no_rope_layers\": null, \"no_rope_layer_interval\": 0}", STATUS_CORRUPT,
     "no_rope_layer_interval is 0"},
    {GLM4, "{\"attention_bias\": \"yes\"}", STATUS_CORRUPT, "attention_bias is"},
    {STABLELM, "{\"qk_layernorm\": true}", STATUS_CORRUPT,
     "self_attn.q_layernorm.norms.0.weight is missing, expected with shape [16]"},
    {STABLELM, "{\"qk_layernorm\": 1}", STATUS_CORRUPT, "qk_layernorm is"},
    {MINISTRAL3, "{\"rope_parameters\": null}", STATUS_CORRUPT, "rope_parameters is missing"},
    {MINISTRAL3, "{\"rope_parameters\": {\"llama_4_scaling_beta\": null}}", STATUS_CORRUPT,
     "rope_parameters: llama_4_scaling_beta is missing"},
    {MINISTRAL3,
     "{\"rope_parameters\": {\"llama_4_scaling_beta\": -1, \"original_max_position_embeddings\": "
     "8}}",
     STATUS_CORRUPT, "llama_4_scaling_beta is -1"},
    {MINISTRAL3,
     "{\"rope_parameters\": {\"llama_4_scaling_beta\": 1, \"original_max_position_embeddings\": "
     "0}}",
     STATUS_CORRUPT, "original_max_position_embeddings is 0"},
    {STABLELM, "{\"rope_parameters\": {\"llama_4_scaling_beta\": 0.1}}", STATUS_UNSUPPORTED,
     "rope_parameters.llama_4_scaling_beta is not supported"},
    {STABLELM, "{\"use_parallel_residual\": 1}", STATUS_CORRUPT, "use_parallel_residual is"},
    {PHI, "{\"qk_layernorm\": true}", STATUS_UNSUPPORTED, "qk_layernorm is true"},
    {PHI, "{\"partial_rotary_factor\": -0.5}", STATUS_CORRUPT, "partial_rotary_factor is -0.5"},
    {GPT2, "{\"n_embd\": null}", STATUS_CORRUPT, "n_embd is missing"},
    {GPT2, "{\"n_head\": 5}", STATUS_CORRUPT, "no multiple of num_attention_heads 5"},
    {GPT2, "{\"scale_attn_weights\": false}", STATUS_UNSUPPORTED,
     "scale_attn_weights is false, only true"},
    {GPT2, "{\"scale_attn_by_inverse_layer_idx\": true}", STATUS_UNSUPPORTED,
     "scale_attn_by_inverse_layer_idx is true"},
    {GPT2, "{\"add_cross_attention\": true}", STATUS_UNSUPPORTED, "add_cross_attention is true"},
    {GPT2, "{\"activation_function\": \"gelu_fast\"}", STATUS_UNSUPPORTED,
     "activation_function \"gelu_fast\""},
    {GPT2, "{\"n_positions\": 64}", STATUS_CORRUPT,
     "transformer.wpe.weight has shape [128, 32], expected [64, 32]"},
    {NEOX, "{\"rotary_pct\": 2}", STATUS_CORRUPT, "rotary_pct is 2"},
    {NEOX, "{\"rotary_emb_base\": 0}", STATUS_CORRUPT, "rotary_emb_base is 0"},
    {NEOX, "{\"use_parallel_residual\": \"no\"}", STATUS_CORRUPT, "use_parallel_residual is"},
    {GPTJ, "{\"rotary_dim\": 100}", STATUS_CORRUPT, "rotary_dim is 100"},
    {GPTJ, "{\"rotary_dim\": 7}", STATUS_UNSUPPORTED, "7 of 16 elements of a head are rotated"},
    {OPT, "{\"do_layer_norm_before\": false}", STATUS_UNSUPPORTED, "do_layer_norm_before is false"},
    {OPT, "{\"enable_bias\": false}", STATUS_UNSUPPORTED, "enable_bias is false"},
    {OPT, "{\"word_embed_proj_dim\": 16}", STATUS_UNSUPPORTED,
     "word_embed_proj_dim is 16, only hidden_size 32"},
    {OPT, "{\"_remove_final_layer_norm\": true}", STATUS_UNSUPPORTED,
     "_remove_final_layer_norm is true"},
    {BLOOM, "{\"apply_residual_connection_post_layernorm\": true}", STATUS_UNSUPPORTED,
     "apply_residual_connection_post_layernorm is true"},
    {FALCON, "{\"num_kv_heads\": 3}", STATUS_CORRUPT,
     "num_kv_heads is 3, which does not divide num_attention_heads 4"},
    {FALCON, "{\"num_ln_in_parallel_attn\": 3}", STATUS_CORRUPT, "num_ln_in_parallel_attn is 3"},
    {FALCON, "{\"new_decoder_architecture\": false}", STATUS_CORRUPT,
     "input_layernorm.weight is missing"},
    {MPT, "{\"no_bias\": false}", STATUS_UNSUPPORTED, "no_bias is false"},
    {MPT, "{\"expansion_ratio\": 0}", STATUS_CORRUPT, "expansion_ratio is 0"},
    {MPT, "{\"expansion_ratio\": 64, \"d_model\": 65536, \"n_heads\": 512}", STATUS_CORRUPT,
     "expansion_ratio is 64"},
    {MPT, "{\"attn_config\": {\"clip_qkv\": 6}}", STATUS_UNSUPPORTED, "clip_qkv 6"},
    {MPT, "{\"attn_config\": {\"attn_type\": \"multiquery_attention\"}}", STATUS_UNSUPPORTED,
     "attn_type is \"multiquery_attention\""},
    {FALCON, "{\"apply_residual_connection_post_layernorm\": true}", STATUS_UNSUPPORTED,
     "apply_residual_connection_post_layernorm is true"},
    {BLOOM, "{\"n_inner\": 64}", STATUS_UNSUPPORTED, "n_inner is 64, only four times"},
    {BLOOM, "{\"n_inner\": \"64\"}", STATUS_CORRUPT, "n_inner is"},
    {OLMO, "{\"clip_qkv\": 0}", STATUS_UNSUPPORTED, "clip_qkv is 0"},
    {GEMMA, "{\"use_bidirectional_attention\": true}", STATUS_UNSUPPORTED,
     "use_bidirectional_attention is true"},
    {MPT, "{\"attn_config\": {\"qk_ln\": true}}", STATUS_UNSUPPORTED, "qk_ln is true"},
    {MPT, "{\"attn_config\": {\"alibi\": false}}", STATUS_UNSUPPORTED, "alibi is false"},
    {MPT, "{\"attn_config\": 3}", STATUS_CORRUPT, "attn_config is"},
    {MIXTRAL, "{\"num_local_experts\": 0}", STATUS_CORRUPT, "num_local_experts is 0"},
    {MIXTRAL, "{\"num_local_experts\": null}", STATUS_CORRUPT, "num_local_experts is missing"},
    {MIXTRAL, "{\"num_experts_per_tok\": 6}", STATUS_CORRUPT,
     "num_experts_per_tok is 6, expected 1 .. 5"},
    {MIXTRAL, "{\"num_local_experts\": 6}", STATUS_CORRUPT,
     "block_sparse_moe.gate.weight has shape [5, 32], expected [6, 32]"},
    {MIXTRAL, "{\"intermediate_size\": 40}", STATUS_CORRUPT,
     "experts.0.w1.weight has shape [48, 32], expected [40, 32]"},
    {QWEN3_MOE, "{\"decoder_sparse_step\": 0}", STATUS_CORRUPT, "decoder_sparse_step is 0"},
    {QWEN3_MOE, "{\"mlp_only_layers\": [4]}", STATUS_CORRUPT,
     "mlp_only_layers[0] is not a layer below num_hidden_layers 4"},
    {QWEN3_MOE, "{\"mlp_only_layers\": 3}", STATUS_CORRUPT, "mlp_only_layers is not a list"},
    {QWEN3_MOE, "{\"norm_topk_prob\": 1}", STATUS_CORRUPT, "norm_topk_prob is"},
    {QWEN2_MOE, "{\"shared_expert_intermediate_size\": null}", STATUS_CORRUPT,
     "shared_expert_intermediate_size is missing"},
    {QWEN2_MOE, "{\"moe_intermediate_size\": 1048577}", STATUS_CORRUPT,
     "moe_intermediate_size is 1048577"},
    {GPT_OSS, "{\"quantization_config\": {\"quant_method\": \"gptq\", \"bits\": 4}}",
     STATUS_UNSUPPORTED, "quant_method of gpt_oss is not mxfp4"},
    {GPT_OSS, "{\"swiglu_limit\": 0}", STATUS_CORRUPT, "swiglu_limit is 0"},
    {GPT_OSS, "{\"num_local_experts\": 5}", STATUS_CORRUPT,
     "mlp.router.weight has shape [4, 32], expected [5, 32]"},
    {GPT_OSS, "{\"intermediate_size\": 96}", STATUS_CORRUPT, "expected [4, 192"},
    {DEEPSEEK_V2, "{\"kv_lora_rank\": null}", STATUS_CORRUPT, "kv_lora_rank is missing"},
    {DEEPSEEK_V2, "{\"kv_lora_rank\": 24}", STATUS_UNSUPPORTED,
     "kv_lora_rank is 24, supported are multiples of 16 up to 512"},
    {DEEPSEEK_V2, "{\"kv_lora_rank\": 1024}", STATUS_UNSUPPORTED,
     "kv_lora_rank is 1024, supported are multiples of 16 up to 512"},
    {DEEPSEEK_V2, "{\"kv_lora_rank\": 0}", STATUS_CORRUPT, "kv_lora_rank is 0"},
    {DEEPSEEK_V2, "{\"qk_rope_head_dim\": 12}", STATUS_UNSUPPORTED,
     "qk_rope_head_dim is 12, supported are multiples of 8 up to 128"},
    {DEEPSEEK_V2, "{\"qk_rope_head_dim\": 256}", STATUS_UNSUPPORTED, "qk_rope_head_dim is 256"},
    {DEEPSEEK_V2, "{\"qk_rope_head_dim\": null}", STATUS_CORRUPT, "qk_rope_head_dim is missing"},
    {DEEPSEEK_V2, "{\"qk_nope_head_dim\": null}", STATUS_CORRUPT, "qk_nope_head_dim is missing"},
    {DEEPSEEK_V2, "{\"qk_nope_head_dim\": 2048}", STATUS_UNSUPPORTED,
     "qk_nope_head_dim is 2048, supported are multiples of 1 up to 1024"},
    {DEEPSEEK_V2, "{\"qk_nope_head_dim\": 13}", STATUS_CORRUPT,
     "q_proj.weight has shape [80, 32], expected [84, 32]"},
    {DEEPSEEK_V2, "{\"v_head_dim\": null}", STATUS_CORRUPT, "v_head_dim is missing"},
    {DEEPSEEK_V2, "{\"v_head_dim\": 11}", STATUS_CORRUPT,
     "kv_b_proj.weight has shape [88, 16], expected [92, 16]"},
    {DEEPSEEK_V2, "{\"v_head_dim\": \"10\"}", STATUS_CORRUPT, "v_head_dim"},
    {DEEPSEEK_V2, "{\"q_lora_rank\": 24}", STATUS_CORRUPT,
     "q_a_proj.weight is missing, expected with shape [24, 32]"},
    {DEEPSEEK_V2, "{\"qk_head_dim\": 24}", STATUS_UNSUPPORTED,
     "qk_head_dim is 24, only 20 is supported"},
    {DEEPSEEK_V2, "{\"num_key_value_heads\": 2}", STATUS_UNSUPPORTED,
     "num_key_value_heads is 2, only 4 is supported"},
    {DEEPSEEK_V2, "{\"rope_interleave\": false}", STATUS_UNSUPPORTED,
     "rope_interleave is false, only true is supported"},
    {DEEPSEEK_V2, "{\"norm_topk_prob\": true}", STATUS_UNSUPPORTED,
     "norm_topk_prob is true, only false is supported"},
    {DEEPSEEK_V2, "{\"scoring_func\": \"sigmoid\"}", STATUS_UNSUPPORTED,
     "scoring_func is \"sigmoid\", only softmax is supported"},
    {DEEPSEEK_V2, "{\"topk_method\": \"noaux_tc\"}", STATUS_UNSUPPORTED,
     "topk_method is \"noaux_tc\", only greedy is supported"},
    {DEEPSEEK_V2, "{\"moe_layer_freq\": 2}", STATUS_UNSUPPORTED,
     "moe_layer_freq is 2, only 1 is supported"},
    {DEEPSEEK_V2, "{\"mlp_bias\": true}", STATUS_UNSUPPORTED, "mlp_bias is true"},
    {DEEPSEEK_V2, "{\"routed_scaling_factor\": 0}", STATUS_CORRUPT, "routed_scaling_factor is 0"},
    {DEEPSEEK_V2, "{\"n_shared_experts\": 1}", STATUS_CORRUPT,
     "shared_experts.gate_proj.weight has shape [40, 32], expected [20, 32]"},
    {DEEPSEEK_V2, "{\"n_shared_experts\": 100000}", STATUS_CORRUPT, "n_shared_experts is 100000"},
    {DEEPSEEK_V2, "{\"n_routed_experts\": null}", STATUS_CORRUPT, "n_routed_experts is missing"},
    {DEEPSEEK_V2, "{\"num_experts_per_tok\": 9}", STATUS_CORRUPT, "num_experts_per_tok is 9"},
    {DEEPSEEK_V2, "{\"rope_scaling\": {\"type\": \"dynamic\", \"factor\": 2}}", STATUS_UNSUPPORTED,
     "rope_type \"dynamic\" is not supported"},
    {DEEPSEEK_V2,
     "{\"rope_scaling\": {\"type\": \"linear\", \"factor\": 2, \"mscale_all_dim\": 1}}",
     STATUS_UNSUPPORTED, "mscale_all_dim is 1, which is supported with yarn alone"},
    {DEEPSEEK_V2, "{\"partial_rotary_factor\": 0.5}", STATUS_UNSUPPORTED,
     "partial_rotary_factor is 0.5"},
    {DEEPSEEK_V2, "{\"num_local_experts\": 8}", STATUS_UNSUPPORTED, "num_local_experts is 8"},
    {DEEPSEEK_V2_GROUPS, "{\"n_group\": null}", STATUS_CORRUPT, "n_group is missing"},
    {DEEPSEEK_V2_GROUPS, "{\"n_group\": 3}", STATUS_CORRUPT,
     "n_group is 3: n_routed_experts 8 cannot be divided"},
    {DEEPSEEK_V2_GROUPS, "{\"topk_group\": 1}", STATUS_CORRUPT,
     "topk_group is 1 of n_group 4: num_experts_per_tok 3 are not in them"},
    {DEEPSEEK_V2_GROUPS, "{\"topk_group\": 5}", STATUS_CORRUPT, "topk_group is 5 of n_group 4"},
    {DEEPSEEK_V3, "{\"n_group\": null}", STATUS_CORRUPT, "n_group is missing"},
    {DEEPSEEK_V3, "{\"n_group\": 8}", STATUS_CORRUPT,
     "n_group is 8: n_routed_experts 8 cannot be divided into groups of 2 or more"},
    {DEEPSEEK_V3, "{\"scoring_func\": \"softmax\"}", STATUS_UNSUPPORTED,
     "scoring_func is \"softmax\", only sigmoid is supported"},
    {DEEPSEEK_V3, "{\"topk_method\": \"greedy\"}", STATUS_UNSUPPORTED,
     "topk_method is \"greedy\", only noaux_tc is supported"},
    {DEEPSEEK_V3, "{\"q_lora_rank\": null}", STATUS_CORRUPT,
     "self_attn.q_proj.weight is missing, expected with shape [80, 32]"},
    {DEEPSEEK_V3, "{\"first_k_dense_replace\": 0}", STATUS_CORRUPT,
     "layers.0.mlp.gate.weight is missing"},
    {DEEPSEEK_V3, "{\"first_k_dense_replace\": -1}", STATUS_CORRUPT, "first_k_dense_replace is -1"},
    {DEEPSEEK_V3, "{\"num_nextn_predict_layers\": 1000}", STATUS_CORRUPT,
     "num_nextn_predict_layers is 1000"},
    {DEEPSEEK_V3, "{\"attention_bias\": true}", STATUS_CORRUPT, "q_a_proj.bias is missing"},
    {QWEN3_5, "{\"layer_types\": [\"linear_attention\"]}", STATUS_CORRUPT,
     "layer_types is not a list of num_hidden_layers 4"},
    {QWEN3_5,
     "{\"layer_types\": [\"linear_attention\", \"full_attention\", \"sliding_attention\", 3]}",
     STATUS_UNSUPPORTED, "layer_types[2] is \"sliding_attention\""},
    {QWEN3_5, "{\"layer_types\": [\"linear_attention\", \"full_attention\", 3, 3]}", STATUS_CORRUPT,
     "layer_types[2] is not a string"},
    {QWEN3_5, "{\"layer_types\": null, \"full_attention_interval\": 5}", STATUS_UNSUPPORTED,
     "full_attention_interval: no layer has attention"},
    {QWEN3_5, "{\"full_attention_interval\": 0}", STATUS_CORRUPT, "full_attention_interval is 0"},
    {QWEN3_5, "{\"layer_types\": null, \"full_attention_interval\": 2}", STATUS_CORRUPT,
     "layers.3.self_attn.q_proj.weight is missing, expected with shape [256, 32]"},
    {QWEN3_5, "{\"linear_num_key_heads\": 3}", STATUS_CORRUPT,
     "linear_num_key_heads is 3, which does not divide linear_num_value_heads 4"},
    {QWEN3_5, "{\"linear_num_key_heads\": null}", STATUS_CORRUPT,
     "linear_num_key_heads is missing"},
    {QWEN3_5, "{\"linear_num_value_heads\": 0}", STATUS_CORRUPT, "linear_num_value_heads is 0"},
    {QWEN3_5, "{\"linear_key_head_dim\": 12}", STATUS_UNSUPPORTED, "linear_key_head_dim is 12"},
    {QWEN3_5, "{\"linear_value_head_dim\": 264}", STATUS_UNSUPPORTED,
     "linear_value_head_dim is 264, supported are multiples of 8 up to 256"},
    {QWEN3_5, "{\"linear_value_head_dim\": 24}", STATUS_CORRUPT,
     "in_proj_qkv.weight has shape [160, 32], expected [192, 32]"},
    {QWEN3_5, "{\"linear_conv_kernel_dim\": 1}", STATUS_CORRUPT, "linear_conv_kernel_dim is 1"},
    {QWEN3_5, "{\"linear_conv_kernel_dim\": 4}", STATUS_CORRUPT,
     "conv1d.weight has shape [160, 1, 3], expected [160, 1, 4]"},
    {QWEN3_5, "{\"attn_output_gate\": false}", STATUS_UNSUPPORTED,
     "attn_output_gate is false, only true is supported"},
    {QWEN3_5, "{\"output_gate_type\": \"sigmoid\"}", STATUS_UNSUPPORTED,
     "output_gate_type is \"sigmoid\""},
    {QWEN3_5, "{\"hidden_act\": \"relu\"}", STATUS_UNSUPPORTED, "hidden_act is not silu"},
    {QWEN3_5, "{\"mlp_only_layers\": [1]}", STATUS_UNSUPPORTED, "mlp_only_layers is [1]"},
    {QWEN3_5, "{\"attention_bias\": \"no\"}", STATUS_CORRUPT, "attention_bias is"},
    {QWEN3_5,
     "{\"rope_parameters\": {\"rope_type\": \"default\", \"mscale\": \"1\", \"axial\": 2}}",
     STATUS_UNSUPPORTED, "rope_parameters.axial is not supported"},
    {QWEN3_5, "{\"num_experts\": 4}", STATUS_UNSUPPORTED, "num_experts is 4"},
    {QWEN_NEXT, "{\"linear_num_value_heads\": 8}", STATUS_CORRUPT,
     "in_proj_qkvz.weight has shape [160, 32], expected [224, 32]"},
    {QWEN_NEXT, "{\"num_experts\": 0}", STATUS_CORRUPT, "num_experts is 0"},
    {QWEN_NEXT, "{\"rope_parameters\": {\"rope_type\": \"default\", \"mrope_section\": [1]}}",
     STATUS_UNSUPPORTED, "rope_parameters.mrope_section is not supported"},
    {QWEN_MOE, "{\"num_experts\": 6}", STATUS_CORRUPT,
     "mlp.gate.weight has shape [5, 32], expected [6, 32]"},
    {QWEN_MOE, "{\"moe_intermediate_size\": 24}", STATUS_CORRUPT,
     "mlp.experts.gate_up_proj has shape [5, 32, 32], expected [5, 48, 32]"},
};

Test(bad_family, every_bad_value_has_its_sentence)
{
    cr_assert_eq(sizeof CASES / sizeof *CASES, 160);
    for (size_t i = 0; i < sizeof CASES / sizeof *CASES; i++) {
        const struct bad_config *bad = &CASES[i];
        struct broken_folder folder;
        struct error error = {""};
        struct model *model = NULL;
        broken_folder_make(&folder, bad->original, CONFIG_SET, bad->set);
        enum status status = model_load(folder.path, NULL, &error, &model);
        cr_expect_eq(status, bad->status, "%s: %s, expected %s (%s)", bad->set, status_name(status),
                     status_name(bad->status), error.text);
        cr_expect(strstr(error.text, bad->words), "%s: no \"%s\" in \"%s\"", bad->set, bad->words,
                  error.text);
        model_destroy(status == STATUS_OK ? model : NULL);
        broken_folder_remove(&folder);
    }
}
