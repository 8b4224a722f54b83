#!/usr/bin/env python3
"""Makes the tiny random models and the logits that Transformers computes from them.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the folders beside this file
    v/bin/python make.py NAME ...   # only these
    v/bin/python make.py --check    # compares instead, all of them, and fails with a line for each file that is missing,
                                    # left over or different: a byte of a model, a prompt, 1e-5 of a logit

A folder holds config.json in the spelling under test, the weights, and

    golden.json    versions, for each prompt its token ids, and the ids of GREEDY_STEPS greedy steps behind the second one
    golden.f32     float32 little-endian [tokens of all prompts][vocabulary]: the logits of every position

Weights come from numpy's Philox, keyed by model and tensor name, so they do not depend on torch. Transformers reads
the very folder (so it also reads the spelling), computes in float32 on one thread with eager attention.
"""
import hashlib
import json
import os
import shutil
import sys
import tempfile

import numpy as np
import torch
import transformers
from safetensors import safe_open
from safetensors.torch import save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import committed  # noqa: E402

VOCABULARY = 96
PROMPT_LENGTHS = (1, 9, 70)
GREEDY_STEPS = 64
TORCH_DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}
DTYPE_NAMES = {"F32": "float32", "BF16": "bfloat16", "F16": "float16"}

BASE = {
    "hidden_size": 32,
    "intermediate_size": 48,
    "num_hidden_layers": 2,
    "num_attention_heads": 4,
    "num_key_value_heads": 2,
    "vocab_size": VOCABULARY,
    "max_position_embeddings": 128,
    "rms_norm_eps": 1e-5,
    "hidden_act": "silu",
    "bos_token_id": 1,
    "eos_token_id": 2,
    "use_cache": True,
    "initializer_range": 0.02,
}

# The keys that other families call otherwise.
NOTHING = {key: None for key in ("hidden_size", "intermediate_size", "num_hidden_layers", "num_attention_heads",
                                 "num_key_value_heads", "max_position_embeddings", "rms_norm_eps", "hidden_act")}

GPT_OSS = {"head_dim": 16, "sliding_window": 9, "num_local_experts": 4, "num_experts_per_tok": 2, "swiglu_limit": 0.9,
           "pad_token_id": 0, "tie_word_embeddings": False, "router_aux_loss_coef": 0.9, "output_router_logits": False,
           "rope_parameters": {"rope_theta": 150000.0, "rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0,
                               "beta_slow": 1.0, "truncate": False, "original_max_position_embeddings": 32}}

# Decays and epsilons that show.
RECURRENT = {"num_hidden_layers": 4, "head_dim": 32, "rms_norm_eps": 1e-2, "linear_conv_kernel_dim": 4,
             "linear_key_head_dim": 24, "linear_value_head_dim": 16, "linear_num_key_heads": 2,
             "linear_num_value_heads": 4}
EXPERTS = {"num_experts": 5, "num_experts_per_tok": 2, "moe_intermediate_size": 16,
           "shared_expert_intermediate_size": 24}
MROPE = {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.25, "mrope_section": [2, 1, 1],
         "mrope_interleaved": True}
# Attention over latents: sizes that are all different. Two of three layers have experts, in groups of which some are left out.
DEEPSEEK = {"num_key_value_heads": 4, "num_hidden_layers": 3, "q_lora_rank": 24, "kv_lora_rank": 16, "qk_nope_head_dim": 12,
            "qk_rope_head_dim": 8, "v_head_dim": 10, "moe_intermediate_size": 20, "n_shared_experts": 2, "n_routed_experts": 8,
            "num_experts_per_tok": 3, "first_k_dense_replace": 1, "moe_layer_freq": 1, "rms_norm_eps": 1e-2, "ep_size": 1,
            "routed_scaling_factor": 1.7, "aux_loss_alpha": 0.001, "seq_aux": True, "attention_bias": False,
            "attention_dropout": 0.0, "tie_word_embeddings": False, "pretraining_tp": 1}
DEEPSEEK_V2 = {**DEEPSEEK, "scoring_func": "softmax", "norm_topk_prob": False}
DEEPSEEK_V3 = {**DEEPSEEK, "scoring_func": "sigmoid", "norm_topk_prob": True, "topk_method": "noaux_tc", "n_group": 4,
               "topk_group": 2}
DEEPSEEK_YARN = {"type": "yarn", "factor": 4.0, "beta_fast": 32, "beta_slow": 1, "mscale": 0.707, "mscale_all_dim": 0.9,
                 "original_max_position_embeddings": 32}

# Heads, and K and V, that layers have different.
GEMMA4 = {"hidden_act": None, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 9, "rms_norm_eps": 1e-2,
          "vocab_size_per_layer_input": VOCABULARY, "enable_moe_block": False, "num_experts": None, "top_k_experts": None,
          "moe_intermediate_size": None, "pad_token_id": 0}

