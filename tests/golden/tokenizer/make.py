#!/usr/bin/env python3
"""Makes the tokenizer goldens: small tokenizers with the split patterns, normalizers and templates
of well-known models, and what the `tokenizers` package (requirements.txt) does with them.

    pip install -r requirements.txt && python make.py      writes beside itself
    python make.py --check      what the package does with the committed tokenizers; training is not repeated: it breaks ties at random

strings.json           strings written out, and the fragments of the random ones
NAME/tokenizer.json    a tokenizer of a few hundred tokens
NAME/expected.json     ids of each string, and hashes over batches of random strings and ids; the
                       generator below is written again in tests/tokenizer/golden_test.c
"""
import json
import sys
from pathlib import Path

from tokenizers import AddedToken, Regex, Tokenizer, decoders, models, normalizers
from tokenizers import pre_tokenizers, processors, trainers

HERE = Path(__file__).parent
BATCHES, PER_BATCH = 90, 30
MASK = (1 << 64) - 1

LLAMA3 = (r"(?i:'s|'t|'re|'ve|'m|'ll|'d)|[^\r\n\p{L}\p{N}]?\p{L}+|\p{N}{1,3}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n]*|\s*[\r\n]+|\s+(?!\S)|\s+")
QWEN2 = LLAMA3.replace(r"\p{N}{1,3}", r"\p{N}")
TEKKEN = (r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]*[\p{Ll}\p{Lm}\p{Lo}\p{M}]+|"
          r"[^\r\n\p{L}\p{N}]?[\p{Lu}\p{Lt}\p{Lm}\p{Lo}\p{M}]+[\p{Ll}\p{Lm}\p{Lo}\p{M}]*|\p{N}|"
          r" ?[^\s\p{L}\p{N}]+[\r\n/]*|\s*[\r\n]+|\s+(?!\S)|\s+")
CJK = "[\u4e00-\u9fa5\u3040-\u309f\u30a0-\u30ff]+"

CORPUS = """The quick brown fox jumps over the lazy dog. It's what they've said: I'm sure we'll go,
you'd better; don't! The year 1984, the years 2001 and 2023; 3.14159 and 1,000,000.
    def main(argc, argv):\n        return argc + 1  # the end\n\n\n\tif (x == 10) { y = "a"; }
Größe, naïveté, œuvre, cafe\u0301, Ἐν ἀρχῇ ἦν ὁ λόγος, В начале было слово, в начале.
太初有道，道与神同在。はじめに言があった。태초에 말씀이 계시니라 बैठक में हिन्दी
בראשית ברא אלהים في البدء كان الكلمة 🙂 👍🏽 👨‍👩‍👧‍👦 🇩🇪 the the the and and of of to to in in that that
"""

FRAGMENTS = [
    "the", " the", " quick", "'s", "'S", "'ll", "'LL", "'re", "'\u017f", "don't", "I'm", " a", "ing",
    "1984", "12345", "3.14", "\r\n", "\n\n", "\t", "   ", "     ", " \n ", "\u00a0", "\u3000",
    "\u180e", "\u2028", "\u0085", "e\u0301", "\u00e9", "a\u0323\u0302", "a\u0302\u0323", "\u1112\u1161\u11ab",
    "\u212b", "\u0344", "\u2126", "\ufb01", "\u0958", "\ud55c", "<|endoftext|>", "<|bos|>", "<|eos|>",
    "<|im_start|>", "<tool>", "<lstrip>", " <lstrip>", "<rstrip> ", "<both>", " <both>  ", "<word>",
    "a<word>", "<word>b", " <word> ", "<caf\u00e9>", "<cafe\u0301>", "<|im", "<", "|>", "-", ",", "_", "--",
    "\U0001f44d\U0001f3fd", "\U0001f468\u200d\U0001f469", "\ufe0f", "\u200d", "\u4e2d\u6587", "\u304b\u306a",
    "\u05d1\u05b0", "\u0641\u064a", "\u0e01\u0e33", "ABC", "aBc", "XMLHttp", "/", "...", "?!", "$", "\x00",
]

