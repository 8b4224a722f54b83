#!/usr/bin/env python3
"""GGUF files of Qwen3.5 and Qwen3-Next: weights by the names that the gguf package gives to tensors of Transformers, with the keys and
the changes of llama.cpp's converter: norms plus 1, -exp(A_log), V heads of qwen35 and qwen35moe in tiles, Q, K, V and Z of qwen3next in
order.

    pip install -r requirements.txt && python recurrent.py      writes beside itself

qwen35, qwen35_text, qwen35moe   the weights of ../models: the same logits (golden.f32). qwen35 has a list of recurrent layers and biases,
                                 qwen35_text a layer behind the last one that predicts further tokens, qwen35moe gate and up of experts
                                 apart, and a vector for the matrix of one row
qwen3next, qwen3next_older       a random model, gate and up of experts in one tensor; the older form has Q, K, V and Z in one tensor.
                                 qwen3next.f32: logits of Transformers of the prompt in others.json
qwen35_blocks                    a random model, its matrices in blocks, one with blocks that several heads share; qwen35_blocks.f32: logits
                                 for their values
qwen35_tokens                    the tokenizer of ../tokenizer/qwen2, split as Qwen3.5 does, with the keys of qwen35_text;
                                 qwen35_tokens.json: ids of strings
"""
import json

import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type, GGUFWriter, MODEL_ARCH, MODEL_ARCH_NAMES, TokenType, get_tensor_name_map
from gguf.quants import dequantize, quantize
from tokenizers import Tokenizer

from make import HERE, MODELS, STRINGS, TOKENIZERS, add_tensor, finish, random_blocks, tensors_of

FILES = {"qwen35": "qwen3_5_t5", "qwen35_text": "qwen3_5_t5_text", "qwen35moe": "qwen3_5_moe_t5"}
NEXT = {"hidden_size": 32, "num_hidden_layers": 3, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
        "intermediate_size": 48, "vocab_size": 96, "max_position_embeddings": 128, "rms_norm_eps": 1e-3,
        "layer_types": ["linear_attention", "full_attention", "linear_attention"], "linear_conv_kernel_dim": 4,
        "linear_key_head_dim": 16, "linear_value_head_dim": 16, "linear_num_key_heads": 2, "linear_num_value_heads": 6,
        "num_experts": 4, "num_experts_per_tok": 2, "moe_intermediate_size": 16, "shared_expert_intermediate_size": 24,
        "norm_topk_prob": True, "tie_word_embeddings": False, "bos_token_id": 1, "eos_token_id": 2,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.5}}
