"""tokenizer.model and tekken.json: models of SentencePiece trained here and those that the mistral-common package ships, against the
sentencepiece package; its two tekken.json against tiktoken.

    other.py TOKENIZER_PIPE FOLDER N_STRINGS MISTRAL_COMMON      FOLDER is for the tokenizers; the last is a wheel
"""
import json
import sys
import zipfile
from pathlib import Path

import sentencepiece

import soup
from pipe import Pipe
from trained import differences

import make  # the folder of the goldens, which trained.py puts there
import other_files


def compare(name, pipe, strings, expected):
    ids = pipe.encode(strings, [False] * len(strings))
    wrong = differences(name, "encode", strings, ids, expected)
    print(f"{name}: {len(strings)} strings, {wrong} differ", flush=True)
    return wrong


def compare_model(name, model, binary, folder, strings):
    (folder / "tokenizer.model").write_bytes(model)
    processor = sentencepiece.SentencePieceProcessor(model_proto=model)
    return compare(name, Pipe(binary, folder), strings, [processor.encode(s) for s in strings])


def compare_tekken(name, text, binary, folder, strings):
    (folder / "tekken.json").write_text(text, encoding="utf-8")
    document = json.loads(text)
    encoding, n_special = other_files.encoding(document), document["config"]["default_num_special_tokens"]
    expected = [[i + n_special for i in encoding.encode(s, disallowed_special=())] for s in strings]
    return compare(name, Pipe(binary, folder), strings, expected)


def main():
    binary, folder, n, wheel = sys.argv[1], Path(sys.argv[2]), int(sys.argv[3]), sys.argv[4]
    strings = [s for s in soup.strings(n, "other files") if other_files.is_comparable(s)]
    strings += [sign * k for sign in " \t\n=-a" for k in (1, 2, 3, 5, 17, 64, 200)]
    corpus = [line for line in make.CORPUS.split("\n") if line.strip() and "\0" not in line]
    wrong = 0
    for name, how in {**other_files.KINDS, **other_files.LARGE}.items():
        place = folder / name
        place.mkdir()
        wrong += compare_model(name, other_files.train(how, 2600, corpus, place), binary, place, strings)
    with zipfile.ZipFile(wheel) as package:
        for path in sorted(p for p in package.namelist() if "/data/" in p):
            name = Path(path).name
            place = folder / name
            place.mkdir()
            if ".model" in name:
                wrong += compare_model(name, package.read(path), binary, place, strings)
            elif name.startswith("tekken"):
                wrong += compare_tekken(name, package.read(path).decode(), binary, place, strings)
    sys.exit(wrong > 0)


if __name__ == "__main__":
    main()
