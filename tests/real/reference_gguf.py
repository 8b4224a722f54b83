#!/usr/bin/env python3
"""Writes smollm2_gguf.json: what Transformers makes of the GGUF file itself. Not run by CI.

    reference_gguf.py FILE     in a venv of tests/golden/models/requirements.txt and accelerate

Float32 arithmetic on the values of the file's blocks: the log-probability of each token of a text.
"""

import json
import pathlib
import sys

import torch
from transformers import AutoModelForCausalLM, AutoTokenizer

FILE = pathlib.Path(sys.argv[1])
HERE = pathlib.Path(__file__).resolve().parent
TEXT_BYTES = 2000


def main():
    text = (HERE.parent.parent / "docs" / "glossary.md").read_text(encoding="utf-8")[:TEXT_BYTES]
    options = {"gguf_file": FILE.name}
    ids = AutoTokenizer.from_pretrained(FILE.parent, **options)(text, add_special_tokens=False).input_ids
    model = AutoModelForCausalLM.from_pretrained(FILE.parent, dtype=torch.float32, **options).eval()
    with torch.no_grad():
        rows = model(torch.tensor([ids])).logits[0].double().log_softmax(-1)
    logprobs = [round(rows[i, ids[i + 1]].item(), 6) for i in range(len(ids) - 1)]
    reference = {"text": text, "ids": ids, "logprobs": logprobs}
    (HERE / "smollm2_gguf.json").write_text(json.dumps(reference) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
