"""Tokenizers in other files than tokenizer.json: models of SentencePiece trained here, and a tekken.json, with the ids that the
`sentencepiece` and `tiktoken` packages (requirements.txt) give; and larger ones for tests/tokenizer/peers.

    pip install -r requirements.txt && python other_files.py      writes beside itself
"""
import base64
import io
import json
from pathlib import Path

import sentencepiece
import tiktoken

import make

KINDS = {
    "spm_unigram": {"model_type": "unigram", "byte_fallback": True, "user_defined_symbols": ["<user>"], "control_symbols": ["<ctl>"]},
    "spm_bpe": {"model_type": "bpe", "byte_fallback": True, "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "spm_plain": {"model_type": "bpe", "add_dummy_prefix": False, "normalization_rule_tsv": True},
}
LARGE = {
    "unigram_nfkc": {"model_type": "unigram"},
    "unigram_folded": {"model_type": "unigram", "normalization_rule_name": "nmt_nfkc_cf", "byte_fallback": True},
    "unigram_spaces": {"model_type": "unigram", "normalization_rule_name": "identity", "remove_extra_whitespaces": False},
    "unigram_no_prefix": {"model_type": "unigram", "add_dummy_prefix": False, "byte_fallback": True},
    "bpe_nfkc": {"model_type": "bpe", "normalization_rule_name": "nfkc", "byte_fallback": True},
    "bpe_no_prefix": {"model_type": "bpe", "add_dummy_prefix": False, "remove_extra_whitespaces": False,
                      "normalization_rule_name": "identity", "byte_fallback": True},
}
RULES = "FB01\t66 69\n65 301\tE9\n61 323 302\t1EAD\n3000\t20\nA\t20\n200B\t\n41\t61\n"


def train(how, size, corpus, folder):
    """The bytes of tokenizer.model. The charsmap of NFKC is large: goldens that normalize have rules of their own."""
    out = io.BytesIO()
    how = dict(how)
    if how.pop("normalization_rule_tsv", False):
        (folder / "rules.tsv").write_text(RULES, encoding="utf-8")
        how["normalization_rule_tsv"] = str(folder / "rules.tsv")
    sentencepiece.SentencePieceTrainer.train(sentence_iterator=iter(corpus), model_writer=out, vocab_size=size, minloglevel=2,
                                             hard_vocab_limit=False, num_threads=1, **how)
    (folder / "rules.tsv").unlink(missing_ok=True)
    return out.getvalue()


def is_comparable(text):
    """SentencePiece reads no control symbols in a text, and strips U+2581 as it does spaces."""
    return not any(sign in text for sign in ("\0", "\u2581", "<s>", "</s>", "<unk>", "<ctl>", "<user>"))


def tekken(n_special=30, n_tokens=700):
    """The tokens of a byte-level BPE by their ranks: what tiktoken trains for, with some more in the file than are used."""
    state = json.loads(make.build(make.pre_tokenizers.Sequence([make.split(make.TEKKEN), make.byte_level()]),
                                  n_merges=n_tokens - 256).to_str())
    alphabet = {c: b for b, c in zip(*bytes_and_characters())}
    ranked = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    tokens = [bytes(alphabet[c] for c in token) for token in ranked]
    tokens = [bytes([b]) for b in range(256)] + [t for t in tokens if len(t) > 1]
    return {"config": {"pattern": make.TEKKEN, "num_vocab_tokens": len(tokens), "default_vocab_size": n_special + len(tokens) - 20,
                       "default_num_special_tokens": n_special, "version": "v3"},
            "vocab": [{"rank": i, "token_bytes": base64.b64encode(t).decode(), "token_str": None} for i, t in enumerate(tokens)]}


def bytes_and_characters():
    plain = [*range(0x21, 0x7f), *range(0xa1, 0xad), *range(0xae, 0x100)]
    others = [b for b in range(256) if b not in plain]
    return plain + others, [chr(b) for b in plain] + [chr(0x100 + i) for i in range(len(others))]


def encoding(document):
    """tiktoken's, of a tekken.json; its ids lack the special ones before them."""
    config = document["config"]
    n = config["default_vocab_size"] - config["default_num_special_tokens"]
    ranks = {base64.b64decode(token["token_bytes"]): token["rank"] for token in document["vocab"][:n]}
    return tiktoken.Encoding("tekken", pat_str=config["pattern"], mergeable_ranks=ranks, special_tokens={})


def write_expected(folder, strings, ids):
    make.write(f"{folder.name}/expected.json", {"strings": strings, "ids": ids})


def main():
    corpus = [line for line in (make.CORPUS * 3).split("\n") if line.strip()]
    strings = [s for s in make.STRINGS + make.FRAGMENTS if is_comparable(s)]
    for batch in range(10):
        random = make.Random(7000 + batch)
        strings += [s for s in (make.random_string(random) for _ in range(30)) if is_comparable(s)]
    for name, how in KINDS.items():
        folder = make.HERE / name
        folder.mkdir(exist_ok=True)
        model = train({"normalization_rule_name": "identity", **how} if "normalization_rule_tsv" not in how else how, 600, corpus, folder)
        (folder / "tokenizer.model").write_bytes(model)
        processor = sentencepiece.SentencePieceProcessor(model_proto=model)
        write_expected(folder, strings, [processor.encode(s) for s in strings])
    folder = make.HERE / "tekken_file"
    folder.mkdir(exist_ok=True)
    document = tekken()
    make.write("tekken_file/tekken.json", document)
    ids = encoding(document)
    write_expected(folder, strings, [[i + 30 for i in ids.encode(s, disallowed_special=())] for s in strings])


if __name__ == "__main__":
    main()
