#!/usr/bin/env python3
"""GGUF files of Gemma 4: the weights of ../models, by the names that the gguf package gives to tensors of Transformers, with the keys
that the converter of llama.cpp writes. Logits are those of ../models (golden.f32).

    pip install -r requirements.txt && python gemma4.py      writes beside itself

gemma4_blocks    a random model with experts, its matrices in blocks; gemma4_blocks.f32: logits of Transformers for its values, of
                 the prompt in others.json
gemma4_tokens    the tokenizer of ../tokenizer/gemma as files of Gemma 4 have it, with the keys of gemma4_blocks; gemma4_tokens.json: ids
                 of strings
"""
import json

import numpy as np
import torch
import transformers
from gguf import GGMLQuantizationType as Type, GGUFWriter, MODEL_ARCH, TokenType, get_tensor_name_map
from gguf.quants import dequantize, quantize
from tokenizers import Tokenizer, decoders, models, normalizers, pre_tokenizers

from make import HERE, MODELS, STRINGS, TOKENIZERS, add_tensor, finish, tensors_of, write_numbered_tokens

# file: the model of ../models, and whether gate and up of the experts are one tensor
FILES = {"gemma4": ("gemma4_t5", None), "gemma4_unified": ("gemma4_unified_t5", None), "gemma4_moe": ("gemma4_t5_moe", True),
         "gemma4_moe_apart": ("gemma4_t5_moe_apart", False)}
BLOCKS = {"hidden_size": 64, "num_hidden_layers": 4, "num_attention_heads": 2, "num_key_value_heads": 2, "head_dim": 32,
          "global_head_dim": 64, "num_global_key_value_heads": 1, "attention_k_eq_v": True, "intermediate_size": 64,
          "enable_moe_block": True, "num_experts": 4, "top_k_experts": 2, "moe_intermediate_size": 32, "vocab_size": 64,
          "hidden_size_per_layer_input": 32, "vocab_size_per_layer_input": 64, "num_kv_shared_layers": 2, "sliding_window": 9,
          "layer_types": ["sliding_attention", "full_attention"] * 2, "max_position_embeddings": 128, "rms_norm_eps": 1e-3,
          "use_double_wide_mlp": False, "final_logit_softcapping": 60.0, "tie_word_embeddings": True, "pad_token_id": 0,
          "bos_token_id": 1, "eos_token_id": 2}
KINDS = {"attn_q": Type.Q5_0, "attn_k": Type.Q8_0, "attn_v": Type.Q5_1, "attn_output": Type.Q4_1, "ffn_gate": Type.Q8_0,
         "ffn_up": Type.Q5_0, "ffn_down": Type.Q4_0, "ffn_gate_up_exps": Type.Q4_0, "ffn_down_exps": Type.Q5_1,
         "token_embd": Type.Q8_0, "per_layer_token_embd": Type.Q5_0, "per_layer_model_proj": Type.Q8_0, "inp_gate": Type.Q5_1,
         "proj": Type.Q8_0}
OWN_NAMES = {"router.scale": "ffn_gate_inp.scale", "router.per_expert_scale": "ffn_down_exps.scale",
             "experts.gate_proj.weight": "ffn_gate_exps.weight", "experts.up_proj.weight": "ffn_up_exps.weight"}


