#!/usr/bin/env python3
"""Writes smollm2.json: what Transformers and `tokenizers` make of the folder. Not run by CI.

    reference.py FOLDER     in a venv of tests/golden/models/requirements.txt

Greedy, float32 arithmetic on the BF16 weights, no padding, one prompt at a time. A case has the
log-probability of each token, and how far the logit of a chosen token was ahead of the next best
where that was the least: what other arithmetic may be off before the text may differ.
"""

import json
import pathlib
import sys

import torch
from tokenizers import Tokenizer
from transformers import AutoModelForCausalLM, AutoTokenizer

FOLDER = sys.argv[1]
OUT = pathlib.Path(__file__).resolve().parent / "smollm2.json"
MAX_TOKENS = 48
QUESTIONS = [
    "What is the capital of France?",
    "Why is the sky blue?",
    "List three fruits that are yellow.",
    "How many days are there in a week?",
    "Explain what a prime number is, with an example.",
    "Who wrote Romeo and Juliet?",
    "What is 12 plus 30?",
    "Name the planets of the solar system.",
    "What does a compiler do?",
    "What is photosynthesis?",
]
TEXTS = [
    "The quick brown fox jumps over the lazy dog.",
    "In 1969, 2 of 3 astronauts walked; it's 384,400 km away.",
    "columns:   12    3456  7\n",
    "naïve café, Straße, Ελληνικά, русский язык, العربية",
    "日本語のテキスト 🙂 👩\u200d👩\u200d👧",
    "def f(x):\n    return x ** 2\t# squared\r\n\n",
    "<|im_start|>system\nBe brief.<|im_end|>\n<|im_start|>user\nHi<|im_end|>\n",
    "  leading, trailing and   inner spaces   ",
    "\0 and \x7f are characters, too",
]


def greedy(model, prompt_ids):
    """The new ids, their log-probabilities, and the least gap."""
    with torch.no_grad():
        output = model.generate(
            torch.tensor([prompt_ids]),
            max_new_tokens=MAX_TOKENS,
            do_sample=False,
            return_dict_in_generate=True,
            output_logits=True,
        )
    logits = torch.cat(output.logits)
    best_two = logits.topk(2).values
    logprobs = logits.log_softmax(-1).max(-1).values.tolist()
    return {
        "ids": output.sequences[0, len(prompt_ids) :].tolist(),
        "logprobs": [round(logprob, 4) for logprob in logprobs],
        "least_gap": round((best_two[:, 0] - best_two[:, 1]).min().item(), 4),
    }


def make_case(question, chat, tokenizer, model):
    messages = [{"role": "user", "content": question}]
    prompt = chat.apply_chat_template(messages, add_generation_prompt=True, tokenize=False)
    prompt_ids = tokenizer.encode(prompt, add_special_tokens=False).ids
    case = {"question": question, "prompt": prompt, "prompt_ids": prompt_ids}
    case |= greedy(model, prompt_ids)
    return case | {"text": tokenizer.decode(case["ids"], skip_special_tokens=True)}


def make_text(text, tokenizer):
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    assert tokenizer.decode(ids, skip_special_tokens=False) == text
    return {"text": text, "ids": ids}


def row(value):
    return json.dumps(value, ensure_ascii=False)


def main():
    tokenizer = Tokenizer.from_file(f"{FOLDER}/tokenizer.json")
    chat = AutoTokenizer.from_pretrained(FOLDER)
    model = AutoModelForCausalLM.from_pretrained(FOLDER, dtype=torch.float32).eval()
    cases = [row(make_case(question, chat, tokenizer, model)) for question in QUESTIONS]
    texts = [row(make_text(text, tokenizer)) for text in TEXTS]
    cases, texts = (",\n  ".join(rows) for rows in (cases, texts))
    OUT.write_text(
        f'{{"max_tokens": {MAX_TOKENS},\n "cases": [\n  {cases}],\n "texts": [\n  {texts}]}}\n',
        encoding="utf-8",
    )


main()
