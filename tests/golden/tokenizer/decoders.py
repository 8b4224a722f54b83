#!/usr/bin/env python3
"""Makes decoders.json: what the `tokenizers` package (requirements.txt) makes of ids with chains of decoders in many orders, put into
the tokenizers of this folder.

    pip install -r requirements.txt && python decoders.py      writes beside itself
"""
import json
import random
from pathlib import Path

from tokenizers import Tokenizer

HERE = Path(__file__).parent
ROWS = 24


def replace(what, by, kind="String"):
    return {"type": "Replace", "pattern": {kind: what}, "content": by}


def strip(start, stop, content=" "):
    return {"type": "Strip", "content": content, "start": start, "stop": stop}


def metaspace(scheme):
    return {"type": "Metaspace", "replacement": "\u2581", "prepend_scheme": scheme, "split": True}


FUSE, BYTES, FALLBACK = {"type": "Fuse"}, {"type": "ByteLevel", "add_prefix_space": True, "trim_offsets": True, "use_regex": True}, {
    "type": "ByteFallback"}
SPACE = replace("\u2581", " ")
CHAINS = {
    "llama2": [
        [FALLBACK, FUSE, SPACE, strip(1, 0)],
        [FALLBACK, SPACE, FUSE, replace("\n ", "\n"), strip(1, 2)],
        [FALLBACK, SPACE, strip(1, 0), FUSE],
        [FALLBACK, replace("\n", ""), SPACE, FUSE],
        [replace("\u2581", " ", "Regex"), FUSE, replace("the", "a", "Regex"), replace("  ", " ")],
        [metaspace("first"), FALLBACK, FUSE],
        [metaspace("always"), FALLBACK, FUSE, strip(2, 1)],
        [FALLBACK, metaspace("never"), FUSE, strip(1, 0)],
        [FALLBACK, metaspace("first"), FUSE, replace(" a", "a"), replace("aa", "a"), strip(0, 3, "e")],
        [FALLBACK, FUSE, metaspace("always")],
        [FALLBACK, FUSE, metaspace("never"), strip(1, 1)],
        [replace("e", "\u00e9"), FALLBACK, replace("\u00e9", "e"), FUSE, FUSE, replace("\u00e9", "e")],
        [strip(0, 1, "e"), FUSE],
    ],
    "gpt2": [
        [BYTES, strip(1, 0)],
        [BYTES, strip(1, 0), replace("\n ", "\n")],
        [BYTES, replace(" the", "the"), FUSE, strip(2, 3)],
        [BYTES, replace("\ufffd\ufffd", "\ufffd"), strip(0, 2, "\ufffd")],
        [BYTES, metaspace("never")],
    ],
    "bert": [
        [{"type": "WordPiece", "prefix": "##", "cleanup": False}, FUSE, replace(" the", ""), strip(1, 1)],
    ],
}


def ids_of(chance, tokenizer, common):
    """Of the whole vocabulary and, more often, of the tokens that the chains change."""
    n_ids = tokenizer.get_vocab_size()
    return [chance.choice(common) if common and chance.random() < 0.6 else chance.randrange(n_ids) for _ in range(chance.randint(0, 12))]


def rows(tokenizer, chance):
    """Without what the package cannot do: its Strip panics where a text is shorter than what may be left out."""
    common = [i for i in range(tokenizer.get_vocab_size())
              if (token := tokenizer.id_to_token(i)) and (token in ("<0x0A>", "<0xE2>", "<0x96>", "<0x81>", "<0x20>", "e", "a", "\u010a", "\u0120")
                                                          or "\u2581" in token or "the" in token)]
    made = []
    while len(made) < ROWS:
        ids = ids_of(chance, tokenizer, common)
        try:
            made.append({"ids": ids, "text": tokenizer.decode(ids, skip_special_tokens=False)})
        except BaseException as panic:  # pyo3's panics are no Exception
            assert type(panic).__name__ == "PanicException", panic
    return made


def main():
    chance = random.Random(5)
    cases = []
    for name, chains in CHAINS.items():
        document = json.loads((HERE / name / "tokenizer.json").read_text())
        for chain in chains:
            decoder = {"type": "Sequence", "decoders": chain}
            tokenizer = Tokenizer.from_str(json.dumps(document | {"decoder": decoder}))
            cases.append({"tokenizer": name, "decoder": decoder, "rows": rows(tokenizer, chance)})
    lines = ",\n".join(json.dumps(case) for case in cases)
    (HERE / "decoders.json").write_text(f'{{"cases": [\n{lines}\n]}}\n')


if __name__ == "__main__":
    main()
