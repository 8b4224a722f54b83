#!/usr/bin/env python3
"""Makes sampling.json and sampling.f32: the tokens that Transformers' logits processors leave to draw, and draws them.

    v/bin/python make_sampling.py           # the virtual environment of make.py

Order as in model/sampling/sampler.h. Repetition penalty, repeated n-grams, temperature, top-k, top-p, min-p, typical, epsilon and
eta are Transformers' own processors; presence and frequency penalty, which it has not, are the formula of the public API. The uniform number of a
(seed, position) is computed as model/sampling/sampler.h says, and the token is the first, in that header's order (the 256 first
ranks of the logits after the penalties, then the others by id), whose running sum exceeds it; a draw that lies within
1e-5 of a border between two tokens is left out.

    sampling.json    vectors of logits in the .f32 file; cases: parameters, tokens, and [seed, token] pairs;
                     logprobs: for each vector the 20 likeliest ids and the log of their softmax
    sampling.f32     float32 little-endian [N_VECTORS][VOCABULARY]
"""
import itertools
import json
import os

import numpy as np
import torch
from transformers import generation

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 300
N_VECTORS = 4
N_DRAWS = 24
N_TOP = 20
N_RANKED = 256
MASK = (1 << 64) - 1
GOLDEN = 0x9E3779B97F4A7C15
NONE = {"temperature": 1.0, "top_k": 0, "top_p": 1.0, "min_p": 0.0, "repetition_penalty": 1.0, "presence_penalty": 0.0,
        "frequency_penalty": 0.0, "typical_p": 1.0, "epsilon_cutoff": 0.0, "eta_cutoff": 0.0, "no_repeat_ngram_size": 0}
ALONE = {"temperature": [0.0, 0.3, 1.0, 2.5], "top_k": [1, 2, 40, 299, 300, 5000], "top_p": [0.01, 0.5, 0.9, 0.999],
         "min_p": [0.02, 0.5], "repetition_penalty": [0.5, 1.3, 10.0], "presence_penalty": [-2.0, 0.7, 2.0],
         "frequency_penalty": [-0.5, 0.4, 2.0]}
TOGETHER = {"temperature": [0.7, 1.8], "top_k": [0, 20], "top_p": [1.0, 0.8], "min_p": [0.0, 0.05],
            "repetition_penalty": [1.0, 1.2], "presence_penalty": [0.0, 1.1], "frequency_penalty": [0.3]}
FILTERS_ALONE = {"typical_p": [0.05, 0.3, 0.7, 0.95, 0.999], "epsilon_cutoff": [3e-4, 4e-3, 0.03, 0.9],
                 "eta_cutoff": [3e-4, 4e-3, 0.1, 0.9], "no_repeat_ngram_size": [1, 2, 3, 64]}
FILTERS_TOGETHER = {"temperature": [0.7, 1.8], "top_k": [0, 20], "top_p": [1.0, 0.8], "min_p": [0.0, 0.05], "typical_p": [1.0, 0.6],
                    "epsilon_cutoff": [0.0, 0.004], "eta_cutoff": [0.02], "no_repeat_ngram_size": [0, 2]}


def mix(x):
    x = ((x ^ (x >> 30)) * 0xBF58476D1CE4E5B9) & MASK
    x = ((x ^ (x >> 27)) * 0x94D049BB133111EB) & MASK
    return x ^ (x >> 31)


def uniform(seed, position):
    return (mix((mix((seed + GOLDEN) & MASK) + (position + 1) * GOLDEN) & MASK) >> 11) * 2.0 ** -53


def penalised(logits, tokens, n_prompt, p):
    ids, scores = torch.tensor([tokens]), torch.from_numpy(logits)[None].clone()
    if p["repetition_penalty"] != 1:
        scores = generation.RepetitionPenaltyLogitsProcessor(p["repetition_penalty"])(ids, scores)
    if p["no_repeat_ngram_size"] > 0:
        scores = generation.NoRepeatNGramLogitsProcessor(p["no_repeat_ngram_size"])(ids, scores)
    counts = np.bincount(np.array(tokens[n_prompt:], dtype=int), minlength=VOCABULARY)
    return scores - torch.from_numpy(
        (p["presence_penalty"] * (counts > 0) + p["frequency_penalty"] * counts).astype(np.float32))