STRINGS = [
    "", " ", "  ", "   a", "a  ", "a   b", "\n", "\n\n", "\r\n", " \n", "\n ", "a\nb", "a \n b", "\t\tx",
    "Hello, world!", "hello world", "The quick brown fox jumps over the lazy dog.", "It's", "IT'S",
    "they'll've", "THEY'LL", "it'\u017f", "'tis", "' s", "I'M we'Re you'D", "1", "12", "123", "1234", "1234567",
    "3.14159", "1,000", "x1y22z333", "\u0661\u0662\u0663\u0664", "\u00b2\u00bd\u2163\u2460", "caf\u00e9", "cafe\u0301",
    "a\u0323\u0302 a\u0302\u0323", "\u212b\u2126", "\u1112\u1161\u11ab\u1100\u1161", "\ud55c\uae00", "\u0344", "\u0958",
    "\u4e2d\u6587\u5206\u8bcd", "\u3053\u3093\u306b\u3061\u306f\u30c6\u30b9\u30c8", "\ud0dc\ucd08\uc5d0",
    "\u05d1\u05b0\u05bc\u05e8\u05b5\u05d0\u05e9\u05b4\u05c1\u05d9\u05ea", "\u0641\u064a \u0627\u0644\u0628\u062f\u0621",
    "\u0906\u0926\u093f \u092e\u0947\u0902", "\u0e01\u0e33\u0e25", "\U0001f642", "\U0001f44d\U0001f3fd",
    "\U0001f468\u200d\U0001f469\u200d\U0001f467", "\U0001f1e9\U0001f1ea\U0001f1eb", "\u2764\ufe0f", "\U0010ffff",
    "\u00a0a\u00a0", "\u3000b", "a\u180eb \u180e", "\u200b\u200d", "\u0085\u2028\u2029", "\ufeffx", "\x00\x01\x7f",
    "!!!", "--", "a-b--c", "a,b,,c,", "a_b__c", "http://x.org/a?b=c", "def f(x):\n    return x\n",
    "\n\n\n\nx", "   \n   \n  y", "a\u0301\u0301\u0301", "\u0301", "<|endoftext|>", "a<|endoftext|>b",
    "<|bos|>x<|eos|>", " <lstrip> ", "  <lstrip>x", "x<rstrip>   y", "x <rstrip> \n y", "  <both>  ",
    "a <both> <both> b", "<both><lstrip> <both>", "<rstrip>  <lstrip>", "<word>", "a<word>", "<word>a",
    "<word> <word>", ".<word>.", "\u00e9<word>", "<word>\u0301", "_<word>", "\u200d<word>", "<caf\u00e9>",
    "<cafe\u0301>", "x <cafe\u0301> y", "<tool><tool>", "<|im_start|>user\nhi<|im_end|>\n", "<|im_start", "<|",
    "a" * 70, "ab" * 60, " " * 65, "=" * 66, "the" * 30, "\u00e9" * 40, "1" * 65,
    "unbelievable", "zzqx", " the the the", "theand", "returnof", "AaBbCC", "\u01c5a\u02b0\u00aa",
]


class Random:
    """splitmix64"""

    def __init__(self, seed):
        self.state = seed

    def below(self, n):
        self.state = (self.state + 0x9e3779b97f4a7c15) & MASK
        z = self.state
        z = ((z ^ (z >> 30)) * 0xbf58476d1ce4e5b9) & MASK
        z = ((z ^ (z >> 27)) * 0x94d049bb133111eb) & MASK
        return (z ^ (z >> 31)) % n


RANGES = [(0x61, 26), (0x30, 10), (0x21, 94), (0xc0, 320), (0x300, 112), (0x370, 256), (0x5d0, 80),
          (0x900, 128), (0x1e00, 512), (0x2000, 112), (0x3041, 86), (0x4e00, 2000), (0xac00, 11172),
          (0x1f600, 80)]


def random_string(random):
    parts = []
    for _ in range(1 + random.below(14)):
        which = random.below(3 + len(RANGES))
        if which < 3:
            parts.append(FRAGMENTS[random.below(len(FRAGMENTS))])
        else:
            first, n = RANGES[which - 3]
            parts.append("".join(chr(first + random.below(n)) for _ in range(1 + random.below(4))))
    return "".join(parts)


