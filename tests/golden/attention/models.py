"""Tiny random models of Transformers, and what enters and leaves their attention.

A model runs a prompt, then token by token with its own cache, masks and position embeddings. Hooks on its projections
record q, k and v as the operator takes them (before bias, norm and RoPE) and what reaches the output projection.
"""
import numpy as np
import torch
import transformers
from torch.nn.functional import linear
from transformers import DynamicCache, EncoderDecoderCache
from transformers.models.llama import modeling_llama

VOCABULARY = 32
PROMPTS, LENS = (13, 24), (19, 30)  # tokens of two sequences: the prompt, all


def fill(model, random):
    """Matrices keep the size of what they multiply, norms are near 1."""
    for name, value in sorted(model.named_parameters()):
        scale = 1.4 / value.shape[-1] ** 0.5 if value.dim() > 1 else 0.3
        if "relative_attention_bias" in name or "sinks" in name or "embed" in name or "wte" in name:
            scale = 1.0
        is_norm = value.dim() == 1 and name.endswith("weight")
        numbers = random.standard_normal(value.shape, dtype=np.float32) * np.float32(scale)
        value.copy_(torch.from_numpy(numbers + np.float32(1 if is_norm else 0)))
    return model.eval()


def build(random, architecture, config, implementation="eager"):
    config._attn_implementation = implementation
    return fill(getattr(transformers, architecture)(config), random)


class Recorder:
    """Rows of every pass through one attention module, in order. split: of a fused projection."""

    def __init__(self, projections, output, split=None):
        self.projections, self.split = projections, split
        self.passes = {name: [] for name in ["output", *(["q", "k", "v"] if split else projections)]}
        for name, module in projections.items():
            module.register_forward_hook(lambda module, inputs, _, name=name: self.project(name, module, inputs[0]))
        output.register_forward_pre_hook(lambda _, inputs: self.passes["output"].append(inputs[0]))

    def project(self, name, module, x):
        rows = linear(x, module.weight)
        parts = dict(zip("qkv", self.split(rows))) if self.split else {name: rows}
        for part, value in parts.items():
            self.passes[part].append(value.reshape(*x.shape[:2], -1))

    def take(self):
        """[rows][width] of a batch of one since the last call."""
        arrays = {name: torch.cat([x[0] for x in passes]) for name, passes in self.passes.items()}
        for passes in self.passes.values():
            passes.clear()
        return {name: arrays[name] for name in ("q", "k", "v", "output")}

    def bias(self):
        if self.split:
            parts = self.split(self.projections["qkv"].bias[None, None])
        else:
            parts = [module.bias for module in self.projections.values()]
        return {"qkv_bias": torch.cat([part.reshape(-1) for part in parts])}


def of_layer(attention, output="o_proj"):
    projections = {name: getattr(attention, f"{name}_proj") for name in "qkv"}
    return Recorder(projections, getattr(attention, output))


def stack(parts):
    return {name: torch.cat([part[name] for part in parts]) for name in parts[0]}


def run(model, recorder, random, position_ids=None):
    """Two sequences, each run alone."""
    parts = []
    for prompt, n in zip(PROMPTS, LENS):
        ids = torch.from_numpy(random.integers(1, VOCABULARY, (1, n)))
        cache = DynamicCache(config=model.config)
        for first, last in [(0, prompt)] + [(i, i + 1) for i in range(prompt, n)]:
            extra = {"attention_mask": torch.ones(1, last, dtype=torch.long)}
            if position_ids is not None:
                extra["position_ids"] = position_ids[None, first:last]
            model(ids[:, first:last], past_key_values=cache, use_cache=True, **extra)
        parts.append(recorder.take())
    return {"lens": np.array(LENS), "prompt_lens": np.array(PROMPTS), **stack(parts)}


LLAMA = {"vocab_size": VOCABULARY, "hidden_size": 32, "intermediate_size": 16, "num_hidden_layers": 1,
         "num_attention_heads": 4, "num_key_value_heads": 2, "max_position_embeddings": 64}


