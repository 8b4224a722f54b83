#!/usr/bin/env python3
"""Makes the logits of replies with attention sinks, from the layers of Transformers and from the text of the paper.

    v/bin/python make.py             # the virtual environment of ../models
    v/bin/python make.py --check     # makes them again and compares

StreamingLLM (Xiao et al. 2024, arXiv 2309.17453, section 3.2). The prompt sees all its tokens. A token of the reply sees the first
SINKS tokens and the last WINDOW - SINKS, its own among them; keys are cached before RoPE, and the visible ones have the positions
0, 1, 2, ... in their order. Float32 arithmetic.

    NAME.json   the model's folder in ../models, window, sinks, the prompt, the reply that is given token by token
    NAME.f32    [1 + len(reply)][vocabulary] logits: of the prompt's last token, then of each token of the reply
"""
import argparse
import json
import pathlib
import sys

import numpy
import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
MODELS = HERE.parent / "models"
CASES = {"llama": ("llama_t4", 16, 3), "qwen3": ("qwen3_t4", 20, 1), "smollm3": ("smollm3_t4", 24, 8)}
PROMPT, REPLY = 37, 220


def rotated(layer, x, cos, sin):
    """x: [heads][tokens][dim]"""
    half = x.shape[-1] // 2
    turned = torch.cat((-x[..., half:], x[..., :half]), -1)
    return x * cos + turned * sin


class Streams:
    def __init__(self, folder, window, sinks):
        self.model = transformers.AutoModelForCausalLM.from_pretrained(
            folder, dtype=torch.float32, attn_implementation="eager").eval()
        self.window, self.sinks = window, sinks
        self.keys = [[] for _ in self.model.model.layers]
        self.values = [[] for _ in self.model.model.layers]

    def angles(self, n):
        positions = torch.arange(n)[None]
        cos, sin = self.model.model.rotary_emb(torch.zeros(1, n, 1), positions)
        return cos[0], sin[0]

    def visible(self, index, is_reply):
        if not is_reply or index < self.window:
            return list(range(index + 1))
        return list(range(self.sinks)) + list(range(index + 1 - (self.window - self.sinks), index + 1))

    def attend(self, number, layer, x, index, is_reply):
        attention = layer.self_attn
        dim = attention.head_dim
        q, k, v = (part(x).view(-1, dim) for part in (attention.q_proj, attention.k_proj, attention.v_proj))
        if hasattr(attention, "q_norm"):
            q, k = attention.q_norm(q), attention.k_norm(k)
        self.keys[number].append(k)
        self.values[number].append(v)
        seen = self.visible(index, is_reply)
        keys = torch.stack([self.keys[number][i] for i in seen], 1)  # [kv heads][seen][dim]
        values = torch.stack([self.values[number][i] for i in seen], 1)
        q = q[:, None]
        if getattr(attention, "use_rope", True):
            cos, sin = self.angles(len(seen))
            keys = rotated(layer, keys, cos, sin)
            q = rotated(layer, q, cos[-1:], sin[-1:])
        group = q.shape[0] // keys.shape[0]
        keys, values = keys.repeat_interleave(group, 0), values.repeat_interleave(group, 0)
        scores = (q @ keys.transpose(1, 2)) * attention.scaling
        return attention.o_proj((scores.softmax(-1) @ values).reshape(-1))

    def step(self, token, index, is_reply):
        inner = self.model.model
        hidden = inner.embed_tokens(torch.tensor(token))
        for number, layer in enumerate(inner.layers):
            hidden = hidden + self.attend(number, layer, layer.input_layernorm(hidden), index, is_reply)
            hidden = hidden + layer.mlp(layer.post_attention_layernorm(hidden))
        return self.model.lm_head(inner.norm(hidden))


def make(name):
    folder, window, sinks = CASES[name]
    streams = Streams(MODELS / folder, window, sinks)
    vocabulary = streams.model.config.vocab_size
    ids = numpy.random.default_rng(7).integers(3, vocabulary, PROMPT + REPLY).tolist()
    with torch.no_grad():
        rows = [streams.step(token, i, i >= PROMPT) for i, token in enumerate(ids)]
        whole = streams.model(torch.tensor([ids[:PROMPT]])).logits[0, -1]
    assert (rows[PROMPT - 1] - whole).abs().max() < 1e-5 * whole.abs().max(), "the prompt is computed as Transformers computes it"
    logits = torch.stack(rows[PROMPT - 1:]).numpy().astype("<f4")
    facts = {"folder": folder, "window": window, "sinks": sinks, "prompt": ids[:PROMPT], "reply": ids[PROMPT:]}
    return json.dumps(facts, separators=(",", ":")) + "\n", logits


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--check", action="store_true")
    checks = parser.parse_args().check
    for name in CASES:
        facts, logits = make(name)
        if not checks:
            (HERE / f"{name}.json").write_text(facts)
            logits.tofile(HERE / f"{name}.f32")
            continue
        old = numpy.fromfile(HERE / f"{name}.f32", "<f4").reshape(logits.shape)
        if (HERE / f"{name}.json").read_text() != facts or abs(old - logits).max() > 1e-5 * abs(old).max():
            sys.exit(f"{name} differs")


if __name__ == "__main__":
    torch.set_num_threads(1)
    main()