def filtered(scores, p):
    if p["temperature"] not in (0.0, 1.0):
        scores = generation.TemperatureLogitsWarper(p["temperature"])(None, scores)
    if p["top_k"]:
        scores = generation.TopKLogitsWarper(p["top_k"])(None, scores)
    if p["top_p"] < 1:
        scores = generation.TopPLogitsWarper(p["top_p"])(None, scores)
    if p["min_p"] > 0:
        scores = generation.MinPLogitsWarper(p["min_p"])(None, scores)
    if p["typical_p"] < 1:
        scores = generation.TypicalLogitsWarper(p["typical_p"])(None, scores)
    if p["epsilon_cutoff"] > 0:
        scores = generation.EpsilonLogitsWarper(p["epsilon_cutoff"])(None, scores)
    if p["eta_cutoff"] > 0:
        scores = generation.EtaLogitsWarper(p["eta_cutoff"])(None, scores)
    return scores[0].double().numpy()


def order_of(scores):
    ranks = np.argsort(-scores, kind="stable")
    return np.concatenate([ranks[:N_RANKED], np.sort(ranks[N_RANKED:])])


def draws(scores, order, temperature, position, first_seed):
    if temperature == 0:
        return [[first_seed, int(scores.argmax())]]
    sums = np.cumsum(np.exp(scores - scores.max())[order])
    sums /= sums[-1]
    pairs = []
    for seed in itertools.count(first_seed):
        u = uniform(seed, position)
        if np.abs(sums - u).min() > 1e-5:
            pairs.append([seed, int(order[np.searchsorted(sums, u, side="right")])])
        if len(pairs) == N_DRAWS:
            return pairs


def make_case(rng, vectors, index, changes):
    parameters = {**NONE, **changes}
    vector = index % N_VECTORS
    tokens = rng.integers(0, 40, int(rng.integers(1, 60))).tolist()
    n_prompt = int(rng.integers(0, len(tokens) + 1))
    before = penalised(vectors[vector], tokens, n_prompt, parameters)
    scores = filtered(before, parameters)
    seed = int(rng.integers(0, 1 << 63)) if index % 2 else index * 1000
    return {"vector": vector, "parameters": changes, "tokens": tokens, "n_prompt": n_prompt,
            "draws": draws(scores, order_of(before[0].numpy()), parameters["temperature"], len(tokens), seed)}


def logprobs_of(vector):
    logprobs = torch.log_softmax(torch.from_numpy(vector).double(), 0).numpy()
    order = np.argsort(-logprobs, kind="stable")[:N_TOP]
    return {"ids": order.tolist(), "logprobs": [round(float(logprobs[i]), 7) for i in order]}


def main():
    rng = np.random.Generator(np.random.Philox(20260101))
    vectors = (rng.standard_normal((N_VECTORS, VOCABULARY)) * [[0.5], [1.5], [3.0], [8.0]]).astype("<f4")
    changes = []
    for alone, together in ((ALONE, TOGETHER), (FILTERS_ALONE, FILTERS_TOGETHER)):
        changes += [{key: value} for key, values in alone.items() for value in values]
        changes += [dict(zip(together, values)) for values in itertools.product(*together.values())]
    cases = [make_case(rng, vectors, index, change) for index, change in enumerate(changes)]
    vectors.tofile(os.path.join(HERE, "sampling.f32"))
    with open(os.path.join(HERE, "sampling.json"), "w") as file:
        json.dump({"vocabulary": VOCABULARY, "vectors": N_VECTORS, "cases": cases,
                   "logprobs": [logprobs_of(vector) for vector in vectors]}, file, separators=(",", ":"))
        file.write("\n")
    print(len(cases), "cases,", sum(len(case["draws"]) for case in cases), "draws")


if __name__ == "__main__":
    main()
