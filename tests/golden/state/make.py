#!/usr/bin/env python3
"""Makes the layers of tests/kernels/recurrent_golden_test.c and latent_golden_test.c with Transformers' own modules, in float32 on one
thread.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the files beside this one
    v/bin/python make.py --check    # compares instead, and fails when more than 2e-6 of an array's largest number differs

Weights and inputs are BF16 numbers from numpy's Philox.
"""
import os
import sys

import numpy as np
import torch
from transformers.models.deepseek_v2 import configuration_deepseek_v2, modeling_deepseek_v2
from transformers.models.deepseek_v3 import configuration_deepseek_v3, modeling_deepseek_v3
from transformers.models.qwen3_5 import configuration_qwen3_5, modeling_qwen3_5
from transformers.models.qwen3_next import configuration_qwen3_next, modeling_qwen3_next

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 70  # more than a chunk of Transformers' delta rule


def normal(random, *shape, scale=1.0):
    """BF16 numbers, held as float32."""
    values = torch.from_numpy(random.standard_normal(shape, dtype=np.float32) * np.float32(scale))
    return values.bfloat16().float()


def fill(module, random):
    """Matrices to keep the size of what they multiply; norms and gates around their usual values."""
    with torch.no_grad():
        for name, value in sorted(module.named_parameters()):
            if value.dim() > 1:
                value.copy_(normal(random, *value.shape, scale=1.0 / value[0].numel() ** 0.5))
            elif name == "A_log":
                value.copy_(normal(random, *value.shape, scale=0.5) - 1)
            else:
                value.copy_((1 + normal(random, *value.shape, scale=0.3)).bfloat16().float())


# ---- gated DeltaNet ----

DELTA = dict(hidden_size=24, linear_num_key_heads=2, linear_num_value_heads=4, linear_key_head_dim=16,
             linear_value_head_dim=8, linear_conv_kernel_dim=4, rms_norm_eps=1e-6, hidden_act="silu")


def delta_arrays(module, x, qkv, z, b, a):
    with torch.no_grad():
        y = module.eval()(x[None])[0]
    return [x, y, qkv, z, b, a, module.conv1d.weight[:, 0], module.A_log, module.dt_bias, module.norm.weight,
            module.out_proj.weight]


def qwen3_5(random):
    config = configuration_qwen3_5.Qwen3_5TextConfig(num_hidden_layers=1, layer_types=["linear_attention"], **DELTA)
    module = modeling_qwen3_5.Qwen3_5GatedDeltaNet(config, 0)
    fill(module, random)
    x = normal(random, TOKENS, config.hidden_size)
    return delta_arrays(module, x, module.in_proj_qkv.weight, module.in_proj_z.weight, module.in_proj_b.weight,
                        module.in_proj_a.weight)


def qwen3_next(random):
    """Its projections go key head by key head, each with q, k, v and z, and with b and a: written in the order of Qwen3.5."""
    config = configuration_qwen3_next.Qwen3NextConfig(num_hidden_layers=1, layer_types=["linear_attention"], **DELTA)
    module = modeling_qwen3_next.Qwen3NextGatedDeltaNet(config, 0)
    fill(module, random)
    x = normal(random, TOKENS, config.hidden_size)
    parts = module.fix_query_key_value_ordering(module.in_proj_qkvz.weight.T[None], module.in_proj_ba.weight.T[None])
    q, k, v, z, b, a = (part.reshape(config.hidden_size, -1).T for part in parts)
    return delta_arrays(module, x, torch.cat((q, k, v)), z, b, a)


# ---- latent attention ----

LATENT = dict(hidden_size=48, num_attention_heads=3, num_key_value_heads=3, kv_lora_rank=32, q_lora_rank=None,
              qk_rope_head_dim=16, qk_nope_head_dim=12, v_head_dim=20, max_position_embeddings=256)
YARN = dict(rope_type="yarn", rope_theta=10000.0, factor=4.0, original_max_position_embeddings=64, mscale=1.0,
            mscale_all_dim=1.0, beta_fast=32, beta_slow=1)


def latent_arrays(module, rotary, random, config):
    """What the module multiplies before it expands the latents, and its output before o_proj."""
    x = normal(random, TOKENS, config.hidden_size)
    positions = torch.arange(TOKENS)[None]
    taken = {}
    module.o_proj.register_forward_pre_hook(lambda _, args: taken.update(y=args[0][0].clone()))
    mask = torch.full((TOKENS, TOKENS), float("-inf")).triu(1)[None, None]
    with torch.no_grad():
        embeddings = rotary(x[None], positions)
        module.eval()(x[None], position_embeddings=embeddings, attention_mask=mask)
        q = module.q_proj(x).view(TOKENS, config.num_attention_heads, -1)
        latent, rope = torch.split(module.kv_a_proj_with_mqa(x), [config.kv_lora_rank, config.qk_rope_head_dim], dim=-1)
        latent = module.kv_a_layernorm(latent)
        expand = module.kv_b_proj.weight.view(config.num_attention_heads, -1, config.kv_lora_rank)
    half = config.qk_rope_head_dim // 2
    if isinstance(embeddings, tuple):
        cos, sin = (part[0, :, :half] for part in embeddings)
    else:  # DeepSeek-V2: complex numbers
        cos, sin = embeddings[0].real, embeddings[0].imag
    return [torch.tensor([module.scaling]), q, latent, rope, cos, sin, expand, taken["y"]]


def deepseek_v3(random, is_interleaved):
    config = configuration_deepseek_v3.DeepseekV3Config(rope_interleave=is_interleaved, rope_parameters=YARN, **LATENT)
    config._attn_implementation = "eager"
    module = modeling_deepseek_v3.DeepseekV3Attention(config, 0)
    fill(module, random)
    return latent_arrays(module, modeling_deepseek_v3.DeepseekV3RotaryEmbedding(config), random, config)


def deepseek_v2(random):
    config = configuration_deepseek_v2.DeepseekV2Config(**LATENT)
    config._attn_implementation = "eager"
    module = modeling_deepseek_v2.DeepseekV2Attention(config, 0)
    fill(module, random)
    return latent_arrays(module, modeling_deepseek_v2.DeepseekV2RotaryEmbedding(config), random, config)


CASES = {
    "qwen3_5": qwen3_5,
    "qwen3_next": qwen3_next,
    "deepseek_v3": lambda random: deepseek_v3(random, True),
    "deepseek_v3_halves": lambda random: deepseek_v3(random, False),
    "deepseek_v2": deepseek_v2,
}


def make(name):
    random = np.random.Generator(np.random.Philox(key=[23, sum(name.encode())]))
    return [array.detach().float().contiguous().numpy() for array in CASES[name](random)]


def check(name, arrays):
    old = np.fromfile(os.path.join(HERE, f"{name}.bin"), np.float32)
    if len(old) != sum(array.size for array in arrays):
        return False
    used = 0
    for array in arrays:
        part = old[used:used + array.size]
        used += array.size
        if np.abs(part - array.ravel()).max() > 2e-6 * np.abs(part).max():
            return False
    return True


def main():
    torch.set_num_threads(1)
    for name in CASES:
        arrays = make(name)
        if "--check" in sys.argv[1:]:
            if not check(name, arrays):
                sys.exit(f"{name}.bin is not what is made now")
            continue
        np.concatenate([array.ravel() for array in arrays]).tofile(os.path.join(HERE, f"{name}.bin"))
        print(name, sum(array.nbytes for array in arrays), "bytes", [array.shape for array in arrays])


if __name__ == "__main__":
    main()
