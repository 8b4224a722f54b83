#!/usr/bin/env python3
"""Makes rope.inc, the frequencies and angles that Transformers computes, and rotary.inc, the heads that it turns.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the files beside this one
    v/bin/python make.py --check    # fails when a byte differs

Each holds initialisers of a struct that tests/kernels/rope_test.c and rotary_test.c declare.
Every scaling goes through Phi's rotary class, which knows partial_rotary_factor, with the position asked for and the
last one of the sequence: so lengths act as they do in a model.
"""
import os
import sys

import torch
import transformers
from transformers.models.gptj.modeling_gptj import apply_rotary_pos_emb as turn_interleaved
from transformers.models.phi.configuration_phi import PhiConfig
from transformers.models.phi.modeling_phi import PhiRotaryEmbedding
from transformers.models.phi.modeling_phi import apply_rotary_pos_emb as turn_half_split

HERE = os.path.dirname(os.path.abspath(__file__))


def factors(n, first, step):
    return [round(first + step * i, 3) for i in range(n)]


LLAMA3 = {"rope_type": "llama3", "factor": 8.0, "low_freq_factor": 1.0, "high_freq_factor": 4.0,
          "original_max_position_embeddings": 8192}
YARN = {"rope_type": "yarn", "factor": 16.0, "original_max_position_embeddings": 4096}
LONGROPE = {"rope_type": "longrope", "original_max_position_embeddings": 4096}

# name, head_dim, rotary_dim, theta, max_position_embeddings, parameters, [(position, sequence length)]
CASES = [
    ("plain", 64, 64, 10000.0, 4096, {"rope_type": "default"}, [(0, 1), (777, 4096)]),
    ("plain, a part", 80, 32, 10000.0, 2048, {"rope_type": "default"}, [(1500, 1501)]),
    ("linear", 32, 32, 10000.0, 4096, {"rope_type": "linear", "factor": 4.0}, [(1000, 2000)]),
    ("linear, a part", 64, 16, 10000.0, 4096, {"rope_type": "linear", "factor": 2.5}, [(31, 32)]),
    ("dynamic", 64, 64, 10000.0, 1024, {"rope_type": "dynamic", "factor": 4.0},
     [(1000, 1024), (1000, 1025), (5, 3000), (4000, 4001)]),
    ("dynamic, a part", 96, 24, 500000.0, 512, {"rope_type": "dynamic", "factor": 2.0}, [(100, 512), (700, 2000)]),
    ("llama3", 128, 128, 500000.0, 131072, LLAMA3, [(9999, 10000)]),
    ("llama3, a part", 64, 40, 500000.0, 131072, LLAMA3, [(9999, 10000)]),
    ("yarn", 128, 128, 10000.0, 65536, YARN, [(5000, 6000)]),
    ("yarn, a part", 128, 48, 10000.0, 65536, YARN, [(5000, 6000)]),
    ("yarn, mscale", 64, 64, 10000.0, 65536, YARN | {"mscale": 0.707, "mscale_all_dim": 1.0}, [(70, 80)]),
    ("yarn, attention factor", 64, 64, 10000.0, 65536, YARN | {"attention_factor": 1.25}, [(70, 80)]),
    ("yarn, betas, no truncation", 64, 64, 150000.0, 131072,
     YARN | {"factor": 32.0, "beta_fast": 24.0, "beta_slow": 2.0, "truncate": False}, [(70, 80)]),
    ("longrope", 32, 32, 10000.0, 131072,
     LONGROPE | {"short_factor": factors(16, 1.0, 0.05), "long_factor": factors(16, 1.1, 2.5)},
     [(4000, 4096), (4000, 4097), (100000, 100001)]),
    ("longrope, a part", 64, 24, 10000.0, 131072,
     LONGROPE | {"short_factor": factors(12, 1.0, 0.05), "long_factor": factors(12, 1.1, 2.5)},
     [(40, 4096), (4096, 4097)]),
    ("longrope, factor", 16, 16, 10000.0, 4096,
     LONGROPE | {"factor": 8.0, "short_factor": factors(8, 1.0, 0.1), "long_factor": factors(8, 2.0, 1.0)},
     [(100, 200)]),
    ("longrope, attention factor", 16, 16, 10000.0, 131072,
     LONGROPE | {"attention_factor": 1.5, "short_factor": factors(8, 1.0, 0.1), "long_factor": factors(8, 2.0, 1.0)},
     [(100, 5000)]),
]