def like_llama(family, layer=0, position_ids=None, extra=lambda recorder, attention: {}, **keys):
    """A case of a model that is built like Llama."""
    def make(random):
        config = getattr(transformers, f"{family}Config")(**{**LLAMA, **keys})
        model = build(random, f"{family}Model", config)
        attention = model.layers[layer].self_attn
        recorder = of_layer(attention)
        return {**run(model, recorder, random, position_ids), **extra(recorder, attention)}
    return make


def norms(_, attention):
    return {"q_norm": attention.q_norm.weight, "k_norm": attention.k_norm.weight}


def sinks_and_bias(recorder, attention):
    return {**recorder.bias(), "sinks": attention.sinks}


def rope(kind, **keys):
    return {"rope_parameters": {"rope_type": kind, "rope_theta": 100.0, **keys}}


def positions():
    """Not the indices: an offset and a gap."""
    return torch.cat([torch.arange(5, 9), torch.arange(20, 20 + max(LENS) - 4)])


def llama_positions(random):
    ids = positions()
    arrays = like_llama("Llama", position_ids=ids, **rope("default"))(random)
    return {**arrays, "positions": torch.cat([ids[:n] for n in LENS])}


TWO_KINDS = {"num_hidden_layers": 2, "layer_types": ["sliding_attention", "full_attention"], "sliding_window": 7}
GEMMA2 = {**TWO_KINDS, "head_dim": 8, "attn_logit_softcapping": 2.0, "query_pre_attn_scalar": 5, **rope("default")}
GPT_OSS = {**TWO_KINDS, "head_dim": 8, "num_local_experts": 2, "num_experts_per_tok": 1, "attention_bias": True,
           **rope("yarn", factor=4.0, beta_fast=32.0, beta_slow=1.0, truncate=False, original_max_position_embeddings=16)}
FACTORS = {"short_factor": [1.0, 1.1, 1.3, 1.4], "long_factor": [1.0, 2.0, 3.0, 4.5]}


def gptj(random):
    model = build(random, "GPTJModel", transformers.GPTJConfig(
        vocab_size=VOCABULARY, n_positions=64, n_embd=32, n_layer=1, n_head=2, rotary_dim=8))
    return run(model, of_layer(model.h[0].attn, "out_proj"), random)


def gpt_neox(random):
    model = build(random, "GPTNeoXModel", transformers.GPTNeoXConfig(
        vocab_size=VOCABULARY, max_position_embeddings=64, hidden_size=32, intermediate_size=16, num_hidden_layers=1,
        num_attention_heads=2, **rope("default", partial_rotary_factor=0.25)))
    attention = model.layers[0].attention
    recorder = Recorder({"qkv": attention.query_key_value}, attention.dense,
                        lambda x: x.unflatten(-1, (2, 3, 16)).unbind(-2))
    return {**run(model, recorder, random), **recorder.bias()}


def bloom(random):
    """7 heads: no power of two."""
    model = build(random, "BloomModel", transformers.BloomConfig(
        vocab_size=VOCABULARY, hidden_size=56, n_layer=1, n_head=7))
    attention = model.h[0].self_attention
    recorder = Recorder({"qkv": attention.query_key_value}, attention.dense,
                        lambda x: x.unflatten(-1, (7, 3, 8)).unbind(-2))
    return {**run(model, recorder, random), **recorder.bias()}


def falcon(random):
    """ALiBi scaled with the scores; one head of keys. Not eager: that adds ALiBi twice in this version, with the mask and
    in the attention, where SDPA and Falcon's original code add it once."""
    model = build(random, "FalconModel", transformers.FalconConfig(
        vocab_size=VOCABULARY, hidden_size=32, num_hidden_layers=1, num_attention_heads=4, alibi=True,
        multi_query=True, new_decoder_architecture=False, bias=False), "sdpa")
    attention = model.h[0].self_attention
    recorder = Recorder({"qkv": attention.query_key_value}, attention.dense,
                        lambda x: [part.flatten(-2) for part in x.unflatten(-1, (6, 8)).split((4, 1, 1), dim=-2)])
    return run(model, recorder, random)


