#!/usr/bin/env python3
"""Makes the layers of tests/kernels/moe_golden_test.c with Transformers' own modules, in float32 on one thread.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the files beside this one
    v/bin/python make.py --check    # compares instead, and fails when weights or 1e-6 of a result differ

Weights are BF16 (or MXFP4) numbers from numpy's Philox, so that they are the same on both sides. Tokens whose choice of
experts would change with a thousandth of noise are left out.
"""
import os
import sys

import numpy as np
import torch
from transformers.integrations.mxfp4 import convert_moe_packed_tensors
from transformers.models.deepseek_v2 import configuration_deepseek_v2, modeling_deepseek_v2
from transformers.models.deepseek_v3 import configuration_deepseek_v3, modeling_deepseek_v3
from transformers.models.gemma4 import configuration_gemma4, modeling_gemma4
from transformers.models.gpt_oss import configuration_gpt_oss, modeling_gpt_oss
from transformers.models.mixtral import configuration_mixtral, modeling_mixtral
from transformers.models.qwen2_moe import configuration_qwen2_moe, modeling_qwen2_moe

HERE = os.path.dirname(os.path.abspath(__file__))
TOKENS = 16


def normal(random, *shape, scale=1.0):
    """BF16 numbers, held as float32."""
    values = torch.from_numpy(random.standard_normal(shape, dtype=np.float32) * np.float32(scale))
    return values.bfloat16().float()


def fill(module, random):
    """Every parameter and buffer: matrices to keep the size of what they multiply, biases smaller."""
    with torch.no_grad():
        for name, value in sorted({**dict(module.named_parameters()), **dict(module.named_buffers())}.items()):
            is_bias = "bias" in name
            value.copy_(normal(random, *value.shape, scale=0.3 if is_bias else 1.5 / value.shape[-1] ** 0.5))


def raw(tensor, dtype=torch.bfloat16):
    if dtype == torch.bfloat16:
        return tensor.detach().bfloat16().contiguous().view(torch.int16).numpy().tobytes()
    return tensor.detach().to(dtype).contiguous().numpy().tobytes()


def f32(tensor):
    return raw(tensor, torch.float32)


def mlp(module):
    return raw(module.gate_proj.weight) + raw(module.up_proj.weight) + raw(module.down_proj.weight)


def stacked(experts):
    """gate_up_proj is gate's rows, then up's."""
    return b"".join(raw(experts.gate_up_proj[e]) + raw(experts.down_proj[e]) for e in range(experts.num_experts))


def mixtral(random):
    module = modeling_mixtral.MixtralSparseMoeBlock(configuration_mixtral.MixtralConfig(
        hidden_size=40, intermediate_size=24, num_local_experts=6, num_experts_per_tok=2))
    fill(module, random)
    return module, module.gate, f32(module.gate.weight) + stacked(module.experts)


def qwen2(random, is_normed):
    module = modeling_qwen2_moe.Qwen2MoeSparseMoeBlock(configuration_qwen2_moe.Qwen2MoeConfig(
        hidden_size=32, moe_intermediate_size=20, shared_expert_intermediate_size=36, num_experts=8,
        num_experts_per_tok=3, norm_topk_prob=is_normed))
    fill(module, random)
    return module, module.gate, (f32(module.gate.weight) + stacked(module.experts) + mlp(module.shared_expert) +
                                 raw(module.shared_expert_gate.weight))


def deepseek_v2(random):
    config = configuration_deepseek_v2.DeepseekV2Config(
        hidden_size=32, moe_intermediate_size=12, n_routed_experts=12, n_shared_experts=2, num_experts_per_tok=3,
        n_group=4, topk_group=2, topk_method="group_limited_greedy", routed_scaling_factor=16.0, norm_topk_prob=False)
    module = modeling_deepseek_v2.DeepseekV2Moe(config)
    fill(module, random)
    return module, module.gate, f32(module.gate.weight) + stacked(module.experts) + mlp(module.shared_experts)


def deepseek_v3(random):
    config = configuration_deepseek_v3.DeepseekV3Config(
        hidden_size=32, moe_intermediate_size=12, n_routed_experts=16, n_shared_experts=1, num_experts_per_tok=4,
        n_group=4, topk_group=2, routed_scaling_factor=2.5, norm_topk_prob=True)
    module = modeling_deepseek_v3.DeepseekV3MoE(config)
    fill(module, random)
    return module, module.gate, (f32(module.gate.weight) + f32(module.gate.e_score_correction_bias) +
                                 stacked(module.experts) + mlp(module.shared_experts))


def gpt_oss_config():
    return configuration_gpt_oss.GptOssConfig(hidden_size=64, intermediate_size=32, num_local_experts=4,
                                              num_experts_per_tok=2)


def gpt_oss(random):
    """Its modules hold x W, so what is written is W transposed."""
    module = modeling_gpt_oss.GptOssMLP(gpt_oss_config())
    fill(module, random)
    with torch.no_grad():
        module.experts.gate_up_proj *= 2  # so that the limit of 7 is reached
        module.experts.gate_up_proj_bias *= 8
    experts = module.experts
    data = f32(module.router.weight) + f32(module.router.bias)
    for e in range(experts.num_experts):
        data += raw(experts.gate_up_proj[e].T) + f32(experts.gate_up_proj_bias[e])
        data += raw(experts.down_proj[e].T) + f32(experts.down_proj_bias[e])
    return module, module.router, data


