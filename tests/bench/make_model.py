#!/usr/bin/env python3
"""Writes a synthetic 135 M-parameter Llama with random weights, for measuring speed.

    make_model.py FOLDER [--dtype f32|bf16] [--layers N] [--seed N]

The same weights twice: a Hugging Face folder (config.json, model.safetensors, tokenizer.json) and FOLDER/model.gguf
for llama.cpp. Nothing but numpy is needed. A folder that has this very model already is left as it is.

The tokenizer is the demo model's; ids it does not have are filled up with words w2048, w2049, ... that no text makes.
"""
import argparse
import json
import os
import shutil
import struct

import numpy as np

HIDDEN, HEADS, KV_HEADS, HEAD_DIM, FFN, VOCABULARY = 576, 9, 3, 64, 1536, 49152
CONTEXT, EPS, THETA = 8192, 1e-5, 10000.0
DEMO = os.path.join(os.path.dirname(os.path.abspath(__file__)), "..", "..", "model", "demo")
GGUF_TYPES = {"f32": 0, "bf16": 30}
GGUF_FILE_TYPES = {"f32": 0, "bf16": 32}
GGUF_ALIGNMENT = 32


def tensor_table(n_layers):
    """(name here, name in GGUF, shape, heads whose rows llama.cpp interleaves or 0)"""
    yield "model.embed_tokens.weight", "token_embd.weight", (VOCABULARY, HIDDEN), 0
    for i in range(n_layers):
        here, there = f"model.layers.{i}.", f"blk.{i}."
        yield here + "input_layernorm.weight", there + "attn_norm.weight", (HIDDEN,), 0
        yield here + "self_attn.q_proj.weight", there + "attn_q.weight", (HEADS * HEAD_DIM, HIDDEN), HEADS
        yield here + "self_attn.k_proj.weight", there + "attn_k.weight", (KV_HEADS * HEAD_DIM, HIDDEN), KV_HEADS
        yield here + "self_attn.v_proj.weight", there + "attn_v.weight", (KV_HEADS * HEAD_DIM, HIDDEN), 0
        yield here + "self_attn.o_proj.weight", there + "attn_output.weight", (HIDDEN, HEADS * HEAD_DIM), 0
        yield here + "post_attention_layernorm.weight", there + "ffn_norm.weight", (HIDDEN,), 0
        yield here + "mlp.gate_proj.weight", there + "ffn_gate.weight", (FFN, HIDDEN), 0
        yield here + "mlp.up_proj.weight", there + "ffn_up.weight", (FFN, HIDDEN), 0
        yield here + "mlp.down_proj.weight", there + "ffn_down.weight", (HIDDEN, FFN), 0
    yield "model.norm.weight", "output_norm.weight", (HIDDEN,), 0


def round_bf16(x):
    bits = x.view(np.uint32)
    return ((bits + 0x7FFF + (bits >> 16 & 1)) & 0xFFFF0000).astype(np.uint32).view(np.float32)


def weights_of(seed, index, shape, dtype):
    generator = np.random.Generator(np.random.Philox(key=[seed, index]))
    x = generator.standard_normal(shape, dtype=np.float32)
    x = 1 + x * np.float32(0.1) if len(shape) == 1 else x / np.float32(np.sqrt(shape[1]))
    return round_bf16(x) if dtype == "bf16" else x


def stored(x, dtype):
    x = np.ascontiguousarray(x, "<f4")
    return x.tobytes() if dtype == "f32" else (x.view(np.uint32) >> 16).astype("<u2").tobytes()


def element_bytes(shape, dtype):
    return int(np.prod(shape)) * (4 if dtype == "f32" else 2)


# ---- the Hugging Face folder ----

def write_config(folder, dtype, n_layers):
    config = {
        "architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": HIDDEN, "num_hidden_layers": n_layers,
        "num_attention_heads": HEADS, "num_key_value_heads": KV_HEADS, "head_dim": HEAD_DIM, "intermediate_size": FFN,
        "vocab_size": VOCABULARY, "max_position_embeddings": CONTEXT, "rms_norm_eps": EPS, "rope_theta": THETA,
        "hidden_act": "silu", "tie_word_embeddings": True, "bos_token_id": 2046, "eos_token_id": 2047,
        "torch_dtype": "float32" if dtype == "f32" else "bfloat16"}
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1)


def write_tokenizer(folder):
    shutil.copyfile(os.path.join(DEMO, "tokenizer_config.json"), os.path.join(folder, "tokenizer_config.json"))
    with open(os.path.join(DEMO, "tokenizer.json")) as file:
        tokenizer = json.load(file)
    n_known = 1 + max(list(tokenizer["model"]["vocab"].values()) + [token["id"] for token in tokenizer["added_tokens"]])
    tokenizer["model"]["vocab"].update({f"w{i}": i for i in range(n_known, VOCABULARY)})
    with open(os.path.join(folder, "tokenizer.json"), "w") as file:
        json.dump(tokenizer, file)


