#!/usr/bin/env python3
"""Makes LoRA adapters of the tiny models in ../models, and the logits that PEFT computes with them, unmerged and merged.

    python -m venv v && v/bin/pip install -r requirements.txt
    v/bin/python make.py            # writes the folders beside this file
    v/bin/python make.py NAME ...   # only these
    v/bin/python make.py --check    # makes them again, and fails with a line for each file that differs

A folder holds adapter_config.json and adapter_model.safetensors as PEFT saves them, and

    golden.json    versions, the model, for each prompt its token ids
    golden.f32     float32 little-endian [tokens of all prompts][vocabulary]: logits of the model with the adapter beside it
    merged.f32     the same with the adapter merged into the weights, in float32

Both are of the folder as it is read again. A and B come from numpy's Philox. Transformers computes in float32 on one thread.
"""
import hashlib
import json
import os
import sys

import numpy as np
import peft
import torch
import transformers
from safetensors.torch import load_file, save_file

HERE = os.path.dirname(os.path.abspath(__file__))
sys.path.insert(0, os.path.dirname(HERE))
import committed  # noqa: E402

LINEAR = ["q_proj", "k_proj", "v_proj", "o_proj", "gate_proj", "up_proj", "down_proj"]

# name: (model, type of A and B, settings)
ADAPTERS = {
    "llama": ("llama_t5_bias", "F32", {"r": 4, "lora_alpha": 8, "target_modules": LINEAR}),
    "llama_other": ("llama_t5_bias", "F16", {"r": 7, "lora_alpha": 3, "target_modules": ["v_proj", "down_proj"]}),
    "llama_deep": ("llama_t5_bias", "BF16", {"r": 16, "lora_alpha": 32, "target_modules": ["q_proj", "o_proj", "up_proj"],
                                             "layers_to_transform": [1]}),
    "qwen3_rslora": ("qwen3_t4", "F32", {"r": 3, "lora_alpha": 5, "use_rslora": True, "target_modules": ["q_proj", "v_proj"]}),
    "gpt2_fused": ("gpt2_t4", "F32", {"r": 5, "lora_alpha": 10, "target_modules": ["c_attn", "c_proj", "c_fc"],
                                      "fan_in_fan_out": True}),
    "phi3_fused": ("phi3_t4", "BF16", {"r": 6, "lora_alpha": 9,
                                       "target_modules": ["qkv_proj", "o_proj", "gate_up_proj", "down_proj"]}),
    "neox_groups": ("gpt_neox_t4", "F32", {
        "r": 4, "lora_alpha": 6, "target_modules": r".*\.(query_key_value|dense(_h_to_4h|_4h_to_h)?)"}),
    "gemma2_patterns": ("gemma2_t4", "F32", {
        "r": 2, "lora_alpha": 4, "target_modules": LINEAR, "exclude_modules": ["layers.0.self_attn.k_proj"],
        "rank_pattern": {"q_proj": 5, r"layers\.1\.mlp\.(up|gate)_proj": 9}, "alpha_pattern": {"^model.layers.2.self_attn.v_proj": 1.5}}),
    "falcon_one_kv": ("falcon_t4_7b", "F32", {"r": 4, "lora_alpha": 4, "target_modules": [
        "query_key_value", "dense", "dense_h_to_4h", "dense_4h_to_h"]}),
    "mixtral_attention": ("mixtral_t4", "BF16", {"r": 8, "lora_alpha": 16,
                                                 "target_modules": ["q_proj", "k_proj", "v_proj", "o_proj"]}),
    # For tests of the whole system.
    "demo": ("demo", "F32", {"r": 4, "lora_alpha": 8, "target_modules": LINEAR}),
    "demo_other": ("demo", "BF16", {"r": 2, "lora_alpha": 6, "target_modules": ["q_proj", "v_proj", "up_proj"]}),
    "gemma4_k_is_v": ("gemma4_t5_k_is_v", "F32", {"r": 4, "lora_alpha": 8, "target_modules": LINEAR}),
}
DTYPES = {"F32": torch.float32, "BF16": torch.bfloat16, "F16": torch.float16}


