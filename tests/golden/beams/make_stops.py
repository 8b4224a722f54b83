#!/usr/bin/env python3
"""Makes stops.json: beam searches of Transformers that stop strings end.

    v/bin/python make_stops.py           # the virtual environment of ../models/make.py
    v/bin/python make_stops.py --check

The models are the tables of make.py. A token's text is one of TEXTS, some of them parts of a character; texts of prompts are in no stop
string, since here none begins in a prompt.

    stops.json    texts: of each token, in hexadecimal; cases: as in beams.json, with stops

A case is left out where the order of sums decides, as in make.py.
"""
import argparse
import itertools
import json
import os
import sys

import numpy as np
import torch
from tokenizers import Tokenizer, decoders, models
from transformers import GenerationConfig, PreTrainedTokenizerFast
from transformers.convert_slow_tokenizer import bytes_to_unicode

import make as tables_of

HERE = os.path.dirname(os.path.abspath(__file__))
N_PROMPT_IDS = 12  # the last ones
PARTS = [b"\xc3", b"\xa9", b"\xc3\xa9", b"a\xc3", b"\xa9b", b"\xe2", b"\x82", b"\xac", b"\xe2\x82", b"\x82\xac", b" a", b" b", b"a ", b"b "]
WORDS = ["".join(word) for n in (1, 2, 3) for word in itertools.product("abc", repeat=n)]
TEXTS = ([b"<%d>" % i for i in range(tables_of.N_ENDS)] + [word.encode() for word in WORDS] + PARTS)
TEXTS += [b"x" * (i + 1) for i in range(tables_of.VOCABULARY - len(TEXTS) - N_PROMPT_IDS)]
TEXTS += [b"y" * (i + 1) for i in range(N_PROMPT_IDS)]
STOPS = ["a", "b", "c", "ab", "ba", "cc", "aab", "abab", "cab", "abcabc", "aaaa", "é", "aé", "éb", "€", " a", "b a", "bb bb", "xxx", "x", "xa",
         "<3>", "caab", "bcbcb"]


def tokenizer():
    shown = bytes_to_unicode()
    vocabulary = {"".join(shown[byte] for byte in text): i for i, text in enumerate(TEXTS)}
    assert len(vocabulary) == tables_of.VOCABULARY
    made = Tokenizer(models.BPE(vocab=vocabulary, merges=[]))
    made.decoder = decoders.ByteLevel()
    return PreTrainedTokenizerFast(tokenizer_object=made)


def cases(random):
    for table in range(len(tables_of.SHARPNESS)):
        for n_beams in (2, 3, 4, 7, 16):
            for early in (False, True, "never"):
                for penalty in (-1.0, 0.5, 1.0, 2.0):
                    stops = random.choice(len(STOPS), size=random.randint(1, 5), replace=False)
                    yield {"table": table, "n_beams": n_beams, "early_stopping": early, "length_penalty": penalty,
                           "ends": int(random.choice((0, 1, 3))), "max_tokens": int(random.choice((1, 5, 12, 30))), "min_tokens": 0,
                           "repetition_penalty": 1.0, "no_repeat_ngram_size": 0, "stops": [STOPS[i] for i in stops]}


def search(model, case, prompt, texts):
    ends = list(range(case["ends"]))
    config = GenerationConfig(num_beams=case["n_beams"], num_return_sequences=case["n_beams"], do_sample=False,
                              length_penalty=case["length_penalty"], early_stopping=case["early_stopping"],
                              eos_token_id=ends or None, pad_token_id=tables_of.VOCABULARY - 1, max_new_tokens=case["max_tokens"],
                              stop_strings=case["stops"], use_cache=False, return_dict_in_generate=True, output_scores=True,
                              output_logits=True)
    with torch.no_grad():
        out = model.generate(torch.tensor([prompt]), attention_mask=torch.ones(1, len(prompt), dtype=torch.long),
                             generation_config=config, tokenizer=texts)
    replies = []
    for score, row, beams in zip(out.sequences_scores, out.sequences, out.beam_indices):
        n_tokens = int((beams >= 0).sum())
        replies.append([float(score), row[len(prompt):len(prompt) + n_tokens].tolist()])
    return replies


def make():
    random = np.random.RandomState(11)
    made, texts = tables_of.tables(), tokenizer()
    models_of = [tables_of.TableModel(tables_of.TableConfig(vocab_size=tables_of.VOCABULARY), table) for table in made]
    wide = [tables_of.TableModel(tables_of.TableConfig(vocab_size=tables_of.VOCABULARY), table.astype(np.float64)).double() for table in made]
    listed, n_left_out, n_ended = [], 0, 0
    for case in cases(random):
        prompt = random.randint(tables_of.VOCABULARY - N_PROMPT_IDS, tables_of.VOCABULARY, size=3).tolist()
        replies = search(models_of[case["table"]], case, prompt, texts)
        if tables_of.is_close(replies) or \
                [tokens for _, tokens in replies] != [tokens for _, tokens in search(wide[case["table"]], case, prompt, texts)]:
            n_left_out += 1
            continue
        n_ended += sum(len(tokens) < case["max_tokens"] and tokens[-1] >= case["ends"] for _, tokens in replies)
        listed.append(case | {"prompt": prompt, "replies": replies})
    return listed, n_left_out, n_ended


def main():
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--check", action="store_true", help="compare with the committed file")
    check = parser.parse_args().check
    listed, n_left_out, n_ended = make()
    print(f"{len(listed)} cases, {n_left_out} left out; stop strings ended {n_ended} replies")
    path = os.path.join(HERE, "stops.json")
    if not check:
        with open(path, "w") as file:
            file.write('{"texts": %s, "cases": [\n' % json.dumps([text.hex() for text in TEXTS]))
            file.write(",\n".join(json.dumps(case) for case in listed) + "\n]}\n")
        return
    with open(path) as file:
        old = json.load(file)["cases"]
    same = len(old) == len(listed)
    for a, b in zip(old, listed):
        same = same and a["prompt"] == b["prompt"] and a["stops"] == b["stops"] and \
            [x[1] for x in a["replies"]] == [x[1] for x in b["replies"]] and \
            np.allclose([x[0] for x in a["replies"]], [x[0] for x in b["replies"]], atol=2e-5)
    sys.exit(0 if same else "stops.json differs")


if __name__ == "__main__":
    main()
