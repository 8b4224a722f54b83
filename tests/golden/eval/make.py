#!/usr/bin/env python3
"""Perplexities of the demo model by Transformers, in float32, for tests/e2e/eval_test.c.

    pip install -r ../models/requirements.txt && python make.py      writes expected.json beside itself
"""
import json
import math
from pathlib import Path

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

HERE = Path(__file__).parent
MODEL = HERE.parents[2] / "model" / "demo"
WINDOWS = [(512, 0), (100, 0), (128, 64), (64, 1)]


def perplexity(model, ids, bos, window, stride):
    """Each window has bos first; a token is predicted once, by the first window that has it."""
    done = at = 0
    log_sum, n = 0.0, 0
    while done < len(ids):
        part = ids[at:at + window - 1]
        tokens = torch.tensor([[bos] + part])
        with torch.no_grad():
            logits = torch.log_softmax(model(tokens).logits[0].double(), -1)
        for i in range(max(done - at, 0) + 1, tokens.shape[1]):
            log_sum += logits[i - 1, tokens[0, i]].item()
            n += 1
        done = at + len(part)
        at += stride or window - 1
    return {"window_tokens": window, "stride_tokens": stride, "tokens": n, "perplexity": math.exp(-log_sum / n)}


def main():
    model = AutoModelForCausalLM.from_pretrained(MODEL, dtype=torch.float32).eval()
    tokenizer = AutoTokenizer.from_pretrained(MODEL)
    text = (HERE / "text.txt").read_text(encoding="utf-8")
    ids = tokenizer(text, add_special_tokens=False).input_ids
    rows = [perplexity(model, ids, tokenizer.bos_token_id, window, stride) for window, stride in WINDOWS]
    for row in rows:
        row["bits_per_byte"] = row["tokens"] * math.log2(row["perplexity"]) / len(text.encode())
    (HERE / "expected.json").write_text(json.dumps({"rows": rows}, indent=1) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