def generator(*names):
    key = int.from_bytes(hashlib.sha256("/".join(names).encode()).digest()[:8], "little")
    return np.random.Generator(np.random.Philox(key))


def random_tensor(name, key, shape, dtype):
    numbers = generator("adapter", name, key).standard_normal(shape) * (0.3 if ".lora_B." in key else 1) / np.sqrt(shape[-1])
    return torch.from_numpy(numbers.astype(np.float32)).to(dtype).contiguous()


def folder_of(model):
    return os.path.join(HERE, "..", "..", "..", "model", "demo") if model == "demo" else os.path.join(HERE, "..", "models", model)


def prompts_of(model):
    if model == "demo":
        return [generator("prompt", str(n)).integers(0, 256, n).tolist() for n in (2, 5)]
    with open(os.path.join(folder_of(model), "golden.json")) as file:
        return json.load(file)["prompts"]


def model_of(name):
    return transformers.AutoModelForCausalLM.from_pretrained(
        folder_of(name), dtype=torch.float32,
        attn_implementation="sdpa" if name.startswith("falcon") else "eager").eval()


def write_adapter(folder, name):
    base, dtype, settings = ADAPTERS[name]
    model = peft.get_peft_model(model_of(base), peft.LoraConfig(task_type="CAUSAL_LM", **settings))
    model.save_pretrained(folder)
    os.remove(os.path.join(folder, "README.md"))
    path = os.path.join(folder, "adapter_model.safetensors")
    tensors = {key: random_tensor(name, key, value.shape, DTYPES[dtype]) for key, value in load_file(path).items()}
    save_file(tensors, path, metadata={"format": "pt"})
    path = os.path.join(folder, "adapter_config.json")
    with open(path) as file:
        config = json.load(file)
    config["base_model_name_or_path"] = base
    if isinstance(config["target_modules"], list):
        config["target_modules"].sort()  # PEFT has a set of them
    with open(path, "w") as file:
        json.dump(config, file, indent=1, sort_keys=True)
        file.write("\n")


def logits_of(model, prompts):
    with torch.no_grad():
        return torch.cat([model(torch.tensor([prompt])).logits[0] for prompt in prompts]).float().numpy()


def make(root, name):
    base = ADAPTERS[name][0]
    folder = os.path.join(root, name)
    os.makedirs(folder)
    write_adapter(folder, name)
    prompts = prompts_of(base)
    alone = logits_of(model_of(base), prompts)
    model = peft.PeftModel.from_pretrained(model_of(base), folder, autocast_adapter_dtype=True).eval()
    beside = logits_of(model, prompts)
    merged = logits_of(model.merge_and_unload(), prompts)
    print(f"{name:20} {np.abs(beside - alone).max():.3f} from the model, {np.abs(beside - merged).max():.1e} from merged")
    assert np.abs(beside - merged).max() < 5e-5 and np.abs(beside - alone).max() > 0.1
    beside.astype("<f4").tofile(os.path.join(folder, "golden.f32"))
    merged.astype("<f4").tofile(os.path.join(folder, "merged.f32"))
    with open(os.path.join(folder, "golden.json"), "w") as file:
        json.dump({"model": base, "prompts": prompts, "peft": peft.__version__, "transformers": transformers.__version__,
                   "torch": torch.__version__.split("+")[0], "numpy": np.__version__}, file, sort_keys=True)
        file.write("\n")


def main():
    torch.set_num_threads(1)
    transformers.logging.set_verbosity_error()
    transformers.utils.logging.disable_progress_bar()
    return committed.run(HERE, list(ADAPTERS), make, ("model", "prompts"))


if __name__ == "__main__":
    sys.exit(main())