def gpt_oss_mxfp4(random):
    module = modeling_gpt_oss.GptOssMLP(gpt_oss_config())
    fill(module, random)
    experts = module.experts
    packed = {}
    for name in ("gate_up_proj", "down_proj"):
        n_experts, n_in, n_out = getattr(experts, name).shape
        blocks = torch.from_numpy(random.integers(0, 256, (n_experts, n_out, n_in // 32, 16), dtype=np.uint8))
        scales = torch.from_numpy(random.integers(122, 126, (n_experts, n_out, n_in // 32), dtype=np.uint8))
        with torch.no_grad():
            getattr(experts, name).copy_(convert_moe_packed_tensors(blocks, scales, dtype=torch.float32))
        packed[name] = (blocks, scales)
    data = f32(module.router.weight) + f32(module.router.bias)
    for e in range(experts.num_experts):
        for name in ("gate_up_proj", "down_proj"):
            data += b"".join(raw(part[e], torch.uint8) for part in packed[name])
            data += f32(getattr(experts, f"{name}_bias")[e])
    return module, module.router, data


class Gemma4(torch.nn.Module):
    """Router and experts of a layer, which read other rows: the router's are its own norm of the residual stream."""

    def __init__(self, config):
        super().__init__()
        self.router = modeling_gemma4.Gemma4TextRouter(config)
        self.experts = modeling_gemma4.Gemma4TextExperts(config)
        self.norm = modeling_gemma4.Gemma4RMSNorm(config.hidden_size, eps=config.rms_norm_eps)

    def forward(self, x):
        _, weights, ids = self.router(x[0])
        return self.experts(self.norm(x[0]), ids, weights)[None]

    def rows(self, x):
        """What the experts read, and what the router's matrix reads."""
        return self.norm(x), self.router.norm(x) * self.router.scale * self.router.scalar_root_size


def gemma4(random):
    module = Gemma4(configuration_gemma4.Gemma4TextConfig(
        hidden_size=40, moe_intermediate_size=24, num_experts=8, top_k_experts=3, enable_moe_block=True, rms_norm_eps=1e-3))
    fill(module, random)
    with torch.no_grad():
        module.router.scale.add_(module.router.scale.sign() * 2)  # so that choices differ: the matrix has 1 / sqrt(40) of it
        module.router.per_expert_scale.add_(1)
        module.norm.weight.add_(1)
    module.router.weight = module.router.proj.weight  # for firm_tokens
    return module, module.router, f32(module.router.proj.weight) + f32(module.router.per_expert_scale) + stacked(module.experts)


CASES = {
    "mixtral": mixtral,
    "qwen2": lambda random: qwen2(random, False),
    "qwen2_normed": lambda random: qwen2(random, True),
    "deepseek_v2": deepseek_v2,
    "deepseek_v3": deepseek_v3,
    "gpt_oss": gpt_oss,
    "gpt_oss_mxfp4": gpt_oss_mxfp4,
    "gemma4": gemma4,
}


def chosen(router, x):
    return router(x)[2].sort(dim=-1).values


def firm_tokens(router, random, n_in):
    """TOKENS of them, whose experts stay the same with some noise."""
    x = normal(random, 4 * TOKENS, n_in)
    is_firm = torch.ones(len(x), dtype=torch.bool)
    for _ in range(20):
        noise = 1e-3 * normal(random, *x.shape)
        is_firm &= (chosen(router, x) == chosen(router, x + noise)).all(dim=-1)
    assert is_firm.sum() >= TOKENS
    return x[is_firm][:TOKENS]


def make(name):
    random = np.random.Generator(np.random.Philox(key=[11, sum(name.encode())]))
    with torch.no_grad():
        module, router, weights = CASES[name](random)
        x = firm_tokens(router, random, router.weight.shape[-1])
        y = module.eval()(x[None])
        x = torch.cat(module.rows(x)) if name == "gemma4" else x
    y = (y[0] if isinstance(y, tuple) else y)[0]
    return f32(x), f32(y), weights


def check(name, x, y, weights):
    with open(os.path.join(HERE, f"{name}.bin"), "rb") as file:
        old = file.read()
    old_y = np.frombuffer(old[len(x):len(x) + len(y)], np.float32)
    return old[:len(x)] == x and old[len(x) + len(y):] == weights and \
        np.abs(old_y - np.frombuffer(y, np.float32)).max() <= 1e-6 * np.abs(old_y).max()


def main():
    torch.set_num_threads(1)
    for name in CASES:
        x, y, weights = make(name)
        if "--check" in sys.argv[1:]:
            if not check(name, x, y, weights):
                sys.exit(f"{name}.bin is not what is made now")
            continue
        with open(os.path.join(HERE, f"{name}.bin"), "wb") as file:
            file.write(x + y + weights)
        print(name, len(x + y + weights), "bytes, largest", float(np.abs(np.frombuffer(y, np.float32)).max()))


if __name__ == "__main__":
    main()