def fnv(state, data):
    for byte in data:
        state = ((state ^ byte) * 0x100000001b3) & MASK
    return state


START = 0xcbf29ce484222325


def encode_hash(tokenizer, batch):
    random = Random(1000 + batch)
    state = START
    tokenizer.encode_special_tokens = batch % 3 == 2
    for _ in range(PER_BATCH):
        ids = tokenizer.encode(random_string(random), add_special_tokens=batch % 3 == 1).ids
        state = fnv(state, b"".join(i.to_bytes(4, "little") for i in ids) + b"\xff\xff\xff\xff")
    tokenizer.encode_special_tokens = False
    return f"{state:016x}"


def decode_hash(tokenizer, batch):
    random = Random(2000 + batch)
    state = START
    n = tokenizer.get_vocab_size(with_added_tokens=True)
    for _ in range(PER_BATCH):
        ids = [random.below(n) for _ in range(random.below(20))]
        text = tokenizer.decode(ids, skip_special_tokens=batch % 2 == 1)
        state = fnv(state, text.encode() + b"\xff")
    return f"{state:016x}"


def split(pattern, behavior="isolated", invert=False):
    return pre_tokenizers.Split(Regex(pattern), behavior, invert)


def byte_level(prefix=False, regex=False):
    return pre_tokenizers.ByteLevel(add_prefix_space=prefix, use_regex=regex)


def build(pre_tokenizer, normalizer=None, n_merges=150, alphabet=pre_tokenizers.ByteLevel.alphabet(),
          special_tokens=(), **model):
    tokenizer = Tokenizer(models.BPE(**model))
    tokenizer.pre_tokenizer = pre_tokenizer
    if normalizer:
        tokenizer.normalizer = normalizer
    tokenizer.decoder = decoders.ByteLevel()
    tokenizer.post_processor = processors.ByteLevel(trim_offsets=False)
    trainer = trainers.BpeTrainer(vocab_size=256 + n_merges, show_progress=False,
                                  initial_alphabet=alphabet, special_tokens=list(special_tokens))
    tokenizer.train_from_iterator([CORPUS] * 3, trainer)
    return tokenizer


def flagged(special=False):
    return [AddedToken("<lstrip>", lstrip=True, special=special, normalized=False),
            AddedToken("<rstrip>", rstrip=True, special=special, normalized=False),
            AddedToken("<both>", lstrip=True, rstrip=True, special=special, normalized=True),
            AddedToken("<word>", single_word=True, special=special, normalized=False),
            AddedToken("<caf\u00e9>", special=special, normalized=True)]


def special(tokenizer, *names):
    tokenizer.add_special_tokens([AddedToken(n, special=True, normalized=False) for n in names])


def gpt2():
    tokenizer = build(byte_level(regex=True))
    special(tokenizer, "<|endoftext|>")
    return tokenizer


def gpt2_prefix():
    tokenizer = build(byte_level(prefix=True, regex=True))
    special(tokenizer, "<|endoftext|>")
    tokenizer.add_tokens(flagged())
    return tokenizer


def llama3():
    """With whole words that no merges lead to, which ignore_merges finds all the same."""
    state = json.loads(build(pre_tokenizers.Sequence([split(LLAMA3), byte_level()])).to_str())
    model = state["model"]
    model["ignore_merges"] = True
    for word in ("unbelievable", "zzqx", "\u0120quick", "=" * 66, "\u00c3\u00a9" * 40):
        model["vocab"][word] = len(model["vocab"])
    tokenizer = Tokenizer.from_str(json.dumps(state))
    special(tokenizer, "<|bos|>", "<|eos|>")
    tokenizer.post_processor = processors.Sequence([
        processors.ByteLevel(trim_offsets=False),
        processors.TemplateProcessing(
            single="<|bos|> $A", pair="<|bos|> $A <|bos|> $B:1",
            special_tokens=[("<|bos|>", tokenizer.token_to_id("<|bos|>"))])])
    return tokenizer