FIELDS = {
    "factor": "factor",
    "original_max_position_embeddings": "original_positions",
    "low_freq_factor": "low_freq_factor",
    "high_freq_factor": "high_freq_factor",
    "attention_factor": "attention_factor",
    "mscale": "mscale",
    "mscale_all_dim": "mscale_all_dim",
    "beta_fast": "beta_fast",
    "beta_slow": "beta_slow",
}


def array(values):
    return ", ".join(f"{float(v):.9g}" for v in values)


def config_text(head_dim, rotary_dim, theta, positions, parameters, lens):
    kind = {"default": "NONE"}.get(parameters["rope_type"], parameters["rope_type"].upper())
    served = max([positions] + [length for _, length in lens])
    fields = [f".head_dim = {head_dim}", f".rotary_dim = {rotary_dim}", f".positions_max = {served}",
              f".theta = {theta}", f".scaling = ROPE_{kind}"]
    fields += [f".{name} = {parameters[key]}" for key, name in FIELDS.items() if key in parameters]
    if kind == "DYNAMIC":
        fields.append(f".original_positions = {positions}")
    if parameters.get("truncate") is False:
        fields.append(".no_truncate = true")
    for key, name in (("short_factor", "short_factors"), ("long_factor", "long_factors")):
        if key in parameters:
            fields.append(f".{name} = (const double[]){{{array(parameters[key])}}}")
    return ", ".join(fields)


def angles(head_dim, rotary_dim, theta, positions, parameters, position, length):
    config = PhiConfig(hidden_size=4 * head_dim, num_attention_heads=4, max_position_embeddings=positions,
                       rope_parameters=parameters | {"rope_theta": theta,
                                                     "partial_rotary_factor": rotary_dim / head_dim})
    rotary = PhiRotaryEmbedding(config)
    cos, sin = rotary(torch.zeros(1), torch.tensor([[position, length - 1]]))
    half = rotary_dim // 2
    assert cos.shape[-1] == rotary_dim
    return rotary.inv_freq, cos[0, 0, :half], sin[0, 0, :half], float(rotary.attention_scaling)


def turned(head_dim, rotary_dim, is_interleaved):
    """Two tokens, three heads."""
    x = torch.sin(torch.arange(2 * 3 * head_dim, dtype=torch.float32)).reshape(1, 2, 3, head_dim)
    angle = torch.tensor([[7.0], [41.0]]) * torch.linspace(1.0, 0.01, rotary_dim // 2)
    cos, sin = torch.cos(angle)[None], torch.sin(angle)[None]
    part, rest = x[..., :rotary_dim], x[..., rotary_dim:]
    if is_interleaved:
        part = turn_interleaved(part, sin, cos)
    else:
        wide = (torch.cat((cos, cos), -1), torch.cat((sin, sin), -1))
        part, _ = turn_half_split(part, part, *wide, unsqueeze_dim=2)
    return x, cos, sin, torch.cat((part, rest), -1)


def rope_text():
    for name, *case, lens in CASES:
        for position, length in lens:
            inv_freq, cos, sin, scale = angles(*case, position, length)
            yield f'{{"{name}", {{{config_text(*case, lens)}}},'
            yield f" {position}, {length}, {scale!r},"
            yield f" {{{array(inv_freq)}}},"
            yield f" {{{array(cos)}}},"
            yield f" {{{array(sin)}}}}},"


def rotary_text():
    for head_dim, rotary_dim in ((16, 16), (24, 10), (8, 2)):
        for is_interleaved in (False, True):
            x, cos, sin, y = turned(head_dim, rotary_dim, is_interleaved)
            yield f"{{{head_dim}, {rotary_dim}, {str(is_interleaved).lower()},"
            for tensor in (x, cos, sin):
                yield f" {{{array(tensor.flatten())}}},"
            yield f" {{{array(y.flatten())}}}}},"


def main():
    head = (f"/* tests/golden/rope/make.py with torch {torch.__version__.split('+')[0]}, transformers"
            f" {transformers.__version__} */")
    for name, lines in (("rope.inc", rope_text()), ("rotary.inc", rotary_text())):
        path = os.path.join(HERE, name)
        made = "\n".join([head, *lines, ""])
        if "--check" in sys.argv:
            with open(path, encoding="ascii") as file:
                if file.read() != made:
                    sys.exit(f"{name} differs")
        else:
            with open(path, "w", encoding="ascii") as file:
                file.write(made)


main()
