#!/usr/bin/env python3
"""Writes a variant of a model of the Llama kind in one safetensors file, with its tokenizer:

    make_variant.py FOLDER MODEL deep     four times the layers; those behind the model's own add nothing, so tokens are the model's
    make_variant.py FOLDER MODEL random   random weights, so tokens are others
"""
import json
import pathlib
import shutil
import struct
import sys

import numpy as np

TIMES = 4
ADD_NOTHING = ("self_attn.o_proj.weight", "mlp.down_proj.weight")


def read(model):
    file = open(model / "model.safetensors", "rb")
    (n,) = struct.unpack("<Q", file.read(8))
    header = json.loads(file.read(n))
    header.pop("__metadata__", None)
    return file, 8 + n, header


def tensors_of(header, kind, n_layers):
    """(name, tensor of the file, whether it is zeros)."""
    for name in header:
        yield name, name, False
    for i in range(n_layers, TIMES * n_layers if kind == "deep" else n_layers):
        start = f"model.layers.{i % n_layers}."
        for name in header:
            if name.startswith(start):
                part = name[len(start):]
                yield f"model.layers.{i}.{part}", name, part in ADD_NOTHING


def random_bf16(n, random):
    bits = (random.standard_normal(n, dtype=np.float32) * 0.02).view(np.uint32)
    return (bits >> 16).astype("<u2").tobytes()


def main():
    folder, model, kind = pathlib.Path(sys.argv[1]), pathlib.Path(sys.argv[2]), sys.argv[3]
    config = json.loads((model / "config.json").read_text())
    source, begin, header = read(model)
    tensors = list(tensors_of(header, kind, config["num_hidden_layers"]))
    out, at = {}, 0
    for name, of, _ in tensors:
        first, end = header[of]["data_offsets"]
        out[name] = {"dtype": header[of]["dtype"], "shape": header[of]["shape"], "data_offsets": [at, at + end - first]}
        at += end - first
    folder.mkdir(parents=True, exist_ok=True)
    if kind == "deep":
        config["num_hidden_layers"] *= TIMES
    (folder / "config.json").write_text(json.dumps(config))
    for name in ("tokenizer.json", "tokenizer_config.json", "generation_config.json"):
        if (model / name).exists():
            shutil.copy(model / name, folder / name)
    text = json.dumps(out).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.Generator(np.random.Philox(1))
    with open(folder / "model.safetensors.part", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, of, is_zero in tensors:
            first, end = header[of]["data_offsets"]
            source.seek(begin + first)
            data = bytes(end - first) if is_zero else source.read(end - first)
            if kind == "random" and len(header[of]["shape"]) > 1:
                assert header[of]["dtype"] == "BF16", of
                data = random_bf16((end - first) // 2, random)
            file.write(data)
    (folder / "model.safetensors.part").rename(folder / "model.safetensors")


if __name__ == "__main__":
    main()
