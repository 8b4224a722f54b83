#!/usr/bin/env python3
"""Writes a synthetic Llama with random weights, for measuring speed.

    make_model.py FOLDER [--size 135m|1.1b|8x0.3b] [--dtype f32|bf16|f16] [--gguf f32,bf16,f16,q8_0] [--layers N] [--seed N]

The same weights several times: a Hugging Face folder (config.json, model.safetensors, tokenizer.json) and
FOLDER/model-TYPE.gguf, one of each type asked for. Of a model with experts (8x0.3b, in the shape of Qwen3-MoE) there are
GGUF files alone. Nothing but numpy is needed. A folder that has these very models already is left as it is.

The tokenizer is the demo model's; ids it does not have are filled up with words w2048, w2049, ... that no text makes.
"""
import argparse
import contextlib
import json
import os
import shutil
import struct
from typing import NamedTuple

import numpy as np

HEAD_DIM, CONTEXT, EPS, THETA = 64, 8192, 1e-5, 10000.0
DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "model", "demo")
TORCH_DTYPES = {"f32": "float32", "bf16": "bfloat16", "f16": "float16"}
GGUF_TYPES = {"f32": 0, "f16": 1, "q8_0": 8, "bf16": 30}
GGUF_FILE_TYPES = {"f32": 0, "f16": 1, "q8_0": 7, "bf16": 32}
GGUF_ALIGNMENT = 32
Q8_0_BLOCK = 32  # elements: a float16 scale, then an int8 for each


class Shape(NamedTuple):
    hidden: int
    heads: int
    kv_heads: int
    ffn: int
    layers: int
    vocabulary: int
    is_tied: bool
    experts: int = 0  # ffn is that of one
    experts_of_token: int = 0


SIZES = {"135m": Shape(576, 9, 3, 1536, 30, 49152, True), "1.1b": Shape(2048, 32, 4, 5632, 22, 32000, False),
         "8x0.3b": Shape(1024, 16, 4, 4096, 24, 32000, False, 8, 2)}


class Tensor(NamedTuple):
    name: str
    gguf_name: str
    shape: tuple
    interleaved_heads: int = 0  # heads whose rows llama.cpp interleaves


def tensor_table(model):
    hidden, q, kv = model.hidden, model.heads * HEAD_DIM, model.kv_heads * HEAD_DIM
    yield Tensor("model.embed_tokens.weight", "token_embd.weight", (model.vocabulary, hidden))
    for i in range(model.layers):
        here, there = f"model.layers.{i}.", f"blk.{i}."
        yield Tensor(here + "input_layernorm.weight", there + "attn_norm.weight", (hidden,))
        # Llama's rows lie otherwise in GGUF files, Qwen's do not.
        interleaved = (0, 0) if model.experts else (model.heads, model.kv_heads)
        yield Tensor(here + "self_attn.q_proj.weight", there + "attn_q.weight", (q, hidden), interleaved[0])
        yield Tensor(here + "self_attn.k_proj.weight", there + "attn_k.weight", (kv, hidden), interleaved[1])
        yield Tensor(here + "self_attn.v_proj.weight", there + "attn_v.weight", (kv, hidden))
        yield Tensor(here + "self_attn.o_proj.weight", there + "attn_output.weight", (hidden, q))
        yield Tensor(here + "post_attention_layernorm.weight", there + "ffn_norm.weight", (hidden,))
        if model.experts:
            yield Tensor("", there + "attn_q_norm.weight", (HEAD_DIM,))
            yield Tensor("", there + "attn_k_norm.weight", (HEAD_DIM,))
            yield Tensor("", there + "ffn_gate_inp.weight", (model.experts, hidden))
            yield Tensor("", there + "ffn_gate_exps.weight", (model.experts, model.ffn, hidden))
            yield Tensor("", there + "ffn_up_exps.weight", (model.experts, model.ffn, hidden))
            yield Tensor("", there + "ffn_down_exps.weight", (model.experts, hidden, model.ffn))
            continue
        yield Tensor(here + "mlp.gate_proj.weight", there + "ffn_gate.weight", (model.ffn, hidden))
        yield Tensor(here + "mlp.up_proj.weight", there + "ffn_up.weight", (model.ffn, hidden))
        yield Tensor(here + "mlp.down_proj.weight", there + "ffn_down.weight", (hidden, model.ffn))
    yield Tensor("model.norm.weight", "output_norm.weight", (hidden,))
    if not model.is_tied:
        yield Tensor("lm_head.weight", "output.weight", (model.vocabulary, hidden))


def bf16_bits(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) >> 16).astype("<u2")