T5_HEADS, T5_ENCODER, T5_DECODER, T5_PROMPT = 2, (140, 9), (40, 11), 5


def t5(random):
    """Encoder, decoder and cross attention: arrays of each."""
    model = build(random, "T5Model", transformers.T5Config(
        vocab_size=VOCABULARY, d_model=16, d_kv=8, d_ff=16, num_heads=T5_HEADS, num_layers=1, num_decoder_layers=1,
        decoder_start_token_id=0))
    modules = [model.encoder.block[0].layer[0].SelfAttention, model.decoder.block[0].layer[0].SelfAttention,
               model.decoder.block[0].layer[1].EncDecAttention]
    recorders = [Recorder({name: getattr(module, name) for name in "qkv"}, module.o) for module in modules]
    parts = [[], [], []]
    for n_encoder, n in zip(T5_ENCODER, T5_DECODER):
        ids = torch.from_numpy(random.integers(1, VOCABULARY, (1, n_encoder + n)))
        encoded = model.encoder(ids[:, :n_encoder])
        cache = EncoderDecoderCache(DynamicCache(), DynamicCache())
        for first, last in [(0, T5_PROMPT)] + [(i, i + 1) for i in range(T5_PROMPT, n)]:
            model(encoder_outputs=encoded, decoder_input_ids=ids[:, n_encoder + first:n_encoder + last],
                  past_key_values=cache, use_cache=True)
        for part, recorder in zip(parts, recorders):
            part.append(recorder.take())
    encoder, decoder, cross = (stack(part) for part in parts)
    n, prompt_lens = max(T5_DECODER), np.full(2, T5_PROMPT)
    return {
        "t5_encoder": {"lens": np.array(T5_ENCODER), **encoder,
                       "buckets": modules[0].relative_attention_bias.weight.T},
        "t5_decoder": {"lens": np.array(T5_DECODER), "prompt_lens": prompt_lens, **decoder,
                       "buckets": modules[1].relative_attention_bias.weight.T,
                       "table": modules[1].compute_bias(n, n)},
        "t5_cross": {"lens": np.array(T5_ENCODER), "query_lens": np.array(T5_DECODER), "prompt_lens": prompt_lens, **cross},
    }


def t5_case(name):
    return lambda _: t5(np.random.Generator(np.random.Philox(key=[17, 5])))[name]


STREAM_WINDOW, STREAM_SINKS = 12, 4


def streaming_llm(random):
    """Xiao et al. 2024, section 3.2: K is cached before RoPE; a new token sees the sinks and the latest tokens, itself
    included, STREAM_WINDOW in all, each at its position inside the cache. The prompt is Llama's own pass."""
    config = transformers.LlamaConfig(**LLAMA, **rope("default"))
    model = build(random, "LlamaModel", config)
    attention = model.layers[0].self_attn
    recorder = of_layer(attention)
    parts = []
    for prompt, n in zip(PROMPTS, LENS):
        model(torch.from_numpy(random.integers(1, VOCABULARY, (1, prompt))), use_cache=False)
        part = recorder.take()
        x = torch.from_numpy(random.standard_normal((n - prompt, 32), dtype=np.float32))
        for name in "qkv":
            part[name] = torch.cat([part[name], linear(x, getattr(attention, f"{name}_proj").weight)])
        for token in range(prompt, n):
            recent = max(STREAM_SINKS, token + 1 - (STREAM_WINDOW - STREAM_SINKS))
            kept = [*range(min(STREAM_SINKS, token + 1)), *range(recent, token + 1)]
            q, k, v = (part[name][rows].view(1, len(rows), -1, 8).transpose(1, 2)
                       for name, rows in (("q", [token]), ("k", kept), ("v", kept)))
            cos, sin = model.rotary_emb(v, torch.arange(len(kept))[None])
            q, _ = modeling_llama.apply_rotary_pos_emb(q, q, cos[:, -1:], sin[:, -1:])
            _, k = modeling_llama.apply_rotary_pos_emb(k, k, cos, sin)
            output, _ = modeling_llama.eager_attention_forward(attention, q, k, v, None, attention.scaling)
            part["output"] = torch.cat([part["output"], output.reshape(1, -1)])
        parts.append(part)
    return {"lens": np.array(LENS), "prompt_lens": np.array(PROMPTS), **stack(parts)}


