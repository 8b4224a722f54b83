#!/usr/bin/env python3
"""Makes rules.json: the tokens that Transformers' processors leave to draw of a request with rules, and draws them.

    v/bin/python make_rules.py           # the virtual environment of make.py, behind make_sampling.py

The logits, the draw and the parameters are those of make_sampling.py. Order as in model/sampling/sampler.h: penalties; biases
(SequenceBiasLogitsProcessor of single tokens); then -inf for what is not allowed (SuppressTokensLogitsProcessor), for
ends before min_tokens (MinNewTokensLengthLogitsProcessor), and for bad sequences (NoBadWordsLogitsProcessor, which is
shown the generated tokens alone, as the public API says).

    rules.json    ends: the model's end-of-sequence tokens; cases: vector (of sampling.f32), parameters, rules, tokens, and
                  [seed, token] pairs
"""
import json
import os

import numpy as np
import torch
from transformers import generation

from make_sampling import HERE, N_VECTORS, NONE, VOCABULARY, draws, filtered, order_of, penalised

ENDS = [3, 17]
N_CASES = 120


def ruled(scores, tokens, n_prompt, rules):
    ids, made = torch.tensor([tokens]), torch.tensor([[-1] + tokens[n_prompt:]])  # one as long as all is left out else
    if rules["logit_bias"]:
        scores = generation.SequenceBiasLogitsProcessor([[[t], b] for t, b in rules["logit_bias"]])(ids, scores)
    if rules["allowed"]:
        rest = sorted(set(range(VOCABULARY)) - set(rules["allowed"]))
        scores = generation.SuppressTokensLogitsProcessor(rest)(ids, scores)
    if rules["min_tokens"]:
        ends = ENDS + rules["stop_token_ids"]
        scores = generation.MinNewTokensLengthLogitsProcessor(n_prompt, rules["min_tokens"], ends)(ids, scores)
    if rules["bad"]:
        scores = generation.NoBadWordsLogitsProcessor(rules["bad"])(made, scores)
    return scores


def make_rules(rng, vector, tokens, n_prompt):
    likeliest = np.argsort(-vector)[:40].tolist()
    pick = lambda n: [int(t) for t in rng.permutation(likeliest + list(range(40)))[:n]]
    rules = {"logit_bias": [], "allowed": [], "bad": [], "min_tokens": 0, "stop_token_ids": []}
    if rng.random() < 0.5:
        ids = sorted(set(pick(int(rng.integers(1, 20)))))
        rules["logit_bias"] = [[t, float(np.float32(rng.normal() * 4))] for t in ids]
    if rng.random() < 0.3:
        rules["allowed"] = sorted(set(pick(int(rng.integers(20, 60)))))
    if rng.random() < 0.5:
        before = tokens[n_prompt:]
        for n in rng.integers(0, min(4, len(before) + 1), 6):
            rules["bad"].append(before[len(before) - int(n):] + pick(1))
        rules["bad"].append(pick(3))
        rules["bad"] = [list(s) for s in sorted({tuple(s) for s in rules["bad"]})]
    if rng.random() < 0.5:
        rules["min_tokens"] = int(rng.integers(1, 30))
        rules["stop_token_ids"] = sorted(set(pick(int(rng.integers(0, 5)))))
    return rules


def make_case(rng, vectors, index):
    vector = vectors[index % N_VECTORS]
    changes = {"temperature": [0.0, 0.7, 1.5][index % 3]}
    if rng.random() < 0.4:
        changes["repetition_penalty"], changes["presence_penalty"] = 1.3, 0.7
    if rng.random() < 0.3:
        changes["top_p"] = 0.9
    parameters = {**NONE, **changes}
    tokens = rng.integers(0, 40, int(rng.integers(2, 40))).tolist()
    n_prompt = int(rng.integers(1, len(tokens)))
    rules = make_rules(rng, vector, tokens, n_prompt)
    before = ruled(penalised(vector, tokens, n_prompt, parameters), tokens, n_prompt, rules)
    if not torch.isfinite(before).any():
        raise SystemExit("nothing is left: choose another seed")
    scores = filtered(before, parameters)
    return {"vector": index % N_VECTORS, "parameters": changes, "rules": rules, "tokens": tokens, "n_prompt": n_prompt,
            "draws": draws(scores, order_of(before[0].numpy()), parameters["temperature"], len(tokens), index * 1000)}


def main():
    rng = np.random.Generator(np.random.Philox(20260303))
    vectors = np.fromfile(os.path.join(HERE, "sampling.f32"), "<f4").reshape(N_VECTORS, VOCABULARY)
    cases = [make_case(rng, vectors, index) for index in range(N_CASES)]
    with open(os.path.join(HERE, "rules.json"), "w") as file:
        json.dump({"ends": ENDS, "cases": cases}, file, separators=(",", ":"))
        file.write("\n")
    print(len(cases), "cases,", sum(len(case["draws"]) for case in cases), "draws")


if __name__ == "__main__":
    main()
