#!/usr/bin/env python3
"""Makes small GGUF files, and what Transformers and `tokenizers` make of the same weights and tokens.

    v/bin/pip install -r requirements.txt && v/bin/python make.py      writes beside itself

NAME.gguf             the tiny models of ../models with that name, in GGUF's names and order of rows: the same logits
ARCHITECTURE.gguf     OTHERS: a random model of that architecture; ARCHITECTURE.f32: logits of Transformers of the prompt in
                      others.json
split-0000N-of-00002  one of them in two parts
blocks.gguf           a model whose matrices have ten types of blocks, any bytes; blocks.f32: logits of Transformers for
                      its values, of every position of the prompt in golden.json
TOKENIZER.gguf        the tokenizers of ../tokenizer, without tensors; tokens.json: ids of strings
spm.gguf              a SentencePiece vocabulary with scores; its merges are those that Transformers derives
"""
import json
import tempfile
from pathlib import Path

import numpy as np
import torch
import transformers
from gguf import GGML_QUANT_SIZES, ExpertGatingFuncType, GGMLQuantizationType as Type, GGUFWriter, MODEL_ARCH, MODEL_ARCH_NAMES, RopeScalingType, TokenType, get_tensor_name_map
from gguf.quants import dequantize
from safetensors import safe_open
from safetensors.torch import save_file
from tokenizers import Tokenizer
from transformers.convert_slow_tokenizer import generate_merges

HERE = Path(__file__).parent
MODELS = HERE.parent / "models"
TOKENIZERS = HERE.parent / "tokenizer"
NAMES = {"model.embed_tokens.weight": "token_embd.weight", "model.norm.weight": "output_norm.weight",
         "lm_head.weight": "output.weight"}
LAYER = {"input_layernorm": "attn_norm", "post_attention_layernorm": "ffn_norm", "self_attn.q_proj": "attn_q",
         "self_attn.k_proj": "attn_k", "self_attn.v_proj": "attn_v", "self_attn.o_proj": "attn_output",
         "self_attn.q_norm": "attn_q_norm", "self_attn.k_norm": "attn_k_norm", "mlp.gate_proj": "ffn_gate",
         "mlp.up_proj": "ffn_up", "mlp.down_proj": "ffn_down"}
STRINGS = ["", " ", "Hello, world!", "hello  world", "It's 1984, isn't it?", "  leading", "trailing  ", "a\n\nb\r\n c",
           "Größe naïveté", "cafe\u0301 caf\u00e9", "太初有道", "В начале", "3.14159 12345", "def f(x):\n    return x\n",
           "\U0001f642\U0001f44d\U0001f3fd", "\u00a0\u3000\t", "XMLHttpRequest", "don't I'LL", "!!! ... --", "\x00\x7f"]
BLOCK_TYPES = {"token_embd.weight": Type.Q6_K, "attn_q.weight": Type.Q4_K, "attn_k.weight": Type.Q5_K,
               "attn_v.weight": Type.Q5_1, "attn_output.weight": Type.Q3_K, "ffn_gate.weight": Type.Q2_K,
               "ffn_up.weight": Type.Q5_0, "ffn_down.weight": Type.Q8_0, "output.weight": Type.Q4_0}
HALVES = {Type.Q8_0: (0,), Type.Q4_0: (0,), Type.Q5_0: (0,), Type.Q5_1: (0, 2), Type.Q2_K: (80, 82), Type.Q3_K: (108,),
          Type.Q4_K: (0, 2), Type.Q5_K: (0, 2), Type.Q6_K: (208,)}


def gguf_name(name):
    if name in NAMES:
        return NAMES[name]
    _, _, layer, rest = name.split(".", 3)
    stem, end = rest.rsplit(".", 1)
    return f"blk.{layer}.{LAYER[stem]}.{end}"