BLOCKS = {"hidden_size": 64, "num_hidden_layers": 2, "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 32,
          "intermediate_size": 64, "vocab_size": 96, "max_position_embeddings": 128, "rms_norm_eps": 1e-3,
          "layer_types": ["linear_attention", "full_attention"], "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32,
          "linear_value_head_dim": 32, "linear_num_key_heads": 2, "linear_num_value_heads": 8, "tie_word_embeddings": True,
          "bos_token_id": 1, "eos_token_id": 2,
          "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25}}
KINDS = {"token_embd": Type.Q8_0, "attn_q": Type.Q5_0, "attn_k": Type.Q8_0, "attn_v": Type.Q5_1, "attn_output": Type.Q4_1,
         "attn_qkv": Type.Q5_0, "attn_gate": Type.Q5_1, "ssm_alpha": Type.Q8_0, "ssm_beta": Type.Q4_1, "ssm_out": Type.Q4_K,
         "ffn_gate": Type.Q8_0, "ffn_up": Type.Q5_0, "ffn_down": Type.Q4_0}
PATTERN = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?[\p{L}\p{M}]+|\p{N}| ?[^\s\p{L}\p{M}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
WITH_MARKS = ["x\u0301y", "\u0915\u093f\u0924\u093e\u092c", "!\u0301?", " \u0301x"]


def interval_of(config):
    full = [i + 1 for i, kind in enumerate(config.get("layer_types", [])) if kind == "full_attention"]
    return config.get("full_attention_interval") or full[0]


def is_recurrent(config, layer):
    types = config.get("layer_types")
    return types[layer] == "linear_attention" if types else (layer + 1) % interval_of(config) != 0


def write_keys(writer, config, n_next=0, has_list=False):
    rope, layers = config["rope_parameters"], config["num_hidden_layers"]
    rotated = int(config["head_dim"] * rope.get("partial_rotary_factor", 0.25))
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers + n_next)
    if "intermediate_size" in config:
        writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(config["num_attention_heads"])
    writer.add_head_count_kv(config["num_key_value_heads"])
    writer.add_key_length(config["head_dim"])
    writer.add_value_length(config["head_dim"])
    writer.add_rope_dimension_count(rotated)
    if writer.arch != "qwen3next":
        third = rotated // 6
        writer.add_rope_dimension_sections(rope.get("mrope_section", [rotated // 2 - 2 * third, third, third]) + [0])
    writer.add_rope_freq_base(rope["rope_theta"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_ssm_conv_kernel(config["linear_conv_kernel_dim"])
    writer.add_ssm_state_size(config["linear_key_head_dim"])
    writer.add_ssm_group_count(config["linear_num_key_heads"])
    writer.add_ssm_time_step_rank(config["linear_num_value_heads"])
    writer.add_ssm_inner_size(config["linear_value_head_dim"] * config["linear_num_value_heads"])
    if has_list:
        writer.add_array(f"{writer.arch}.attention.recurrent_layers", [is_recurrent(config, layer) for layer in range(layers)])
    else:
        writer.add_full_attention_interval(interval_of(config))
    if n_next:
        writer.add_uint32(f"{writer.arch}.nextn_predict_layers", n_next)
    if "num_experts" in config:
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
        writer.add_expert_shared_feed_forward_length(config["shared_expert_intermediate_size"])


def write_vocabulary(writer, n_tokens):
    """With one merge, without which llama.cpp loads no file."""
    tokens = [f"t{i}" for i in range(n_tokens)]
    tokens[3:5] = ["t", "5"]
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list(tokens)
    writer.add_token_types([TokenType.CONTROL if i < 3 else TokenType.NORMAL for i in range(n_tokens)])
    writer.add_token_merges(["t 5"])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def tiled(tensor, config, dim, head_dim, is_back=False):
    """V heads from those of a key head side by side to the first ones of all key heads, then the second ones."""
    keys, heads = config["linear_num_key_heads"], config["linear_num_value_heads"] // config["linear_num_key_heads"]
    first, second = (heads, keys) if is_back else (keys, heads)
    shape = tensor.shape
    apart = tensor.reshape(*shape[:dim], first, second, head_dim, *shape[dim + 1:])
    return apart.transpose(dim, dim + 1).reshape(shape)


def moved(name, tensor, config, is_back=False):
    """The order of heads of a layer with recurrent state: from the folder's to that of qwen35, or back."""
    value = config["linear_value_head_dim"]
    if any(part in name for part in ("in_proj_qkv.", "conv1d")):
        n = 2 * config["linear_num_key_heads"] * config["linear_key_head_dim"]
        return torch.cat([tensor[:n], tiled(tensor[n:], config, 0, value, is_back)])
    if ".in_proj_z." in name:
        return tiled(tensor, config, 0, value, is_back)
    if any(part in name for part in ("in_proj_a.", "in_proj_b.", "A_log", "dt_bias")):
        return tiled(tensor, config, 0, 1, is_back)
    return tiled(tensor, config, 1, value, is_back) if "out_proj" in name else tensor


def in_order(tensor, config):
    """Q, K, V and Z of each key head to all of Q, K and V, and all of Z."""
    key, heads = config["linear_key_head_dim"], config["linear_num_key_heads"]
    value = config["linear_value_head_dim"] * config["linear_num_value_heads"] // heads
    parts = tensor.reshape(heads, -1, tensor.shape[-1]).split([key, key, value, value], dim=1)
    q, k, v, z = (part.reshape(-1, tensor.shape[-1]) for part in parts)
    return torch.cat([q, k, v]), z


def stored(name, tensor):
    """A tensor as it is in a file, whatever the order of its heads."""
    if name.endswith("A_log"):
        return -torch.exp(tensor.float())
    if "conv1d" in name:
        return tensor.squeeze(1).float()
    if name.endswith("norm.weight") and not name.endswith("linear_attn.norm.weight"):
        return tensor.float() + 1
    return tensor.float() if name.endswith(("mlp.gate.weight", "shared_expert_gate.weight")) else tensor


def named(arch, config, tensors, is_joined=False, is_older=False):
    """The tensors of a folder as those of a file, with the names that they came from."""
    which = next(member for member, text in MODEL_ARCH_NAMES.items() if text == arch)
    names = get_tensor_name_map(MODEL_ARCH(which), config["num_hidden_layers"])
    found = {}
    for key, tensor in tensors.items():
        key = key.replace("model.language_model.", "model.").replace("dt_bias", "dt_proj.bias")
        if arch != "qwen3next" and "linear_attn" in key:
            tensor = moved(key.replace("dt_proj.bias", "dt_bias"), tensor, config)
        if key.endswith("in_proj_qkvz.weight") and not is_older:
            layer = key.split(".")[2]
            found[f"blk.{layer}.attn_qkv.weight"], found[f"blk.{layer}.attn_gate.weight"] = in_order(tensor, config)
            continue
        tensor = stored(key, tensor)
        parts = {key: tensor}
        if key.endswith("gate_up_proj") and not is_joined:
            parts = dict(zip((key.replace("gate_up", "gate"), key.replace("gate_up", "up")), tensor.chunk(2, 1)))
        for part, value in parts.items():
            name = names.get_name(part + (".weight" if "experts." in part else ""), try_suffixes=(".weight", ".bias"))
            assert name, part
            found[name] = value.contiguous()
    return found


def next_layer(found, config):
    """A layer that predicts further tokens, of any values."""
    hidden, own = config["hidden_size"], config["num_hidden_layers"]
    full = next(layer for layer in range(own) if not is_recurrent(config, layer))
    for name, tensor in list(found.items()):
        if name.startswith(f"blk.{full}."):
            found[name.replace(f"blk.{full}.", f"blk.{own}.")] = tensor
    found[f"blk.{own}.nextn.eh_proj.weight"] = torch.ones(hidden, 2 * hidden)
    for name in ("enorm", "hnorm", "shared_head_norm"):
        found[f"blk.{own}.nextn.{name}.weight"] = torch.ones(hidden)


def write_file(name, model):
    config = json.loads((MODELS / model / "config.json").read_text())
    config = config.get("text_config", config)
    n_next = config.get("mtp_num_hidden_layers", 0)
    arch = name.removesuffix("_text")
    tensors = {key: tensor for key, tensor in tensors_of(model).items() if not key.startswith(("mtp.", "model.visual."))}
    found = named(arch, config, tensors)
    if n_next:
        next_layer(found, config)
    writer = GGUFWriter(HERE / f"{name}.gguf", arch)
    write_keys(writer, config, n_next, has_list=name == "qwen35")
    write_vocabulary(writer, config["vocab_size"])
    for key, tensor in found.items():
        add_tensor(writer, key, tensor[0] if key.endswith("ffn_gate_inp_shexp.weight") else tensor)
    finish(writer)


def random_model(config_class, config):
    torch.manual_seed(35)
    made = config_class(**config)
    made._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(made, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            if key.endswith("A_log"):
                tensor.uniform_(-1, 1)
            elif key.endswith("linear_attn.norm.weight"):
                tensor.normal_(1, 0.2)
            elif tensor.ndim == 1:
                tensor.normal_(0, 0.2)
            else:
                tensor.normal_(0, 0.5 if "embed" in key else 1.2 * tensor.shape[-1] ** -0.5)
            tensor.copy_(tensor.bfloat16())
    return model


def write_logits(name, model):
    prompt = json.loads((HERE / "others.json").read_text())["prompt"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0].numpy()
    print(f"{name}: largest logit", np.abs(logits).max())
    logits.astype("<f4").tofile(HERE / f"{name}.f32")


def write_next():
    """gate and up are joined in one file, apart in the other."""
    model = random_model(transformers.Qwen3NextConfig, NEXT)
    for name in ("qwen3next", "qwen3next_older"):
        is_older = name.endswith("older")
        writer = GGUFWriter(HERE / f"{name}.gguf", "qwen3next")
        write_keys(writer, NEXT)
        write_vocabulary(writer, NEXT["vocab_size"])
        for key, tensor in named("qwen3next", NEXT, model.state_dict(), not is_older, is_older).items():
            add_tensor(writer, key, tensor if tensor.ndim == 1 or "conv1d" in key or "gate_inp" in key else tensor.bfloat16())
        finish(writer)
    write_logits("qwen3next", model)


def write_blocks():
    """The matrices of the model become the values of their blocks; those of ssm_out are any bytes."""
    model = random_model(transformers.Qwen3_5TextConfig, BLOCKS)
    random = np.random.Generator(np.random.Philox(35))
    writer = GGUFWriter(HERE / "qwen35_blocks.gguf", "qwen35")
    write_keys(writer, BLOCKS)
    write_vocabulary(writer, BLOCKS["vocab_size"])
    for key, tensor in model.state_dict().items():
        if key == "lm_head.weight":
            continue
        (name, value), = named("qwen35", BLOCKS, {key: tensor}).items()
        kind = KINDS.get(name.split(".")[-2]) if tensor.ndim == 2 else None
        if kind is None:
            add_tensor(writer, name, value)
            continue
        blocks = random_blocks(random, kind, *value.shape) if kind == Type.Q4_K else quantize(value.numpy(), kind)
        writer.add_tensor(name, blocks, raw_dtype=kind)
        values = torch.from_numpy(np.ascontiguousarray(dequantize(blocks, kind).reshape(value.shape)))
        tensor.copy_(moved(key, values, BLOCKS, is_back=True) if "linear_attn" in key else values)  # the model's own memory
    finish(writer)
    write_logits("qwen35_blocks", model)


def write_tokens():
    root = json.loads((TOKENIZERS / "qwen2" / "tokenizer.json").read_text())
    merges = root["model"]["merges"]
    used = set(root["model"]["vocab"].values()) | {token["id"] for token in root["added_tokens"]}
    marked = ("x", "\u00cc")  # the first byte of U+0301 behind a letter
    merges.append(list(marked) if isinstance(merges[0], list) else " ".join(marked))
    root["model"]["vocab"]["".join(marked)] = max(used) + 1
    root["pre_tokenizer"]["pretokenizers"][0]["pattern"]["Regex"] = PATTERN
    added = {token["id"]: token for token in root["added_tokens"]}
    by_id = {i: text for text, i in root["model"]["vocab"].items()} | {i: token["content"] for i, token in added.items()}
    assert sorted(by_id) == list(range(len(by_id)))
    config = json.loads((MODELS / FILES["qwen35_text"] / "config.json").read_text())["text_config"]
    writer = GGUFWriter(HERE / "qwen35_tokens.gguf", "qwen35")
    write_keys(writer, config, config["mtp_num_hidden_layers"])
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("qwen35")
    writer.add_token_list([by_id[i] for i in range(len(by_id))])
    writer.add_token_types([TokenType.CONTROL if i in added and added[i]["special"] else TokenType.USER_DEFINED if i in added
                            else TokenType.NORMAL for i in range(len(by_id))])
    writer.add_token_merges([merge if isinstance(merge, str) else " ".join(merge) for merge in merges])
    writer.add_add_bos_token(False)
    finish(writer)
    tokenizer = Tokenizer.from_str(json.dumps(root))
    strings = STRINGS + WITH_MARKS
    ids = {"qwen35_tokens": [tokenizer.encode(text).ids for text in strings]}
    (HERE / "qwen35_tokens.json").write_text(json.dumps({"strings": strings, "ids": ids}) + "\n")


if __name__ == "__main__":
    torch.set_num_threads(1)
    for file, folder in FILES.items():
        write_file(file, folder)
    write_next()
    write_blocks()
    write_tokens()