def open_safetensors(folder, table, dtype):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, _, shape, _ in table:
        size = element_bytes(shape, dtype)
        header[name] = {"dtype": dtype.upper(), "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    file = open(os.path.join(folder, "model.safetensors"), "wb")
    file.write(struct.pack("<Q", len(text)) + text)
    return file


# ---- GGUF, version 3: header, key-values, tensor table, aligned data ----

def gguf_string(text):
    return struct.pack("<Q", len(text)) + text.encode()


def gguf_values(dtype, n_layers):
    def u32(key, value):
        return gguf_string(key) + struct.pack("<II", 4, value)

    def f32(key, value):
        return gguf_string(key) + struct.pack("<If", 6, value)

    def string(key, value):
        return gguf_string(key) + struct.pack("<I", 8) + gguf_string(value)

    return [string("general.architecture", "llama"), string("general.name", "synthetic"),
            u32("general.file_type", GGUF_FILE_TYPES[dtype]), u32("general.alignment", GGUF_ALIGNMENT),
            u32("llama.context_length", CONTEXT), u32("llama.embedding_length", HIDDEN),
            u32("llama.block_count", n_layers), u32("llama.feed_forward_length", FFN),
            u32("llama.attention.head_count", HEADS), u32("llama.attention.head_count_kv", KV_HEADS),
            u32("llama.rope.dimension_count", HEAD_DIM), u32("llama.vocab_size", VOCABULARY),
            f32("llama.rope.freq_base", THETA), f32("llama.attention.layer_norm_rms_epsilon", EPS),
            string("tokenizer.ggml.model", "no_vocab")]


def gguf_dtype(shape, dtype):
    return "f32" if len(shape) == 1 else dtype # llama.cpp wants its norms in float32


def open_gguf(folder, table, dtype, n_layers):
    values, infos, at = gguf_values(dtype, n_layers), b"", 0
    for _, name, shape, _ in table:
        kind = gguf_dtype(shape, dtype)
        infos += gguf_string(name) + struct.pack("<I", len(shape))
        infos += struct.pack(f"<{len(shape)}Q", *reversed(shape)) + struct.pack("<IQ", GGUF_TYPES[kind], at)
        size = element_bytes(shape, kind)
        at += size + -size % GGUF_ALIGNMENT
    head = b"GGUF" + struct.pack("<IQQ", 3, len(table), len(values)) + b"".join(values) + infos
    file = open(os.path.join(folder, "model.gguf"), "wb")
    file.write(head + b"\0" * (-len(head) % GGUF_ALIGNMENT))
    return file


def interleave(x, n_heads):
    """llama.cpp rotates neighbours: of each head, rows 0, d/2, 1, d/2 + 1, ..."""
    return x.reshape(n_heads, 2, HEAD_DIM // 2, -1).swapaxes(1, 2).reshape(x.shape)


def write_weights(folder, dtype, n_layers, seed):
    table = list(tensor_table(n_layers))
    with open_safetensors(folder, table, dtype) as safetensors, open_gguf(folder, table, dtype, n_layers) as gguf:
        for index, (_, _, shape, n_heads) in enumerate(table):
            x = weights_of(seed, index, shape, dtype)
            safetensors.write(stored(x, dtype))
            data = stored(interleave(x, n_heads) if n_heads else x, gguf_dtype(shape, dtype))
            gguf.write(data + b"\0" * (-len(data) % GGUF_ALIGNMENT))
    return sum(int(np.prod(shape)) for _, _, shape, _ in table)


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("folder")
    parser.add_argument("--dtype", choices=sorted(GGUF_TYPES), default="f32")
    parser.add_argument("--layers", type=int, default=30)
    parser.add_argument("--seed", type=int, default=1)
    args = parser.parse_args()
    made = {"dtype": args.dtype, "layers": args.layers, "seed": args.seed, "version": 1}
    stamp = os.path.join(args.folder, "made.json")
    if os.path.exists(stamp) and json.load(open(stamp)) == made:
        return
    os.makedirs(args.folder, exist_ok=True)
    write_config(args.folder, args.dtype, args.layers)
    write_tokenizer(args.folder)
    n = write_weights(args.folder, args.dtype, args.layers, args.seed)
    with open(stamp, "w") as file:
        json.dump(made, file)
    print(f"{args.folder}: {n / 1e6:.1f} M parameters, {args.dtype}")


if __name__ == "__main__":
    main()
