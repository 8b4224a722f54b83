#!/usr/bin/env python3
"""Makes beams.json and beams.f32: beam searches of Transformers.

    v/bin/python make.py           # the virtual environment of ../models/make.py
    v/bin/python make.py --check

The model is a table: the logits behind a token are a row that its id and its position say. So a test can play the model, and sees the
search alone. Tables differ in how sharp they are; the first tokens, which end replies in the cases that say so, are made likelier.

    beams.json    cases: the table, parameters, the prompt; replies: [score, tokens] of all beams, best first
    beams.f32     float32 little-endian [N_TABLES][VOCABULARY][VOCABULARY]

A case is left out where the order of sums decides: its replies are others when the table is computed in float64, or two of its replies
have the same score.
"""
import argparse
import json
import os
import sys

import numpy as np
import torch
from transformers import GenerationConfig, GenerationMixin, PretrainedConfig, PreTrainedModel
from transformers.modeling_outputs import CausalLMOutput

HERE = os.path.dirname(os.path.abspath(__file__))
VOCABULARY = 80
SHARPNESS = [0.5, 1.5, 3.0]
N_ENDS = 4
STRIDE = 11  # the row behind the last of n tokens: (id + STRIDE * n) % VOCABULARY


class TableConfig(PretrainedConfig):
    model_type = "table"


class TableModel(PreTrainedModel, GenerationMixin):
    config_class = TableConfig

    def __init__(self, config, table):
        super().__init__(config)
        self.table = torch.nn.Parameter(torch.from_numpy(table))
        self.post_init()

    def _init_weights(self, module):
        pass

    def forward(self, input_ids, attention_mask=None, **_):
        return CausalLMOutput(logits=self.table[(input_ids + STRIDE * torch.arange(1, input_ids.shape[1] + 1)) % VOCABULARY])

    def prepare_inputs_for_generation(self, input_ids, attention_mask=None, **_):
        return {"input_ids": input_ids}


def tables():
    random = np.random.RandomState(20261201)
    made = []
    for sharpness in SHARPNESS:
        table = (random.standard_normal((VOCABULARY, VOCABULARY)) * sharpness).astype(np.float32)
        table[:, :N_ENDS] += np.float32(1.2 * sharpness)
        made.append(table)
    return made


def cases():
    none = {"n_beams": 4, "length_penalty": 1.0, "early_stopping": False, "ends": 1, "max_tokens": 12, "min_tokens": 0,
            "repetition_penalty": 1.0, "no_repeat_ngram_size": 0}
    for table in range(len(SHARPNESS)):
        for n_beams in (2, 3, 4, 7, 16):
            for early in (False, True, "never"):
                for penalty in (-1.0, 0.0, 0.5, 1.0, 2.0):
                    for ends in (0, 1, 3):
                        yield none | {"table": table, "n_beams": n_beams, "early_stopping": early, "length_penalty": penalty,
                                      "ends": ends, "max_tokens": 12}
        for more in ({"max_tokens": 1}, {"max_tokens": 2}, {"max_tokens": 60}, {"max_tokens": 60, "ends": 0}, {"min_tokens": 7},
                     {"repetition_penalty": 1.4}, {"repetition_penalty": 0.7}, {"no_repeat_ngram_size": 1},
                     {"no_repeat_ngram_size": 2, "max_tokens": 30}, {"min_tokens": 12, "ends": 3}):
            for early in (False, True, "never"):
                yield none | {"table": table, "early_stopping": early} | more


def search(model, case, prompt):
    ends = list(range(case["ends"]))
    config = GenerationConfig(num_beams=case["n_beams"], num_return_sequences=case["n_beams"], do_sample=False,
                              length_penalty=case["length_penalty"], early_stopping=case["early_stopping"],
                              eos_token_id=ends or None, pad_token_id=VOCABULARY - 1, max_new_tokens=case["max_tokens"],
                              min_new_tokens=case["min_tokens"] or None, repetition_penalty=case["repetition_penalty"],
                              no_repeat_ngram_size=case["no_repeat_ngram_size"] or None, use_cache=False,
                              return_dict_in_generate=True, output_scores=True, output_logits=True)
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                             generation_config=config)
    replies = []
    for score, row, beams in zip(out.sequences_scores, out.sequences, out.beam_indices):
        n_tokens = int((beams >= 0).sum())
        replies.append([float(score), row[len(prompt):len(prompt) + n_tokens].tolist()])
    return replies


def is_close(replies):
    scores = [score for score, _ in replies]
    return any(abs(a - b) <= 1e-6 * (1 + abs(a)) for a, b in zip(scores, scores[1:]))


def make():
    random = np.random.RandomState(7)
    made = tables()
    models = [TableModel(TableConfig(vocab_size=VOCABULARY), table) for table in made]
    wide = [TableModel(TableConfig(vocab_size=VOCABULARY), table.astype(np.float64)).double() for table in made]
    listed, n_left_out = [], 0
    for case in cases():
        prompt = random.randint(N_ENDS, VOCABULARY, size=3).tolist()
        replies = search(models[case["table"]], case, prompt)
        if is_close(replies) or \
                [tokens for _, tokens in replies] != [tokens for _, tokens in search(wide[case["table"]], case, prompt)]:
            n_left_out += 1
            continue
        listed.append(case | {"prompt": prompt, "replies": replies})
    return np.stack(made), listed, n_left_out


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed files")
    check = parser.parse_args().check
    made, listed, n_left_out = make()
    print(f"{len(listed)} cases, {n_left_out} left out")
    if not check:
        made.tofile(os.path.join(HERE, "beams.f32"))
        with open(os.path.join(HERE, "beams.json"), "w") as file:
            file.write('{"vocabulary": %d, "tables": %d, "cases": [\n' % (VOCABULARY, len(SHARPNESS)))
            file.write(",\n".join(json.dumps(case) for case in listed) + "\n]}\n")
        return
    with open(os.path.join(HERE, "beams.json")) as file:
        old = json.load(file)["cases"]
    same = np.array_equal(np.fromfile(os.path.join(HERE, "beams.f32"), np.float32), made.ravel()) and len(old) == len(listed)
    for a, b in zip(old, listed):
        same = same and a["prompt"] == b["prompt"] and [x[1] for x in a["replies"]] == [x[1] for x in b["replies"]] and \
            np.allclose([x[0] for x in a["replies"]], [x[0] for x in b["replies"]], atol=2e-5)
    sys.exit(0 if same else "beams.json or beams.f32 differs")


if __name__ == "__main__":
    main()
