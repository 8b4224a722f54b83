#!/usr/bin/env python3
"""Makes a small Llama in each kind of quantized checkpoint, and the logits of Transformers for the values of its weights; Phi-3 and
GPT-NeoX, whose matrices are fused, and GPT-2, whose matrices are transposed, in some.

    v/bin/pip install -r requirements.txt && v/bin/python make.py      writes beside itself
    v/bin/python make.py --check                                       makes them again, and fails with a line for each file that differs

NAME/        config.json, model.safetensors; golden.f32: logits [prompt][vocabulary] in float32
prompt.json  the ids

AWQ and GPTQ are written by the description of their formats, compressed-tensors by its own package. Their matrices are rounded from
random ones: only the values that the files mean are compared.
"""
import json
import sys
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from compressed_tensors.compressors.pack_quantized.helpers import pack_to_int32
from safetensors.torch import save_file

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE.parent))
import committed  # noqa: E402

CONFIG = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 96, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 24, "intermediate_size": 160, "vocab_size": 64,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": True,
          "hidden_act": "silu", "attention_bias": False, "mlp_bias": False, "eos_token_id": 1}
PHI3 = {"architectures": ["Phi3ForCausalLM"], "model_type": "phi3", "hidden_size": 96, "num_hidden_layers": 1, "num_attention_heads": 4,
        "num_key_value_heads": 1, "intermediate_size": 160, "vocab_size": 64, "max_position_embeddings": 128,
        "original_max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False,
        "hidden_act": "silu", "sliding_window": None, "pad_token_id": 0, "eos_token_id": 1}
NEOX = {"architectures": ["GPTNeoXForCausalLM"], "model_type": "gpt_neox", "hidden_size": 96, "num_hidden_layers": 1,
        "num_attention_heads": 4, "intermediate_size": 160, "vocab_size": 64, "max_position_embeddings": 128, "layer_norm_eps": 1e-5,
        "rotary_pct": 0.25, "rotary_emb_base": 10000, "use_parallel_residual": True, "tie_word_embeddings": False, "hidden_act": "gelu",
        "bos_token_id": 1, "eos_token_id": 1}
GPT2 = {"architectures": ["GPT2LMHeadModel"], "model_type": "gpt2", "n_embd": 96, "n_layer": 1, "n_head": 4, "n_inner": 160,
        "vocab_size": 64, "n_positions": 128, "layer_norm_epsilon": 1e-5, "activation_function": "gelu_new", "tie_word_embeddings": True,
        "bos_token_id": 1, "eos_token_id": 1}
QWEN3_5 = {"architectures": ["Qwen3_5ForCausalLM"], "model_type": "qwen3_5_text", "hidden_size": 96, "num_hidden_layers": 2,
           "layer_types": ["linear_attention", "full_attention"], "num_attention_heads": 2, "num_key_value_heads": 1, "head_dim": 64,
           "linear_conv_kernel_dim": 4, "linear_key_head_dim": 32, "linear_value_head_dim": 32, "linear_num_key_heads": 2,
           "linear_num_value_heads": 4, "intermediate_size": 160, "vocab_size": 64, "max_position_embeddings": 128,
           "rms_norm_eps": 1e-5, "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0, "partial_rotary_factor": 0.25},
           "tie_word_embeddings": True, "hidden_act": "silu", "attention_bias": False, "eos_token_id": 1}
DEEPSEEK = {"architectures": ["DeepseekV3ForCausalLM"], "model_type": "deepseek_v3", "hidden_size": 96, "num_hidden_layers": 2,
            "num_attention_heads": 4, "num_key_value_heads": 4, "q_lora_rank": 32, "kv_lora_rank": 80, "qk_nope_head_dim": 24,
            "qk_rope_head_dim": 8, "v_head_dim": 20, "intermediate_size": 160, "moe_intermediate_size": 72, "n_routed_experts": 4,
            "num_experts_per_tok": 2, "n_shared_experts": 1, "n_group": 2, "topk_group": 1, "first_k_dense_replace": 1,
            "routed_scaling_factor": 1.5, "norm_topk_prob": True, "vocab_size": 64, "max_position_embeddings": 128, "rms_norm_eps": 1e-6,
            "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}, "tie_word_embeddings": False, "hidden_act": "silu",
            "num_nextn_predict_layers": 0, "bos_token_id": 1, "eos_token_id": 1}
