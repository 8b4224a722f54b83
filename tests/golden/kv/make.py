#!/usr/bin/env python3
"""Makes tiny models whose files have scales of K and V, and the logits of Transformers with K and V rounded by them.

    python -m venv v && v/bin/pip install -r ../models/requirements.txt
    v/bin/python make.py            # writes the folders beside this file
    v/bin/python make.py --check    # makes them again, and fails with a line for each file that differs

A model is one of ../models, with k_scale and v_scale of each layer as compressed-tensors and ModelOpt write them. The rounded
value of x is s * round(x / s), as float32 computes x / s: to INT8 (-127 .. 127), or to E4M3, and what is larger becomes the
largest. Scales are made of about nine tenths of the largest magnitude, so that some values are cut, and
so that no value lies between two steps: another order of sums must not move it. A folder has golden.json and golden.f32
as ../models has them, without greedy steps.
"""
import json
import os
import sys

import torch
import transformers
from safetensors.torch import load_file, save_file
from transformers.models.deepseek_v3.modeling_deepseek_v3 import DeepseekV3Attention
from transformers.models.llama.modeling_llama import eager_attention_forward

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import committed  # noqa: E402

LARGEST = {"int8": 127.0, "e4m3": 448.0}
SCHEME = {"quant_method": "compressed-tensors", "format": "float-quantized", "config_groups": {}, "ignore": [],
          "quantization_status": "compressed", "kv_cache_scheme": {"num_bits": 8, "strategy": "tensor", "symmetric": True,
                                                                   "dynamic": False}}
# name: (model, type, how the tensors are called)
MODELS = {
    "llama_e4m3": ("llama_t4_llama3", "e4m3", ("self_attn.k_scale", "self_attn.v_scale")),
    "qwen3_int8": ("qwen3_t5_bias", "int8", ("self_attn.k_scale", "self_attn.v_scale")),
    "deepseek_v3_int8": ("deepseek_v3_t4", "int8", ("self_attn.k_scale", "self_attn.v_scale")),
    "qwen2_e4m3_proj": ("qwen2_t4", "e4m3", ("self_attn.k_proj.k_scale", "self_attn.v_proj.v_scale")),
}
seen = {}   # (layer, part): the largest magnitude
scales = {}  # (layer, part): the scale
kind = None
moved = 0.0


def rounded(x, scale):
    y = (x / scale).clamp(-LARGEST[kind], LARGEST[kind])
    return (y.round() if kind == "int8" else y.to(torch.float8_e4m3fn).float()) * scale


def attention(module, query, key, value, *rest, **more):
    parts = []
    if hasattr(module, "kv_lora_rank"):  # of latents the rows are rounded, before they become K and V
        return eager_attention_forward(module, query, key, value, *rest, **more)
    for part, x in enumerate((key, value)):
        place = (module.layer_idx, part)
        seen[place] = max(seen.get(place, 0.0), float(x.abs().max()))
        parts.append(rounded(x * (1 + moved), scales[place]) if place in scales else x)
    return eager_attention_forward(module, query, *parts, *rest, **more)


expand = DeepseekV3Attention.expand_kv


def expand_rounded(module, latent, rope):
    """One scale for a row: that of K, which V has, too."""
    row, place = torch.cat((latent, rope), dim=-1), (module.layer_idx, 0)
    seen[place] = seen[module.layer_idx, 1] = max(seen.get(place, 0.0), float(row.abs().max()))
    row = rounded(row * (1 + moved), scales[place]) if place in scales else row
    return expand(module, *row.split((latent.shape[-1], rope.shape[-1]), dim=-1))


def logits_of(model, prompts):
    with torch.no_grad():
        return torch.cat([model(torch.tensor([prompt])).logits[0] for prompt in prompts])


def make(root, name):
    global kind, moved
    base, kind, names = MODELS[name]
    source, folder = os.path.join(HERE, "..", "models", base), os.path.join(root, name)
    os.makedirs(folder)
    with open(os.path.join(source, "golden.json")) as file:
        prompts = json.load(file)["prompts"]
    model = transformers.AutoModelForCausalLM.from_pretrained(source, dtype=torch.float32, attn_implementation="rounds").eval()
    seen.clear()
    scales.clear()
    moved = 0.0
    logits_of(model, prompts)
    largest = dict(seen)
    for percent in range(90, 50, -1):
        made = {place: torch.tensor(percent / 100 * most / LARGEST[kind], dtype=torch.float32) for place, most in largest.items()}
        scales.update(made)
        moved = 0.0
        logits = logits_of(model, prompts)
        off = 0.0
        for moved in (-1e-6, 1e-6):
            off = max(off, float((logits_of(model, prompts) - logits).abs().max()))
        if off < 1e-4:
            break
    tensors = {}
    for file in sorted(os.listdir(source)):
        if file.endswith(".safetensors"):
            tensors.update(load_file(os.path.join(source, file)))
    for (layer, part), scale in made.items():
        tensors[f"model.layers.{layer}.{names[part]}"] = scale.reshape(1)
    save_file(tensors, os.path.join(folder, "model.safetensors"), metadata={"format": "pt"})
    with open(os.path.join(source, "config.json")) as file:
        config = json.load(file)
    if names[0] == "self_attn.k_scale":
        config["quantization_config"] = dict(SCHEME)
        config["quantization_config"]["kv_cache_scheme"] = dict(SCHEME["kv_cache_scheme"],
                                                                type="int" if kind == "int8" else "float")
    with open(os.path.join(folder, "config.json"), "w") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump({"kv_dtype": kind, "prompts": prompts, "torch": torch.__version__.split("+")[0],
                   "transformers": transformers.__version__}, file, sort_keys=True)
        file.write("\n")
    logits.float().numpy().tofile(os.path.join(folder, "golden.f32"))


def main():
    torch.set_num_threads(1)
    transformers.AttentionInterface.register("rounds", attention)
    DeepseekV3Attention.expand_kv = expand_rounded
    from transformers import masking_utils
    masking_utils.AttentionMaskInterface.register("rounds", masking_utils.eager_mask)
    return committed.run(HERE, list(MODELS), make, ("kv_dtype", "prompts"))


if __name__ == "__main__":
    sys.exit(main())