def write_keys(writer, config):
    layers, n_sharing = config["num_hidden_layers"], config.get("num_kv_shared_layers") or 0
    types = config.get("layer_types")
    ropes = config.get("rope_parameters") or {}
    kv_heads, wide_kv_heads = config["num_key_value_heads"], config.get("num_global_key_value_heads")
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(layers)
    writer.add_head_count(config["num_attention_heads"])
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    writer.add_shared_kv_layers(n_sharing)
    writer.add_embedding_length_per_layer_input(config.get("hidden_size_per_layer_input") or 0)
    writer.add_sliding_window(config["sliding_window"])
    writer.add_sliding_window_pattern([kind == "sliding_attention" for kind in types])
    for add in (writer.add_key_length, writer.add_value_length, writer.add_rope_dimension_count):
        add(config["global_head_dim"])
    for add in (writer.add_key_length_swa, writer.add_value_length_swa, writer.add_rope_dimension_count_swa):
        add(config["head_dim"])
    writer.add_rope_freq_base(ropes.get("full_attention", {}).get("rope_theta", 1e6))
    writer.add_rope_freq_base_swa(ropes.get("sliding_attention", {}).get("rope_theta", 1e4))
    inner = config["intermediate_size"]
    if config.get("use_double_wide_mlp"):
        writer.add_feed_forward_length([inner * (2 if layer >= layers - n_sharing else 1) for layer in range(layers)])
    else:
        writer.add_feed_forward_length(inner)
    if wide_kv_heads and config["attention_k_eq_v"]:
        writer.add_head_count_kv([kv_heads if kind == "sliding_attention" else wide_kv_heads for kind in types])
    else:
        writer.add_head_count_kv(kv_heads)
    if config.get("final_logit_softcapping"):
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if config.get("enable_moe_block"):
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["top_k_experts"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])


def frequencies(config):
    """What a quarter of the pairs of a full layer's head turns by, and what divides the angles of the others."""
    pairs = config["global_head_dim"] // 2
    turning = int(config["global_head_dim"] * 0.25 / 2)
    return torch.tensor([1.0] * turning + [1e30] * (pairs - turning), dtype=torch.float32)


def joined(tensors, is_joined):
    """Gate and up of all experts in one tensor, or each in one of its own; with the endings that the converter adds."""
    found = {}
    for key, tensor in sorted(tensors.items()):
        head, _, rest = key.partition(".experts.")
        if rest[:1].isdigit():
            found.setdefault(f"{head}.experts.{rest.split('.', 1)[1]}", []).append((int(rest.split(".")[0]), tensor))
        elif rest == "gate_up_proj" and not is_joined:
            found[f"{head}.experts.gate_proj.weight"], found[f"{head}.experts.up_proj.weight"] = tensor.chunk(2, 1)
        else:
            found[key + (".weight" if rest or key.endswith("layer_scalar") else "")] = tensor
    return {key: torch.stack([matrix for _, matrix in sorted(value, key=lambda pair: pair[0])]) if isinstance(value, list) else value
            for key, value in found.items()}


def own_name(names, key):
    """Names that llama.cpp takes, but the package does not know: two are the converter's."""
    for rest, own in OWN_NAMES.items():
        if key.endswith(rest):
            return f"blk.{key.split('.')[2]}.{own}"
    name = names.get_name(key, try_suffixes=(".weight",))
    assert name, key
    return name


def named(config, tensors, is_joined):
    names = get_tensor_name_map(MODEL_ARCH.GEMMA4, config["num_hidden_layers"])
    found = {own_name(names, key): tensor for key, tensor in joined(tensors, is_joined).items()}
    return found | {"rope_freqs.weight": frequencies(config)}


def write_file(name, model, is_joined):
    config = json.loads((MODELS / model / "config.json").read_text())
    writer = GGUFWriter(HERE / f"{name}.gguf", "gemma4")
    write_keys(writer, config)
    write_numbered_tokens(writer, config["vocab_size"])
    for key, tensor in named(config, tensors_of(model), is_joined).items():
        add_tensor(writer, key, tensor)
    finish(writer)


def random_model():
    torch.manual_seed(4)
    config = transformers.Gemma4TextConfig(**BLOCKS)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            is_scale = key.endswith(("router.scale", "per_expert_scale"))
            tensor.normal_(0, 0.2 if tensor.ndim == 1 else 0.5 if "embed" in key else 1.2 * tensor.shape[-1] ** -0.5)
            if tensor.ndim == 1:
                tensor.add_(6 if key.endswith("router.scale") else 1)
                if key.endswith(("q_norm.weight", "k_norm.weight")):
                    tensor.mul_(0.5)
            assert tensor.ndim > 1 or is_scale or key.endswith("norm.weight") or "layernorm" in key, key
        for key, tensor in model.named_buffers():
            if key.endswith("layer_scalar"):
                tensor.normal_(1, 0.2)
    return model