def permute(rows, n_heads):
    """From halves to neighbours, as the converter of llama.cpp does for llama."""
    return rows.reshape(n_heads, 2, rows.shape[0] // n_heads // 2, *rows.shape[1:]).swapaxes(1, 2).reshape(rows.shape)


def write_numbered_tokens(writer, n_tokens):
    writer.add_tokenizer_model("gpt2")
    writer.add_tokenizer_pre("gpt-2")
    writer.add_token_list([f"t{i}" for i in range(n_tokens)])
    writer.add_token_types([TokenType.CONTROL if i < 3 else TokenType.NORMAL for i in range(n_tokens)])
    writer.add_token_merges([])
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)


def write_keys(writer, arch, config, n_tokens):
    heads = config["num_attention_heads"]
    writer.add_context_length(config["max_position_embeddings"])
    writer.add_embedding_length(config["hidden_size"])
    writer.add_block_count(config["num_hidden_layers"])
    writer.add_feed_forward_length(config["intermediate_size"])
    writer.add_head_count(heads)
    writer.add_head_count_kv(config.get("num_key_value_heads", heads))
    head_dim = config.get("head_dim", config["hidden_size"] // heads)
    writer.add_key_length(head_dim)
    writer.add_value_length(config.get("value_dim", head_dim))
    writer.add_rope_dimension_count(config.get("rope_dim", head_dim))
    theta = config.get("rope_theta") or config.get("rope_parameters", {}).get("rope_theta", 10000.0)
    writer.add_rope_freq_base(theta)
    writer.add_layer_norm_rms_eps(config["rms_norm_eps"])
    write_numbered_tokens(writer, n_tokens)


def finish(writer):
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()


def tensors_of(name):
    with safe_open(MODELS / name / "model.safetensors", "pt") as file:
        return {key: file.get_tensor(key) for key in file.keys()}


def add_tensor(writer, name, tensor):
    if tensor.ndim == 1:
        tensor = tensor.float()
    if tensor.dtype == torch.bfloat16:
        raw = np.ascontiguousarray(tensor.view(torch.int16).numpy()).view(np.uint8)
        writer.add_tensor(name, raw, raw_dtype=Type.BF16)
    else:
        writer.add_tensor(name, np.ascontiguousarray(tensor.numpy()))


def write_model(name, arch, path, **options):
    config = json.loads((MODELS / name / "config.json").read_text())
    writer = GGUFWriter(path, arch, **options)
    write_keys(writer, arch, config, config["vocab_size"])
    for key, tensor in tensors_of(name).items():
        if arch == "llama" and ".q_proj." in key:
            tensor = permute(tensor, config["num_attention_heads"])
        if arch == "llama" and ".k_proj." in key:
            tensor = permute(tensor, config["num_key_value_heads"])
        add_tensor(writer, gguf_name(key), tensor)
    finish(writer)


# ---- other architectures, by the names that the gguf package gives to tensors of Transformers ----

def add_keys(writer, arch, config):
    """What write_keys does not know, by the methods of the package."""
    if arch in ("gemma2", "gemma3"):
        writer.add_sliding_window(config["sliding_window"])
    if arch == "gemma2":
        writer.add_attn_logit_softcapping(config["attn_logit_softcapping"])
        writer.add_final_logit_softcapping(config["final_logit_softcapping"])
    if arch == "phi3" and config.get("sliding_window"):
        writer.add_sliding_window(config["sliding_window"])
    if arch == "granite":
        writer.add_attention_scale(config["attention_multiplier"])
        writer.add_embedding_scale(config["embedding_multiplier"])
        writer.add_residual_scale(config["residual_multiplier"])
        writer.add_logit_scale(config["logits_scaling"])
    if arch == "qwen3moe":
        writer.add_expert_count(config["num_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    if arch == "gpt-oss":
        writer.add_sliding_window(config["sliding_window"])
        writer.add_expert_count(config["num_local_experts"])
        writer.add_expert_used_count(config["num_experts_per_tok"])
        writer.add_expert_feed_forward_length(config["intermediate_size"])
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(config["rope_parameters"]["factor"])
        writer.add_rope_scaling_orig_ctx_len(config["rope_parameters"]["original_max_position_embeddings"])
    if arch == "mistral3":
        rope = config["rope_parameters"]
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_beta_fast(rope["beta_fast"])
        writer.add_rope_scaling_yarn_beta_slow(rope["beta_slow"])
        writer.add_rope_scaling_yarn_log_mul(rope["mscale_all_dim"])
        writer.add_attn_temperature_scale(rope["llama_4_scaling_beta"])
    if arch == "command-r":
        writer.add_logit_scale(config["logit_scale"])
        writer.add_layer_norm_eps(config["layer_norm_eps"])


def add_latent_keys(writer, config, is_older):
    """As the converter of llama.cpp: the head of the keys is the row that is cached, and log_mul is a tenth of mscale_all_dim."""
    if config.get("q_lora_rank"):
        writer.add_q_lora_rank(config["q_lora_rank"])
    writer.add_kv_lora_rank(config["kv_lora_rank"])
    if not is_older:
        writer.add_key_length_mla(config["qk_nope_head_dim"] + config["qk_rope_head_dim"])
        writer.add_value_length_mla(config["v_head_dim"])
    writer.add_leading_dense_block_count(config["first_k_dense_replace"])
    writer.add_expert_count(config["n_routed_experts"])
    writer.add_expert_used_count(config["num_experts_per_tok"])
    writer.add_expert_shared_count(config["n_shared_experts"])
    writer.add_expert_feed_forward_length(config["moe_intermediate_size"])
    writer.add_expert_weights_scale(config["routed_scaling_factor"])
    if config.get("norm_topk_prob"):
        writer.add_expert_weights_norm(True)
    if "n_group" in config:
        writer.add_expert_group_count(config["n_group"])
        writer.add_expert_group_used_count(config["topk_group"])
    writer.add_expert_gating_func(ExpertGatingFuncType.SIGMOID if config["scoring"] == "sigmoid" else ExpertGatingFuncType.SOFTMAX)
    rope = config["rope_parameters"]
    if rope["rope_type"] == "yarn":
        writer.add_rope_scaling_type(RopeScalingType.YARN)
        writer.add_rope_scaling_factor(rope["factor"])
        writer.add_rope_scaling_orig_ctx_len(rope["original_max_position_embeddings"])
        writer.add_rope_scaling_yarn_log_mul(0.1 * rope["mscale_all_dim"])


def cached_head(config, is_older):
    """The heads that keys of a file say: the one of the row that is cached, in older files those of K and V."""
    rope = config["qk_rope_head_dim"]
    if is_older:
        return config | {"head_dim": config["qk_nope_head_dim"] + rope, "value_dim": config["v_head_dim"], "rope_dim": rope}
    return config | {"num_key_value_heads": 1, "head_dim": config["kv_lora_rank"] + rope, "value_dim": config["kv_lora_rank"],
                     "rope_dim": rope}


def divide_heads(tensors, config):
    """W_uk of each head, turned, and W_uv, as the converter of llama.cpp makes them of kv_b_proj."""
    divided = {}
    for key, tensor in tensors.items():
        if ".kv_b_proj." not in key:
            divided[key] = tensor
            continue
        heads = tensor.view(config["num_attention_heads"], -1, tensor.shape[-1])
        divided[key.replace("kv_b_proj", "k_b_proj")] = heads[:, :config["qk_nope_head_dim"]].transpose(1, 2).contiguous()
        divided[key.replace("kv_b_proj", "v_b_proj")] = heads[:, config["qk_nope_head_dim"]:].contiguous()
    return divided


def stack_experts(tensors):
    """One tensor for all experts, as the converter of llama.cpp makes them."""
    stacked = {}
    for key in list(tensors):
        if ".experts." in key and key.split(".experts.")[1][0].isdigit():
            stem, rest = key.split(".experts.")
            number, rest = rest.split(".", 1)
            stacked.setdefault(f"{stem}.experts.{rest}", {})[int(number)] = tensors.pop(key)
    return tensors | {key: torch.stack([parts[i] for i in sorted(parts)]) for key, parts in stacked.items()}


SMALL = {"hidden_size": 32, "num_hidden_layers": 2, "num_attention_heads": 4, "num_key_value_heads": 2, "head_dim": 8,
         "intermediate_size": 48, "vocab_size": 64, "max_position_embeddings": 128, "tie_word_embeddings": True,
         "bos_token_id": 1, "eos_token_id": 2, "pad_token_id": 0}
LATENT = {"num_key_value_heads": 4, "head_dim": None, "tie_word_embeddings": False, "kv_lora_rank": 32, "qk_nope_head_dim": 32,
          "qk_rope_head_dim": 8, "v_head_dim": 20, "moe_intermediate_size": 20, "n_routed_experts": 8, "num_experts_per_tok": 3,
          "n_shared_experts": 2, "first_k_dense_replace": 1, "routed_scaling_factor": 1.7}
OTHERS = {
    "gemma": ("GemmaConfig", {"head_dim": 16}),
    "gemma2": ("Gemma2Config", {"head_dim": 16, "query_pre_attn_scalar": 16, "sliding_window": 7, "attn_logit_softcapping": 20.0,
                                "final_logit_softcapping": 12.0}),
    "gemma3": ("Gemma3TextConfig", {"head_dim": 16, "query_pre_attn_scalar": 16, "num_hidden_layers": 7, "sliding_window": 9}),
    "phi3": ("Phi3Config", {"sliding_window": None, "tie_word_embeddings": False}),
    "granite": ("GraniteConfig", {"attention_multiplier": 0.2, "embedding_multiplier": 3.0, "residual_multiplier": 0.6,
                                  "logits_scaling": 0.5}),
    "olmo2": ("Olmo2Config", {"tie_word_embeddings": False}),
    "qwen3moe": ("Qwen3MoeConfig", {"num_experts": 6, "num_experts_per_tok": 2, "moe_intermediate_size": 32,
                                    "norm_topk_prob": True, "decoder_sparse_step": 1, "tie_word_embeddings": False}),
    "gpt-oss": ("GptOssConfig", {"num_local_experts": 5, "num_experts_per_tok": 2, "sliding_window": 9, "tie_word_embeddings": False,
                                 "attention_bias": True, "intermediate_size": 32,
                                 "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "beta_fast": 32.0, "beta_slow": 1.0,
                                                     "original_max_position_embeddings": 32, "truncate": False,
                                                     "rope_theta": 10000.0}}),
    "mistral3": ("Ministral3Config", {"head_dim": 16, "tie_word_embeddings": False, "rope_parameters": {
        "rope_type": "yarn", "type": "yarn", "factor": 8.0, "original_max_position_embeddings": 8, "max_position_embeddings": 128,
        "rope_theta": 10000.0, "beta_fast": 32.0, "beta_slow": 1.0, "mscale": 1.0, "mscale_all_dim": 1.0,
        "llama_4_scaling_beta": 0.4}}),
    "deepseek2": ("DeepseekV2Config", LATENT | {
        "scoring": "softmax", "q_lora_rank": None, "n_group": 4, "topk_group": 2, "topk_method": "group_limited_greedy",
        "rope_parameters": {"rope_type": "yarn", "factor": 4.0, "original_max_position_embeddings": 32, "rope_theta": 10000.0,
                            "mscale": 0.7, "mscale_all_dim": 0.7}}),
    "deepseek2-v3": ("DeepseekV3Config", LATENT | {
        "scoring": "sigmoid", "q_lora_rank": 24, "n_group": 2, "topk_group": 1, "norm_topk_prob": True,
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),
    "deepseek2-older": ("DeepseekV2Config", LATENT | {
        "scoring": "softmax", "q_lora_rank": 24, "topk_method": "greedy",
        "rope_parameters": {"rope_type": "default", "rope_theta": 10000.0}}),  # W_uk and W_uv in one
    "command-r": ("CohereConfig", {"logit_scale": 0.25}),
    "command-r-plus": ("CohereConfig", {"logit_scale": 0.25, "use_qk_norm": True}),  # the same architecture
}


def make_other(name, prompt):
    """A random model, its tensors, and its logits."""
    torch.manual_seed(11)
    config_class, changes = OTHERS[name]
    known = {key: value for key, value in (SMALL | changes).items() if key != "scoring"}
    config = getattr(transformers, config_class)(**known)
    config._attn_implementation = "eager"
    model = transformers.AutoModelForCausalLM.from_config(config, dtype=torch.float32).eval()
    with torch.no_grad():
        for key, tensor in model.named_parameters():
            tensor.normal_(0, 0.1 if tensor.ndim == 1 else 0.3)
            if tensor.ndim == 1 and not name.startswith("gemma"):
                tensor.add_(1)
        for key, tensor in model.named_buffers():
            if key.endswith("e_score_correction_bias"):
                tensor.normal_(0, 0.3)
        logits = model(torch.tensor([prompt])).logits[0].numpy()
    tensors = {key: value.clone() for key, value in model.state_dict().items()
               if not (key == "lm_head.weight" and config.tie_word_embeddings)}
    rope = config.rope_parameters.get("full_attention", config.rope_parameters)
    return SMALL | {"rope_theta": rope["rope_theta"], "rms_norm_eps": getattr(config, "rms_norm_eps", 1e-5),
                    "layer_norm_eps": getattr(config, "layer_norm_eps", 1e-5)} | changes, tensors, logits


def to_files(tensors, config):
    """As files have experts, whose matrices Transformers joins."""
    files = {}
    for key, tensor in tensors.items():
        if "num_local_experts" in config and ".experts." in key:
            bias = key.endswith("_bias")
            stem, end = key.removesuffix("_bias"), ".bias" if bias else ".weight"
            turned = tensor if bias else tensor.transpose(1, 2)  # to [experts][n_out][n_in]
            if stem.endswith("gate_up_proj"):
                files[stem.replace("gate_up_proj", "gate_proj") + end] = turned[:, 0::2].contiguous()
                files[stem.replace("gate_up_proj", "up_proj") + end] = turned[:, 1::2].contiguous()
            else:
                files[stem + end] = turned.contiguous()
        elif key.endswith("experts.gate_up_proj"):
            files[key.replace("gate_up_proj", "gate_proj.weight")] = tensor[:, :config["moe_intermediate_size"]]
            files[key.replace("gate_up_proj", "up_proj.weight")] = tensor[:, config["moe_intermediate_size"]:]
        elif key.endswith("experts.down_proj"):
            files[key + ".weight"] = tensor
        else:
            files[key] = tensor
    return files


def write_other(name, prompt):
    arch = "deepseek2" if name.startswith("deepseek2") else name.removesuffix("-plus")
    config, tensors, logits = make_other(name, prompt)
    writer = GGUFWriter(HERE / f"{name}.gguf", arch)
    is_older = name.endswith("-older")
    write_keys(writer, arch, cached_head(config, is_older) if arch == "deepseek2" else config, config["vocab_size"])
    add_keys(writer, arch, config)
    if arch == "deepseek2":
        add_latent_keys(writer, config, is_older)
    which = next(member for member, text in MODEL_ARCH_NAMES.items() if text == arch)
    names = get_tensor_name_map(MODEL_ARCH(which), config["num_hidden_layers"])
    tensors = to_files(tensors, config)
    if arch == "deepseek2" and not is_older:
        tensors = divide_heads(tensors, config)
    for key, tensor in stack_experts(tensors).items():
        key = key.replace("e_score_correction_bias", "e_score_correction.bias")
        if arch.startswith("gemma") and key.endswith("norm.weight"):
            tensor = tensor + 1
        if arch in ("granite", "mistral3") and ".q_proj." in key:
            tensor = permute(tensor, config["num_attention_heads"])
        if arch in ("granite", "mistral3") and ".k_proj." in key:
            tensor = permute(tensor, config["num_key_value_heads"])
        key += ".weight" if key.endswith("sinks") else ""
        add_tensor(writer, names.get_name(key, try_suffixes=(".weight", ".bias")), tensor)
    finish(writer)
    print(f"{name}: largest logit", np.abs(logits).max())
    logits.astype("<f4").tofile(HERE / f"{name}.f32")


# ---- blocks ----

BLOCKS = {"architectures": ["LlamaForCausalLM"], "model_type": "llama", "hidden_size": 256, "num_hidden_layers": 1,
          "num_attention_heads": 4, "num_key_value_heads": 2, "intermediate_size": 256, "vocab_size": 96,
          "max_position_embeddings": 128, "rms_norm_eps": 1e-5, "rope_theta": 10000.0, "tie_word_embeddings": False}


def random_blocks(random, kind, n_out, n_in):
    elements, size = GGML_QUANT_SIZES[kind]
    blocks = random.integers(0, 256, (n_out * n_in // elements, size), np.uint8)
    scale = {Type.Q8_0: 1e-3, Type.Q6_K: 6e-5, Type.Q4_K: 3e-4, Type.Q5_K: 2e-4, Type.Q3_K: 1e-3, Type.Q2_K: 3e-3}
    for at in HALVES[kind]:
        halves = (scale.get(kind, 0.01) * random.standard_normal(len(blocks))).astype(np.float16)
        blocks[:, at:at + 2] = halves.view(np.uint8).reshape(-1, 2)
    return blocks.reshape(n_out, -1)


def write_blocks():
    random = np.random.Generator(np.random.Philox(256))
    shapes = {"token_embd.weight": (96, 256), "attn_q.weight": (256, 256), "attn_k.weight": (128, 256),
              "attn_v.weight": (128, 256), "attn_output.weight": (256, 256), "ffn_gate.weight": (256, 256),
              "ffn_up.weight": (256, 256), "ffn_down.weight": (256, 256), "output.weight": (96, 256)}
    writer = GGUFWriter(HERE / "blocks.gguf", "llama")
    write_keys(writer, "llama", BLOCKS, 96)
    wide = {}
    back = {v: k for k, v in NAMES.items()} | {f"{v}.weight": f"model.layers.0.{k}.weight" for k, v in LAYER.items()}
    for name, (n_out, n_in) in shapes.items():
        kind = BLOCK_TYPES[name]
        blocks = random_blocks(random, kind, n_out, n_in)
        values = dequantize(blocks, kind).reshape(n_out, n_in)
        heads = {"attn_q.weight": 4, "attn_k.weight": 2}.get(name)
        if heads:  # back from neighbours to halves
            values = values.reshape(heads, n_out // heads // 2, 2, n_in).swapaxes(1, 2).reshape(n_out, n_in)
        wide[back[name]] = torch.from_numpy(np.ascontiguousarray(values.astype(np.float32)))
        is_layer = not name.startswith(("token", "output"))
        writer.add_tensor(f"blk.0.{name}" if is_layer else name, blocks, raw_dtype=kind)
    for name, key in (("blk.0.attn_norm.weight", "model.layers.0.input_layernorm.weight"),
                      ("blk.0.ffn_norm.weight", "model.layers.0.post_attention_layernorm.weight"),
                      ("output_norm.weight", "model.norm.weight")):
        norm = (1 + 0.2 * random.standard_normal(256)).astype(np.float32)
        wide[key] = torch.from_numpy(norm)
        writer.add_tensor(name, norm)
    finish(writer)
    prompt = random.integers(0, 96, 40).tolist()
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / "config.json").write_text(json.dumps(BLOCKS))
        save_file(wide, Path(folder) / "model.safetensors", metadata={"format": "pt"})
        model = transformers.AutoModelForCausalLM.from_pretrained(folder, dtype=torch.float32,
                                                                  attn_implementation="eager").eval()
        with torch.no_grad():
            logits = model(torch.tensor([prompt])).logits[0].numpy()
    print("blocks: largest logit", np.abs(logits).max())
    logits.astype("<f4").tofile(HERE / "blocks.f32")
    (HERE / "golden.json").write_text(json.dumps({"prompt": prompt}) + "\n")


# ---- tokenizers ----

def write_tokens(name, model, tokens, types, merges=None, scores=None, pre=None, **ids):
    writer = GGUFWriter(HERE / f"{name}.gguf", "llama")
    writer.add_tokenizer_model(model)
    if pre:
        writer.add_tokenizer_pre(pre)
    writer.add_token_list(tokens)
    writer.add_token_types(types)
    if scores:
        writer.add_token_scores(scores)
    if merges is not None:
        writer.add_token_merges(merges)
    for key, value in ids.items():
        getattr(writer, f"add_{key}")(value)
    finish(writer)


def from_folder(name, pre, folder=TOKENIZERS, **ids):
    root = json.loads((folder / name / "tokenizer.json").read_text())
    added = {token["id"]: token for token in root["added_tokens"]}
    by_id = {index: text for text, index in root["model"]["vocab"].items()} | {i: t["content"] for i, t in added.items()}
    assert sorted(by_id) == list(range(len(by_id))), name
    tokens = [by_id[i] for i in range(len(by_id))]
    types = [TokenType.NORMAL if i not in added else TokenType.CONTROL if added[i]["special"] else TokenType.USER_DEFINED
             for i in range(len(tokens))]
    merges = [merge if isinstance(merge, str) else " ".join(merge) for merge in root["model"]["merges"]]
    write_tokens(name, "gpt2", tokens, types, merges, pre=pre, **{k: tokens.index(v) if isinstance(v, str) else v
                                                                 for k, v in ids.items()})
    tokenizer = Tokenizer.from_file(str(folder / name / "tokenizer.json"))
    return [tokenizer.encode(text).ids for text in STRINGS]


GPT4O = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*(?i:'s|'t|'re|'ve|'m|'ll|'d)?|"
         r"\p{N}{1,3}| ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")


# As published, with one class in another.
BLOOM = " ?[^(\\s|[.,!?\u2026\u3002\uff0c\u3001\u0964\u06d4\u060c])]+"


# As published with DeepSeek V3.
DEEPSEEK3 = (r"\p{N}{1,3}", "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+",
             r"""[!"#$%&'()*+,\-./:;<=>?@\[\\\]^_`{|}~][A-Za-z]+|[^\r\n\p{L}\p{P}\p{S}]?[\p{L}\p{M}]+| ?[\p{P}\p{S}]+[\r\n]*|"""
             r"\s*[\r\n]+|\s+(?!\S)|\s+")


# Merges that only some ways to split allow.
ACROSS = (("n", "'t"), ("p", "R"), ("8", "4"))


def split_as(name, pre, *patterns, merges=()):
    """The vocabulary of GPT-2, split by other patterns. merges: more of them."""
    root = json.loads((TOKENIZERS / "gpt2" / "tokenizer.json").read_text())
    used = {token["id"] for token in root["added_tokens"]} | set(root["model"]["vocab"].values())
    for left, right in merges:
        root["model"]["merges"].append([left, right] if isinstance(root["model"]["merges"][0], list) else f"{left} {right}")
        used.add(root["model"]["vocab"].setdefault(left + right, len(used)))
    splits = [{"type": "Split", "pattern": {"Regex": pattern}, "behavior": "Isolated", "invert": False} for pattern in patterns]
    bytes_alone = {"type": "ByteLevel", "add_prefix_space": False, "trim_offsets": True, "use_regex": False}
    root["pre_tokenizer"] = {"type": "Sequence", "pretokenizers": [*splits, bytes_alone]}
    with tempfile.TemporaryDirectory() as folder:
        (Path(folder) / name).mkdir()
        (Path(folder) / name / "tokenizer.json").write_text(json.dumps(root))
        return from_folder(name, pre, folder=Path(folder))


def spm():
    pieces = {"<unk>": 0.0, "<s>": 0.0, "</s>": 0.0} | {f"<0x{b:02X}>": 0.0 for b in range(256)}
    words = ["\u2581", "e", "t", "h", "l", "o", "w", "r", "d", "a", "n", "i", "s", "H", ",", "!", "'", "\u2581t", "he",
             "\u2581the", "ll", "ell", "ello", "Hello", "\u2581H", "\u2581Hello", "or", "ld", "orld", "\u2581w",
             "\u2581world", "wor", "world", "\u2581\u2581", "in", "is", "\u2581is", "it", "ed", "er", "ö", "é", "ea", "le",
             "\u2581a", "re", "en", "tu", "u", "r\u2581", "an", "th", "\u2581th", "lo", "el"]
    random = np.random.Generator(np.random.Philox(7))
    scores = {word: -float(i) for i, word in enumerate(words) if len(word) > 1}
    order = list(scores)
    random.shuffle(order)
    scores = {word: -float(i // 2) for i, word in enumerate(order)}  # pairs of equal scores
    pieces |= {word: scores.get(word, -1000.0 - i) for i, word in enumerate(dict.fromkeys(words))}
    tokens = list(pieces)
    types = [TokenType.UNKNOWN, TokenType.CONTROL, TokenType.CONTROL] + [TokenType.BYTE] * 256
    types += [TokenType.NORMAL] * (len(tokens) - len(types))
    write_tokens("spm", "llama", tokens, types, scores=list(pieces.values()), bos_token_id=1, eos_token_id=2,
                 unk_token_id=0)
    vocab = {token: i for i, token in enumerate(tokens)}
    normal = {t: s for t, s in pieces.items() if types[vocab[t]] == TokenType.NORMAL}
    root = json.loads((TOKENIZERS / "llama2" / "tokenizer.json").read_text())
    root["added_tokens"] = root["added_tokens"][:3]
    root["model"] |= {"vocab": vocab, "merges": [list(m) for m in generate_merges({t: vocab[t] for t in normal}, normal)]}
    tokenizer = Tokenizer.from_str(json.dumps(root))
    return [tokenizer.encode(text).ids for text in STRINGS]


def main():
    torch.set_num_threads(1)
    for name, arch in (("llama_t4", "llama"), ("mistral_t5", "llama"), ("qwen2_t4", "qwen2"), ("qwen3_t4", "qwen3")):
        write_model(name, arch, HERE / f"{name}.gguf")
    prompt = [(5 * i * i + 11 * i + 3) % SMALL["vocab_size"] for i in range(40)]
    (HERE / "others.json").write_text(json.dumps({"prompt": prompt}) + "\n")
    for arch in OTHERS:
        write_other(arch, prompt)
    write_model("llama_t4", "llama", HERE / "split.gguf", split_max_tensors=12)
    write_blocks()
    ids = {"llama3": from_folder("llama3", "llama-bpe", bos_token_id="<|bos|>", eos_token_id="<|eos|>"),
           "qwen2": from_folder("qwen2", "qwen2", add_bos_token=False), "gpt2": from_folder("gpt2", "gpt-2"),
           "gpt4o": split_as("gpt4o", "gpt-4o", GPT4O), "spm": spm(), "falcon": from_folder("falcon", "falcon"),
           "bloom_tokens": split_as("bloom_tokens", "bloom", BLOOM), "deepseek3": split_as("deepseek3", "deepseek-v3", *DEEPSEEK3, merges=ACROSS)}
    (HERE / "tokens.json").write_text(json.dumps({"strings": STRINGS, "ids": ids}) + "\n")


if __name__ == "__main__":
    main()
