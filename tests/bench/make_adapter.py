#!/usr/bin/env python3
"""Writes a random LoRA adapter, as PEFT would save it, for a model of make_model.py: all matrices of attention and MLP.

    make_adapter.py FOLDER MODEL [--rank 16]
"""
import argparse
import json
import os
import struct

import numpy as np

MODULES = ("self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj", "self_attn.o_proj", "mlp.gate_proj", "mlp.up_proj",
           "mlp.down_proj")


def shapes_of(config):
    """Rows and columns of each module's matrix."""
    hidden, ffn, dim = config["hidden_size"], config["intermediate_size"], config["head_dim"]
    q, kv = config["num_attention_heads"] * dim, config["num_key_value_heads"] * dim
    return dict(zip(MODULES, ((q, hidden), (kv, hidden), (kv, hidden), (hidden, q), (ffn, hidden), (ffn, hidden), (hidden, ffn))))


def tensors_of(config, rank):
    for layer in range(config["num_hidden_layers"]):
        for module, (n_out, n_in) in shapes_of(config).items():
            name = f"base_model.model.model.layers.{layer}.{module}"
            yield name + ".lora_A.weight", (rank, n_in)
            yield name + ".lora_B.weight", (n_out, rank)


def write_tensors(path, tensors):
    header, at = {"__metadata__": {"format": "pt"}}, 0
    for name, shape in tensors:
        size = 2 * int(np.prod(shape))
        header[name] = {"dtype": "F16", "shape": list(shape), "data_offsets": [at, at + size]}
        at += size
    text = json.dumps(header).encode()
    text += b" " * (-len(text) % 8)
    random = np.random.Generator(np.random.Philox(1))
    with open(path, "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        for _, shape in tensors:
            file.write((random.standard_normal(shape, dtype=np.float32) * 0.02).astype("<f2").tobytes())


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("folder")
    parser.add_argument("model")
    parser.add_argument("--rank", type=int, default=16)
    arguments = parser.parse_args()
    with open(os.path.join(arguments.model, "config.json")) as file:
        config = json.load(file)
    os.makedirs(arguments.folder, exist_ok=True)
    with open(os.path.join(arguments.folder, "adapter_config.json"), "w") as file:
        json.dump({"peft_type": "LORA", "r": arguments.rank, "lora_alpha": 2 * arguments.rank,
                   "target_modules": [module.split(".")[1] for module in MODULES]}, file)
    write_tensors(os.path.join(arguments.folder, "adapter_model.safetensors"), list(tensors_of(config, arguments.rank)))


if __name__ == "__main__":
    main()