QWEN3_5_CASES = ("gptq", "packed_8", "fp8_rows", "fp8_whole", "fp8_blocks")
PROMPT = [(7 * i * i + 3 * i + 5) % 64 for i in range(40)]
AWQ_ORDER = (0, 2, 4, 6, 1, 3, 5, 7)
COMPRESSED = {"quant_method": "compressed-tensors", "ignore": ["lm_head"], "kv_cache_scheme": None, "quantization_status": "compressed"}


def to_words(numbers, bits, order=None):
    """Whole numbers of the last axis, 32 / bits to a word; order: which of them comes at which place."""
    per = 32 // bits
    groups = numbers.reshape(*numbers.shape[:-1], -1, per).astype(np.uint32)
    if order:
        groups = groups[..., list(order)]
    words = np.zeros(groups.shape[:-1], dtype=np.uint32)
    for i in range(per):
        words |= groups[..., i] << np.uint32(bits * i)
    return torch.from_numpy(words.view(np.int32).copy())


def rounded(matrix, group, bits, has_zero, scale_dtype, groups=None):
    """Numbers [out][in], scales and zeros [out][groups], and the values in float32. groups: that of each column."""
    n_out, n_in = matrix.shape
    groups = np.arange(n_in) // group if groups is None else groups
    n = n_in // group
    top, middle = 2**bits - 1, 2 ** (bits - 1)
    scales, zeros = np.zeros((n_out, n), np.float32), np.full((n_out, n), middle, np.int64)
    for g in range(n):
        part = matrix[:, groups == g]
        low, high = np.minimum(part.min(1), 0), np.maximum(part.max(1), 0)
        scales[:, g] = (high - low) / top if has_zero else np.abs(part).max(1) / (middle - 1)
        if has_zero:
            zeros[:, g] = np.clip(np.rint(-low / scales[:, g]), 1, top)
    scales = torch.from_numpy(scales).to(scale_dtype)
    wide = scales.float().numpy()
    numbers = np.clip(np.rint(matrix / wide[:, groups]) + zeros[:, groups], 0, top).astype(np.int64)
    values = (numbers - zeros[:, groups]).astype(np.float32) * wide[:, groups]
    return numbers, scales, zeros, values


def awq(matrix):
    numbers, scales, zeros, values = rounded(matrix, 32, 4, True, torch.float16)
    return {"qweight": to_words(numbers.T, 4, AWQ_ORDER), "qzeros": to_words(zeros.T, 4, AWQ_ORDER), "scales": scales.T}, values


def gptq(matrix, bits=4, is_first=True, groups=None, group=32):
    numbers, scales, zeros, values = rounded(matrix, group, bits, bits == 4, torch.float16, groups)
    order = np.arange(matrix.shape[1]) // group if groups is None else groups
    stored = zeros.T - 1 if is_first else zeros.T
    return {"qweight": to_words(numbers, bits).T, "qzeros": to_words(stored, bits), "scales": scales.T,
            "g_idx": torch.from_numpy(order.astype(np.int32))}, values


