#!/usr/bin/env python3
"""Makes scores.json: the log-probabilities that Transformers gives the tokens of prompts of the demo model.

    v/bin/python make_scores.py          # the virtual environment of make.py

Float32 arithmetic on the bfloat16 weights; the logarithm of softmax in float64. The prompts are those of the demo model's greedy.json.

    scores.json    cases: name, prompt_ids, and for each of them but the first: its log-probability given those before it, and the 5
                   likeliest ids there with theirs
"""
import json
import pathlib

import torch
import transformers

HERE = pathlib.Path(__file__).resolve().parent
DEMO = HERE.parents[2] / "model" / "demo"
NAMES = ["bos_only", "opening", "non_ascii", "ruth_129", "john_513"]
N_TOP = 5


def scored(model, ids):
    with torch.no_grad():
        logits = model(torch.tensor([ids])).logits[0]
    logprobs = torch.log_softmax(logits.double(), -1)
    rows = []
    for row, token in zip(logprobs, ids[1:]):
        top = torch.topk(row, N_TOP)
        rows.append({"logprob": round(row[token].item(), 6), "top_ids": top.indices.tolist(),
                     "top": [round(v, 6) for v in top.values.tolist()]})
    return rows


def main():
    cases = {case["name"]: case for case in json.loads((DEMO / "golden" / "greedy.json").read_text())["cases"]}
    model = transformers.AutoModelForCausalLM.from_pretrained(DEMO, dtype=torch.float32).eval()
    made = [{"name": name, "prompt_ids": cases[name]["prompt_ids"], "scores": scored(model, cases[name]["prompt_ids"])}
            for name in NAMES]
    lines = ",\n".join(json.dumps(case, separators=(",", ":")) for case in made)
    (HERE / "scores.json").write_text(
        f'{{"transformers":"{transformers.__version__}","torch":"{torch.__version__.split("+")[0]}","cases":[\n{lines}\n]}}\n')


if __name__ == "__main__":
    torch.set_num_threads(1)
    torch.use_deterministic_algorithms(True)
    main()