def rounded(x, dtype):
    if dtype == "bf16":
        return (bf16_bits(x).astype(np.uint32) << 16).view(np.float32)
    return x.astype(np.float16).astype(np.float32) if dtype == "f16" else x


def weights_of(seed, index, shape, dtype):
    generator = np.random.Generator(np.random.Philox(key=[seed, index]))
    x = generator.standard_normal(shape, dtype=np.float32)
    x = 1 + x * np.float32(0.1) if len(shape) == 1 else x / np.float32(np.sqrt(shape[-1]))
    return rounded(x, dtype)


def q8_0(x):
    blocks = x.reshape(-1, Q8_0_BLOCK)
    scales = (np.abs(blocks).max(axis=1, keepdims=True) / np.float32(127)).astype("<f2")
    stored = np.empty(len(blocks), dtype=[("scale", "<f2"), ("values", "i1", Q8_0_BLOCK)])
    stored["scale"] = scales[:, 0]
    stored["values"] = np.clip(np.rint(blocks / np.maximum(scales.astype(np.float32), np.float32(1e-7))), -127, 127)
    return stored


def stored(x, dtype):
    x = np.ascontiguousarray(x, "<f4")
    return {"f32": lambda: x, "bf16": lambda: bf16_bits(x), "f16": lambda: x.astype("<f2"),
            "q8_0": lambda: q8_0(x)}[dtype]().tobytes()


def stored_bytes(shape, dtype):
    n = int(np.prod(shape))
    return n // Q8_0_BLOCK * (2 + Q8_0_BLOCK) if dtype == "q8_0" else n * (4 if dtype == "f32" else 2)


# ---- the Hugging Face folder ----

def write_config(folder, model, dtype):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": model.hidden,
        "num_hidden_layers": model.layers, "num_attention_heads": model.heads, "num_key_value_heads": model.kv_heads,
        "head_dim": HEAD_DIM, "intermediate_size": model.ffn, "vocab_size": model.vocabulary,
        "max_position_embeddings": CONTEXT, "rms_norm_eps": EPS, "rope_theta": THETA, "hidden_act": "silu",
        "tie_word_embeddings": model.is_tied, "bos_token_id": 2046, "eos_token_id": 2047,
        "torch_dtype": TORCH_DTYPES[dtype]}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


def write_tokenizer(folder, vocabulary):
    shutil.copyfile(os.path.join(DEMO, "tokenizer_config.json"), os.path.join(folder, "tokenizer_config.json"))
    with open(os.path.join(DEMO, "tokenizer.json")) as file:
        tokenizer = json.load(file)
    n_known = 1 + max(list(tokenizer["model"]["vocab"].values()) + [token["id"] for token in tokenizer["added_tokens"]])
    tokenizer["model"]["vocab"].update({f"w{i}": i for i in range(n_known, vocabulary)})
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file)


