#!/usr/bin/env python3
"""Makes models.json: beam searches of Transformers with the tiny models of ../models and ../encoders.

    v/bin/python make_models.py           # the virtual environment of ../models/make.py
    v/bin/python make_models.py --check

    models.json   for each model its folder, and cases: parameters, prompt (with an encoder the text), ends, and replies: [score, tokens] of
                  all beams, best first

The ends of a case are tokens that its own greedy reply has, so that beams do end. A case is left out where rounding decides: its replies are
others in float64 or with logits that are moved a little, or two of them have nearly the same score.
"""
import argparse
import json
import os
import sys

import torch
from transformers import AutoModelForCausalLM, AutoModelForSeq2SeqLM, GenerationConfig

HERE = os.path.dirname(os.path.abspath(__file__))
CAUSAL = ["models/llama_t4", "models/qwen3_t4", "models/gemma2_t4", "models/gpt_neox_t5", "models/mistral_t4_window"]
TEXTS = ["encoders/t5_v1_1", "encoders/bart"]
CASES = [{"n_beams": 4, "length_penalty": 1.0, "early_stopping": False}, {"n_beams": 4, "length_penalty": 1.0, "early_stopping": True},
         {"n_beams": 3, "length_penalty": 2.0, "early_stopping": "never"}, {"n_beams": 16, "length_penalty": 0.0, "early_stopping": False},
         {"n_beams": 5, "length_penalty": -1.0, "early_stopping": "never"}, {"n_beams": 2, "length_penalty": 0.5, "early_stopping": False}]
PROMPTS = 2
MAX_TOKENS = 14


def is_close(replies):
    scores = [score for score, _ in replies]
    return any(abs(a - b) <= 2e-5 * (1 + abs(a)) for a, b in zip(scores, scores[1:]))


def config_of(model, **more):
    asked = model.asked
    return GenerationConfig(do_sample=False, use_cache=not model.config.is_encoder_decoder, max_new_tokens=MAX_TOKENS, pad_token_id=1,
                            bos_token_id=asked.bos_token_id, decoder_start_token_id=asked.decoder_start_token_id,
                            forced_bos_token_id=asked.forced_bos_token_id, forced_eos_token_id=asked.forced_eos_token_id, **more)


def load(kind, path, dtype):
    """Its own settings are not to fill in what a case leaves out."""
    model = kind.from_pretrained(path, dtype=dtype, attn_implementation="eager").eval()
    model.asked, model.generation_config = model.generation_config, GenerationConfig()
    return model


class Shake:
    """Moves each logit a little: a few times the rounding of float32."""

    def __init__(self):
        self.random = torch.Generator().manual_seed(11)

    def __call__(self, _, scores):
        return scores + 4e-6 * (torch.rand(scores.shape, generator=self.random, dtype=scores.dtype) - 0.5)


def search(model, case, prompt, has_text, shakes=False):
    config = config_of(model, num_beams=case["n_beams"], num_return_sequences=case["n_beams"], length_penalty=case["length_penalty"],
                       early_stopping=case["early_stopping"], eos_token_id=case["ends"] or None, return_dict_in_generate=True,
                       output_scores=True, output_logits=True)
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                             generation_config=config, logits_processor=[Shake()] if shakes else [])
    n_before = 1 if has_text else len(prompt)
    return [[float(score), row[n_before:n_before + int((beams >= 0).sum())].tolist()]
            for score, row, beams in zip(out.sequences_scores, out.sequences, out.beam_indices)]


def ends_of(model, prompt, n, has_text):
    with torch.no_grad():
        row = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                             generation_config=config_of(model, num_beams=1, eos_token_id=None))[0]
    reply = row[1 if has_text else len(prompt):].tolist()
    return sorted(set(reply[3:12:3]))[:n]


def make():
    listed, n_left_out = [], 0
    for folder in CAUSAL + TEXTS:
        has_text = folder in TEXTS
        kind = AutoModelForSeq2SeqLM if has_text else AutoModelForCausalLM
        path = os.path.join(HERE, "..", folder)
        model, wide = load(kind, path, torch.float32), load(kind, path, torch.float64)
        random = torch.Generator().manual_seed(5)
        kept = []
        for i, case in enumerate(CASES * PROMPTS):
            n = 9 + 7 * (i % 3)
            prompt = torch.randint(4, model.config.get_text_config().vocab_size, (n,), generator=random).tolist()
            case = case | {"ends": ends_of(model, prompt, i % 3, has_text)}
            replies = search(model, case, prompt, has_text)
            others = [search(wide, case, prompt, has_text), search(model, case, prompt, has_text, shakes=True)]
            if is_close(replies) or any([t for _, t in replies] != [t for _, t in other] for other in others):
                n_left_out += 1
                continue
            kept.append(case | {"max_tokens": MAX_TOKENS, "prompt": prompt, "replies": replies})
        listed.append({"folder": folder, "has_text": has_text, "cases": kept})
        print(folder, len(kept), "cases")
    print(n_left_out, "left out")
    return listed


def is_same(old, new):
    return old["folder"] == new["folder"] and len(old["cases"]) == len(new["cases"]) and all(
        a["prompt"] == b["prompt"] and a["ends"] == b["ends"] and [t for _, t in a["replies"]] == [t for _, t in b["replies"]] and
        all(abs(x - y) < 2e-5 * (1 + abs(x)) for (x, _), (y, _) in zip(a["replies"], b["replies"]))
        for a, b in zip(old["cases"], new["cases"]))


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    check = parser.parse_args().check
    made, path = make(), os.path.join(HERE, "models.json")
    if check:
        with open(path) as file:
            old = json.load(file)
        sys.exit(0 if len(old) == len(made) and all(map(is_same, old, made)) else "models.json differs")
    with open(path, "w") as file:
        file.write("[\n" + ",\n".join(json.dumps(model) for model in made) + "\n]\n")


if __name__ == "__main__":
    main()