def qwen2():
    tokenizer = build(pre_tokenizers.Sequence([split(QWEN2), byte_level()]), normalizers.NFC())
    special(tokenizer, "<|endoftext|>", "<|im_start|>", "<|im_end|>")
    tokenizer.add_tokens([AddedToken("<tool>", normalized=False)] + flagged())
    return tokenizer


def tekken():
    tokenizer = build(pre_tokenizers.Sequence([split(TEKKEN), byte_level()]))
    special(tokenizer, "<|bos|>", "<|eos|>")
    tokenizer.add_special_tokens(flagged(special=True))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<|bos|> $A <|eos|>", special_tokens=[("<|bos|>", 406), ("<|eos|>", 407)])
    return tokenizer


def stages():
    """Every behavior of Split, Digits, and the stages of DeepSeek, one after the other."""
    return build(pre_tokenizers.Sequence([
        pre_tokenizers.Split("_", "removed"), split("-", "merged_with_next"),
        split(",", "merged_with_previous"), split(CJK), split(r"\p{N}{1,3}"),
        split(r"\p{P}", "contiguous"), split(r"[A-Z]", "merged_with_next", True),
        byte_level(prefix=True)]))


def digits():
    return build(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)]))


def holes():
    """Only the bytes of the corpus, in the manner of SmolLM2: others are left out."""
    return build(pre_tokenizers.Sequence([
        pre_tokenizers.Digits(individual_digits=True), byte_level(regex=True)]), alphabet=[])


def holes_unk(fuse_unk=False):
    return build(byte_level(regex=True), alphabet=[], special_tokens=["<unk>"], unk_token="<unk>",
                 fuse_unk=fuse_unk)


def holes_fused():
    return holes_unk(fuse_unk=True)


SPACE = "\u2581"


def pieces(n_merges=150, lacking=(), **model):
    """In the manner of SentencePiece: <unk>, <s>, </s>, a token for each byte but those lacking, and
    words that begin with SPACE."""
    tokenizer = Tokenizer(models.BPE())
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.train_from_iterator([CORPUS] * 3, trainers.BpeTrainer(
        vocab_size=180 + n_merges, show_progress=False))
    state = json.loads(tokenizer.to_str())
    known = ["<unk>", "<s>", "</s>"] + [f"<0x{b:02X}>" for b in range(256) if b not in lacking]
    trained = sorted(state["model"]["vocab"], key=state["model"]["vocab"].get)
    state["model"]["vocab"] = {token: i for i, token in enumerate(known + trained)}
    state["model"].update(unk_token="<unk>", byte_fallback=True, fuse_unk=True)
    state["model"].update(model)
    state["pre_tokenizer"] = None
    tokenizer = Tokenizer.from_str(json.dumps(state))
    tokenizer.post_processor = processors.TemplateProcessing(
        single="<s> $A", special_tokens=[("<s>", 1)])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse(),
        decoders.Strip(" ", 1, 0)])
    return tokenizer


def llama2(normalized=False):
    tokenizer = pieces()
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Prepend(SPACE), normalizers.Replace(" ", SPACE)])
    tokenizer.add_special_tokens([AddedToken(n, special=True, normalized=normalized)
                                  for n in ("<unk>", "<s>", "</s>")])
    tokenizer.add_tokens([token for token in flagged() if normalized or not token.normalized])
    return tokenizer


def llama2_normed():
    """Special tokens that are looked for in normalized text, as Llama-2's first files had them: so
    they are found only at the start of a stretch. Decoding is not compared: version 0.23.3 gives the
    content as normalized, and no longer leaves out such special tokens."""
    return llama2(normalized=True)


def mistral():
    tokenizer = pieces()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first", split=False)
    special(tokenizer, "<unk>", "<s>", "</s>", "<|im_start|>")
    tokenizer.add_tokens(flagged())
    return tokenizer


def gemma():
    tokenizer = pieces(fuse_unk=False, ignore_merges=True, lacking=range(0xe4, 0xe9))
    tokenizer.normalizer = normalizers.Replace(" ", SPACE)
    tokenizer.pre_tokenizer = pre_tokenizers.Split(" ", "merged_with_previous")
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(SPACE, " "), decoders.ByteFallback(), decoders.Fuse()])
    special(tokenizer, "<unk>", "<s>", "</s>")
    return tokenizer