# name: (architecture, model_type, spelling 4 or 5, weights' dtype, shards, keys)
MODELS = {
    "llama_t4": ("LlamaForCausalLM", "llama", 4, "BF16", 1, {
        "tie_word_embeddings": True, "rope_theta": 10000.0, "rope_scaling": None, "pretraining_tp": 1}),
    "llama_t5_bias": ("LlamaForCausalLM", "llama", 5, "F32", 1, {
        "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": 5000.0, "rope_type": "default"}}),
    "llama_t4_bare": ("LlamaForCausalLM", "llama", 4, "F32", 1, {
        "num_attention_heads": 4, "num_key_value_heads": None, "rms_norm_eps": 1e-6}),
    "llama_t4_linear": ("LlamaForCausalLM", "llama", 4, "F16", 1, {
        "head_dim": 16, "rope_theta": 10000.0, "rope_scaling": {"type": "linear", "factor": 2.5}}),
    "llama_t5_dynamic": ("LlamaForCausalLM", "llama", 5, "BF16", 1, {
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "dynamic", "factor": 4.0}}),
    "llama_t4_llama3": ("LlamaForCausalLM", "llama", 4, "BF16", 3, {
        "head_dim": 16, "tie_word_embeddings": False, "rope_theta": 500.0,
        "rope_scaling": {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
                         "original_max_position_embeddings": 32}}),
    "llama_t5_yarn": ("LlamaForCausalLM", "llama", 5, "F32", 1, {
        "head_dim": 16, "tie_word_embeddings": True,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "yarn", "factor": 4.0, "beta_fast": 16.0,
                            "beta_slow": 1.5, "original_max_position_embeddings": 32}}),
    "qwen3_t4_yarn_mscale": ("Qwen3ForCausalLM", "qwen3", 4, "BF16", 1, {
        "head_dim": 32, "tie_word_embeddings": True, "rope_theta": 1000.0,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "mscale": 1.2, "mscale_all_dim": 0.7, "truncate": False,
                         "original_max_position_embeddings": 32}}),
    "mistral_t4_window": ("MistralForCausalLM", "mistral", 4, "BF16", 1, {
        "sliding_window": 7, "rope_theta": 10000.0, "tie_word_embeddings": False}),
    "mistral_t5": ("MistralForCausalLM", "mistral", 5, "F32", 1, {
        "sliding_window": None, "head_dim": 24, "num_key_value_heads": 1, "tie_word_embeddings": False,
        "rope_parameters": {"rope_theta": 1e6, "rope_type": "default"}}),
    "qwen2_t4": ("Qwen2ForCausalLM", "qwen2", 4, "BF16", 1, {
        "tie_word_embeddings": True, "use_sliding_window": False, "sliding_window": 7, "max_window_layers": 0,
        "rope_theta": 1000000.0}),
    "qwen2_t4_window": ("Qwen2ForCausalLM", "qwen2", 4, "F16", 2, {
        "num_hidden_layers": 3, "tie_word_embeddings": False, "use_sliding_window": True, "sliding_window": 11,
        "max_window_layers": 1, "rope_theta": 10000.0}),
    "qwen2_t5_layer_types": ("Qwen2ForCausalLM", "qwen2", 5, "F32", 1, {
        "num_hidden_layers": 3, "tie_word_embeddings": True, "use_sliding_window": True, "sliding_window": 9,
        "max_window_layers": 28, "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    # An epsilon large enough that leaving it out anywhere shows: of the norms of q and k too.
    "qwen3_t4": ("Qwen3ForCausalLM", "qwen3", 4, "BF16", 1, {
        "rms_norm_eps": 1e-2,
        "head_dim": 24, "tie_word_embeddings": True, "attention_bias": False, "use_sliding_window": False,
        "sliding_window": None, "max_window_layers": 2, "rope_theta": 1000000.0, "rope_scaling": None}),
    "qwen3_t5_bias": ("Qwen3ForCausalLM", "qwen3", 5, "F16", 1, {
        "head_dim": 16, "tie_word_embeddings": False, "attention_bias": True, "use_sliding_window": True,
        "sliding_window": 16, "max_window_layers": 1, "layer_types": ["full_attention", "sliding_attention"],
        "eos_token_id": [2, 3], "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    # The square root of hidden_size is a BF16 number: Transformers rounds it to the type it computes in.
    "gemma_t4": ("GemmaForCausalLM", "gemma", 4, "BF16", 1, {
        "hidden_size": 64, "head_dim": 16, "num_key_value_heads": 1, "hidden_act": "gelu", "hidden_activation": None,
        "rope_theta": 10000.0}),
    "gemma2_t4": ("Gemma2ForCausalLM", "gemma2", 4, "BF16", 1, {
        "hidden_size": 64, "head_dim": 16, "num_hidden_layers": 3, "hidden_act": None, "rms_norm_eps": 1e-2,
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 9, "query_pre_attn_scalar": 24,
        "attn_logit_softcapping": 2.0, "final_logit_softcapping": 3.0, "cache_implementation": "hybrid",
        "rope_theta": 10000.0}),
    "gemma2_t5": ("Gemma2ForCausalLM", "gemma2", 5, "F32", 1, {
        "head_dim": 16, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 7, "query_pre_attn_scalar": 16,
        "layer_types": ["full_attention", "sliding_attention"], "final_logit_softcapping": None,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    "gemma3_t4": ("Gemma3ForCausalLM", "gemma3_text", 4, "BF16", 1, {
        "hidden_size": 64, "head_dim": 16, "num_hidden_layers": 4, "num_key_value_heads": 1, "hidden_act": None,
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 9, "sliding_window_pattern": 3,
        "query_pre_attn_scalar": 20, "rms_norm_eps": 1e-2, "rope_theta": 50000.0, "rope_local_base_freq": 500.0,
        "rope_scaling": {"rope_type": "linear", "factor": 8.0}, "attn_logit_softcapping": None,
        "final_logit_softcapping": None, "attention_bias": False}),
    "gemma3_t5": ("Gemma3ForCausalLM", "gemma3_text", 5, "F32", 1, {
        "head_dim": 16, "num_hidden_layers": 3, "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 6,
        "query_pre_attn_scalar": 16, "attention_bias": True,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_theta": 1e6, "rope_type": "linear", "factor": 4.0},
                            "sliding_attention": {"rope_theta": 10000.0, "rope_type": "default"}}}),
    "gemma3_t4_text": ("Gemma3ForCausalLM", "gemma3_text", 4, "BF16", 1, {
        "hidden_size": 64, "num_attention_heads": 8, "num_key_value_heads": 4, "head_dim": 8, "hidden_act": None,
        "hidden_activation": "gelu_pytorch_tanh", "sliding_window": 9, "sliding_window_pattern": 2,
        "query_pre_attn_scalar": 20, "rope_theta": 1e6, "rope_local_base_freq": 1e4}),
    "phi3_t4": ("Phi3ForCausalLM", "phi3", 4, "BF16", 1, {
        "sliding_window": 11, "rope_scaling": None, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "original_max_position_embeddings": 128, "pad_token_id": 0, "resid_pdrop": 0.0, "embd_pdrop": 0.0}),
    "phi3_t5": ("Phi3ForCausalLM", "phi3", 5, "F16", 1, {
        "hidden_size": 64, "sliding_window": None, "num_key_value_heads": 4, "tie_word_embeddings": True, "pad_token_id": 0,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.75}}),
    # Prompts of 9 and 70 tokens have the long factors, and one of a token has no angle; then those of 128 positions are short.
    "phi3_t4_longrope": ("Phi3ForCausalLM", "phi3", 4, "BF16", 1, {
        "sliding_window": None, "rope_theta": 10000.0, "tie_word_embeddings": False, "pad_token_id": 0,
        "original_max_position_embeddings": 8, "rope_scaling": {
            "type": "longrope", "short_factor": [1.0, 1.1, 1.3, 1.5], "long_factor": [1.2, 2.5, 7.0, 30.0]}}),
    "phi3_t5_longrope": ("Phi3ForCausalLM", "phi3", 5, "F16", 1, {
        "hidden_size": 64, "sliding_window": None, "num_key_value_heads": 4, "tie_word_embeddings": True, "pad_token_id": 0,
        "rope_parameters": {
            "rope_theta": 10000.0, "rope_type": "longrope", "partial_rotary_factor": 0.75, "attention_factor": 1.3,
            "original_max_position_embeddings": 128, "short_factor": [1.0, 1.5, 2.0, 2.0, 3.0, 4.0],
            "long_factor": [9.0, 9.0, 9.0, 9.0, 9.0, 9.0]}}),
    "olmo_t4": ("OlmoForCausalLM", "olmo", 4, "F32", 1, {
        "rms_norm_eps": None, "clip_qkv": None, "attention_bias": True, "tie_word_embeddings": False,
        "rope_theta": 10000.0, "rope_scaling": None}),
    "olmo2_t4": ("Olmo2ForCausalLM", "olmo2", 4, "BF16", 1, {
        "rms_norm_eps": 1e-2, "attention_bias": False, "tie_word_embeddings": False, "rope_theta": 500000.0,
        "rope_scaling": None}),
    "olmo3_t4": ("Olmo3ForCausalLM", "olmo3", 4, "BF16", 1, {
        "num_hidden_layers": 5, "attention_bias": False, "tie_word_embeddings": False, "rope_theta": 500000.0,
        "sliding_window": 9, "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "attention_factor": 1.2,
        "beta_fast": 32.0, "beta_slow": 1.0, "original_max_position_embeddings": 32}}),
    "olmo3_t5": ("Olmo3ForCausalLM", "olmo3", 5, "F32", 1, {
        "num_key_value_heads": 4, "tie_word_embeddings": True, "sliding_window": 7,
        "layer_types": ["full_attention", "sliding_attention"],
        "rope_parameters": {"full_attention": {"rope_theta": 5000.0, "rope_type": "linear", "factor": 3.0},
                            "sliding_attention": {"rope_theta": 300.0, "rope_type": "default"}}}),
    "granite_t4": ("GraniteForCausalLM", "granite", 4, "BF16", 1, {
        "embedding_multiplier": 12.0, "residual_multiplier": 0.22, "attention_multiplier": 0.4, "logits_scaling": 8.0,
        "attention_bias": True, "mlp_bias": True, "tie_word_embeddings": True, "rope_theta": 10000.0,
        "rope_scaling": None}),
    "cohere_t4": ("CohereForCausalLM", "cohere", 4, "F16", 1, {
        "rms_norm_eps": None, "layer_norm_eps": 1e-2, "logit_scale": 0.25, "use_qk_norm": False,
        "attention_bias": False, "rope_theta": 8000.0}),
    "cohere_t5_qk_norm": ("CohereForCausalLM", "cohere", 5, "BF16", 1, {
        "rms_norm_eps": None, "layer_norm_eps": 1e-2, "logit_scale": 0.25, "use_qk_norm": True,
        "attention_bias": False, "rope_theta": 8000.0}),
    "cohere2_t4": ("Cohere2ForCausalLM", "cohere2", 4, "BF16", 1, {
        "num_hidden_layers": 5, "rms_norm_eps": None, "layer_norm_eps": 1e-5, "logit_scale": 0.5,
        "sliding_window": 8, "sliding_window_pattern": 4, "attention_bias": False, "rope_theta": 50000.0,
        "head_dim": 8, "order_of_interleaved_layers": "local_attn_first", "position_embedding_type": "rope_gptj"}),
    "smollm3_t4": ("SmolLM3ForCausalLM", "smollm3", 4, "BF16", 1, {
        "num_hidden_layers": 4, "no_rope_layers": [1, 0, 1, 1], "no_rope_layer_interval": 4, "pad_token_id": 0,
        "tie_word_embeddings": True, "rope_theta": 5000000.0, "use_sliding_window": False, "sliding_window": None,
        "attention_bias": False, "mlp_bias": False, "max_window_layers": 28, "rope_scaling": None}),
    "smollm3_t5": ("SmolLM3ForCausalLM", "smollm3", 5, "F32", 1, {
        "num_hidden_layers": 4, "no_rope_layer_interval": 2, "pad_token_id": 0, "tie_word_embeddings": False,
        "attention_bias": True, "mlp_bias": True, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    "glm4_t5": ("Glm4ForCausalLM", "glm4", 5, "BF16", 1, {
        "head_dim": 16, "attention_bias": True, "tie_word_embeddings": False, "pad_token_id": 0, "eos_token_id": [2, 4],
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}}),
    "stablelm_t4": ("StableLmForCausalLM", "stablelm", 4, "F16", 1, {
        "hidden_size": 64, "num_key_value_heads": 4, "rms_norm_eps": None, "layer_norm_eps": 1e-2, "use_qkv_bias": True,
        "qk_layernorm": False, "use_parallel_residual": False, "partial_rotary_factor": 0.25, "rope_theta": 10000.0,
        "tie_word_embeddings": False}),
    "stablelm_t5": ("StableLmForCausalLM", "stablelm", 5, "BF16", 1, {
        "hidden_size": 64, "rms_norm_eps": None, "layer_norm_eps": 1e-5, "use_parallel_residual": True,
        "tie_word_embeddings": True,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}}),
    "stablelm_t4_qk_norm": ("StableLmForCausalLM", "stablelm", 4, "BF16", 2, {
        "rms_norm_eps": None, "layer_norm_eps": 1e-2, "use_qkv_bias": False, "qk_layernorm": True,
        "use_parallel_residual": True, "partial_rotary_factor": 0.25, "rope_theta": 10000.0,
        "tie_word_embeddings": False}),
    "phi_t4": ("PhiForCausalLM", "phi", 4, "F16", 1, {
        "hidden_size": 64, "num_key_value_heads": None, "rms_norm_eps": None, "layer_norm_eps": 1e-2,
        "hidden_act": "gelu_new", "qk_layernorm": False, "partial_rotary_factor": 0.5, "rope_theta": 10000.0,
        "tie_word_embeddings": False}),
    "gpt2_t4": ("GPT2LMHeadModel", "gpt2", 4, "F32", 1, {
        **NOTHING, "n_embd": 32, "n_layer": 2, "n_head": 4, "n_inner": None, "n_positions": 128, "n_ctx": 128,
        "layer_norm_epsilon": 1e-2, "activation_function": "gelu_new", "reorder_and_upcast_attn": False,
        "scale_attn_by_inverse_layer_idx": False, "scale_attn_weights": True, "summary_type": "cls_index"}),
    "gpt_neox_t4": ("GPTNeoXForCausalLM", "gpt_neox", 4, "F16", 1, {
        "hidden_size": 64, "num_key_value_heads": None, "rms_norm_eps": None, "layer_norm_eps": 1e-2,
        "hidden_act": "gelu", "rotary_pct": 0.25, "rotary_emb_base": 5000, "use_parallel_residual": True,
        "tie_word_embeddings": False, "attention_bias": True}),
    "gpt_neox_t5": ("GPTNeoXForCausalLM", "gpt_neox", 5, "F32", 1, {
        "num_key_value_heads": None, "rms_norm_eps": None, "layer_norm_eps": 1e-5, "hidden_act": "gelu_new",
        "use_parallel_residual": False, "tie_word_embeddings": False, "attention_bias": False,
        "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default", "partial_rotary_factor": 0.5}}),
    "gptj_t4": ("GPTJForCausalLM", "gptj", 4, "F16", 1, {
        **NOTHING, "n_embd": 64, "n_layer": 2, "n_head": 4, "n_inner": 96, "n_positions": 128, "rotary_dim": 8,
        "layer_norm_epsilon": 1e-2, "activation_function": "gelu_new", "tie_word_embeddings": False}),
    "opt_t4": ("OPTForCausalLM", "opt", 4, "F16", 1, {
        "num_key_value_heads": None, "intermediate_size": None, "rms_norm_eps": None, "hidden_act": None,
        "ffn_dim": 48, "activation_function": "relu", "do_layer_norm_before": True, "word_embed_proj_dim": 32,
        "enable_bias": True, "layer_norm_elementwise_affine": True, "_remove_final_layer_norm": False,
        "dropout": 0.1, "layerdrop": 0.0, "init_std": 0.02, "pad_token_id": 1}),
    "bloom_t4": ("BloomForCausalLM", "bloom", 4, "F16", 1, {
        **NOTHING, "hidden_size": 48, "n_layer": 2, "n_head": 6, "layer_norm_epsilon": 1e-2, "seq_length": 128,
        "apply_residual_connection_post_layernorm": False, "attention_softmax_in_fp32": True, "slow_but_exact": False,
        "masked_softmax_fusion": True, "skip_bias_add": True, "skip_bias_add_qkv": False, "unk_token_id": 0,
        "n_inner": None, "offset_alibi": 100, "bias_dropout_fusion": True}),
    "falcon_t4_7b": ("FalconForCausalLM", "falcon", 4, "BF16", 1, {
        "num_key_value_heads": None, "intermediate_size": None, "rms_norm_eps": None, "hidden_act": None,
        "layer_norm_epsilon": 1e-2, "alibi": False, "bias": False, "multi_query": True, "parallel_attn": True,
        "new_decoder_architecture": False, "apply_residual_connection_post_layernorm": False}),
    "falcon_t4_40b": ("FalconForCausalLM", "falcon", 4, "F16", 1, {
        "num_key_value_heads": None, "intermediate_size": None, "rms_norm_eps": None, "hidden_act": None,
        "layer_norm_epsilon": 1e-5, "alibi": False, "bias": False, "multi_query": True, "parallel_attn": True,
        "new_decoder_architecture": True, "num_kv_heads": 2, "rope_theta": 10000.0}),
    "falcon_t4_rw": ("FalconForCausalLM", "falcon", 4, "F32", 1, {
        "num_key_value_heads": None, "intermediate_size": None, "rms_norm_eps": None, "hidden_act": None,
        "layer_norm_epsilon": 1e-5, "alibi": True, "bias": True, "multi_query": False, "parallel_attn": False,
        "new_decoder_architecture": False}),
    "falcon_t5_11b": ("FalconForCausalLM", "falcon", 5, "F32", 1, {
        "num_key_value_heads": None, "intermediate_size": None, "rms_norm_eps": None, "hidden_act": None,
        "ffn_hidden_size": 48, "activation": "gelu", "layer_norm_epsilon": 1e-5, "alibi": False, "bias": False,
        "parallel_attn": True, "new_decoder_architecture": True, "num_kv_heads": 4, "num_ln_in_parallel_attn": 1,
        "tie_word_embeddings": False, "rope_parameters": {"rope_theta": 500000.0, "rope_type": "default"}}),
    "mpt_t4": ("MptForCausalLM", "mpt", 4, "BF16", 1, {
        **NOTHING, "d_model": 48, "n_layers": 2, "n_heads": 6, "expansion_ratio": 4, "max_seq_len": 128, "no_bias": True,
        "layer_norm_epsilon": 1e-2, "learned_pos_emb": True, "resid_pdrop": 0.0, "emb_pdrop": 0.0, "verbose": 0,
        "embedding_fraction": 1.0, "norm_type": "low_precision_layernorm", "logit_scale": None, "init_device": "cpu",
        "attn_config": {"alibi": True, "alibi_bias_max": 8, "attn_impl": "torch", "attn_pdrop": 0, "clip_qkv": None,
                        "prefix_lm": False, "qk_ln": False, "softmax_scale": None, "attn_type": "multihead_attention"}}),
    # Several turns of original_max_position_embeddings within the prompt.
    "ministral3_t5": ("Ministral3ForCausalLM", "ministral3", 5, "BF16", 1, {
        "head_dim": 16, "sliding_window": None, "tie_word_embeddings": True, "rope_parameters": {
            "type": "yarn", "rope_type": "yarn", "rope_theta": 1000.0, "factor": 16.0, "beta_fast": 32.0, "beta_slow": 1.0,
            "original_max_position_embeddings": 8, "max_position_embeddings": 128, "mscale": 1.0, "mscale_all_dim": 1.0,
            "llama_4_scaling_beta": 0.6}}),
    "ministral3_t5_text": ("Ministral3ForCausalLM", "ministral3", 5, "F32", 1, {
        "head_dim": 16, "rope_parameters": {
            "rope_type": "yarn", "rope_theta": 1000.0, "factor": 4.0, "original_max_position_embeddings": 32,
            "llama_4_scaling_beta": 0.1}}),
    "mixtral_t4": ("MixtralForCausalLM", "mixtral", 4, "BF16", 1, {
        "num_local_experts": 5, "num_experts_per_tok": 2, "output_router_logits": False, "router_aux_loss_coef": 0.02,
        "sliding_window": None, "rope_theta": 1e6, "tie_word_embeddings": False}),
    "qwen2_moe_t4": ("Qwen2MoeForCausalLM", "qwen2_moe", 4, "BF16", 1, {
        "num_hidden_layers": 3, "num_experts": 6, "num_experts_per_tok": 3, "moe_intermediate_size": 24,
        "shared_expert_intermediate_size": 40, "norm_topk_prob": False, "decoder_sparse_step": 1,
        "mlp_only_layers": [1], "use_sliding_window": False, "sliding_window": 7, "max_window_layers": 3,
        "rope_theta": 1e6, "tie_word_embeddings": False}),
    "qwen3_moe_t4": ("Qwen3MoeForCausalLM", "qwen3_moe", 4, "BF16", 1, {
        "num_hidden_layers": 4, "head_dim": 16, "num_experts": 8, "num_experts_per_tok": 3,
        "moe_intermediate_size": 16, "norm_topk_prob": True, "decoder_sparse_step": 2, "mlp_only_layers": [],
        "use_sliding_window": False, "sliding_window": None, "max_window_layers": 4, "rope_theta": 1e6,
        "rope_scaling": None, "attention_bias": False, "tie_word_embeddings": False, "rms_norm_eps": 1e-2}),
    "olmoe_t4": ("OlmoeForCausalLM", "olmoe", 4, "BF16", 1, {
        "num_experts": 6, "num_experts_per_tok": 2, "norm_topk_prob": False, "clip_qkv": None, "rms_norm_eps": 1e-2,
        "rope_theta": 10000.0, "rope_scaling": None, "attention_bias": False, "tie_word_embeddings": False}),
    "granite_moe_t4": ("GraniteMoeForCausalLM", "granitemoe", 4, "F16", 1, {
        "embedding_multiplier": 6.0, "residual_multiplier": 0.3, "attention_multiplier": 0.3, "logits_scaling": 4.0,
        "num_local_experts": 4, "num_experts_per_tok": 2, "tie_word_embeddings": True, "rope_theta": 10000.0,
        "attention_bias": False, "rope_scaling": None}),
    "gpt_oss_t5": ("GptOssForCausalLM", "gpt_oss", 5, "BF16", 1, {
        **GPT_OSS, "intermediate_size": 40, "num_hidden_layers": 3, "attention_bias": True}),
    "deepseek_v2_t4": ("DeepseekV2ForCausalLM", "deepseek_v2", 4, "BF16", 1, {
        **DEEPSEEK_V2, "q_lora_rank": None, "topk_method": "greedy", "n_group": 1, "topk_group": 1, "rope_theta": 10000.0,
        "rope_scaling": DEEPSEEK_YARN}),
    "deepseek_v2_t5_groups": ("DeepseekV2ForCausalLM", "deepseek_v2", 5, "F16", 1, {
        **DEEPSEEK_V2, "topk_method": "group_limited_greedy", "n_group": 4, "topk_group": 2, "head_dim": 8,
        "attention_bias": True, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    "deepseek_v3_t4": ("DeepseekV3ForCausalLM", "deepseek_v3", 4, "BF16", 1, {
        **DEEPSEEK_V3, "num_nextn_predict_layers": 1, "rope_theta": 10000, "rope_scaling": {
            **DEEPSEEK_YARN, "mscale": 1.0, "mscale_all_dim": 1.0}}),
    "deepseek_v3_t5": ("DeepseekV3ForCausalLM", "deepseek_v3", 5, "BF16", 1, {
        **DEEPSEEK_V3, "head_dim": 8, "qk_head_dim": 20, "num_nextn_predict_layers": 0, "attention_bias": True,
        "norm_topk_prob": False, "n_group": 4, "topk_group": 3, "rope_interleave": False, "q_lora_rank": None,
        "rope_parameters": {"rope_theta": 1000.0, "rope_type": "yarn", "factor": 4.0, "mscale_all_dim": 0.5, "mscale": 1.3,
                            "original_max_position_embeddings": 32}}),
    "gpt_oss_t4_mxfp4": ("GptOssForCausalLM", "gpt_oss", 4, "BF16", 1, {
        **{key: value for key, value in GPT_OSS.items() if key != "rope_parameters"}, "rope_theta": 150000,
        "rope_scaling": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0, "truncate": False,
                         "original_max_position_embeddings": 32},
        "intermediate_size": 64, "layer_types": ["sliding_attention", "full_attention"],
        "experts_per_token": 2, "initial_context_length": 32, "attention_bias": True, "quantization_config": {
            "quant_method": "mxfp4",
            "modules_to_not_convert": ["model.layers.*.self_attn", "model.layers.*.mlp.router", "model.embed_tokens",
                                       "lm_head"]}}),
    "qwen3_5_t5": ("Qwen3_5ForCausalLM", "qwen3_5_text", 5, "F16", 1, {
        **RECURRENT, "layer_types": ["linear_attention", "full_attention", "linear_attention", "linear_attention"],
        "linear_conv_kernel_dim": 3, "attention_bias": True, "tie_word_embeddings": False, "rope_parameters": MROPE}),
    "qwen3_5_t5_text": ("Qwen3_5ForCausalLM", "qwen3_5_text", 5, "BF16", 1, {
        **RECURRENT, "full_attention_interval": 2, "attention_bias": False, "attn_output_gate": True,
        "output_gate_type": "swish", "mlp_only_layers": [], "mtp_num_hidden_layers": 1,
        "mtp_use_dedicated_embeddings": False, "mamba_ssm_dtype": "float32", "tie_word_embeddings": True,
        "linear_num_key_heads": 4, "rope_parameters": MROPE}),
    "qwen3_5_moe_t5": ("Qwen3_5MoeForCausalLM", "qwen3_5_moe_text", 5, "BF16", 1, {
        **RECURRENT, **EXPERTS, "intermediate_size": None, "layer_types": ["linear_attention"] * 3 + ["full_attention"],
        "tie_word_embeddings": False, "rope_parameters": {"rope_theta": 10000.0, "rope_type": "default"}}),
    "qwen3_next_t4": ("Qwen3NextForCausalLM", "qwen3_next", 4, "BF16", 2, {
        **RECURRENT, **EXPERTS, "norm_topk_prob": False, "decoder_sparse_step": 1, "mlp_only_layers": [1],
        "full_attention_interval": 4, "partial_rotary_factor": 0.5, "rope_theta": 5000.0, "rope_scaling": None,
        "linear_value_head_dim": 8, "use_sliding_window": False, "tie_word_embeddings": False,
        "output_router_logits": False, "router_aux_loss_coef": 0.001}),
    # Heads twice as long in full layers; the last two layers read K and V of the second and third, and have MLPs twice as wide.
    "gemma4_t5": ("Gemma4ForCausalLM", "gemma4_text", 5, "BF16", 1, {
        **GEMMA4, "hidden_size": 64, "num_hidden_layers": 5, "num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 16,
        "intermediate_size": 16, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "final_logit_softcapping": 3.0,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"],
        "hidden_size_per_layer_input": 16}),
    # As Transformers writes the heads of full layers: sizes of which none is a multiple of the other. V is K there.
    "gemma4_t5_k_is_v": ("Gemma4ForCausalLM", "gemma4_text", 5, "F16", 1, {
        **GEMMA4, "hidden_size": 16, "num_hidden_layers": 8, "head_dim": 16, "intermediate_size": 32, "attention_bias": True,
        "per_layer_config": {"5": {"head_dim": 24, "num_key_value_heads": 1},
                             "7": {"head_dim": 24, "num_key_value_heads": 1}}, "attention_k_eq_v": True,
        "hidden_size_per_layer_input": 0, "tie_word_embeddings": False,
        "rope_parameters": {
            "full_attention": {"rope_theta": 700.0, "rope_type": "proportional", "partial_rotary_factor": 0.5, "factor": 2.0},
            "sliding_attention": {"rope_theta": 300.0, "rope_type": "default"}}}),
    "gemma4_t5_text": ("Gemma4ForCausalLM", "gemma4_text", 5, "BF16", 1, {
        **GEMMA4, "hidden_size": 16, "num_attention_heads": 8, "num_hidden_layers": 6, "num_key_value_heads": 4, "head_dim": 8,
        "global_head_dim": 24, "num_global_key_value_heads": 2, "attention_k_eq_v": True, "intermediate_size": 24,
        "num_kv_shared_layers": 3, "use_bidirectional_attention": "vision",
        "layer_types": ["sliding_attention", "full_attention"] * 3, "hidden_size_per_layer_input": 4}),
    "gemma4_unified_t5": ("Gemma4UnifiedForCausalLM", "gemma4_unified_text", 5, "F32", 1, {
        **{key: value for key, value in GEMMA4.items() if "per_layer" not in key and "expert" not in key and "moe" not in key},
        "num_hidden_layers": 3, "num_key_value_heads": 2, "head_dim": 8, "global_head_dim": 24, "num_global_key_value_heads": 1,
        "attention_k_eq_v": False, "num_kv_shared_layers": 0, "final_logit_softcapping": 5.0,
        "layer_types": ["full_attention", "sliding_attention", "full_attention"]}),
    # Experts beside the MLP of each layer, as in 26B-A4B: joined in the files; and one by one, with all else that the family has.
    "gemma4_t5_moe": ("Gemma4ForCausalLM", "gemma4_text", 5, "BF16", 1, {
        **GEMMA4, "enable_moe_block": True, "num_experts": 8, "top_k_experts": 3, "moe_intermediate_size": 24,
        "hidden_size": 16, "num_hidden_layers": 4, "head_dim": 16, "global_head_dim": 24, "num_global_key_value_heads": 1,
        "attention_k_eq_v": True, "intermediate_size": 40, "final_logit_softcapping": 9.0, "hidden_size_per_layer_input": 0,
        "tie_word_embeddings": False,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "full_attention"]}),
    "gemma4_t5_moe_apart": ("Gemma4ForCausalLM", "gemma4_text", 5, "F16", 1, {
        **GEMMA4, "enable_moe_block": True, "num_experts": 6, "top_k_experts": 2, "moe_intermediate_size": 20,
        "hidden_size": 16, "num_hidden_layers": 5, "num_key_value_heads": 1, "head_dim": 8, "global_head_dim": 16,
        "intermediate_size": 16, "num_kv_shared_layers": 2, "use_double_wide_mlp": True, "hidden_size_per_layer_input": 16,
        "tie_word_embeddings": False,
        "layer_types": ["sliding_attention", "full_attention", "sliding_attention", "sliding_attention", "full_attention"]}),
}


# Published files of GPT-NeoX call the head otherwise than Transformers 5 does.
OLD_HEADS = ("gpt_neox_t4",)
# Transformers 5 adds ALiBi twice in Falcon's eager attention, and once in the other one.
NOT_EAGER = ("falcon_t4_rw",)


# The text part of a model that also sees: the class and type around it, and where its tensors are (as Transformers 4 and 5 write).
AROUND = {
    "gemma3_t4_text": ("Gemma3ForConditionalGeneration", "gemma3", "language_model.", "siglip_vision_model"),
    "ministral3_t5_text": ("Mistral3ForConditionalGeneration", "mistral3", "model.language_model.", "pixtral"),
    "qwen3_5_t5_text": ("Qwen3_5ForConditionalGeneration", "qwen3_5", "model.language_model.", "qwen3_5_vision"),
    "gemma4_t5_text": ("Gemma4ForConditionalGeneration", "gemma4", "model.language_model.", "gemma4_vision"),
}
# Files of this family have the experts of a layer joined, as Transformers has them in memory.
JOINED = ("qwen3_5_moe_t5", "gemma4_t5_moe", "gemma4_t5_moe_apart")
# Quantized files of this family have them one by one.
APART = ("gemma4_t5_moe_apart",)

WIDE = "wide"


def generator(*names):
    key = int.from_bytes(hashlib.sha256("/".join(names).encode()).digest()[:8], "little")
    return np.random.Generator(np.random.Philox(key))


def random_tensor(model, name, shape, dtype):
    numbers = generator(model, name).standard_normal(shape)
    if len(shape) == 1 and name.endswith(".weight"):  # of a norm
        numbers = 1 + 0.2 * numbers
        if model.startswith("gemma4") and name.endswith(("q_norm.weight", "k_norm.weight")):
            numbers = 0.5 * numbers  # nothing else divides scores, and large ones would make roundings large, too
    elif name.endswith(".A_log"):
        numbers = numbers - 1.5
    elif name.endswith((".bias", "_bias", ".sinks")):
        numbers = 0.3 * numbers
    elif name.endswith((".layer_scalar", ".router.scale", ".per_expert_scale")):
        numbers = 1 + 0.2 * numbers
    elif name in ("model.embed_tokens.weight", "model.embed_tokens_per_layer.weight"):
        numbers = 0.5 * numbers
    else:
        numbers = numbers * 1.2 / np.sqrt(shape[-1])
    return torch.from_numpy(numbers.astype(np.float32)).to(TORCH_DTYPES[dtype]).contiguous()


def write_config(folder, architecture, model_type, spelling, dtype, keys):
    config = {"architectures": [architecture], "model_type": model_type, **BASE, **keys}
    config = {key: value for key, value in config.items() if not (key in BASE and value is None)}
    config["torch_dtype" if spelling == 4 else "dtype"] = DTYPE_NAMES[dtype]
    config["transformers_version"] = "4.45.0" if spelling == 4 else "5.23.0"
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")


def shapes_of(name, config):
    """Names and shapes as published: Transformers joins experts in memory, and takes them apart when it saves."""
    if name in JOINED or not any(getattr(config, key, None) for key in ("num_experts", "num_local_experts", "n_routed_experts")):
        with torch.device("meta"):
            model = transformers.AutoModelForCausalLM.from_config(config)
        return {key: tuple(value.shape) for key, value in model.state_dict().items()}
    with tempfile.TemporaryDirectory() as folder:
        transformers.AutoModelForCausalLM.from_config(config).save_pretrained(folder)
        with safe_open(os.path.join(folder, "model.safetensors"), "pt") as file:
            return {key: tuple(file.get_slice(key).get_shape()) for key in file.keys()}


def to_mxfp4(name, tensors):
    """Puts random MXFP4 in place of the experts' matrices, which become the values of it, exactly."""
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)
    packed = {}
    for key in [key for key in tensors if key.endswith("_proj")]:
        n_experts, n_in, n_out = tensors[key].shape
        random = generator(name, key, "mxfp4")
        codes = random.integers(0, 16, (n_experts, n_out, n_in // 32, 32), np.uint8)
        scales = random.integers(122, 126, (n_experts, n_out, n_in // 32), np.uint8)
        packed[key + "_blocks"] = torch.from_numpy(codes[..., ::2] | codes[..., 1::2] << 4)
        packed[key + "_scales"] = torch.from_numpy(scales)
        signed = np.where(codes & 8, -values[codes & 7], values[codes & 7])
        wide = signed * np.exp2(scales.astype(np.float32) - 127)[..., None]
        wide = wide.reshape(n_experts, n_out, n_in).transpose(0, 2, 1)
        tensors[key] = torch.from_numpy(np.ascontiguousarray(wide.astype(np.float32))).to(torch.bfloat16)
    return packed


def write_weights(folder, name, dtype, n_shards):
    config = transformers.AutoConfig.from_pretrained(folder)
    if hasattr(config, "quantization_config"):
        del config.quantization_config
    shapes = shapes_of(name, config)
    if config.tie_word_embeddings:
        for head in ("lm_head.weight", "embed_out.weight"):
            shapes.pop(head, None)
    tensors = {key: random_tensor(name, key, shape, dtype) for key, shape in sorted(shapes.items())}
    if name in OLD_HEADS:
        tensors["embed_out.weight"] = tensors.pop("lm_head.weight")
    if name.endswith("_mxfp4"):
        packed = to_mxfp4(name, tensors)
        write_wide(folder, tensors)
        tensors = {**{key: value for key, value in tensors.items() if not key.endswith("_proj")}, **packed}
    if name in APART:
        write_wide(folder, tensors)
        tensors = take_apart(tensors)
    if name in AROUND:
        write_wide(folder, tensors)
        tensors = wrap(folder, name, tensors)
    if n_shards == 1:
        save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
        return
    weight_map = {}
    for shard in range(n_shards):
        part = {key: tensors[key] for key in sorted(tensors)[shard::n_shards]}
        file_name = f"model-{shard + 1:05d}-of-{n_shards:05d}.safetensors"
        save_file(part, os.path.join(folder, file_name), metadata={"format": "pt"})
        weight_map.update({key: file_name for key in part})
    total = sum(tensor.numel() * tensor.element_size() for tensor in tensors.values())
    with open(os.path.join(folder, "model.safetensors.index.json"), "w") as file:
        json.dump({"metadata": {"total_size": total}, "weight_map": weight_map}, file, indent=1, sort_keys=True)
        file.write("\n")


def take_apart(tensors):
    apart = {}
    for key, value in tensors.items():
        for e, matrix in enumerate(value if ".experts." in key else []):
            parts = {key: matrix} if key.endswith("down_proj") else dict(zip(("gate_proj", "up_proj"), matrix.chunk(2)))
            for part, rows in parts.items():
                apart[f"{key.rsplit('.', 1)[0]}.{e}.{part.rsplit('.', 1)[-1]}.weight"] = rows.contiguous()
        if ".experts." not in key:
            apart[key] = value
    return apart


def write_wide(folder, tensors):
    """The model as Transformers is asked: without quantization_config, and with the values in place of MXFP4."""
    wide = os.path.join(folder, WIDE)
    os.makedirs(wide)
    with open(os.path.join(folder, "config.json")) as file:
        config = json.load(file)
    config.pop("quantization_config", None)
    if os.path.basename(folder) in AROUND:
        config["tie_word_embeddings"] = True
    with open(os.path.join(wide, "config.json"), "w") as file:
        json.dump(config, file)
    save_file(tensors, os.path.join(wide, "model.safetensors"), metadata={"format": "pt"})


def wrap(folder, name, tensors):
    """Rewrites config.json as that of the whole model, and renames the tensors. What the classes have by default is left out."""
    architecture, model_type, prefix, vision = AROUND[name]
    path = os.path.join(folder, "config.json")
    with open(path) as file:
        text = json.load(file)
    for key in ("architectures", "num_attention_heads", "num_key_value_heads"):
        if key == "architectures" or name == "gemma3_t4_text":
            del text[key]
    with open(path, "w") as file:
        json.dump({"architectures": [architecture], "model_type": model_type, "text_config": text, "eos_token_id": [2, 5],
                   "vision_config": {"model_type": vision, "hidden_size": 8}, "mm_tokens_per_image": 4}, file, indent=1,
                  sort_keys=True)
        file.write("\n")
    part = {key.replace("model.", prefix + ("" if prefix.startswith("model.") else "model."), 1): value
            for key, value in tensors.items()}
    beside = {"qwen3_5": ["model.visual.patch_embed.proj.weight", "mtp.fc.weight"],
              "gemma4": ["model.vision_tower.patch.weight", "model.embed_audio.projection.weight",
                         prefix + "layers.4.self_attn.k_proj.weight"]}.get(model_type, ["vision_tower.patch.weight"])
    for key in beside:
        part[key] = random_tensor(name, "vision", (4, 4), "F32")
    return part


def model_of(folder):
    attention = "sdpa" if os.path.basename(folder) in NOT_EAGER else "eager"
    model, info = transformers.AutoModelForCausalLM.from_pretrained(
        folder, dtype=torch.float32, attn_implementation=attention, output_loading_info=True)
    for key in ("missing_keys", "unexpected_keys", "mismatched_keys"):
        assert not info[key], (folder, key, info[key])
    return model.eval()


def greedy(model, prompt):
    """Each step computes the whole text again: no cache has a part in it."""
    ids = list(prompt)
    for _ in range(GREEDY_STEPS):
        ids.append(int(model(torch.tensor([ids])).logits[0, -1].argmax()))
    return ids[len(prompt):]


def check_generate(model, prompt, steps):
    """A cache with states in it makes the same tokens."""
    ids = torch.tensor([prompt])
    made = model.generate(ids, attention_mask=torch.ones_like(ids), max_new_tokens=len(steps), do_sample=False,
                          eos_token_id=VOCABULARY, pad_token_id=0)[0, len(prompt):].tolist()
    assert made == steps, (made, steps)


def make(root, name):
    architecture, model_type, spelling, dtype, n_shards, keys = MODELS[name]
    folder = os.path.join(root, name)
    os.makedirs(folder)
    write_config(folder, architecture, model_type, spelling, dtype, keys)
    write_weights(folder, name, dtype, n_shards)
    prompts = [generator(name, "prompt", str(n)).integers(0, VOCABULARY, n).tolist() for n in PROMPT_LENGTHS]
    wide = os.path.join(folder, WIDE)
    model = model_of(wide if os.path.isdir(wide) else folder)
    with torch.no_grad():
        logits = np.concatenate([model(torch.tensor([ids])).logits[0].numpy() for ids in prompts])
        steps = greedy(model, prompts[1])
        if hasattr(model.config, "linear_key_head_dim") or model.config.model_type.startswith("gemma4"):
            check_generate(model, prompts[1], steps)
    shutil.rmtree(wide, ignore_errors=True)
    logits.astype("<f4").tofile(os.path.join(folder, "golden.f32"))
    golden = {"transformers": transformers.__version__, "torch": torch.__version__.split("+")[0],
              "numpy": np.__version__, "vocabulary": VOCABULARY, "prompts": prompts, "greedy": steps}
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump(golden, file)
        file.write("\n")
    weight_bytes = sum(os.path.getsize(os.path.join(folder, f)) for f in os.listdir(folder) if f.endswith("tensors"))
    assert weight_bytes < 200_000, (name, weight_bytes)
    print(f"{name:24} {weight_bytes:7} bytes of weights, largest logit {np.abs(logits).max():.2f}")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return committed.run(HERE, list(MODELS), make, ("vocabulary", "prompts", "greedy"))


if __name__ == "__main__":
    sys.exit(main())