def gptq_mixed(matrix):
    groups = np.random.default_rng(matrix.shape[1]).permutation(np.arange(matrix.shape[1]) // 32)
    return gptq(matrix, groups=groups)


def packed(matrix, bits=4, has_zero=False, group=32):
    group = group or matrix.shape[1]
    numbers, scales, zeros, values = rounded(matrix, group, bits, has_zero, torch.bfloat16)
    middle = 2 ** (bits - 1)
    tensors = {"weight_packed": pack_to_int32(torch.from_numpy((numbers - middle).astype(np.int8)), bits), "weight_scale": scales,
               "weight_shape": torch.tensor(matrix.shape)}
    if has_zero:
        tensors["weight_zero_point"] = pack_to_int32(torch.from_numpy((zeros - middle).astype(np.int8)), bits, packed_dim=0)
    return tensors, values


def int8(matrix):
    numbers, scales, _, values = rounded(matrix, matrix.shape[1], 8, False, torch.bfloat16)
    return {"weight": torch.from_numpy((numbers - 128).astype(np.int8)), "weight_scale": scales}, values


def fp8(matrix, rows, columns, name, scale_dtype, is_scalar=False):
    n_out, n_in = matrix.shape
    rows, columns = rows or n_out, columns or n_in
    scales = np.zeros((-(-n_out // rows), -(-n_in // columns)), np.float32)
    for r in range(scales.shape[0]):
        for c in range(scales.shape[1]):
            scales[r, c] = np.abs(matrix[r * rows:(r + 1) * rows, c * columns:(c + 1) * columns]).max() / 448
    scales = torch.from_numpy(scales).to(scale_dtype)
    wide = scales.float().repeat_interleave(rows, 0)[:n_out].repeat_interleave(columns, 1)[:, :n_in]
    weight = (torch.from_numpy(matrix) / wide).to(torch.float8_e4m3fn)
    return {"weight": weight, name: scales.reshape(()) if is_scalar else scales}, (weight.float() * wide).numpy()


CASES = {
    "awq": ({"quant_method": "awq", "bits": 4, "group_size": 32, "zero_point": True, "version": "gemm"}, awq),
    "gptq": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": False, "sym": False}, gptq),
    "gptq_v2": ({"quant_method": "gptq", "bits": 4, "group_size": -1, "desc_act": False, "sym": False,
                 "checkpoint_format": "gptq_v2"}, lambda m: gptq(m, is_first=False, group=m.shape[1])),
    "gptq_mixed": ({"quant_method": "gptq", "bits": 4, "group_size": 32, "desc_act": True, "sym": False,
                    "checkpoint_format": "gptq"}, gptq_mixed),
    "gptq_8": ({"quant_method": "gptq", "bits": 8, "group_size": 32, "desc_act": False, "sym": True}, lambda m: gptq(m, bits=8)),
    "packed_4": (COMPRESSED | {"format": "pack-quantized"}, packed),
    "packed_4_zero": (COMPRESSED | {"format": "pack-quantized"}, lambda m: packed(m, has_zero=True)),
    "packed_8": (COMPRESSED | {"format": "pack-quantized"}, lambda m: packed(m, bits=8, group=0)),
    "int8": (COMPRESSED | {"format": "int-quantized"}, int8),
    "fp8_rows": (COMPRESSED | {"format": "float-quantized"}, lambda m: fp8(m, 1, 0, "weight_scale", torch.bfloat16)),
    "fp8_blocks": ({"quant_method": "fp8", "activation_scheme": "dynamic", "fmt": "e4m3", "weight_block_size": [64, 64]},
                   lambda m: fp8(m, 64, 64, "weight_scale_inv", torch.bfloat16)),
    "fp8_whole": ({"quant_method": "fp8", "activation_scheme": "static"},
                  lambda m: fp8(m, 0, 0, "weight_scale", torch.float32, is_scalar=True)),
}


FUSED = {"phi3": (PHI3, transformers.Phi3Config, transformers.Phi3ForCausalLM, "proj",
                  ("awq", "gptq", "gptq_mixed", "packed_4_zero", "int8", "fp8_rows", "fp8_whole", "fp8_blocks")),
         "gpt_neox": (NEOX, transformers.GPTNeoXConfig, transformers.GPTNeoXForCausalLM, "dense", ("gptq", "packed_8")),
         "gpt2": (GPT2, transformers.GPT2Config, transformers.GPT2LMHeadModel, "c_", ("gptq", "packed_4")),
         "deepseek_v3": (DEEPSEEK, transformers.DeepseekV3Config, transformers.DeepseekV3ForCausalLM, "proj",
                         ("fp8_blocks", "fp8_rows", "int8"))}


def is_of_experts(name):
    return ".experts." in name


def apart(state):
    """Experts as files have them: Transformers joins their matrices."""
    tensors = {}
    for name, value in state.items():
        if not is_of_experts(name):
            tensors[name] = value
            continue
        prefix, kind = name.rsplit(".", 1)
        for e, matrix in enumerate(value):
            parts = zip(("gate_proj", "up_proj"), matrix.chunk(2)) if kind == "gate_up_proj" else ((kind, matrix),)
            tensors |= {f"{prefix}.{e}.{part}.weight": rows for part, rows in parts}
    return tensors


def together(values, state):
    """The other way round."""
    joined = {name: value for name, value in values.items() if name in state}
    for name, value in state.items():
        if is_of_experts(name):
            prefix, kind = name.rsplit(".", 1)
            parts = ("gate_proj", "up_proj") if kind == "gate_up_proj" else (kind,)
            joined[name] = torch.stack([torch.cat([values[f"{prefix}.{e}.{part}.weight"] for part in parts]) for e in range(len(value))])
    return joined


def write(folder, config, model, state, marks, quantization, make):
    """marks: what the names of quantized matrices have."""
    folder.mkdir(exist_ok=True)
    whole, state = state, apart(state)
    tensors, values = {}, dict(state)
    transposed = {name + ".weight" for name, module in model.named_modules() if isinstance(module, transformers.pytorch_utils.Conv1D)}
    for name, value in state.items():
        if value.ndim != 2 or not any(mark in name for mark in marks):
            tensors[name] = value.to(torch.bfloat16)
            values[name] = tensors[name].float()
            continue
        is_transposed = name in transposed
        made, wide = make(value.numpy().T if is_transposed else value.numpy())
        values[name] = torch.from_numpy(wide.T if is_transposed else wide)
        tensors |= {name.removesuffix("weight") + key: tensor.contiguous() for key, tensor in made.items()}
    model.load_state_dict(together(values, whole), strict=False)
    with torch.no_grad():
        logits = model(torch.tensor([PROMPT])).logits[0].numpy()
    save_file(tensors, folder / "model.safetensors")
    (folder / "config.json").write_text(json.dumps(config | {"quantization_config": quantization}, indent=1) + "\n")
    logits.astype("<f4").tofile(folder / "golden.f32")


def random_state(model, mark, is_tied):
    state = {k: v.detach() for k, v in model.state_dict().items() if not is_tied or k != "lm_head.weight"}
    for name in state:
        if state[name].ndim == 2 or is_of_experts(name):
            torch.nn.init.normal_(state[name], std=0.15 if mark in name else 0.3)
    return state


def make_all(root):
    torch.manual_seed(7)
    model = transformers.LlamaForCausalLM(transformers.LlamaConfig(**{k: v for k, v in CONFIG.items() if k != "architectures"}))
    state = random_state(model, "proj", True)
    for case, (quantization, make) in CASES.items():
        write(root / case, CONFIG, model, state, ["proj"], quantization, make)
    for family, (config, config_class, model_class, mark, cases) in FUSED.items():
        if family == "deepseek_v3":  # a later row: it changes no other
            random = torch.get_rng_state()
        model = model_class(config_class(**{k: v for k, v in config.items() if k != "architectures"})).eval()
        state = random_state(model, mark, config["tie_word_embeddings"])
        for case in cases:
            write(root / f"{family}_{case}", config, model, state, [mark, "query_key_value"], *CASES[case])
    torch.set_rng_state(random)
    # Matrices whose rows are too few stay as they are, as in published files.
    model = transformers.Qwen3_5ForCausalLM(
        transformers.Qwen3_5TextConfig(**{k: v for k, v in QWEN3_5.items() if k != "architectures"})).eval()
    state = random_state(model, "proj", True)
    for case in QWEN3_5_CASES:
        write(root / f"qwen3_5_{case}", QWEN3_5, model, state, ["self_attn", "mlp", "qkv", "proj_z", "out_proj"], *CASES[case])


def main():
    transformers.utils.logging.disable_progress_bar()
    names = [*CASES, *(f"{family}_{case}" for family, row in FUSED.items() for case in row[-1]), *(f"qwen3_5_{case}" for case in QWEN3_5_CASES)]
    with tempfile.TemporaryDirectory() as root:
        make_all(Path(root))
        if sys.argv[1:] == ["--check"]:
            return committed.check(root, HERE, names, lambda *_: None)
        (HERE / "prompt.json").write_text(json.dumps(PROMPT) + "\n")
        return committed.write(root, HERE, names, lambda *_: None)


if __name__ == "__main__":
    sys.exit(main())