def metaspace():
    """The old spelling (see main), and no bytes to fall back to."""
    tokenizer = pieces(byte_fallback=False, unk_token=None)
    tokenizer.normalizer = normalizers.NFC()
    tokenizer.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="always")
    tokenizer.decoder = decoders.Metaspace(prepend_scheme="always")
    return tokenizer


def metaspace_never():
    """Stages before and after, a pattern in a Replace, and every decoder; fused unknown tokens that
    byte tokens overtake."""
    tokenizer = pieces(lacking=range(0xc3, 0xe0))
    tokenizer.normalizer = normalizers.Sequence([
        normalizers.Replace(Regex(" {2,}"), " "), normalizers.Replace(Regex("[xyz]+"), "w "),
        normalizers.NFC()])
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Digits(), pre_tokenizers.Metaspace(prepend_scheme="never")])
    tokenizer.decoder = decoders.Sequence([
        decoders.Replace(Regex("[e-g]"), "E"), decoders.Strip("t", 2, 0), decoders.ByteFallback(),
        decoders.Metaspace(prepend_scheme="first"), decoders.Fuse(), decoders.Strip("h", 2, 0)])
    return tokenizer


def metaspace_first():
    """Of a piece that is not the first stage's, and with what moves the start of a text."""
    tokenizer = pieces(n_merges=60)
    tokenizer.normalizer = normalizers.Replace(Regex("it|The|\n"), "a")
    tokenizer.pre_tokenizer = pre_tokenizers.Sequence([
        pre_tokenizers.Split(Regex(r"\p{N}"), "removed"),
        pre_tokenizers.Metaspace(prepend_scheme="first")])
    tokenizer.decoder = decoders.Sequence([
        decoders.ByteFallback(), decoders.Metaspace(prepend_scheme="never")])
    return tokenizer


def write(name, value, head=""):
    text = json.dumps(value, ensure_ascii=True, separators=(",", ":"))
    (HERE / name).write_text(text.replace('],[', '],\n[').replace('","', '",\n"') + "\n")


def expected_of(name):
    """What the package does with the tokenizer of that folder."""
    tokenizer = Tokenizer.from_file(str(HERE / name / "tokenizer.json"))
    return {"ids": [tokenizer.encode(s, add_special_tokens=False).ids for s in STRINGS],
            "encode_hashes": [encode_hash(tokenizer, i) for i in range(BATCHES)],
            "decode_hashes": [] if name == "llama2_normed" else [decode_hash(tokenizer, i) for i in range(BATCHES)]}


def check(names):
    failed = [name for name in names if expected_of(name) != json.loads((HERE / name / "expected.json").read_text())]
    for name in failed:
        print(f"{HERE / name / 'expected.json'} differs", file=sys.stderr)
    return 1 if failed else 0


def main():
    import words  # noqa: PLC0415  which imports this file
    kinds = (gpt2, gpt2_prefix, llama3, qwen2, tekken, stages, digits, holes, holes_unk, holes_fused, llama2, llama2_normed, mistral, gemma,
             metaspace, metaspace_never, metaspace_first, *words.KINDS)
    if sys.argv[1:] == ["--check"]:
        return check([make.__name__ for make in kinds])
    write("strings.json", {"strings": STRINGS, "fragments": FRAGMENTS})
    for make in kinds:
        folder = HERE / make.__name__
        folder.mkdir(exist_ok=True)
        state = json.loads(make().to_str())
        if make in (gpt2, llama3):  # the older spelling
            state["model"]["merges"] = [" ".join(m) for m in state["model"]["merges"]]
        if make is metaspace:
            for part in ("pre_tokenizer", "decoder"):
                state[part] = {"type": "Metaspace", "replacement": SPACE, "str_rep": SPACE,
                               "add_prefix_space": True}
        text = json.dumps(state, ensure_ascii=False, separators=(",", ":")) + "\n"
        (folder / "tokenizer.json").write_text(text)
        write(f"{make.__name__}/expected.json", expected_of(make.__name__))


if __name__ == "__main__":
    sys.exit(main())