def write_blocks():
    """The matrices of the model become the values of their blocks."""
    model = random_model()
    writer = GGUFWriter(HERE / "gemma4_blocks.gguf", "gemma4")
    write_keys(writer, BLOCKS)
    write_numbered_tokens(writer, BLOCKS["vocab_size"])
    state = {key: value for key, value in model.state_dict().items() if key != "lm_head.weight"}
    for name, tensor in named(BLOCKS, state, True).items():
        kind = KINDS.get(name.split(".")[-2]) if name.endswith(".weight") and tensor.ndim > 1 else None
        if kind is None:
            add_tensor(writer, name, tensor.float())
            continue
        blocks = quantize(tensor.numpy(), kind)
        writer.add_tensor(name, blocks, raw_dtype=kind)
        tensor.copy_(torch.from_numpy(np.ascontiguousarray(dequantize(blocks, kind))))  # the model's own memory
    finish(writer)
    prompt = json.loads((HERE / "others.json").read_text())["prompt"]
    with torch.no_grad():
        logits = model(torch.tensor([prompt])).logits[0].numpy()
    print("gemma4_blocks: largest logit", np.abs(logits).max())
    logits.astype("<f4").tofile(HERE / "gemma4_blocks.f32")


def write_tokens():
    """The pipeline is that of Transformers' GemmaTokenizer: no way to split, since no space is left."""
    root = json.loads((TOKENIZERS / "gemma" / "tokenizer.json").read_text())
    vocab, special = root["model"]["vocab"], {token["id"] for token in root["added_tokens"]}
    merges = [merge.split(" ") if isinstance(merge, str) else merge for merge in root["model"]["merges"]]
    tokens = sorted(vocab, key=vocab.get)
    assert [vocab[token] for token in tokens] == list(range(len(tokens)))
    tokens += ["<turn|>", "<|tool_response>"]
    types = [TokenType.UNKNOWN if token == "<unk>" else TokenType.CONTROL if i in special or token == "<turn|>"
             else TokenType.USER_DEFINED if token == "<|tool_response>"
             else TokenType.BYTE if token.startswith("<0x") else TokenType.NORMAL for i, token in enumerate(tokens)]
    writer = GGUFWriter(HERE / "gemma4_tokens.gguf", "gemma4")
    write_keys(writer, BLOCKS)
    add_tensor(writer, "rope_freqs.weight", frequencies(BLOCKS))
    add_tensor(writer, "per_layer_token_embd.weight", torch.zeros(2, 4))
    writer.add_tokenizer_model("gemma4")
    writer.add_token_list(tokens)
    writer.add_token_scores([-1000.0] * len(tokens))
    writer.add_token_types(types)
    writer.add_token_merges([" ".join(merge) for merge in merges])
    writer.add_bos_token_id(vocab["<s>"])
    writer.add_eos_token_id(vocab["</s>"])
    writer.add_unk_token_id(vocab["<unk>"])
    writer.add_add_space_prefix(False)
    writer.add_add_bos_token(True)
    finish(writer)
    tokenizer = Tokenizer(models.BPE(vocab=vocab, merges=[tuple(merge) for merge in merges], fuse_unk=True, unk_token="<unk>",
                                     byte_fallback=True))
    tokenizer.normalizer = normalizers.Replace(" ", "\u2581")
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([decoders.Replace("\u2581", " "), decoders.ByteFallback(), decoders.Fuse()])
    ids = [[vocab["<s>"]] + tokenizer.encode(text).ids for text in STRINGS]
    assert all(tokenizer.decode(encoded[1:]) == text for text, encoded in zip(STRINGS, ids))
    (HERE / "gemma4_tokens.json").write_text(json.dumps({"strings": STRINGS, "ids": {"gemma4_tokens": ids}}) + "\n")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    for name, (model, is_joined) in FILES.items():
        write_file(name, model, is_joined)
    write_blocks()
    write_tokens()


if __name__ == "__main__":
    main()
