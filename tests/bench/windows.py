"""What a sequence of 32,768 tokens takes in models whose layers have windows, as `kvferry check-model` counts it: their layers, heads
and windows, with small matrices of zeros where K and V do not depend on them."""

import json
import pathlib
import struct
import subprocess
import tempfile

N_TOKENS = 32768
HIDDEN, INNER, VOCABULARY, EXPERTS = 64, 32, 256, 2


def layers(n, period):
    """Each period-th layer sees all tokens."""
    return ["full_attention" if (i + 1) % period == 0 else "sliding_attention" for i in range(n)]


COMMON = {"hidden_size": HIDDEN, "intermediate_size": INNER, "vocab_size": VOCABULARY, "rms_norm_eps": 1e-6, "torch_dtype": "bfloat16", "eos_token_id": 1}
MODELS = {
    "Gemma 3 270M": COMMON | {
        "architectures": ["Gemma3ForCausalLM"], "model_type": "gemma3_text", "num_hidden_layers": 18, "layer_types": layers(18, 6),
        "num_attention_heads": 4, "num_key_value_heads": 1, "head_dim": 256, "query_pre_attn_scalar": 256, "sliding_window": 512,
        "max_position_embeddings": N_TOKENS, "rope_theta": 1e6, "rope_local_base_freq": 1e4, "hidden_activation": "gelu_pytorch_tanh"},
    "gpt-oss 20B": COMMON | {
        "architectures": ["GptOssForCausalLM"], "model_type": "gpt_oss", "num_hidden_layers": 24, "layer_types": layers(24, 2),
        "num_attention_heads": 64, "num_key_value_heads": 8, "head_dim": 64, "sliding_window": 128, "max_position_embeddings": 131072,
        "rope_theta": 150000, "attention_bias": True, "hidden_act": "silu", "num_local_experts": EXPERTS, "num_experts_per_tok": EXPERTS,
        "tie_word_embeddings": False, "swiglu_limit": 7.0},
}


def attention_tensors(config):
    q, kv = (config[key] * config["head_dim"] for key in ("num_attention_heads", "num_key_value_heads"))
    yield from ((f"{name}_proj.weight", shape) for name, shape in {"q": (q, HIDDEN), "k": (kv, HIDDEN), "v": (kv, HIDDEN), "o": (HIDDEN, q)}.items())
    if config["model_type"] == "gpt_oss":
        yield from ((f"{name}_proj.bias", (n,)) for name, n in {"q": q, "k": kv, "v": kv, "o": HIDDEN}.items())
        yield "sinks", (config["num_attention_heads"],)
    else:
        yield from ((f"{name}_norm.weight", (config["head_dim"],)) for name in "qk")


def layer_tensors(config):
    yield from ((f"self_attn.{name}", shape) for name, shape in attention_tensors(config))
    yield from ((f"{name}_layernorm.weight", (HIDDEN,)) for name in ("input", "post_attention"))
    if config["model_type"] == "gpt_oss":
        yield from (("mlp.router.weight", (EXPERTS, HIDDEN)), ("mlp.router.bias", (EXPERTS,)))
        yield from (("mlp.experts.gate_up_proj", (EXPERTS, HIDDEN, 2 * INNER)), ("mlp.experts.gate_up_proj_bias", (EXPERTS, 2 * INNER)))
        yield from (("mlp.experts.down_proj", (EXPERTS, INNER, HIDDEN)), ("mlp.experts.down_proj_bias", (EXPERTS, HIDDEN)))
    else:
        yield from ((f"{name}_feedforward_layernorm.weight", (HIDDEN,)) for name in ("pre", "post"))
        yield from ((f"mlp.{name}_proj.weight", (INNER, HIDDEN)) for name in ("gate", "up"))
        yield "mlp.down_proj.weight", (HIDDEN, INNER)


def tensors(config):
    yield from (("model.embed_tokens.weight", (VOCABULARY, HIDDEN)), ("model.norm.weight", (HIDDEN,)))
    if not config.get("tie_word_embeddings", True):
        yield "lm_head.weight", (VOCABULARY, HIDDEN)
    for layer in range(config["num_hidden_layers"]):
        yield from ((f"model.layers.{layer}.{name}", shape) for name, shape in layer_tensors(config))


def write_model(folder, config):
    head, at = {}, 0
    for name, shape in tensors(config):
        n = 2
        for size in shape:
            n *= size
        head[name] = {"dtype": "BF16", "shape": shape, "data_offsets": [at, at + n]}
        at += n
    text = json.dumps(head).encode()
    with open(folder / "model.safetensors", "wb") as file:
        file.write(struct.pack("<Q", len(text)) + text)
        file.truncate(8 + len(text) + at)
    (folder / "config.json").write_text(json.dumps(config))


def measure(binary):
    """By model: bytes of a sequence, and of one whose blocks hold all layers."""
    found = {}
    for name, config in MODELS.items():
        with tempfile.TemporaryDirectory() as folder:
            write_model(pathlib.Path(folder), config)
            run = subprocess.run([binary, "check-model", "--json", "--no-tokenizer", "--max-context-tokens", str(N_TOKENS), folder],
                                 capture_output=True, text=True, check=False)
        if run.returncode != 0:
            raise SystemExit(f"check-model of {name}: {run.stdout}{run.stderr}")
        windows = json.loads(run.stdout)["windows"]
        found[name] = (windows["sequence_bytes"], windows["sequence_bytes_whole"])
    return found
