#!/usr/bin/env python3
"""GGUF files of the architectures before Llama, and of LongRoPE: the weights of ../models, by the names that the gguf package gives to
tensors of Transformers, laid out as the converters of llama.cpp do it. Logits are those of ../models (golden.f32).

    pip install -r requirements.txt && python older.py      writes beside itself
"""
import math
import json

import torch
from gguf import MODEL_ARCH, MODEL_ARCH_NAMES, GGUFWriter, get_tensor_name_map

from make import HERE, MODELS, add_tensor, finish, tensors_of, write_numbered_tokens

# file: (model of ../models, architecture)
FILES = {"gpt2_model": ("gpt2_t4", "gpt2"), "neox": ("gpt_neox_t4", "gptneox"), "bloom": ("bloom_t4", "bloom"),
         "falcon_7b": ("falcon_t4_7b", "falcon"), "falcon_40b": ("falcon_t4_40b", "falcon"), "falcon_11b": ("falcon_t5_11b", "falcon"),
         "mpt": ("mpt_t4", "mpt"), "phi3_longrope": ("phi3_t4_longrope", "phi3")}
CONTEXTS = ("max_position_embeddings", "n_positions", "seq_length", "max_seq_len")


def first(config, *names):
    return next(config[name] for name in names if config.get(name) is not None)


def plain_rows(tensor, n_heads, n_kv_heads):
    """From Q heads, K and V of each KV head to all of Q, then K, then V."""
    groups = tensor.reshape(n_kv_heads, n_heads // n_kv_heads + 2, -1, *tensor.shape[1:])
    parts = (groups[:, :-2], groups[:, -2:-1], groups[:, -1:])
    return torch.cat([part.reshape(-1, *tensor.shape[1:]) for part in parts])


def write_keys(writer, arch, config):
    hidden = first(config, "hidden_size", "n_embd", "n_embed", "d_model")
    heads = first(config, "num_attention_heads", "n_head", "n_heads")
    kv_heads = heads
    if arch == "falcon":
        kv_heads = config["num_kv_heads"] if config["new_decoder_architecture"] else 1
    elif arch == "phi3":
        kv_heads = config["num_key_value_heads"]
    writer.add_context_length(next((config[key] for key in CONTEXTS if config.get(key)), 2048))
    writer.add_embedding_length(hidden)
    writer.add_block_count(first(config, "num_hidden_layers", "n_layer", "n_layers"))
    inner = next((config[k] for k in ("intermediate_size", "n_inner", "ffn_hidden_size") if config.get(k)), 4 * hidden)
    writer.add_feed_forward_length(inner)
    writer.add_head_count(heads)
    writer.add_head_count_kv(kv_heads)
    if arch == "phi3":
        writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
        writer.add_rope_dimension_count(hidden // heads)
    else:
        writer.add_layer_norm_eps(first(config, "layer_norm_epsilon", "layer_norm_eps"))
    return heads, kv_heads


def write_rope(writer, arch, config, heads):
    rope = config.get("rope_parameters") or {}
    if arch == "gptneox":
        part = first({**config, **rope}, "rotary_pct", "partial_rotary_factor")
        writer.add_rope_dimension_count(int(config["hidden_size"] // heads * part))
        writer.add_parallel_residual(config.get("use_parallel_residual", True))
        writer.add_rope_freq_base(float(first({**config, **rope}, "rotary_emb_base", "rope_theta")))
    elif arch in ("falcon", "phi3"):
        writer.add_rope_freq_base(float({**config, **rope}.get("rope_theta", 10000.0)))
    elif arch == "mpt":
        writer.add_max_alibi_bias(config["attn_config"]["alibi_bias_max"])
    scaling = config.get("rope_scaling")
    if scaling:
        original = config["original_max_position_embeddings"]
        writer.add_rope_scaling_orig_ctx_len(original)
        stretch = config["max_position_embeddings"] / original
        writer.add_rope_scaling_attn_factors(math.sqrt(1 + math.log(stretch) / math.log(original)))
        for kind in ("long", "short"):
            add_tensor(writer, f"rope_factors_{kind}.weight", torch.tensor(scaling[f"{kind}_factor"], dtype=torch.float32))


def name_of(names, key):
    """Published names of BLOOM lack what they begin with in Transformers, those of GPT-2 have it in some files."""
    for form in (key, key.removeprefix("transformer."), f"transformer.{key}"):
        name = names.get_name(form, try_suffixes=(".weight", ".bias"))
        if name:
            return name
    raise ValueError(key)


def write_file(file, model, arch):
    config = json.loads((MODELS / model / "config.json").read_text())
    writer = GGUFWriter(HERE / f"{file}.gguf", arch)
    heads, kv_heads = write_keys(writer, arch, config)
    write_rope(writer, arch, config, heads)
    write_numbered_tokens(writer, config["vocab_size"])
    which = next(member for member, text in MODEL_ARCH_NAMES.items() if text == arch)
    names = get_tensor_name_map(MODEL_ARCH(which), first(config, "num_hidden_layers", "n_layer", "n_layers"))
    for key, tensor in tensors_of(model).items():
        name = name_of(names, key)
        if arch == "gpt2" and tensor.ndim == 2 and ".h." in key:
            tensor = tensor.T.contiguous()
        if "query_key_value" in key and not (arch == "falcon" and kv_heads == 1):
            tensor = plain_rows(tensor, heads, kv_heads)
        add_tensor(writer, name, tensor.contiguous())
    finish(writer)


if __name__ == "__main__":
    for file_name, (model_name, architecture) in FILES.items():
        write_file(file_name, model_name, architecture)
