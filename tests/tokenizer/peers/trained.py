"""Trained tokenizers read strings of Unicode soup and write ids exactly as the tokenizers package does, whole and token by token.

    trained.py TOKENIZER_PIPE FOLDER N_STRINGS       of each kind; FOLDER is for the tokenizers
"""
import json
import random
import sys
from pathlib import Path

from tokenizers import Tokenizer, pre_tokenizers

import soup
from pipe import Pipe

sys.path.insert(0, str(Path(__file__).resolve().parents[2] / "golden" / "tokenizer"))
import make  # noqa: E402  the kinds of the goldens, here with more merges
import words  # noqa: E402

make.CORPUS += "".join(soup.FRAGMENTS).replace("\0", "") * 3 + "\n".join(
    "".join(chr(97 + c % 13) for c in s.encode()) for s in soup.strings(800, 7))


def metaspace(scheme, split):
    tokenizer = make.pieces(n_merges=900)
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme=scheme, split=split)
    make.special(tokenizer, "<s>", "</s>")
    return tokenizer


KINDS = {make_one.__name__: make_one for make_one in (
    make.llama2, make.mistral, make.gemma, make.metaspace, make.metaspace_never, make.metaspace_first, make.holes,
    make.holes_unk, make.holes_fused)}
KINDS.update({make_one.__name__: make_one for make_one in (*words.KINDS, *words.LARGE)})
KINDS.update({f"{scheme}_{'split' if split else 'whole'}": lambda scheme=scheme, split=split: metaspace(scheme, split)
              for scheme in ("always", "first", "never") for split in (True, False)})


def differences(name, what, inputs, ours, theirs):
    wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    for i in wrong[:3]:
        print(f"{name}: {what}({inputs[i]!r})\n  is        {ours[i]!r}\n  should be {theirs[i]!r}")
    assert len(ours) == len(theirs)
    return len(wrong)


def compare(name, tokenizer, pipe, n):
    texts = soup.strings(n, f"{name} texts")
    often = [i % 2 == 0 for i in range(n)]
    ids = [tokenizer.encode(t, add_special_tokens=a).ids for t, a in zip(texts, often)]
    wrong = differences(name, "encode", texts, pipe.encode(texts, often), ids)

    chance = random.Random(f"{name} ids")
    n_ids = tokenizer.get_vocab_size(with_added_tokens=True)
    ids += [[chance.randrange(n_ids) for _ in range(chance.randrange(24))] for _ in range(n)]
    often = [i % 3 == 0 for i in range(2 * n)]
    whole = [tokenizer.decode(i, skip_special_tokens=s) for i, s in zip(ids, often)]
    decoded = pipe.decode(ids, often)
    wrong += differences(name, "decode", ids, [d[0] for d in decoded], whole)
    return wrong + differences(name, "stream", ids, [d[1] for d in decoded], whole)


def main():
    binary, folder, n = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3])
    wrong = 0
    for name, make_one in KINDS.items():
        place = folder / name
        place.mkdir(parents=True, exist_ok=True)
        state = json.loads(make_one().to_str())
        (place / "tokenizer.json").write_text(json.dumps(state, ensure_ascii=False), encoding="utf-8")
        found = compare(name, Tokenizer.from_str(json.dumps(state)), Pipe(binary, place), n)
        print(f"{name}: {len(state['model']['vocab'])} tokens, {n} strings, {2 * n} lists of ids, {found} differ", flush=True)
        wrong += found
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