def open_safetensors(folder, table, dtype):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for tensor in table:
        size = stored_bytes(tensor.shape, dtype)
        header[tensor.name] = {"dtype": dtype.upper(), "shape": list(tensor.shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file = open(os.path.join(folder, "model.safetensors"), "wb")
    file.write(struct.pack("<Q", len(text)) + text)
    return file


# ---- GGUF, version 3: header, key-values, tensor table, aligned data ----

def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_tokens(vocabulary):
    """SentencePiece's specials and bytes, then words that no text makes: texts and types of tokens."""
    tokens = [("<unk>", 2), ("<s>", 3), ("</s>", 3)] + [(f"<0x{byte:02X}>", 6) for byte in range(256)]
    return tokens + [(f"w{i}", 1) for i in range(len(tokens), vocabulary)]


def gguf_values(model, kind):
    arch = "qwen3moe" if model.experts else "llama"

    def u32(key, value):
        return gguf_string(key) + struct.pack("<II", 4, value)

    def f32(key, value):
        return gguf_string(key) + struct.pack("<If", 6, value)

    def string(key, value):
        return gguf_string(key) + struct.pack("<I", 8) + gguf_string(value)

    def array(key, of, parts):
        return gguf_string(key) + struct.pack("<IIQ", 9, of, len(parts)) + b"".join(parts)

    tokens = gguf_tokens(model.vocabulary)
    experts = [u32(f"{arch}.expert_count", model.experts), u32(f"{arch}.expert_used_count", model.experts_of_token),
               u32(f"{arch}.expert_feed_forward_length", model.ffn), u32(f"{arch}.attention.key_length", HEAD_DIM),
               u32(f"{arch}.attention.value_length", HEAD_DIM)] if model.experts else []
    return [string("general.architecture", arch), string("general.name", "synthetic"),
            u32("general.file_type", GGUF_FILE_TYPES[kind]), u32("general.alignment", GGUF_ALIGNMENT),
            u32(f"{arch}.context_length", CONTEXT), u32(f"{arch}.embedding_length", model.hidden),
            u32(f"{arch}.block_count", model.layers), u32(f"{arch}.feed_forward_length", model.ffn),
            u32(f"{arch}.attention.head_count", model.heads), u32(f"{arch}.attention.head_count_kv", model.kv_heads),
            u32(f"{arch}.rope.dimension_count", HEAD_DIM), u32(f"{arch}.vocab_size", model.vocabulary),
            f32(f"{arch}.rope.freq_base", THETA), f32(f"{arch}.attention.layer_norm_rms_epsilon", EPS), *experts,
            string("tokenizer.ggml.model", "llama"), u32("tokenizer.ggml.bos_token_id", 1), u32("tokenizer.ggml.eos_token_id", 2),
            array("tokenizer.ggml.tokens", 8, [gguf_string(text) for text, _ in tokens]),
            array("tokenizer.ggml.scores", 6, [struct.pack("<f", -float(i)) for i in range(len(tokens))]),
            array("tokenizer.ggml.token_type", 5, [struct.pack("<i", kind) for _, kind in tokens])]


def gguf_kind(tensor, kind):
    """llama.cpp wants norms and routers in float32."""
    return "f32" if len(tensor.shape) == 1 or tensor.gguf_name.endswith("ffn_gate_inp.weight") else kind


def open_gguf(folder, table, model, kind):
    values, infos, at = gguf_values(model, kind), b"", 0
    for tensor in table:
        of_tensor = gguf_kind(tensor, kind)
        infos += gguf_string(tensor.gguf_name) + struct.pack("<I", len(tensor.shape))
        infos += struct.pack(f"<{len(tensor.shape)}Q", *reversed(tensor.shape))
        infos += struct.pack("<IQ", GGUF_TYPES[of_tensor], at)
        size = stored_bytes(tensor.shape, of_tensor)
        at += size + -size % GGUF_ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(values)) + b"".join(values) + infos
    file = open(os.path.join(folder, f"model-{kind}.gguf"), "wb")
    file.write(head + b"\0" * (-len(head) % GGUF_ALIGNMENT))
    return file


def interleave(x, n_heads):
    """llama.cpp rotates neighbours: of each head, rows 0, d/2, 1, d/2 + 1, ..."""
    return x.reshape(n_heads, 2, HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(x.shape)


def write_weights(folder, model, dtype, kinds, seed):
    table = list(tensor_table(model))
    with contextlib.ExitStack() as files:
        safetensors = None if model.experts else files.enter_context(open_safetensors(folder, table, dtype))
        ggufs = {kind: files.enter_context(open_gguf(folder, table, model, kind)) for kind in kinds}
        for index, tensor in enumerate(table):
            x = weights_of(seed, index, tensor.shape, dtype)
            if safetensors:
                safetensors.write(stored(x, dtype))
            x = interleave(x, tensor.interleaved_heads) if tensor.interleaved_heads else x
            for kind, gguf in ggufs.items():
                data = stored(x, gguf_kind(tensor, kind))
                gguf.write(data + b"\0" * (-len(data) % GGUF_ALIGNMENT))
    return sum(int(np.prod(tensor.shape)) for tensor in table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--size", choices=sorted(SIZES), default="135m")
    parser.add_argument("--dtype", choices=sorted(TORCH_DTYPES), default="f32")
    parser.add_argument("--gguf", default="", help=f"comma between: {', '.join(GGUF_TYPES)}")
    parser.add_argument("--layers", type=int, help="other than the size has")
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    model, kinds = SIZES[args.size], sorted(filter(None, args.gguf.split(",")))
    if args.layers:
        model = model._replace(layers=args.layers)
    for kind in set(kinds) - GGUF_TYPES.keys():
        parser.error(f"--gguf {kind}: one of {', '.join(GGUF_TYPES)}")
    made = {"model": list(model), "dtype": args.dtype, "gguf": kinds, "seed": args.seed, "version": 3}
    stamp = os.path.join(args.folder, "made.json")
    if os.path.exists(stamp) and json.load(open(stamp)) == made:
        return
    os.makedirs(args.folder, exist_ok=True)
    if not model.experts:
        write_config(args.folder, model, args.dtype)
        write_tokenizer(args.folder, model.vocabulary)
    n = write_weights(args.folder, model, args.dtype, kinds, args.seed)
    with open(stamp, "w") as file:
        json.dump(made, file)
    print(f"{args.folder}: {n / 1e6:.1f} M parameters, {args.dtype}")


if __name__ == "__main__":
    main()