BEAMS, BEAM_PROMPT, BEAM_STEPS = 3, 11, 10  # steps of one token behind the prompt


def beam_search(random):
    """Transformers reorders its cache after every choice; sources says where each beam's tokens would lie had nothing
    been moved. Rows: the prompt once, then each step's beams."""
    model = build(random, "LlamaForCausalLM", transformers.LlamaConfig(
        **LLAMA, **rope("default"), bos_token_id=None, eos_token_id=None, pad_token_id=0))
    recorder = of_layer(model.model.layers[0].self_attn)
    chosen = []
    reorder = DynamicCache.reorder_cache

    def record(cache, beam_idx):
        chosen.append(beam_idx.tolist())
        reorder(cache, beam_idx)

    DynamicCache.reorder_cache = record
    try:
        ids = torch.from_numpy(random.integers(1, VOCABULARY, (1, BEAM_PROMPT)))
        model.generate(ids, attention_mask=torch.ones_like(ids), num_beams=BEAMS, do_sample=False,
                       max_new_tokens=BEAM_STEPS + 1, min_new_tokens=BEAM_STEPS + 1)
    finally:
        DynamicCache.reorder_cache = reorder
    arrays = {name: torch.cat([recorder.passes[name][0][0], *(x[:, 0] for x in recorder.passes[name][1:])])
              for name in ("q", "k", "v", "output")}
    n = BEAM_PROMPT + BEAM_STEPS
    assert len(arrays["q"]) == BEAM_PROMPT + BEAMS * BEAM_STEPS
    sources, steps = np.zeros((BEAMS, n), np.int64), []
    for step in range(BEAM_STEPS):
        parents, newest = chosen[step], BEAM_PROMPT + step
        sources = sources[parents]
        sources[:, newest] = np.arange(BEAMS)
        steps.append(sources.copy())
    assert any(sorted(parents) != list(range(BEAMS)) for parents in chosen[1:BEAM_STEPS]), "no beam was ever dropped"
    return {"lens": np.array([n]), "prompt_lens": np.array([BEAM_PROMPT]), **arrays, "sources": np.stack(steps)}


CASES = {
    "llama": like_llama("Llama", **rope("default")),
    "llama_positions": llama_positions,
    "llama_dynamic": like_llama("Llama", **{**rope("dynamic", factor=3.0), "max_position_embeddings": 16}),
    "llama_longrope": like_llama("Llama", **rope("longrope", factor=4.0, original_max_position_embeddings=16, **FACTORS)),
    "qwen2": like_llama("Qwen2", extra=lambda recorder, _: recorder.bias(), **rope("default")),
    "qwen3": like_llama("Qwen3", extra=norms, head_dim=16, **rope("default")),
    "mistral": like_llama("Mistral", sliding_window=7, **rope("default")),
    "gemma2_sliding": like_llama("Gemma2", **GEMMA2),
    "gemma2_full": like_llama("Gemma2", layer=1, **GEMMA2),
    "gpt_oss_sliding": like_llama("GptOss", extra=sinks_and_bias, **GPT_OSS),
    "gpt_oss_full": like_llama("GptOss", layer=1, extra=sinks_and_bias, **GPT_OSS),
    "gptj": gptj,
    "gpt_neox": gpt_neox,
    "bloom": bloom,
    "falcon": falcon,
    "t5_encoder": t5_case("t5_encoder"),
    "t5_decoder": t5_case("t5_decoder"),
    "t5_cross": t5_case("t5_cross"),
    "streaming_llm": streaming_llm,
    "beam_search": beam_search,
}
